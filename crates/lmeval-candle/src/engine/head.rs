//! From logits to log-probabilities.

use candle_core::{CpuStorage, D, DType, Storage, Tensor};
use rayon::prelude::*;

use crate::error::{Error, Result};
use crate::layers::simd;

/// Statistics of one row of logits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Summary {
    /// The index of the largest logit.
    pub(super) best: u32,
    /// The largest logit.
    pub(super) largest: f32,
    /// The sum of `exp(logit - largest)`.
    pub(super) total: f32,
}

impl Summary {
    /// The log-probability of a token with this logit.
    pub(super) fn log_probability(&self, logit: f32) -> f64 {
        f64::from(logit) - f64::from(self.largest) - f64::from(self.total).ln()
    }
}

/// The summaries of rows of logits, and the logits of some `(row, token)` pairs. A device may still be computing them.
pub(super) enum Summaries {
    Ready(Vec<Summary>, Vec<f32>),
    #[cfg(feature = "cuda")]
    Device(crate::cuda::Summaries),
}

impl Summaries {
    /// Whether the device is done with them.
    pub(super) fn is_ready(&self) -> bool {
        matches!(self, Self::Ready(..))
    }

    /// Waits for them.
    pub(super) fn wait(self) -> Result<(Vec<Summary>, Vec<f32>)> {
        let (summaries, found) = match self {
            Self::Ready(summaries, found) => (summaries, found),
            #[cfg(feature = "cuda")]
            Self::Device(started) => {
                let (rows, found) = started.wait()?;
                let summary =
                    |[largest, total, best]: [f32; 3]| Summary { best: best as u32, largest, total };
                (rows.into_iter().map(summary).collect(), found)
            }
        };
        // A row with NaN or infinity would give a wrong number that looks right.
        if summaries.iter().any(|summary| !summary.largest.is_finite() || !summary.total.is_finite()) {
            return Err(Error::NotFinite);
        }
        Ok((summaries, found))
    }
}

/// Starts to summarise rows of logits, and to pick the logits of some `(row, token)` pairs.
pub(super) fn summarise(logits: &Tensor, wanted: &[(usize, u32)]) -> Result<Summaries> {
    let (_, vocabulary) = logits.dims2()?;
    if logits.device().is_cpu() && logits.is_contiguous() {
        let (storage, layout) = logits.storage_and_layout();
        if let Storage::Cpu(CpuStorage::F32(numbers)) = &*storage {
            let numbers = &numbers[layout.start_offset()..][..layout.shape().elem_count()];
            let summary = |row: &[f32]| {
                let (best, largest, total) = simd::log_sum_exp(row);
                Summary { best, largest, total }
            };
            let summaries = numbers.par_chunks_exact(vocabulary).map(summary).collect();
            let found = wanted.iter().map(|(row, token)| numbers[row * vocabulary + *token as usize]);
            return Ok(Summaries::Ready(summaries, found.collect()));
        }
    }
    #[cfg(feature = "cuda")]
    if let Some(started) = crate::cuda::summarise(logits, wanted)? {
        return Ok(Summaries::Device(started));
    }
    let summaries = on_device(logits)?;
    if wanted.is_empty() {
        return Ok(Summaries::Ready(summaries, Vec::new()));
    }
    let indices: Vec<u32> = wanted.iter().map(|(row, token)| (row * vocabulary) as u32 + token).collect();
    let indices = Tensor::new(indices, logits.device())?;
    let found = logits.contiguous()?.flatten_all()?.index_select(&indices, 0)?;
    Ok(Summaries::Ready(summaries, found.to_dtype(DType::F32)?.to_vec1()?))
}

/// The summaries of rows on a device, in any type of floats.
fn on_device(logits: &Tensor) -> Result<Vec<Summary>> {
    let logits = logits.to_dtype(DType::F32)?;
    let largest = logits.max_keepdim(D::Minus1)?;
    let totals = logits.broadcast_sub(&largest)?.exp()?.sum(D::Minus1)?.to_vec1::<f32>()?;
    let best = logits.argmax(D::Minus1)?.to_vec1::<u32>()?;
    let largest = largest.flatten_all()?.to_vec1::<f32>()?;
    let summaries = best.into_iter().zip(largest).zip(totals);
    Ok(summaries.map(|((best, largest), total)| Summary { best, largest, total }).collect())
}

#[cfg(test)]
mod tests {
    use candle_core::Device;

    use super::*;

    #[test]
    fn refuses_nan_and_infinity() {
        for number in [f32::NAN, f32::INFINITY] {
            let logits = Tensor::new(&[[1.0, 2.0, 3.0], [1.0, number, 3.0]], &Device::Cpu).unwrap();
            assert!(matches!(summarise(&logits, &[]).unwrap().wait(), Err(Error::NotFinite)), "{number}");
        }
        let logits = Tensor::new(&[[1.0, f32::NEG_INFINITY, 3.0]], &Device::Cpu).unwrap();
        assert!(summarise(&logits, &[]).unwrap().wait().is_ok());
    }

    #[test]
    fn cpu_and_generic_paths_agree() {
        let numbers: Vec<f32> = (0..300).map(|index| (index as f32 * 1.7).sin() * 9.0).collect();
        let logits = Tensor::from_vec(numbers.clone(), (3, 100), &Device::Cpu).unwrap();
        let wanted = [(0, 5), (2, 99), (2, 0)];
        let (fast, picked) = summarise(&logits, &wanted).unwrap().wait().unwrap();
        // A non-contiguous view takes the path of other devices.
        let view = logits.t().unwrap().contiguous().unwrap().t().unwrap();
        let (slow, also) = summarise(&view, &wanted).unwrap().wait().unwrap();
        assert_eq!(picked, also);
        assert_eq!(picked, [numbers[5], numbers[299], numbers[200]]);
        for (fast, slow) in fast.iter().zip(&slow) {
            assert_eq!((fast.best, fast.largest), (slow.best, slow.largest));
            assert!((fast.total - slow.total).abs() < 1e-5);
        }
    }
}
