//! Statistics of rows of logits in one pass, without copies of them.

use candle_core::cuda::WrapErr;
use candle_core::cuda::cudarc::driver::{LaunchConfig, PushKernelArg};
use candle_core::{DType, Result, Tensor};

use super::staging::{Later, numbers_on};
use super::{Module, address, device_of, kernel, unwritten};

/// Threads per block, as in `kernels.cu`.
const THREADS: u32 = 512;
/// Indices below this are exact as 32-bit floats.
const EXACT: usize = 1 << 24;

/// What a device is about to compute about rows of logits.
pub(crate) struct Summaries {
    later: Later,
    rows: usize,
}

impl Summaries {
    /// Waits for the statistics. Returns the largest number of each row, the sum of exponentials relative to it, and its index; and the
    /// chosen numbers.
    pub(crate) fn wait(self) -> Result<(Vec<[f32; 3]>, Vec<f32>)> {
        let mut numbers = self.later.wait()?;
        let chosen = numbers.split_off(self.rows * 3);
        let (rows, _) = numbers.as_chunks::<3>();
        Ok((rows.to_vec(), chosen))
    }
}

/// Starts to summarise logits `[rows, count]` and to pick those at pairs of row and column; `None` if there is no kernel for it.
pub(crate) fn summarise(logits: &Tensor, wanted: &[(usize, u32)]) -> Result<Option<Summaries>> {
    let (rows, count) = logits.dims2()?;
    let suffix = match logits.dtype() {
        DType::BF16 => "bf16",
        DType::F16 => "f16",
        DType::F32 => "f32",
        _ => return Ok(None),
    };
    if !logits.device().is_cuda() || !logits.is_contiguous() || count > EXACT || logits.elem_count() == 0 {
        return Ok(None);
    }
    let is_inside = |(row, column): &(usize, u32)| *row < rows && (*column as usize) < count;
    if !wanted.iter().all(is_inside) {
        candle_core::bail!("logits outside {rows} rows of {count} are asked for");
    }
    let device = device_of(logits)?;
    let made = unwritten(rows * 3 + wanted.len(), DType::F32, device)?;
    let width = count as i32;
    let [source, target] = [address(logits)?, address(&made)?];
    let function = kernel(device, Module::Kernels, &format!("summarise_{suffix}"))?;
    let mut arguments = function.builder();
    arguments.arg(&source).arg(&target).arg(&width);
    let config =
        LaunchConfig { grid_dim: (rows as u32, 1, 1), block_dim: (THREADS, 1, 1), shared_mem_bytes: 0 };
    // SAFETY: each block reads a row of `count` numbers, and writes three.
    unsafe { arguments.launch(config) }.w()?;
    if !wanted.is_empty() {
        let pairs: Vec<u32> = wanted.iter().flat_map(|(row, column)| [*row as u32, *column]).collect();
        let pairs = numbers_on(&pairs, logits.device())?;
        let (pairs, picks) = (address(&pairs)?, wanted.len() as i32);
        let target = target + (rows * 3 * size_of::<f32>()) as u64;
        let function = kernel(device, Module::Kernels, &format!("pick_{suffix}"))?;
        let mut arguments = function.builder();
        arguments.arg(&source).arg(&pairs).arg(&target).arg(&width).arg(&picks);
        // SAFETY: the pairs are inside the logits, and the result has room for them behind the statistics.
        unsafe { arguments.launch(LaunchConfig::for_num_elems(wanted.len() as u32)) }.w()?;
    }
    Ok(Some(Summaries { later: Later::of(&made)?, rows }))
}

#[cfg(test)]
mod tests {
    use candle_core::Device;

    use super::*;

    #[test]
    fn rows_have_the_statistics_of_separate_operations() {
        let Ok(device) = Device::new_cuda(0) else { return };
        for (dtype, count) in
            [(DType::BF16, 128_256), (DType::F16, 1000), (DType::F32, 7), (DType::F32, 50_257)]
        {
            let logits = Tensor::randn(0.0_f32, 3.0, (37, count), &device).unwrap().to_dtype(dtype).unwrap();
            let wanted: Vec<(usize, u32)> =
                (0..37).map(|row| (36 - row, (row * 11 % count) as u32)).collect();
            let (made, chosen) = summarise(&logits, &wanted).unwrap().unwrap().wait().unwrap();
            let numbers = logits.to_dtype(DType::F32).unwrap().to_vec2::<f32>().unwrap();
            let expected = wanted.iter().map(|(row, column)| numbers[*row][*column as usize]);
            assert_eq!(chosen, expected.collect::<Vec<_>>());
            for (made, row) in made.iter().zip(&numbers) {
                let largest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                let best = row.iter().position(|number| *number == largest).unwrap();
                let total: f64 = row.iter().map(|number| f64::from(number - largest).exp()).sum();
                assert_eq!((made[0], made[2]), (largest, best as f32));
                assert!((f64::from(made[1]) / total - 1.0).abs() < 1e-5, "{} {total}", made[1]);
            }
        }
    }
}
