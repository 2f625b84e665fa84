#!/usr/bin/env bash
# Fuzzes for SECONDS each with clang's libFuzzer under address and undefined behaviour sanitizers, starting from
# the committed corpus: tests/fuzz/run.sh SECONDS (CI: 20; the long tier: 600). Exits 77 without clang.
# An input that fails is left in build/fuzz/NAME-crash-*: mend, then keep it as a file of tests/fuzz/corpus/NAME.
set -euo pipefail
seconds=${1:?"usage: tests/fuzz/run.sh SECONDS"}
cd "$(dirname "$(readlink -f "$0")")/../.."
command -v clang++ >/dev/null || { echo "fuzz: needs the packages clang and libclang-rt-14-dev" >&2; exit 77; }
cmake --preset fuzz >/dev/null
cmake --build build/fuzz --target ps_frame_fuzz schedule_text_fuzz shard_state_fuzz wire_fuzz
for name in ps_frame schedule_text shard_state wire; do
  mkdir -p "build/fuzz/found/$name"
  build/fuzz/bin/${name}_fuzz -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=4096 -verbosity=0 \
    -print_final_stats=1 -artifact_prefix="build/fuzz/$name-" "build/fuzz/found/$name" "tests/fuzz/corpus/$name"
done
