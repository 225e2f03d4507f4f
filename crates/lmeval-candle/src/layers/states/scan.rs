//! Selective scans: states that decay, take in a token, and are read, each by factors that depend on the token.

#![expect(
    clippy::inline_always,
    reason = "code outside a dispatched function is compiled for the baseline instruction set"
)]

use candle_core::Tensor;
use pulp::{Simd, WithSimd};

use super::super::simd::{ARCH, exp};
use super::host;
use crate::batch::Batch;
use crate::cache::{StateShape, States};
use crate::error::Result;

/// Channels per group of a scan by channel, and partial sums of one by head.
const LANES: usize = 16;

/// A scan whose heads decay as a whole.
#[derive(Debug)]
pub(crate) struct HeadScan {
    /// The logarithm of the decay per unit of time, `[heads]`.
    pub rates: Vec<f32>,
    /// How much of a token is returned as it is, `[heads]`.
    pub skips: Vec<f32>,
    /// The width of a head.
    pub width: usize,
    /// The width of the state of each of its channels.
    pub state: usize,
    /// The number of groups of heads that share input and output factors.
    pub groups: usize,
}

/// What a scan by head reads of a token, all in float32.
#[derive(Debug)]
pub(crate) struct HeadScanInputs {
    /// `[rows, heads · width]`.
    pub rows: Tensor,
    /// The time that a token takes, `[rows, heads]`.
    pub times: Tensor,
    /// The factors of what is taken in and read, `[rows, groups · state]`.
    pub inputs: Tensor,
    pub outputs: Tensor,
}

impl HeadScan {
    /// The state of a sequence.
    pub(crate) fn shape(&self) -> StateShape {
        StateShape { groups: self.rates.len(), size: self.width * self.state }
    }

    /// Scans the rows of a batch. The result is `[rows, heads · width]` in float32.
    pub(crate) fn forward(&self, read: &HeadScanInputs, batch: &Batch, states: &States) -> Result<Tensor> {
        #[cfg(feature = "cuda")]
        if read.rows.device().is_cuda() {
            return crate::cuda::scan_heads(self, read, batch, states);
        }
        let Self { width, state: size, groups, .. } = *self;
        let heads = self.rates.len();
        let [rows, times] = [host(&read.rows)?, host(&read.times)?];
        let [inputs, outputs] = [host(&read.inputs)?, host(&read.outputs)?];
        let made = states.walk(batch, width, |head, row, state, made| {
            let time = times[row * heads + head];
            let group = (row * groups + head * groups / heads) * size;
            ARCH.dispatch(HeadStep {
                row: &rows[(row * heads + head) * width..][..width],
                decay: (time * self.rates[head]).exp(),
                time,
                skip: self.skips[head],
                input: &inputs[group..][..size],
                output: &outputs[group..][..size],
                state,
                made,
            });
        })?;
        Ok(Tensor::from_vec(made, (batch.rows(), heads * width), read.rows.device())?)
    }
}

/// One token of one head. The state is `[width, state]`.
struct HeadStep<'a> {
    row: &'a [f32],
    decay: f32,
    time: f32,
    skip: f32,
    input: &'a [f32],
    output: &'a [f32],
    state: &'a mut [f32],
    made: &'a mut [f32],
}

impl WithSimd for HeadStep<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let size = self.input.len();
        let (inputs, last_inputs) = self.input.as_chunks::<LANES>();
        let (outputs, last_outputs) = self.output.as_chunks::<LANES>();
        for ((state, number), made) in self.state.chunks_exact_mut(size).zip(self.row).zip(self.made) {
            let taken = self.time * number;
            let (chunks, rest) = state.as_chunks_mut::<LANES>();
            let mut sums = [0.0_f32; LANES];
            for ((state, input), output) in chunks.iter_mut().zip(inputs).zip(outputs) {
                for lane in 0..LANES {
                    state[lane] = state[lane].mul_add(self.decay, taken * input[lane]);
                    sums[lane] = state[lane].mul_add(output[lane], sums[lane]);
                }
            }
            let mut sum: f32 = sums.iter().sum();
            for ((state, input), output) in rest.iter_mut().zip(last_inputs).zip(last_outputs) {
                *state = state.mul_add(self.decay, taken * input);
                sum = state.mul_add(*output, sum);
            }
            *made = self.skip.mul_add(*number, sum);
        }
    }
}

