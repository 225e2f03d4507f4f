import { flushSync } from 'svelte';
import { MediaQuery } from 'svelte/reactivity';

const phone = new MediaQuery('(max-width: 700px)');

/** Properties of the output medium that components lay out by. */
export const screen = $state({ printing: false });

export function isNarrow(): boolean {
  return phone.current;
}

/** Lists show all of their rows on paper, not the window on screen. */
export function followPrinting(): () => void {
  const before = () => flushSync(() => (screen.printing = true));
  const after = () => (screen.printing = false);
  addEventListener('beforeprint', before);
  addEventListener('afterprint', after);
  return () => {
    removeEventListener('beforeprint', before);
    removeEventListener('afterprint', after);
  };
}
