import { expect, test } from 'vitest';
import { RUNS } from '../../tests/mock';
import { auditLine, auditText, axis, distinction, entries, matches } from './runs';

const label = (list: ReturnType<typeof entries>) =>
  list.map((entry) => (entry.kind === 'heading' ? `# ${entry.label}` : entry.run.name));

test('newest first, then by any column', () => {
  expect(label(entries(RUNS, {}))).toEqual(['large-model', 'small-model']);
  expect(label(entries(RUNS, { sort: 'score' }))).toEqual(['small-model', 'large-model']);
  expect(label(entries(RUNS, { sort: '-name' }))).toEqual(['small-model', 'large-model']);
});

test('groups have headings, and tasks list their best run first', () => {
  expect(label(entries(RUNS, { group: 'task' }))).toEqual(['# questions', 'large-model', 'small-model']);
  expect(label(entries(RUNS, { group: 'model' }))).toEqual([
    '# large-model',
    'large-model',
    '# small-model',
    'small-model',
  ]);
});

test('every word of the filter must occur', () => {
  const [run] = RUNS.runs;
  if (!run) throw new Error('no run');
  expect(matches(run, 'SMALL questions')).toBe(true);
  expect(matches(run, 'small law')).toBe(false);
  expect(label(entries(RUNS, { q: 'large' }))).toEqual(['large-model']);
  expect(entries(RUNS, { task: 'missing' })).toEqual([]);
});

test('missing values come last in both directions', () => {
  const [first, second] = RUNS.runs;
  if (!first || !second) throw new Error('two runs expected');
  const list = { ...RUNS, runs: [{ ...first, duration: null }, second] };
  expect(label(entries(list, { sort: 'duration' }))).toEqual(['large-model', 'small-model']);
  expect(label(entries(list, { sort: '-duration' }))).toEqual(['large-model', 'small-model']);
});

test('shares have the axis 0 to 1, other scores a larger one', () => {
  const score = { metric: 'x', filter: 'none', stderr: null, bounds: null, higher_is_better: true };
  expect(axis([{ ...score, value: 0.5, low: 0.4, high: 0.6 }])).toEqual({ min: 0, max: 1 });
  expect(axis([{ ...score, value: 20, low: 'NaN', high: 'Infinity' }])).toEqual({ min: 0, max: 21 });
});

test('audit counts have labels, and shares of documents or answers', () => {
  expect(auditLine({ letters_missing: 37, truncated: 1 })).toBe('37 with a letter missing from the server’s list, 1 truncated');
  const audit = { documents: 40, answers: 0 };
  expect(auditText('letters_missing', 37, audit)).toBe('37 with a letter missing from the server’s list (92.5 %)');
  expect(auditText('empty', 3, { documents: 40, answers: 80 })).toBe('3 empty (3.8 %)');
});

test('runs of one name are told apart by date, folder or file', () => {
  const [first] = RUNS.runs;
  if (!first) throw new Error('no run');
  const at = (path: string, date: number) => ({ ...first, path, date });
  const runs = [at('a/results_1.json', 0), at('a/results_2.json', 3600), at('b/results_3.json', 3600)];
  const told = runs.map((run) => distinction(run, runs));
  expect(told[0]).toMatch(/^\d{4}-\d\d-\d\d/);
  expect(told.slice(1)).toEqual(['a/results_2.json', 'b']);
  expect(distinction(first, [first])).toBe('');
});
