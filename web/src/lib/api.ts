/**
 * The HTTP interface of `lm-eval view`: types of its answers, and functions that fetch them.
 *
 * The server is `crates/lmeval-view`; change both together. Every address answers GET only. A report file has the same
 * answers inside, keyed by request, so that pages need not know whether there is a server; see `isReport`.
 *
 * Strings from models and data sets are text. Never pass one to `innerHTML` or `{@html}`.
 */

/** A number. JSON has neither NaN nor infinity, so those travel as strings; see `toNumber`. */
export type Num = number | 'NaN' | 'Infinity' | '-Infinity';

/** A string that may be too long to send whole. */
export interface Text {
  text: string;
  /** Length of the whole string in characters (Unicode scalar values). */
  length: number;
  /** Present and true if `text` is only the beginning. */
  cut?: boolean;
}

/** Every answer with a status other than 2xx. */
export interface ApiError {
  error: string;
  hint?: string;
}

// ---------------------------------------------------------------------------------------------------------------------
// GET api/runs → RunList: every run below the given paths. Samples are not read for it.

export interface RunList {
  /** What the server was started on, for the page title. */
  paths: string[];
  version: string;
  runs: RunSummary[];
  /** Files that look like runs and cannot be read. */
  problems: { path: string; error: string }[];
  /** Whether `lm-eval run --view` started this server: there is something on api/live. */
  live: boolean;
}

export interface RunSummary {
  /** Opaque, the same at every start for the same file. */
  id: string;
  /** The model, for headings. */
  name: string;
  /** `results`: a finished run. `samples`: a samples file without results. `journal`: answers, scores are not there. */
  kind: 'results' | 'samples' | 'journal';
  /** Relative to the given path. */
  path: string;
  /** Seconds since the epoch. */
  date: number | null;
  /** Seconds. */
  duration: number | null;
  /** Version of the harness that wrote it. */
  version: string | null;
  /** `model` and `model_args` as the run got them, secrets masked. */
  backend: string | null;
  model_args: string | null;
  limit: number | null;
  num_fewshot: number | null;
  /** Scored documents, all tasks. */
  documents: number | null;
  failed_requests: number;
  /** Problems counted by the audit, summed over tasks and pipelines. Only counts above 0. */
  audit: Partial<Record<AuditCount, number>>;
  tasks: TaskSummary[];
  /** Whether at least one task has a samples file. */
  has_samples: boolean;
  /** What was changed in the results file since the run wrote it: its scores may be wrong. */
  changed: string | null;
}

export interface TaskSummary {
  task: string;
  alias: string;
  is_group: boolean;
  /** Nesting below groups; 0 is the top. */
  depth: number;
  /** The main score, for lists: the first of `RunDetail.tasks[].scores`. */
  main: Score | null;
  documents: number | null;
  /** Documents without an answer, which are not in the scores; of a group those of its tasks. */
  failed: number;
  has_samples: boolean;
}

export interface Score {
  metric: string;
  filter: string;
  value: Num | null;
  stderr: Num | null;
  /** 95 % interval: Wilson for a mean of 0/1 values where the counts are known, else value ± 1.96 stderr. */
  low: Num | null;
  high: Num | null;
  higher_is_better: boolean | null;
}

export type AuditCount =
  | 'unresolved_targets'
  | 'empty'
  | 'whitespace_only'
  | 'truncated'
  | 'extraction_failed'
  | 'letters_missing';

// ---------------------------------------------------------------------------------------------------------------------
// GET api/run?run=ID → RunDetail

export interface RunDetail extends Omit<RunSummary, 'tasks'> {
  tasks: TaskDetail[];
  /** `config` of the results file and what belongs to it (seeds, versions, chat template, …), secrets masked; in order. */
  settings: [key: string, value: Json][];
  /** Journals only: what the header says. */
  journal: { answers: number; model: string; bytes: number } | null;
}

export interface TaskDetail extends TaskSummary {
  scores: Score[];
  version: Json;
  num_fewshot: Json;
  /** Per filter pipeline. `documents` and `answers` are the denominators. */
  audit: { filter: string; documents: number; answers: number; counts: Partial<Record<AuditCount, number>> }[];
  /** What the task resolved to (`configs`), secrets masked. */
  config: Json | null;
}

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

// ---------------------------------------------------------------------------------------------------------------------
// GET api/task?run=ID&task=NAME[&filter=NAME] → TaskStats: from the index of the samples file.

