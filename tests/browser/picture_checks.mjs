// picture_checks.mjs: each picture says what its table and the data say, to eye, pointer and keys,
// and is absent where its data are.
import { dataOf, expect, openReady } from './harness.mjs';

// Which pictures a run file has data for.
const PICTURES = {
  normal: ['throughput', 'busiest', 'anatomy', 'divergence', 'staleness', 'loss'],
  sweep: ['scaling', 'busiest', 'anatomy', 'divergence', 'staleness', 'loss'],
  exact: ['throughput', 'busiest', 'anatomy', 'divergence', 'loss'],
  withheld: ['throughput', 'busiest', 'anatomy', 'divergence', 'loss'],
  one: ['throughput', 'busiest', 'anatomy', 'divergence', 'loss'],
  aborted: [],
  empty: [],
};

export async function conditions(browser) {
  for (const [name, wanted] of Object.entries(PICTURES)) {
    const { page } = await openReady(browser, name);
    const drawn = await page.$$eval('figure', (figures) =>
      figures.filter((each) => each.querySelector('svg.chart')).map((each) => each.id),
    );
    const framed = await page.$$eval('figure', (figures) => figures.map((each) => each.id));
    expect(
      `${name}: pictures ${wanted.join(', ') || 'none'}`,
      String(drawn) === String(wanted) && framed.length === drawn.length,
      `${drawn} of ${framed}`,
    );
    await page.close();
  }
}

// Every value of a picture, in order, as its arrow keys read them; the keys are pressed inside the
// page, since there are thousands (tabOrder presses real ones).
const readAll = (page, figure) =>
  page.evaluate((id) => {
    const svg = document.querySelector(`#${id} svg`);
    const line = document.querySelector(`#${id} .readout`);
    const press = (key) => svg.dispatchEvent(new KeyboardEvent('keydown', { key }));
    press('Home');
    const read = [line.textContent];
    for (let i = 0; i < 5000; i += 1) {
      press('ArrowRight');
      if (line.textContent === read[read.length - 1]) break;
      read.push(line.textContent);
    }
    return read;
  }, figure);

const sum = (values) => values.reduce((total, each) => total + each, 0);

// How many values each picture of a run file at one size can be asked for.
function readable(run, figure) {
  const { runs } = run;
  if (figure === 'throughput') return sum(runs.map((r) => 1 + r.samples_per_s_by_block.length));
  if (figure === 'busiest') return runs.filter((r) => r.busiest?.node).length;
  if (figure === 'anatomy') return sum(runs.map((r) => (r.anatomy_us.hidden > 0 ? 4 : 3)));
  if (figure === 'loss') return sum(runs.map((r) => r.loss.value.length));
  if (figure === 'staleness') return null; // counted by stalenessGuides
  return sum(
    runs.map((r) => r.replicas.probes.filter((p) => p.step > 0 || r.replicas.max_rel === 0).length),
  );
}

export async function keyboard(browser) {
  for (const name of ['normal', 'exact', 'many', 'one', 'withheld']) {
    const { page } = await openReady(browser, name);
    const run = await dataOf(page);
    const figures = await page.$$eval('figure', (all) => all.map((each) => each.id));
    for (const figure of figures) {
      const read = await readAll(page, figure);
      const values = readable(run, figure) ?? read.length;
      expect(
        `${name} ${figure}: arrows read every value`,
        new Set(read).size === values,
        `${new Set(read).size} of ${values}`,
      );
      const labels = await page.$$eval(`#${figure}-numbers .name`, (names) =>
        names.map((each) => each.textContent),
      );
      await page.focus(`#${figure} svg`);
      await page.keyboard.press('Home');
      const first = await page.textContent(`#${figure} .readout`);
      await page.keyboard.press('ArrowDown');
      const second = await page.textContent(`#${figure} .readout`);
      expect(
        `${name} ${figure}: up and down go by variant, or by panel`,
        labels.some((label) => first.startsWith(label)) &&
          (labels.length === 1 ||
            figure === 'staleness' ||
            first.split(':')[0] !== second.split(':')[0]),
        `${first} | ${second}`,
      );
    }
    await page.close();
  }
}

