//! Matrices in their stored form.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use candle_core::DType;
#[cfg(feature = "cuda")]
use candle_core::Tensor;

use super::kernel::{Lanes, transpose};
use crate::layers::simd::LANES;

/// The columns that are converted at a time: a multiple of the block sizes of all formats.
pub(super) const STEP: usize = 256;

/// A matrix in its stored form, whose numbers are converted to 32-bit floats when they are needed.
pub trait StoredMatrix: fmt::Debug + Send + Sync {
    /// The number of rows and columns.
    fn shape(&self) -> (usize, usize);

    /// Copies the matrix to a GPU in its stored form; `None` if it must be expanded.
    #[cfg(feature = "cuda")]
    fn on_device(&self, device: &candle_core::Device) -> candle_core::Result<Option<Arc<dyn DeviceMatrix>>> {
        let _ = device;
        Ok(None)
    }

    /// Converts the columns of a row from `first` on. `first` and the number of columns are multiples of 256, except at the end of the
    /// row.
    fn read(&self, row: usize, first: usize, into: &mut [f32]);

    /// Converts the columns of up to 16 rows from `first` on: one column of all rows after the other. `scratch` has 256 numbers per row.
    fn panel(&self, rows: Range<usize>, first: usize, panel: &mut [[f32; LANES]], scratch: &mut [f32]) {
        let (width, count) = (panel.len(), rows.len());
        for (row, into) in rows.zip(scratch.chunks_exact_mut(width)) {
            self.read(row, first, into);
        }
        transpose(scratch, count, panel);
    }
}

/// A matrix in its stored form in the memory of a GPU.
#[cfg(feature = "cuda")]
pub trait DeviceMatrix: fmt::Debug + Send + Sync {
    /// The number of rows and columns.
    fn shape(&self) -> (usize, usize);

    /// The GPU.
    fn device(&self) -> &candle_core::Device;

    /// The transpose of some rows, `[columns, count]`, in a data type of 16 or 32 bits.
    fn transpose(&self, first: usize, count: usize, dtype: DType) -> candle_core::Result<Tensor>;
}

/// The transpose of some rows of a matrix, in another order.
#[cfg(feature = "cuda")]
#[derive(Debug)]
pub(super) struct SelectedOnDevice {
    matrix: Arc<dyn DeviceMatrix>,
    rows: Tensor,
}

#[cfg(feature = "cuda")]
impl SelectedOnDevice {
    /// Some rows of a matrix.
    pub(super) fn new(matrix: Arc<dyn DeviceMatrix>, rows: &[u32]) -> candle_core::Result<Self> {
        let rows = Tensor::new(rows, matrix.device())?;
        Ok(Self { matrix, rows })
    }
}

#[cfg(feature = "cuda")]
impl DeviceMatrix for SelectedOnDevice {
    fn shape(&self) -> (usize, usize) {
        (self.rows.elem_count(), self.matrix.shape().1)
    }

    fn device(&self) -> &candle_core::Device {
        self.rows.device()
    }

    fn transpose(&self, first: usize, count: usize, dtype: DType) -> candle_core::Result<Tensor> {
        let all = self.matrix.transpose(0, self.matrix.shape().0, dtype)?;
        // Rows of the untransposed matrix are copied as a whole.
        all.t()?.contiguous()?.index_select(&self.rows.narrow(0, first, count)?, 0)?.t()
    }
}

/// 32-bit floats with any strides.
#[derive(Debug)]
pub(super) struct Strided<'a> {
    pub(super) numbers: &'a [f32],
    pub(super) shape: (usize, usize),
    /// The distances of rows and of columns.
    pub(super) strides: (usize, usize),
}

