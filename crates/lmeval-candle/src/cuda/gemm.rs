//! Matrix products whose rows do not depend on each other.
//!
//! cuBLAS chooses an algorithm by the number of rows, and with it the order in which products are summed: the same row gets other bits in
//! another batch. Here the algorithm of a matrix is chosen once, for a fixed number of rows, and used for any number of rows. So scores are
//! equal to the last bit whatever is computed together.

use std::cell::Cell;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, PoisonError};

use candle_core::cuda::CudaStorageSlice;
use candle_core::cuda::cudarc::cublaslt::result::CublasError;
use candle_core::cuda::cudarc::cublaslt::{result, sys};
use candle_core::cuda::cudarc::driver::{CudaSlice, CudaView, DevicePtr as _, DevicePtrMut as _};
use candle_core::cuda_backend::{CudaDType, DeviceId};
use candle_core::{
    CpuStorage, CudaDevice, CudaStorage, CustomOp2, DType, Layout, Result, Shape, Tensor, bail,
};
use rustc_hash::FxHashMap;

/// Rows for which the algorithm of a pass is chosen.
const PASS_ROWS: u64 = 4096;
/// Rows for which the algorithm of a step of generation is chosen, whose time is that of reading the matrix.
///
/// For 100 sequences of a model of 8 billion parameters on an H200, a step takes 8 % less time than with an algorithm for 64 rows, for 256
/// sequences 27 % less, and for fewer than 64 sequences up to 30 % more (a single one).
const STEP_ROWS: u64 = 128;
/// The most rows of a step that are computed at once: the sums of parts of the depth have to fit into the workspace.
const MOST_STEP_ROWS: usize = 256;
/// Sums of parts of the depth are kept as 32-bit floats in the workspace, and added in order.
const IN_WORKSPACE: u32 = 2;
/// Bytes that an algorithm may use, as recommended for the newest generation.
const WORKSPACE: usize = 32 << 20;
/// Alignment in bytes of what cuBLAS reads in one piece.
const ALIGNED: usize = 16;

thread_local! {
    /// Whether this thread computes a step of generation.
    static IS_STEP: Cell<bool> = const { Cell::new(false) };
}

/// Calls `work` with the algorithms for a single row of each sequence.
///
/// A token is always computed in the same way: as a step if it was generated, in a pass otherwise.
pub(crate) fn in_steps<R>(work: impl FnOnce() -> R) -> R {
    struct Before(bool);
    impl Drop for Before {
        fn drop(&mut self) {
            IS_STEP.set(self.0);
        }
    }
    let _before = Before(IS_STEP.replace(true));
    work()
}

/// The products of rows `[rows, depth]` with a matrix `[outputs, depth]`, or with one that is stored as `[depth, outputs]`; `None` for other
/// data types and shapes.
pub(crate) fn multiply(rows: &Tensor, matrix: &Tensor, is_transposed: bool) -> Result<Option<Tensor>> {
    let (depth, outputs) = match (is_transposed, matrix.dims2()?) {
        (false, (outputs, depth)) | (true, (depth, outputs)) => (depth, outputs),
    };
    let aligned = ALIGNED / rows.dtype().size_in_bytes();
    if !matches!(rows.dtype(), DType::BF16 | DType::F16 | DType::F32)
        || rows.dtype() != matrix.dtype()
        || rows.dim(1)? != depth
        || !matrix.is_contiguous()
        || !depth.is_multiple_of(aligned)
        || !outputs.is_multiple_of(aligned)
        || rows.elem_count() == 0
        || !matrix.layout().start_offset().is_multiple_of(aligned)
    {
        return Ok(None);
    }
    let rows = rows.contiguous()?;
    if !rows.layout().start_offset().is_multiple_of(aligned) {
        return Ok(None);
    }
    let kind = Kind { depth, outputs, is_transposed, dtype: rows.dtype(), is_step: IS_STEP.get() };
    rows.apply_op2_no_bwd(matrix, &Product(kind)).map(Some)
}

