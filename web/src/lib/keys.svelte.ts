import { untrack } from 'svelte';

/** Keyboard commands of the page on screen. Pages register theirs with `addKeys` in an effect; the help overlay lists them. */
export interface Binding {
  /** A value of `KeyboardEvent.key`, or two separated by a space for a sequence such as `g r`. */
  key: string;
  label: string;
  run: () => void;
}

export interface Group {
  name: string;
  bindings: Binding[];
}

let groups = $state.raw<Group[]>([]);

/** Groups of commands, the page's own last. */
export function allKeys(): Group[] {
  return groups;
}

/** Adds commands and returns the function that removes them. */
export function addKeys(name: string, bindings: Binding[]): () => void {
  const group = { name, bindings };
  // The caller is an effect, which must not depend on the list it changes.
  untrack(() => (groups = [...groups, group]));
  return () => untrack(() => (groups = groups.filter((other) => other !== group)));
}

let pending = '';
let pendingUntil = 0;

function editable(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName))
  );
}

export function onKeydown(event: KeyboardEvent) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  if (editable(event.target)) {
    if (event.key === 'Escape') (event.target as HTMLElement).blur();
    // A tick box takes commands; everything that is typed into does not.
    if (!(event.target instanceof HTMLInputElement && event.target.type === 'checkbox')) return;
  }
  if (document.querySelector('dialog[open]')) return;
  // Enter and Space belong to the focused control.
  if (
    (event.key === 'Enter' || event.key === ' ') &&
    event.target instanceof HTMLElement &&
    event.target.closest('a, button, summary, input')
  )
    return;
  const key = event.key;
  const sequence = performance.now() < pendingUntil ? `${pending} ${key}` : key;
  const all = groups.flatMap((group) => group.bindings).reverse();
  const found = all.find((binding) => binding.key === sequence) ?? all.find((binding) => binding.key === key);
  pendingUntil = 0;
  if (found) {
    event.preventDefault();
    found.run();
  } else if (all.some((binding) => binding.key.startsWith(`${key} `))) {
    pending = key;
    pendingUntil = performance.now() + 1500;
  }
}