impl StoredMatrix for Strided<'_> {
    fn shape(&self) -> (usize, usize) {
        self.shape
    }

    fn read(&self, row: usize, first: usize, into: &mut [f32]) {
        let (down, across) = self.strides;
        let numbers = &self.numbers[row * down + first * across..];
        if across == 1 {
            into.copy_from_slice(&numbers[..into.len()]);
        } else {
            into.iter_mut()
                .zip(numbers.iter().step_by(across.max(1)))
                .for_each(|(into, number)| *into = *number);
        }
    }

    fn panel(&self, rows: Range<usize>, first: usize, panel: &mut [Lanes], scratch: &mut [f32]) {
        let ((down, across), count) = (self.strides, rows.len());
        let start = rows.start * down + first * across;
        if down == 1 {
            for (index, lanes) in panel.iter_mut().enumerate() {
                lanes[..count].copy_from_slice(&self.numbers[start + index * across..][..count]);
            }
            return;
        }
        let width = panel.len();
        for (row, into) in rows.zip(scratch.chunks_exact_mut(width)) {
            self.read(row, first, into);
        }
        transpose(scratch, count, panel);
    }
}

/// 32-bit floats row by row.
#[derive(Debug)]
pub(crate) struct Owned {
    /// The numbers.
    pub(crate) numbers: Vec<f32>,
    /// Rows and columns.
    pub(crate) shape: (usize, usize),
}

impl StoredMatrix for Owned {
    fn shape(&self) -> (usize, usize) {
        self.shape
    }

    fn read(&self, row: usize, first: usize, into: &mut [f32]) {
        into.copy_from_slice(&self.numbers[row * self.shape.1 + first..][..into.len()]);
    }
}

/// Some rows of a matrix, in any order.
#[derive(Debug)]
pub(super) struct Selected {
    pub(super) matrix: Arc<dyn StoredMatrix>,
    pub(super) rows: Vec<u32>,
}

impl StoredMatrix for Selected {
    fn shape(&self) -> (usize, usize) {
        (self.rows.len(), self.matrix.shape().1)
    }

    #[cfg(feature = "cuda")]
    fn on_device(&self, device: &candle_core::Device) -> candle_core::Result<Option<Arc<dyn DeviceMatrix>>> {
        let Some(matrix) = self.matrix.on_device(device)? else { return Ok(None) };
        Ok(Some(Arc::new(SelectedOnDevice::new(matrix, &self.rows)?)))
    }

    fn read(&self, row: usize, first: usize, into: &mut [f32]) {
        self.matrix.read(self.rows[row] as usize, first, into);
    }

    fn panel(&self, rows: Range<usize>, first: usize, panel: &mut [Lanes], scratch: &mut [f32]) {
        let width = panel.len();
        let own = &self.rows[rows];
        // Formats that store several rows together convert adjacent ones faster.
        if own.is_sorted_by(|row, next| row + 1 == *next)
            && let Some(start) = own.first().map(|row| *row as usize)
        {
            return self.matrix.panel(start..start + own.len(), first, panel, scratch);
        }
        for (row, into) in own.iter().zip(scratch.chunks_exact_mut(width)) {
            self.matrix.read(*row as usize, first, into);
        }
        transpose(scratch, own.len(), panel);
    }
}

/// A matrix whose numbers are rounded to 16 bits.
#[derive(Debug)]
pub(super) struct Rounded {
    pub(super) matrix: Arc<dyn StoredMatrix>,
    pub(super) dtype: DType,
}

impl Rounded {
    fn round(&self, numbers: &mut [f32]) {
        let round: fn(f32) -> f32 = match self.dtype {
            DType::BF16 => |number| half::bf16::from_f32(number).to_f32(),
            DType::F16 => |number| half::f16::from_f32(number).to_f32(),
            _ => return,
        };
        for number in numbers {
            *number = round(*number);
        }
    }
}

impl StoredMatrix for Rounded {
    fn shape(&self) -> (usize, usize) {
        self.matrix.shape()
    }

    fn read(&self, row: usize, first: usize, into: &mut [f32]) {
        self.matrix.read(row, first, into);
        self.round(into);
    }

    fn panel(&self, rows: Range<usize>, first: usize, panel: &mut [Lanes], scratch: &mut [f32]) {
        self.matrix.panel(rows, first, panel, scratch);
        self.round(panel.as_flattened_mut());
    }
}
