/** Non-finite numbers travel as strings. */
export type Numeric = number | string | null | undefined;

export function toNumber(value: Numeric): number {
  if (typeof value === 'number') return value;
  if (value === 'Infinity') return Infinity;
  if (value === '-Infinity') return -Infinity;
  return NaN;
}

/** A score with four decimals, or four significant digits when it is large; the sign of a difference is a real minus. */
export function score(value: Numeric, digits = 4): string {
  if (value === null || value === undefined) return '–';
  if (typeof value === 'string') return value;
  if (Number.isInteger(value) && Math.abs(value) < 1e6) return minus(String(value));
  const size = Math.abs(value);
  if (size >= 1e6 || (size > 0 && size < 1e-4)) return minus(value.toExponential(2));
  return minus(value.toFixed(size >= 1000 ? 1 : size >= 100 ? 2 : digits));
}

export function signed(value: Numeric, digits = 4): string {
  if (typeof value !== 'number') return score(value, digits);
  const shown = Math.abs(value) < 1000 ? fixed(value, digits) : score(value, digits);
  return value > 0 ? `+${shown}` : shown;
}

export function fixed(value: number, digits: number): string {
  return minus(value.toFixed(digits));
}

function minus(text: string): string {
  return text.replace('-', '−');
}

export function pValue(value: Numeric): string {
  if (typeof value !== 'number') return score(value);
  return value < 0.0001 ? '< 0.0001' : value.toFixed(4);
}

export function count(value: number | null | undefined): string {
  return value === null || value === undefined ? '–' : value.toLocaleString('en-US');
}

export function percent(value: Numeric): string {
  return typeof value === 'number' ? `${minus((value * 100).toFixed(1))} %` : score(value);
}

export function duration(seconds: Numeric): string {
  if (typeof seconds !== 'number' || !Number.isFinite(seconds)) return '–';
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  const total = Math.round(seconds);
  if (total < 60) return `${total} s`;
  if (total < 3600) return `${Math.floor(total / 60)} min ${total % 60} s`;
  return `${Math.floor(total / 3600)} h ${Math.round((total % 3600) / 60) % 60} min`;
}

/** Local time to the minute, in a form that sorts. */
export function date(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return '–';
  const time = new Date(seconds * 1000);
  const two = (part: number) => String(part).padStart(2, '0');
  return `${time.getFullYear()}-${two(time.getMonth() + 1)}-${two(time.getDate())} ${two(time.getHours())}:${two(time.getMinutes())}`;
}

export function bytes(size: number): string {
  if (size < 1024) return `${size} B`;
  if (size < 1024 * 1024) return `${(size / 1024).toFixed(1)} KiB`;
  return `${(size / 1024 / 1024).toFixed(1)} MiB`;
}

export function plural(number: number, one: string, many = `${one}s`): string {
  return `${count(number)} ${number === 1 ? one : many}`;
}
