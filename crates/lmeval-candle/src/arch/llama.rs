//! LLaMA and models of the same structure (SmolLM, Vicuna, Yi); with small differences, Arcee, ERNIE, Granite, Helium,
//! Seed-OSS and SmolLM 3.

use super::Architecture;
use super::decoder::{Decoder, FeedForward, Flow};
use super::parts::{self, Frame, Heads};
use crate::config::Config;
use crate::error::Result;
use crate::layers::{Activation, Mlp, RotaryStyle};
use crate::weights::Weights;

/// The differences between blocks.
struct Options {
    /// Biases of the query, key and value projections, of the output projection, and of the feed-forward layer.
    biases: [bool; 3],
    /// The default activation function, and whether the feed-forward layer is gated.
    activation: &'static str,
    is_gated: bool,
}

impl Options {
    /// The variant of LLaMA itself.
    fn read(config: &Config) -> Result<Self> {
        let bias = config.flag_or("attention_bias", false)?;
        let biases = [bias, bias, config.flag_or("mlp_bias", false)?];
        Ok(Self { biases, activation: "silu", is_gated: true })
    }
}

/// Builds the model.
pub(super) fn build(config: &Config, weights: &Weights) -> Result<Box<dyn Architecture>> {
    let frame = Frame::new(config, Heads::read(config, config.size("hidden_size")?)?, 1e-6, 10_000.0)?;
    Ok(Box::new(decoder(config, weights, frame, &Options::read(config)?)?))
}

/// Builds Arcee: the feed-forward layer is not gated.
pub(super) fn build_arcee(config: &Config, weights: &Weights) -> Result<Box<dyn Architecture>> {
    let frame = Frame::new(config, Heads::read(config, config.size("hidden_size")?)?, 1e-5, 10_000.0)?;
    let options = Options { activation: "relu2", is_gated: false, ..Options::read(config)? };
    Ok(Box::new(decoder(config, weights, frame, &options)?))
}

/// Heads of width 128, unless the configuration has `head_dim` or sets it to `null`.
fn wide_heads(config: &Config) -> Result<Heads> {
    if config.has("head_dim") || config.is_null("head_dim") {
        return Heads::read(config, config.size("hidden_size")?);
    }
    let count = config.size("num_attention_heads")?;
    Heads { count, kv: config.size_or("num_key_value_heads", count)?, width: 128 }.checked()
}

/// Builds ERNIE 4.5: rotates adjacent pairs, and has one switch for all biases.
pub(super) fn build_ernie(config: &Config, weights: &Weights) -> Result<Box<dyn Architecture>> {
    let frame = Frame::new(config, wide_heads(config)?, 1e-5, 500_000.0)?;
    let frame = Frame { style: RotaryStyle::Neighbours, tied: true, ..frame };
    let options = Options { biases: [config.flag_or("use_bias", false)?; 3], ..Options::read(config)? };
    Ok(Box::new(decoder(config, weights, frame, &options)?))
}

/// Builds Helium: rotates adjacent pairs.
pub(super) fn build_helium(config: &Config, weights: &Weights) -> Result<Box<dyn Architecture>> {
    let frame = Frame::new(config, wide_heads(config)?, 1e-8, 100_000.0)?;
    let frame = Frame { style: RotaryStyle::Neighbours, ..frame };
    let mut options = Options::read(config)?;
    options.biases[1] = false;
    Ok(Box::new(decoder(config, weights, frame, &options)?))
}

/// Builds Seed-OSS: has separate switches for biases.
pub(super) fn build_seed(config: &Config, weights: &Weights) -> Result<Box<dyn Architecture>> {
    let heads = wide_heads(config)?;
    let biases = [
        config.flag_or("attention_bias", true)?,
        config.flag_or("attention_out_bias", false)?,
        config.flag_or("mlp_bias", false)?,
    ];
    let frame = Frame::new(config, heads, 1e-6, 10_000.0)?;
    Ok(Box::new(decoder(config, weights, frame, &Options { biases, ..Options::read(config)? })?))
}

