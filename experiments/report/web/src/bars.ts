// bars.ts: pictures with one row a variant and a common scale from zero: name at the left, value
// behind the row's end. Narrow: name and value stand above the row, not beside it.
import { Picture } from './kit/picture';
import { linear, type Scale } from './kit/scale';
import { element, line, mark, text } from './kit/svg';
import { tickText } from './kit/number';
import type { Row } from './rows';

export interface BarRow {
  row: Row;
  end: number; // the largest value drawn, in data units
  value: string;
  quiet: string; // smaller, after the value
  below: string; // smaller, under the name
}
export interface BarStyle {
  unit: string; // under the axis
  height: number; // of a row where there is room beside it
  top: number; // kept free above the rows
}
export type DrawBar = (group: SVGElement, row: BarRow, index: number, y: number, x: Scale) => void;

const NARROW = 620;
const NAME_X = 26;
const LINE = 17; // from one line of words to the next

// All lengths of one drawing.
interface Layout {
  narrow: boolean;
  left: number;
  rowHeight: number;
  top: number;
  bottom: number;
  x: Scale;
}

const note = (row: BarRow): string => (row.row.control ? ', control' : '');

function layout(picture: Picture, rows: BarRow[], style: BarStyle): Layout {
  const { width, measure } = picture;
  const narrow = width < NARROW;
  const names = measure.widest(
    rows.map((row) => row.row.label + note(row)),
    'label',
  );
  const values = measure.widest(
    rows.map((row) => row.value),
    'value',
  );
  const quiet = measure.widest(
    rows.map((row) => row.quiet),
    'quiet',
  );
  const left = narrow ? 8 : Math.min(0.44 * width, names + 44);
  const right = narrow ? 14 : Math.min(0.4 * width, values + quiet + 40);
  const largest = Math.max(...rows.map((row) => row.end));
  const words = rows.some((row) => row.below) ? 54 : 38; // above a narrow row
  const rowHeight = style.height + (narrow ? words : 0);
  return {
    narrow,
    left,
    rowHeight,
    top: style.top,
    bottom: style.top + rows.length * rowHeight + 2,
    x: linear(largest, { from: left, to: width - right }, narrow ? 3 : 5, tickText, false),
  };
}

function drawAxis(picture: Picture, { x, top, bottom }: Layout, unit: string): void {
  const { width, measure } = picture;
  for (const tick of x.ticks) {
    const at = x.at(tick.value);
    picture.add(line(at, top, at, bottom, tick.value === 0 ? 'zero' : 'grid'));
    const half = measure.width(tick.text) / 2;
    const centre = Math.min(Math.max(at, half), width - half);
    picture.add(text(centre, bottom + 18, tick.text, '', 'middle'));
  }
  picture.add(text(x.at(0), bottom + 40, measure.clip(unit, width - x.at(0))));
}

// Sign, name, value. `y`: the row's middle.
function drawWords(
  picture: Picture,
  row: BarRow,
  at: Layout,
  top: number,
  y: number,
): SVGElement[] {
  const { width, measure } = picture;
  const nameY = at.narrow ? top + 20 : y + (row.below ? -3 : 5);
  const room = (at.narrow ? width : at.left) - NAME_X - 8;
  const name = measure.clip(row.row.label, room - measure.width(note(row), 'quiet'), 'label');
  const words = [
    mark(row.row.marker, 9, nameY - 5),
    element(
      'text',
      { x: NAME_X, y: nameY, class: 'label' },
      name,
      element('tspan', { class: 'quiet' }, note(row)),
    ),
  ];
  const below = measure.clip(row.below, room, 'quiet');
  if (below) words.push(text(NAME_X, nameY + LINE, below, 'quiet'));
  const valueX = at.narrow ? NAME_X : at.x.at(row.end) + 18;
  const valueY = at.narrow ? nameY + (row.below ? 2 * LINE + 2 : LINE + 3) : y + 5;
  words.push(text(valueX, valueY, row.value, 'value'));
  const quietX = valueX + measure.width(row.value, 'value') + 8;
  const quiet = measure.clip(row.quiet, width - quietX, 'quiet');
  if (quiet) words.push(text(quietX, valueY, quiet, 'quiet'));
  return words;
}

// Draws into `picture`; `draw` adds what stands in each row, around the height y.
export function drawBars(picture: Picture, rows: BarRow[], style: BarStyle, draw: DrawBar): void {
  const at = layout(picture, rows, style);
  drawAxis(picture, at, style.unit);
  rows.forEach((row, index) => {
    const top = at.top + index * at.rowHeight;
    const y = top + at.rowHeight - style.height / 2;
    const group = element('g', { class: row.row.style }, element('title', {}, row.row.label));
    draw(group, row, index, y, at.x);
    group.append(...drawWords(picture, row, at, top, y));
    picture.add(group);
  });
  picture.finish(at.bottom + 48, true);
}
