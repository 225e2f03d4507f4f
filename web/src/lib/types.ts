// Generated from crates/lmeval-view/src/api.rs: `cargo test -p lmeval-view typescript` writes it.

/** A number. JSON has neither NaN nor infinity, so those travel as strings; see `toNumber`. */
export type Num = number | 'NaN' | 'Infinity' | '-Infinity';

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

/** `right`/`wrong`: the main metric is 1 / 0. `partial`: between or beyond. `unscored`: NaN or no number. */
export type Outcome = 'right' | 'wrong' | 'partial' | 'unscored';

export type Flag = 'empty' | 'whitespace' | 'unextracted' | 'nan';

export type AuditCount =
  'unresolved_targets' | 'empty' | 'whitespace_only' | 'truncated' | 'refused' | 'extraction_failed' | 'letters_missing';

/** A string that may be too long to send whole. */
export interface Text {
  /** The string or its beginning. */
  text: string;
  /** Length of the whole string in characters (Unicode scalar values). */
  length: number;
  /** Present and true if `text` is only a part. */
  cut?: boolean;
}

/** Every answer with a status other than 2xx. */
export interface ApiError {
  error: string;
  hint: string | null;
  /** Reports only: the status that the server would answer with. */
  status?: number;
}

// GET api/runs → RunList: every run below the given paths. Samples are not read for it.

export interface RunList {
  /** What the server was started on, for the page title. */
  paths: string[];
  version: string;
  runs: RunSummary[];
  /** Files that look like runs and cannot be read. */
  problems: FileProblem[];
  /** Whether `lm-eval run --view` started this server: there is something on api/live. */
  live: boolean;
  /** Curves that `lm-eval watch` and `lm-eval curve` have written. */
  curves: CurveHead[];
}

/** The scores of a training run over its steps. */
export interface CurveHead {
  /** Opaque, the same at every start for the same file. */
  id: string;
  /** What was trained. */
  name: string;
  /** Relative to the given path. */
  path: string;
  /** Steps that were evaluated. */
  count: number;
  /** Whether a watcher may still add steps. */
  live: boolean;
}

export interface FileProblem {
  path: string;
  error: string;
}

/** `results`: a finished run. `samples`: a samples file without results. `journal`: answers, scores are not there. */
export type RunKind = 'results' | 'samples' | 'journal';

/** A run without its tasks. */
export interface RunHead {
  /** Opaque, the same at every start for the same file. */
  id: string;
  /** The model, for headings. */
  name: string;
  kind: RunKind;
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
  /** Whether at least one task has a samples file. */
  has_samples: boolean;
  /** What was changed in the results file since the run wrote it: its scores may be wrong. */
  changed: string | null;
}

export interface RunSummary extends RunHead {
  tasks: TaskSummary[];
}

export interface TaskSummary {
  task: string;
  alias: string;
  is_group: boolean;
  /** Nesting below groups; 0 is the top. */
  depth: number;
  /** The main score, for lists: the first of `TaskDetail.scores`. */
  main: Score | null;
  documents: number | null;
  /** Documents without an answer, which are not in the scores; of a group those of its tasks. */
  failed: number;
  has_samples: boolean;
}

/** A score with its uncertainty. */
export interface Score {
  /** The metric, without its filter. */
  metric: string;
  /** The filter pipeline. */
  filter: string;
  /** The score; null if it is not a number. */
  value: Num | null;
  /** The standard error; null if the run has none. */
  stderr: Num | null;
  /** 95 % interval: Wilson for a mean of 0/1 values where the counts are known, else value ± 1.96 stderr. */
  low: Num | null;
  /** The upper end of the interval. */
  high: Num | null;
  /** The smallest and the largest score that complete answers could have led to; null if all answers are finished. */
  bounds: [Num, Num] | null;
  /** Null where the results do not say. */
  higher_is_better: boolean | null;
}

// GET api/run?run=ID → RunDetail

export interface RunDetail extends RunHead {
  tasks: TaskDetail[];
  /** `config` of the results file and what belongs to it (seeds, versions, chat template, …), secrets masked; in order. */
  settings: [string, Json][];
  /** Journals only: what the header says. */
  journal: JournalHeader | null;
  /** Scores by token budget, if `lm-eval budget` has saved them next to the results. */
  budget: BudgetChart | null;
}

/** A drawing that the server has made, such as scores by token budget. */
export interface BudgetChart {
  /** An SVG document. */
  svg: string;
  width: number;
  height: number;
  /** What it depends on. */
  notes: string[];
}

export interface JournalHeader {
  answers: number;
  model: string;
  bytes: number;
}

export interface TaskDetail extends TaskSummary {
  scores: Score[];
  version: Json;
  num_fewshot: Json;
  /** Per filter pipeline. */
  audit: PipelineAudit[];
  /** What the task resolved to (`configs`), secrets masked. */
  config: Json;
}

