//! Helpers shared by several architectures.

use candle_core::Tensor;
use lmeval_pycompat::{Dict, Value};

use super::Shape;
use super::decoder::{Block, Decoder, FeedForward, Flow, Input, Mixer, Norms, Output};
use crate::cache::LayerShape;
use crate::config::Config;
use crate::error::{Error, Result};
use crate::layers::{
    Activation, AttentionOptions, Linear, Mlp, Norm, Rotary, RotaryParameters, RotaryStyle, SelfAttention,
};
use crate::matrix::Matrix;
use crate::weights::{Stacking, Weights, checked_epsilon};

/// More layers than any model has.
const MOST_LAYERS: usize = 4096;

/// The heads of attention.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heads {
    pub(super) count: usize,
    pub(super) kv: usize,
    pub(super) width: usize,
}

impl Heads {
    /// Reads `num_attention_heads`, and the optional `num_key_value_heads` and `head_dim`.
    pub(super) fn read(config: &Config, hidden: usize) -> Result<Self> {
        let count = config.size("num_attention_heads")?;
        let kv = config.size_or("num_key_value_heads", count)?;
        match config.optional_size("head_dim")? {
            Some(width) => Self { count, kv, width }.checked(),
            None => Self { kv, ..Self::equal(count, hidden)? }.checked(),
        }
    }

    /// As many key/value heads as query heads, which divide the width evenly.
    pub(super) fn equal(count: usize, hidden: usize) -> Result<Self> {
        if count == 0 || !hidden.is_multiple_of(count) {
            let message = format!("The hidden size {hidden} is not divisible by {count} heads");
            return Err(Error::unsupported(message));
        }
        Ok(Self { count, kv: count, width: hidden / count })
    }

    /// Checks that the query heads are a multiple of the key/value heads.
    pub(super) fn checked(self) -> Result<Self> {
        let Self { count, kv, width } = self;
        if kv == 0 || count == 0 || width == 0 || !count.is_multiple_of(kv) {
            let message =
                format!("{count} heads of width {width} are not a multiple of {kv} key/value heads");
            return Err(Error::unsupported(message));
        }
        Ok(self)
    }
}

/// The number of rotated dimensions per head: `partial_rotary_factor`, in the rotary parameters or at the top level.
pub(super) fn rotated_width(config: &Config, head_width: usize, default: f64) -> Result<usize> {
    rotated_part(config, "partial_rotary_factor", head_width, default)
}

/// The same with another name for the top-level field.
pub(super) fn rotated_part(config: &Config, field: &str, head_width: usize, default: f64) -> Result<usize> {
    let own = RotaryParameters::object(config)?;
    let own = own.map(|own| own.optional_number("partial_rotary_factor")).transpose()?.flatten();
    let factor = match own {
        Some(factor) => factor,
        None => config.number_or(field, default)?,
    };
    if !(0.0..=1.0).contains(&factor) {
        return Err(wrong(config, field, "a number from zero to one"));
    }
    // Reference: rounded down.
    Ok((head_width as f64 * factor) as usize)
}

/// The rotary parameters of full-attention and of sliding-window layers, if the configuration has them per kind of layer.
/// `theta` is the default.
pub(super) fn rotations_by_kind(config: &Config, theta: [f64; 2]) -> Result<[RotaryParameters; 2]> {
    let all = config.object("rope_parameters")?;
    let kind = |name: &str| all.as_ref().map_or(Ok(None), |all| all.object(name));
    // Reference: `rope_scaling` applies to full-attention layers and is merged into their parameters. Without parameters
    // per kind of layer, a default `rope_type` overrides its old field `type`.
    let full = match (kind("full_attention")?, config.object("rope_scaling")?) {
        (Some(own), Some(scaling)) => Some(own.updated(&scaling)),
        (None, Some(scaling)) => {
            let mut fields = Dict::new();
            fields.insert("rope_type", scaling.string("rope_type")?.unwrap_or("default"));
            Some(scaling.updated(&Config::from_fields(fields)))
        }
        (own, None) => own,
    };
    let read = |own: Option<Config>, theta: f64| {
        if let Some(own) = &own {
            only_flag(own, "truncate", true)?;
        }
        RotaryParameters::read_object(config, own.as_ref(), theta, None)
    };
    Ok([read(full, theta[0])?, read(kind("sliding_attention")?, theta[1])?])
}

