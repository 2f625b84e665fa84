// report_test.mjs CHROMIUM PAGES: opens reports from disk, as a reader would, and checks what
// only a browser can tell. Prints one line a check; exit code 1 if one fails.
import { failed, withBrowser } from './harness.mjs';
import * as page from './page_checks.mjs';
import * as picture from './picture_checks.mjs';

const started = Date.now();
const { withoutScript, ...withScript } = page;
await withBrowser({}, async (browser) => {
  for (const check of [...Object.values(withScript), ...Object.values(picture)]) {
    const begun = Date.now();
    await check(browser);
    console.log(`    ${check.name}: ${((Date.now() - begun) / 1000).toFixed(1)} s`);
  }
});
await withBrowser({ javaScriptEnabled: false }, withoutScript);

const seconds = Math.round((Date.now() - started) / 1000);
console.log(failed() === 0 ? `all checks passed in ${seconds} s` : `${failed()} checks failed`);
process.exit(failed() === 0 ? 0 : 1);
