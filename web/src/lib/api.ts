/**
 * The HTTP interface of `lm-eval view`: functions that fetch its answers, and the parameters of requests.
 *
 * The types of answers are generated from `crates/lmeval-view/src/api.rs`. Every address answers GET only. A report file has the same
 * answers inside, keyed by request, so that pages need not know whether there is a server; see `isReport`.
 *
 * Strings from models and datasets are text. Never pass one to `innerHTML` or `{@html}`.
 */

import type {
  AnswerPage,
  ApiError,
  BudgetChart,
  Compare,
  CurvePage,
  Flag,
  FlipPage,
  LiveState,
  Num,
  Outcome,
  RunDetail,
  RunList,
  Sample,
  SamplePage,
  TaskStats,
} from './types';

export type * from './types';

/** Parameters of `api/samples`. */
export interface SampleQuery {
  run: string;
  task: string;
  /** A filter pipeline; the first if absent. */
  filter?: string;
  outcome?: Outcome;
  /** The metric that `outcome` is about; the first of the pipeline if absent. */
  metric?: string;
  flag?: Flag;
  /** The expression language of `lm-eval samples --where`. A wrong expression answers 400. */
  where?: string;
  /** Searched in whole prompts, answers, filtered answers and targets (and documents, if `in` says so). */
  text?: string;
  /** `1`: `text` is a regular expression. A wrong one answers 400. */
  regex?: '1';
  /** `1`: capitals matter. */
  case?: '1';
  /** Where to search: comma-separated; `prompt,answer,target` if absent. */
  in?: string;
  /** A column (`row`, `doc_id`, `prompt_length`, `answer_length`, `outcome` or a metric), with `-` for descending. */
  sort?: string;
  offset?: number;
  /** At most 1000; 100 if absent. */
  limit?: number;
}

/** Parameters of `api/flips`. */
export interface FlipQuery {
  base: string;
  new: string;
  task: string;
  filter: string;
  metric: string;
  direction?: 'up' | 'down';
  allow?: '1';
  offset?: number;
  limit?: number;
}

/** A failed request, with the server's message and advice. */
export class RequestFailed extends Error {
  constructor(
    message: string,
    readonly status: number,
    readonly hint?: string | null,
  ) {
    super(message);
  }
}

/**
 * The data of a report: gzip of `{"responses": {KEY: answer}}`, as base64 in `<script id="data" type="text/plain">`.
 *
 * KEY is the address with its parameters sorted by name and percent-encoded (`keyOf`). For samples a report has one
 * answer per run, task and filter (`api/samples?filter=…&run=…&task=…`, all rows of the excerpt, with
 * `SamplePage.excerpt`) and one `api/sample?row=…&run=…&task=…` per row; outcome, flag, text, regex and sort are
 * evaluated by the page over those, and `where` is disabled with a reason.
 */
interface ReportData {
  responses: Record<string, unknown>;
}

let report: Promise<ReportData> | null | undefined;

/** Whether this page is a report file, without a server. */
export function isReport(): boolean {
  return document.getElementById('data') !== null;
}

function reportData(): Promise<ReportData> | null {
  if (report === undefined) {
    const element = document.getElementById('data');
    report = element ? unpack(element.textContent ?? '') : null;
  }
  return report;
}

async function unpack(base64: string): Promise<ReportData> {
  const bytes = Uint8Array.from(atob(base64.trim()), (char) => char.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
  return (await new Response(stream).json()) as ReportData;
}

/** The requests that a report answers. */
export async function reportKeys(): Promise<string[]> {
  const data = await reportData();
  return data ? Object.keys(data.responses) : [];
}

type Query = Record<string, string | number | undefined>;

/** The address of a request, in the form that a report uses as key. */
export function keyOf(path: string, query: object = {}): string {
  const entries = Object.entries(query as Query).filter(([, value]) => value !== undefined && value !== '');
  entries.sort(([left], [right]) => (left < right ? -1 : left > right ? 1 : 0));
  const text = entries.map(([name, value]) => `${name}=${encodeURIComponent(String(value))}`).join('&');
  return text ? `${path}?${text}` : path;
}

/** Fetches one answer, from the server or from the report. */
export async function get<T>(path: string, query: object = {}, signal?: AbortSignal): Promise<T> {
  const key = keyOf(path, query);
  const data = reportData();
  if (data) {
    const found = (await data).responses[key];
    if (found === undefined) throw new RequestFailed('The report does not contain this', 404);
    // Runs that cannot be compared: the report has the reason instead.
    const { error, hint, status } = found as Partial<ApiError>;
    if (error !== undefined && status !== undefined) throw new RequestFailed(error, status, hint);
    return found as T;
  }
  const response = await fetch(key, { signal });
  if (!response.ok) {
    const problem = (await response.json().catch(() => ({}))) as Partial<ApiError>;
    throw new RequestFailed(problem.error ?? `The server answered ${response.status}`, response.status, problem.hint);
  }
  return (await response.json()) as T;
}

export const runs = (signal?: AbortSignal) => get<RunList>('api/runs', {}, signal);
export const run = (id: string, signal?: AbortSignal) => get<RunDetail>('api/run', { run: id }, signal);
export const task = (query: { run: string; task: string; filter?: string }, signal?: AbortSignal) =>
  get<TaskStats>('api/task', query, signal);
export const samples = (query: SampleQuery, signal?: AbortSignal) => get<SamplePage>('api/samples', query, signal);
export const sample = (query: SampleQuery & { row: number; full?: '1' }, signal?: AbortSignal) =>
  get<Sample>('api/sample', query, signal);
export const compare = (
  query: { base: string; new: string; by?: string; task?: string; cluster?: string; allow?: '1' },
  signal?: AbortSignal,
) => get<Compare>('api/compare', query, signal);
export const flips = (query: FlipQuery, signal?: AbortSignal) => get<FlipPage>('api/flips', query, signal);
export const answers = (
  query: { run: string; text?: string; regex?: '1'; offset?: number; limit?: number },
  signal?: AbortSignal,
) => get<AnswerPage>('api/answers', query, signal);

export const curve = (id: string, signal?: AbortSignal) => get<CurvePage>('api/curve', { curve: id }, signal);
export const drawing = (id: string, signal?: AbortSignal) => get<BudgetChart>('api/drawing', { curve: id }, signal);

/** Follows a running evaluation; returns a function that stops. */
export function live(onState: (state: LiveState) => void, onError: () => void): () => void {
  const source = new EventSource('api/live');
  source.onmessage = (event) => {
    const state = JSON.parse(event.data as string) as LiveState;
    if (state.finished) source.close();
    onState(state);
  };
  // The browser tries to connect again by itself, unless the server refuses.
  source.onerror = onError;
  return () => source.close();
}

/** A `Num` as a JavaScript number. */
export function toNumber(value: Num | null): number {
  if (value === null || value === 'NaN') return Number.NaN;
  if (value === 'Infinity') return Number.POSITIVE_INFINITY;
  if (value === '-Infinity') return Number.NEGATIVE_INFINITY;
  return value;
}
