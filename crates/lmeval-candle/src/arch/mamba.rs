//! Mamba and Falcon Mamba: layers of a selective scan alone. Jamba has the same layers.

use candle_core::{DType, Tensor};

use super::decoder::{Block, Decoder, FeedForward, Flow, Input, Mixer, Output};
use super::parts;
use super::{Architecture, Shape};
use crate::batch::Batch;
use crate::cache::{LayerCache, LayerShape};
use crate::config::Config;
use crate::error::Result;
use crate::layers::{Activation, Angles, CausalConv, ChannelScan, Linear, Norm, softplus};
use crate::weights::Weights;

/// Builds Mamba.
pub(super) fn build(config: &Config, weights: &Weights) -> Result<Box<dyn Architecture>> {
    let frame = Frame::read(config, true)?;
    build_with(config, weights, frame, &|_, weights| Mamba::load(&Options::read(config)?, weights))
}

/// Builds Falcon Mamba, which normalises the factors of the scan.
pub(super) fn build_falcon(config: &Config, weights: &Weights) -> Result<Box<dyn Architecture>> {
    let frame = Frame::read(config, true)?;
    build_with(config, weights, frame, &|_, weights| {
        let options = Options::read(config)?;
        let mut mamba = Mamba::load(&options, weights)?;
        let epsilon = config.number_or("mixer_rms_eps", 1e-6)?;
        let norm = |width: usize| parts::plain_rms_norm(weights, width, epsilon);
        mamba.norms = Some([norm(options.rank)?, norm(options.state)?, norm(options.state)?]);
        Ok(mamba)
    })
}

/// What models of layers without feed-forward parts differ in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    /// The number of layers.
    pub(super) layers: usize,
    /// The default of `tie_word_embeddings`.
    pub(super) tied: bool,
    /// Whether residual sums are in float32 whatever the model computes in.
    pub(super) is_wide: bool,
}

impl Frame {
    /// The fields of Mamba. `tied` is the default of `tie_word_embeddings`.
    pub(super) fn read(config: &Config, tied: bool) -> Result<Self> {
        let is_wide = config.flag_or("residual_in_fp32", true)?;
        Ok(Self { layers: config.size("num_hidden_layers")?, tied, is_wide })
    }
}

/// Builds a model of layers without feed-forward parts.
pub(super) fn build_with<M: Mixer + 'static>(
    config: &Config,
    weights: &Weights,
    frame: Frame,
    mixer: &dyn Fn(usize, &Weights) -> Result<M>,
) -> Result<Box<dyn Architecture>> {
    let hidden = config.size("hidden_size")?;
    let vocabulary = config.size("vocab_size")?;
    let model = weights.find(&["backbone", "model", ""], "embeddings.weight")?;
    let embedding = model.matrix("embeddings.weight", [vocabulary, hidden])?;
    let epsilon = config.number_or("layer_norm_epsilon", 1e-5)?;
    let blocks = (0..frame.layers).map(|index| {
        let weights = model.at("layers").at(index);
        let norm = weights.rms_norm("norm", hidden, epsilon, 0.0)?;
        Ok(Block {
            flow: Flow::Alone { norm, is_wide: frame.is_wide },
            attention: mixer(index, &weights.at("mixer"))?,
            feed_forward: FeedForward::None,
            rotary: None,
        })
    });
    let blocks: Vec<Block<M>> = blocks.collect::<Result<_>>()?;
    let layers = blocks.iter().map(|block| block.attention.stores()).collect();
    let tied = config.flag_or("tie_word_embeddings", frame.tied)?;
    let head = parts::head(weights, "lm_head", &embedding, tied)?;
    Ok(Box::new(Decoder {
        shape: Shape { layers, hidden, vocabulary, positions: None },
        input: Input::new(&embedding)?,
        blocks,
        output: Output::new(model.rms_norm("norm_f", hidden, epsilon, 0.0)?, head),
        rotaries: Vec::new(),
    }))
}

/// The sizes and switches of a layer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Options {
    pub(super) hidden: usize,
    pub(super) inner: usize,
    pub(super) state: usize,
    /// The width of what times are projected from.
    pub(super) rank: usize,
    /// The length of the convolution.
    pub(super) length: usize,
    pub(super) bias: bool,
    pub(super) conv_bias: bool,
    pub(super) activation: Activation,
}

