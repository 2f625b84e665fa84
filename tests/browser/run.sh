#!/bin/sh
# run.sh PROGRAM [chromium]: renders the golden run files with report_golden and checks them in a browser.
# Exit code 77, with the reason, where something is missing that only this test needs.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
program=$1
chromium=${2:-/usr/bin/chromium}
skip() { echo "skipped: $1"; exit 77; }
command -v node >/dev/null || skip "node is not installed"
[ -x "$chromium" ] || skip "$chromium is not installed"
for package in playwright-core axe-core; do
  [ -d "$here/node_modules/$package" ] || skip "$package is missing: run npm ci in tests/browser"
done
pages=$(mktemp -d)
trap 'rm -rf "$pages"' EXIT
"$program" "$pages" "$here"/golden/*.json
node "$here/report_test.mjs" "$chromium" "$pages"
