import { beforeEach, expect, test } from 'vitest';
import { gzipSync } from 'node:zlib';
import { answer } from '../../tests/mock';
import { keyOf, type SamplePage } from './api';
import * as source from './source';
import { whereOf } from './samples.svelte';

// A report of 20 rows, made as the command makes it.
beforeEach(() => {
  if (document.getElementById('data')) return;
  const responses: Record<string, unknown> = {};
  const page = answer('api/samples?run=a&limit=20') as SamplePage;
  responses[keyOf('api/task', { run: 'a', task: 'questions' })] = answer('api/task');
  responses[keyOf('api/samples', { run: 'a', task: 'questions', filter: 'strict' })] = {
    ...page,
    total: 20,
    matched: 20,
    excerpt: { shown: 20, of: 5000 },
  };
  for (const { row } of page.rows) {
    responses[keyOf('api/sample', { run: 'a', task: 'questions', row })] = answer(`api/sample?run=a&row=${row}`);
  }
  const script = document.createElement('script');
  script.id = 'data';
  script.type = 'text/plain';
  script.textContent = gzipSync(JSON.stringify({ responses })).toString('base64');
  document.body.append(script);
});

const ids = async (query: object) =>
  (await source.samples({ run: 'a', task: 'questions', ...query })).rows.map((row) => row.doc_id);

test('a report filters by outcome, flag, text and regular expression', async () => {
  expect(await ids({ outcome: 'right', limit: 3 })).toEqual([0, 2, 4]);
  expect(await ids({ flag: 'empty' })).toEqual([5]);
  expect(await ids({ text: 'ONERROR' })).toEqual([0]);
  expect(await ids({ text: 'ONERROR', case: '1' })).toEqual([]);
  expect(await ids({ text: 'answer is 1[01]\\b', regex: '1', in: 'answer' })).toEqual([9, 10]);
  expect(await ids({ text: '.*' })).toEqual([]);
  expect(await ids({ text: '^The answer is 18', regex: '1' })).toEqual([17, 18]);
  expect(await ids({ text: 'd - / [a-z' })).toEqual([]);
});

test('a hit says where it is', async () => {
  const { rows } = await source.samples({ run: 'a', task: 'questions', text: 'onerror' });
  const hit = rows[0]?.hit;
  expect(hit?.where).toBe('answer');
  expect(hit?.text.slice(hit.start, hit.end)).toBe('onerror');
});

test('a report sorts, with NaN last', async () => {
  expect(await ids({ sort: '-doc_id', limit: 2 })).toEqual([19, 18]);
  expect((await ids({ sort: 'f1' })).at(-1)).toBe(7);
  expect((await ids({ sort: '-f1' })).at(-1)).toBe(7);
});

test('next and previous follow the query', async () => {
  const sample = await source.sample({ run: 'a', task: 'questions', row: 4, outcome: 'right' });
  expect(sample).toMatchObject({ previous: 2, next: 6, position: 2, matched: 10 });
});

test('what a report cannot do is an error with advice', async () => {
  await expect(ids({ where: 'acc == 0' })).rejects.toThrow('Expressions need a server');
  await expect(ids({ text: '(', regex: '1' })).rejects.toThrow('The regular expression is not valid');
});

test('a field filter becomes an expression', () => {
  expect(whereOf({ field: "it's", value: 'a\\b' })).toBe("(doc['it\\'s'] | string) == 'a\\\\b'");
  expect(whereOf({ field: 'x', value: '1', where: 'acc == 0 or f1 > 0.5' })).toBe(
    "(doc['x'] | string) == '1' and (acc == 0 or f1 > 0.5)",
  );
  expect(whereOf({ where: ' ' })).toBeUndefined();
});
