/**
 * Where pages get their data. With a server these are its answers; in a report the same queries are evaluated over the excerpt inside
 * the file.
 */
import * as api from './api';
import type { Flip, FlipPage, FlipQuery, Outcome, Sample, SamplePage, SampleQuery, SampleRow, Text } from './api';

const report = () => api.isReport();

export function samples(query: SampleQuery, signal?: AbortSignal): Promise<SamplePage> {
  return report() ? select(query) : api.samples(query, signal);
}

export async function sample(query: SampleQuery & { row: number; full?: '1' }, signal?: AbortSignal): Promise<Sample> {
  if (!report()) return api.sample(query, signal);
  const { run, task, row } = query;
  const [found, page] = await Promise.all([
    api.get<Sample>('api/sample', { run, task, row }),
    select({ ...query, offset: 0, limit: Infinity }),
  ]);
  const position = page.rows.findIndex((other) => other.row === row);
  return {
    ...found,
    position: position < 0 ? null : position,
    previous: position > 0 ? (page.rows[position - 1]?.row ?? null) : null,
    next: position < 0 ? null : (page.rows[position + 1]?.row ?? null),
    matched: page.matched,
  };
}

export async function flips(query: FlipQuery, signal?: AbortSignal): Promise<FlipPage> {
  if (!report()) return api.flips(query, signal);
  const { base, new: other, task, filter, metric, direction, offset = 0, limit = 100 } = query;
  const key = { base, new: other, task, filter, metric };
  // Scores without changed documents have no entry.
  const known = (await api.reportKeys()).includes(api.keyOf('api/flips', key));
  const all = known ? await api.get<FlipPage>('api/flips', key) : { total: 0, up: 0, down: 0, offset: 0, rows: [] };
  const up = (flip: Flip) => api.toNumber(flip.new_value) > api.toNumber(flip.base_value);
  const rows = direction ? all.rows.filter((flip) => up(flip) === (direction === 'up')) : all.rows;
  return { ...all, total: rows.length, offset, rows: rows.slice(offset, offset + limit) };
}

/** The one comparison that a report of several runs has: all others with the first. */
export async function reportComparison(): Promise<{ base: string; new: string } | null> {
  const key = (await api.reportKeys()).find((key) => key.startsWith('api/compare?'));
  if (!key) return null;
  const query = new URLSearchParams(key.slice(key.indexOf('?')));
  return { base: query.get('base') ?? '', new: query.get('new') ?? '' };
}

/** The server's outcome of a value. */
export function outcome(value: number): Outcome {
  return Number.isNaN(value) ? 'unscored' : value === 1 ? 'right' : value === 0 ? 'wrong' : 'partial';
}

async function select(query: SampleQuery): Promise<SamplePage> {
  if (query.where)
    throw new api.RequestFailed(
      'Expressions need a server',
      400,
      'Open the run with `lm-eval view` to filter by an expression or a field.',
    );
  const { run, task, filter } = query;
  const page = await reportPage(run, task, filter);
  let rows = page.rows;
  const column = query.metric === undefined ? -1 : page.columns.indexOf(query.metric);
  const valueOf = (row: SampleRow, index: number) => api.toNumber(row.values[index] ?? null);
  if (query.outcome)
    rows = rows.filter((row) => (column < 0 ? row.outcome : outcome(valueOf(row, column))) === query.outcome);
  if (query.flag) rows = rows.filter((row) => query.flag && row.flags.includes(query.flag));
  if (query.text) {
    const pattern = searchPattern(query.text, query.regex === '1', query.case === '1');
    const places = new Set((query.in ?? 'prompt,answer,target').split(','));
    const found: SampleRow[] = [];
    for (const row of rows) {
      const hit = search(await api.get<Sample>('api/sample', { run, task, row: row.row }), pattern, places);
      if (hit) found.push({ ...row, hit });
    }
    rows = found;
  }
  if (query.sort) rows = sortRows(rows, query.sort, page.columns);
  const offset = query.offset ?? 0;
  return { ...page, matched: rows.length, offset, rows: rows.slice(offset, offset + (query.limit ?? 100)) };
}

/** A report names the pipeline in its keys; a link may leave out the first one. */
async function reportPage(run: string, task: string, filter: string | undefined): Promise<SamplePage> {
  if (filter !== undefined) return api.get<SamplePage>('api/samples', { run, task, filter });
  const stats = await api.get<api.TaskStats>('api/task', { run, task });
  return api.get<SamplePage>('api/samples', { run, task, filter: stats.filter });
}

/** As the server searches: `^` and `$` match at lines. */
export function searchPattern(text: string, isRegex: boolean, matchCase: boolean): RegExp {
  const source = isRegex ? text : text.replace(/[.*+?^${}()|[\]\\/-]/g, '\\$&').replaceAll('\\-', '\\x2d');
  try {
    return new RegExp(source, matchCase ? 'gmu' : 'gimu');
  } catch (problem) {
    const reason = problem instanceof Error ? problem.message : undefined;
    throw new api.RequestFailed('The regular expression is not valid', 400, reason);
  }
}

/** Hits of a query in a string that is shown; null where the query has none, or one that only the server understands. */
export function hitPattern(query: Record<string, string>): RegExp | null {
  if (!query.text) return null;
  try {
    return searchPattern(query.text, query.regex === '1', query.case === '1');
  } catch {
    return null;
  }
}

function search(sample: Sample, pattern: RegExp, places: Set<string>): SampleRow['hit'] | undefined {
  const strings: [string, Text][] = [];
  if (places.has('prompt'))
    strings.push(
      ['prompt', sample.prompt.text],
      ...sample.choices.map((choice): [string, Text] => ['prompt', choice.text]),
    );
  if (places.has('answer')) {
    for (const generation of sample.generations)
      for (const repeat of generation.repeats) strings.push(['answer', repeat]);
    for (const step of sample.steps) for (const output of step.output ?? []) strings.push(['answer', output]);
  }
  if (places.has('target')) strings.push(['target', sample.target]);
  if (places.has('doc')) for (const field of sample.doc) strings.push(['doc', field.value]);
  for (const [where, { text }] of strings) {
    pattern.lastIndex = 0;
    const match = pattern.exec(text);
    if (!match) continue;
    const start = Math.max(0, match.index - 60);
    return {
      where,
      text: text.slice(start, match.index + match[0].length + 120),
      start: match.index - start,
      end: match.index - start + match[0].length,
    };
  }
  return undefined;
}

export function sortRows(rows: SampleRow[], sort: string, columns: string[]): SampleRow[] {
  const descending = sort.startsWith('-');
  const key = descending ? sort.slice(1) : sort;
  const column = columns.indexOf(key);
  const value = (row: SampleRow): number => {
    if (key === 'row') return row.row;
    if (key === 'doc_id') return row.doc_id;
    if (key === 'prompt_length') return row.input.length;
    if (key === 'answer_length') return row.answer.length;
    if (key === 'outcome') return ['wrong', 'partial', 'right', 'unscored'].indexOf(row.outcome);
    return api.toNumber(row.values[column] ?? null);
  };
  const keyed = rows.map((row, index) => ({ row, index, value: value(row) }));
  keyed.sort((a, b) => {
    // NaN comes last in both directions.
    if (Number.isNaN(a.value) || Number.isNaN(b.value))
      return Number(Number.isNaN(a.value)) - Number(Number.isNaN(b.value)) || a.index - b.index;
    return (descending ? b.value - a.value : a.value - b.value) || a.index - b.index;
  });
  return keyed.map((entry) => entry.row);
}
