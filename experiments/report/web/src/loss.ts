// loss.ts: training loss over steps, wall time or samples, whichever the reader chooses; a line
// at the target.
import { drawAxes, drawLines, namesWidth, type Line } from './lines';
import { countText, tickText, valueText } from './kit/number';
import { Picture } from './kit/picture';
import { linear, logarithmic } from './kit/scale';
import { line } from './kit/svg';
import { isNumber, readRows, type Row, type RunFile } from './rows';

const HEIGHT = 290;

type Over = 'step' | 'time_s' | 'samples';
const CHOICES: { over: Over; name: string; unit: string; reading: (value: number) => string }[] = [
  { over: 'step', name: 'steps', unit: 'step', reading: (value) => `step ${countText(value)}` },
  {
    over: 'time_s',
    name: 'wall time',
    unit: 's since the first step',
    reading: (value) => `${valueText(value)} s`,
  },
  {
    over: 'samples',
    name: 'samples',
    unit: 'samples trained, all workers',
    reading: (value) => `${countText(value)} samples`,
  },
];
type Choice = (typeof CHOICES)[number];

function lineOf(row: Row, choice: Choice): Line {
  const loss = row.run.loss ?? {};
  const xs = loss[choice.over] ?? [];
  const points = (loss.value ?? [])
    .map((y, i) => ({ x: xs[i] as number, y }))
    .filter(({ x, y }) => isNumber(x) && isNumber(y))
    .map(({ x, y }) => ({
      x,
      y,
      text: `${row.label}: ${choice.reading(x)}, loss ${valueText(y)}`,
    }));
  return { row, points };
}

function switcher(figure: HTMLElement, choices: Choice[], choose: (choice: Choice) => void): void {
  const set = document.createElement('fieldset');
  set.className = 'switch';
  const legend = document.createElement('legend');
  legend.textContent = 'Loss over';
  set.append(legend);
  choices.forEach((choice, i) => {
    const label = document.createElement('label');
    const input = document.createElement('input');
    input.type = 'radio';
    input.name = 'loss-over';
    input.value = choice.over;
    input.checked = i === 0;
    input.addEventListener('change', () => choose(choice));
    label.append(input, ` ${choice.name}`);
    set.append(label);
  });
  figure.before(set);
}

function drawLoss(picture: Picture, rows: Row[], choice: Choice, target: number | undefined): void {
  const lines = rows.map((row) => lineOf(row, choice)).filter((each) => each.points.length > 0);
  const values = lines.flatMap((each) => each.points.map((point) => point.y));
  const positive = values.every((value) => value > 0);
  const shown = target === undefined ? values : [...values, target];
  const [least, most] = [Math.min(...shown), Math.max(...shown)];
  const log = positive && most > 10 * least;
  const [top, bottom] = [34, 34 + HEIGHT];
  const y = log
    ? logarithmic(least, most, { from: bottom, to: top }, tickText)
    : linear(most, { from: bottom, to: top }, 5, tickText);
  const left = picture.measure.widest(y.ticks.map((tick) => tick.text)) + 14;
  const right =
    picture.width -
    namesWidth(
      picture,
      rows.map((row) => row.name),
    );
  const last = Math.max(...lines.flatMap((each) => each.points.map((point) => point.x)));
  const about = picture.width < 560 ? 3 : 6;
  const x = linear(last, { from: left, to: right - 6 }, about, tickText, false);
  const plot = { left, right, top, bottom, x, y };
  // The target is named above the picture: beside its line the curves would run through its name.
  const aim = target === undefined ? '' : `; dashed: target ${valueText(target)}`;
  drawAxes(picture, plot, choice.unit, `training loss${aim}`);
  if (target !== undefined) {
    picture.add(line(left, y.at(target), right, y.at(target), 'guide bound'));
  }
  drawLines(picture, plot, lines);
  picture.finish(bottom + 50, false);
}

export function loss(figure: HTMLElement, file: RunFile): (width: number) => void {
  const rows = readRows(file, figure.id);
  const target = rows.map((row) => row.run.target?.loss).find(isNumber);
  const choices = CHOICES.filter(
    (choice) => rows.length > 0 && rows.every((row) => lineOf(row, choice).points.length > 0),
  );
  let chosen = choices[0] as Choice;
  let width = 0;
  const draw = () => drawLoss(new Picture(figure, width), rows, chosen, target);
  if (choices.length > 1) {
    switcher(figure, choices, (choice) => {
      chosen = choice;
      draw();
    });
  }
  return (wide) => {
    width = wide;
    draw();
  };
}
