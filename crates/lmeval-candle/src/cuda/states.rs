//! Layers with states: convolutions, scans and the delta rule.
//!
//! A segment that starts from the final state of another one runs after it; independent segments run at once.

use candle_core::cuda::WrapErr;
use candle_core::cuda::cudarc::driver::{CudaView, LaunchConfig, PushKernelArg};
use candle_core::{DType, Layout, Result, Storage, Tensor, bail};

use super::{Module, view};
use crate::batch::Batch;
use crate::cache::{Numbers, States};
use crate::layers::{DeltaInputs, HeadScan, HeadScanInputs};

/// As in `kernels.cu`: threads that share a row of a state, and the numbers of a state per thread that there are kernels for.
const SHARED: usize = 8;
const NUMBERS: [usize; 3] = [4, 16, 64];
/// Rows of a state per block.
const ROWS: usize = 32;
/// Channels per block.
const CHANNELS: usize = 128;

/// One kernel over the segments of a batch.
struct Launch<'a> {
    kernel: String,
    /// Its inputs; a missing one is a null pointer.
    inputs: &'a [Option<&'a Tensor>],
    states: &'a States,
    made: &'a Tensor,
    sizes: &'a [usize],
    /// Blocks per segment, and threads per block.
    blocks: (usize, usize),
    threads: usize,
}

/// A convolution of each channel with its own kernel, `[length, channels]`.
pub(crate) fn conv(
    rows: &Tensor,
    kernels: &Tensor,
    bias: Option<&Tensor>,
    batch: &Batch,
    states: &States,
) -> crate::Result<Tensor> {
    let (length, channels) = kernels.dims2()?;
    let made = rows.zeros_like()?;
    let launch = Launch {
        kernel: kernel("convolve", length)?,
        inputs: &[Some(rows), Some(kernels), bias],
        states,
        made: &made,
        sizes: &[channels, length, states.count()],
        blocks: (channels.div_ceil(CHANNELS), 1),
        threads: CHANNELS,
    };
    launch.run(batch)?;
    Ok(made)
}

/// A scan whose heads decay as a whole.
pub(crate) fn scan_heads(
    scan: &HeadScan,
    read: &HeadScanInputs,
    batch: &Batch,
    states: &States,
) -> crate::Result<Tensor> {
    let (heads, device) = (scan.rates.len(), read.rows.device());
    let rates = Tensor::new(scan.rates.as_slice(), device)?;
    let skips = Tensor::new(scan.skips.as_slice(), device)?;
    let made = Tensor::zeros((batch.rows(), heads * scan.width), DType::F32, device)?;
    let inputs = [&read.rows, &read.times, &read.inputs, &read.outputs, &rates, &skips].map(Some);
    let launch = Launch {
        kernel: kernel("scan_heads", scan.state.div_ceil(SHARED))?,
        inputs: &inputs,
        states,
        made: &made,
        sizes: &[heads, scan.width, scan.state, scan.groups, states.count()],
        blocks: (heads, scan.width.div_ceil(ROWS)),
        threads: ROWS * SHARED,
    };
    launch.run(batch)?;
    Ok(made)
}

/// A scan in which each number of a state decays for itself. `fixed` are the rates `[channels, state]` and skips.
pub(crate) fn scan_channels(
    [rows, times]: [&Tensor; 2],
    [inputs, outputs]: [&Tensor; 2],
    [rates, skips]: [&Tensor; 2],
    batch: &Batch,
    states: &States,
) -> crate::Result<Tensor> {
    let (channels, size) = rates.dims2()?;
    let made = Tensor::zeros((batch.rows(), channels), DType::F32, rows.device())?;
    let launch = Launch {
        kernel: kernel("scan_channels", size)?,
        inputs: &[rows, times, inputs, outputs, rates, skips].map(Some),
        states,
        made: &made,
        sizes: &[channels, size, states.count()],
        blocks: (channels.div_ceil(CHANNELS), 1),
        threads: CHANNELS,
    };
    launch.run(batch)?;
    Ok(made)
}

/// The gated delta rule.
pub(crate) fn delta_rule(inputs: &DeltaInputs, batch: &Batch, states: &States) -> crate::Result<Tensor> {
    let DeltaInputs { queries, keys, values, decays, rates } = inputs;
    let (_, heads, value) = values.dims3()?;
    let (_, key_heads, key) = keys.dims3()?;
    let made = Tensor::zeros((batch.rows(), heads * value), DType::F32, values.device())?;
    let launch = Launch {
        kernel: kernel("delta_rule", key.div_ceil(SHARED))?,
        inputs: &[queries, keys, values, decays, rates].map(Some),
        states,
        made: &made,
        sizes: &[heads, key_heads, key, value, states.count()],
        blocks: (heads, value.div_ceil(ROWS)),
        threads: ROWS * SHARED,
    };
    launch.run(batch)?;
    Ok(made)
}

