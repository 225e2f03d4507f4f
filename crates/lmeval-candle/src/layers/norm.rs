//! Normalisation layers.

use candle_core::{CpuStorage, CustomOp3, DType, Layout, Result, Shape, Tensor};
use candle_nn::ops;
use rayon::prelude::*;

use super::activation::slice;

/// The number of parallel partial sums.
const LANES: usize = 16;

/// A norm over each row.
#[derive(Clone, Debug)]
pub enum Norm {
    /// RMS norm.
    Rms {
        /// Scales normalised rows.
        weight: Tensor,
        /// Added to the mean square.
        epsilon: f32,
    },
    /// Layer norm.
    Layer {
        /// Scales normalised rows.
        weight: Tensor,
        /// Added to normalised rows.
        bias: Tensor,
        /// Added to the variance.
        epsilon: f32,
    },
    /// Layer norm of heads `[rows, heads, width]` with weights per head.
    Heads {
        /// The scale, `[heads, width]`.
        weight: Tensor,
        /// Added to the variance.
        epsilon: f32,
    },
}

impl Norm {
    /// The data type of the weights.
    pub fn dtype(&self) -> DType {
        match self {
            Self::Rms { weight, .. } | Self::Layer { weight, .. } | Self::Heads { weight, .. } => {
                weight.dtype()
            }
        }
    }

    /// Adds rows, if there are any to add, and normalises the sum. Returns the sum, too.
    pub(crate) fn forward_sum(&self, rows: &Tensor, added: Option<&Tensor>) -> Result<(Tensor, Tensor)> {
        #[cfg(feature = "cuda")]
        if let Self::Rms { weight, epsilon } = self
            && let Some(made) = crate::cuda::add_norm(rows, added, weight, *epsilon)?
        {
            return Ok(made);
        }
        let sum = match added {
            Some(added) => (rows + added)?,
            None => rows.clone(),
        };
        let made = self.forward(&sum)?;
        Ok((sum, made))
    }

    /// Normalises over the last dimension.
    pub fn forward(&self, rows: &Tensor) -> Result<Tensor> {
        #[cfg(feature = "cuda")]
        if let Self::Rms { weight, epsilon } = self
            && let Some((_, made)) = crate::cuda::add_norm(rows, None, weight, *epsilon)?
        {
            return Ok(made);
        }
        let rows = rows.contiguous()?;
        match self {
            // Weights with an offset are in float32, whatever the model computes in.
            Self::Rms { weight, epsilon } if weight.dtype() != rows.dtype() => {
                ops::rms_norm(&rows.to_dtype(weight.dtype())?, weight, *epsilon)?.to_dtype(rows.dtype())
            }
            Self::Rms { weight, epsilon } => ops::rms_norm(&rows, weight, *epsilon),
            Self::Layer { weight, bias, epsilon } => layer_norm(&rows, weight, bias, *epsilon),
            Self::Heads { weight, epsilon } => {
                let ones = weight.get(0)?.ones_like()?;
                layer_norm(&rows, &ones, &ones.zeros_like()?, *epsilon)?.broadcast_mul(weight)
            }
        }
    }
}

fn layer_norm(rows: &Tensor, weight: &Tensor, bias: &Tensor, epsilon: f32) -> Result<Tensor> {
    if rows.device().is_cpu() && rows.dtype() == DType::F32 {
        return rows.apply_op3_no_bwd(&weight.contiguous()?, &bias.contiguous()?, &LayerNorm { epsilon });
    }
    ops::layer_norm(rows, weight, bias, epsilon)
}

/// A layer norm with a two-pass variance, which does not lose precision if the elements of a row are close to each other.
struct LayerNorm {
    epsilon: f32,
}

impl CustomOp3 for LayerNorm {
    fn name(&self) -> &'static str {
        "exact-layer-norm"
    }

    fn cpu_fwd(
        &self,
        rows: &CpuStorage,
        rows_layout: &Layout,
        weight: &CpuStorage,
        weight_layout: &Layout,
        bias: &CpuStorage,
        bias_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let rows = slice(rows, rows_layout)?;
        let (weight, bias) = (slice(weight, weight_layout)?, slice(bias, bias_layout)?);
        let width = weight.len();
        let mut made = vec![0.0_f32; rows.len()];
        made.par_chunks_mut(width.max(1)).zip(rows.par_chunks(width.max(1))).for_each(|(made, row)| {
            let mean = sum(row, |number| number) / width as f32;
            let variance = sum(row, |number| (number - mean) * (number - mean)) / width as f32;
            let factor = (variance + self.epsilon).sqrt().recip();
            for (((made, number), weight), bias) in made.iter_mut().zip(row).zip(weight).zip(bias) {
                *made = (number - mean) * factor * weight + bias;
            }
        });
        Ok((CpuStorage::F32(made), rows_layout.shape().clone()))
    }
}

/// Sums a function over elements.
fn sum(numbers: &[f32], function: impl Fn(f32) -> f32) -> f32 {
    let (chunks, rest) = numbers.as_chunks::<LANES>();
    let mut sums = [0.0_f32; LANES];
    for chunk in chunks {
        for (sum, number) in sums.iter_mut().zip(chunk) {
            *sum += function(*number);
        }
    }
    sums.iter().sum::<f32>() + rest.iter().map(|number| function(*number)).sum::<f32>()
}

#[cfg(test)]
mod tests {
    use candle_core::Device;

    use super::*;

    #[test]
    fn is_precise_for_close_elements() {
        let row: Vec<f32> = (0..37).map(|index| 1000.0 + (index as f32 * 0.7).sin() / 8.0).collect();
        let width = row.len() as f64;
        let mean = row.iter().map(|number| f64::from(*number)).sum::<f64>() / width;
        let variance = row.iter().map(|number| (f64::from(*number) - mean).powi(2)).sum::<f64>() / width;
        let exact = row.iter().map(|number| (f64::from(*number) - mean) / (variance + 1e-5).sqrt());
        let exact: Vec<f64> = exact.map(|number| number * 2.0 + 1.0).collect();
        let weight = Tensor::full(2.0_f32, 37, &Device::Cpu).unwrap();
        let norm = Norm::Layer { bias: weight.ones_like().unwrap(), weight, epsilon: 1e-5 };
        let rows = Tensor::from_vec(row, (1, 37), &Device::Cpu).unwrap();
        let found = norm.forward(&rows).unwrap().flatten_all().unwrap().to_vec1::<f32>().unwrap();
        for (found, exact) in found.iter().zip(exact) {
            // The mean of numbers around 1000 has a precision of a few units in the last place.
            assert!((f64::from(*found) - exact).abs() < 5e-3, "{found} {exact}");
        }
    }
}
