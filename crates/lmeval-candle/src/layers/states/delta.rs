//! The gated delta rule: a state of key and value products that forgets, and is corrected by what it predicts wrongly.

#![expect(
    clippy::inline_always,
    reason = "code outside a dispatched function is compiled for the baseline instruction set"
)]

use candle_core::Tensor;
use pulp::{Simd, WithSimd};

use super::super::simd::ARCH;
use super::host;
use crate::batch::Batch;
use crate::cache::{StateShape, States};
use crate::error::{Error, Result};

/// The largest width of values.
const WIDEST: usize = 512;

/// What the rule reads of a token, all in float32.
#[derive(Debug)]
pub(crate) struct DeltaInputs {
    /// Queries and keys, `[rows, key heads, key width]`. Several values may share a key.
    pub queries: Tensor,
    pub keys: Tensor,
    /// Values, `[rows, heads, value width]`.
    pub values: Tensor,
    /// What remains of the state, `[rows, heads]`.
    pub decays: Tensor,
    /// How much of a wrong prediction is corrected, `[rows, heads]`.
    pub rates: Tensor,
}

impl DeltaInputs {
    /// The state of a sequence.
    pub(crate) fn state(heads: usize, key: usize, value: usize) -> Result<StateShape> {
        if value > WIDEST {
            return Err(Error::unsupported(format!(
                "Linear attention has values of at most {WIDEST} numbers"
            )));
        }
        Ok(StateShape { groups: heads, size: key * value })
    }
}

/// Applies the rule to the rows of a batch. The result is `[rows, heads · value width]`.
pub(crate) fn delta_rule(inputs: &DeltaInputs, batch: &Batch, states: &States) -> Result<Tensor> {
    #[cfg(feature = "cuda")]
    if inputs.values.device().is_cuda() {
        return crate::cuda::delta_rule(inputs, batch, states);
    }
    let (rows, heads, value) = inputs.values.dims3()?;
    let (_, key_heads, key) = inputs.keys.dims3()?;
    let group = heads / key_heads.max(1);
    let [queries, keys] = [host(&inputs.queries)?, host(&inputs.keys)?];
    let [values, decays, rates] = [host(&inputs.values)?, host(&inputs.decays)?, host(&inputs.rates)?];
    let made = states.walk(batch, value, |head, row, state, made| {
        let of_key = (row * key_heads + head / group) * key;
        let of_value = row * heads + head;
        ARCH.dispatch(Step {
            query: &queries[of_key..][..key],
            key: &keys[of_key..][..key],
            value: &values[of_value * value..][..value],
            decay: decays[of_value],
            rate: rates[of_value],
            state,
            made,
        });
    })?;
    Ok(Tensor::from_vec(made, (rows, heads * value), inputs.values.device())?)
}

/// One token of one head. The state is `[key, value]`.
struct Step<'a> {
    query: &'a [f32],
    key: &'a [f32],
    value: &'a [f32],
    decay: f32,
    rate: f32,
    state: &'a mut [f32],
    made: &'a mut [f32],
}

impl WithSimd for Step<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let width = self.value.len();
        let mut change = [0.0_f32; WIDEST];
        let change = &mut change[..width];
        for (row, key) in self.state.chunks_exact_mut(width).zip(self.key) {
            for (number, predicted) in row.iter_mut().zip(change.iter_mut()) {
                *number *= self.decay;
                *predicted = number.mul_add(*key, *predicted);
            }
        }
        for (change, value) in change.iter_mut().zip(self.value) {
            *change = (value - *change) * self.rate;
        }
        self.made.fill(0.0);
        for ((row, key), query) in self.state.chunks_exact_mut(width).zip(self.key).zip(self.query) {
            for ((number, change), made) in row.iter_mut().zip(change.iter()).zip(self.made.iter_mut()) {
                *number = key.mul_add(*change, *number);
                *made = number.mul_add(*query, *made);
            }
        }
    }
}
