//! Activation functions.

use candle_core::{CpuStorage, CustomOp2, DType, Layout, Result, Shape, Tensor};
use lmeval_pycompat::Value;
use rayon::prelude::*;

use super::simd;
use crate::config::Config;

/// How many numbers a core works on at a time.
const CHUNK: usize = 16 * 1024;

/// A function of single numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// `x · sigmoid(x)`.
    Silu,
    /// The Gaussian error linear unit.
    Gelu,
    /// The Gaussian error linear unit, approximated with a hyperbolic tangent.
    GeluTanh,
    /// `max(x, 0)`.
    Relu,
}

impl Activation {
    /// The function that a field of the configuration names.
    pub fn read(config: &Config, field: &str, default: &str) -> crate::Result<Self> {
        let name = config.text(field)?.unwrap_or(default);
        match name {
            "silu" | "swish" => Ok(Self::Silu),
            "gelu" => Ok(Self::Gelu),
            "gelu_new" | "gelu_pytorch_tanh" | "gelu_fast" => Ok(Self::GeluTanh),
            "relu" => Ok(Self::Relu),
            other => {
                let known = "`silu`, `gelu`, `gelu_new`, `gelu_pytorch_tanh` or `relu`";
                Err(config.wrong(field, known, &Value::str(other)))
            }
        }
    }

    /// The function of each number.
    pub fn forward(self, rows: &Tensor) -> Result<Tensor> {
        match self {
            Self::Silu => rows.silu(),
            Self::Gelu => rows.gelu_erf(),
            Self::GeluTanh => rows.gelu(),
            Self::Relu => rows.relu(),
        }
    }

    /// The function of each number of `gate`, times the number of `rows` at the same place.
    pub fn gated(self, gate: &Tensor, rows: &Tensor) -> Result<Tensor> {
        if self == Self::Silu && gate.device().is_cpu() && gate.dtype() == DType::F32 {
            return gate.contiguous()?.apply_op2_no_bwd(&rows.contiguous()?, &SiluTimes);
        }
        #[cfg(feature = "cuda")]
        if self == Self::Silu
            && let Some(made) = crate::cuda::silu_times(gate, rows)?
        {
            return Ok(made);
        }
        self.forward(gate)? * rows
    }
}

/// `silu(gate) · rows` in one pass over the memory.
struct SiluTimes;

impl CustomOp2 for SiluTimes {
    fn name(&self) -> &'static str {
        "silu-times"
    }

    fn cpu_fwd(
        &self,
        gate: &CpuStorage,
        gate_layout: &Layout,
        rows: &CpuStorage,
        rows_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let (gate, rows) = (slice(gate, gate_layout)?, slice(rows, rows_layout)?);
        let mut made = gate.to_vec();
        made.par_chunks_mut(CHUNK)
            .zip(rows.par_chunks(CHUNK))
            .for_each(|(made, rows)| simd::silu_times(made, rows));
        Ok((CpuStorage::F32(made), gate_layout.shape().clone()))
    }
}

/// The numbers of a contiguous tensor.
pub(super) fn slice<'storage>(storage: &'storage CpuStorage, layout: &Layout) -> Result<&'storage [f32]> {
    let numbers = storage.as_slice::<f32>()?;
    match layout.contiguous_offsets() {
        Some((start, end)) => Ok(&numbers[start..end]),
        None => candle_core::bail!("the tensor is not contiguous"),
    }
}
