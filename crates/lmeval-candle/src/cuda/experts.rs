//! Mixtures of experts: the products of all experts in one kernel, on devices of compute capability 9.0.

use candle_core::cuda::WrapErr;
use candle_core::cuda::cudarc::driver::sys::CUfunction_attribute;
use candle_core::cuda::cudarc::driver::{LaunchConfig, PushKernelArg};
use candle_core::{Result, Tensor};

use super::module::is_hopper;
use super::staging::numbers_on;
use super::{Module, address, address_if, device_of, half_suffix, kernel, silu_times, unwritten};

/// Rows and outputs of a block, and its threads, as in `hopper.cu`.
const ROWS: usize = 128;
const OUTPUTS: usize = 128;
const THREADS: u32 = 384;
/// Shared memory: four copies of 64 columns of rows and matrix, barriers, and room to align them.
const SHARED: usize = 4 * (ROWS + OUTPUTS) * 64 * 2 + 64 + 1024;
/// Threads of a block that sums.
const SUM_THREADS: usize = 256;

/// The matrices of an expert with a SiLU gate: `[inner, width]`, `[inner, width]` and `[width, inner]`.
pub(crate) struct Expert<'a> {
    pub(crate) gate: &'a Tensor,
    pub(crate) up: &'a Tensor,
    pub(crate) down: &'a Tensor,
}

/// Which rows go to which expert.
struct Routes {
    /// The rows of all experts, one expert after the other.
    rows: Tensor,
    /// An expert, a first row among these, and a number of rows for each block.
    tiles: Tensor,
    /// For each row of the batch and each of its experts, the index among these and the weight.
    places: Tensor,
    weights: Tensor,
    pairs: usize,
    per_row: usize,
}

