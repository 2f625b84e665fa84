// report_test.mjs CHROMIUM PAGES: opens reports from disk, as a reader would, and checks what
// only a browser can tell. Prints one line a check; exit code 1 if one fails.
import { createRequire } from 'node:module';
import { readFile, mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { tmpdir } from 'node:os';
import { pathToFileURL } from 'node:url';
import { chromium } from 'playwright-core';

const [executablePath, pages] = process.argv.slice(2);
const AXE = await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const FLAGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];
const ALL = ['normal', 'one', 'failed', 'aborted', 'empty', 'hostile', 'many', 'withheld'];
const CHARTS = ['normal', 'one', 'failed', 'hostile', 'many', 'withheld'];
const THEMES = ['light', 'dark'];
const A4_PAGES_MAX = 5;

let failures = 0;
function expect(what, good, detail = '') {
  console.log(`${good ? 'ok  ' : 'FAIL'} ${what}${good ? '' : `: ${detail}`}`);
  if (!good) failures += 1;
}

const profile = await mkdtemp(join(tmpdir(), 'lockstep-browser-'));
const context = (options) =>
  chromium.launchPersistentContext(join(profile, String(Math.random()).slice(2)), {
    executablePath,
    headless: true,
    args: FLAGS,
    offline: true,
    ...options,
  });

// The page of one golden run file, with everything it said and asked for on the way.
async function open(browser, name, width = 1280, scheme = 'light') {
  const page = await browser.newPage();
  const said = [];
  const requests = [];
  page.on('console', (message) => said.push(`console: ${message.text()}`));
  page.on('pageerror', (error) => said.push(`error: ${error.message}`));
  page.on('dialog', (dialog) => {
    said.push(`dialog: ${dialog.message()}`);
    dialog.dismiss();
  });
  page.on('request', (request) => requests.push(request.url()));
  await page.setViewportSize({ width, height: 900 });
  await page.emulateMedia({ colorScheme: scheme });
  await page.goto(pathToFileURL(join(pages, `${name}.html`)).href);
  return { page, said, requests };
}
const ready = (page) =>
  page.waitForSelector('html[data-ready="1"]', { state: 'attached', timeout: 10_000 });

// Elements wider than the page or cut by their own box; SVG text beyond the viewport.
const overflows = () => {
  const root = document.documentElement;
  const found = [];
  if (root.scrollWidth > root.clientWidth)
    found.push(`page ${root.scrollWidth} > ${root.clientWidth}`);
  for (const node of document.querySelectorAll('main *, header *')) {
    if (getComputedStyle(node).visibility === 'hidden') continue;
    if (node.closest('thead') && getComputedStyle(node.closest('thead')).position === 'absolute')
      continue;
    const box = node.getBoundingClientRect();
    if (box.width > 0 && (box.right > root.clientWidth + 0.5 || box.left < -0.5))
      found.push(`${node.tagName} ${node.textContent.slice(0, 30)}`);
    if (
      !(node instanceof SVGElement) &&
      node.clientWidth > 0 &&
      node.scrollWidth > node.clientWidth + 1
    )
      found.push(`inside ${node.tagName} ${node.textContent.slice(0, 30)}`);
  }
  return found;
};

const overlaps = () => {
  const boxes = Array.from(document.querySelectorAll('svg.chart text'), (node) => [
    node.textContent,
    node.getBoundingClientRect(),
  ]);
  const found = [];
  boxes.forEach(([text, a], i) =>
    boxes.slice(i + 1).forEach(([other, b]) => {
      if (
        a.left < b.right - 1 &&
        b.left < a.right - 1 &&
        a.top < b.bottom - 1 &&
        b.top < a.bottom - 1
      )
        found.push(`"${text}" on "${other}"`);
    }),
  );
  return found;
};

