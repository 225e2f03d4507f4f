//! Activation functions.

use candle_core::{CpuStorage, CustomOp2, DType, Layout, Result, Shape, Tensor};
use candle_nn::ops;
use lmeval_pycompat::Value;
use rayon::prelude::*;

use super::simd;
use crate::config::Config;

/// Elements per parallel task.
const CHUNK: usize = 16 * 1024;

/// An elementwise activation function.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Activation {
    /// `x · sigmoid(x)`.
    Silu,
    /// GELU.
    Gelu,
    /// GELU with the tanh approximation.
    GeluTanh,
    /// GELU clamped to [-10, 10].
    GeluClipped,
    /// `x · sigmoid(1.702 · x)`.
    QuickGelu,
    /// `max(x, 0)`.
    Relu,
    /// `max(x, 0)²`.
    ReluSquared,
    /// `x` clamped to [0, 6].
    Relu6,
    /// `x` if positive, else `0.01 · x`.
    LeakyRelu,
    /// `x · min(max(x + 3, 0), 6) / 6`.
    HardSwish,
    /// `x · tanh(ln(1 + exp(x)))`.
    Mish,
    /// `1 / (1 + exp(-x))`.
    Sigmoid,
    /// `tanh(x)`.
    Tanh,
    /// `x`.
    Identity,
    /// `silu(scale · x)`.
    ScaledSilu(f64),
    /// `x · sigmoid(slope · x)` of a number clamped to at most the limit. The numbers that it gates are clamped on both sides
    /// and increased by 1.
    Clamped {
        /// Scales the number in the sigmoid.
        slope: f64,
        /// The largest number.
        limit: f64,
    },
}

/// Functions by their names in configurations.
const NAMES: &[(&str, Activation)] = &[
    ("silu", Activation::Silu),
    ("swish", Activation::Silu),
    ("gelu", Activation::Gelu),
    ("gelu_python", Activation::Gelu),
    ("gelu_new", Activation::GeluTanh),
    ("gelu_fast", Activation::GeluTanh),
    ("gelu_accurate", Activation::GeluTanh),
    ("gelu_pytorch_tanh", Activation::GeluTanh),
    ("gelu_python_tanh", Activation::GeluTanh),
    ("gelu_10", Activation::GeluClipped),
    ("quick_gelu", Activation::QuickGelu),
    ("relu", Activation::Relu),
    ("relu2", Activation::ReluSquared),
    ("relu6", Activation::Relu6),
    ("leaky_relu", Activation::LeakyRelu),
    ("hardswish", Activation::HardSwish),
    ("mish", Activation::Mish),
    ("sigmoid", Activation::Sigmoid),
    ("tanh", Activation::Tanh),
    ("linear", Activation::Identity),
];

impl Activation {
    /// Reads the function named by a configuration field.
    pub(crate) fn read(config: &Config, field: &str, default: &str) -> crate::Result<Self> {
        Self::named(config, field, config.string(field)?.unwrap_or(default))
    }

    /// The function of a name that a configuration field contains.
    pub(crate) fn named(config: &Config, field: &str, name: &str) -> crate::Result<Self> {
        if let Some((_, known)) = NAMES.iter().find(|(known, _)| *known == name) {
            return Ok(*known);
        }
        let known: Vec<&str> = NAMES.iter().map(|(known, _)| *known).collect();
        Err(config.wrong(field, &format!("one of `{}`", known.join("`, `")), &Value::str(name)))
    }

    /// Applies the function.
    pub(crate) fn forward(self, rows: &Tensor) -> Result<Tensor> {
        match self {
            Self::Silu => rows.silu(),
            Self::Gelu => rows.gelu_erf(),
            Self::GeluTanh => rows.gelu(),
            Self::GeluClipped => rows.gelu_erf()?.clamp(-10.0, 10.0),
            Self::QuickGelu => rows * ops::sigmoid(&(rows * 1.702)?)?,
            Self::Relu => rows.relu(),
            Self::ReluSquared => rows.relu()?.sqr(),
            Self::Relu6 => rows.clamp(0.0, 6.0),
            Self::LeakyRelu => ops::leaky_relu(rows, 0.01),
            Self::HardSwish => ((rows + 3.0)?.clamp(0.0, 6.0)? * rows)? / 6.0,
            Self::Mish => {
                // A form of the logarithm that cannot overflow.
                let small = (rows.abs()?.neg()?.exp()? + 1.0)?.log()?;
                rows * (rows.relu()? + small)?.tanh()?
            }
            Self::Sigmoid => ops::sigmoid(rows),
            Self::Tanh => rows.tanh(),
            Self::Identity => Ok(rows.clone()),
            Self::ScaledSilu(scale) => (rows * scale)?.silu(),
            Self::Clamped { slope, limit } => {
                let rows = rows.minimum(limit)?;
                &rows * ops::sigmoid(&(&rows * slope)?)?
            }
        }
    }

