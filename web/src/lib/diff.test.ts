import { expect, test } from 'vitest';
import { diff } from './diff';

const sides = (before: string, after: string) => {
  const pieces = diff(before, after);
  const text = (hide: string) =>
    pieces
      .filter((piece) => piece.kind !== hide)
      .map((piece) => piece.text)
      .join('');
  return [text('added'), text('removed')];
};

test('marks the words that differ', () => {
  expect(diff('The answer is 4.', 'The answer is 5.')).toEqual([
    { kind: 'same', text: 'The answer is ' },
    { kind: 'removed', text: '4' },
    { kind: 'added', text: '5' },
    { kind: 'same', text: '.' },
  ]);
  expect(diff('same', 'same')).toEqual([{ kind: 'same', text: 'same' }]);
  expect(diff('', 'new')).toEqual([{ kind: 'added', text: 'new' }]);
  expect(diff('', '')).toEqual([]);
});

test('both sides can be rebuilt from the pieces', () => {
  // Pseudo-random words from a fixed seed.
  let seed = 7;
  const word = () => {
    seed = (seed * 1103515245 + 12345) % 2147483648;
    return ['a', 'b', 'c', ' ', '\n', '.', 'é', '😀', '中文'][seed % 9] ?? '';
  };
  for (let round = 0; round < 300; round++) {
    const before = Array.from({ length: round % 40 }, word).join('');
    const after = Array.from({ length: (round * 7) % 40 }, word).join('');
    expect(sides(before, after)).toEqual([before, after]);
  }
});

test('strings that share nothing end as two whole sides', () => {
  const before = Array.from({ length: 5000 }, (_, index) => `l${index}`).join(' ');
  const after = Array.from({ length: 5000 }, (_, index) => `r${index}`).join(' ');
  expect(sides(before, after)).toEqual([before, after]);
});
