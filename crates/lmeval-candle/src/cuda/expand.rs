//! Quantised weights in device memory, expanded just before each product.

#[cfg(test)]
mod tests;

use candle_core::cuda::WrapErr;
use candle_core::cuda::cudarc::driver::{LaunchConfig, PushKernelArg};
use candle_core::{
    CpuStorage, CudaStorage, CustomOp1, DType, Device, Layout, Result, Shape, Storage, Tensor, bail,
};

use super::{Module, kernel, view};
use crate::matrix::{
    Bytes, CODES, Codes, Columns, DeviceMatrix, FloatType, Grouped, Groups, Packing, Scales,
};

/// Threads per block.
const THREADS: usize = 256;
/// Inputs per thread.
const NUMBERS: usize = 8;

/// How the kernels number types of floats.
fn float_kind(dtype: FloatType) -> i32 {
    match dtype {
        FloatType::F32 => 0,
        FloatType::F16 => 1,
        FloatType::BF16 => 2,
        FloatType::F8E4M3 => 3,
        FloatType::E8M0 => 4,
    }
}

/// How the kernel numbers kinds of codes, and their bits.
fn code_kind(codes: &Codes) -> (i32, i32) {
    match codes {
        Codes::Nibbles { upper_first: false, .. } => (0, 4),
        Codes::Nibbles { upper_first: true, .. } => (1, 4),
        Codes::Packed { bits } => (2, *bits as i32),
        Codes::Integers => (3, 8),
        Codes::Floats(dtype) => (4 + float_kind(*dtype), 8),
    }
}

/// Bytes in device memory.
fn upload(bytes: &Bytes, device: &Device) -> Result<Tensor> {
    let bytes = bytes.as_ref().as_ref();
    match super::upload(bytes, DType::U8, &[bytes.len()], device)? {
        Some(tensor) => Ok(tensor),
        None => Tensor::from_slice(bytes, bytes.len(), device),
    }
}

/// Rows of codes on a device.
#[derive(Debug)]
pub(crate) struct GroupedOnDevice {
    codes: Tensor,
    scales: Tensor,
    /// One zero, if there are none.
    zeros: Tensor,
    has_zeros: bool,
    /// One group, if they are not by column.
    groups: Tensor,
    table: Tensor,
    row_bytes: usize,
    code_kind: (i32, i32),
    scale_kind: i32,
    factor: f32,
    /// The kind of groups, and the height, width and number per row of groups.
    group_kind: [i32; 4],
    shape: (usize, usize),
}

impl GroupedOnDevice {
    /// Copies a matrix to a device.
    pub(crate) fn new(matrix: &Grouped, device: &Device) -> Result<Self> {
        let (codes, scales, shape) = matrix.parts();
        let Scales { zeros, groups, .. } = scales;
        let of_columns = match groups {
            Groups::Columns { group, .. } => group.clone(),
            _ => vec![0],
        };
        let group_kind = match groups {
            Groups::Blocks { rows, columns } => {
                [0, *rows as i32, *columns as i32, shape.1.div_ceil(*columns) as i32]
            }
            Groups::Runs(length) => [1, 1, *length as i32, 1],
            Groups::Columns { count, .. } => [2, 1, 1, *count as i32],
        };
        let table = match codes {
            Codes::Nibbles { table, .. } => *table,
            _ => [0.0; CODES],
        };
        let signed = zeros.as_deref().unwrap_or(&[0]);
        let zeros_on_device: Vec<u8> = signed.iter().map(|zero| zero.cast_unsigned()).collect();
        Ok(Self {
            codes: upload(matrix.bytes(), device)?,
            scales: upload(&scales.bytes, device)?,
            zeros: Tensor::new(zeros_on_device, device)?,
            has_zeros: zeros.is_some(),
            groups: Tensor::new(of_columns, device)?,
            table: Tensor::new(&table, device)?,
            row_bytes: codes.row_bytes(shape.1),
            code_kind: code_kind(codes),
            scale_kind: float_kind(scales.dtype),
            factor: scales.factor,
            group_kind,
            shape,
        })
    }
}