/** `documents` and `answers` are the denominators of `counts`. */
export interface PipelineAudit {
  filter: string;
  documents: number;
  answers: number;
  counts: Partial<Record<AuditCount, number>>;
}

// GET api/task?run=ID&task=NAME[&filter=NAME] → TaskStats: from the index of the samples file.

export interface TaskStats {
  index: IndexState;
  filters: string[];
  /** Null while the index has no sample of it. */
  filter: string | null;
  /** Metrics of this pipeline with per-document numbers. */
  metrics: MetricStats[];
  prompt_length: Histogram;
  answer_length: Histogram;
  outcomes: Record<Outcome, number>;
  flags: Partial<Record<Flag, number>>;
  /** Fields of documents, from the first ones: for `by` of a comparison and for expressions. */
  fields: string[];
}

export interface MetricStats {
  metric: string;
  histogram: Histogram;
  mean: Num;
  /** Documents with NaN or without a number. */
  missing: number;
}

/** An index is built while rows are already served. Ask again (about every 300 ms) until `complete`. */
export interface IndexState {
  complete: boolean;
  /** Bytes read and to read. */
  bytes: number;
  total_bytes: number;
  /** Lines that could not be read, such as a half-written last one. The first few. */
  bad_lines: BadLine[];
  /** What was changed in the file since the run wrote it; known once it is complete. */
  changed: string | null;
}

export interface BadLine {
  /** Counted from 1. */
  line: number;
  error: string;
}

/** `counts[i]` is the number of values in `[edges[i], edges[i+1])`; the last bin includes its upper edge. */
export interface Histogram {
  edges: number[];
  counts: number[];
}

// GET api/samples?… → SamplePage

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
  /** Reports only: `rows` is all there is. */
  excerpt?: Excerpt;
}

export interface Excerpt {
  shown: number;
  of: number;
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
  /** If the query has a `text`. */
  hit?: Hit;
}

/** The string around the first hit of a search; `start` and `end` are UTF-16 offsets into `text`. */
export interface Hit {
  where: string;
  text: string;
  start: number;
  end: number;
}

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
  rolling: Rolling[];
  /** Generated answers: one entry per request, with its repeats. */
  generations: Generation[];
  /** From the raw answers to what was scored. */
  steps: FilterStep[];
  target: Text;
  values: SampleValue[];
  outcome: Outcome;
  flags: Flag[];
  /** The document of the dataset, field by field. */
  doc: DocField[];
  /** The images and sounds of the requests, or of the document. */
  media: MediaFile[];
  hashes: Hashes;
  /** The line as it is in the file, secrets masked. */
  raw: Text;
  /** Rows of the same document in the task's other pipelines. */
  other_filters: OtherFilter[];
}

/** An image or a sound; `url` has a small version of it, if there is one. */
export interface MediaFile {
  name: string;
  kind: string;
  detail: string;
  url: string | null;
}

export interface Rolling {
  loglikelihood: Num;
}

export interface Generation {
  settings: Json;
  repeats: Text[];
  /** The reasoning before each repeat; null where there is none. */
  reasoning: (Text | null)[];
}

/** `name` is the pipeline, or a filter function of it (if the results say). */
export interface FilterStep {
  name: string;
  detail: string | null;
  output: Text[] | null;
}

export interface SampleValue {
  metric: string;
  value: Num | null;
  text: string;
  per_repeat: (Num | null)[] | null;
}

export interface DocField {
  field: string;
  value: Text;
}

export interface Hashes {
  doc: string | null;
  prompt: string | null;
  target: string | null;
}

export interface OtherFilter {
  filter: string;
  row: number;
}

export interface Prompt {
  /** The prompt as one string; of a chat, as the record has it. */
  text: Text;
  /** Chat turns, if the prompt is a chat (JSON messages). */
  turns: Turn[] | null;
  /** A description, each few-shot example, then the question. Empty where unknown or without examples. */
  parts: PromptPart[];
}

export interface Turn {
  role: string;
  content: Text;
}

export interface PromptPart {
  /** The UTF-16 offset into the text of the prompt. */
  start: number;
  kind: PromptPartKind;
}

export type PromptPartKind = 'description' | 'example' | 'question';

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
  /** If unfinished answers alone could explain the difference: the smallest and the largest possible one. */
  possible: [Num, Num] | null;
  only_base: number;
  only_new: number;
  by: LabelledDifference[];
  flips: number;
}

