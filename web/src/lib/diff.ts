export interface Piece {
  kind: 'same' | 'removed' | 'added';
  text: string;
}

/** Above this many edits the two sides share too little for a diff to help, and it would take long. */
const EDITS = 2000;

/** Words, runs of whitespace, and single other characters. */
export function words(text: string): string[] {
  return text.match(/[\p{L}\p{N}_]+|\n|[^\S\n]+|[^\p{L}\p{N}_\s]/gu) ?? [];
}

/** Word diff: the shortest edit script, or whole sides when they differ too much. */
export function diff(before: string, after: string): Piece[] {
  const a = words(before);
  const b = words(after);
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start++;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end++;
  const pieces: Piece[] = [];
  push(pieces, 'same', a.slice(0, start));
  const left = a.slice(start, a.length - end);
  const right = b.slice(start, b.length - end);
  const script = edits(left, right);
  if (script === null) {
    push(pieces, 'removed', left);
    push(pieces, 'added', right);
  } else {
    for (const [kind, word] of script) push(pieces, kind, [word]);
  }
  push(pieces, 'same', end === 0 ? [] : a.slice(a.length - end));
  return pieces;
}

function push(pieces: Piece[], kind: Piece['kind'], tokens: string[]) {
  if (tokens.length === 0) return;
  const last = pieces.at(-1);
  if (last?.kind === kind) last.text += tokens.join('');
  else pieces.push({ kind, text: tokens.join('') });
}

/** Myers' greedy algorithm, keeping the frontier of each step to walk back along. */
function edits(a: string[], b: string[]): [Piece['kind'], string][] | null {
  const limit = Math.min(a.length + b.length, EDITS);
  const offset = limit + 1;
  const frontier = new Int32Array(2 * limit + 3);
  const history: Int32Array[] = [];
  for (let d = 0; d <= limit; d++) {
    history.push(frontier.slice(offset - d - 1, offset + d + 2));
    for (let k = -d; k <= d; k += 2) {
      const down = k === -d || (k !== d && at(frontier, offset + k - 1) < at(frontier, offset + k + 1));
      let x = down ? at(frontier, offset + k + 1) : at(frontier, offset + k - 1) + 1;
      let y = x - k;
      while (x < a.length && y < b.length && a[x] === b[y]) {
        x++;
        y++;
      }
      frontier[offset + k] = x;
      if (x >= a.length && y >= b.length) return walk(a, b, history);
    }
  }
  return null;
}

function walk(a: string[], b: string[], history: Int32Array[]): [Piece['kind'], string][] {
  const script: [Piece['kind'], string][] = [];
  let x = a.length;
  let y = b.length;
  for (let d = history.length - 1; d >= 0; d--) {
    const frontier = history[d] as Int32Array;
    const middle = d + 1;
    const k = x - y;
    const down = k === -d || (k !== d && at(frontier, middle + k - 1) < at(frontier, middle + k + 1));
    const from = down ? k + 1 : k - 1;
    const fromX = d === 0 ? 0 : at(frontier, middle + from);
    const fromY = d === 0 ? 0 : fromX - from;
    while (x > fromX && y > fromY) {
      x--;
      y--;
      script.push(['same', a[x] as string]);
    }
    if (d === 0) break;
    if (down) script.push(['added', b[--y] as string]);
    else script.push(['removed', a[--x] as string]);
  }
  return script.reverse();
}

function at(array: Int32Array, index: number): number {
  return array[index] as number;
}
