/** The list of runs: filter, order and groups. */
import type { AuditCount, RunList, RunSummary, Score, TaskSummary } from './api';
import { toNumber } from './api';
import { count, date, percent, score, type Numeric } from './format';

export const AUDIT_LABELS: Record<AuditCount, string> = {
  unresolved_targets: 'target not among the choices',
  empty: 'empty',
  whitespace_only: 'whitespace only',
  truncated: 'truncated',
  refused: 'refused',
  extraction_failed: 'not matched by a filter',
  letters_missing: 'with a letter missing from the server’s list',
};

/** Counts of documents; the others are counts of answers. */
const OF_DOCUMENTS: AuditCount[] = ['unresolved_targets', 'letters_missing'];

/** A count with its label and share, as "37 truncated (93 %)". */
export function auditText(name: string, number: number, audit: { documents: number; answers: number }): string {
  const all = OF_DOCUMENTS.includes(name as AuditCount) ? audit.documents : audit.answers;
  return `${count(number)} ${AUDIT_LABELS[name as AuditCount] ?? name} (${percent(number / Math.max(1, all))})`;
}

export type Entry =
  { kind: 'heading'; label: string; runs: number } | { kind: 'run'; run: RunSummary; task: TaskSummary | null };

export function find(list: RunList, id: string): RunSummary | undefined {
  return list.runs.find((run) => run.id === id);
}

/** Tasks of all runs, groups as well, by name. */
export function taskNames(list: RunList): string[] {
  return [...new Set(list.runs.flatMap((run) => run.tasks.map((task) => task.task)))].sort();
}

export function settingsLine(run: RunSummary): string {
  const parts = [];
  if (run.num_fewshot !== null) parts.push(`${run.num_fewshot}-shot`);
  if (run.limit !== null) parts.push(`limit ${run.limit}`);
  if (run.backend) parts.push(run.backend);
  if (run.model_args) parts.push(run.model_args);
  return parts.join(' · ');
}

/** What tells a run from others of the same name: its date, its folder or its file; empty if nothing has to. */
export function distinction(run: RunSummary, runs: RunSummary[]): string {
  const folder = (other: RunSummary) => other.path.slice(0, Math.max(0, other.path.lastIndexOf('/')));
  const alike = runs.filter((other) => other.name === run.name);
  if (alike.length < 2) return '';
  const tells = [(other: RunSummary) => date(other.date), folder].find(
    (of) => alike.filter((other) => of(other) === of(run)).length === 1,
  );
  return tells ? tells(run) : run.path;
}

export function matches(run: RunSummary, query: string): boolean {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return true;
  const text = [
    run.name,
    run.path,
    run.kind,
    run.version ?? '',
    run.backend ?? '',
    run.model_args ?? '',
    date(run.date),
    ...run.tasks.map((task) => task.task),
  ]
    .join(' ')
    .toLowerCase();
  return words.every((word) => text.includes(word));
}

export function flagged(run: RunSummary): number {
  return Object.values(run.audit).reduce((sum, number) => sum + number, 0);
}

export function taskOf(run: RunSummary, name: string): TaskSummary | null {
  return run.tasks.find((task) => task.task === name) ?? null;
}

function keyOf(entry: { run: RunSummary; task: TaskSummary | null }, key: string): number | string {
  const { run, task } = entry;
  switch (key) {
    case 'name':
      return run.name.toLowerCase();
    case 'score':
      return toNumber(task?.main?.value ?? run.tasks[0]?.main?.value ?? null);
    case 'documents':
      return run.documents ?? NaN;
    case 'failures':
      return run.failed_requests;
    case 'audit':
      return flagged(run);
    case 'duration':
      return run.duration ?? NaN;
    case 'version':
      return run.version ?? '';
    default:
      return run.date ?? NaN;
  }
}

/** Missing values come last in both directions. */
function order(left: number | string, right: number | string, descending: boolean): number {
  if (typeof left === 'number' && typeof right === 'number') {
    if (Number.isNaN(left) || Number.isNaN(right)) return Number(Number.isNaN(left)) - Number(Number.isNaN(right));
    return descending ? right - left : left - right;
  }
  const [a, b] = [String(left), String(right)];
  return (a < b ? -1 : a > b ? 1 : 0) * (descending ? -1 : 1);
}

export interface ListQuery {
  q?: string;
  sort?: string;
  group?: string;
  task?: string;
}

export function entries(list: RunList, query: ListQuery): Entry[] {
  const sort = query.sort || (query.group === 'task' ? '-score' : '-date');
  const descending = sort.startsWith('-');
  const key = descending ? sort.slice(1) : sort;
  const task = query.task ?? '';
  const selected = list.runs.filter((run) => matches(run, query.q ?? '') && (!task || taskOf(run, task)));
  const sorted = (rows: { run: RunSummary; task: TaskSummary | null }[]) =>
    rows
      .map((row) => ({ row, key: keyOf(row, key) }))
      .sort((a, b) => order(a.key, b.key, descending))
      .map(({ row }): Entry => ({ kind: 'run', ...row }));
  const groups = new Map<string, { run: RunSummary; task: TaskSummary | null }[]>();
  const add = (label: string, row: { run: RunSummary; task: TaskSummary | null }) => {
    const found = groups.get(label);
    if (found) found.push(row);
    else groups.set(label, [row]);
  };
  if (query.group === 'model') {
    for (const run of selected) add(run.name, { run, task: taskOf(run, task) });
  } else if (query.group === 'task') {
    for (const run of selected)
      for (const entry of run.tasks) if (!task || entry.task === task) add(entry.task, { run, task: entry });
  } else {
    return sorted(selected.map((run) => ({ run, task: taskOf(run, task) })));
  }
  return [...groups]
    .sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0))
    .flatMap(([label, rows]): Entry[] => [{ kind: 'heading', label, runs: rows.length }, ...sorted(rows)]);
}

/** What a score could have been if answers had not been cut off, refused or left unmatched. */
export function boundsText(bounds: [Numeric, Numeric]): string {
  return `${score(bounds[0])} to ${score(bounds[1])} possible`;
}

export function scoreLine(main: Score): string {
  const error = main.stderr === null ? '' : ` ± ${score(main.stderr)}`;
  const bounds = main.bounds === null ? '' : ` (${boundsText(main.bounds)})`;
  return `${main.metric} ${score(main.value)}${error}${bounds}`;
}

export function auditLine(audit: Partial<Record<AuditCount, number>>): string {
  return Object.entries(audit)
    .map(([name, number]) => `${count(number)} ${AUDIT_LABELS[name as AuditCount] ?? name}`)
    .join(', ');
}

/** The axis of a score: 0 to 1 for shares, else a little beyond the interval. */
export function axis(scores: (Score | null)[]): { min: number; max: number } {
  let min = 0;
  let max = 1;
  for (const entry of scores) {
    if (!entry) continue;
    for (const value of [entry.value, entry.low, entry.high].map(toNumber)) {
      if (!Number.isFinite(value)) continue;
      if (value > max * 1.0000001) max = value * 1.05;
      if (value < min) min = value * 1.05;
    }
  }
  return { min, max };
}