/// Splits a fused linear layer whose outputs are `groups` repetitions of the concatenated `parts`.
pub(super) fn split(
    weight: &Matrix,
    bias: Option<&Tensor>,
    groups: usize,
    parts: &[usize],
) -> Result<Vec<Linear>> {
    let sum: usize = parts.iter().sum();
    let bias = bias.map(|bias| bias.reshape((groups, sum))).transpose()?;
    let mut first = 0;
    let mut made = Vec::with_capacity(parts.len());
    for &part in parts {
        let rows = (0..groups).flat_map(|group| group * sum + first..group * sum + first + part);
        let own = weight.select(rows.map(|row| row as u32).collect())?;
        let bias = bias.as_ref().map(|bias| bias.narrow(1, first, part)?.contiguous()?.flatten_all());
        made.push(Linear::new(own, bias.transpose()?)?);
        first += part;
    }
    Ok(made)
}

/// Splits a fused query, key and value projection.
pub(super) fn split_three(
    weight: &Matrix,
    bias: Option<&Tensor>,
    groups: usize,
    parts: [usize; 3],
) -> Result<[Linear; 3]> {
    let made = split(weight, bias, groups, &parts)?;
    Ok(made.try_into().expect("one layer per part"))
}

/// The differences between models of LLaMA's structure and names outside their blocks.
pub(super) struct Frame {
    pub(super) heads: Heads,
    /// The number of rotated dimensions per head, and how they are paired.
    pub(super) rotated: usize,
    pub(super) style: RotaryStyle,
    pub(super) rotary: RotaryParameters,
    /// The default of `tie_word_embeddings`.
    pub(super) tied: bool,
    /// Loads a norm of rows.
    pub(super) norm: NormBuilder,
    /// The name of the last norm.
    pub(super) last_norm: &'static str,
}

/// Loads a norm by name.
pub(super) type NormBuilder = Box<dyn Fn(&Weights, &str) -> Result<Norm>>;

impl Frame {
    /// RMS norms and rotated halves; `epsilon` and `theta` are defaults.
    pub(super) fn new(config: &Config, heads: Heads, epsilon: f64, theta: f64) -> Result<Self> {
        Self::rotating(config, heads, epsilon, RotaryParameters::read(config, theta)?)
    }

    /// The same with given rotary parameters.
    pub(super) fn rotating(
        config: &Config,
        heads: Heads,
        epsilon: f64,
        rotary: RotaryParameters,
    ) -> Result<Self> {
        let hidden = config.size("hidden_size")?;
        let epsilon = config.number_or("rms_norm_eps", epsilon)?;
        Ok(Self {
            heads,
            rotated: heads.width,
            style: RotaryStyle::Halves,
            rotary,
            tied: false,
            norm: Box::new(move |weights, name| weights.rms_norm(name, hidden, epsilon, 0.0)),
            last_norm: "norm",
        })
    }
}

/// A model of LLaMA's structure and names: pre-norm blocks and rotary embeddings.
///
/// `block` builds attention and feed-forward layer of a block from its weights.
pub(super) fn like_llama<M: Mixer>(
    config: &Config,
    weights: &Weights,
    frame: Frame,
    block: impl Fn(usize, &Weights) -> Result<(M, FeedForward)>,
) -> Result<Decoder<M>> {
    like_llama_flowing(config, weights, frame, block, |weights, norm| {
        Ok(Flow::Sequential {
            attention: Norms::before(norm(weights, "input_layernorm")?),
            feed_forward: Norms::before(norm(weights, "post_attention_layernorm")?),
        })
    })
}

