//! Weight matrices: tensors on a device, or in the form in which a checkpoint stores them.

mod columns;
mod convert;
mod floats;
mod grouped;
mod kernel;
mod low_rank;
mod product;
mod stored;

use std::sync::Arc;

use candle_core::{CpuStorage, DType, Device, Layout, Result, Storage, Tensor};
use rayon::prelude::*;

pub(crate) use self::columns::{Columns, Packing};
pub(crate) use self::convert::{CODES, affine, lookup, nibbles, scaled, signed};
pub(crate) use self::floats::{FP4, FloatType, Floats, TransposedFloats, f8e4m3, f16, half_power};
pub(crate) use self::grouped::{Bytes, Codes, Grouped, Groups, Scales};
pub(crate) use self::low_rank::{LowRank, Patched};
#[cfg(feature = "cuda")]
pub use self::stored::DeviceMatrix;
pub(crate) use self::stored::Owned;
#[cfg(feature = "cuda")]
use self::stored::SelectedOnDevice;
pub use self::stored::StoredMatrix;
use self::stored::{Rounded, Selected, Strided};

/// A weight matrix `[rows, columns]`.
///
/// On the CPU, products with its transpose give a row the same bits whatever the other rows are, and the same for a tensor as for a stored
/// matrix of the same numbers.
#[derive(Clone, Debug)]
pub struct Matrix(Form);

#[derive(Clone, Debug)]
enum Form {
    /// In the data type of the computation, with any strides.
    Tensor(Tensor),
    /// The same as `[columns, rows]`.
    Transposed(Tensor),
    /// On the CPU alone.
    Stored(Arc<dyn StoredMatrix>),
    /// Some rows on a GPU, expanded to the data type of the computation for each product.
    #[cfg(feature = "cuda")]
    Device { matrix: Arc<dyn DeviceMatrix>, first: usize, count: usize, dtype: DType },
}

impl From<Tensor> for Matrix {
    fn from(tensor: Tensor) -> Self {
        Self(Form::Tensor(tensor))
    }
}

impl From<&Tensor> for Matrix {
    fn from(tensor: &Tensor) -> Self {
        tensor.clone().into()
    }
}

impl From<&Self> for Matrix {
    fn from(matrix: &Self) -> Self {
        matrix.clone()
    }
}

impl From<Arc<dyn StoredMatrix>> for Matrix {
    fn from(matrix: Arc<dyn StoredMatrix>) -> Self {
        Self(Form::Stored(matrix))
    }
}

impl Matrix {
    /// A matrix from its transpose.
    pub(crate) fn from_transposed(tensor: Tensor) -> Self {
        Self(Form::Transposed(tensor))
    }

    /// The number of rows and columns.
    pub fn shape(&self) -> Result<(usize, usize)> {
        match &self.0 {
            Form::Tensor(tensor) => tensor.dims2(),
            Form::Transposed(tensor) => tensor.t()?.dims2(),
            Form::Stored(matrix) => Ok(matrix.shape()),
            #[cfg(feature = "cuda")]
            Form::Device { matrix, count, .. } => Ok((*count, matrix.shape().1)),
        }
    }

    /// Copies a stored matrix to a GPU as it is, if its format allows.
    #[cfg(feature = "cuda")]
    pub(crate) fn on_device(
        matrix: &dyn StoredMatrix,
        dtype: DType,
        device: &Device,
    ) -> Result<Option<Self>> {
        let form =
            |matrix: Arc<dyn DeviceMatrix>| Form::Device { count: matrix.shape().0, matrix, first: 0, dtype };
        Ok(matrix.on_device(device)?.map(|matrix| Self(form(matrix))))
    }

    /// The same with its numbers rounded to a data type.
    pub(crate) fn rounded_to(&self, dtype: DType) -> Result<Self> {
        Ok(match &self.0 {
            Form::Stored(matrix) => {
                let matrix = Arc::clone(matrix);
                Self(Form::Stored(Arc::new(Rounded { matrix, dtype })))
            }
            _ => {
                let tensor = self.tensor()?;
                tensor.to_dtype(dtype)?.to_dtype(tensor.dtype())?.into()
            }
        })
    }

    /// Rows of a stored matrix, in this order.
    pub(crate) fn reordered(matrix: Arc<dyn StoredMatrix>, rows: Vec<u32>) -> Arc<dyn StoredMatrix> {
        Arc::new(Selected { matrix, rows })
    }