/// What decides the algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Kind {
    depth: usize,
    outputs: usize,
    is_transposed: bool,
    dtype: DType,
    is_step: bool,
}

struct Product(Kind);

impl CustomOp2 for Product {
    fn name(&self) -> &'static str {
        "product"
    }

    fn cpu_fwd(&self, _: &CpuStorage, _: &Layout, _: &CpuStorage, _: &Layout) -> Result<(CpuStorage, Shape)> {
        bail!("the kernel runs on GPUs only")
    }

    fn cuda_fwd(
        &self,
        rows: &CudaStorage,
        row_layout: &Layout,
        matrix: &CudaStorage,
        matrix_layout: &Layout,
    ) -> Result<(CudaStorage, Shape)> {
        let (count, _) = row_layout.shape().dims2()?;
        let storage = match rows.slice {
            CudaStorageSlice::BF16(_) => {
                self.compute::<half::bf16>(count, (rows, row_layout), (matrix, matrix_layout))?
            }
            CudaStorageSlice::F16(_) => {
                self.compute::<half::f16>(count, (rows, row_layout), (matrix, matrix_layout))?
            }
            CudaStorageSlice::F32(_) => {
                self.compute::<f32>(count, (rows, row_layout), (matrix, matrix_layout))?
            }
            _ => bail!("the product supports only floats of 16 and 32 bits"),
        };
        Ok((storage, Shape::from((count, self.0.outputs))))
    }
}

impl Product {
    fn compute<T: CudaDType + candle_core::cuda::cudarc::driver::DeviceRepr>(
        &self,
        count: usize,
        (rows, row_layout): (&CudaStorage, &Layout),
        (matrix, matrix_layout): (&CudaStorage, &Layout),
    ) -> Result<CudaStorage> {
        let device = rows.device.clone();
        let rows: CudaView<'_, T> = super::view(rows, row_layout)?;
        let matrix: CudaView<'_, T> = super::view(matrix, matrix_layout)?;
        // SAFETY: the product writes every element.
        let mut made = unsafe { device.alloc::<T>(count * self.0.outputs)? };
        let library = Library::of(&device)?;
        let mut library = library.lock().unwrap_or_else(PoisonError::into_inner);
        let stream = device.cuda_stream();
        let (rows, _rows) = rows.device_ptr(&stream);
        let (matrix, _matrix) = matrix.device_ptr(&stream);
        {
            let (made, _made) = made.device_ptr_mut(&stream);
            let most = if self.0.is_step { MOST_STEP_ROWS } else { count };
            for first in (0..count).step_by(most) {
                let offset = |width: usize| (first * width * size_of::<T>()) as u64;
                let addresses = [matrix, rows + offset(self.0.depth), made + offset(self.0.outputs)];
                library.multiply(self.0, most.min(count - first), addresses, &device)?;
            }
        }
        Ok(CudaStorage::wrap_cuda_slice(made, device))
    }
}

/// cuBLAS on one device.
struct Library {
    handle: sys::cublasLtHandle_t,
    workspace: CudaSlice<u8>,
    algorithms: FxHashMap<Kind, sys::cublasLtMatmulAlgo_t>,
}

// SAFETY: the handle may be used from any thread, by one at a time.
unsafe impl Send for Library {}

/// The library of each device. They live as long as the process.
static LIBRARIES: Mutex<Vec<(DeviceId, Arc<Mutex<Library>>)>> = Mutex::new(Vec::new());

