// rows.ts: what the pictures read: values from the run file, looks and texts from the table of
// numbers beside each picture, so that the same value never reads two ways.

export interface Interval {
  median: number;
  low: number;
  high: number;
  n: number;
}
export interface Histogram {
  clock: number[];
  update: number[];
}
export interface ServerSeconds {
  server: number;
  window_s: number;
  waiting?: number[];
  cpu?: number[];
}
export interface Run {
  workers: number;
  servers: number;
  ranked: boolean;
  samples_per_s?: Interval;
  samples_per_s_by_block?: number[];
  block?: number[]; // of each value above
  anatomy_us?: { compute: number; sync: number; wait: number; hidden: number };
  busiest?: {
    node: string;
    direction: string;
    bytes_per_step: number;
    formula: number;
    formula_text: string;
  };
  replicas?: { probes?: { step: number; hash?: string[]; max_rel?: number }[] };
  loss?: { step?: number[]; value?: number[]; time_s?: number[]; samples?: number[] };
  staleness?: {
    server?: Histogram[];
    mean_update: number;
    mean_clock: number;
    expected_mean: number;
  };
  target?: { loss: number };
  server_seconds?: ServerSeconds[];
}
export interface Failure {
  member: string;
  step: number;
  variant: string;
  consequence: boolean;
}
export interface RunFile {
  runs?: Run[];
  failures?: Failure[];
}

// One line of a table of numbers: a variant, as it looks everywhere on the page.
export interface Row {
  run: Run;
  style: string; // s0..s5, sc
  marker: string; // path in -8..8
  label: string;
  name: string; // as the spec calls it: short
  control: boolean;
  cells: Element[]; // the table's, without the variant
}

export const cellText = (row: Row, column: number): string => row.cells[column]?.textContent ?? '';

export function readRows(file: RunFile, picture: string): Row[] {
  const lines = document.querySelectorAll<HTMLElement>(`#${picture}-numbers tbody tr`);
  const rows: Row[] = [];
  for (const line of lines) {
    const run = file.runs?.[Number(line.dataset['run'])];
    if (!run) continue;
    rows.push({
      run,
      style: line.className,
      marker: line.querySelector('path')?.getAttribute('d') ?? '',
      label: line.querySelector('.name')?.textContent ?? '',
      name: line.dataset['name'] ?? '',
      control: !run.ranked,
      cells: Array.from(line.querySelectorAll('td')),
    });
  }
  return rows;
}

// Protobuf writes NaN and infinity as words; nothing is drawn of them.
export const number = (value: unknown): number => {
  const read = typeof value === 'number' ? value : NaN;
  return Number.isFinite(read) ? read : 0;
};
export const isNumber = (value: unknown): value is number =>
  typeof value === 'number' && Number.isFinite(value);

// Rows of one variant at several numbers of workers, fewest first.
export function bySeries(rows: Row[]): Row[][] {
  const series = new Map<string, Row[]>();
  for (const row of rows) {
    const key = `${row.name} ${row.run.servers}`;
    series.set(key, [...(series.get(key) ?? []), row]);
  }
  return [...series.values()].map((each) => each.sort((a, b) => a.run.workers - b.run.workers));
}
