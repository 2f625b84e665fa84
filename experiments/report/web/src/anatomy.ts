// anatomy.ts: the mean step as a stack: computing, exposed exchange, waiting; its length is the
// step's. Hatched over the computing's end: exchange that ran beside the backward pass.
import { drawBars, type BarRow } from './bars';
import { Picture } from './kit/picture';
import { element, text } from './kit/svg';
import { cellText, number, readRows, type Row, type RunFile } from './rows';

const HEIGHT = 20;

interface Part {
  style: string;
  name: string;
  column: number; // of the table of numbers
}
const PARTS: Part[] = [
  { style: 'part compute', name: 'computing', column: 0 },
  { style: 'part exchange', name: 'exposed exchange', column: 1 },
  { style: 'part wait', name: 'waiting', column: 2 },
];
const HIDDEN: Part = { style: 'part hidden', name: 'hidden exchange', column: 4 };

// compute + exposed + wait is the step.
function lengths(row: Row): number[] {
  const anatomy = row.run.anatomy_us;
  const wait = number(anatomy?.wait);
  return [number(anatomy?.compute), number(anatomy?.sync) - wait, wait].map((us) => us / 1e3);
}

const bar = (x: number, y: number, width: number, height: number, style: string): SVGElement =>
  element('rect', { x, y, width: Math.max(0, width), height, class: style });

const hatch = (): SVGElement =>
  element(
    'defs',
    {},
    element(
      'pattern',
      { id: 'hatch', width: 5, height: 5, patternUnits: 'userSpaceOnUse' },
      bar(0, 0, 5, 5, 'hatch-ground'),
      element('path', { d: 'M-1 1L1-1M0 5L5 0M4 6L6 4', class: 'hatch' }),
    ),
  );

// Sign and word of each part, in a line or, where it is too long, in several.
function legend(picture: Picture): number {
  let [x, y] = [0, 14];
  for (const part of [...PARTS, HIDDEN]) {
    const width = 24 + picture.measure.width(part.name) + 22;
    if (x > 0 && x + width - 22 > picture.width) [x, y] = [0, y + 22];
    picture.add(bar(x, y - 11, 16, 12, part.style), text(x + 24, y, part.name));
    x += width;
  }
  return y + 14;
}

export function anatomy(figure: HTMLElement, file: RunFile): (width: number) => void {
  const rows = readRows(file, figure.id);
  return (width) => {
    const picture = new Picture(figure, width);
    picture.add(hatch());
    const top = legend(picture);
    const bars = rows.map((row): BarRow => {
      const end = lengths(row).reduce((sum, length) => sum + length, 0);
      return { row, end, value: `${cellText(row, 3)}\u00a0ms`, quiet: '', below: '' };
    });
    const style = { unit: 'ms, mean step of a worker', height: 32, top };
    drawBars(picture, bars, style, (group, { row }, index, y, x) => {
      let begin = 0;
      lengths(row).forEach((length, i) => {
        const part = PARTS[i] as Part;
        const [from, to] = [x.at(begin), x.at(begin + length)];
        group.append(bar(from, y - HEIGHT / 2, to - from, HEIGHT, part.style));
        picture.readings.push({
          x: (from + to) / 2,
          y,
          group: index,
          text: `${row.label}: ${part.name} ${cellText(row, part.column)} of ${cellText(row, 3)} ms`,
        });
        begin += length;
      });
      const computed = number(row.run.anatomy_us?.compute) / 1e3;
      const hidden = Math.min(number(row.run.anatomy_us?.hidden) / 1e3, computed);
      if (hidden <= 0) return;
      const from = x.at(computed - hidden);
      group.append(bar(from, y, x.at(computed) - from, HEIGHT / 2, HIDDEN.style));
      picture.readings.push({
        x: (from + x.at(computed)) / 2,
        y: y + HEIGHT / 4,
        group: index,
        text: `${row.label}: ${HIDDEN.name} ${cellText(row, HIDDEN.column)} ms, beside the computing`,
      });
    });
  };
}
