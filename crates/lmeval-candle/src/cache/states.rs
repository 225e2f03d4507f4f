//! States of sequences, for layers that read earlier tokens through them.

use std::sync::{Mutex, PoisonError};

use candle_core::{DType, Device, Tensor};
use rayon::prelude::*;

use super::StateShape;
use crate::batch::Batch;
use crate::error::{Error, Result};

/// States of one layer, `[groups, states, size]` in float32.
#[derive(Debug)]
pub(crate) struct States {
    shape: StateShape,
    count: usize,
    numbers: Numbers,
}

/// The numbers of states.
#[derive(Debug)]
pub(crate) enum Numbers {
    Host(Mutex<Vec<f32>>),
    #[cfg_attr(not(feature = "cuda"), expect(dead_code, reason = "only kernels read it"))]
    Device(Tensor),
}

/// Updates the state of one group with one token.
///
/// `step` gets the index of the group, the row of the token in the batch, the state and the token's outputs to write.
pub(crate) trait Step: Fn(usize, usize, &mut [f32], &mut [f32]) + Sync {}

impl<F: Fn(usize, usize, &mut [f32], &mut [f32]) + Sync> Step for F {}

impl States {
    pub(super) fn new(shape: StateShape, count: usize, device: &Device) -> Result<Self> {
        let StateShape { groups, size } = shape;
        let numbers = if device.is_cpu() {
            Numbers::Host(Mutex::new(vec![0.0; groups * count * size]))
        } else {
            Numbers::Device(Tensor::zeros((groups, count, size), DType::F32, device)?)
        };
        Ok(Self { shape, count, numbers })
    }

    /// The numbers.
    #[cfg(feature = "cuda")]
    pub(crate) fn numbers(&self) -> &Numbers {
        &self.numbers
    }

    /// The number of states.
    #[cfg(feature = "cuda")]
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Steps through the tokens of a batch on the CPU and returns the outputs `[rows, groups · outputs]`.
    ///
    /// A group takes the segments in their order, because the state before a segment may be the one after an earlier
    /// segment, and their tokens one by one, so that the numbers do not depend on where a sequence is cut into segments.
    pub(crate) fn walk(&self, batch: &Batch, outputs: usize, step: impl Step) -> Result<Vec<f32>> {
        let Numbers::Host(numbers) = &self.numbers else {
            return Err(Error::unsupported("The states are not in the memory of the CPU"));
        };
        let StateShape { groups, size } = self.shape;
        let rows = batch.rows();
        if groups == 0 || size == 0 || outputs == 0 || rows == 0 {
            return Ok(vec![0.0; rows * groups * outputs]);
        }
        let named = batch.segments().iter().flat_map(|segment| [segment.state.before, segment.state.after]);
        if let Some(unknown) = named.flatten().find(|state| *state >= self.count) {
            return Err(Error::unsupported(format!("The cache has no state {unknown}")));
        }
        let mut numbers = numbers.lock().unwrap_or_else(PoisonError::into_inner);
        let mut made = vec![0.0; groups * rows * outputs];
        let walk = |group: usize, states: &mut [f32], made: &mut [f32]| {
            let mut scratch = vec![0.0; size];
            for segment in batch.segments() {
                let before = segment.state.before.map(|state| state * size..(state + 1) * size);
                let state = match (segment.state.after, before) {
                    (Some(after), before) => {
                        match before {
                            Some(before) => states.copy_within(before, after * size),
                            None => states[after * size..][..size].fill(0.0),
                        }
                        &mut states[after * size..][..size]
                    }
                    (None, Some(before)) => {
                        scratch.copy_from_slice(&states[before]);
                        scratch.as_mut_slice()
                    }
                    (None, None) => {
                        scratch.fill(0.0);
                        scratch.as_mut_slice()
                    }
                };
                for row in segment.first..segment.first + segment.len {
                    step(group, row, state, &mut made[row * outputs..][..outputs]);
                }
            }
        };
        let by_group = made.par_chunks_mut(rows * outputs).enumerate();
        if self.count == 0 {
            by_group.for_each(|(group, made)| walk(group, &mut [], made));
        } else {
            let states = numbers.par_chunks_mut(self.count * size);
            by_group.zip(states).for_each(|((group, made), states)| walk(group, states, made));
        }
        Ok(by_row(&made, groups, rows, outputs))
    }
}

/// Turns `[groups, rows, outputs]` into `[rows, groups, outputs]`.
fn by_row(made: &[f32], groups: usize, rows: usize, outputs: usize) -> Vec<f32> {
    let mut turned = vec![0.0; made.len()];
    turned.par_chunks_mut(groups * outputs).enumerate().for_each(|(row, turned)| {
        for (group, turned) in turned.chunks_exact_mut(outputs).enumerate() {
            turned.copy_from_slice(&made[(group * rows + row) * outputs..][..outputs]);
        }
    });
    turned
}
