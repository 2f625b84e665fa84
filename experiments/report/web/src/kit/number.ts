// number.ts: numbers as text, with the digits that number.cc gives the tables: the same value must
// not read two ways. Only finite values.

const GAP = '\u00a0'; // a unit must not stand alone on the next line
const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const tick = new Intl.NumberFormat('en', { maximumSignificantDigits: 6 });

function significant(value: number, digits: number): string {
  const magnitude = Math.abs(value);
  const sign = value < 0 ? '−' : '';
  if (magnitude >= 999.5) return sign + whole.format(magnitude);
  if (magnitude === 0) return '0';
  // After rounding, so that 9.996 with three digits is 10.0 and not 10.00.
  const [mantissa, power] = magnitude.toExponential(digits - 1).split('e') as [string, string];
  const exponent = Number(power);
  if (exponent < -4) return `${sign}${mantissa}e-${String(-exponent).padStart(2, '0')}`;
  return sign + magnitude.toFixed(Math.max(0, digits - 1 - exponent));
}

export const countText = (value: number): string => whole.format(value);
export const valueText = (value: number): string => significant(value, 3);
export const shareText = (share: number): string => significant(share * 100, 2) + GAP + '%';
export const bytesText = (bytes: number): string =>
  bytes < 999.5 ? `${whole.format(bytes)}${GAP}B` : `${valueText(bytes / 1e6)}${GAP}MB`;
export const tickText = (value: number): string => tick.format(value);
