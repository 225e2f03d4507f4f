/**
 * Which rows of a long list are on screen. Browsers limit the height of an element to some ten million pixels, so above `TALLEST` the
 * scroll bar is a scale: its position selects a share of the rows instead of a pixel.
 */
export const TALLEST = 8_000_000;

export interface Geometry {
  total: number;
  rowHeight: number;
  /** Height of the visible part, without the header. */
  viewport: number;
}

export function contentHeight({ total, rowHeight }: Geometry): number {
  return Math.min(total * rowHeight, TALLEST);
}

/** The row at the top, with a fraction. */
export function topRow(geometry: Geometry, scrollTop: number): number {
  const { total, rowHeight, viewport } = geometry;
  if (total * rowHeight <= TALLEST) return scrollTop / rowHeight;
  const range = TALLEST - viewport;
  const last = total - viewport / rowHeight;
  return Math.max(0, Math.min(1, scrollTop / range)) * last;
}

/** The scroll position that puts `row` at the top. */
export function scrollFor(geometry: Geometry, row: number): number {
  const { total, rowHeight, viewport } = geometry;
  if (total * rowHeight <= TALLEST) return row * rowHeight;
  const last = total - viewport / rowHeight;
  return (row / last) * (TALLEST - viewport);
}

export interface Visible {
  first: number;
  /** Exclusive. */
  last: number;
  /** Offset of row `first` in pixels from the top of the content. */
  offset: number;
}

export function visible(geometry: Geometry, scrollTop: number, margin = 4): Visible {
  const { total, rowHeight, viewport } = geometry;
  const top = topRow(geometry, scrollTop);
  const first = Math.max(0, Math.min(total, Math.floor(top) - margin));
  const last = Math.max(first, Math.min(total, Math.ceil(top + viewport / rowHeight) + margin));
  return { first, last, offset: scrollTop - (top - first) * rowHeight };
}

/** The scroll position after which `row` is completely visible; unchanged if it already is. */
export function reveal(geometry: Geometry, scrollTop: number, row: number): number {
  const top = topRow(geometry, scrollTop);
  const rows = geometry.viewport / geometry.rowHeight;
  if (row < top) return scrollFor(geometry, row);
  if (row + 1 > top + rows) return scrollFor(geometry, row + 1 - rows);
  return scrollTop;
}