/// The same with another connection of attention and feed-forward layer.
pub(super) fn like_llama_flowing<M: Mixer>(
    config: &Config,
    weights: &Weights,
    frame: Frame,
    block: impl Fn(usize, &Weights) -> Result<(M, FeedForward)>,
    flow: impl Fn(&Weights, &NormBuilder) -> Result<Flow>,
) -> Result<Decoder<M>> {
    let hidden = config.size("hidden_size")?;
    let mut shape = shape(config, hidden, frame.heads)?;
    let model = weights.find(&PREFIXES, "embed_tokens.weight")?;
    let embedding = model.matrix("embed_tokens.weight", [shape.vocabulary, hidden])?;
    let blocks = (0..shape.layers.len()).map(|index| {
        let weights = model.at("layers").at(index);
        let (attention, feed_forward) = block(index, &weights)?;
        Ok(Block { flow: flow(&weights, &frame.norm)?, attention, feed_forward, rotary: Some(0) })
    });
    let blocks: Vec<Block<M>> = blocks.collect::<Result<_>>()?;
    shape.layers = blocks.iter().map(|block| block.attention.stores()).collect();
    let tied = config.flag_or("tie_word_embeddings", frame.tied)?;
    let head = head(weights, head_name(weights), &embedding, tied)?;
    Ok(Decoder {
        shape,
        input: Input::new(&embedding)?,
        blocks,
        output: Output::new((frame.norm)(&model, frame.last_norm)?, head),
        rotaries: vec![Rotary::new(frame.rotary, frame.rotated, frame.style)?],
    })
}

/// The prefixes of a model, alone and as the language model of one that reads images.
pub(super) const PREFIXES: [&str; 4] = ["model", "language_model.model", "model.language_model", ""];

/// The name of the head, alone or as part of the language model of one that reads images.
pub(super) fn head_name(weights: &Weights) -> &'static str {
    let inner = "language_model.lm_head";
    if weights.at(inner).has("weight") { inner } else { "lm_head" }
}

/// Loads the output head `name`, with a bias if the checkpoint has one.
///
/// Reference: a tied head is the embedding, unless the checkpoint has a different matrix.
pub(super) fn head(
    weights: &Weights,
    name: &str,
    embedding: impl Into<Matrix>,
    tied: bool,
) -> Result<Linear> {
    let mut matrix = embedding.into();
    if !tied {
        return weights.head(name, matrix, false);
    }
    let own = weights.at(name);
    let (vocabulary, width) = matrix.shape()?;
    if own.has("weight") {
        let stored = own.matrix("weight", [vocabulary, width])?;
        if !stored.is_equal(&matrix)? {
            matrix = stored;
        }
    }
    let bias = if own.has("bias") { Some(own.tensor("bias", &[vocabulary])?) } else { None };
    Ok(Linear::new(matrix, bias)?)
}

/// An RMS norm without weights.
pub(super) fn plain_rms_norm(weights: &Weights, width: usize, epsilon: f64) -> Result<Norm> {
    let weight = Tensor::ones(width, weights.dtype(), weights.device())?;
    Ok(Norm::Rms { weight, epsilon: checked_epsilon(epsilon)? })
}

/// A layer norm without weights.
pub(super) fn plain_norm(weights: &Weights, width: usize, epsilon: f64) -> Result<Norm> {
    let ones = Tensor::ones(width, weights.dtype(), weights.device())?;
    Ok(Norm::Layer { bias: ones.zeros_like()?, weight: ones, epsilon: checked_epsilon(epsilon)? })
}

/// The weight and optional bias of a fused layer.
pub(super) fn fused(
    weights: &Weights,
    name: &str,
    input: usize,
    output: usize,
    bias: bool,
) -> Result<(Matrix, Option<Tensor>)> {
    let below = weights.at(name);
    let weight = below.layer("weight", [output, input])?;
    let bias = if bias { Some(below.tensor("bias", &[output])?) } else { None };
    Ok((weight, bias))
}

/// The hidden size. The old name `n_embed` takes precedence.
pub(super) fn hidden(config: &Config) -> Result<usize> {
    config.size(if config.has("n_embed") { "n_embed" } else { "hidden_size" })
}

/// The sizes of a model with the usual field names.
pub(super) fn shape(config: &Config, hidden: usize, heads: Heads) -> Result<Shape> {
    Ok(Shape {
        layers: equal_layers(config.size("num_hidden_layers")?, heads)?,
        hidden,
        vocabulary: config.size("vocab_size")?,
        positions: None,
    })
}