impl Library {
    fn of(device: &CudaDevice) -> Result<Arc<Mutex<Self>>> {
        let mut known = LIBRARIES.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, library)) = known.iter().find(|(id, _)| *id == device.id()) {
            return Ok(Arc::clone(library));
        }
        let handle = result::create_handle().map_err(failed)?;
        // SAFETY: nothing reads the workspace before an algorithm writes to it.
        let workspace = unsafe { device.alloc::<u8>(WORKSPACE)? };
        let library = Arc::new(Mutex::new(Self { handle, workspace, algorithms: FxHashMap::default() }));
        known.push((device.id(), Arc::clone(&library)));
        Ok(library)
    }

    /// Computes a product from the addresses of the matrix, the rows, and the result.
    fn multiply(
        &mut self,
        kind: Kind,
        count: usize,
        [matrix, rows, made]: [u64; 3],
        device: &CudaDevice,
    ) -> Result<()> {
        let problem = Problem::new(kind, count as u64).map_err(failed)?;
        let algorithm = match self.algorithms.get(&kind) {
            Some(known) => *known,
            None => {
                let rows = if kind.is_step { STEP_ROWS } else { PASS_ROWS };
                let chosen = Problem::new(kind, rows)
                    .and_then(|typical| typical.choose(self.handle, kind.is_step))
                    .map_err(failed)?;
                self.algorithms.insert(kind, chosen);
                chosen
            }
        };
        let stream = device.cuda_stream();
        let (one, zero) = (1.0_f32, 0.0_f32);
        let (workspace, _used) = self.workspace.device_ptr_mut(&stream);
        // SAFETY: the addresses are those of tensors with the shapes of the problem, which live until the call returns; the stream keeps
        // their memory until the product is computed.
        unsafe {
            result::matmul(
                self.handle,
                problem.description,
                (&raw const one).cast(),
                (&raw const zero).cast(),
                matrix as *const c_void,
                problem.matrix,
                rows as *const c_void,
                problem.rows,
                made as *const c_void,
                problem.made,
                made as *mut c_void,
                problem.made,
                &raw const algorithm,
                workspace as *mut c_void,
                WORKSPACE,
                stream.cu_stream().cast(),
            )
        }
        .map_err(failed)
    }
}

fn failed(error: CublasError) -> candle_core::Error {
    candle_core::Error::wrap(error)
}

/// The description of a product. cuBLAS counts in columns, so the matrix comes first and rows are columns.
struct Problem {
    description: sys::cublasLtMatmulDesc_t,
    matrix: sys::cublasLtMatrixLayout_t,
    rows: sys::cublasLtMatrixLayout_t,
    made: sys::cublasLtMatrixLayout_t,
}

impl Problem {
    fn new(kind: Kind, count: u64) -> std::result::Result<Self, CublasError> {
        let (depth, outputs) = (kind.depth as u64, kind.outputs as u64);
        let number = match kind.dtype {
            DType::F16 => sys::cudaDataType::CUDA_R_16F,
            DType::F32 => sys::cudaDataType::CUDA_R_32F,
            _ => sys::cudaDataType::CUDA_R_16BF,
        };
        let layout =
            |rows: u64, columns: u64| result::create_matrix_layout(number, rows, columns, rows as i64);
        let description = result::create_matmul_desc(
            sys::cublasComputeType_t::CUBLAS_COMPUTE_32F,
            sys::cudaDataType::CUDA_R_32F,
        )?;
        let turn = i32::from(!kind.is_transposed);
        // SAFETY: the description was made above, and the attribute is a 32-bit integer: 1 transposes.
        unsafe {
            result::set_matmul_desc_attribute(
                description,
                sys::cublasLtMatmulDescAttributes_t::CUBLASLT_MATMUL_DESC_TRANSA,
                (&raw const turn).cast(),
                size_of_val(&turn),
            )?;
        }
        let matrix = if kind.is_transposed { layout(outputs, depth)? } else { layout(depth, outputs)? };
        Ok(Self { description, matrix, rows: layout(depth, count)?, made: layout(outputs, count)? })
    }

