// scale.ts: from data to pixels, and the round values to write beside.

export interface Tick {
  value: number;
  text: string;
}
export interface Scale {
  at: (value: number) => number; // pixels
  ticks: Tick[];
}

// Round values from 0 to at least `largest`: steps of 1, 2 or 5 times a power of ten.
export function roundValues(largest: number, about: number): number[] {
  if (!(largest > 0)) return [0];
  const raw = largest / Math.max(1, about);
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = power * ([1, 2, 5].find((factor) => factor * power >= raw) ?? 10);
  const count = Math.ceil(largest / step - 1e-9);
  return Array.from({ length: count + 1 }, (_, i) => i * step);
}

export interface Span {
  from: number; // pixels at the smallest value
  to: number; // and at the largest
}

// From 0 to `largest`, or to the round value above it.
export function linear(
  largest: number,
  span: Span,
  about: number,
  format: (value: number) => string,
  toRound = true,
): Scale {
  const values = roundValues(largest, about);
  const end = toRound ? (values[values.length - 1] as number) : largest;
  const unit = (span.to - span.from) / (end || 1);
  return {
    at: (value) => span.from + value * unit,
    ticks: values
      .filter((value) => value <= end * 1.0001)
      .map((value) => ({ value, text: format(value) })),
  };
}

// Logarithmic, between values of 1, 2 or 5 times a power of ten around [smallest, largest], all
// positive. Over more than two decades the powers of ten alone have ticks.
export function logarithmic(
  smallest: number,
  largest: number,
  span: Span,
  format: (value: number) => string,
): Scale {
  const values: number[] = [];
  const from = Math.floor(Math.log10(smallest) + 1e-9);
  const to = Math.ceil(Math.log10(largest) - 1e-9);
  for (let power = from; power <= to; power += 1) {
    for (const factor of [1, 2, 5]) values.push(Number(`${factor}e${power}`));
  }
  const below = values.filter((value) => value <= smallest * 1.0001);
  const above = values.filter((value) => value >= largest * 0.9999);
  const low = below[below.length - 1] as number;
  const high = above.find((value) => value > low) ?? low * 10;
  const decades = Math.log10(high / low);
  const unit = (span.to - span.from) / decades;
  const wide = decades > 2.01;
  const every = Math.ceil(decades / 6);
  const isDecade = (value: number) => Math.abs(Math.log10(value) % 1) < 1e-9;
  const skipped = (value: number) => wide && Math.round(Math.log10(value)) % every !== 0;
  return {
    at: (value) => span.from + Math.log10(value / low) * unit,
    ticks: values
      .filter((value) => value >= low && value <= high)
      .filter((value) => !wide || (isDecade(value) && !skipped(value)))
      .map((value) => ({ value, text: format(value) })),
  };
}

// Ticks at the given values only; logarithmic to base 2 (doubling is one length) or linear.
export function atValues(values: number[], span: Span, log: boolean): Scale {
  const warp = (value: number) => (log ? Math.log2(value) : value);
  const low = warp(Math.min(...values));
  const high = warp(Math.max(...values));
  const unit = (span.to - span.from) / (high - low || 1);
  return {
    at: (value) => span.from + (warp(value) - low) * unit,
    ticks: values.map((value) => ({ value, text: String(value) })),
  };
}
