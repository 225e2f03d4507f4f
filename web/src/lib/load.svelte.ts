import type { RequestFailed } from './api';

/** An answer of the server that follows the state it depends on. The previous answer stays until the next one is there. */
export interface Loaded<T> {
  readonly data: T | null;
  readonly error: RequestFailed | Error | null;
  readonly loading: boolean;
  reload(): void;
}

/**
 * Fetches when the component appears and whenever state read by `fetch` before its first `await` changes. `again` returns the
 * milliseconds after which to ask again, or 0. Call it while a component is set up.
 */
export function load<T>(
  fetch: (signal: AbortSignal) => Promise<T> | null,
  again: (data: T) => number = () => 0,
): Loaded<T> {
  let data = $state.raw<T | null>(null);
  let error = $state.raw<RequestFailed | Error | null>(null);
  let loading = $state(true);
  let round = $state(0);

  $effect(() => {
    void round;
    const abort = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const request = fetch(abort.signal);
    if (!request) {
      loading = false;
      return;
    }
    loading = true;
    request.then(
      (answer) => {
        if (abort.signal.aborted) return;
        data = answer;
        error = null;
        loading = false;
        const pause = again(answer);
        if (pause > 0) timer = setTimeout(() => round++, pause);
      },
      (problem: unknown) => {
        if (abort.signal.aborted) return;
        data = null;
        error = problem instanceof Error ? problem : new Error(String(problem));
        loading = false;
      },
    );
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  });

  return {
    get data() {
      return data;
    },
    get error() {
      return error;
    },
    get loading() {
      return loading;
    },
    reload: () => void round++,
  };
}
