// throughput.ts: samples per second, one row per variant: stem from zero and mark at the median,
// whiskers at the interval, one tick below per block. Positions come from the run file's numbers,
// texts from the table beside the chart, so that the same value never reads two ways.
import { Measure, Readout, element, tickText, ticks, type Reading } from './kit';

interface Run {
  label: string;
  ranked: boolean;
  samples_per_s?: { median: number; low: number; high: number; n: number };
  samples_per_s_by_block?: number[];
  block?: number[]; // of each value above
}

interface Row {
  style: string; // s0..s5, sc
  marker: string; // path in -8..8
  label: string;
  control: boolean;
  median: number;
  low: number;
  high: number;
  blocks: number[];
  medianText: string;
  rangeText: string;
  blockTexts: string[];
  blockNames: number[];
}

const NONE = '–';
const HINT = 'Point at the picture, or focus it and press ← → ↑ ↓, to read exact values.';
const number = (value: unknown): number => (Number.isFinite(Number(value)) ? Number(value) : 0);

export function readRows(runs: Run[], table: Element | null): Row[] {
  const rows: Row[] = [];
  table?.querySelectorAll<HTMLElement>('tbody tr').forEach((line) => {
    const run = runs[Number(line.dataset['run'])];
    const cells = line.querySelectorAll('td');
    const speed = run?.samples_per_s;
    if (!run || !speed || number(speed.n) < 1) return;
    rows.push({
      style: line.className,
      marker: line.querySelector('path')?.getAttribute('d') ?? '',
      label: line.querySelector('.name')?.textContent ?? '',
      control: !run.ranked,
      median: number(speed.median),
      low: speed.n > 1 ? number(speed.low) : number(speed.median),
      high: speed.n > 1 ? number(speed.high) : number(speed.median),
      blocks: (run.samples_per_s_by_block ?? []).map(number),
      blockNames: run.block ?? [],
      medianText: cells[0]?.textContent ?? '',
      rangeText: cells[1]?.textContent === NONE ? '' : (cells[1]?.textContent ?? ''),
      blockTexts: Array.from(
        cells[2]?.querySelectorAll('span') ?? [],
        (span) => span.textContent ?? '',
      ),
    });
  });
  return rows;
}

// All lengths of one drawing. Narrow: label and value stand above the row, not beside it.
interface Layout {
  width: number;
  narrow: boolean;
  left: number;
  right: number;
  rowHeight: number;
  top: number;
  x: (value: number) => number;
  ticks: number[];
}

function layout(rows: Row[], width: number, measure: Measure): Layout {
  const narrow = width < 760;
  const widest = (texts: string[], style: string) =>
    Math.max(...texts.map((text) => measure.width(text, style)));
  const labels = rows.map((row) => row.label + (row.control ? ', control' : ''));
  const values =
    widest(
      rows.map((row) => row.medianText),
      'value',
    ) +
    10 +
    widest(
      rows.map((row) => row.rangeText),
      'quiet',
    );
  const left = narrow ? 8 : Math.min(0.36 * width, widest(labels, 'label') + 44);
  const right = narrow ? 14 : values + 30;
  const largest = Math.max(...rows.flatMap((row) => [row.high, row.median, ...row.blocks]));
  const marks = ticks(largest, narrow ? 3 : 5);
  const end = narrow ? (marks[marks.length - 1] ?? largest) : largest;
  const scale = (width - left - right) / end;
  return {
    width,
    narrow,
    left,
    right,
    rowHeight: narrow ? 92 : 58,
    top: 6,
    x: (value) => left + value * scale,
    ticks: marks.filter((mark) => mark <= end * 1.0001),
  };
}

function drawAxis(svg: SVGElement, at: Layout, bottom: number, measure: Measure): void {
  for (const tick of at.ticks) {
    const x = at.x(tick);
    svg.append(
      element('line', {
        x1: x,
        x2: x,
        y1: at.top,
        y2: bottom,
        class: tick === 0 ? 'zero' : 'grid',
      }),
    );
    const half = measure.width(tickText(tick), 'tick') / 2;
    const inside = Math.min(Math.max(x, half), at.width - half);
    svg.append(
      element(
        'text',
        { x: inside, y: bottom + 18, class: 'tick', 'text-anchor': 'middle' },
        tickText(tick),
      ),
    );
  }
  svg.append(
    element(
      'text',
      { x: at.x(0), y: bottom + 40, class: 'tick' },
      'samples/s, all workers together',
    ),
  );
}

