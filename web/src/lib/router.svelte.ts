/**
 * The whole state of a page is in the fragment of its address: `#/samples/RUN/TASK?outcome=wrong`. A fragment also works for a
 * report opened from disk, and never reaches a server's log.
 */
export interface Route {
  segments: string[];
  query: Record<string, string>;
}

export type Query = Record<string, string | number | boolean | null | undefined>;

export function parse(fragment: string): Route {
  const address = fragment.replace(/^#?\/?/, '');
  const cut = address.indexOf('?');
  const path = cut < 0 ? address : address.slice(0, cut);
  const query: Record<string, string> = {};
  if (cut >= 0) for (const [key, value] of new URLSearchParams(address.slice(cut + 1))) query[key] = value;
  return { segments: path.split('/').filter(Boolean).map(decode), query };
}

/** A damaged escape in a link is shown as it is, not thrown. */
function decode(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

export function href(segments: string[], query: Query = {}): string {
  const parameters = new URLSearchParams();
  for (const [key, value] of Object.entries(query)) {
    if (value === null || value === undefined || value === '' || value === false) continue;
    parameters.set(key, value === true ? '1' : String(value));
  }
  const encoded = parameters.toString();
  return `#/${segments.map(encodeURIComponent).join('/')}${encoded ? `?${encoded}` : ''}`;
}

export const route = $state<Route>(parse(typeof location === 'undefined' ? '' : location.hash));

function follow() {
  const next = parse(location.hash);
  route.segments = next.segments;
  route.query = next.query;
}

if (typeof window !== 'undefined') {
  window.addEventListener('hashchange', follow);
  window.addEventListener('popstate', follow);
}

export function go(address: string, options: { replace?: boolean } = {}) {
  if (location.hash === address) return;
  if (options.replace) history.replaceState(null, '', address);
  else history.pushState(null, '', address);
  follow();
}

/** Changes parts of the query of the current page; filters replace the entry of the history, so that Back leaves the page. */
export function patch(change: Query) {
  go(href(route.segments, { ...route.query, ...change }), { replace: true });
}
