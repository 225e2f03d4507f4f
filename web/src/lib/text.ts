/**
 * Model output is data: it is only ever put into text nodes. Characters that could change how the rest of the page is displayed (control
 * characters, terminal escapes, bidirectional overrides, invisible characters) become visible labels.
 */
export interface Segment {
  kind: 'text' | 'control' | 'space';
  text: string;
  /** Name of the character, for a tooltip. */
  title?: string;
}

const NAMES: Record<number, string> = {
  0x00: 'null',
  0x07: 'bell',
  0x08: 'backspace',
  0x0b: 'vertical tab',
  0x0c: 'form feed',
  0x0d: 'carriage return',
  0x1b: 'escape',
  0x7f: 'delete',
  0xad: 'soft hyphen',
  0x061c: 'Arabic letter mark',
  0x180e: 'Mongolian vowel separator',
  0x200b: 'zero-width space',
  0x200c: 'zero-width non-joiner',
  0x200e: 'left-to-right mark',
  0x200f: 'right-to-left mark',
  0x2028: 'line separator',
  0x2029: 'paragraph separator',
  0x202a: 'left-to-right embedding',
  0x202b: 'right-to-left embedding',
  0x202c: 'pop directional formatting',
  0x202d: 'left-to-right override',
  0x202e: 'right-to-left override',
  0x2060: 'word joiner',
  0x2066: 'left-to-right isolate',
  0x2067: 'right-to-left isolate',
  0x2068: 'first strong isolate',
  0x2069: 'pop directional isolate',
  0xfeff: 'byte order mark',
  0xfffc: 'object replacement character',
};

// Abbreviations, because fonts often lack the control pictures of Unicode.
const C0 =
  'NUL SOH STX ETX EOT ENQ ACK BEL BS HT LF VT FF CR SO SI DLE DC1 DC2 DC3 DC4 NAK SYN ETB CAN EM SUB ESC FS GS RS US'.split(
    ' ',
  );

// C0 except tab and line feed, delete, C1, soft hyphen, marks, embeddings, overrides, isolates, invisible operators, byte order mark,
// interlinear annotations, lone surrogates, tags. The zero-width joiner stays: emoji need it.
const CONTROL =
  // eslint-disable-next-line no-control-regex
  /\x1b\[[0-9;?]*[ -/]*[@-~]|\r\n|[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b\u200c\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffc]|[\ud800-\udfff]|[\u{e0000}-\u{e007f}]/u;
const SPACE = /[ \t\n\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]/;
const BOTH = new RegExp(`(${CONTROL.source})|(${SPACE.source})`, 'gu');
const CONTROLS = new RegExp(`(${CONTROL.source})`, 'gu');

function hex(code: number): string {
  return `U+${code.toString(16).toUpperCase().padStart(4, '0')}`;
}

function control(match: string): Segment {
  if (match.length > 1 && match.startsWith('\x1b'))
    return { kind: 'control', text: `ESC${match.slice(1)}`, title: 'terminal escape sequence' };
  if (match === '\r\n') return { kind: 'control', text: 'CR', title: 'carriage return and line feed' };
  const code = match.codePointAt(0) ?? 0;
  const title = `${hex(code)}${NAMES[code] ? ` ${NAMES[code]}` : ''}`;
  const text = code < 0x20 ? (C0[code] as string) : code === 0x7f ? 'DEL' : hex(code);
  return { kind: 'control', text, title };
}

function space(match: string): Segment {
  if (match === ' ') return { kind: 'space', text: '·', title: 'space' };
  if (match === '\t') return { kind: 'space', text: '→\t', title: 'tab' };
  if (match === '\n') return { kind: 'space', text: '↵\n', title: 'line feed' };
  return {
    kind: 'space',
    text: hex(match.codePointAt(0) ?? 0),
    title: `${hex(match.codePointAt(0) ?? 0)} space character`,
  };
}

/** Splits a string into plain runs and labels. With `spaces`, whitespace becomes visible as well, equal neighbours merged. */
export function segments(value: string, spaces = false): Segment[] {
  const result: Segment[] = [];
  let last = 0;
  for (const match of value.matchAll(spaces ? BOTH : CONTROLS)) {
    if (match.index > last) result.push({ kind: 'text', text: value.slice(last, match.index) });
    const next = match[1] === undefined ? space(match[0]) : control(match[0]);
    const previous = result.at(-1);
    if (next.kind === 'space' && previous?.kind === 'space' && previous.title === next.title && match.index === last)
      previous.text += next.text;
    else result.push(next);
    if (match[0] === '\r\n') result.push({ kind: 'text', text: '\n' });
    last = match.index + match[0].length;
  }
  if (last < value.length) result.push({ kind: 'text', text: value.slice(last) });
  return result;
}

/** One line for a table cell: line breaks become ↵, control characters labels such as ‹ESC›. */
export function oneLine(value: string, limit = 300): string {
  const cut = value.length > limit ? value.slice(0, wholeCharacters(value, limit)) : value;
  const line = segments(cut)
    .map((segment) => (segment.kind === 'control' ? `‹${segment.text}›` : segment.text))
    .join('')
    .replace(/\s*\n\s*/g, ' ↵ ')
    .replace(/\t/g, ' ');
  return cut.length < value.length ? `${line}…` : line;
}

/** The largest length up to `limit` that does not split a surrogate pair. */
export function wholeCharacters(value: string, limit: number): number {
  if (limit >= value.length) return value.length;
  const code = value.charCodeAt(limit - 1);
  return code >= 0xd800 && code <= 0xdbff ? limit - 1 : limit;
}

/** At most this many hits are marked in one string. */
const MARKS = 1000;

/** Splits a string into pieces that match `pattern`, which must be global, and pieces that do not. */
export function marked(value: string, pattern: RegExp | null): { text: string; hit: boolean }[] {
  if (!pattern) return [{ text: value, hit: false }];
  const pieces = [];
  let last = 0;
  for (const match of value.matchAll(pattern)) {
    if (match[0] === '') continue;
    if (match.index > last) pieces.push({ text: value.slice(last, match.index), hit: false });
    pieces.push({ text: match[0], hit: true });
    last = match.index + match[0].length;
    if (pieces.length > 2 * MARKS) break;
  }
  if (last < value.length) pieces.push({ text: value.slice(last), hit: false });
  return pieces;
}
