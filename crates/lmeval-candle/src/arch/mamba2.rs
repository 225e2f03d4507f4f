//! Mamba 2: layers of a selective scan by head alone. Several hybrids have the same layers.

use candle_core::{DType, Tensor};
use candle_nn::ops;
use lmeval_pycompat::Value;

use super::Architecture;
use super::decoder::Mixer;
use super::mamba;
use super::parts;
use crate::batch::Batch;
use crate::cache::{LayerCache, LayerShape};
use crate::config::Config;
use crate::error::Result;
use crate::layers::{Activation, Angles, CausalConv, HeadScan, HeadScanInputs, Linear, softplus};
use crate::weights::{Weights, checked_epsilon};

/// Builds Mamba 2.
pub(super) fn build(config: &Config, weights: &Weights) -> Result<Box<dyn Architecture>> {
    parts::only_flag(config, "rms_norm", true)?;
    let hidden = config.size("hidden_size")?;
    let sizes = Sizes {
        hidden,
        heads: config.size_or("num_heads", 128)?,
        width: config.size_or("head_dim", 64)?,
        groups: config.size_or("n_groups", 8)?,
        state: config.size_or("state_size", 128)?,
        length: config.size_or("conv_kernel", 4)?,
    };
    let inner = (config.number_or("expand", 2.0)? * hidden as f64) as usize;
    if sizes.inner() != inner {
        let expected = format!("such that heads of this width have {inner} numbers together");
        return Err(parts::wrong(config, "head_dim", &expected));
    }
    let bias = config.flag_or("use_bias", false)?;
    let options = Options {
        sizes: sizes.checked()?,
        biases: [bias, config.flag_or("use_conv_bias", true)?, bias],
        activation: Activation::read(config, "hidden_act", "silu")?,
        limits: limits(config)?,
        norm: GatedNorm { epsilon: config.number_or("layer_norm_epsilon", 1e-5)?, ..GatedNorm::default() },
    };
    let frame = mamba::Frame::read(config, false)?;
    mamba::build_with(config, weights, frame, &|_, weights| Mamba2::load(&options, weights))
}

/// The bounds of times: `time_step_limit`, whose second number may be infinite.
pub(super) fn limits(config: &Config) -> Result<[f64; 2]> {
    let Some(value) = config.get("time_step_limit") else { return Ok([0.0, f64::INFINITY]) };
    // Reference: newer versions write infinity as an object.
    let is_infinity = |value: &Value| {
        value.as_dict().and_then(|fields| fields.get_str("__float__")?.as_str()) == Some("Infinity")
    };
    let number = |value: &Value| if is_infinity(value) { Some(f64::INFINITY) } else { value.to_f64() };
    let numbers = value.as_list().map(|list| list.iter().map(number).collect::<Option<Vec<f64>>>());
    match numbers.flatten().as_deref() {
        Some(&[low, high]) if low <= high => Ok([low, high]),
        _ => Err(parts::wrong(config, "time_step_limit", "two numbers, the smaller one first")),
    }
}

/// The sizes of a layer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    pub(super) hidden: usize,
    pub(super) heads: usize,
    pub(super) width: usize,
    pub(super) groups: usize,
    pub(super) state: usize,
    /// The length of the convolution.
    pub(super) length: usize,
}

impl Sizes {
    /// Reads the names that hybrids have. `inner` is the width of all heads together.
    pub(super) fn read(config: &Config, inner: usize) -> Result<Self> {
        let heads = config.size_or("mamba_n_heads", 128)?;
        let width = match config.get("mamba_d_head") {
            Some(value) if value.as_str() != Some("auto") => config.size("mamba_d_head")?,
            _ => inner / heads.max(1),
        };
        if heads * width != inner {
            let expected = format!("a divisor of {inner}, the width of all heads");
            return Err(parts::wrong(config, "mamba_n_heads", &expected));
        }
        let sizes = Self {
            hidden: config.size("hidden_size")?,
            heads,
            width,
            groups: config.size_or("mamba_n_groups", 1)?,
            state: config.size_or("mamba_d_state", 256)?,
            length: config.size_or("mamba_d_conv", 4)?,
        };
        sizes.checked()
    }

    /// Checks that the groups divide the heads.
    pub(super) fn checked(self) -> Result<Self> {
        let Self { heads, width, groups, state, length, .. } = self;
        if [width, groups, state, length].contains(&0) || !heads.is_multiple_of(groups) {
            let message = format!(
                "{heads} heads of width {width} cannot share the factors of {groups} groups of width {state}, \
                 or the convolution has no length"
            );
            return Err(crate::Error::unsupported(message));
        }
        Ok(self)
    }

    /// The width of all heads.
    pub(super) fn inner(self) -> usize {
        self.heads * self.width
    }

    /// The width of the factors of all groups.
    fn factors(self) -> usize {
        self.groups * self.state
    }

    /// The widths of the parts of the projection: gates, rows, factors of what is taken in and read, times.
    pub(super) fn parts(self) -> [usize; 5] {
        [self.inner(), self.inner(), self.factors(), self.factors(), self.heads]
    }
}

/// How the output of the scan is gated and normalised.
#[derive(Clone, Copy, Debug)]
pub(super) struct GatedNorm {
    pub(super) epsilon: f64,
    /// The number of parts that are normalised each for itself; 0 without a norm.
    pub(super) groups: usize,
    /// Whether the gate comes behind the norm.
    pub(super) norm_first: bool,
}

impl Default for GatedNorm {
    fn default() -> Self {
        Self { epsilon: 1e-5, groups: 1, norm_first: false }
    }
}

