//! Causal convolutions over the tokens of a sequence, one per channel.

use candle_core::Tensor;

use super::host;
use crate::batch::Batch;
use crate::cache::{StateShape, States};
use crate::error::Result;

/// Channels per group of the state.
const LANES: usize = 16;

/// A convolution of each channel with its own kernel. The state is what it has read last.
#[derive(Debug)]
pub(crate) struct CausalConv {
    /// The kernels, `[length, channels]`, oldest token first.
    kernels: Tensor,
    bias: Option<Tensor>,
    channels: usize,
    length: usize,
    /// Both on the host, with channels padded to whole groups.
    host: (Vec<f32>, Vec<f32>),
}

impl CausalConv {
    /// Creates the layer from kernels `[channels, length]` and an optional bias.
    pub(crate) fn new(kernels: &Tensor, bias: Option<Tensor>) -> Result<Self> {
        let (channels, length) = kernels.dims2()?;
        let kernels = kernels.t()?.contiguous()?;
        let padded = channels.next_multiple_of(LANES);
        let mut weights = vec![0.0; length * padded];
        for (row, kernel) in weights.chunks_exact_mut(padded).zip(host(&kernels)?.chunks_exact(channels)) {
            row[..channels].copy_from_slice(kernel);
        }
        let mut biases = vec![0.0; padded];
        if let Some(bias) = &bias {
            biases[..channels].copy_from_slice(&host(bias)?);
        }
        Ok(Self { kernels, bias, channels, length, host: (weights, biases) })
    }

    /// The state of a sequence.
    pub(crate) fn state(&self) -> StateShape {
        StateShape { groups: self.channels.div_ceil(LANES), size: self.length.saturating_sub(1) * LANES }
    }

    /// Computes rows `[rows, channels]`.
    pub(crate) fn forward(&self, rows: &Tensor, batch: &Batch, states: &States) -> Result<Tensor> {
        #[cfg(feature = "cuda")]
        if rows.device().is_cuda() {
            let inputs = rows.to_dtype(candle_core::DType::F32)?.contiguous()?;
            let made = crate::cuda::conv(&inputs, &self.kernels, self.bias.as_ref(), batch, states)?;
            return Ok(made.to_dtype(rows.dtype())?);
        }
        let _ = (&self.kernels, &self.bias);
        let inputs = host(rows)?;
        let (weights, biases) = &self.host;
        let (channels, padded) = (self.channels, biases.len());
        let made = states.walk(batch, LANES, |group, row, state, made| {
            let first = group * LANES;
            let count = LANES.min(channels - first);
            let mut read = [0.0_f32; LANES];
            read[..count].copy_from_slice(&inputs[row * channels + first..][..count]);
            let mut sums = [0.0_f32; LANES];
            sums.copy_from_slice(&biases[first..][..LANES]);
            let earlier = state.chunks_exact(LANES).chain([read.as_slice()]);
            for (weights, earlier) in weights.chunks_exact(padded).zip(earlier) {
                for ((sum, weight), number) in sums.iter_mut().zip(&weights[first..]).zip(earlier) {
                    *sum += weight * number;
                }
            }
            made.copy_from_slice(&sums);
            if !state.is_empty() {
                state.copy_within(LANES.., 0);
                let last = state.len() - LANES;
                state[last..].copy_from_slice(&read);
            }
        })?;
        let made = Tensor::from_vec(made, (batch.rows(), padded), rows.device())?;
        Ok(made.narrow(1, 0, channels)?.contiguous()?.to_dtype(rows.dtype())?)
    }
}
