#!/usr/bin/env bash
# Builds the portable programs into WORK and runs them in a root that holds nothing but them and the C and C++
# run-time libraries: tests/portable/run.sh SOURCE COMPILER WORK
# Exit: 77 where this user may not change its root.
set -euo pipefail
source=$1 compiler=$2 work=$3
root=$work/root
fail() { echo "portable: $1" >&2; exit 1; }
inside() { timeout 120 unshare --map-root-user --mount --pid --fork --root="$root" --mount-proc=/proc "$@"; }

unshare --map-root-user --mount --pid --fork --mount-proc true 2>/dev/null ||
  { echo "skipped: this user may not make namespaces"; exit 77; }
cmake -S "$source" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DLOCKSTEP_PORTABLE=ON \
  -DCMAKE_CXX_COMPILER="$compiler" >/dev/null
cmake --build "$work/build" --target lockstep

rm -rf "$root"
mkdir -p "$root/proc" "$root/tmp" "$root/app"
find "$work/build/bin" -maxdepth 1 -type f -exec cp -t "$root/app" {} +
# Every library that a program names is beside it, or one of these.
runtime='ld-linux-x86-64\.so\.2|lib(c|m|gcc_s|stdc\+\+)\.so\.[0-9]+'
for program in lockstep worker ps_server allreduce_rank ps_rank; do
  while read -r name arrow path _; do
    case $name in "$root"/app/* | linux-vdso.so.1) continue ;; esac
    [ "$arrow" = '=>' ] || path=$name
    case $path in "$root"/app/*) continue ;; esac
    grep -qE "^($runtime)\$" <<<"${path##*/}" || fail "$program needs $name from $path"
    mkdir -p "$root${path%/*}"
    cp -L "$path" "$root$path"
  done < <(ldd "$root/app/$program")
done

inside /app/lockstep --version | grep -q . || fail "no version"
inside /app/lockstep compare quickstart --quick --plain --only ps_sync --only ring --out /tmp/run
[ -s "$root/tmp/run/report.html" ] || fail "compare wrote no report"
inside /app/lockstep bench allreduce --quick --ranks 2 --sizes 1KiB --links tcp --peers mpi,gloo |
  grep -q 'gloo: not installed' || fail "an engine whose library is not here is not said to be missing"