/// Layers that all store keys and values of the same heads.
pub(super) fn equal_layers(count: usize, heads: Heads) -> Result<Vec<LayerShape>> {
    Ok(vec![LayerShape::heads(heads.kv, heads.width); checked_layers(count)?])
}

/// A number of layers that a model can have.
pub(super) fn checked_layers(count: usize) -> Result<usize> {
    if count <= MOST_LAYERS {
        return Ok(count);
    }
    Err(Error::unsupported(format!("A model cannot have {count} layers, at most {MOST_LAYERS}")))
}

/// Attention with the projections `q_proj`, `k_proj`, `v_proj` and a named output projection.
pub(super) fn attention(
    weights: &Weights,
    hidden: usize,
    heads: Heads,
    bias: bool,
    output: (&str, bool),
) -> Result<SelfAttention> {
    let Heads { count, kv, width } = heads;
    let projections = [
        weights.linear("q_proj", hidden, count * width, bias)?,
        weights.linear("k_proj", hidden, kv * width, bias)?,
        weights.linear("v_proj", hidden, kv * width, bias)?,
    ];
    let output = weights.linear(output.0, count * width, hidden, output.1)?;
    #[cfg_attr(not(feature = "cuda"), expect(unused_mut, reason = "GPUs join the projections"))]
    let mut attention = plain_attention(projections, output, heads);
    #[cfg(feature = "cuda")]
    attention.join()?;
    Ok(attention)
}

/// Attention without query and key norms.
pub(super) fn plain_attention(projections: [Linear; 3], output: Linear, heads: Heads) -> SelfAttention {
    let [query, key, value] = projections;
    SelfAttention {
        query,
        is_gated: false,
        key,
        value,
        #[cfg(feature = "cuda")]
        joined: None,
        output,
        head_norms: None,
        rotates_first: false,
        temperature: None,
        row_norms: None,
        clip: None,
        heads: heads.count,
        kv_heads: heads.kv,
        head_width: heads.width,
        options: AttentionOptions::new(heads.width),
    }
}

/// A gated feed-forward layer with the projections `gate_proj`, `up_proj` and `down_proj`.
pub(super) fn gated(weights: &Weights, hidden: usize, inner: usize, activation: Activation) -> Result<Mlp> {
    Ok(Mlp {
        gate: Some(weights.linear("gate_proj", hidden, inner, false)?),
        up: weights.linear("up_proj", hidden, inner, false)?,
        down: weights.linear("down_proj", inner, hidden, false)?,
        activation,
    })
}

/// Gated experts, one below each number, or all in the tensors `gate_up_proj` and `down_proj`.
pub(super) fn gated_experts(
    weights: &Weights,
    count: usize,
    hidden: usize,
    inner: usize,
    activation: Activation,
) -> Result<Vec<Mlp>> {
    if !weights.has("gate_up_proj") {
        return (0..count).map(|index| gated(&weights.at(index), hidden, inner, activation)).collect();
    }
    let both = stacked_linears(weights, "gate_up_proj", count, hidden, 2 * inner)?;
    let down = stacked_linears(weights, "down_proj", count, inner, hidden)?;
    let expert = |(both, down): (Linear, Linear)| {
        Ok(Mlp { gate: Some(both.outputs(0, inner)?), up: both.outputs(inner, inner)?, down, activation })
    };
    both.into_iter().zip(down).map(expert).collect()
}

/// The linear layers of a tensor that holds those of all experts, `[experts, input, output]`, or with the last two exchanged.
pub(super) fn stacked_linears(
    weights: &Weights,
    name: &str,
    count: usize,
    input: usize,
    output: usize,
) -> Result<Vec<Linear>> {
    let all = match weights.stacked(name, [count, output, input], Stacking::Transposes) {
        Err(Error::WrongShape { found, .. }) if found == [count, output, input] => {
            weights.stacked(name, [count, output, input], Stacking::Matrices)?
        }
        other => other?,
    };
    all.into_iter().map(|matrix| Ok(Linear::new(matrix, None)?)).collect()
}