// Contrast of what axe does not judge: series colours (3:1) and words (4.5:1) against the page.
const contrasts = () => {
  const luminance = (hex) => {
    const [r, g, b] = [1, 3, 5]
      .map((at) => parseInt(hex.slice(at, at + 2), 16) / 255)
      .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const style = getComputedStyle(document.documentElement);
  const color = (name) => style.getPropertyValue(name).trim();
  const ratio = (a, b) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  const need = {
    '--ink': 4.5,
    '--muted': 4.5,
    '--ok': 4.5,
    '--bad': 4.5,
    '--focus': 3,
    '--c0': 3,
    '--c1': 3,
    '--c2': 3,
    '--c3': 3,
    '--c4': 3,
    '--c5': 3,
    '--cc': 3,
  };
  return Object.entries(need)
    .map(([name, least]) => [name, ratio(luminance(color(name)), luminance(color('--bg'))), least])
    .filter(([, got, least]) => !(got >= least))
    .map(([name, got]) => `${name} ${got.toFixed(2)}`);
};

async function quietAndAlone(browser) {
  for (const name of ALL) {
    const { page, said, requests } = await open(browser, name);
    await ready(page);
    expect(
      `${name}: says nothing, asks for nothing`,
      said.length === 0 && requests.length === 1,
      [...said, ...requests].join(' | '),
    );
    await page.close();
  }
}

async function fits(browser) {
  for (const name of ALL) {
    for (const width of [1280, 900, 810, 600, 390]) {
      const { page } = await open(browser, name, width);
      await ready(page);
      await page.evaluate(() =>
        document.querySelectorAll('details').forEach((node) => {
          node.open = true;
        }),
      );
      const wide = await page.evaluate(overflows);
      expect(`${name} at ${width}: nothing sticks out`, wide.length === 0, wide.join(' | '));
      const met = await page.evaluate(overlaps);
      expect(`${name} at ${width}: no text on text`, met.length === 0, met.join(' | '));
      await page.close();
    }
  }
}

async function accessible(browser) {
  for (const name of ['normal', 'failed', 'many', 'withheld']) {
    for (const theme of THEMES) {
      for (const width of [1280, 390]) {
        const { page } = await open(browser, name, width, theme);
        await ready(page);
        await page.evaluate(AXE); // through the debugger, which the page's policy does not bind
        const { violations } = await page.evaluate(() => globalThis.axe.run());
        expect(
          `${name} ${theme} at ${width}: axe`,
          violations.length === 0,
          violations.map((found) => `${found.id} ${found.nodes[0].html.slice(0, 120)}`).join(' | '),
        );
        const faint = await page.evaluate(contrasts);
        expect(
          `${name} ${theme} at ${width}: contrast of colours`,
          faint.length === 0,
          faint.join(' | '),
        );
        await page.close();
      }
    }
  }
}

async function themes(browser) {
  const { page } = await open(browser, 'normal', 1280, 'dark');
  await ready(page);
  const background = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const dark = await background();
  await page.click('#theme');
  const light = await background();
  expect(
    'theme: follows the system, the button overrides',
    dark !== light && (await page.textContent('#theme')) === 'Dark',
    `${dark} ${light}`,
  );
  await page.click('#theme');
  await page.emulateMedia({ media: 'print', colorScheme: 'dark' });
  expect('theme: print is light', (await background()) === light, await background());
  await page.close();
}

async function keyboard(browser) {
  for (const name of CHARTS) {
    const { page } = await open(browser, name);
    await ready(page);
    const run = JSON.parse(await page.textContent('#report-data'));
    let reached = false;
    for (let i = 0; i < 10 && !reached; i += 1) {
      await page.keyboard.press('Tab');
      reached = await page.evaluate(() => document.activeElement?.matches('svg.chart') ?? false);
    }
    expect(`${name}: Tab reaches the chart`, reached);
    const read = new Set();
    for (let i = 0; i < 200; i += 1) {
      await page.keyboard.press('ArrowRight');
      read.add(await page.textContent('.readout'));
    }
    const values = run.runs.reduce((sum, each) => sum + 1 + each.samples_per_s_by_block.length, 0);
    expect(
      `${name}: arrows read every value`,
      read.size === values || name === 'hostile',
      `${read.size} of ${values}`,
    );
    await page.keyboard.press('Home');
    const first = await page.textContent('.readout');
    await page.keyboard.press('ArrowDown');
    const second = await page.textContent('.readout');
    const rows = await page.$$eval('#throughput-numbers .name', (names) =>
      names.map((each) => each.textContent),
    );
    expect(
      `${name}: up and down go by variant`,
      first.startsWith(rows[0]) && second.startsWith(rows[1] ?? rows[0]),
      `${first} | ${second}`,
    );
    await page.close();
  }
}

// What a picture says is what the table and the data say.
async function numbersAgree(browser) {
  for (const name of ['normal', 'many', 'one', 'withheld']) {
    const { page } = await open(browser, name);
    await ready(page);
    const table = await page.$$eval('#variants tbody tr', (rows) =>
      rows.map((row) => row.children[1].firstChild.textContent.trim()),
    );
    const chart = await page.$$eval('svg.chart .value', (texts) =>
      texts.map((text) => text.textContent),
    );
    const data = JSON.parse(await page.textContent('#report-data'));
    const order = await page.$$eval('#variants tbody tr', (rows) =>
      rows.map((row) => Number(row.dataset.run)),
    );
    const medians = order.map((index) =>
      Math.round(data.runs[index].samples_per_s.median).toLocaleString('en'),
    );
    expect(
      `${name}: chart, table and data agree`,
      String(chart) === String(table) && String(chart) === String(medians),
      `${chart} | ${table} | ${medians}`,
    );
    // One unit for all marks, from zero: position is proportional to the median.
    const ends = await page.$$eval('svg.chart .stem', (stems) =>
      stems.map((stem) => stem.x2.baseVal.value - stem.x1.baseVal.value),
    );
    const units = order.map((index, i) => ends[i] / data.runs[index].samples_per_s.median);
    expect(
      `${name}: positions are proportional`,
      Math.max(...units) / Math.min(...units) < 1.001,
      String(units),
    );
    await page.close();
  }
}

async function withoutScript() {
  const browser = await context({ javaScriptEnabled: false });
  for (const name of ALL) {
    const { page } = await open(browser, name);
    const visible = async (selector) =>
      (await page.locator(selector).all()).length > 0 && page.locator(selector).first().isVisible();
    expect(
      `${name} without JavaScript: headline and method`,
      (await visible('h1')) && (await visible('.terms dd')),
    );
    if (name === 'normal') {
      const text = (await page.locator('main').innerText()).replace(/\u00a0/g, ' ');
      for (const part of [
        '13,870 vs 9,078',
        'Ring all-reduce',
        'No synchronisation',
        '34 % apart',
        '681,360',
        'The picture needs JavaScript',
      ]) {
        expect(`${name} without JavaScript: shows "${part}"`, text.includes(part));
      }
      expect(
        `${name} without JavaScript: no dead button`,
        !(await page.locator('#theme').isVisible()),
      );
    }
    await page.close();
  }
  await browser.close();
}

async function hostile(browser) {
  const { page, said } = await open(browser, 'hostile');
  await ready(page);
  const odd = await page.evaluate(() => ({
    title: document.title,
    scripts: document.scripts.length,
    loaded: document.querySelectorAll('img, svg[onload], u, iframe').length,
    label: document.querySelector('#variants [data-run="2"] .name').textContent,
    inData: JSON.parse(document.getElementById('report-data').textContent).runs[2].label,
    head: document.querySelector('h1').textContent,
  }));
  expect(
    'hostile: nothing ran, nothing became an element',
    said.length === 0 && odd.scripts === 2 && odd.loaded === 0 && odd.title !== 'owned',
    JSON.stringify(odd),
  );
  expect(
    'hostile: texts arrive as they were',
    odd.label.startsWith('</script><img') &&
      odd.inData === odd.label &&
      odd.head.includes('$& $1 @@HEAD@@ @@DATA@@'),
    JSON.stringify(odd),
  );
  await page.close();
}

// Pages of a PDF, counted as its page objects.
async function prints(browser) {
  for (const name of ['normal', 'failed', 'withheld']) {
    const { page } = await open(browser, name, 1280, 'dark');
    await ready(page);
    const pdf = (
      await page.pdf({
        format: 'A4',
        margin: { top: '15mm', bottom: '15mm', left: '15mm', right: '15mm' },
      })
    ).toString('latin1');
    const count = (pdf.match(/\/Type\s*\/Page\b(?!s)/g) ?? []).length;
    expect(`${name}: prints on ${count} pages`, count >= 1 && count <= A4_PAGES_MAX, String(count));
    await page.emulateMedia({ media: 'print' });
    await page.setViewportSize({ width: 680, height: 900 }); // A4 between these margins
    const wide = await page.evaluate(overflows);
    expect(`${name}: nothing is cut in print`, wide.length === 0, wide.join(' | '));
    await page.close();
  }
}

try {
  const browser = await context({});
  for (const check of [
    quietAndAlone,
    fits,
    accessible,
    themes,
    keyboard,
    numbersAgree,
    hostile,
    prints,
  ])
    await check(browser);
  await browser.close();
  await withoutScript();
} finally {
  await rm(profile, { recursive: true, force: true });
}
console.log(failures === 0 ? 'all checks passed' : `${failures} checks failed`);
process.exit(failures === 0 ? 0 : 1);
