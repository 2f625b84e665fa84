#include "worker/data/gzip.h"

#include <zlib.h>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace lockstep {
namespace {

constexpr int kGzipWindow = 16 + MAX_WBITS;  // 16: expect gzip's header and checksum

// Frees zlib's state on every way out.
class Inflater {
 public:
  Inflater() {
    const int result = inflateInit2(&stream_, kGzipWindow);
    CHECK_EQ(result, Z_OK) << "inflateInit2";
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  ~Inflater() { inflateEnd(&stream_); }
  z_stream& stream() { return stream_; }

 private:
  z_stream stream_{};
};

}  // namespace

absl::StatusOr<std::string> Gunzip(std::string_view packed, int64_t bytes_max) {
  // One byte more than allowed, so that a file that fills it all is known to be too long.
  std::string text(static_cast<size_t>(bytes_max) + 1, '\0');
  Inflater inflater;
  z_stream& stream = inflater.stream();
  // zlib's interface is older than const; it only reads.
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  stream.next_out = reinterpret_cast<Bytef*>(text.data());
  stream.avail_out = static_cast<uInt>(text.size());
  CHECK_EQ(stream.avail_in, packed.size());
  CHECK_EQ(stream.avail_out, text.size());
  const int result = inflate(&stream, Z_FINISH);
  if (stream.avail_out == 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("gunzip: more than ", bytes_max, " bytes come out of ", packed.size()));
  }
  if (result != Z_STREAM_END || stream.avail_in != 0) {
    const char* reason = stream.msg != nullptr    ? stream.msg
                         : result == Z_STREAM_END ? "bytes after the end"
                                                  : "the file ends too early";
    return absl::DataLossError(absl::StrCat("gunzip: ", reason, ", after ", stream.total_in, " of ",
                                            packed.size(), " bytes"));
  }
  text.resize(text.size() - stream.avail_out);
  return text;
}

}  // namespace lockstep
