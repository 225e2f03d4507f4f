import { expect, test } from 'vitest';
import { bytes, count, duration, percent, pValue, score, signed } from './format';

test('scores', () => {
  expect(score(0.30000000000000004)).toBe('0.3000');
  expect(score(1)).toBe('1');
  expect(score(-12.34567)).toBe('−12.3457');
  expect(score(1234.5678)).toBe('1234.6');
  expect(score(0.00001234)).toBe('1.23e−5');
  expect(score('NaN')).toBe('NaN');
  expect(score(null)).toBe('–');
});

test('differences, p-values and counts', () => {
  expect(signed(0.125)).toBe('+0.1250');
  expect(signed(-0.125)).toBe('−0.1250');
  expect(signed(0)).toBe('0.0000');
  expect(signed(2940458107747.6914)).toBe('+2.94e+12');
  expect(pValue(0.00000001)).toBe('< 0.0001');
  expect(percent(0.1234)).toBe('12.3 %');
  expect(count(200000)).toBe('200,000');
});

test('durations and sizes', () => {
  expect(duration(1.23)).toBe('1.2 s');
  expect(duration(61.5)).toBe('1 min 2 s');
  expect(duration(119.7)).toBe('2 min 0 s');
  expect(duration(3700)).toBe('1 h 2 min');
  expect(duration(null)).toBe('–');
  expect(bytes(1536)).toBe('1.5 KiB');
});
