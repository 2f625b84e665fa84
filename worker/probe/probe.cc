#include "worker/probe/probe.h"

#include "base/fingerprint.h"

namespace lockstep {

void Probe::Take(int64_t step, std::span<const float> parameters,
                 std::span<const float> optimizer_state) {
  const int64_t start_ns = clock_.NowNs();
  Record record;
  Probed* probed = record.mutable_probed();
  probed->set_step(step);
  probed->set_parameters_hash(Fingerprint(std::as_bytes(parameters)));
  if (!optimizer_state.empty()) {
    probed->set_optimizer_hash(Fingerprint(std::as_bytes(optimizer_state)));
  }
  const auto bytes = static_cast<int64_t>(parameters.size_bytes());
  const bool copied = bytes <= limits_.snapshot_bytes_max;
  probed->set_snapshot_offset(copied ? records_->WriteSnapshot(parameters) : -1);
  probed->set_snapshot_bytes(copied ? bytes : 0);
  probed->set_probe_ns(clock_.NowNs() - start_ns);
  records_->Write(record);
}

}  // namespace lockstep
