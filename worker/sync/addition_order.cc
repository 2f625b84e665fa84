#include "worker/sync/addition_order.h"

#include <span>

#include "absl/strings/str_cat.h"
#include "base/fingerprint.h"

namespace lockstep {

std::string AdditionOrderText(const std::vector<Bucket>& buckets,
                              const std::function<std::string(int64_t count)>& order_of) {
  std::string text;
  for (const Bucket& bucket : buckets) {
    absl::StrAppend(&text, text.empty() ? "" : "\n", "bucket ", bucket.index, ": ",
                    order_of(bucket.count));
  }
  if (text.size() <= kAdditionOrderBytesMax) return text;
  const std::string whole = Fingerprint(std::as_bytes(std::span(text)));
  text.resize(kAdditionOrderBytesMax);
  absl::StrAppend(&text, "... (cut; fingerprint of the whole: ", whole, ")");
  return text;
}

}  // namespace lockstep
