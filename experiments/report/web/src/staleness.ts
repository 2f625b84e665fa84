// staleness.ts: how old updates are when they are applied, as shares. Two counts, never in one
// panel: clock (steps) and updates; a row of panels a variant. The second shows what is expected:
// n-1, and less where a worker reads late.
import { tickText, valueText } from './kit/number';
import { Picture } from './kit/picture';
import { linear } from './kit/scale';
import { element, line, mark, text } from './kit/svg';
import { number, readRows, type Row, type RunFile } from './rows';

const HEIGHT = 78; // of a panel's bars
const TAIL = 0.995; // of the updates; rarer ones share the last bar
const BARS_MAX = 24;
const STACKED = 620;

interface Guide {
  style: string;
  at: number;
  text: string;
}
interface Panel {
  title: string;
  shares: number[]; // by staleness, 0..
  rest: boolean; // the last bar stands for all beyond
  guides: Guide[];
  kind: string;
}

function summed(row: Row, of: 'clock' | 'update'): number[] {
  const sums: number[] = [];
  for (const server of row.run.staleness?.server ?? []) {
    (server[of] ?? []).forEach((count, i) => (sums[i] = (sums[i] ?? 0) + number(count)));
  }
  return Array.from(sums, (sum) => sum ?? 0);
}

function panelOf(row: Row, of: 'clock' | 'update'): Panel {
  const counts = summed(row, of);
  const total = counts.reduce((sum, count) => sum + count, 0) || 1;
  const shares = counts.map((count) => count / total);
  let shown = 0;
  for (let seen = 0; shown < shares.length && shown < BARS_MAX - 1 && seen < TAIL; shown += 1)
    seen += shares[shown] as number;
  const beyond = shares.slice(shown).reduce((sum, share) => sum + share, 0);
  const rest = beyond > 0;
  const { mean_update, mean_clock, expected_mean } = row.run.staleness as NonNullable<
    Row['run']['staleness']
  >;
  const n = row.run.workers;
  const guides: Guide[] =
    of === 'clock'
      ? [{ style: 'mean', at: mean_clock, text: `mean ${valueText(mean_clock)}` }]
      : [
          { style: 'bound', at: n - 1, text: `n−1 = ${n - 1}` },
          { style: 'law-line', at: expected_mean, text: `law ${valueText(expected_mean)}` },
          { style: 'mean', at: mean_update, text: `mean ${valueText(mean_update)}` },
        ];
  return {
    title: of === 'clock' ? 'clock staleness, steps' : 'update-count staleness, updates',
    shares: rest ? [...shares.slice(0, shown), beyond] : shares.slice(0, Math.max(1, shown)),
    rest,
    // Rising, so that no line passes through the words of another, which stand to its right.
    guides: guides.sort((a, b) => a.at - b.at),
    kind: of,
  };
}

interface Box {
  x: number;
  y: number;
  width: number;
}

// Under the bars, as many as fit; the last one always.
function drawNames(picture: Picture, names: string[], left: number, slot: number, y: number): void {
  const last = names.length - 1;
  let free = Infinity; // from the right
  for (let i = last; i >= 0; i -= 1) {
    const name = names[i] as string;
    const half = picture.measure.width(name) / 2;
    const centre = left + (i + 0.5) * slot;
    if (centre + half + 6 > free) continue;
    picture.add(text(centre, y, name, '', 'middle'));
    free = centre - half;
  }
}

// Title, a line of words a guide, bars, axis. Returns its height.
function drawPanel(picture: Picture, row: Row, panel: Panel, box: Box, group: number): number {
  const left = box.x + 44;
  const right = box.x + box.width - 8;
  const top = box.y + 24 + panel.guides.length * 18;
  const bottom = top + HEIGHT;
  const most = Math.max(...panel.guides.map((guide) => guide.at + 1), panel.shares.length);
  const slot = (right - left) / Math.ceil(most);
  const y = linear(
    Math.max(...panel.shares) * 100,
    { from: bottom, to: top + 6 },
    3,
    (v) => `${tickText(v)}\u00a0%`,
  );
  picture.add(text(box.x, box.y + 12, picture.measure.clip(panel.title, box.width), ''));
  for (const tick of y.ticks) {
    const at = y.at(tick.value);
    picture.add(line(left, at, right, at, tick.value === 0 ? 'zero' : 'grid'));
    picture.add(text(left - 6, at + 4, tick.text, '', 'end'));
  }
  const bars = element('g', { class: row.style }, element('title', {}, row.name));
  const names = panel.shares.map((_, i) => String(i));
  if (panel.rest) names[names.length - 1] += '+';
  drawNames(picture, names, left, slot, bottom + 17);
  panel.shares.forEach((share, i) => {
    const x = left + i * slot;
    const at = y.at(share * 100);
    bars.append(
      element('rect', {
        x: x + 0.12 * slot,
        y: at,
        width: 0.76 * slot,
        height: bottom - at,
        class: `staleness-bar ${panel.kind}`,
      }),
    );
    const kind = panel.title.replace(/,.*/, '');
    const name = names[i]?.replace('+', ' or more');
    picture.readings.push({
      x: x + slot / 2,
      y: Math.min(at, bottom - 6),
      group,
      text: `${row.label}: ${kind} ${name}, ${valueText(share * 100)} % of updates`,
    });
  });
  picture.add(bars);
  panel.guides.forEach((guide, i) => {
    const x = left + (guide.at + 0.5) * slot; // a bar's middle is its value
    const textY = box.y + 24 + i * 18 + 12;
    picture.add(line(x, textY - 10, x, bottom, `guide ${guide.style}`));
    const width = picture.measure.width(guide.text, 'note-text');
    const beside = x + 6 + width <= box.x + box.width;
    picture.add(
      text(beside ? x + 6 : x - 6, textY, guide.text, 'note-text', beside ? 'start' : 'end'),
    );
  });
  return bottom + 24 - box.y;
}

export function staleness(figure: HTMLElement, file: RunFile): (width: number) => void {
  const rows = readRows(file, figure.id).filter((row) => row.run.staleness);
  return (width) => {
    const picture = new Picture(figure, width);
    const stacked = width < STACKED;
    const panelWidth = stacked ? width : (width - 40) / 2;
    let y = 4;
    rows.forEach((row, index) => {
      const name = picture.measure.clip(row.label, width - 28, 'label');
      picture.add(
        element(
          'g',
          { class: row.style },
          mark(row.marker, 9, y + 11),
          text(26, y + 16, name, 'label'),
        ),
      );
      y += 32;
      (['clock', 'update'] as const).forEach((of, column) => {
        const x = stacked ? 0 : column * (panelWidth + 40);
        const box = { x, y, width: panelWidth };
        const height = drawPanel(picture, row, panelOf(row, of), box, index * 2 + column);
        if (stacked || column === 1) y += height + 10;
      });
    });
    picture.finish(y + 4, false);
  };
}
