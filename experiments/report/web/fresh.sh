#!/bin/sh
# fresh.sh: is dist/report.template.html what these sources give? Builds in memory, writes nothing.
# Exit code 77, with the reason, where node or the packages of the build are missing.
set -eu
cd "$(dirname "$0")"
command -v node >/dev/null || { echo "skipped: node is not installed"; exit 77; }
for package in esbuild typescript; do
  [ -d "node_modules/$package" ] || { echo "skipped: $package is missing: run npm ci in experiments/report/web"; exit 77; }
done
node node_modules/typescript/bin/tsc --noEmit
node build.mjs --check