/// The kernel whose threads have enough numbers.
fn kernel(name: &str, numbers: usize) -> Result<String> {
    match NUMBERS.into_iter().find(|most| numbers <= *most) {
        Some(most) => Ok(format!("{name}_{most}")),
        None => bail!("the kernel `{name}` has no threads with {numbers} numbers of a state"),
    }
}

impl Launch<'_> {
    fn run(&self, batch: &Batch) -> Result<()> {
        let Numbers::Device(numbers) = self.states.numbers() else {
            bail!("the states are not on the device")
        };
        for level in levels(batch, self.states.count())? {
            let count = level.len() / 4;
            let segments = Tensor::new(level, batch.device())?;
            self.run_level(numbers, &segments, count)?;
        }
        Ok(())
    }

    fn run_level(&self, states: &Tensor, segments: &Tensor, count: usize) -> Result<()> {
        let Storage::Cuda(storage) = &*self.made.storage_and_layout().0 else {
            bail!("the rows are not on a GPU")
        };
        let device = storage.device.clone();
        let function = super::kernel(&device, Module::Kernels, &self.kernel)?;
        let config = LaunchConfig {
            grid_dim: (count as u32, self.blocks.0 as u32, self.blocks.1 as u32),
            block_dim: (self.threads as u32, 1, 1),
            shared_mem_bytes: 0,
        };
        // The kernels read without gaps.
        let inputs = self.inputs.iter().map(|input| input.map(Tensor::contiguous).transpose());
        let inputs: Vec<Option<Tensor>> = inputs.collect::<Result<_>>()?;
        let all: Vec<_> =
            inputs.iter().flatten().chain([states, self.made]).map(Tensor::storage_and_layout).collect();
        let views: Vec<CudaView<'_, f32>> =
            all.iter().map(|(storage, layout)| floats(storage, layout)).collect::<Result<_>>()?;
        let (segment_storage, segment_layout) = segments.storage_and_layout();
        let Storage::Cuda(segment_storage) = &*segment_storage else {
            bail!("the segments are not on a GPU")
        };
        let segments = view::<u32>(segment_storage, segment_layout)?;
        let sizes: Vec<i32> = self.sizes.iter().map(|size| *size as i32).collect();
        let none = 0u64;
        let mut present = views.iter();
        let mut arguments = function.builder();
        for input in &inputs {
            match input.as_ref().and_then(|_| present.next()) {
                Some(view) => arguments.arg(view),
                None => arguments.arg(&none),
            };
        }
        // The states and the result.
        for view in present {
            arguments.arg(view);
        }
        arguments.arg(&segments);
        for size in &sizes {
            arguments.arg(size);
        }
        // SAFETY: `levels` has checked the states of all segments, their rows are those of the batch, and the callers give
        // tensors of the sizes that the kernel is told.
        unsafe { arguments.launch(config) }.w()?;
        Ok(())
    }
}

/// The numbers of a float32 tensor without gaps.
fn floats<'storage>(storage: &'storage Storage, layout: &Layout) -> Result<CudaView<'storage, f32>> {
    match storage {
        Storage::Cuda(storage) => view::<f32>(storage, layout),
        _ => bail!("the tensor is not on a GPU"),
    }
}

/// Segments in the form of the kernels, grouped such that none reads a state that another one of its group writes.
fn levels(batch: &Batch, count: usize) -> Result<Vec<Vec<u32>>> {
    let mut levels: Vec<Vec<u32>> = Vec::new();
    // The level of the segment that has written each state.
    let mut written: Vec<Option<usize>> = vec![None; count];
    for segment in batch.segments() {
        let state = segment.state;
        if let Some(unknown) = [state.before, state.after].into_iter().flatten().find(|state| *state >= count)
        {
            bail!("the cache has no state {unknown}");
        }
        let level = state.before.and_then(|before| written[before]).map_or(0, |level| level + 1);
        if let Some(after) = state.after {
            written[after] = Some(level);
        }
        if level == levels.len() {
            levels.push(Vec::new());
        }
        let number = |state: Option<usize>| state.map_or(0, |state| state as u32 + 1);
        levels[level].extend([
            segment.first as u32,
            segment.len as u32,
            number(state.before),
            number(state.after),
        ]);
    }
    Ok(levels)
}
