/**
 * Invented answers of the server, for `npm run dev` without a server and for component tests. Two runs of one task with `SIZE` documents,
 * some of them hostile.
 */
import type {
  Compare,
  CurveHead,
  CurvePage,
  FlipPage,
  LiveState,
  Outcome,
  RunDetail,
  RunList,
  RunSummary,
  Sample,
  SamplePage,
  SampleRow,
  TaskStats,
  Text,
} from '../src/lib/api';

export const SIZE = 5000;
export const HOSTILE = [
  '<script>document.title = "owned"</script><img src=x onerror="document.title=\'owned\'">',
  '\x1b[31mred\x1b[0m and \x07 bell',
  'user \u202e\u2066// admin\u2069 \u2066 begin',
  'zero\u200bwidth \ufeffmark \u0000 null',
];

const cutTo = (text: string, limit: number): Text =>
  text.length > limit ? { text: text.slice(0, limit), length: text.length, cut: true } : { text, length: text.length };
const whole = (text: string): Text => ({ text, length: text.length });
const noIndex = { complete: true, bytes: 1, total_bytes: 1, bad_lines: [], changed: null };

/** The answers of run `b` are unfinished. */
function summary(id: string, name: string, value: number, date: number): RunSummary {
  const bounds: [number, number] | null = id === 'b' ? [0.75, 0.9] : null;
  const main = {
    metric: 'exact_match',
    filter: 'strict',
    value,
    stderr: 0.01,
    low: value - 0.02,
    high: value + 0.02,
    bounds,
    higher_is_better: true,
  };
  return {
    id,
    name,
    kind: 'results',
    path: `out/${name}/results_${id}.json`,
    date,
    duration: 61.5,
    version: '0.5.0',
    backend: 'hf',
    model_args: `pretrained=${name}`,
    limit: null,
    num_fewshot: 2,
    documents: SIZE,
    failed_requests: 0,
    audit: { empty: 3, extraction_failed: 12 },
    has_samples: true,
    changed: null,
    tasks: [
      {
        task: 'questions',
        alias: 'questions',
        is_group: false,
        depth: 0,
        main,
        documents: SIZE,
        failed: 28,
        has_samples: true,
      },
    ],
  };
}

export const RUNS: RunList = {
  paths: ['out'],
  version: '0.5.0',
  runs: [summary('a', 'small-model', 0.5, 1_760_000_000), summary('b', 'large-model', 0.75, 1_770_000_000)],
  problems: [{ path: 'out/broken/results_x.json', error: 'unexpected end of file at line 3' }],
  live: true,
  curves: [{ id: 'c', name: 'pretraining', path: 'out/curve.steps.json', count: 4, live: false }],
};

/** A curve of four steps: one rise, one fall, and a task at chance. */
export const CURVE: CurvePage = {
  ...(RUNS.curves[0] as CurveHead),
  steps: [0, 1000, 2000, 4000].map((step) => ({
    step,
    checkpoint: `checkpoint-${step}`,
    run: step === 4000 ? 'b' : null,
    failed_requests: 0,
  })),
  scores: [
    {
      task: 'questions',
      metric: 'acc',
      filter: 'none',
      is_group: false,
      is_main: true,
      higher_is_better: true,
      documents: SIZE,
      chance: 0.25,
      at_chance: false,
      detectable: 0.03,
      best: 2,
      values: [0.25, 0.5, 0.52, 0.4],
      low: [0.22, 0.47, 0.49, 0.37],
      high: [0.28, 0.53, 0.55, 0.43],
      from_previous: [null, 0.25, 0.02, -0.12],
      previous_p: [null, 1e-9, 0.3, 1e-6],
      from_best: [-0.27, -0.02, null, -0.12],
      best_p: [1e-10, 0.3, null, 1e-6],
    },
    {
      task: 'riddles',
      metric: 'acc',
      filter: 'none',
      is_group: false,
      is_main: true,
      higher_is_better: true,
      documents: 40,
      chance: 0.5,
      at_chance: true,
      detectable: 0.3,
      best: 3,
      values: [null, 0.5, 0.45, 0.55],
      low: [null, 0.35, 0.3, 0.4],
      high: [null, 0.65, 0.6, 0.7],
      from_previous: [null, null, -0.05, 0.1],
      previous_p: [null, null, 0.8, 0.6],
      from_best: [null, -0.05, -0.1, null],
      best_p: [null, 0.8, 0.6, null],
    },
  ],
  waiting: [{ checkpoint: 'checkpoint-5000', step: 5000, reason: '`model.safetensors` has 10 of 20 bytes' }],
  notes: ['Some steps have no samples.'],
};