function drawMark(row: Row, x: number, y: number): SVGElement {
  return element('path', {
    d: row.marker,
    transform: `translate(${x.toFixed(2)} ${y})`,
    class: 'mark',
  });
}

function drawTexts(group: SVGElement, row: Row, at: Layout, y: number, measure: Measure): void {
  const note = row.control ? ', control' : '';
  const labelY = at.narrow ? y - 40 : y + 5;
  const room = (at.narrow ? at.width : at.left) - 34 - measure.width(note, 'quiet');
  group.append(drawMark(row, 9, labelY - 5));
  group.append(
    element(
      'text',
      { x: 26, y: labelY, class: 'label' },
      measure.clip(row.label, room, 'label'),
      element('tspan', { class: 'quiet' }, note),
    ),
  );
  const valueX = at.narrow ? 26 : at.x(Math.max(row.high, row.median, ...row.blocks)) + 18;
  const valueY = at.narrow ? y - 20 : labelY;
  group.append(element('text', { x: valueX, y: valueY, class: 'value' }, row.medianText));
  const rangeX = valueX + measure.width(row.medianText, 'value') + 8;
  if (row.rangeText)
    group.append(element('text', { x: rangeX, y: valueY, class: 'quiet' }, row.rangeText));
}

function drawRow(
  row: Row,
  index: number,
  at: Layout,
  measure: Measure,
  readings: Reading[],
): SVGElement {
  const y = at.top + index * at.rowHeight + (at.narrow ? 56 : 26);
  const group = element('g', { class: row.style }, element('title', {}, row.label));
  group.append(element('line', { x1: at.x(0), x2: at.x(row.median), y1: y, y2: y, class: 'stem' }));
  if (row.high > row.low) {
    const [low, high] = [at.x(row.low), at.x(row.high)];
    group.append(
      element('path', {
        d: `M${low} ${y - 11}V${y + 11}M${low} ${y}H${high}M${high} ${y - 11}V${y + 11}`,
        class: 'whisker',
      }),
    );
  }
  group.append(drawMark(row, at.x(row.median), y));
  const range = row.rangeText ? `, interval ${row.rangeText}` : '';
  readings.push({
    x: at.x(row.median),
    y,
    group: index,
    text: `${row.label}: median ${row.medianText} samples/s${range}`,
  });
  row.blocks.forEach((value, block) => {
    const x = at.x(value);
    const name = row.blockNames[block] ?? block + 1;
    group.append(element('line', { x1: x, x2: x, y1: y + 16, y2: y + 25, class: 'block' }));
    readings.push({
      x,
      y: y + 20,
      group: index,
      text: `${row.label}: block ${name}, ${row.blockTexts[block] ?? ''} samples/s`,
    });
  });
  drawTexts(group, row, at, y, measure);
  return group;
}

function describe(rows: Row[]): string {
  const parts = rows.map(
    (row) =>
      `${row.label}${row.control ? ' (control)' : ''} ${row.medianText}` +
      (row.rangeText ? `, interval ${row.rangeText}` : ''),
  );
  return `Median samples per second: ${parts.join('; ')}.`;
}

// Draws into `figure`, replacing what stood there.
export function drawThroughput(figure: HTMLElement, rows: Row[], width: number): void {
  const svg = element('svg', {
    role: 'img',
    'aria-labelledby': 'tp-title tp-desc',
    class: 'chart',
  }) as SVGSVGElement;
  const line = document.createElement('p');
  line.className = 'readout';
  line.setAttribute('role', 'status');
  line.textContent = HINT;
  figure.replaceChildren(svg, line);
  svg.append(
    element('title', { id: 'tp-title' }, 'Throughput by variant'),
    element('desc', { id: 'tp-desc' }, describe(rows)),
  );
  const measure = new Measure(svg);
  const at = layout(rows, width, measure);
  const bottom = at.top + rows.length * at.rowHeight + 2;
  svg.setAttribute('viewBox', `0 0 ${width} ${bottom + 48}`);
  drawAxis(svg, at, bottom, measure);
  const readings: Reading[] = [];
  rows.forEach((row, i) => svg.append(drawRow(row, i, at, measure, readings)));
  measure.done();
  new Readout(svg, readings, line);
}