export interface TaskStats {
  index: IndexState;
  filters: string[];
  filter: string;
  /** Metrics of this pipeline with per-document numbers. */
  metrics: {
    metric: string;
    histogram: Histogram;
    mean: Num;
    /** Documents with NaN or without a number. */
    missing: number;
  }[];
  prompt_length: Histogram;
  answer_length: Histogram;
  outcomes: Record<Outcome, number>;
  flags: Partial<Record<Flag, number>>;
  /** Fields of documents, from the first ones: for `by` of a comparison and for expressions. */
  fields: string[];
}

/** An index is built while rows are already served. Ask again (about every 300 ms) until `complete`. */
export interface IndexState {
  complete: boolean;
  /** Bytes read and to read. */
  bytes: number;
  total_bytes: number;
  /** Lines that could not be read, such as a half-written last one. The first few, numbered from 1. */
  bad_lines: { line: number; error: string }[];
  /** What was changed in the file since the run wrote it; known once it is complete. */
  changed: string | null;
}

/** `counts[i]` is the number of values in `[edges[i], edges[i+1])`; the last bin includes its upper edge. */
export interface Histogram {
  edges: number[];
  counts: number[];
}

// ---------------------------------------------------------------------------------------------------------------------
// GET api/samples?… → SamplePage

/** `right`/`wrong`: the main metric is 1 / 0. `partial`: between or beyond. `unscored`: NaN or no number. */
export type Outcome = 'right' | 'wrong' | 'partial' | 'unscored';
export type Flag = 'empty' | 'whitespace' | 'unextracted' | 'nan';

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

export interface SamplePage {
  index: IndexState;
  filter: string;
  /** The metrics, in order: `SampleRow.values` has one value for each. */
  columns: string[];
  /** Rows of the pipeline so far, and those that the query selects. */
  total: number;
  matched: number;
  offset: number;
  rows: SampleRow[];
  /** Reports only: `rows` is all there is, out of this many. */
  excerpt?: { shown: number; of: number };
}

/** Texts are cut to 300 characters. */
export interface SampleRow {
  /** Position of the line in the file, from 0: identifies the sample. */
  row: number;
  doc_id: number;
  /** End of the prompt (what differs between documents is usually there): `text` then starts with `…` if cut. */
  input: Text;
  target: Text;
  answer: Text;
  filtered: Text;
  values: (Num | null)[];
  outcome: Outcome;
  flags: Flag[];
  /** Around the first hit of `text`, if the query has one; `start` and `end` are UTF-16 offsets into `text`. */
  hit?: { where: string; text: string; start: number; end: number };
}

// ---------------------------------------------------------------------------------------------------------------------
// GET api/sample?run=ID&task=NAME&row=N[&full=1][&… the rest of SampleQuery, for previous and next] → Sample

/** Texts are cut to 100,000 characters unless `full=1`. */
export interface Sample {
  run: string;
  task: string;
  row: number;
  doc_id: number;
  filter: string;
  /** Rows before and after this one in the order of the query, and its position there. */
  previous: number | null;
  next: number | null;
  position: number | null;
  matched: number;
  prompt: Prompt;
  /** Multiple choice and other log-likelihood requests; empty for generation. */
  choices: Choice[];
  /** Log-likelihood of whole documents (perplexity). */
  rolling: { loglikelihood: Num }[];
  /** Generated answers: one entry per request, with its repeats. */
  generations: { settings: Json; repeats: Text[] }[];
  /** From the raw answers to what was scored; `name` is the pipeline or a filter function of it (if the results say). */
  steps: { name: string; detail: string | null; output: Text[] | null }[];
  target: Text;
  values: { metric: string; value: Num | null; text: string; per_repeat: (Num | null)[] | null }[];
  outcome: Outcome;
  flags: Flag[];
  /** The document of the data set, field by field. */
  doc: { field: string; value: Text }[];
  hashes: { doc: string | null; prompt: string | null; target: string | null };
  /** The line as it is in the file, secrets masked. */
  raw: Text;
  /** Rows of the same document in the task's other pipelines. */
  other_filters: { filter: string; row: number }[];
}

export interface Prompt {
  /** The prompt as one string; of a chat, as the record has it. */
  text: Text;
  /** Chat turns, if the prompt is a chat (JSON messages). */
  turns: { role: string; content: Text }[] | null;
  /**
   * UTF-16 offsets into `text.text` at which a part starts, if they could be found: a description, each few-shot example,
   * then the question. Empty where unknown or without examples.
   */
  parts: { start: number; kind: 'description' | 'example' | 'question' }[];
}

