// lines.ts: pictures with lines over a common x: axes, lines with marks, and each line's name at
// its end, joined to it where names had to move apart.
import { spread } from './kit/labels';
import type { Picture } from './kit/picture';
import type { Scale } from './kit/scale';
import { element, line, mark, round, text } from './kit/svg';
import type { Row } from './rows';

export interface Point {
  x: number; // data units
  y: number;
  low?: number; // whisker
  high?: number;
  text: string; // read out
}
export interface Line {
  row: Row;
  points: Point[];
}
export interface Plot {
  left: number;
  right: number; // where lines end; names stand beyond
  top: number;
  bottom: number;
  x: Scale;
  y: Scale;
}

const LABEL_GAP = 18;
const MARKS_MAX = 6; // on a line of many points

// Where names begin beyond the lines' ends, a mark before them.
export const nameGap = (picture: Picture): number => (picture.width < 560 ? 34 : 48);

// Room for the names beyond the lines' ends.
export const namesWidth = (picture: Picture, names: string[]): number =>
  Math.min(0.4 * picture.width, picture.measure.widest(names, 'label') + nameGap(picture) + 4);

export function drawAxes(picture: Picture, plot: Plot, xUnit: string, yUnit: string): void {
  for (const tick of plot.y.ticks) {
    const y = plot.y.at(tick.value);
    picture.add(line(plot.left, y, plot.right, y, tick.value === 0 ? 'zero' : 'grid'));
    picture.add(text(plot.left - 8, y + 4, tick.text, '', 'end'));
  }
  picture.add(text(0, plot.top - 14, picture.measure.clip(yUnit, picture.width)));
  let free = -Infinity; // a tick's text must not touch the one before
  for (const tick of plot.x.ticks) {
    const x = plot.x.at(tick.value);
    const half = picture.measure.width(tick.text) / 2;
    const centre = Math.min(x, picture.width - half);
    picture.add(line(x, plot.bottom, x, plot.bottom + 5, 'zero'));
    if (centre - half < free) continue;
    picture.add(text(centre, plot.bottom + 20, tick.text, '', 'middle'));
    free = centre + half + 8;
  }
  picture.add(
    text(plot.left, plot.bottom + 40, picture.measure.clip(xUnit, picture.width - plot.left)),
  );
}

// Lines that lie on each other show all their marks: each starts marking elsewhere.
function marked(index: number, count: number, points: number): Set<number> {
  if (points <= MARKS_MAX * 2) return new Set(Array.from({ length: points }, (_, i) => i));
  const step = (points - 1) / MARKS_MAX;
  const phase = (step * (index + 1)) / (count + 1);
  return new Set(Array.from({ length: MARKS_MAX }, (_, i) => Math.round(i * step + phase)));
}

// `firstGroup`: of the readings, for lines that follow other rows of the picture.
export function drawLines(picture: Picture, plot: Plot, lines: Line[], firstGroup = 0): void {
  const shown = lines.filter((each) => each.points.length > 0);
  shown.forEach(({ row, points }, index) => {
    const group = element('g', { class: row.style }, element('title', {}, row.name));
    const at = points.map((point) => [plot.x.at(point.x), plot.y.at(point.y)] as const);
    const d = at.map(([x, y], i) => `${i ? 'L' : 'M'}${round(x)} ${round(y)}`).join('');
    group.append(element('path', { d, class: 'line' }));
    const marks = marked(index, shown.length, points.length);
    points.forEach((point, i) => {
      const [x, y] = at[i] as readonly [number, number];
      if (isFinite(point.low ?? NaN) && isFinite(point.high ?? NaN)) {
        const ends = [point.low as number, point.high as number].map((end) => plot.y.at(end));
        const [low, high] = ends.map(round) as [number, number];
        const left = round(x - 5);
        const whisker = `M${left} ${low}h10M${round(x)} ${low}V${high}M${left} ${high}h10`;
        group.append(element('path', { d: whisker, class: 'whisker' }));
      }
      if (marks.has(i)) group.append(mark(row.marker, x, y, 0.75));
      picture.readings.push({ x, y, group: firstGroup + index, text: point.text });
    });
    picture.add(group);
  });
  drawNames(picture, plot, shown);
}

function drawNames(picture: Picture, plot: Plot, lines: Line[]): void {
  const ends = lines.map(({ points }) => {
    const last = points[points.length - 1] as Point;
    return { x: plot.x.at(last.x), y: plot.y.at(last.y) };
  });
  const places = spread(
    ends.map((end) => end.y),
    LABEL_GAP,
    plot.top,
    plot.bottom,
  );
  lines.forEach(({ row }, i) => {
    const [end, y] = [ends[i] as { x: number; y: number }, places[i] as number];
    const x = plot.right + nameGap(picture);
    const d = `M${round(end.x + 8)} ${round(end.y)}L${round(x - 20)} ${round(y)}`;
    const room = picture.width - x;
    picture.add(
      element(
        'g',
        { class: row.style },
        element('title', {}, row.name),
        element('path', { d, class: 'leader' }),
        mark(row.marker, x - 10, y, 0.75),
        text(x + 2, y + 5, picture.measure.clip(row.name, room - 2, 'label'), 'label name'),
      ),
    );
  });
}
