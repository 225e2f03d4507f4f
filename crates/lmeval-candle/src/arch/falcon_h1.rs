//! Falcon H1: attention and Mamba 2 side by side in each layer, with factors at every place.

use candle_core::Tensor;

use super::Architecture;
use super::bamba;
use super::decoder::{FeedForward, Flow, Mixer};
use super::mamba2::{GatedNorm, Mamba2, Options};
use super::parts::{self, Frame, Heads};
use crate::batch::Batch;
use crate::cache::{LayerCache, LayerShape};
use crate::config::Config;
use crate::error::Result;
use crate::layers::{Activation, Angles, Mlp, SelfAttention};
use crate::weights::Weights;

/// Builds the model.
pub(super) fn build(config: &Config, weights: &Weights) -> Result<Box<dyn Architecture>> {
    parts::only_flag(config, "mamba_use_mlp", true)?;
    if config.has("attn_layer_indices") {
        return Err(parts::wrong(config, "attn_layer_indices", "`null`, because all layers have attention"));
    }
    let hidden = config.size("hidden_size")?;
    let heads = Heads { kv: config.size_or("num_key_value_heads", 8)?, ..Heads::read(config, hidden)? };
    let heads = heads.checked()?;
    let frame = Frame { last_norm: "final_layernorm", ..Frame::new(config, heads, 1e-5, 10_000.0)? };
    let inner = config.size("intermediate_size")?;
    let bias = config.flag_or("mlp_bias", false)?;
    let [gate_factor, down_factor] = factors(config, "mlp_multipliers")?;
    let activation = match Activation::read(config, "hidden_act", "silu")? {
        Activation::Silu => Activation::ScaledSilu(gate_factor),
        other if gate_factor == 1.0 => other,
        _ => return Err(parts::wrong(config, "hidden_act", "`silu`, because the gate is scaled")),
    };
    let block = |_: usize, weights: &Weights| {
        let own = weights.at("feed_forward");
        let mlp = Mlp {
            gate: Some(own.linear("gate_proj", hidden, inner, bias)?),
            up: own.linear("up_proj", hidden, inner, bias)?,
            down: own.linear("down_proj", inner, hidden, bias)?,
            activation,
        };
        Ok((Both::load(config, weights, heads)?, FeedForward::Dense(mlp)))
    };
    let mut decoder = parts::like_llama_flowing(config, weights, frame, block, |weights, norm| {
        let mut flow = bamba::flow(weights, norm)?;
        if let Flow::Sequential { feed_forward, .. } = &mut flow {
            feed_forward.scale = Some(down_factor);
        }
        Ok(flow)
    })?;
    decoder.input.scale = Some(config.number_or("embedding_multiplier", 1.0)?);
    decoder.output.scale = Some(config.number_or("lm_head_multiplier", 1.0)?);
    Ok(Box::new(decoder))
}

/// A list of factors; all are 1 without it.
fn factors<const COUNT: usize>(config: &Config, field: &str) -> Result<[f64; COUNT]> {
    let Some(factors) = config.numbers(field)? else { return Ok([1.0; COUNT]) };
    factors.try_into().map_err(|_| parts::wrong(config, field, &format!("a list of {COUNT} numbers")))
}

/// Attention and Mamba 2 that read the same rows.
#[derive(Debug)]
struct Both {
    attention: SelfAttention,
    mamba: Mamba2,
    /// Factors of what each reads, and of what each returns.
    reads: [f64; 2],
    returns: [f64; 2],
}

impl Both {
    fn load(config: &Config, weights: &Weights, heads: Heads) -> Result<Self> {
        let hidden = config.size("hidden_size")?;
        let bias = config.flag_or("attention_bias", false)?;
        let own = weights.at("self_attn");
        let mut attention = parts::attention(&own, hidden, heads, bias, ("o_proj", bias))?;
        let factor = |field: &str| config.number_or(field, 1.0);
        // Scaled keys give scaled scores.
        attention.options.scale *= factor("key_multiplier")? as f32;
        Ok(Self {
            attention,
            mamba: load_mamba(config, &weights.at("mamba"))?,
            reads: [factor("attention_in_multiplier")?, factor("ssm_in_multiplier")?],
            returns: [factor("attention_out_multiplier")?, factor("ssm_out_multiplier")?],
        })
    }
}

fn load_mamba(config: &Config, weights: &Weights) -> Result<Mamba2> {
    let hidden = config.size("hidden_size")?;
    let inner = match config.optional_size("mamba_d_ssm")? {
        Some(inner) => inner,
        None if config.is_null("mamba_d_ssm") => config.size_or("mamba_expand", 2)? * hidden,
        None => 1024,
    };
    let mut options = Options::read(config, inner)?;
    options.biases[2] = config.flag_or("projectors_bias", false)?;
    let has_norm = config.flag_or("mamba_rms_norm", false)?;
    options.norm = GatedNorm {
        groups: if has_norm { options.sizes.groups } else { 0 },
        norm_first: config.flag_or("mamba_norm_before_gate", true)?,
        ..options.norm
    };
    let mut mamba = Mamba2::load(&options, weights)?;
    let widths = options.sizes.parts();
    let scales = factors::<5>(config, "ssm_multipliers")?.into_iter().zip(widths);
    let scales: Vec<f32> =
        scales.flat_map(|(scale, width)| std::iter::repeat_n(scale as f32, width)).collect();
    mamba.scales = Some(Tensor::new(scales, weights.device())?.to_dtype(weights.dtype())?);
    Ok(mamba)
}

impl Mixer for Both {
    fn stores(&self) -> LayerShape {
        LayerShape { rows: self.attention.stores().rows, ..self.mamba.stores() }
    }

    fn forward(
        &self,
        rows: &Tensor,
        angles: Option<&Angles>,
        batch: &Batch,
        cache: &LayerCache,
    ) -> Result<Tensor> {
        let attended = self.attention.attend(&(rows * self.reads[0])?, angles, batch, cache)?;
        let scanned = self.mamba.forward(&(rows * self.reads[1])?, None, batch, cache)?;
        Ok(((attended * self.returns[0])? + (scanned * self.returns[1])?)?)
    }
}