export interface Choice {
  text: Text;
  /** Present if this choice has a context of its own (as in Winogrande), else the prompt is shared. */
  context: Text | null;
  loglikelihood: Num;
  per_byte: Num | null;
  per_char: Num | null;
  /** If the token count is in the record. */
  per_token: Num | null;
  tokens: number | null;
  /** exp(log-likelihood) over the sum of all choices, and the same of log-likelihoods per byte. */
  probability: Num;
  probability_per_byte: Num | null;
  is_greedy: boolean;
  /** Whether this is the right one; null where the record does not say. */
  is_gold: boolean | null;
  /** Whether the log-likelihood, that per character and that per byte pick it (`acc`, `acc_norm`, `acc_bytes`). */
  is_best: boolean;
  is_best_per_char: boolean;
  is_best_per_byte: boolean;
}

// ---------------------------------------------------------------------------------------------------------------------
// GET api/compare?base=ID&new=ID[,ID…][&by=FIELD&task=NAME][&cluster=FIELD][&allow=1] → Compare
// `task`: the task whose documents have the field; others are not broken down.
// Different prompts answer 409 with the first difference; `allow=1` compares anyway.

export interface Compare {
  base: RunSummary;
  comparisons: Comparison[];
}

export interface Comparison {
  new: RunSummary;
  scores: ComparedScore[];
  only_base: string[];
  only_new: string[];
  notes: string[];
}

export interface ComparedScore extends Difference {
  task: string;
  filter: string;
  metric: string;
  higher_is_better: boolean | null;
  is_group: boolean;
  /** Adjusted p-values. */
  benjamini_hochberg: Num;
  holm: Num;
  only_base: number;
  only_new: number;
  by: ({ label: string } & Difference)[];
  flips: number;
}

export interface Difference {
  base_score: Num;
  new_score: Num;
  difference: Num;
  stderr: Num;
  low: Num;
  high: Num;
  p_value: Num;
  test: string;
  count: number;
  /** Documents whose value went up and down. */
  up: number;
  down: number;
  /** The smallest difference this comparison would probably have found. */
  detectable: Num;
}

// ---------------------------------------------------------------------------------------------------------------------
// GET api/flips?base=ID&new=ID&task=NAME&filter=NAME&metric=NAME[&direction=up|down][&allow=1][&offset][&limit] → FlipPage

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

export interface FlipPage {
  total: number;
  up: number;
  down: number;
  offset: number;
  rows: Flip[];
}

/** The largest change first. For whole texts, fetch api/sample of both runs. Texts are cut to 2,000 characters. */
export interface Flip {
  doc_id: number;
  base_row: number;
  new_row: number;
  base_value: Num;
  new_value: Num;
  input: Text;
  target: Text;
  base_answer: Text;
  new_answer: Text;
  base_filtered: Text;
  new_filtered: Text;
}

// ---------------------------------------------------------------------------------------------------------------------
// GET api/answers?run=ID[&text=…][&regex=1][&offset][&limit] → AnswerPage: a journal, newest answers first.

export interface AnswerPage {
  total: number;
  matched: number;
  offset: number;
  /** Journals hold no prompts: an answer is identified by task, document and request. */
  rows: {
    index: number;
    task: string | null;
    doc_id: number | null;
    request: number | null;
    repeat: number;
    kind: string | null;
    answer: Text | null;
    truncated: boolean;
    error: string | null;
  }[];
}

// ---------------------------------------------------------------------------------------------------------------------
// GET api/live: server-sent events. Each `data:` is a complete LiveState as JSON, at most two per second; the last has
// `finished: true`, after which the server closes the stream. 404 where there is no running evaluation.

export interface LiveState {
  model: string;
  /** Seconds since the start. */
  elapsed: number;
  /** What the run is doing, as its progress line says. */
  phase: string;
  requests: { done: number; total: number | null; reused: number; failed: number; retried: number };
  /** Requests per second over the last ten seconds; null at the start. */
  rate: number | null;
  /** Seconds left, estimated. */
  remaining: number | null;
  tasks: LiveTask[];
  /** Newest first, at most 20. Texts are cut to 2,000 characters. */
  answers: { task: string; doc_id: number | null; prompt: Text | null; answer: Text }[];
  /** Newest first, at most 20. */
  messages: { level: 'warning' | 'error'; text: string; elapsed: number }[];
  finished: boolean;
  /** Once finished and written: the run to open. */
  run: string | null;
}

export interface LiveTask {
  task: string;
  /** Documents. */
  done: number;
  total: number | null;
  /** Documents that the running scores are about: some are skipped when they arrive fast. */
  scored: number;
  /** Empty until there are some, and for tasks that can only be scored as a whole. */
  scores: Score[];
}

// ---------------------------------------------------------------------------------------------------------------------

/** A failed request, with the server's message and advice. */
export class RequestFailed extends Error {
  constructor(
    message: string,
    readonly status: number,
    readonly hint?: string,
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
    const { error, hint, status } = found as Partial<ApiError> & { status?: number };
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
