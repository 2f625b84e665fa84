// build.mjs: template.html + style.css + src/main.ts -> dist/report.template.html, the same bytes
// from the same sources on every machine. With --check: writes nothing, fails where the committed
// page differs.
import { build, transform } from 'esbuild';
import { mkdir, readFile, writeFile } from 'node:fs/promises';

const BYTES_MAX = 60_000; // each report carries the page
const here = new URL('.', import.meta.url);
const target = new URL('dist/report.template.html', here);
const read = (name) => readFile(new URL(name, here), 'utf8');
const slots = (text) => (text.match(/@@[A-Z_]*@@/g) ?? []).join(' ');

async function page() {
  const bundle = await build({
    entryPoints: ['src/main.ts'],
    absWorkingDir: new URL('.', import.meta.url).pathname,
    bundle: true,
    minify: true,
    format: 'iife',
    target: 'es2020',
    charset: 'utf8',
    legalComments: 'none',
    write: false,
  });
  const script = bundle.outputFiles[0].text.trim();
  const style = (
    await transform(await read('src/style.css'), {
      loader: 'css',
      minify: true,
      target: 'chrome90',
    })
  ).code.trim();
  if (/<\/script|<!--/i.test(script)) throw new Error('the script would end its own element');
  const template = await read('template.html');
  // Functions, because a replacement text would have its $& interpreted.
  const html = template.replace('/*STYLE*/', () => style).replace('/*SCRIPT*/', () => script);
  if (slots(html) !== slots(template)) throw new Error('style or script contain a slot name');
  if (Buffer.byteLength(html) > BYTES_MAX)
    throw new Error(`${Buffer.byteLength(html)} bytes, the limit is ${BYTES_MAX}`);
  return html;
}

const html = await page();
if (process.argv.includes('--check')) {
  const committed = await readFile(target, 'utf8').catch(() => '');
  if (committed !== html) {
    console.error(
      'dist/report.template.html is not what the sources give: run "npm run build", commit it',
    );
    process.exit(1);
  }
  console.log('dist/report.template.html is fresh');
} else {
  await mkdir(new URL('dist/', here), { recursive: true });
  await writeFile(target, html);
  console.log(`dist/report.template.html: ${Buffer.byteLength(html)} bytes`);
}