impl DeviceMatrix for GroupedOnDevice {
    fn shape(&self) -> (usize, usize) {
        self.shape
    }

    fn device(&self) -> &Device {
        self.codes.device()
    }

    fn transpose(&self, first: usize, count: usize, dtype: DType) -> Result<Tensor> {
        self.codes.apply_op1_no_bwd(&ExpandRows { matrix: self, first, count, dtype })?.t()
    }
}

/// Calls `$body` with the number type and suffix of a data type.
macro_rules! with_floats {
    ($dtype:expr, $suffix:ident, $Number:ident => $body:expr) => {
        match $dtype {
            DType::BF16 => {
                type $Number = half::bf16;
                let $suffix = "bf16";
                $body
            }
            DType::F16 => {
                type $Number = half::f16;
                let $suffix = "f16";
                $body
            }
            DType::F32 => {
                type $Number = f32;
                let $suffix = "f32";
                $body
            }
            other => bail!("weights are not expanded to {other:?}"),
        }
    };
}

/// Calls `work` with the numbers of a tensor on the device.
fn with_numbers<T: candle_core::cuda_backend::CudaDType, R>(
    tensor: &Tensor,
    work: impl FnOnce(candle_core::cuda::cudarc::driver::CudaView<'_, T>) -> Result<R>,
) -> Result<R> {
    let (storage, layout) = tensor.storage_and_layout();
    match &*storage {
        Storage::Cuda(storage) => work(view(storage, layout)?),
        _ => bail!("the tensor is not on the device"),
    }
}

/// A launch of one thread per piece of work.
fn threads(count: usize) -> LaunchConfig {
    LaunchConfig {
        grid_dim: (count.div_ceil(THREADS) as u32, 1, 1),
        block_dim: (THREADS as u32, 1, 1),
        shared_mem_bytes: 0,
    }
}

struct ExpandRows<'a> {
    matrix: &'a GroupedOnDevice,
    first: usize,
    count: usize,
    dtype: DType,
}

impl CustomOp1 for ExpandRows<'_> {
    fn name(&self) -> &'static str {
        "expand-rows"
    }

    fn cpu_fwd(&self, _: &CpuStorage, _: &Layout) -> Result<(CpuStorage, Shape)> {
        bail!("the kernel runs on GPUs only")
    }

    fn cuda_fwd(&self, codes: &CudaStorage, layout: &Layout) -> Result<(CudaStorage, Shape)> {
        let Self { matrix, first, count, dtype } = *self;
        let device = codes.device.clone();
        let (_, columns) = matrix.shape;
        let codes = view::<u8>(codes, layout)?;
        let config = threads(count * columns.div_ceil(NUMBERS));
        let numbers = [first, count, columns, matrix.row_bytes].map(|number| number as i32);
        let (code_kind, bits) = matrix.code_kind;
        let [group_kind, height, width, per_row] = matrix.group_kind;
        let has_zeros = i32::from(matrix.has_zeros);
        let storage = with_floats!(dtype, suffix, Number => {
            let function = kernel(&device, Module::Expand, &format!("expand_grouped_{suffix}"))?;
            // SAFETY: the kernel writes every element.
            let made = unsafe { device.alloc::<Number>(count * columns)? };
            with_numbers::<u8, _>(&matrix.scales, |scales| {
                with_numbers::<u8, _>(&matrix.zeros, |zeros| {
                    with_numbers::<u32, _>(&matrix.groups, |groups| {
                        with_numbers::<f32, _>(&matrix.table, |table| {
                            let mut arguments = function.builder();
                            arguments.arg(&codes).arg(&scales).arg(&zeros).arg(&groups).arg(&table).arg(&made);
                            for number in &numbers {
                                arguments.arg(number);
                            }
                            arguments.arg(&code_kind).arg(&bits).arg(&matrix.scale_kind).arg(&matrix.factor);
                            arguments.arg(&has_zeros).arg(&group_kind).arg(&height).arg(&width).arg(&per_row);
                            // SAFETY: the parts have the sizes that `Grouped` has checked, and the rows are among them.
                            unsafe { arguments.launch(config) }.w()?;
                            Ok(())
                        })
                    })
                })
            })?;
            CudaStorage::wrap_cuda_slice(made, device.clone())
        });
        Ok((storage, (count, columns).into()))
    }
}