/// A scan in which each number of the state decays for itself.
#[derive(Debug)]
pub(crate) struct ChannelScan {
    /// The logarithms of the decays per unit of time, `[channels, state]`, and how much of a token is returned as it is,
    /// `[channels]`.
    rates: Tensor,
    skips: Tensor,
    /// The same on the host by group of channels, `[groups, state, lanes]` and `[groups, lanes]`.
    host: (Vec<f32>, Vec<f32>),
    channels: usize,
    state: usize,
}

impl ChannelScan {
    /// Creates the scan from float32 rates `[channels, state]` and skips `[channels]`.
    pub(crate) fn new(rates: Tensor, skips: Tensor) -> Result<Self> {
        let (channels, state) = rates.dims2()?;
        let groups = channels.div_ceil(LANES);
        let mut by_group = vec![0.0; groups * state * LANES];
        for (channel, rates) in host(&rates)?.chunks_exact(state.max(1)).enumerate() {
            let (group, lane) = (channel / LANES, channel % LANES);
            for (index, rate) in rates.iter().enumerate() {
                by_group[(group * state + index) * LANES + lane] = *rate;
            }
        }
        let mut padded = host(&skips)?;
        padded.resize(groups * LANES, 0.0);
        Ok(Self { rates, skips, host: (by_group, padded), channels, state })
    }

    /// The state of a sequence.
    pub(crate) fn shape(&self) -> StateShape {
        StateShape { groups: self.channels.div_ceil(LANES), size: self.state * LANES }
    }

    /// Scans the rows of a batch: `rows` and `times` are `[rows, channels]`, the factors of what is taken in and read `[rows,
    /// state]`, all in float32. The result is `[rows, channels]`.
    pub(crate) fn forward(
        &self,
        [rows, times]: [&Tensor; 2],
        [inputs, outputs]: [&Tensor; 2],
        batch: &Batch,
        states: &States,
    ) -> Result<Tensor> {
        #[cfg(feature = "cuda")]
        if rows.device().is_cuda() {
            let fixed = [&self.rates, &self.skips];
            return crate::cuda::scan_channels([rows, times], [inputs, outputs], fixed, batch, states);
        }
        let _ = (&self.rates, &self.skips);
        let Self { channels, state: size, .. } = *self;
        let device = rows.device();
        let [rows, times] = [host(rows)?, host(times)?];
        let [inputs, outputs] = [host(inputs)?, host(outputs)?];
        let made = states.walk(batch, LANES, |group, row, state, made| {
            let first = group * LANES;
            let count = LANES.min(channels - first);
            let lanes = |numbers: &[f32]| {
                let mut lanes = [0.0_f32; LANES];
                lanes[..count].copy_from_slice(&numbers[row * channels + first..][..count]);
                lanes
            };
            ARCH.dispatch(ChannelStep {
                row: lanes(&rows),
                time: lanes(&times),
                rates: &self.host.0[group * size * LANES..][..size * LANES],
                skips: &self.host.1[first..][..LANES],
                input: &inputs[row * size..][..size],
                output: &outputs[row * size..][..size],
                state,
                made,
            });
        })?;
        let padded = channels.next_multiple_of(LANES);
        let made = Tensor::from_vec(made, (batch.rows(), padded), device)?;
        Ok(made.narrow(1, 0, channels)?.contiguous()?)
    }
}

/// One token of a group of channels. The state is `[state, lanes]`.
struct ChannelStep<'a> {
    row: [f32; LANES],
    time: [f32; LANES],
    rates: &'a [f32],
    skips: &'a [f32],
    input: &'a [f32],
    output: &'a [f32],
    state: &'a mut [f32],
    made: &'a mut [f32],
}

impl WithSimd for ChannelStep<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let mut sums = [0.0_f32; LANES];
        let (states, _) = self.state.as_chunks_mut::<LANES>();
        let (rates, _) = self.rates.as_chunks::<LANES>();
        for (((state, rates), input), output) in states.iter_mut().zip(rates).zip(self.input).zip(self.output)
        {
            for lane in 0..LANES {
                let decay = exp(self.time[lane] * rates[lane]);
                let taken = self.time[lane] * self.row[lane] * input;
                state[lane] = state[lane].mul_add(decay, taken);
                sums[lane] = state[lane].mul_add(*output, sums[lane]);
            }
        }
        for (lane, made) in self.made.iter_mut().enumerate() {
            *made = self.skips[lane].mul_add(self.row[lane], sums[lane]);
        }
    }
}
