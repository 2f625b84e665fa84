// divergence.ts: how far the replicas are apart, by step, logarithmic. Exactly 0, which no
// logarithm can show and which is the main result, has a strip of its own with a lane a variant.
import {
  drawAxes,
  drawLines,
  nameGap,
  namesWidth,
  type Line,
  type Plot,
  type Point,
} from './lines';
import { countText, shareText, tickText } from './kit/number';
import { Picture } from './kit/picture';
import { linear, logarithmic } from './kit/scale';
import { element, line, mark, text } from './kit/svg';
import { isNumber, readRows, type Failure, type Row, type RunFile } from './rows';

const HEIGHT = 190;
const LANE = 20;
const TITLE = 28; // of the strip
const stripHeight = (lanes: number): number => (lanes > 0 ? TITLE + lanes * LANE + 4 : 0);

interface Probe {
  step: number;
  apart: number;
}
interface Distances {
  row: Row;
  probes: Probe[];
}

// Known where measured, and where all hashes are equal; else the probe is left out.
function probesOf(row: Row): Probe[] {
  const probes: Probe[] = [];
  for (const { step, hash = [], max_rel } of row.run.replicas?.probes ?? []) {
    const equal = hash.length > 1 && hash.every((each) => each === hash[0]);
    if (isNumber(max_rel)) probes.push({ step, apart: max_rel });
    else if (equal) probes.push({ step, apart: 0 });
  }
  return probes;
}

const label = (row: Row, { step, apart }: Probe): string =>
  `${row.label}: step ${countText(step)}, ` +
  (apart === 0 ? 'exactly 0, bit-identical' : `${shareText(apart)} apart`);

// Lines break where the distance is exactly 0.
function linesOf(all: Distances[]): Line[] {
  return all
    .map(({ row, probes }): Line => {
      const points = probes
        .filter((probe) => probe.apart > 0)
        .map((probe): Point => ({ x: probe.step, y: probe.apart, text: label(row, probe) }));
      return { row, points };
    })
    .filter((each) => each.points.length > 0);
}

// All start from the same values: a zero before the first step is worth a lane only to those that
// have no other point.
const isLane = (probe: Probe, probes: Probe[]): boolean =>
  probe.apart === 0 && (probe.step > 0 || probes.every((each) => each.apart === 0));

function drawStrip(
  picture: Picture,
  plot: Plot,
  top: number,
  lanes: Distances[],
  group: number,
): void {
  const height = stripHeight(lanes.length);
  const { left, right } = plot;
  picture.add(element('rect', { x: left, y: top, width: right - left, height, class: 'strip' }));
  const title = picture.measure.clip('exactly 0: bit-identical', right - left - 16, 'label');
  picture.add(text(left + 8, top + 19, title, 'label'));
  lanes.forEach(({ row, probes }, i) => {
    const y = top + TITLE + (i + 0.5) * LANE - 2;
    const zeros = probes.filter((probe) => probe.apart === 0);
    const lane = element('g', { class: row.style }, element('title', {}, row.name));
    const [first, last] = [zeros[0] as Probe, zeros[zeros.length - 1] as Probe];
    lane.append(line(plot.x.at(first.step), y, plot.x.at(last.step), y, 'line'));
    for (const probe of zeros) {
      const x = plot.x.at(probe.step);
      lane.append(mark(row.marker, x, y, 0.75));
      picture.readings.push({ x, y, group: group + i, text: label(row, probe) });
    }
    const nameX = right + nameGap(picture);
    const name = picture.measure.clip(row.name, picture.width - nameX - 2, 'label');
    lane.append(mark(row.marker, nameX - 10, y, 0.75), text(nameX + 2, y + 5, name, 'label name'));
    picture.add(lane);
  });
}

// Where a member failed, by glyph and word; the first cause only. The line spares the strip's title.
function drawFailure(
  picture: Picture,
  plot: Plot,
  strip: number,
  bottom: number,
  failure: Failure,
): void {
  const x = plot.x.at(failure.step);
  picture.add(line(x, plot.top - 8, x, plot.bottom, 'fault'));
  if (strip < bottom) picture.add(line(x, strip + TITLE, x, bottom, 'fault'));
  const where = failure.variant ? `${failure.variant}: ` : '';
  const word = picture.measure.clip(`✖ ${where}${failure.member} failed`, plot.right, 'note-text');
  const half = picture.measure.width(word, 'note-text') / 2;
  const centre = Math.min(Math.max(x, half), picture.width - half);
  picture.add(text(centre, plot.top - 14, word, 'note-text', 'middle'));
}

export function divergence(figure: HTMLElement, file: RunFile): (width: number) => void {
  const all = readRows(file, figure.id).map((row) => ({ row, probes: probesOf(row) }));
  const lines = linesOf(all);
  const lanes = all.filter(({ probes }) => probes.some((probe) => isLane(probe, probes)));
  const steps = all.flatMap(({ probes }) => probes.map((probe) => probe.step));
  const values = lines.flatMap((each) => each.points.map((point) => point.y));
  const failure = (file.failures ?? []).find((each) => !each.consequence && each.step > 0);
  return (width) => {
    const picture = new Picture(figure, width);
    const top = failure ? 50 : 34;
    const middle = lines.length > 0 ? top + HEIGHT : top - 20;
    const range = values.length > 0 ? values : [1]; // no line, no axis
    const span = { from: middle, to: top };
    const percent = (share: number) => `${tickText(share * 100)}\u00a0%`;
    const y = logarithmic(Math.min(...range), Math.max(...range), span, percent);
    const left =
      lines.length > 0 ? picture.measure.widest(y.ticks.map((tick) => tick.text)) + 14 : 4;
    const right =
      width -
      namesWidth(
        picture,
        all.map(({ row }) => row.name),
      );
    const last = Math.max(...steps, failure?.step ?? 0);
    const x = linear(
      last,
      { from: left + 8, to: right - 6 },
      width < 560 ? 3 : 6,
      countText,
      false,
    );
    const stripTop = middle + (lines.length > 0 ? 14 : 0);
    const bottom = lanes.length > 0 ? stripTop + stripHeight(lanes.length) : middle;
    const plot = { left, right, top, bottom: middle, x, y };
    const shownY = lines.length > 0 ? y : { ...y, ticks: [] };
    const unit = lines.length > 0 && !failure ? 'largest distance, of the largest parameter' : '';
    drawAxes(picture, { ...plot, bottom, y: shownY }, 'step', unit);
    if (lanes.length > 0) drawStrip(picture, plot, stripTop, lanes, lines.length);
    if (failure) drawFailure(picture, plot, stripTop, bottom, failure);
    drawLines(picture, plot, lines);
    picture.finish(bottom + 50, false);
  };
}
