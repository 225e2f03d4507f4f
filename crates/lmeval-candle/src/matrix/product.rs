//! Products of rows with a stored matrix on the CPU.
//!
//! A few outputs are converted to 32-bit floats at a time, just before they are multiplied, so that a matrix needs no more memory than its
//! stored form. Each result is the sum over blocks of the depth, and each block the sum of its products in order, whatever the number of
//! rows. The blocks are those of the library that computes other products, so that both give the same bits.

use rayon::prelude::*;

use super::kernel::{Lanes, add_products};
use super::stored::{STEP, StoredMatrix};
use crate::layers::simd::LANES;

/// The most panels that a task converts before it multiplies rows with them.
const PANELS: usize = 8;
/// The fewest tasks per thread, for balance.
const ROUNDS: usize = 2;
/// Fewer rows than this are not split between tasks.
const ROWS: usize = 64;
/// Smaller products are computed on the calling thread.
const SMALL: usize = 1 << 17;

/// The products of rows with the rows of a matrix.
pub(super) fn multiply(rows: &[f32], count: usize, matrix: &dyn StoredMatrix) -> Vec<f32> {
    let (outputs, depth) = matrix.shape();
    let mut made = vec![0.0; count * outputs];
    let plan = Plan::new(count, outputs, depth);
    let product = Product { rows, depth, block: block_depth(depth), matrix };
    let tasks = plan.tasks(&mut made);
    if count.saturating_mul(outputs).saturating_mul(depth) < SMALL {
        let mut scratch = Scratch::default();
        for task in tasks {
            product.compute(task, &mut scratch);
        }
    } else {
        tasks.into_par_iter().for_each_init(Scratch::default, |scratch, task| product.compute(task, scratch));
    }
    made
}

/// How a product is divided.
struct Plan {
    count: usize,
    outputs: usize,
    /// Outputs per task.
    group: usize,
    /// Rows per task.
    rows: usize,
}

/// Some outputs of some rows.
struct Task<'a> {
    /// The first row.
    row: usize,
    /// The first output.
    output: usize,
    /// The outputs of each row.
    made: Vec<&'a mut [f32]>,
}

impl Plan {
    fn new(count: usize, outputs: usize, depth: usize) -> Self {
        if count.saturating_mul(outputs).saturating_mul(depth) < SMALL {
            return Self { count, outputs, group: PANELS * LANES, rows: count.max(1) };
        }
        let threads = rayon::current_num_threads();
        // With few rows, reading the matrix takes the time: one panel at a time reads longer pieces of it.
        let most = (count / LANES).clamp(1, PANELS);
        let panels = outputs.div_ceil(LANES);
        let rounds = panels.div_ceil(threads * most).max(ROUNDS);
        let group = LANES * panels.div_ceil(threads * rounds);
        let parts = threads.div_ceil(outputs.div_ceil(group).max(1));
        Self { count, outputs, group, rows: count.div_ceil(parts).max(ROWS) }
    }

    fn tasks<'a>(&self, made: &'a mut [f32]) -> Vec<Task<'a>> {
        let groups = self.outputs.div_ceil(self.group);
        let mut tasks = Vec::with_capacity(groups * self.count.div_ceil(self.rows));
        for (part, made) in made.chunks_mut((self.rows * self.outputs).max(1)).enumerate() {
            let first = tasks.len();
            tasks.extend((0..groups).map(|index| Task {
                row: part * self.rows,
                output: index * self.group,
                made: Vec::with_capacity(self.rows.min(self.count)),
            }));
            for row in made.chunks_mut(self.outputs.max(1)) {
                for (task, outputs) in tasks[first..].iter_mut().zip(row.chunks_mut(self.group)) {
                    task.made.push(outputs);
                }
            }
        }
        tasks
    }
}

/// Memory that the tasks of a thread reuse.
#[derive(Default)]
struct Scratch {
    /// The converted columns of a panel's rows.
    numbers: Vec<f32>,
    /// The same of all panels, as panels.
    panels: Vec<Lanes>,
    /// The sums of the current block, by panel and row.
    sums: Vec<Lanes>,
}

struct Product<'a> {
    rows: &'a [f32],
    depth: usize,
    /// The depth after which sums are added to the result.
    block: usize,
    matrix: &'a dyn StoredMatrix,
}

impl Product<'_> {
    fn compute(&self, task: Task<'_>, scratch: &mut Scratch) {
        let Task { row, output, mut made } = task;
        let Some(width) = made.first().map(|outputs| outputs.len()) else { return };
        let (count, panels) = (made.len(), width.div_ceil(LANES));
        let Scratch { numbers, panels: converted, sums } = scratch;
        numbers.resize(LANES * STEP, 0.0);
        converted.resize(panels * STEP, [0.0; LANES]);
        sums.clear();
        sums.resize(panels * count, [0.0; LANES]);
        let rows = &self.rows[row * self.depth..];
        for first in (0..self.depth).step_by(STEP) {
            let end = self.depth.min(first + STEP);
            for (panel, converted) in converted.chunks_mut(STEP).enumerate() {
                let outputs = output + panel * LANES..output + width.min((panel + 1) * LANES);
                self.matrix.panel(outputs, first, &mut converted[..end - first], numbers);
            }
            // Blocks may end within a step.
            let mut start = first;
            while start < end {
                let stop = end.min((start / self.block + 1) * self.block);
                for (converted, sums) in converted.chunks(STEP).zip(sums.chunks_mut(count)) {
                    add_products(&rows[start..], self.depth, &converted[start - first..stop - first], sums);
                }
                if stop == self.depth || stop.is_multiple_of(self.block) {
                    add_block(stop <= self.block, sums, &mut made);
                }
                start = stop;
            }
        }
    }
}

/// Adds the sums of a block to the results and clears them.
fn add_block(is_first: bool, sums: &mut [Lanes], made: &mut [&mut [f32]]) {
    for (panel, sums) in sums.chunks_mut(made.len()).enumerate() {
        for (sums, made) in sums.iter_mut().zip(made.iter_mut()) {
            for (made, sum) in made[panel * LANES..].iter_mut().zip(*sums) {
                *made = if is_first { sum } else { *made + sum };
            }
            *sums = [0.0; LANES];
        }
    }
}

/// The depth of the blocks that are summed separately.
fn block_depth(depth: usize) -> usize {
    // The rows and columns of the library's inner loop, which it chooses by the instruction set.
    #[cfg(target_arch = "x86_64")]
    let (rows, columns) = if pulp::x86::V3::try_new().is_some() { (16, 6) } else { (2, 4) };
    #[cfg(target_arch = "aarch64")]
    let (rows, columns) = (16, 4);
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let (rows, columns) = (2, 4);
    gemm_common::cache::kernel_params(ROWS, ROWS, depth, rows, columns, size_of::<f32>()).kc.max(1)
}