    /// Consecutive rows.
    pub(crate) fn narrow(&self, first: usize, count: usize) -> Result<Self> {
        match &self.0 {
            Form::Stored(_) => self.select((first..first + count).map(|row| row as u32).collect()),
            #[cfg(feature = "cuda")]
            Form::Device { matrix, first: own, dtype, .. } => {
                let (matrix, dtype) = (Arc::clone(matrix), *dtype);
                Ok(Self(Form::Device { matrix, first: own + first, count, dtype }))
            }
            // Products on GPUs need a matrix without gaps.
            Form::Transposed(tensor) if !tensor.device().is_cpu() => {
                Ok(Self(Form::Transposed(tensor.narrow(1, first, count)?.contiguous()?)))
            }
            _ => Ok(self.tensor()?.narrow(0, first, count)?.into()),
        }
    }

    /// Some rows, in this order.
    pub(crate) fn select(&self, rows: Vec<u32>) -> Result<Self> {
        match &self.0 {
            Form::Stored(matrix) => {
                let matrix = Arc::clone(matrix);
                Ok(Self(Form::Stored(Arc::new(Selected { matrix, rows }))))
            }
            #[cfg(feature = "cuda")]
            Form::Device { .. } if rows.is_sorted_by(|row, next| row + 1 == *next) && !rows.is_empty() => {
                self.narrow(rows[0] as usize, rows.len())
            }
            #[cfg(feature = "cuda")]
            Form::Device { matrix, first, dtype, .. } => {
                let rows: Vec<u32> = rows.iter().map(|row| row + *first as u32).collect();
                let matrix = SelectedOnDevice::new(Arc::clone(matrix), &rows)?;
                let (count, dtype) = (rows.len(), *dtype);
                Ok(Self(Form::Device { matrix: Arc::new(matrix), first: 0, count, dtype }))
            }
            _ => {
                let tensor = self.tensor()?;
                let rows = Tensor::new(rows, tensor.device())?;
                Ok(tensor.contiguous()?.index_select(&rows, 0)?.into())
            }
        }
    }

    /// The rows with these indices, as a tensor.
    pub(crate) fn gather(&self, rows: &Tensor) -> Result<Tensor> {
        match &self.0 {
            Form::Stored(matrix) => expand(matrix.as_ref(), &rows.to_vec1()?),
            _ => gather(&self.tensor()?, rows),
        }
    }

    /// The matrix as a tensor.
    pub(crate) fn tensor(&self) -> Result<Tensor> {
        match &self.0 {
            Form::Tensor(tensor) => Ok(tensor.clone()),
            Form::Transposed(tensor) => tensor.t(),
            Form::Stored(matrix) => expand_all(matrix.as_ref()),
            #[cfg(feature = "cuda")]
            Form::Device { matrix, first, count, dtype } => matrix.transpose(*first, *count, *dtype)?.t(),
        }
    }

    /// The tensor, if it is one as it is.
    #[cfg(feature = "cuda")]
    pub(crate) fn plain(&self) -> Option<&Tensor> {
        match &self.0 {
            Form::Tensor(tensor) => Some(tensor),
            _ => None,
        }
    }

