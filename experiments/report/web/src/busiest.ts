// busiest.ts: bytes of a step on the busiest link, one direction, beside the formula: a row a
// variant, or lines by workers where they were swept.
import { drawBars, type BarRow } from './bars';
import { drawAxes, drawLines, namesWidth, type Line } from './lines';
import { tickText } from './kit/number';
import { Picture } from './kit/picture';
import { atValues, linear } from './kit/scale';
import { element, line, mark, round } from './kit/svg';
import { bySeries, cellText, number, readRows, type Row, type RunFile } from './rows';

const HEIGHT = 300;
const MEGA = 1e6;

const measured = (row: Row): number => number(row.run.busiest?.bytes_per_step) / MEGA;
const lawful = (row: Row): number => number(row.run.busiest?.formula) / MEGA;
const NONE = '–';

// Endpoint, formula, its value and the measurement are the table's.
function reading(row: Row): string {
  const law = lawful(row) > 0 ? `; formula ${cellText(row, 1)} = ${cellText(row, 2)}` : '';
  return `${row.label}: measured ${cellText(row, 3)}, ${cellText(row, 0)}${law}`;
}

function asBars(picture: Picture, rows: Row[]): void {
  const bars = rows.map((row): BarRow => ({
    row,
    end: Math.max(measured(row), lawful(row)),
    value: cellText(row, 3),
    quiet: cellText(row, 0),
    below: cellText(row, 1) === NONE ? '' : cellText(row, 1),
  }));
  const style = { unit: 'MB per step, one direction', height: 40, top: 2 };
  drawBars(picture, bars, style, (group, { row }, index, y, x) => {
    group.append(line(x.at(0), y, x.at(measured(row)), y, 'stem'));
    if (lawful(row) > 0) {
      group.append(line(x.at(lawful(row)), y - 15, x.at(lawful(row)), y + 15, 'law'));
    }
    group.append(mark(row.marker, x.at(measured(row)), y));
    picture.readings.push({
      x: x.at(measured(row)),
      y,
      group: index,
      text: reading(row),
    });
  });
}

function asLines(picture: Picture, rows: Row[], workers: number[]): void {
  const series = bySeries(rows);
  const lines = series.map((each): Line => ({
    row: each[0] as Row,
    points: each.map((row) => ({ x: row.run.workers, y: measured(row), text: reading(row) })),
  }));
  const largest = Math.max(...rows.flatMap((row) => [measured(row), lawful(row)]));
  const [top, bottom] = [44, 44 + HEIGHT];
  const y = linear(largest, { from: bottom, to: top }, 5, tickText);
  const left = picture.measure.widest(y.ticks.map((tick) => tick.text)) + 14;
  const right =
    picture.width -
    namesWidth(
      picture,
      lines.map((each) => each.row.name),
    );
  const x = atValues(workers, { from: left + 14, to: right }, false);
  const plot = { left, right, top, bottom, x, y };
  drawAxes(picture, plot, 'workers', 'MB per step, one direction');
  for (const each of series) {
    const law = each.filter((row) => lawful(row) > 0);
    const d = law
      .map(
        (row, i) => `${i ? 'L' : 'M'}${round(x.at(row.run.workers))} ${round(y.at(lawful(row)))}`,
      )
      .join('');
    if (d) picture.add(element('path', { d, class: 'reference' }));
  }
  drawLines(picture, plot, lines);
  picture.finish(bottom + 50, false);
}

export function busiest(figure: HTMLElement, file: RunFile): (width: number) => void {
  const rows = readRows(file, figure.id);
  const workers = [...new Set((file.runs ?? []).map((run) => run.workers))].sort((a, b) => a - b);
  return (width) => {
    const picture = new Picture(figure, width);
    if (workers.length > 1) asLines(picture, rows, workers);
    else asBars(picture, rows);
  };
}
