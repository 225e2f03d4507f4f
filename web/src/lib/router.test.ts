import { expect, test } from 'vitest';
import { go, href, parse, patch, route } from './router.svelte';

test('an address holds segments and query, whatever characters they have', () => {
  const address = href(['samples', 'a/b', 'task::x?'], { text: 'a&b=c #', regex: true, empty: '', none: null, at: 0 });
  expect(parse(address)).toEqual({
    segments: ['samples', 'a/b', 'task::x?'],
    query: { text: 'a&b=c #', regex: '1', at: '0' },
  });
});

test('a damaged link is not an error', () => {
  expect(parse('#/run/%E0%A4%A')).toEqual({ segments: ['run', '%E0%A4%A'], query: {} });
  expect(parse('')).toEqual({ segments: [], query: {} });
});

test('a change of the query keeps the rest', () => {
  go(href(['runs'], { q: 'x', sort: 'name' }));
  patch({ sort: '-date', q: null });
  expect(route.segments).toEqual(['runs']);
  expect({ ...route.query }).toEqual({ sort: '-date' });
});