/// Builds Granite: the configuration scales embeddings, scores, residuals and logits.
pub(super) fn build_granite(config: &Config, weights: &Weights) -> Result<Box<dyn Architecture>> {
    let frame = Frame::new(config, Heads::read(config, config.size("hidden_size")?)?, 1e-6, 10_000.0)?;
    let mut decoder = decoder(config, weights, frame, &Options::read(config)?)?;
    let scaling = config.number_or("logits_scaling", 1.0)?;
    if scaling == 0.0 {
        return Err(parts::wrong(config, "logits_scaling", "non-zero"));
    }
    decoder.input.scale = Some(config.number_or("embedding_multiplier", 1.0)?);
    decoder.output.scale = Some(1.0 / scaling);
    let added = config.number_or("residual_multiplier", 1.0)?;
    for block in &mut decoder.blocks {
        block.attention.options.scale = config.number_or("attention_multiplier", 1.0)? as f32;
        if let Flow::Sequential { attention, feed_forward } = &mut block.flow {
            attention.scale = Some(added);
            feed_forward.scale = Some(added);
        }
    }
    Ok(Box::new(decoder))
}

/// Builds SmolLM 3: some layers do not rotate.
pub(super) fn build_smollm_3(config: &Config, weights: &Weights) -> Result<Box<dyn Architecture>> {
    let heads = Heads::read(config, config.size("hidden_size")?)?;
    let frame = Frame { tied: true, ..Frame::new(config, heads, 1e-6, 2_000_000.0)? };
    let mut decoder = decoder(config, weights, frame, &Options::read(config)?)?;
    let rotating = config.numbers("no_rope_layers")?;
    let interval = config.size_or("no_rope_layer_interval", 4)?;
    if interval == 0 {
        return Err(parts::wrong(config, "no_rope_layer_interval", "a number above zero"));
    }
    let has_windows = config.flag_or("use_sliding_window", false)?;
    let window = parts::window(config, None)?.filter(|_| has_windows);
    for (layer, block) in decoder.blocks.iter_mut().enumerate() {
        let rotates = match &rotating {
            // Reference: 1 means that the layer rotates.
            Some(rotating) => rotating.get(layer).map(|rotates| *rotates != 0.0).ok_or_else(|| {
                parts::wrong(config, "no_rope_layers", "a list with an entry for each layer")
            })?,
            None => !(layer + 1).is_multiple_of(interval),
        };
        block.rotary = block.rotary.filter(|_| rotates);
        if parts::slides(config, layer, |_| window.is_some() && !rotates)? {
            if window.is_none() {
                let expected =
                    "without sliding windows, because `use_sliding_window` or `sliding_window` is not set";
                return Err(parts::wrong(config, "layer_types", expected));
            }
            block.attention.options.window = window;
        }
    }
    Ok(Box::new(decoder))
}

fn decoder(config: &Config, weights: &Weights, frame: Frame, options: &Options) -> Result<Decoder> {
    let hidden = config.size("hidden_size")?;
    let heads = frame.heads;
    let inner = config.size("intermediate_size")?;
    let activation = Activation::read(config, "hidden_act", options.activation)?;
    let [bias, output_bias, mlp_bias] = options.biases;
    parts::like_llama(config, weights, frame, |_, weights| {
        let mlp = weights.at("mlp");
        let gate = || mlp.linear("gate_proj", hidden, inner, mlp_bias);
        let mlp = Mlp {
            gate: if options.is_gated { Some(gate()?) } else { None },
            up: mlp.linear("up_proj", hidden, inner, mlp_bias)?,
            down: mlp.linear("down_proj", inner, hidden, mlp_bias)?,
            activation,
        };
        let projections = weights.at("self_attn");
        let attention = parts::attention(&projections, hidden, heads, bias, ("o_proj", output_bias))?;
        Ok((attention, FeedForward::Dense(mlp)))
    })
}