// Tab alone reaches every picture and control, and the choice of the loss picture's axis.
export async function tabOrder(browser) {
  const { page } = await openReady(browser, 'normal');
  const reached = new Set();
  for (let i = 0; i < 60; i += 1) {
    await page.keyboard.press('Tab');
    reached.add(
      await page.evaluate(() => {
        const now = document.activeElement;
        if (now.matches('input')) return `input ${now.value}`;
        return now.matches('svg.chart') ? now.parentNode.id : now.tagName;
      }),
    );
  }
  const wanted = [...PICTURES.normal, 'input step', 'BUTTON', 'SUMMARY'];
  expect(
    'Tab reaches every picture and control',
    wanted.every((each) => reached.has(each)),
    [...reached].join(),
  );
  await page.focus('input[value="step"]');
  const axis = () =>
    page.$$eval('#loss svg text', (texts) => texts.map((each) => each.textContent).join('|'));
  const bySteps = await axis();
  await page.keyboard.press('ArrowRight');
  const byTime = await axis();
  await page.keyboard.press('ArrowRight');
  const bySamples = await axis();
  expect(
    'the loss picture changes its axis by keys',
    bySteps.includes('|step') &&
      byTime.includes('s since the first step') &&
      bySamples.includes('samples trained'),
    `${bySteps} ${byTime} ${bySamples}`,
  );
  await page.close();
}

export async function pointer(browser) {
  const { page } = await openReady(browser, 'normal');
  for (const figure of PICTURES.normal) {
    const svg = page.locator(`#${figure} svg`);
    await svg.scrollIntoViewIfNeeded();
    const hint = await page.textContent(`#${figure} .readout`);
    const box = await svg.boundingBox();
    await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
    const read = await page.textContent(`#${figure} .readout`);
    expect(`${figure}: the pointer reads a value`, read !== hint && read.includes(':'), read);
  }
  await page.close();
}

// Texts, marks and lengths of the throughput picture against table and data.
export async function throughputAgrees(browser) {
  for (const name of ['normal', 'many', 'one', 'withheld']) {
    const { page } = await openReady(browser, name);
    const table = await page.$$eval('#variants tbody tr', (rows) =>
      rows.map((row) => row.children[1].firstChild.textContent.trim()),
    );
    const chart = await page.$$eval('#throughput .value', (texts) =>
      texts.map((text) => text.textContent),
    );
    const data = await dataOf(page);
    const order = await page.$$eval('#variants tbody tr', (rows) =>
      rows.map((row) => Number(row.dataset.run)),
    );
    const medians = order.map((index) =>
      Math.round(data.runs[index].samples_per_s.median).toLocaleString('en'),
    );
    expect(
      `${name}: throughput in picture, table and data agree`,
      String(chart) === String(table) && String(chart) === String(medians),
      `${chart} | ${table} | ${medians}`,
    );
    // One unit for all marks, from zero: position is proportional to the median.
    const ends = await page.$$eval('#throughput .stem', (stems) =>
      stems.map((stem) => stem.x2.baseVal.value - stem.x1.baseVal.value),
    );
    const units = order.map((index, i) => ends[i] / data.runs[index].samples_per_s.median);
    expect(
      `${name}: throughput's lengths are proportional`,
      Math.max(...units) / Math.min(...units) < 1.001,
      String(units),
    );
    await page.close();
  }
}

// compute + exposed + wait = the step of the table, in print and in pixels.
export async function anatomyAddsUp(browser) {
  for (const name of ['normal', 'withheld', 'sweep']) {
    const { page } = await openReady(browser, name);
    const data = await dataOf(page);
    const rows = await page.$$eval('#anatomy-numbers tbody tr', (all) =>
      all.map((row) => ({
        run: Number(row.dataset.run),
        cells: Array.from(row.querySelectorAll('td'), (cell) => cell.textContent),
        step: document
          .querySelector(`#variants [data-run="${row.dataset.run}"]`)
          .children[3].firstChild.textContent.trim(),
      })),
    );
    const printed = rows.filter(({ cells, step }) => {
      const [compute, exposed, wait, total] = cells.map((cell) => Number(cell.replace(/,/g, '')));
      return Math.abs(compute + exposed + wait - total) > 1e-9 || cells[3] !== step;
    });
    expect(
      `${name}: printed parts of a step add up`,
      printed.length === 0,
      JSON.stringify(printed),
    );
    const drawn = await stackWidths(page);
    const units = rows.map(({ run }, i) => {
      const { compute, sync } = data.runs[run].anatomy_us;
      return drawn[i] / (compute + sync);
    });
    expect(
      `${name}: drawn parts of a step add up`,
      drawn.length === rows.length && Math.max(...units) / Math.min(...units) < 1.002,
      String(units),
    );
    await page.close();
  }
}

