#!/usr/bin/env bash
# Installs the engine from BUILD into WORK, builds project/ against what was installed alone, runs it, and looks
# at what it is linked with: tests/consumer/run.sh BUILD COMPILER WORK
set -euo pipefail
build=$1 compiler=$2 work=$3
here=$(dirname "$(readlink -f "$0")")
fail() { echo "consumer: $1" >&2; exit 1; }

rm -rf "$work"
cmake --install "$build" --component allreduce --prefix "$work/prefix" >/dev/null
cmake -S "$here/project" -B "$work/build" -G Ninja -DCMAKE_PREFIX_PATH="$work/prefix" -DCMAKE_CXX_COMPILER="$compiler" \
  -DCMAKE_BUILD_TYPE=Release
cmake --build "$work/build"
found=$("$work/build/sum_ranks")
expected=$(printf 'rank %s: 6 6 6 6 6\n' 0 1 2)
[ "$found" = "$expected" ] || fail "expected '$expected', got '$found'"
libraries=$(ldd "$work/build/sum_ranks")
grep -q libabsl <<<"$libraries" || fail "ldd shows no Abseil, so this test looks at the wrong thing"
! grep -iE 'grpc|protobuf' <<<"$libraries" || fail "the program is linked with the above"
! grep -rlE '"(grpc|google/protobuf|proto)/' "$work/prefix/include" || fail "the headers above include gRPC or Protobuf"
echo "$found"