const isRight = (run: string, row: number) => (run === 'a' ? row % 2 === 0 : row % 4 !== 0);
const answerOf = (run: string, row: number) =>
  HOSTILE[row] ?? `Let me think about ${row}.\nThe answer is ${isRight(run, row) ? row : row + 1}.`;
const inputOf = (row: number) => `Q: What is ${row} plus nothing?\nA:`;

function sampleRow(run: string, row: number): SampleRow {
  const right = isRight(run, row);
  return {
    row,
    doc_id: row,
    input: cutTo(inputOf(row), 300),
    target: whole(String(row)),
    answer: cutTo(answerOf(run, row), 300),
    filtered: whole(String(right ? row : row + 1)),
    values: [right ? 1 : 0, row === 7 ? 'NaN' : row / SIZE],
    outcome: right ? 'right' : 'wrong',
    flags: row === 5 ? ['empty'] : [],
  };
}

function select(query: URLSearchParams): SampleRow[] {
  const run = query.get('run') ?? '';
  let rows = Array.from({ length: SIZE }, (_, row) => sampleRow(run, row));
  const outcome = query.get('outcome') as Outcome | null;
  const text = query.get('text');
  if (outcome) rows = rows.filter((row) => row.outcome === outcome);
  if (text) rows = rows.filter((row) => `${inputOf(row.row)} ${answerOf(run, row.row)}`.includes(text));
  if (query.get('sort')?.startsWith('-')) rows.reverse();
  return rows;
}

function samplePage(query: URLSearchParams): SamplePage {
  const rows = select(query);
  const offset = Number(query.get('offset') ?? 0);
  return {
    index: noIndex,
    filter: 'strict',
    columns: ['exact_match', 'f1'],
    total: SIZE,
    matched: rows.length,
    offset,
    rows: rows.slice(offset, offset + Number(query.get('limit') ?? 100)),
  };
}

function sample(query: URLSearchParams): Sample {
  const run = query.get('run') ?? '';
  const row = Number(query.get('row'));
  const order = select(query).map((other) => other.row);
  const position = order.indexOf(row);
  const examples = 'Answer the questions.\n\nQ: What is 1 plus nothing?\nA: 1\n\n';
  const shown = sampleRow(run, row);
  return {
    run,
    task: 'questions',
    row,
    doc_id: row,
    filter: 'strict',
    previous: order[position - 1] ?? null,
    next: order[position + 1] ?? null,
    position,
    matched: order.length,
    prompt: {
      text: whole(examples + inputOf(row)),
      turns: null,
      parts: [
        { start: 0, kind: 'description' },
        { start: 23, kind: 'example' },
        { start: examples.length, kind: 'question' },
      ],
    },
    choices: [],
    rolling: [],
    generations: [
      {
        settings: { until: ['\n\n'] },
        repeats: [whole(answerOf(run, row))],
        reasoning: [row === 9 ? whole('First, <b>plus nothing</b> changes nothing.') : null],
      },
    ],
    steps: [{ name: 'regex', detail: 'answer is (\\d+)', output: [shown.filtered] }],
    target: shown.target,
    values: [
      { metric: 'exact_match', value: shown.values[0] ?? null, text: String(shown.values[0]), per_repeat: null },
    ],
    outcome: shown.outcome,
    flags: shown.flags,
    doc: [{ field: 'question', value: whole(inputOf(row)) }],
    media: [],
    hashes: { doc: 'abc', prompt: 'def', target: null },
    raw: whole(JSON.stringify({ doc_id: row })),
    other_filters: [],
  };
}

function compare(query: URLSearchParams): Compare {
  const [base, other] = [
    RUNS.runs.find((run) => run.id === query.get('base')),
    RUNS.runs.find((run) => run.id === query.get('new')),
  ] as [RunSummary, RunSummary];
  const difference = {
    base_score: 0.5,
    new_score: 0.75,
    difference: 0.25,
    stderr: 0.01,
    low: 0.23,
    high: 0.27,
    p_value: 0.00001,
    test: 'McNemar exact',
    count: SIZE,
    up: 2500,
    down: 1250,
    detectable: 0.02,
  };
  const score = {
    ...difference,
    task: 'questions',
    filter: 'strict',
    metric: 'exact_match',
    higher_is_better: true,
    is_group: false,
    benjamini_hochberg: 0.00002,
    holm: 0.00002,
    possible: base.id === 'b' ? ([-0.4, 0.05] as [number, number]) : null,
    only_base: 0,
    only_new: 0,
    flips: 3750,
  };
  const by = query.get('by') ? [{ label: 'even', ...difference }] : [];
  return { base, comparisons: [{ new: other, scores: [{ ...score, by }], only_base: [], only_new: [], notes: [] }] };
}

