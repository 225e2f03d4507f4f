import { getContext, setContext } from 'svelte';

const KEY = Symbol('hits');

/** Sets the pattern that strings below this component mark, such as the text searched for. */
export function provideHits(pattern: () => RegExp | null) {
  setContext(KEY, pattern);
}

export function hits(): () => RegExp | null {
  return getContext<(() => RegExp | null) | undefined>(KEY) ?? (() => null);
}
