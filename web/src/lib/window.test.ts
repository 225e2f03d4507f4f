import { expect, test } from 'vitest';
import { contentHeight, reveal, scrollFor, TALLEST, topRow, visible } from './window';

const short = { total: 1000, rowHeight: 34, viewport: 340 };
const huge = { total: 5_000_000, rowHeight: 34, viewport: 340 };

test('rows on screen, with a margin', () => {
  expect(visible(short, 0)).toEqual({ first: 0, last: 14, offset: 0 });
  expect(visible(short, 340)).toEqual({ first: 6, last: 24, offset: 204 });
  expect(visible({ ...short, total: 3 }, 0)).toMatchObject({ first: 0, last: 3 });
  expect(visible({ ...short, total: 0 }, 0)).toMatchObject({ first: 0, last: 0 });
});

test('a list taller than a browser allows reaches its last row', () => {
  expect(contentHeight(huge)).toBe(TALLEST);
  expect(visible(huge, TALLEST - huge.viewport).last).toBe(huge.total);
  expect(visible(huge, 0).first).toBe(0);
  for (const row of [0, 17, 123_456, 4_999_000]) expect(topRow(huge, scrollFor(huge, row))).toBeCloseTo(row, 3);
});

test('revealing a row moves as little as possible', () => {
  expect(reveal(short, 0, 5)).toBe(0);
  expect(reveal(short, 0, 10)).toBe(34);
  expect(reveal(short, 680, 3)).toBe(102);
  const end = reveal(huge, 0, huge.total - 1);
  expect(visible(huge, end).last).toBe(huge.total);
});