    /// Whether both have the same numbers. Compares few rows at a time, to save memory.
    pub(crate) fn is_equal(&self, other: &Self) -> Result<bool> {
        /// The rows compared at a time.
        const ROWS: usize = 4096;
        let (rows, _) = self.shape()?;
        if self.shape()? != other.shape()? {
            return Ok(false);
        }
        for first in (0..rows).step_by(ROWS) {
            let count = ROWS.min(rows - first);
            let [own, other] = [self.narrow(first, count)?.tensor()?, other.narrow(first, count)?.tensor()?];
            if own.ne(&other)?.to_dtype(DType::F32)?.sum_all()?.to_scalar::<f32>()? > 0.0 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The products of rows with its transpose: `[rows, columns]` becomes `[rows, rows of the matrix]`.
    pub(crate) fn multiply(&self, rows: &Tensor) -> Result<Tensor> {
        if !rows.device().is_cpu() || rows.dtype() != DType::F32 {
            return self.multiply_on_device(rows);
        }
        let (count, width) = rows.dims2()?;
        let shape @ (outputs, depth) = self.shape()?;
        if width != depth {
            candle_core::bail!("rows of {width} numbers do not fit a matrix with {depth} columns");
        }
        if outputs == 1 {
            return self.multiply_single(rows);
        }
        let made = with_numbers(&rows.contiguous()?, |rows, layout| {
            let rows = &rows[layout.start_offset()..][..count * depth];
            if let Form::Stored(matrix) = &self.0 {
                return Ok(product::multiply(rows, count, matrix.as_ref()));
            }
            with_numbers(&self.tensor()?, |numbers, layout| {
                let strides = (layout.stride()[0], layout.stride()[1]);
                let numbers = &numbers[layout.start_offset()..];
                Ok(product::multiply(rows, count, &Strided { numbers, shape, strides }))
            })
        })?;
        Tensor::from_vec(made, (count, outputs), &Device::Cpu)
    }
}

/// The rows of a tensor with these indices.
pub(crate) fn gather(tensor: &Tensor, rows: &Tensor) -> Result<Tensor> {
    #[cfg(feature = "cuda")]
    if let Some(made) = crate::cuda::gather(tensor, rows)? {
        return Ok(made);
    }
    tensor.index_select(rows, 0)
}

impl Matrix {
    /// The products of rows with the transpose, where the library of the device computes them.
    fn multiply_on_device(&self, rows: &Tensor) -> Result<Tensor> {
        #[cfg(feature = "cuda")]
        if rows.device().is_cuda() && rows.rank() == 2 {
            let matrix = self.tensor()?;
            let is_transposed = !matrix.is_contiguous();
            let stored = if is_transposed { matrix.t()? } else { matrix };
            if let Some(made) = crate::cuda::multiply(rows, &stored, is_transposed)? {
                return Ok(made);
            }
        }
        rows.matmul(&self.tensor()?.t()?)
    }

    /// The products of rows with a single row, which the library of matrix products sums in another order.
    fn multiply_single(&self, rows: &Tensor) -> Result<Tensor> {
        /// The library takes another path again for fewer rows.
        const ROWS: usize = 257;
        let count = rows.dim(0)?;
        let rows = rows.pad_with_zeros(0, 0, ROWS.saturating_sub(count))?;
        rows.matmul(&self.tensor()?.t()?)?.narrow(0, 0, count)?.contiguous()
    }
}

/// Rows of a stored matrix as 32-bit floats.
fn expand(matrix: &dyn StoredMatrix, rows: &[u32]) -> Result<Tensor> {
    let (_, columns) = matrix.shape();
    let mut numbers = vec![0.0; rows.len() * columns];
    numbers.par_chunks_mut(columns.max(1)).zip(rows).for_each(|(into, row)| {
        matrix.read(*row as usize, 0, into);
    });
    Tensor::from_vec(numbers, (rows.len(), columns), &Device::Cpu)
}

/// All numbers of a stored matrix.
pub(crate) fn expand_all(matrix: &dyn StoredMatrix) -> Result<Tensor> {
    expand(matrix, &(0..matrix.shape().0 as u32).collect::<Vec<_>>())
}

/// Calls `work` with the numbers of a 32-bit tensor on the CPU.
fn with_numbers<R>(tensor: &Tensor, work: impl FnOnce(&[f32], &Layout) -> Result<R>) -> Result<R> {
    let (storage, layout) = tensor.storage_and_layout();
    match &*storage {
        Storage::Cpu(CpuStorage::F32(numbers)) => work(numbers, layout),
        _ => candle_core::bail!("the tensor is not one of 32-bit floats on the CPU"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pseudo-random matrix.
    fn matrix(rows: usize, columns: usize) -> Tensor {
        let numbers: Vec<f32> =
            (0..rows * columns).map(|index| ((index * index % 8191) as f32).sin()).collect();
        Tensor::from_vec(numbers, (rows, columns), &Device::Cpu).unwrap()
    }

    fn numbers(tensor: &Tensor) -> Vec<f32> {
        tensor.contiguous().unwrap().flatten_all().unwrap().to_vec1().unwrap()
    }

    /// The same matrix stored as bytes.
    fn stored(tensor: &Tensor, dtype: FloatType) -> Matrix {
        let (rows, columns) = tensor.dims2().unwrap();
        let bytes = numbers(tensor).into_iter().flat_map(|number| match dtype {
            FloatType::BF16 => half::bf16::from_f32(number).to_le_bytes().to_vec(),
            _ => number.to_le_bytes().to_vec(),
        });
        let floats = Floats::new(bytes.collect::<Vec<u8>>(), dtype, (rows, columns));
        Matrix(Form::Stored(Arc::new(floats)))
    }

    /// The library's product, with enough rows to avoid its special paths for small products.
    fn library(rows: &Tensor, matrix: &Tensor) -> Vec<f32> {
        let count = rows.dim(0).unwrap();
        let product = rows.pad_with_zeros(0, 0, 300).unwrap().matmul(&matrix.t().unwrap()).unwrap();
        numbers(&product.narrow(0, 0, count).unwrap())
    }

    #[test]
    fn products_have_the_bits_of_the_library() {
        let depths = [3, 8, 31, 64, 255, 256, 257, 500, 513, 576, 1000, 1024, 1025, 1536, 2049, 3000, 4100];
        for (index, depth) in depths.into_iter().enumerate() {
            for (rows, outputs) in [(1, 16), (2, 1), (3, 17), (7, 40), (67, 129 + index)] {
                let (matrix, rows) = (matrix(outputs, depth), matrix(rows, depth));
                let rounded = matrix.to_dtype(DType::BF16).unwrap().to_dtype(DType::F32).unwrap();
                let transposed = matrix.t().unwrap().contiguous().unwrap().t().unwrap();
                for (index, (own, exact)) in [
                    (Matrix::from(&matrix), &matrix),
                    (Matrix::from(transposed), &matrix),
                    (stored(&matrix, FloatType::F32), &matrix),
                    (stored(&matrix, FloatType::BF16), &rounded),
                    (Matrix::from(&matrix).rounded_to(DType::BF16).unwrap(), &rounded),
                    (stored(&matrix, FloatType::F32).rounded_to(DType::BF16).unwrap(), &rounded),
                ]
                .into_iter()
                .enumerate()
                {
                    let found = numbers(&own.multiply(&rows).unwrap());
                    let expected = library(&rows, exact);
                    assert!(
                        found == expected,
                        "form {index}: {:?} rows of {depth}, {outputs} outputs",
                        rows.dim(0)
                    );
                }
            }
        }
    }

    #[test]
    fn results_do_not_depend_on_the_number_of_rows() {
        for (depth, outputs) in
            [(576, 192), (1536, 576), (2048, 8), (2048, 60), (64, 300), (32, 96), (700, 33), (8, 1)]
        {
            let matrix = stored(&matrix(outputs, depth), FloatType::BF16);
            let rows = self::matrix(300, depth);
            let all = numbers(&matrix.multiply(&rows).unwrap());
            for count in (1..20).chain([31, 32, 33, 63, 64, 65, 66, 100, 129, 255, 256, 257]) {
                let some = numbers(&matrix.multiply(&rows.narrow(0, 7, count).unwrap()).unwrap());
                assert!(
                    some == all[7 * outputs..(7 + count) * outputs],
                    "{count} rows of {depth}, {outputs} outputs"
                );
            }
        }
    }

    #[test]
    fn transposed_floats_are_the_same_matrix() {
        let (matrix, rows) = (matrix(37, 300), matrix(5, 300));
        let transposed = numbers(&matrix.t().unwrap());
        let bytes: Vec<u8> = transposed.iter().flat_map(|number| number.to_le_bytes()).collect();
        let own = TransposedFloats::new(bytes, FloatType::F32, (37, 300));
        let own = Matrix(Form::Stored(Arc::new(own)));
        assert!(own.is_equal(&Matrix::from(&matrix)).unwrap());
        assert_eq!(numbers(&own.multiply(&rows).unwrap()), library(&rows, &matrix));
    }

    #[test]
    fn rows_are_selected_in_any_order() {
        let all = matrix(40, 300);
        let order: Vec<u32> = (0..40).map(|row| (row * 7) % 40).chain(3..30).collect();
        let expected = all.index_select(&Tensor::new(order.clone(), &Device::Cpu).unwrap(), 0).unwrap();
        let rows = matrix(5, 300);
        for own in [Matrix::from(&all), stored(&all, FloatType::F32)] {
            let selected = own.select(order.clone()).unwrap();
            assert_eq!(numbers(&selected.tensor().unwrap()), numbers(&expected));
            let products = numbers(&selected.multiply(&rows).unwrap());
            assert_eq!(products, library(&rows, &expected));
            let narrow = own.narrow(9, 20).unwrap();
            assert!(narrow.is_equal(&Matrix::from(all.narrow(0, 9, 20).unwrap())).unwrap());
            assert!(!narrow.is_equal(&own.narrow(8, 20).unwrap()).unwrap());
            let gathered = own.gather(&Tensor::new(&[39_u32, 0, 5], &Device::Cpu).unwrap()).unwrap();
            assert!(Matrix::from(gathered).is_equal(&own.select(vec![39, 0, 5]).unwrap()).unwrap());
        }
        assert!(Matrix::from(&all).multiply(&matrix(2, 299)).is_err());
    }
}