const stackWidths = (page) =>
  page.$$eval('#anatomy svg > g', (groups) =>
    groups.map((group) =>
      Array.from(group.querySelectorAll('.part:not(.hidden)')).reduce(
        (total, part) => total + part.width.baseVal.value,
        0,
      ),
    ),
  );

// Exactly 0 is drawn in the strip, and nowhere else; what is not 0 is drawn above it.
export async function zeroStrip(browser) {
  for (const [name, lanes, lines] of [
    ['normal', 5, 3],
    ['exact', 5, 0],
    ['sweep', 2, 2],
  ]) {
    const { page } = await openReady(browser, name);
    const found = await page.evaluate(() => {
      const strip = document.querySelector('#divergence .strip').getBoundingClientRect();
      const middle = (node) => {
        const box = node.getBoundingClientRect();
        return (box.top + box.bottom) / 2;
      };
      return {
        text: document.querySelector('#divergence svg').textContent,
        lanes: Array.from(document.querySelectorAll('#divergence line.line'), middle).filter(
          (y) => y > strip.top && y < strip.bottom,
        ).length,
        lines: Array.from(document.querySelectorAll('#divergence path.line')).filter(
          (line) => line.getBoundingClientRect().bottom <= strip.top,
        ).length,
      };
    });
    expect(
      `${name}: ${lanes} lanes of exactly 0, ${lines} lines above`,
      found.lanes === lanes && found.lines === lines && found.text.includes('exactly 0'),
      JSON.stringify(found),
    );
    await page.close();
  }
}

// Both guides of the update-count panel stand where the data say, and never in the clock's.
export async function stalenessGuides(browser) {
  const { page } = await openReady(browser, 'normal');
  const data = await dataOf(page);
  const texts = await page.$$eval('#staleness text', (all) => all.map((each) => each.textContent));
  const asynchronous = data.runs.filter((run) => run.staleness);
  const wanted = asynchronous.map((run) => `n−1 = ${run.workers - 1}`);
  const bounds = texts.filter((text) => text.startsWith('n−1'));
  const laws = texts.filter((text) => text.startsWith('law'));
  expect(
    'staleness: one bound and one law a variant',
    String(bounds) === String(wanted) && laws.length === asynchronous.length,
    texts.join('|'),
  );
  const shares = await page.$$eval('#staleness .staleness-bar', (bars) => {
    const totals = {};
    for (const bar of bars) {
      const kind = bar.classList.contains('clock') ? 'clock' : 'update';
      totals[kind] = (totals[kind] ?? 0) + 1;
    }
    return totals;
  });
  expect(
    'staleness: a panel a count',
    shares.clock >= 4 && shares.update >= 4,
    JSON.stringify(shares),
  );
  await page.close();
}

// The script writes numbers as the program does: what is read equals what the table says.
export async function sameNumbers(browser) {
  const { page } = await openReady(browser, 'exact');
  for (const [figure, tidy] of [
    ['loss', (text) => text.replace(/^.*: (step [\d,]+), loss (.*)$/, '$1: $2')],
    ['divergence', (text) => text.replace(/^.*: (step [\d,]+), (exactly 0).*$/, '$1: $2')],
  ]) {
    const read = new Set((await readAll(page, figure)).map(tidy));
    const table = await page.$$eval(`#${figure}-numbers td span`, (spans) =>
      spans.map((span) => span.textContent.replace('exactly\u00a00', 'exactly 0')),
    );
    const odd = table.filter((text) => !read.has(text));
    expect(
      `${figure}: read and table say the same`,
      table.length > 10 && odd.length === 0,
      odd.join(),
    );
  }
  await page.close();
}