/// Skips the layers behind the last one, which predict further tokens.
pub(super) fn skip_predictors(config: &Config, weights: &Weights) -> Result<()> {
    let layers = config.size("num_hidden_layers")?;
    for extra in 0..config.size_or("num_nextn_predict_layers", 1)?.min(layers) {
        weights.skip(format!("model.layers.{}", layers + extra));
    }
    Ok(())
}

/// A vector that models keep in 32 bits, on the host.
pub(super) fn exact_numbers(weights: &Weights, name: &str, count: usize) -> Result<Vec<f32>> {
    Ok(weights.exact().tensor(name, &[count])?.to_vec1()?)
}

/// An ungated feed-forward layer.
pub(super) fn plain_mlp(
    weights: &Weights,
    names: [&str; 2],
    sizes: [usize; 2],
    bias: bool,
    activation: Activation,
) -> Result<Mlp> {
    let [hidden, inner] = sizes;
    Ok(Mlp {
        gate: None,
        up: weights.linear(names[0], hidden, inner, bias)?,
        down: weights.linear(names[1], inner, hidden, bias)?,
        activation,
    })
}

/// Whether a layer has a sliding window: from `layer_types`, or `default` without it.
pub(super) fn slides(config: &Config, layer: usize, default: impl Fn(usize) -> bool) -> Result<bool> {
    let kinds = config.strings("layer_types")?;
    match kinds.get(layer) {
        Some(&"sliding_attention") => Ok(true),
        Some(&"full_attention") => Ok(false),
        Some(_) => Err(wrong(config, "layer_types", "a list of `full_attention` and `sliding_attention`")),
        None if kinds.is_empty() => Ok(default(layer)),
        None => Err(wrong(config, "layer_types", "a list with an entry for each layer")),
    }
}

/// The width of the sliding window: `null` switches it off, and a missing field means the default.
pub(super) fn window(config: &Config, default: Option<usize>) -> Result<Option<usize>> {
    let default = default.filter(|_| !config.is_null("sliding_window"));
    match config.optional_size("sliding_window")? {
        Some(0) => Err(wrong(config, "sliding_window", "a number above zero or `null`")),
        window => Ok(window.or(default)),
    }
}

/// The ALiBi slope of each head: for the largest power of two of heads, the powers of a number whose last is 2⁻⁸; for the
/// other heads, values in between.
pub(super) fn slopes(heads: usize) -> Vec<f32> {
    let even = if heads.is_power_of_two() { heads } else { heads.next_power_of_two() / 2 };
    let base = |count: usize| 2.0_f64.powf(-8.0 / count as f64) as f32;
    let power = |base: f32, exponent: usize| f64::from(base).powi(exponent as i32) as f32;
    let first = (1..=even).map(|exponent| power(base(even), exponent));
    let others = (0..heads - even).map(|index| power(base(2 * even), 2 * index + 1));
    first.chain(others).collect()
}

/// An error that a field has an unsupported value.
pub(super) fn wrong(config: &Config, field: &str, expected: &str) -> Error {
    config.wrong(field, expected, config.get(field).unwrap_or(&Value::None))
}

/// Refuses a field with another number than those known. A missing field has the first of them.
pub(super) fn only_numbers(config: &Config, field: &str, known: &[usize]) -> Result<usize> {
    let number = config.size_or(field, known[0])?;
    if known.contains(&number) {
        return Ok(number);
    }
    let known: Vec<String> = known.iter().map(|number| format!("`{number}`")).collect();
    Err(wrong(config, field, &known.join(" or ")))
}

/// Refuses a field with another name than those known. A missing field has the first of them.
pub(super) fn only_names<'a>(config: &'a Config, field: &str, known: &[&'a str]) -> Result<&'a str> {
    let name = config.string(field)?.unwrap_or(known[0]);
    if known.contains(&name) {
        return Ok(name);
    }
    Err(wrong(config, field, &format!("`{}`", known.join("` or `"))))
}

/// Refuses a flag with another value than its default, the only supported one.
pub(super) fn only_flag(config: &Config, field: &str, known: bool) -> Result<()> {
    if config.flag_or(field, known)? == known {
        return Ok(());
    }
    Err(wrong(config, field, &format!("`{known}`")))
}
