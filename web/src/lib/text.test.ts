import { expect, test } from 'vitest';
import { marked, oneLine, segments, wholeCharacters } from './text';

const shown = (value: string, spaces = false) =>
  segments(value, spaces)
    .map((segment) => (segment.kind === 'text' ? segment.text : `[${segment.text}]`))
    .join('');

test('plain text is one segment', () => {
  expect(segments('Hello, wörld 👩‍👩‍👧 <b>')).toEqual([{ kind: 'text', text: 'Hello, wörld 👩‍👩‍👧 <b>' }]);
  expect(segments('')).toEqual([]);
});

test('terminal escapes and control characters become labels', () => {
  expect(shown('\x1b[31mred\x1b[0m')).toBe('[ESC[31m]red[ESC[0m]');
  expect(shown('a\x00b\x07c\x7fd\u0085e')).toBe('a[NUL]b[BEL]c[DEL]d[U+0085]e');
  expect(shown('a\rb\r\nc')).toBe('a[CR]b[CR]\nc');
});

test('bidirectional controls and invisible characters become labels with their names', () => {
  expect(shown('a\u202eb\u2066c\u2069')).toBe('a[U+202E]b[U+2066]c[U+2069]');
  expect(segments('\u202e')[0]?.title).toBe('U+202E right-to-left override');
  expect(shown('a\u200bb\ufeff')).toBe('a[U+200B]b[U+FEFF]');
  expect(shown('\u{e0041}')).toBe('[U+E0041]');
});

test('a lone surrogate is shown, a pair is not', () => {
  expect(shown('a\ud800b')).toBe('a[U+D800]b');
  expect(shown('😀')).toBe('😀');
});

test('whitespace is visible on demand and neighbours are merged', () => {
  expect(shown('a  b\tc\n', true)).toBe('a[··]b[→\t]c[↵\n]');
  expect(shown('a\u00a0b\u3000', true)).toBe('a[U+00A0]b[U+3000]');
  expect(shown('a  b\tc\n')).toBe('a  b\tc\n');
});

test('a cell is one line of limited length', () => {
  expect(oneLine('a\n  b\tc\x1b')).toBe('a ↵ b c‹ESC›');
  expect(oneLine('x'.repeat(400))).toBe(`${'x'.repeat(300)}…`);
});

test('a surrogate pair is never split', () => {
  expect(wholeCharacters('a😀b', 2)).toBe(1);
  expect(wholeCharacters('a😀b', 3)).toBe(3);
  expect(wholeCharacters('ab', 9)).toBe(2);
});

test('a line of ten million characters is split in reasonable time', () => {
  expect(segments('x'.repeat(10_000_000))).toHaveLength(1);
});

test('hits are marked, empty ones are not', () => {
  expect(marked('a cat, a Cat', /cat/giu)).toEqual([
    { text: 'a ', hit: false },
    { text: 'cat', hit: true },
    { text: ', a ', hit: false },
    { text: 'Cat', hit: true },
  ]);
  expect(marked('abc', /x*/gu)).toEqual([{ text: 'abc', hit: false }]);
  expect(marked('abc', null)).toEqual([{ text: 'abc', hit: false }]);
});