function flips(query: URLSearchParams): FlipPage {
  const [base, other] = [query.get('base') ?? '', query.get('new') ?? ''];
  const direction = query.get('direction');
  const rows = Array.from({ length: SIZE }, (_, row) => row).filter(
    (row) => isRight(base, row) !== isRight(other, row) && (!direction || isRight(other, row) === (direction === 'up')),
  );
  const text = (run: string, row: number) => whole(`The answer is ${isRight(run, row) ? row : row + 1}.`);
  return {
    total: rows.length,
    up: 2500,
    down: 1250,
    offset: 0,
    rows: rows.slice(0, Number(query.get('limit') ?? 50)).map((row) => ({
      doc_id: row,
      base_row: row,
      new_row: row,
      base_value: isRight(base, row) ? 1 : 0,
      new_value: isRight(other, row) ? 1 : 0,
      input: whole(inputOf(row)),
      target: whole(String(row)),
      base_answer: text(base, row),
      new_answer: text(other, row),
      base_filtered: whole('x'),
      new_filtered: whole('y'),
    })),
  };
}

function detail(id: string): RunDetail | undefined {
  const found = RUNS.runs.find((run) => run.id === id);
  if (!found) return undefined;
  const tasks = found.tasks.map((task) => ({
    ...task,
    scores: task.main ? [task.main] : [],
    version: 1,
    num_fewshot: 2,
    audit: [{ filter: 'strict', documents: SIZE, answers: SIZE, counts: { empty: 3, extraction_failed: 12 } }],
    config: { task: 'questions', output_type: 'generate_until', metric_list: [{ metric: 'exact_match' }] },
  }));
  return {
    ...found,
    tasks,
    settings: [
      ['model', 'hf'],
      ['seed', 1234],
      ['chat_template', null],
    ],
    journal: null,
    budget:
      found.id === 'b'
        ? { svg: '<svg xmlns="http://www.w3.org/2000/svg"/>', width: 320, height: 240, notes: ['Estimated.'] }
        : null,
  };
}

function stats(): TaskStats {
  const histogram = { edges: [0, 0.25, 0.5, 0.75, 1], counts: [2500, 0, 0, 2500] };
  return {
    index: noIndex,
    filters: ['strict', 'flexible'],
    filter: 'strict',
    metrics: [{ metric: 'exact_match', histogram, mean: 0.5, missing: 0 }],
    prompt_length: { edges: [0, 50, 100], counts: [4000, 1000] },
    answer_length: { edges: [0, 50, 100], counts: [3000, 2000] },
    outcomes: { right: 2500, wrong: 2500, partial: 0, unscored: 0 },
    flags: { empty: 1 },
    fields: ['question', 'subject'],
  };
}

/** A run that has advanced for `seconds`. */
export function liveState(seconds: number): LiveState {
  const done = Math.min(100, seconds * 10);
  return {
    model: 'small-model',
    elapsed: seconds,
    phase: 'questions',
    requests: { done, total: 100, reused: 5, failed: 1, retried: 2 },
    rate: 10,
    remaining: (100 - done) / 10,
    tasks: [
      {
        task: 'questions',
        done,
        total: 100,
        scored: done,
        scores: [
          {
            metric: 'exact_match',
            filter: 'strict',
            value: 0.4,
            stderr: 0.05,
            low: 0.3,
            high: 0.5,
            bounds: null,
            higher_is_better: true,
          },
        ],
      },
    ],
    answers: [{ task: 'questions', doc_id: done, prompt: whole(inputOf(done)), answer: whole(answerOf('a', done)) }],
    messages: [{ level: 'warning', text: 'HTTP 503, retrying', elapsed: 1 }],
    finished: done === 100,
    run: done === 100 ? 'a' : null,
  };
}

/** The answer to an address, or undefined where the server would say 404. */
export function answer(address: string): unknown {
  const url = new URL(address, 'http://localhost');
  const query = url.searchParams;
  switch (url.pathname.replace(/^\//, '')) {
    case 'api/curve':
      return query.get('curve') === 'c' ? CURVE : null;
    case 'api/runs':
      return RUNS;
    case 'api/run':
      return detail(query.get('run') ?? '');
    case 'api/task':
      return stats();
    case 'api/samples':
      return samplePage(query);
    case 'api/sample':
      return sample(query);
    case 'api/compare':
      return compare(query);
    case 'api/flips':
      return flips(query);
    default:
      return undefined;
  }
}
