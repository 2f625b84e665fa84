// scaling.ts: throughput by workers. Doubling the workers is one length; the dotted curve goes on
// from the fewest workers as n times one n-th of them.
import { drawAxes, drawLines, namesWidth, type Line, type Plot } from './lines';
import { tickText } from './kit/number';
import { Picture } from './kit/picture';
import { atValues, linear } from './kit/scale';
import { element, round, text } from './kit/svg';
import { bySeries, cellText, number, readRows, type Row, type RunFile } from './rows';

const HEIGHT = 330;
const ABOVE_DATA = 1.15; // the linear curve leaves the picture there

function lineOf(rows: Row[]): Line {
  const points = rows.map((row) => {
    const speed = row.run.samples_per_s;
    const several = (speed?.n ?? 0) > 1;
    const range = cellText(row, 1);
    return {
      x: row.run.workers,
      y: number(speed?.median),
      ...(several ? { low: number(speed?.low), high: number(speed?.high) } : {}),
      text: `${row.label}: median ${cellText(row, 0)} samples/s${several ? `, interval ${range}` : ''}`,
    };
  });
  return { row: rows[0] as Row, points };
}

// The fastest at the fewest workers, continued.
function drawLinear(picture: Picture, plot: Plot, lines: Line[], largest: number): void {
  const fewest = Math.min(...lines.map((each) => each.points[0]?.x ?? Infinity));
  const most = Math.max(...lines.flatMap((each) => each.points.map((point) => point.x)));
  const starts = lines.map((each) => each.points[0]).filter((point) => point?.x === fewest);
  const slope = Math.max(...starts.map((point) => point?.y ?? 0)) / fewest;
  const end = Math.min(most, largest / slope);
  const steps = 24;
  const at = Array.from({ length: steps + 1 }, (_, i) => fewest * (end / fewest) ** (i / steps));
  const d = at
    .map((n, i) => `${i ? 'L' : 'M'}${round(plot.x.at(n))} ${round(plot.y.at(n * slope))}`)
    .join('');
  picture.add(element('path', { d, class: 'reference dotted' }));
  const x = plot.x.at(end);
  picture.add(text(x - 8, plot.y.at(end * slope) - 8, 'linear', 'note-text', 'end'));
}

export function scaling(figure: HTMLElement, file: RunFile): (width: number) => void {
  const rows = readRows(file, figure.id).filter((row) => (row.run.samples_per_s?.n ?? 0) > 0);
  const lines = bySeries(rows).map(lineOf);
  const workers = [...new Set(rows.map((row) => row.run.workers))].sort((a, b) => a - b);
  return (width) => {
    const picture = new Picture(figure, width);
    const largest = Math.max(...lines.flatMap((each) => each.points.map((p) => p.high ?? p.y)));
    const [top, bottom] = [44, 44 + HEIGHT];
    const y = linear(largest * ABOVE_DATA, { from: bottom, to: top }, 5, tickText);
    const left = picture.measure.widest(y.ticks.map((tick) => tick.text)) + 14;
    const right =
      width -
      namesWidth(
        picture,
        lines.map((each) => each.row.name),
      );
    const x = atValues(workers, { from: left + 14, to: right }, true);
    const plot = { left, right, top, bottom, x, y };
    drawAxes(picture, plot, 'workers', 'samples/s, all workers together');
    drawLinear(picture, plot, lines, largest * ABOVE_DATA);
    drawLines(picture, plot, lines);
    picture.finish(bottom + 50, false);
  };
}