impl Options {
    fn read(config: &Config) -> Result<Self> {
        let hidden = config.size("hidden_size")?;
        // Reference: rounded down, and the field `intermediate_size` is ignored.
        let inner = (config.number_or("expand", 2.0)? * hidden as f64) as usize;
        Ok(Self {
            hidden,
            inner,
            state: config.size_or("state_size", 16)?,
            rank: rank(config, "time_step_rank", hidden)?,
            length: config.size_or("conv_kernel", 4)?,
            bias: config.flag_or("use_bias", false)?,
            conv_bias: config.flag_or("use_conv_bias", true)?,
            activation: Activation::read(config, "hidden_act", "silu")?,
        })
    }
}

/// The width of what times are projected from: a number, or `auto`.
pub(super) fn rank(config: &Config, field: &str, hidden: usize) -> Result<usize> {
    match config.get(field) {
        Some(value) if value.as_str() == Some("auto") => Ok(hidden.div_ceil(16)),
        None => Ok(hidden.div_ceil(16)),
        Some(_) => config.size(field),
    }
}

/// A layer.
#[derive(Debug)]
pub(super) struct Mamba {
    /// Projects to inner rows and their gates.
    projection: Linear,
    conv: CausalConv,
    activation: Activation,
    /// Projects to what times are projected from, and to the factors of what is taken in and read.
    factors: Linear,
    times: Linear,
    /// Added to times, in float32.
    time_bias: Tensor,
    /// Norms of the three outputs of `factors`.
    pub(super) norms: Option<[Norm; 3]>,
    scan: ChannelScan,
    output: Linear,
    options: Options,
}

impl Mamba {
    pub(super) fn load(options: &Options, weights: &Weights) -> Result<Self> {
        let Options { hidden, inner, state, rank, length, bias, conv_bias, activation } = *options;
        let wide = weights.widened();
        let kernels = wide.tensor("conv1d.weight", &[inner, 1, length])?.squeeze(1)?;
        let added = if conv_bias { Some(wide.tensor("conv1d.bias", &[inner])?) } else { None };
        let rates = wide.tensor("A_log", &[inner, state])?.exp()?.neg()?;
        Ok(Self {
            projection: weights.linear("in_proj", hidden, 2 * inner, bias)?,
            conv: CausalConv::new(&kernels, added)?,
            activation,
            factors: weights.linear("x_proj", inner, rank + 2 * state, false)?,
            times: weights.linear("dt_proj", rank, inner, false)?,
            time_bias: wide.tensor("dt_proj.bias", &[inner])?,
            norms: None,
            scan: ChannelScan::new(rates, wide.tensor("D", &[inner])?)?,
            output: weights.linear("out_proj", inner, hidden, bias)?,
            options: *options,
        })
    }
}

impl Mixer for Mamba {
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
        let Options { inner, state, rank, .. } = self.options;
        let projected = self.projection.forward(rows)?;
        let inputs = projected.narrow(1, 0, inner)?.contiguous()?;
        let gates = projected.narrow(1, inner, inner)?.contiguous()?;
        let inputs = self.activation.forward(&self.conv.forward(&inputs, batch, cache.states(0)?)?)?;
        let factors = self.factors.forward(&inputs)?;
        let part = |index: usize, first: usize, width: usize| {
            let part = factors.narrow(1, first, width)?.contiguous()?;
            match &self.norms {
                Some(norms) => norms[index].forward(&part),
                None => Ok(part),
            }
        };
        let times = self.times.forward(&part(0, 0, rank)?)?.to_dtype(DType::F32)?;
        let times = softplus(&times.broadcast_add(&self.time_bias)?)?;
        let wide = |tensor: Tensor| tensor.to_dtype(DType::F32);
        let (taken, read) = (wide(part(1, rank, state)?)?, wide(part(2, rank + state, state)?)?);
        let inputs = wide(inputs)?;
        let made = self.scan.forward([&inputs, &times], [&taken, &read], batch, cache.states(1)?)?;
        let made = Activation::Silu.gated(&wide(gates)?, &made)?;
        Ok(self.output.forward(&made.to_dtype(rows.dtype())?)?)
    }
}
