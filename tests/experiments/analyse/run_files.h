// run_files.h: a run file of the quickstart with round numbers; tests change what they are about.
#pragma once

#include <string>
#include <vector>

#include "proto/record.pb.h"

namespace lockstep::synthetic {

// samples/s of block 0, 1, ...; the interval is their range.
inline void SetRates(const std::vector<double>& rates, VariantResult* variant) {
  variant->clear_samples_per_s_by_block();
  variant->clear_block();
  for (size_t i = 0; i < rates.size(); ++i) {
    variant->add_samples_per_s_by_block(rates[i]);
    variant->add_block(static_cast<int>(i));
  }
  variant->mutable_samples_per_s()->set_median(rates[rates.size() / 2]);
  variant->mutable_samples_per_s()->set_low(rates.front());
  variant->mutable_samples_per_s()->set_high(rates.back());
  variant->mutable_samples_per_s()->set_n(static_cast<int>(rates.size()));
}

inline VariantResult MakeVariant(const std::string& id, const std::string& mode, double bytes) {
  VariantResult variant;
  variant.set_id(id);
  variant.set_variant(id);
  variant.set_label(id);
  variant.set_mode(mode);
  variant.set_workers(4);
  variant.set_ranked(mode != "none");
  variant.set_complete(true);
  variant.set_repeated_hash_equal(true);
  variant.set_final_hash("bits-of-" + id);
  variant.mutable_step_us()->set_p50(10'000);
  variant.mutable_step_us()->set_p95(12'500);
  variant.mutable_step_us()->set_max(20'000);
  variant.mutable_anatomy_us()->set_compute(6'000);
  variant.mutable_anatomy_us()->set_sync(4'000);
  variant.mutable_bytes()->set_tx_per_worker_step(bytes);
  variant.mutable_bytes()->set_rx_per_worker_step(bytes);
  variant.mutable_bytes()->set_formula(bytes);
  variant.mutable_replicas()->set_state("identical");
  variant.mutable_replicas()->mutable_max_rel()->set_number_value(0);
  variant.mutable_loss()->set_final(0.25);
  return variant;
}

inline VariantResult* Find(RunFile* run, const std::string& id) {
  for (VariantResult& variant : *run->mutable_runs()) {
    if (variant.id() == id) return &variant;
  }
  return nullptr;
}

// 5 blocks, not CPU-bound, ring 1.4 times as fast as ps_sync in every block.
inline RunFile QuickstartFile() {
  RunFile run;
  run.set_state("complete");
  ExperimentInfo* experiment = run.mutable_experiment();
  experiment->set_name("quickstart");
  experiment->set_command("lockstep compare quickstart");
  experiment->add_seeds(1);
  experiment->set_blocks(5);
  experiment->set_steps(60);
  experiment->set_warmup_steps(5);
  experiment->set_time_base("wall");
  experiment->set_global_batch(128);
  experiment->set_workers(4);
  experiment->set_reduce_op("mean");
  run.mutable_host()->set_cpu("Example CPU");
  run.mutable_host()->set_cores(16);
  run.mutable_model()->set_gradient_bytes(400'000);

  *run.add_runs() = MakeVariant("none", "none", 0);
  VariantResult* none = run.mutable_runs(0);
  none->mutable_replicas()->set_state("diverged");
  none->mutable_replicas()->set_first_diff_step(1);
  none->mutable_replicas()->mutable_max_rel()->set_number_value(0.12);
  SetRates({9'000, 9'000, 9'000, 9'000, 9'000}, none);

  *run.add_runs() = MakeVariant("ps_sync", "ps_sync", 400'000);
  VariantResult* ps = run.mutable_runs(1);
  ps->set_servers(2);
  ps->mutable_bytes()->set_server_in_per_step(804'000);
  ps->mutable_bytes()->set_server_out_per_step(800'000);
  ps->mutable_bytes()->set_server_formula(800'000);
  ps->mutable_bytes()->set_formula_text("S");
  ps->mutable_bytes()->set_server_formula_text("n S / s");
  ps->mutable_busiest()->set_node("server 0");
  ps->mutable_busiest()->set_direction("in");
  ps->mutable_busiest()->set_bytes_per_step(804'000);
  ps->mutable_busiest()->set_formula(800'000);
  ps->mutable_busiest()->set_formula_text("n S / s");
  SetRates({1'000, 1'010, 1'020, 990, 1'000}, ps);

  *run.add_runs() = MakeVariant("ring", "all_reduce", 600'000);
  VariantResult* ring = run.mutable_runs(2);
  ring->set_algorithm("ring");
  ring->mutable_bytes()->set_formula_text("2(n-1)/n S");
  ring->mutable_busiest()->set_node("worker 2");
  ring->mutable_busiest()->set_direction("out");
  ring->mutable_busiest()->set_bytes_per_step(600'400);
  ring->mutable_busiest()->set_formula(600'000);
  ring->mutable_busiest()->set_formula_text("2(n-1)/n S");
  SetRates({1'400, 1'410, 1'430, 1'390, 1'395}, ring);
  return run;
}

// Worker 2 was lost at step 41, and worker 0 noticed.
inline void Fail(RunFile* run) {
  run->set_state("failed");
  FailureInfo* noticed = run->add_failures();
  noticed->set_member("worker 0");
  noticed->set_step(42);
  noticed->set_consequence(true);
  FailureInfo* cause = run->add_failures();
  cause->set_member("worker 2");
  cause->set_step(41);
  cause->set_lost(true);
  cause->set_message("connection closed by SIGKILL");
  cause->set_variant("ring");
  cause->set_block(1);
}

}  // namespace lockstep::synthetic