    /// Applies the function to `gate` and multiplies elementwise with `rows`.
    pub(crate) fn gated(self, gate: &Tensor, rows: &Tensor) -> Result<Tensor> {
        if self == Self::Silu && gate.device().is_cpu() && gate.dtype() == DType::F32 {
            return gate.contiguous()?.apply_op2_no_bwd(&rows.contiguous()?, &SiluTimes);
        }
        #[cfg(feature = "cuda")]
        if self == Self::Silu
            && let Some(made) = crate::cuda::silu_times(&gate.contiguous()?, &rows.contiguous()?, false)?
        {
            return Ok(made);
        }
        if let Self::Clamped { limit, .. } = self {
            return self.forward(gate)? * (rows.clamp(-limit, limit)? + 1.0)?;
        }
        self.forward(gate)? * rows
    }
}

impl Activation {
    /// The same for a gate that nothing else reads, whose memory the result may take.
    pub(crate) fn gated_in_place(self, gate: &Tensor, rows: &Tensor) -> Result<Tensor> {
        #[cfg(feature = "cuda")]
        if self == Self::Silu
            && let Some(made) = crate::cuda::silu_times(gate, rows, true)?
        {
            return Ok(made);
        }
        self.gated(gate, rows)
    }
}

/// Fused `silu(gate) · rows`.
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

/// The elements of a contiguous tensor.
pub(super) fn slice<'storage>(storage: &'storage CpuStorage, layout: &Layout) -> Result<&'storage [f32]> {
    let numbers = storage.as_slice::<f32>()?;
    match layout.contiguous_offsets() {
        Some((start, end)) => Ok(&numbers[start..end]),
        None => candle_core::bail!("the tensor is not contiguous"),
    }
}

#[cfg(test)]
mod tests {
    use candle_core::Device;
    use lmeval_pycompat::Dict;

    use super::*;

    #[test]
    fn functions_are_those_of_the_reference() {
        let rows = Tensor::new(&[-12.0_f32, -2.5, -0.3, 0.0, 0.7, 4.0, 30.0], &Device::Cpu).unwrap();
        let recorded: [(&str, [f32; 7]); 14] = [
            ("silu", [-7.37301e-05, -0.1896455, -0.1276672, 0.0, 0.4677314, 3.928055, 30.0]),
            ("gelu", [0.0, -0.01552416, -0.1146266, 0.0, 0.5306254, 3.999873, 30.0]),
            ("gelu_new", [0.0, -0.01508427, -0.1146291, 0.0, 0.5305701, 3.99993, 30.0]),
            ("gelu_10", [0.0, -0.01552416, -0.1146266, 0.0, 0.5306254, 3.999873, 10.0]),
            ("quick_gelu", [-1.618642e-08, -0.03498617, -0.1125159, 0.0, 0.536894, 3.995585, 30.0]),
            ("relu", [0.0, 0.0, 0.0, 0.0, 0.7, 4.0, 30.0]),
            ("relu2", [0.0, 0.0, 0.0, 0.0, 0.49, 16.0, 900.0]),
            ("relu6", [0.0, 0.0, 0.0, 0.0, 0.7, 4.0, 6.0]),
            ("leaky_relu", [-0.12, -0.025, -0.003, 0.0, 0.7, 4.0, 30.0]),
            ("hardswish", [0.0, -0.2083333, -0.135, 0.0, 0.4316667, 4.0, 30.0]),
            ("mish", [-7.373032e-05, -0.1968162, -0.1511332, 0.0, 0.5611484, 3.997413, 30.0]),
            ("sigmoid", [6.144175e-06, 0.07585818, 0.4255575, 0.5, 0.6681878, 0.9820138, 1.0]),
            ("tanh", [-1.0, -0.9866143, -0.2913126, 0.0, 0.6043678, 0.9993293, 1.0]),
            ("linear", [-12.0, -2.5, -0.3, 0.0, 0.7, 4.0, 30.0]),
        ];
        for (name, expected) in recorded {
            let mut fields = Dict::new();
            fields.insert("hidden_act", name);
            let activation = Activation::read(&Config::from_fields(fields), "hidden_act", "silu").unwrap();
            let found = activation.forward(&rows).unwrap().to_vec1::<f32>().unwrap();
            for (found, expected) in found.iter().zip(expected) {
                assert!(
                    (found - expected).abs() < 1e-6 * expected.abs().max(1.0),
                    "{name}: {found} {expected}"
                );
            }
        }
    }
}
