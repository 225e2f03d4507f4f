/** Where the parts of a curve are drawn. */
import type { CurveScore, CurveStep, Num } from './types';
import { toNumber } from './api';
import { pValue, score, signed } from './format';

export type Spacing = 'linear' | 'log' | 'even';

/** Differences that are more than chance after the correction. */
const ALPHA = 0.05;

const WIDTH = 340;
const HEIGHT = 210;
const [LEFT, TOP, RIGHT, BOTTOM] = [46, 8, WIDTH - 8, HEIGHT - 30];
/** Lines with more points have no dots. */
const DOTTED = 60;

export interface Drawn {
  width: number;
  height: number;
  left: number;
  right: number;
  top: number;
  bottom: number;
  points: ({ x: number; y: number } | null)[];
  /** The index of the last step with the score. */
  last: number | null;
  lines: string[];
  bands: string[];
  dots: string;
  /** Triangles at steps that differ from the previous one. */
  better: string;
  worse: string;
  /** The strip at the bottom: steps that cannot be told from the best, and those that are worse. */
  tied: string;
  below: string;
  chance: number | null;
  ticks: { y: number; label: string }[];
  labels: { x: number; text: string; anchor: 'start' | 'middle' | 'end' }[];
}

const at = (list: (Num | null)[], index: number) => toNumber(list[index] ?? null);

/** Whether a step differs from the previous or the best one by more than chance. */
export function differs(p: (Num | null)[], index: number): boolean {
  return at(p, index) < ALPHA;
}

export function layout(steps: CurveStep[], entry: CurveScore, spacing: Spacing): Drawn {
  const count = steps.length;
  const known = entry.values.flatMap((value, index) => (Number.isFinite(toNumber(value)) ? [index] : []));
  const place = (index: number) => {
    const step = steps[index]?.step ?? 0;
    return spacing === 'even' ? index : spacing === 'log' ? Math.log2(step + 1) : step;
  };
  const [first, end] = [place(0), place(count - 1)];
  const x = (index: number) => (end > first ? LEFT + ((RIGHT - LEFT) * (place(index) - first)) / (end - first) : (LEFT + RIGHT) / 2);
  const chance = entry.chance === null ? NaN : toNumber(entry.chance);
  const all = known
    .flatMap((index) => [at(entry.values, index), at(entry.low, index), at(entry.high, index)])
    .concat(chance)
    .filter(Number.isFinite);
  let [low, high] = [Math.min(...all), Math.max(...all)];
  const room = high > low ? (high - low) * 0.06 : Math.max(Math.abs(low) * 0.1, 1e-3);
  [low, high] = [low - room, high + room];
  const y = (value: number) => BOTTOM - ((BOTTOM - TOP) * (value - low)) / (high - low);
  const points = entry.values.map((value, index) => {
    const number = toNumber(value);
    return Number.isFinite(number) ? { x: round(x(index)), y: round(y(number)) } : null;
  });
  const line: string[] = [];
  const upper: string[] = [];
  const lower: string[] = [];
  let [dots, better, worse, tied, below] = ['', '', '', '', ''];
  for (const index of known) {
    const point = points[index];
    if (!point) continue;
    line.push(`${point.x},${point.y}`);
    const [from, to] = [at(entry.low, index), at(entry.high, index)];
    if (Number.isFinite(from) && Number.isFinite(to)) {
      lower.unshift(`${point.x},${round(y(from))}`);
      upper.push(`${point.x},${round(y(to))}`);
    }
    if (known.length <= DOTTED) dots += `M${point.x} ${point.y}h0`;
    if (differs(entry.previous_p, index)) {
      const rises = at(entry.from_previous, index) > 0;
      const mark = rises ? `M${point.x - 5} ${point.y + 13}h10l-5 -8z` : `M${point.x - 5} ${point.y - 13}h10l-5 8z`;
      if (rises === (entry.higher_is_better ?? true)) better += mark;
      else worse += mark;
    }
    if (entry.best !== null) {
      const half = Math.min(6, (RIGHT - LEFT) / Math.max(1, 2 * count));
      const strip = `M${round(point.x - half)} ${BOTTOM + 6}h${round(2 * half)}`;
      if (differs(entry.best_p, index)) below += strip;
      else tied += strip;
    }
  }
  const label = (index: number, anchor: 'start' | 'middle' | 'end') => ({
    x: round(x(index)),
    text: short(steps[index]?.step ?? 0),
    anchor,
  });
  return {
    width: WIDTH,
    height: HEIGHT,
    left: LEFT,
    right: RIGHT,
    top: TOP,
    bottom: BOTTOM,
    points,
    last: known.at(-1) ?? null,
    lines: line.length > 1 ? [line.join(' ')] : [],
    bands: upper.length > 1 ? [[...upper, ...lower].join(' ')] : [],
    dots,
    better,
    worse,
    tied,
    below,
    chance: Number.isFinite(chance) ? round(y(chance)) : null,
    ticks: known.length > 0 ? ticks(low, high).map((value) => ({ y: round(y(value)), label: String(value) })) : [],
    labels: count > 1 ? [label(0, 'start'), label(count - 1, 'end')] : count === 1 ? [label(0, 'middle')] : [],
  };
}

/** The step that is nearest to a position. */
export function hits(drawn: Drawn, x: number): number | null {
  let best: number | null = null;
  let distance = Infinity;
  for (const [index, point] of drawn.points.entries()) {
    if (point && Math.abs(point.x - x) < distance) [best, distance] = [index, Math.abs(point.x - x)];
  }
  return best;
}

/** A step in words: its score, and how it differs from the previous and the best one. */
export function changeText(steps: CurveStep[], entry: CurveScore, index: number): string {
  const from = (name: string, difference: (Num | null)[], p: (Num | null)[]) =>
    difference[index] === null || difference[index] === undefined
      ? []
      : [`${name} ${signed(difference[index])} (p ${pValue(p[index] ?? null)})`];
  const interval = entry.low[index] == null ? '' : ` [${score(entry.low[index])}, ${score(entry.high[index])}]`;
  const parts = [
    `step ${steps[index]?.step.toLocaleString('en-US')}: ${score(entry.values[index])}${interval}`,
    ...from('vs previous', entry.from_previous, entry.previous_p),
    ...(entry.best === index ? ['the best'] : from('vs best', entry.from_best, entry.best_p)),
  ];
  return parts.join(' · ');
}

/** About four round numbers. */
function ticks(low: number, high: number): number[] {
  const raw = (high - low) / 4;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = ([1, 2, 5].find((factor) => factor * power >= raw) ?? 10) * power;
  const found: number[] = [];
  for (let index = Math.ceil(low / step); index * step <= high; index++) found.push(Number((index * step).toPrecision(6)));
  return found;
}

/** 143000 as 143k. */
export function short(step: number): string {
  for (const [size, unit] of [
    [1e9, 'G'],
    [1e6, 'M'],
    [1e3, 'k'],
  ] as const)
    if (step >= size) return `${Number((step / size).toPrecision(4))}${unit}`;
  return String(step);
}

const round = (value: number) => Math.round(value * 10) / 10;
