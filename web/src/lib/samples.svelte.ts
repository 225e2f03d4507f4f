/** The query of the samples page, and the rows of a query fetched page by page. */
import type { Flag, Outcome, SamplePage, SampleQuery, SampleRow } from './api';
import { RequestFailed } from './api';
import * as source from './source';

export const OUTCOMES: Outcome[] = ['right', 'wrong', 'partial', 'unscored'];
export const FLAGS: Record<Flag, string> = {
  empty: 'empty',
  whitespace: 'whitespace only',
  unextracted: 'not matched by a filter',
  nan: 'NaN',
};

/** Parts of the address that select samples; the document page keeps them for next and previous. */
export const SELECTION = [
  'filter',
  'outcome',
  'metric',
  'flag',
  'field',
  'value',
  'where',
  'text',
  'regex',
  'case',
  'in',
  'sort',
] as const;

export function selection(query: Record<string, string>): Record<string, string> {
  return Object.fromEntries(SELECTION.flatMap((key) => (query[key] ? [[key, query[key]]] : [])));
}

/** A string literal of the expression language. */
export function literal(value: string): string {
  return `'${value.replace(/\\/g, '\\\\').replace(/'/g, "\\'").replace(/\n/g, '\\n').replace(/\r/g, '\\r')}'`;
}

/** A field filter is an expression that compares the field as a string. */
export function whereOf(query: Record<string, string>): string | undefined {
  const parts = [];
  if (query.field && query.value !== undefined && query.value !== '')
    parts.push(`(doc[${literal(query.field)}] | string) == ${literal(query.value)}`);
  if (query.where?.trim()) parts.push(parts.length > 0 ? `(${query.where})` : query.where);
  return parts.length > 0 ? parts.join(' and ') : undefined;
}

export function sampleQuery(run: string, task: string, query: Record<string, string>): SampleQuery {
  const text = query.text || undefined;
  return {
    run,
    task,
    filter: query.filter || undefined,
    outcome: (query.outcome || undefined) as Outcome | undefined,
    metric: query.metric || undefined,
    flag: (query.flag || undefined) as Flag | undefined,
    where: whereOf(query),
    text,
    regex: text && query.regex === '1' ? '1' : undefined,
    case: text && query.case === '1' ? '1' : undefined,
    in: text ? query.in || undefined : undefined,
    sort: query.sort || undefined,
  };
}

const PAGE = 100;

/** Rows of the current query. Rows of the previous one stay on screen until the first page of the next has arrived. */
export class Rows {
  head = $state.raw<SamplePage | null>(null);
  error = $state.raw<RequestFailed | Error | null>(null);
  loading = $state(true);
  private pages = $state.raw(new Map<number, SampleRow[]>());
  private wanted = new Set<number>();
  private range: [number, number] = [0, 0];
  private query: SampleQuery | null = null;
  private abort = new AbortController();
  private timer: ReturnType<typeof setTimeout> | undefined;

  /** Starts over with another query. */
  start(query: SampleQuery) {
    this.stop();
    this.query = query;
    this.abort = new AbortController();
    this.wanted = new Set();
    this.loading = true;
    void this.fetch(0, true);
  }

  stop() {
    clearTimeout(this.timer);
    this.abort.abort();
  }

  at(index: number): SampleRow | undefined {
    return this.pages.get(Math.floor(index / PAGE))?.[index % PAGE];
  }

  /** Fetches what is missing of a range. */
  want(first: number, last: number) {
    this.range = [first, last];
    if (!this.head || this.loading) return;
    for (let page = Math.floor(first / PAGE); page <= Math.floor(Math.max(first, last - 1) / PAGE); page++) {
      if (!this.pages.has(page) && !this.wanted.has(page)) void this.fetch(page, false);
    }
  }

  private async fetch(page: number, fresh: boolean) {
    if (!this.query) return;
    const { signal } = this.abort;
    this.wanted.add(page);
    try {
      const answer = await source.samples({ ...this.query, offset: page * PAGE, limit: PAGE }, signal);
      if (signal.aborted) return;
      const pages = new Map(fresh ? [] : this.pages);
      pages.set(page, answer.rows);
      this.pages = pages;
      this.head = answer;
      this.error = null;
      this.loading = false;
      clearTimeout(this.timer);
      if (!answer.index.complete) this.timer = setTimeout(() => this.refresh(), 300);
    } catch (problem) {
      if (signal.aborted) return;
      this.error = problem instanceof Error ? problem : new Error(String(problem));
      this.loading = false;
    } finally {
      this.wanted.delete(page);
    }
  }

  /** Asks again for what is on screen and may have changed; drops the rest of it. Rows stay until their successors arrive. */
  private refresh() {
    const final = (rows: SampleRow[]) => rows.length === PAGE && !this.query?.sort;
    const [first, last] = this.range.map((row) => Math.floor(row / PAGE)) as [number, number];
    const onScreen = (page: number) => page >= first && page <= last;
    const again = [...this.pages].filter(([page, rows]) => page !== 0 && onScreen(page) && !final(rows));
    this.pages = new Map([...this.pages].filter(([page, rows]) => page === 0 || onScreen(page) || final(rows)));
    for (const [page] of again) void this.fetch(page, false);
    void this.fetch(0, false);
  }
}