/// What layers differ in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Options {
    pub(super) sizes: Sizes,
    /// Biases of the projection, of the convolution, and of the output projection.
    pub(super) biases: [bool; 3],
    pub(super) activation: Activation,
    /// The bounds of times.
    pub(super) limits: [f64; 2],
    pub(super) norm: GatedNorm,
}

/// A layer.
#[derive(Debug)]
pub(super) struct Mamba2 {
    projection: Linear,
    /// Scales the outputs of the projection.
    pub(super) scales: Option<Tensor>,
    conv: CausalConv,
    /// Added to times, in float32.
    time_bias: Tensor,
    scan: HeadScan,
    /// The weights of the norm, in float32.
    norm: Option<Tensor>,
    output: Linear,
    options: Options,
}

impl Options {
    /// Reads the names that hybrids have. `inner` is the width of all heads together.
    pub(super) fn read(config: &Config, inner: usize) -> Result<Self> {
        let bias = config.flag_or("mamba_proj_bias", false)?;
        Ok(Self {
            sizes: Sizes::read(config, inner)?,
            biases: [bias, config.flag_or("mamba_conv_bias", true)?, bias],
            activation: Activation::read(config, "hidden_act", "silu")?,
            limits: limits(config)?,
            norm: GatedNorm { epsilon: config.number_or("rms_norm_eps", 1e-5)?, ..GatedNorm::default() },
        })
    }
}

impl Mamba2 {
    pub(super) fn load(options: &Options, weights: &Weights) -> Result<Self> {
        let Options { sizes, biases, norm, .. } = *options;
        let Sizes { hidden, heads, width, groups, state, length } = sizes;
        let inner = sizes.inner();
        let channels = inner + 2 * sizes.factors();
        let wide = weights.widened();
        let kernels = wide.tensor("conv1d.weight", &[channels, 1, length])?.squeeze(1)?;
        let added = if biases[1] { Some(wide.tensor("conv1d.bias", &[channels])?) } else { None };
        let scan = HeadScan {
            rates: wide.tensor("A_log", &[heads])?.exp()?.neg()?.to_vec1()?,
            skips: wide.tensor("D", &[heads])?.to_vec1()?,
            width,
            state,
            groups,
        };
        let has_norm = norm.groups > 0;
        Ok(Self {
            projection: weights.linear("in_proj", hidden, sizes.parts().iter().sum(), biases[0])?,
            scales: None,
            conv: CausalConv::new(&kernels, added)?,
            time_bias: wide.tensor("dt_bias", &[heads])?,
            scan,
            norm: if has_norm { Some(wide.tensor("norm.weight", &[inner])?) } else { None },
            output: weights.linear("out_proj", inner, hidden, biases[2])?,
            options: *options,
        })
    }

    /// Gates and normalises rows in float32.
    fn finish(&self, rows: &Tensor, gates: &Tensor) -> Result<Tensor> {
        let GatedNorm { epsilon, groups, norm_first } = self.options.norm;
        let Some(weight) = &self.norm else { return Ok(Activation::Silu.gated(gates, rows)?) };
        let normalise = |rows: &Tensor| -> Result<Tensor> {
            let (count, width) = rows.dims2()?;
            let ones = Tensor::ones(width / groups, DType::F32, rows.device())?;
            let parts = rows.reshape((count, groups, width / groups))?.contiguous()?;
            let parts = ops::rms_norm(&parts, &ones, checked_epsilon(epsilon)?)?;
            Ok(parts.reshape((count, width))?.broadcast_mul(weight)?)
        };
        if norm_first {
            return Ok(Activation::Silu.gated(gates, &normalise(rows)?)?);
        }
        normalise(&Activation::Silu.gated(gates, rows)?)
    }
}

impl Mixer for Mamba2 {
    fn stores(&self) -> LayerShape {
        LayerShape::states([self.conv.state(), self.scan.shape()])
    }

    fn forward(
        &self,
        rows: &Tensor,
        _: Option<&Angles>,
        batch: &Batch,
        cache: &LayerCache,
    ) -> Result<Tensor> {
        let Options { sizes, activation, limits: [low, high], .. } = self.options;
        let (inner, factors) = (sizes.inner(), sizes.factors());
        let mut projected = self.projection.forward(rows)?;
        if let Some(scales) = &self.scales {
            projected = projected.broadcast_mul(scales)?;
        }
        let mixed = projected.narrow(1, inner, inner + 2 * factors)?.contiguous()?;
        let mixed = activation.forward(&self.conv.forward(&mixed, batch, cache.states(0)?)?)?;
        let mixed = mixed.to_dtype(DType::F32)?;
        let times = projected.narrow(1, 2 * (inner + factors), sizes.heads)?.to_dtype(DType::F32)?;
        let mut times = softplus(&times.broadcast_add(&self.time_bias)?.contiguous()?)?;
        if low > 0.0 || high.is_finite() {
            times = times.clamp(low, high)?;
        }
        let part = |first: usize, width: usize| mixed.narrow(1, first, width)?.contiguous();
        let inputs = HeadScanInputs {
            rows: part(0, inner)?,
            times,
            inputs: part(inner, factors)?,
            outputs: part(inner + factors, factors)?,
        };
        let made = self.scan.forward(&inputs, batch, cache.states(1)?)?;
        let gates = projected.narrow(1, 0, inner)?.to_dtype(DType::F32)?.contiguous()?;
        let made = self.finish(&made, &gates)?;
        Ok(self.output.forward(&made.to_dtype(rows.dtype())?)?)
    }
}