/// Packed columns on a device.
#[derive(Debug)]
pub(crate) struct ColumnsOnDevice {
    words: Tensor,
    zeros: Tensor,
    scales: Tensor,
    groups: Tensor,
    /// 0 for codes of several outputs per word.
    bits: i32,
    more: i32,
    scale_kind: i32,
    shape: (usize, usize),
}

impl ColumnsOnDevice {
    /// Copies a matrix to a device.
    pub(crate) fn new(matrix: &Columns, device: &Device) -> Result<Self> {
        Ok(Self {
            words: upload(&matrix.words, device)?,
            zeros: upload(&matrix.zeros, device)?,
            scales: upload(&matrix.scales, device)?,
            groups: Tensor::new(matrix.group.clone(), device)?,
            bits: match matrix.packing {
                Packing::Inputs { bits } => bits as i32,
                Packing::Outputs => 0,
            },
            more: matrix.more as i32,
            scale_kind: float_kind(matrix.dtype),
            shape: matrix.shape,
        })
    }
}

impl DeviceMatrix for ColumnsOnDevice {
    fn shape(&self) -> (usize, usize) {
        self.shape
    }

    fn device(&self) -> &Device {
        self.words.device()
    }

    fn transpose(&self, first: usize, count: usize, dtype: DType) -> Result<Tensor> {
        self.words.apply_op1_no_bwd(&ExpandColumns { matrix: self, first, count, dtype })
    }
}

struct ExpandColumns<'a> {
    matrix: &'a ColumnsOnDevice,
    first: usize,
    count: usize,
    dtype: DType,
}

impl CustomOp1 for ExpandColumns<'_> {
    fn name(&self) -> &'static str {
        "expand-columns"
    }

    fn cpu_fwd(&self, _: &CpuStorage, _: &Layout) -> Result<(CpuStorage, Shape)> {
        bail!("the kernel runs on GPUs only")
    }

    fn cuda_fwd(&self, words: &CudaStorage, layout: &Layout) -> Result<(CudaStorage, Shape)> {
        let Self { matrix, first, count, dtype } = *self;
        let device = words.device.clone();
        let (outputs, inputs) = matrix.shape;
        let words = view::<u8>(words, layout)?;
        // Each block has numbers of the same inputs.
        let config = threads(inputs.div_ceil(NUMBERS) * count.next_multiple_of(THREADS));
        let numbers = [first, count, outputs, inputs].map(|number| number as i32);
        let storage = with_floats!(dtype, suffix, Number => {
            let function = kernel(&device, Module::Expand, &format!("expand_columns_{suffix}"))?;
            // SAFETY: the kernel writes every element.
            let made = unsafe { device.alloc::<Number>(inputs * count)? };
            with_numbers::<u8, _>(&matrix.zeros, |zeros| {
                with_numbers::<u8, _>(&matrix.scales, |scales| {
                    with_numbers::<u32, _>(&matrix.groups, |groups| {
                        let mut arguments = function.builder();
                        arguments.arg(&words).arg(&zeros).arg(&scales).arg(&groups).arg(&made);
                        for number in &numbers {
                            arguments.arg(number);
                        }
                        arguments.arg(&matrix.bits).arg(&matrix.more).arg(&matrix.scale_kind);
                        // SAFETY: the parts have the sizes that `Columns` has checked, and the outputs are among them.
                        unsafe { arguments.launch(config) }.w()?;
                        Ok(())
                    })
                })
            })?;
            CudaStorage::wrap_cuda_slice(made, device.clone())
        });
        Ok((storage, (inputs, count).into()))
    }
}
