// load.ts: what kept a parameter server busy, second by second, as two strips over one time: pushes
// that were whole and not applied, and processors in use. A full link shows in neither, a slow fold
// in both. Of each variant the server that used its processor most.
import { drawAxes, drawLines, namesWidth, type Line } from './lines';
import { tickText, valueText } from './kit/number';
import { Picture } from './kit/picture';
import { linear } from './kit/scale';
import { number, readRows, type Row, type RunFile, type ServerSeconds } from './rows';

const HEIGHT = 110; // of a strip
const BETWEEN = 84;

interface Busy {
  row: Row;
  server: ServerSeconds;
}
const total = (values: number[] | undefined): number =>
  (values ?? []).reduce((sum, value) => sum + number(value), 0);

function busiest(rows: Row[]): Busy[] {
  const seen = new Set<Row['run']>();
  return rows.flatMap((row) => {
    if (seen.has(row.run)) return [];
    seen.add(row.run);
    const servers = row.run.server_seconds ?? [];
    const first = [...servers].sort((a, b) => total(b.cpu) - total(a.cpu))[0];
    if (!first) return [];
    return [{ row: { ...row, name: `${row.name} s${first.server}` }, server: first }];
  });
}

function lineOf({ row, server }: Busy, of: 'waiting' | 'cpu', what: string): Line {
  const points = (server[of] ?? []).map((value, i) => {
    const x = i * server.window_s;
    const y = number(value);
    return { x, y, text: `${row.label}, server ${server.server}: at ${x} s ${valueText(y)} ${what}` };
  });
  return { row, points };
}

function drawStrip(picture: Picture, lines: Line[], top: number, unit: string, group: number): void {
  const bottom = top + HEIGHT;
  const points = lines.flatMap((each) => each.points);
  const most = Math.max(...points.map((point) => point.y));
  const y = linear(most || 1, { from: bottom, to: top }, 3, tickText);
  const left = picture.measure.widest(y.ticks.map((tick) => tick.text)) + 14;
  const names = lines.map((each) => each.row.name);
  const right = picture.width - namesWidth(picture, names);
  const last = Math.max(...points.map((point) => point.x));
  const about = picture.width < 560 ? 3 : 6;
  const x = linear(last, { from: left, to: right - 6 }, about, tickText, false);
  const plot = { left, right, top, bottom, x, y };
  drawAxes(picture, plot, 's since the first step', unit);
  drawLines(picture, plot, lines, group);
}

export function load(figure: HTMLElement, file: RunFile): (width: number) => void {
  const shown = busiest(readRows(file, figure.id));
  return (width) => {
    const picture = new Picture(figure, width);
    const waiting = shown.map((each) => lineOf(each, 'waiting', 'pushes wait'));
    const cpu = shown.map((each) => lineOf(each, 'cpu', 'processors'));
    drawStrip(picture, waiting, 34, 'whole pushes that wait, mean of the second', 0);
    const second = 34 + HEIGHT + BETWEEN;
    drawStrip(picture, cpu, second, 'processors in use', shown.length);
    picture.finish(second + HEIGHT + 50, false);
  };
}
