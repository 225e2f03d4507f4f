//! gpt-oss: attention with sinks, in every other layer with a window, and experts with clamped gates.

use lmeval_pycompat::{Dict, Value};

use super::Architecture;
use super::decoder::FeedForward;
use super::parts::{self, Frame, Heads};
use crate::config::Config;
use crate::error::Result;
use crate::layers::{Activation, Experts, Linear, Mlp, RotaryParameters, Routing, Scoring};
use crate::weights::{Stacking, Weights};

/// Builds the model.
pub(super) fn build(config: &Config, weights: &Weights) -> Result<Box<dyn Architecture>> {
    parts::only_names(config, "hidden_act", &["silu"])?;
    let hidden = config.size("hidden_size")?;
    let heads = Heads {
        count: config.size("num_attention_heads")?,
        kv: config.size_or("num_key_value_heads", 8)?,
        width: config.size_or("head_dim", 64)?,
    };
    let heads = heads.checked()?;
    let frame = Frame::rotating(config, heads, 1e-5, rotary(config)?)?;
    let bias = config.flag_or("attention_bias", true)?;
    Ok(Box::new(parts::like_llama(config, weights, frame, |layer, weights| {
        let projections = weights.at("self_attn");
        let mut attention = parts::attention(&projections, hidden, heads, bias, ("o_proj", bias))?;
        let sinks = projections.widened().tensor("sinks", &[heads.count])?;
        attention.options.sinks = Some(sinks.to_vec1()?);
        if parts::slides(config, layer, |layer| layer.is_multiple_of(2))? {
            attention.options.window = parts::window(config, Some(128))?;
        }
        Ok((attention, FeedForward::Experts(Box::new(mixture(config, &weights.at("mlp"), hidden)?))))
    })?))
}

/// The rotary parameters, scaled unless the configuration says something else.
fn rotary(config: &Config) -> Result<RotaryParameters> {
    if RotaryParameters::object(config)?.is_some() {
        return RotaryParameters::read(config, 150_000.0);
    }
    let fields: [(&str, Value); 6] = [
        ("rope_type", Value::str("yarn")),
        ("factor", Value::Float(32.0)),
        ("beta_fast", Value::Float(32.0)),
        ("beta_slow", Value::Float(1.0)),
        ("truncate", Value::Bool(false)),
        ("original_max_position_embeddings", Value::Int(4096)),
    ];
    let own: Dict = fields.into_iter().map(|(name, value)| (Value::str(name), value)).collect();
    let theta = config.optional_positive("rope_theta")?.unwrap_or(150_000.0);
    RotaryParameters::read_object(config, Some(&Config::from_fields(own)), theta, None)
}

fn mixture(config: &Config, weights: &Weights, hidden: usize) -> Result<Experts> {
    let inner = config.size("intermediate_size")?;
    let count = config.first_size(&["num_local_experts", "num_experts"])?;
    let activation = Activation::Clamped {
        slope: config.number_or("swiglu_alpha", 1.702)?,
        limit: config.number_or("swiglu_limit", 7.0)?,
    };
    let own = weights.at("experts");
    let both = own.stacked("gate_up_proj", [count, 2 * inner, hidden], Stacking::Transposes)?;
    let both_biases = own.tensor("gate_up_proj_bias", &[count, 2 * inner])?;
    let down = own.stacked("down_proj", [count, hidden, inner], Stacking::Transposes)?;
    let down_biases = own.tensor("down_proj_bias", &[count, hidden])?;
    let experts = both.iter().zip(down).enumerate().map(|(index, (both, down))| {
        let biases = both_biases.get(index)?.reshape((inner, 2))?;
        // Gate and up projections alternate.
        let part = |first: usize| -> Result<Linear> {
            let rows = (0..inner).map(|row| (2 * row + first) as u32).collect();
            let bias = biases.narrow(1, first, 1)?.squeeze(1)?.contiguous()?;
            Ok(Linear::new(both.select(rows)?, Some(bias))?)
        };
        let down = Linear::new(down, Some(down_biases.get(index)?))?;
        Ok(Mlp { gate: Some(part(0)?), up: part(1)?, down, activation })
    });
    Ok(Experts {
        router: weights.linear("router", hidden, count, true)?,
        routing: Routing {
            scoring: Scoring::SoftmaxOfChosen,
            ..Routing::softmax(config.size("num_experts_per_tok")?, false)
        },
        routed: experts.collect::<Result<_>>()?,
        shared: None,
        narrowed: None,
    })
}