export interface LabelledDifference extends Difference {
  label: string;
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

// GET api/flips?base=ID&new=ID&task=NAME&filter=NAME&metric=NAME[&direction=up|down][&allow=1][&offset][&limit] → FlipPage

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

// GET api/answers?run=ID[&text=…][&regex=1][&offset][&limit] → AnswerPage: a journal, newest answers first.

export interface AnswerPage {
  total: number;
  matched: number;
  offset: number;
  rows: StoredAnswer[];
}

/** Journals hold no prompts: an answer is identified by task, document and request. */
export interface StoredAnswer {
  index: number;
  task: string | null;
  doc_id: number | null;
  request: number | null;
  repeat: number;
  kind: string | null;
  answer: Text | null;
  truncated: boolean;
  error: string | null;
}

// GET api/curve?curve=ID → CurvePage: ask again while it is live.
// GET api/drawing?curve=ID → BudgetChart: the main scores as an SVG document.

export interface CurvePage extends CurveHead {
  /** Ascending. */
  steps: CurveStep[];
  /** Members follow their group. */
  scores: CurveScore[];
  /** Checkpoints without results, with the reasons. */
  waiting: CurveWaiting[];
  notes: string[];
}

export interface CurveStep {
  step: number;
  checkpoint: string;
  /** The run to open, if it is below the given paths. */
  run: string | null;
  failed_requests: number;
}

/** A checkpoint that is not evaluated. */
export interface CurveWaiting {
  checkpoint: string;
  step: number | null;
  reason: string;
}

/** One score over all steps. Lists have one entry per step; null where the step lacks it. */
export interface CurveScore {
  task: string;
  metric: string;
  filter: string;
  is_group: boolean;
  /** The first score of its task, which stands for the task. */
  is_main: boolean;
  higher_is_better: boolean | null;
  documents: number | null;
  /** The expected score of guessing. */
  chance: Num | null;
  /** Whether the last score cannot be told from guessing; null where that is unknown. */
  at_chance: boolean | null;
  /** The smallest difference between two steps that these documents would probably show. */
  detectable: Num | null;
  /** The index of the best step. */
  best: number | null;
  values: (Num | null)[];
  /** 95 % intervals. */
  low: (Num | null)[];
  high: (Num | null)[];
  /** Differences from the previous step, and their p-values after Benjamini and Hochberg. */
  from_previous: (Num | null)[];
  previous_p: (Num | null)[];
  /** The same from the best step. */
  from_best: (Num | null)[];
  best_p: (Num | null)[];
}

// GET api/live: server-sent events. Each `data:` is a complete LiveState as JSON, at most two per second; the last has
// `finished: true`, after which the server closes the stream. 404 where there is no running evaluation.

/** A running evaluation. */
export interface LiveState {
  /** The model, for the heading. */
  model: string;
  /** Seconds since the start. */
  elapsed: number;
  /** What the run is doing, as its progress line says. */
  phase: string;
  /** Requests so far, over all tasks. */
  requests: LiveRequests;
  /** Requests per second over the last ten seconds; null at the start. */
  rate: number | null;
  /** Seconds left, estimated. */
  remaining: number | null;
  /** Tasks whose data is loaded. */
  tasks: LiveTask[];
  /** Newest first, at most 20. Texts are cut to 2,000 characters. */
  answers: LiveAnswer[];
  /** Newest first, at most 20. */
  messages: LiveMessage[];
  /** Whether this is the last state. */
  finished: boolean;
  /** Once finished and written: the run to open. */
  run: string | null;
}

/** Requests of a running evaluation. */
export interface LiveRequests {
  /** Answered or failed. */
  done: number;
  /** Null until all of them are built. */
  total: number | null;
  /** Answered from the journal or by an equal request. */
  reused: number;
  /** Without an answer. */
  failed: number;
  /** Attempts beyond the first. */
  retried: number;
}

/** A task of a running evaluation. */
export interface LiveTask {
  /** The name, or the key if results have a group in front of it. */
  task: string;
  /** Documents with all their answers. */
  done: number;
  /** Null until the data is loaded. */
  total: number | null;
  /** Documents that the running scores are about: some are skipped when they arrive fast. */
  scored: number;
  /** Empty until there are some, and for tasks that can only be scored as a whole. */
  scores: Score[];
}

/** The first answer of a document. */
export interface LiveAnswer {
  /** The task that the document belongs to. */
  task: string;
  /** The id of the document in its dataset. */
  doc_id: number | null;
  /** Null if the run has dropped the prompt. */
  prompt: Text | null;
  /** The answer as Python prints it. */
  answer: Text;
}

/** A message of a running evaluation. */
export interface LiveMessage {
  /** Whether something was lost. */
  level: LiveLevel;
  /** The message; secrets are masked. */
  text: string;
  /** Seconds since the start. */
  elapsed: number;
}

/** Whether a message is about something that was lost. */
export type LiveLevel = 'warning' | 'error';
