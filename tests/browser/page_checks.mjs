// page_checks.mjs: the page as a whole: quiet, alone, fitting, accessible, printable, harmless.
import { AXE, GOLDEN, bytesOf, expect, open, openReady } from './harness.mjs';
import { contrasts, looks, overflows, overlaps } from './in_page.mjs';

const A4_PAGES_MAX = 5;
const QUICKSTART_BYTES_MAX = 300_000;

export async function quietAndAlone(browser) {
  for (const name of GOLDEN) {
    const { page, said, requests } = await openReady(browser, name);
    expect(
      `${name}: says nothing, asks for nothing`,
      said.length === 0 && requests.length === 1,
      [...said, ...requests].join(' | '),
    );
    await page.close();
  }
  const bytes = await bytesOf('normal');
  expect(`the quickstart's report has ${bytes} bytes`, bytes < QUICKSTART_BYTES_MAX);
}

// One page through all widths, as a window that is resized.
export async function fits(browser) {
  for (const name of GOLDEN) {
    const { page } = await openReady(browser, name);
    await page.evaluate(() =>
      document.querySelectorAll('details').forEach((node) => (node.open = true)),
    );
    for (const width of [1280, 900, 810, 560, 390]) {
      await page.setViewportSize({ width, height: 900 });
      await page.waitForFunction(() =>
        Array.from(document.querySelectorAll('figure')).every(
          (each) => Math.abs(each.firstChild.viewBox.baseVal.width - each.clientWidth) < 1,
        ),
      );
      const wide = await page.evaluate(overflows);
      expect(`${name} at ${width}: nothing sticks out`, wide.length === 0, wide.join(' | '));
      const met = await page.evaluate(overlaps);
      expect(`${name} at ${width}: no text on text`, met.length === 0, met.join(' | '));
    }
    await page.close();
  }
}

export async function accessible(browser) {
  const pages = [
    ['normal', 'light', 1280],
    ['normal', 'dark', 390],
    ['sweep', 'light', 390],
    ['failed', 'dark', 1280],
  ];
  for (const [name, theme, width] of pages) {
    const { page } = await openReady(browser, name, width, theme);
    await page.evaluate(AXE); // through the debugger, which the page's policy does not bind
    const { violations } = await page.evaluate(() => globalThis.axe.run());
    expect(
      `${name} ${theme} at ${width}: axe`,
      violations.length === 0,
      violations.map((found) => `${found.id} ${found.nodes[0].html.slice(0, 120)}`).join(' | '),
    );
    const faint = await page.evaluate(contrasts);
    expect(`${name} ${theme} at ${width}: contrast`, faint.length === 0, faint.join(' | '));
    const untold = await page.$$eval('svg.chart', (charts) =>
      charts
        .filter((svg) => {
          const [title, desc] = svg.getAttribute('aria-labelledby').split(' ');
          const words = (id) => document.getElementById(id)?.textContent.length ?? 0;
          return svg.getAttribute('role') !== 'img' || words(title) < 5 || words(desc) < 30;
        })
        .map((svg) => svg.parentNode.id),
    );
    expect(`${name}: each picture is told in words`, untold.length === 0, untold.join());
    await page.close();
  }
}

export async function looksDiffer(browser) {
  const { page } = await openReady(browser, 'normal');
  const seen = await page.evaluate(looks);
  const colors = new Set(seen.map(([, , color]) => color));
  const all = new Set(seen.map(([, shape, color]) => `${shape} ${color}`));
  expect('no two variants look alike', all.size === seen.length, JSON.stringify(seen));
  expect('a control and six colours at most', colors.size >= 6, String(colors.size));
  await page.close();
}

export async function themes(browser) {
  const { page } = await openReady(browser, 'normal', 1280, 'dark');
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
  await page.emulateMedia({ media: 'screen', reducedMotion: 'reduce' });
  const moving = await page.evaluate(() => document.getAnimations().length);
  expect('nothing moves by itself', moving === 0, String(moving));
  await page.close();
}

const SHOWN_WITHOUT_SCRIPT = [
  'Ring is',
  'Ring all-reduce',
  'No synchronisation',
  '30 % apart',
  '5 synchronous ways end with 3 different sets of bits',
  '((g0+g1)+g2)+g3',
  '2,400 of 2,400',
  'predicted by the alpha-beta model, not measured',
  'The picture needs JavaScript',
];

export async function withoutScript(browser) {
  for (const name of GOLDEN) {
    const { page } = await open(browser, name);
    const visible = async (selector) =>
      (await page.locator(selector).all()).length > 0 && page.locator(selector).first().isVisible();
    expect(
      `${name} without JavaScript: headline and method`,
      (await visible('h1')) && (await visible('.terms dd')),
    );
    if (name === 'normal') {
      const text = (await page.locator('main').innerText()).replace(/\u00a0/g, ' ');
      for (const part of SHOWN_WITHOUT_SCRIPT)
        expect(`${name} without JavaScript: shows "${part}"`, text.includes(part));
      expect(
        `${name} without JavaScript: no dead control`,
        !(await page.locator('#theme').isVisible()) && !(await visible('input')),
      );
      const summaries = await page.locator('summary').all();
      for (const summary of summaries) await summary.click();
      const open = await page.locator('details table').all();
      const shown = await Promise.all(open.map((table) => table.isVisible()));
      expect(
        `${name} without JavaScript: each picture's numbers open`,
        shown.length >= 6 && shown.every(Boolean),
        String(shown),
      );
    }
    await page.close();
  }
}

export async function hostile(browser) {
  const { page, said } = await openReady(browser, 'hostile');
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
export async function prints(browser) {
  for (const name of ['normal', 'sweep', 'failed', 'withheld']) {
    const { page } = await openReady(browser, name, 1280, 'dark');
    const margin = { top: '15mm', bottom: '15mm', left: '15mm', right: '15mm' };
    const pdf = (await page.pdf({ format: 'A4', margin })).toString('latin1');
    const count = (pdf.match(/\/Type\s*\/Page\b(?!s)/g) ?? []).length;
    expect(`${name}: prints on ${count} pages`, count >= 1 && count <= A4_PAGES_MAX, String(count));
    await page.emulateMedia({ media: 'print' });
    await page.setViewportSize({ width: 680, height: 900 }); // A4 between these margins
    const wide = await page.evaluate(overflows);
    expect(`${name}: nothing is cut in print`, wide.length === 0, wide.join(' | '));
    await page.close();
  }
}
