//! Attention on the CPU: ragged, in float32.

use candle_core::{CpuStorage, CustomOp3, Layout, Result, Shape};
use rayon::prelude::*;

use super::activation::slice;
use super::attention::AttentionOptions;
use super::simd::{self, LANES};
use crate::batch::{Batch, Segment};

/// Queries per parallel task. Keys are rearranged once per task.
const QUERIES: usize = 64;
/// Rows per parallel task, one for each query and head that share keys, unless it has a single query.
const ROWS: usize = 512;

/// Computes attention of a batch: `queries [rows, heads, width]`, keys and values `[cache rows, kv heads, width]`.
pub(super) struct RaggedAttention<'a> {
    pub(super) batch: &'a Batch,
    pub(super) options: &'a AttentionOptions,
    /// The width of values, the first numbers of a row of `values`.
    pub(super) value_width: usize,
}

/// The tensors and their sizes.
struct Tensors<'a> {
    queries: &'a [f32],
    keys: &'a [f32],
    values: &'a [f32],
    heads: usize,
    kv_heads: usize,
    width: usize,
    value_width: usize,
    /// The distance of values in memory.
    value_pitch: usize,
}

/// Consecutive queries of a segment.
struct Piece<'a> {
    segment: &'a Segment,
    /// The index of the first query in the segment.
    first: usize,
    count: usize,
}

impl CustomOp3 for RaggedAttention<'_> {
    fn name(&self) -> &'static str {
        "ragged-attention"
    }

    fn cpu_fwd(
        &self,
        queries: &CpuStorage,
        queries_layout: &Layout,
        keys: &CpuStorage,
        keys_layout: &Layout,
        values: &CpuStorage,
        values_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let (rows, heads, width) = queries_layout.shape().dims3()?;
        let (_, kv_heads, _) = keys_layout.shape().dims3()?;
        let (_, _, value_pitch) = values_layout.shape().dims3()?;
        let value_width = self.value_width;
        let tensors = Tensors {
            queries: slice(queries, queries_layout)?,
            keys: slice(keys, keys_layout)?,
            values: slice(values, values_layout)?,
            heads,
            kv_heads,
            width,
            value_width,
            value_pitch,
        };
        let mut made = vec![0.0_f32; rows * heads * value_width];
        let queries = QUERIES.min(ROWS * kv_heads.max(1) / heads.max(1)).max(1);
        let mut pieces = Vec::new();
        let mut rest = made.as_mut_slice();
        for segment in self.batch.segments() {
            for first in (0..segment.len).step_by(queries) {
                let count = queries.min(segment.len - first);
                let (own, others) = rest.split_at_mut(count * heads * value_width);
                pieces.push((Piece { segment, first, count }, own));
                rest = others;
            }
        }
        pieces.into_par_iter().for_each(|(piece, made)| tensors.attend(&piece, self.options, made));
        Ok((CpuStorage::F32(made), Shape::from((rows, heads * value_width))))
    }
}

/// Scratch memory, reused by the heads of a task.
#[derive(Default)]
struct Scratch {
    panels: Vec<[f32; LANES]>,
    queries: Vec<f32>,
    scores: Vec<f32>,
}

impl Tensors<'_> {
    /// Computes a task. `made` is `[queries, heads, value width]`.
    fn attend(&self, piece: &Piece<'_>, options: &AttentionOptions, made: &mut [f32]) {
        let Piece { segment, first, count } = *piece;
        let all = segment.keys();
        let visible = options.keys_of(segment.offset + first + count - 1, all).end;
        // The first key that any query of the task attends to.
        let hidden = options.keys_of(segment.offset + first, all).start;
        let rows = segment.spans.iter().flat_map(|span| span.rows()).take(visible).skip(hidden);
        let rows: Vec<usize> = rows.collect();
        let mut scratch = Scratch::default();
        for kv_head in 0..self.kv_heads {
            self.attend_head(piece, options, kv_head, hidden, &rows, &mut scratch, made);
        }
    }

    #[expect(clippy::too_many_arguments, reason = "each differs per head or is shared by all heads")]
    fn attend_head(
        &self,
        piece: &Piece<'_>,
        options: &AttentionOptions,
        kv_head: usize,
        hidden: usize,
        rows: &[usize],
        scratch: &mut Scratch,
        made: &mut [f32],
    ) {
        let Self { heads, width, value_width, value_pitch, .. } = *self;
        let group = heads / self.kv_heads;
        let position = piece.segment.offset + piece.first;
        let all = piece.segment.keys();
        let padded = rows.len().next_multiple_of(LANES);
        let count = piece.count * group;
        let head = |row: usize| kv_head * group + row % group;
        // One row per query and head that reads these keys. Scaling queries is cheaper than scaling scores.
        scratch.queries.clear();
        for row in 0..count {
            let query = piece.segment.first + piece.first + row / group;
            let query = &self.queries[(query * heads + head(row)) * width..][..width];
            scratch.queries.extend(query.iter().map(|number| number * options.scale));
        }
        scratch.scores.clear();
        scratch.scores.resize(count * padded, 0.0);
        for (panel, rows) in rows.chunks(LANES).enumerate() {
            scratch.panels.clear();
            scratch.panels.resize(width, [0.0; LANES]);
            for (lane, row) in rows.iter().enumerate() {
                let key = &self.keys[(row * self.kv_heads + kv_head) * width..][..width];
                for (lanes, number) in scratch.panels.iter_mut().zip(key) {
                    lanes[lane] = *number;
                }
            }
            let scores = &mut scratch.scores;
            simd::multiply(&scratch.queries, width, count, &scratch.panels, |row, products| {
                scores[row * padded + panel * LANES..][..LANES].copy_from_slice(products);
            });
        }
        for (row, scores) in scratch.scores.chunks_exact_mut(padded).enumerate() {
            let position = position + row / group;
            let keys = options.keys_of(position, all);
            let (first, end) = (keys.start - hidden, keys.end - hidden);
            scores[..first].fill(0.0);
            scores[end..].fill(0.0);
            let seen = &mut scores[first..end];
            options.adjust(head(row), position, keys.start, seen);
            simd::softmax(seen, options.sink(head(row)));
        }
        for start in (0..value_width).step_by(LANES) {
            let lanes = LANES.min(value_width - start);
            scratch.panels.clear();
            scratch.panels.resize(padded, [0.0; LANES]);
            for (panel, row) in scratch.panels.iter_mut().zip(rows) {
                let value = &self.values[(row * self.kv_heads + kv_head) * value_pitch + start..][..lanes];
                panel[..lanes].copy_from_slice(value);
            }
            simd::multiply(&scratch.scores, padded, count, &scratch.panels, |row, products| {
                let offset = ((row / group) * heads + head(row)) * value_width + start;
                made[offset..][..lanes].copy_from_slice(&products[..lanes]);
            });
        }
    }
}
