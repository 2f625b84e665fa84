// throughput.ts: samples per second, one row per variant: stem from zero and mark at the median,
// whiskers at the interval, one tick below per block.
import { drawBars, type BarRow } from './bars';
import { Picture } from './kit/picture';
import { element, line, mark, round } from './kit/svg';
import { cellText, number, readRows, type Row, type RunFile } from './rows';

const NONE = '–';

interface Speed {
  median: number;
  low: number;
  high: number;
  blocks: number[];
}

function speedOf(row: Row): Speed {
  const speed = row.run.samples_per_s;
  const median = number(speed?.median);
  const several = (speed?.n ?? 0) > 1;
  return {
    median,
    low: several ? number(speed?.low) : median,
    high: several ? number(speed?.high) : median,
    blocks: (row.run.samples_per_s_by_block ?? []).map(number),
  };
}

export function throughput(figure: HTMLElement, file: RunFile): (width: number) => void {
  const rows = readRows(file, figure.id).filter((row) => (row.run.samples_per_s?.n ?? 0) > 0);
  return (width) => {
    const picture = new Picture(figure, width);
    const bars = rows.map((row): BarRow => {
      const { median, high, blocks } = speedOf(row);
      const range = cellText(row, 1);
      return {
        row,
        end: Math.max(high, median, ...blocks),
        value: cellText(row, 0),
        quiet: range === NONE ? '' : range,
        below: '',
      };
    });
    const style = { unit: 'samples/s, all workers together', height: 42, top: 2 };
    drawBars(picture, bars, style, (group, bar, index, y, x) => {
      const { median, low, high, blocks } = speedOf(bar.row);
      group.append(line(x.at(0), y, x.at(median), y, 'stem'));
      if (high > low) {
        const [from, to] = [round(x.at(low)), round(x.at(high))];
        const d = `M${from} ${y - 10}V${y + 10}M${from} ${y}H${to}M${to} ${y - 10}V${y + 10}`;
        group.append(element('path', { d, class: 'whisker' }));
      }
      group.append(mark(bar.row.marker, x.at(median), y));
      const { label } = bar.row;
      const range = bar.quiet ? `, interval ${bar.quiet}` : '';
      picture.readings.push({
        x: x.at(median),
        y,
        group: index,
        text: `${label}: median ${bar.value} samples/s${range}`,
      });
      const texts = bar.row.cells[2]?.querySelectorAll('span') ?? [];
      blocks.forEach((value, i) => {
        const block = bar.row.run.block?.[i] ?? i + 1;
        group.append(line(x.at(value), y + 13, x.at(value), y + 21, 'block'));
        picture.readings.push({
          x: x.at(value),
          y: y + 17,
          group: index,
          text: `${label}: block ${block}, ${texts[i]?.textContent ?? ''} samples/s`,
        });
      });
    });
  };
}