/// The weighted sums of what the chosen experts make of rows; `None` if there is no kernel for it. A row has the same bits whatever the
/// other rows are.
pub(crate) fn experts(
    rows: &Tensor,
    experts: &[Expert<'_>],
    chosen: &[Vec<(usize, f32)>],
) -> Result<Option<Tensor>> {
    let (count, width) = rows.dims2()?;
    let (Some(first), Some(one)) = (experts.first(), chosen.first()) else { return Ok(None) };
    let inner = first.gate.dim(0)?;
    let Some(suffix) = half_suffix(rows.dtype()).filter(|_| rows.device().is_cuda()) else { return Ok(None) };
    let is_plain = |matrix: &Tensor, dims: [usize; 2]| {
        matrix.dims() == dims
            && matrix.is_contiguous()
            && matrix.dtype() == rows.dtype()
            && matrix.layout().start_offset().is_multiple_of(8)
    };
    let fits = count == chosen.len()
        && !one.is_empty()
        && chosen.iter().all(|experts| experts.len() == one.len())
        && width.is_multiple_of(OUTPUTS)
        && inner.is_multiple_of(OUTPUTS)
        && is_hopper(device_of(rows)?)
        && experts.iter().all(|expert| {
            is_plain(expert.gate, [inner, width])
                && is_plain(expert.up, [inner, width])
                && is_plain(expert.down, [width, inner])
        });
    let rows = rows.contiguous()?;
    if !fits || !rows.layout().start_offset().is_multiple_of(8) {
        return Ok(None);
    }
    let routes = Routes::new(chosen, experts.len(), one.len(), &rows)?;
    let tables = tables(experts, &rows)?;
    let table = |index: usize| tables.narrow(0, index * experts.len() * 2, experts.len() * 2);
    let gate = routes.multiply(&rows, true, &table(0)?, inner, suffix)?;
    let up = routes.multiply(&rows, true, &table(1)?, inner, suffix)?;
    let Some(made) = silu_times(&gate, &up, true)? else { return Ok(None) };
    drop(up);
    let made = routes.multiply(&made, false, &table(2)?, width, suffix)?;
    routes.combine(&made, count, suffix).map(Some)
}

/// The addresses of all matrices: those of gates, then the others.
fn tables(experts: &[Expert<'_>], rows: &Tensor) -> Result<Tensor> {
    let mut words = Vec::with_capacity(experts.len() * 6);
    let parts: [fn(&Expert<'_>) -> Result<u64>; 3] =
        [|expert| address(expert.gate), |expert| address(expert.up), |expert| address(expert.down)];
    for part in parts {
        for expert in experts {
            let address = part(expert)?;
            words.extend([address as u32, (address >> 32) as u32]);
        }
    }
    numbers_on(&words, rows.device())
}

impl Routes {
    fn new(chosen: &[Vec<(usize, f32)>], experts: usize, per_row: usize, rows: &Tensor) -> Result<Self> {
        let mut of_experts: Vec<Vec<u32>> = vec![Vec::new(); experts];
        let mut weights = Vec::with_capacity(chosen.len() * per_row);
        // The expert and the index among its rows.
        let mut places = Vec::with_capacity(chosen.len() * per_row);
        for (row, chosen) in chosen.iter().enumerate() {
            let mut chosen = chosen.clone();
            chosen.sort_unstable_by_key(|(expert, _)| *expert);
            for (expert, weight) in chosen {
                let Some(own) = of_experts.get_mut(expert) else {
                    candle_core::bail!("there is no expert {expert}");
                };
                places.push((expert, own.len()));
                own.push(row as u32);
                weights.push(weight.to_bits());
            }
        }
        let mut first = 0;
        let (mut firsts, mut tiles) = (Vec::with_capacity(experts), Vec::new());
        for (expert, own) in of_experts.iter().enumerate() {
            firsts.push(first);
            for start in (0..own.len()).step_by(ROWS) {
                tiles
                    .extend([expert, first + start, ROWS.min(own.len() - start)].map(|number| number as u32));
            }
            first += own.len();
        }
        let places: Vec<u32> =
            places.into_iter().map(|(expert, index)| (firsts[expert] + index) as u32).collect();
        let device = rows.device();
        Ok(Self {
            rows: numbers_on(&of_experts.concat(), device)?,
            tiles: numbers_on(&tiles, device)?,
            places: numbers_on(&places, device)?,
            weights: numbers_on(&weights, device)?,
            pairs: first,
            per_row,
        })
    }

    /// The products of rows with the matrices of their experts. Rows are those of the batch, or one for each expert of a row.
    fn multiply(
        &self,
        rows: &Tensor,
        is_batch: bool,
        matrices: &Tensor,
        outputs: usize,
        suffix: &str,
    ) -> Result<Tensor> {
        let device = device_of(rows)?;
        let made = unwritten((self.pairs, outputs), rows.dtype(), device)?;
        let chosen = address_if(is_batch.then_some(&self.rows))?;
        let addresses = [address(rows)?, chosen, address(matrices)?, address(&made)?, address(&self.tiles)?];
        let sizes = [rows.dim(1)?, outputs].map(|size| size as i32);
        let function = kernel(device, Module::Hopper, &format!("multiply_experts_{suffix}"))?;
        let most = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        function.function().set_attribute(most, SHARED as i32).w()?;
        let mut arguments = function.builder();
        for address in &addresses {
            arguments.arg(address);
        }
        for size in &sizes {
            arguments.arg(size);
        }
        let config = LaunchConfig {
            grid_dim: ((outputs / OUTPUTS) as u32, (self.tiles.elem_count() / 3) as u32, 1),
            block_dim: (THREADS, 1, 1),
            shared_mem_bytes: SHARED as u32,
        };
        // SAFETY: `experts` has checked all sizes, and `new` the experts of all rows.
        unsafe { arguments.launch(config) }.w()?;
        Ok(made)
    }

    /// The weighted sum for each row of the batch.
    fn combine(&self, rows: &Tensor, count: usize, suffix: &str) -> Result<Tensor> {
        let device = device_of(rows)?;
        let width = rows.dim(1)?;
        let made = unwritten((count, width), rows.dtype(), device)?;
        let addresses = [address(rows)?, address(&self.places)?, address(&self.weights)?, address(&made)?];
        let sizes = [width, self.per_row].map(|size| size as i32);
        let function = kernel(device, Module::Kernels, &format!("combine_rows_{suffix}"))?;
        let mut arguments = function.builder();
        for address in &addresses {
            arguments.arg(address);
        }
        for size in &sizes {
            arguments.arg(size);
        }
        let threads = (width / 8).next_multiple_of(32).min(SUM_THREADS) as u32;
        let config =
            LaunchConfig { grid_dim: (count as u32, 1, 1), block_dim: (threads, 1, 1), shared_mem_bytes: 0 };
        // SAFETY: places are rows of the products, and the width is a multiple of eight.
        unsafe { arguments.launch(config) }.w()?;
        Ok(made)
    }
}

#[cfg(test)]
mod tests {
    use candle_core::{DType, Device};

    use super::*;

    #[test]
    fn experts_compute_what_separate_products_do() {
        let Ok(device) = Device::new_cuda(0) else { return };
        let cuda = device.as_cuda_device().unwrap();
        if !is_hopper(cuda) {
            return;
        }
        let (count, width, inner, of) = (300, 256, 384, 5);
        let numbers = |rows: usize, columns: usize, spread: f32| {
            let numbers = Tensor::randn(0.0_f32, spread, (rows, columns), &device).unwrap();
            numbers.to_dtype(DType::BF16).unwrap()
        };
        let matrices: Vec<[Tensor; 3]> = (0..of)
            .map(|_| [numbers(inner, width, 0.1), numbers(inner, width, 0.1), numbers(width, inner, 0.1)])
            .collect();
        let own: Vec<Expert<'_>> =
            matrices.iter().map(|[gate, up, down]| Expert { gate, up, down }).collect();
        let rows = numbers(count, width, 1.0);
        // The fourth expert has no rows, the first one more than a block.
        let chosen: Vec<Vec<(usize, f32)>> = (0..count)
            .map(|row| {
                vec![(if row % 3 == 0 { 4 } else { 0 }, 0.7), (1 + row % 2, 0.1 + (row % 7) as f32 / 10.0)]
            })
            .collect();
        let made = experts(&rows, &own, &chosen).unwrap().unwrap();
        let wide = |tensor: &Tensor| tensor.to_dtype(DType::F32).unwrap();
        let mut expected = vec![vec![0.0_f32; width]; count];
        for (expert, [gate, up, down]) in matrices.iter().enumerate() {
            let of = |matrix: &Tensor| wide(&rows).matmul(&wide(matrix).t().unwrap()).unwrap();
            let inside = (of(gate).silu().unwrap() * of(up)).unwrap();
            let made = inside.matmul(&wide(down).t().unwrap()).unwrap().to_vec2::<f32>().unwrap();
            for (row, chosen) in chosen.iter().enumerate() {
                for (_, weight) in chosen.iter().filter(|(own, _)| *own == expert) {
                    for (sum, number) in expected[row].iter_mut().zip(&made[row]) {
                        *sum += weight * number;
                    }
                }
            }
        }
        let found = wide(&made).to_vec2::<f32>().unwrap();
        let pairs = || found.iter().flatten().zip(expected.iter().flatten());
        let error: f32 = pairs().map(|(found, expected)| (found - expected).powi(2)).sum();
        let all: f32 = pairs().map(|(_, expected)| expected.powi(2)).sum();
        assert!((error / all).sqrt() < 1e-2, "{error} of {all}");
        let some = experts(&rows.narrow(0, 31, 20).unwrap(), &own, &chosen[31..51]).unwrap().unwrap();
        assert_eq!(wide(&some).to_vec2::<f32>().unwrap(), found[31..51]);
    }
}