    /// The fastest algorithm whose order of summation is fixed: in one place, or in parts that are added in order for a step, where the
    /// outputs of few rows do not occupy the whole device.
    fn choose(
        &self,
        handle: sys::cublasLtHandle_t,
        is_step: bool,
    ) -> std::result::Result<sys::cublasLtMatmulAlgo_t, CublasError> {
        let preference = result::create_matmul_pref()?;
        let set = |attribute, value: *const c_void, size| {
            // SAFETY: the preference was made above, and each attribute has the size that is given.
            unsafe { result::set_matmul_pref_attribute(preference, attribute, value, size) }
        };
        let (bytes, reduction) = (WORKSPACE, if is_step { IN_WORKSPACE } else { 0_u32 });
        set(
            sys::cublasLtMatmulPreferenceAttributes_t::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
            (&raw const bytes).cast(),
            size_of_val(&bytes),
        )?;
        set(
            sys::cublasLtMatmulPreferenceAttributes_t::CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
            (&raw const reduction).cast(),
            size_of_val(&reduction),
        )?;
        // SAFETY: descriptions and layouts are those of this problem.
        let found = unsafe {
            result::get_matmul_algo_heuristic(
                handle,
                self.description,
                self.matrix,
                self.rows,
                self.made,
                self.made,
                preference,
            )
        };
        // SAFETY: nothing uses the preference any more.
        unsafe { result::destroy_matmul_pref(preference)? };
        Ok(found?.algo)
    }
}

impl Drop for Problem {
    fn drop(&mut self) {
        // Failing to free a few bytes of the host is no reason to stop.
        // SAFETY: nothing uses these any more.
        unsafe {
            let _ = result::destroy_matmul_desc(self.description);
            for layout in [self.matrix, self.rows, self.made] {
                let _ = result::destroy_matrix_layout(layout);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use candle_core::Device;

    use super::*;

    fn numbers(rows: usize, columns: usize, device: &Device) -> Tensor {
        Tensor::randn(0.0_f32, 1.0, (rows, columns), device).unwrap().to_dtype(DType::BF16).unwrap()
    }

    fn bits(tensor: &Tensor) -> Vec<half::bf16> {
        tensor.flatten_all().unwrap().to_vec1().unwrap()
    }

    #[test]
    fn rows_have_the_same_bits_in_any_batch() {
        let Ok(device) = Device::new_cuda(0) else { return };
        for (depth, outputs) in
            [(4096, 14336), (14336, 4096), (4096, 1024), (2048, 2048), (4096, 128_256), (576, 192)]
        {
            for is_step in [false, true] {
                let check = || {
                    let (rows, matrix) = (numbers(1500, depth, &device), numbers(outputs, depth, &device));
                    let all = multiply(&rows, &matrix, false).unwrap().unwrap();
                    let exact = rows.to_dtype(DType::F32).unwrap().narrow(0, 0, 8).unwrap();
                    let exact = exact.matmul(&matrix.to_dtype(DType::F32).unwrap().t().unwrap()).unwrap();
                    let near = all.narrow(0, 0, 8).unwrap().to_dtype(DType::F32).unwrap();
                    let error = (near - &exact)
                        .unwrap()
                        .sqr()
                        .unwrap()
                        .mean_all()
                        .unwrap()
                        .to_scalar::<f32>()
                        .unwrap();
                    assert!(error < 1e-4 * depth as f32, "{depth} by {outputs}: {error}");
                    let turned = matrix.t().unwrap().contiguous().unwrap();
                    let stored = multiply(&rows, &turned, true).unwrap().unwrap();
                    for (first, count) in
                        [(0, 1), (3, 7), (11, 64), (100, 65), (17, 129), (1, 256), (1000, 500), (0, 1499)]
                    {
                        let some = rows.narrow(0, first, count).unwrap();
                        let own = multiply(&some, &matrix, false).unwrap().unwrap();
                        let expected = all.narrow(0, first, count).unwrap();
                        assert!(
                            bits(&own) == bits(&expected),
                            "{depth} by {outputs}: {count} rows from {first}"
                        );
                        let own = multiply(&some, &turned, true).unwrap().unwrap();
                        let expected = stored.narrow(0, first, count).unwrap();
                        assert!(
                            bits(&own) == bits(&expected),
                            "stored by {depth}: {count} rows from {first}"
                        );
                    }
                };
                if is_step { in_steps(check) } else { check() }
            }
        }
    }
}
