#include "experiments/spec/defaults.h"

#include <google/protobuf/message.h>
#include <google/protobuf/text_format.h>

#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/limits.h"
#include "base/member/process.h"
#include "experiments/spec/place.h"
#include "experiments/spec/rules.h"

namespace lockstep {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// NOLINTNEXTLINE(misc-no-recursion): as deep as the schema, which is finite
void FillMessage(const std::string& pattern, Message* message) {
  const google::protobuf::Descriptor& descriptor = *message->GetDescriptor();
  const google::protobuf::Reflection& reflection = *message->GetReflection();
  for (int i = 0; i < descriptor.field_count(); ++i) {
    const FieldDescriptor* field = descriptor.field(i);
    const std::string field_pattern = JoinPath(pattern, field->name());
    const bool is_message = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    const int count = field->is_repeated() ? reflection.FieldSize(*message, field)
                                           : (reflection.HasField(*message, field) ? 1 : 0);
    for (int j = 0; is_message && j < count; ++j) {
      FillMessage(field_pattern, field->is_repeated()
                                     ? reflection.MutableRepeatedMessage(message, field, j)
                                     : reflection.MutableMessage(message, field));
    }
    const std::string value = DefaultText(field_pattern, *field);
    if (is_message || count > 0 || value.empty()) continue;
    CHECK(google::protobuf::TextFormat::ParseFieldValueFromString(value, field, message))
        << field_pattern << " has the default " << value;
  }
}

// Settings of one mode beside another are refused: the written-out text must not have them.
void KeepWhatItReads(Ps* ps) {
  if (!AppliesAlone(*ps)) {
    ps->clear_rate();
    ps->clear_scale_by_staleness();
  }
  if (ps->mode() != Ps::K_OF_N) ps->clear_late();
  if (ps->policy() != Ps::CHAIN) {
    ps->clear_replicas();
    ps->clear_aggregated();
  }
  if (ps->policy() != Ps::SNAPSHOT) ps->clear_snapshot_every();
}
void KeepWhatItReads(Variant* variant, bool wrote_channels) {
  if (variant->has_ps()) KeepWhatItReads(variant->mutable_ps());
  if (!variant->has_all_reduce()) return;
  AllReduceSync* sync = variant->mutable_all_reduce();
  if (sync->engine() != AllReduceSync::HOST) {
    const bool ours = sync->engine() == AllReduceSync::CUDA;
    if (!ours) sync->clear_algorithm();
    sync->clear_link();
    if (!ours || !wrote_channels) sync->clear_channels();  // a GPU's number is not a host's
    sync->clear_on_loss();
  }
  if (sync->algorithm() == AllReduceSync::PS_EXCHANGE) return;
  sync->clear_servers();
  sync->clear_placement();
}

}  // namespace

std::string DefaultText(const std::string& pattern, const FieldDescriptor& field) {
  for (const ListDefault& row : kListDefaults) {
    if (pattern == row.path) return row.value;
  }
  for (const LimitRow& row : kLimitRows) {
    if (pattern == absl::StrCat("limits.", row.name)) return absl::StrCat(Limits{}.*row.field);
  }
  if (!field.has_default_value()) return "";
  // A message that is empty reads as its defaults.
  const Message* empty =
      google::protobuf::MessageFactory::generated_factory()->GetPrototype(field.containing_type());
  std::string text;
  google::protobuf::TextFormat::PrintFieldValueToString(*empty, &field, -1, &text);
  return text;
}

void FillDefaults(Experiment* experiment) {
  Optimizer* optimizer = experiment->mutable_train()->mutable_optimizer();
  if (optimizer->kind_case() == Optimizer::KIND_NOT_SET) optimizer->mutable_sgd();
  experiment->mutable_network();
  experiment->mutable_probe();
  experiment->mutable_limits();
  experiment->mutable_trace();
  std::vector<bool> wrote_channels;
  for (const Variant& variant : experiment->variant()) {
    wrote_channels.push_back(variant.all_reduce().has_channels());
  }
  FillMessage("", experiment);
  for (int i = 0; i < experiment->variant_size(); ++i) {
    KeepWhatItReads(experiment->mutable_variant(i), wrote_channels[static_cast<size_t>(i)]);
  }
}

std::string CanonicalText(const Experiment& experiment) {
  google::protobuf::TextFormat::Printer printer;
  printer.SetUseShortRepeatedPrimitives(true);
  std::string text;
  CHECK(printer.PrintToString(experiment, &text));
  return absl::StrCat(
      "# The experiment as it ran: overrides applied, defaults written out. To run it again:\n"
      "# lockstep compare <this file>\n",
      text);
}

}  // namespace lockstep
