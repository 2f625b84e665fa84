#include "experiments/spec/find.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "experiments/spec/embedded.h"
#include "experiments/spec/names.h"

namespace lockstep {
namespace {

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

absl::Status Unreadable(const std::string& path, const std::string& why) {
  return absl::InvalidArgumentError(absl::StrCat("spec ", path, ": ", why));
}

absl::StatusOr<std::string> ReadFile(std::FILE* file, const std::string& path) {
  std::string text(static_cast<size_t>(kSpecBytesMax) + 1, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file));
  if (std::ferror(file) != 0) {
    return Unreadable(path, absl::StrCat("can't be read: ", std::strerror(errno)));
  }
  if (text.size() > static_cast<size_t>(kSpecBytesMax)) {
    return Unreadable(path,
                      absl::StrCat("is larger than ", kSpecBytesMax, " bytes; is it a spec?"));
  }
  const size_t nul = text.find('\0');
  if (nul != std::string::npos) {
    return Unreadable(
        path, absl::StrCat("not a text file: byte ", nul, " is NUL; a spec is text in UTF-8"));
  }
  return text;
}

// A folder of that name, of an earlier run perhaps, can't be meant.
std::string ShadowNote(const std::string& name) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(name, error)) return "";
  return absl::StrCat("spec ", name, ": this is the ready-made spec; there is also a file ", name,
                      " here: to run that one, write ./", name);
}

}  // namespace

absl::StatusOr<SpecText> FindSpec(const std::string& name_or_path) {
  for (size_t i = 0; i < kEmbeddedSpecCount; ++i) {
    if (name_or_path != kEmbeddedSpecs[i].name) continue;
    return SpecText{absl::StrCat(name_or_path, ".textproto"), kEmbeddedSpecs[i].text,
                    ShadowNote(name_or_path)};
  }
  const std::unique_ptr<std::FILE, CloseFile> file(std::fopen(name_or_path.c_str(), "re"));
  if (file == nullptr && errno == ENOENT) {
    return absl::InvalidArgumentError(
        absl::StrCat("spec \"", name_or_path, "\": no file and no ready-made spec of that name",
                     KnownNames(name_or_path, "specs", KnownSpecs())));
  }
  if (file == nullptr) {
    return Unreadable(name_or_path, absl::StrCat("can't be opened: ", std::strerror(errno)));
  }
  absl::StatusOr<std::string> text = ReadFile(file.get(), name_or_path);
  if (!text.ok()) return text.status();
  return SpecText{name_or_path, *std::move(text)};
}

std::vector<std::string> KnownSpecs() {
  std::vector<std::string> names;
  for (size_t i = 0; i < kEmbeddedSpecCount; ++i) names.emplace_back(kEmbeddedSpecs[i].name);
  return names;
}

}  // namespace lockstep
