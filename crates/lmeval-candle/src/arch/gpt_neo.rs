//! GPT-Neo.

use lmeval_pycompat::Value;

use super::decoder::{Block, Decoder, FeedForward, Flow, Input, Norms, Output};
use super::parts::{self, Heads};
use super::{Architecture, Shape};
use crate::config::Config;
use crate::error::Result;
use crate::layers::Activation;
use crate::weights::Weights;

/// Builds the model.
pub(super) fn build(config: &Config, weights: &Weights) -> Result<Box<dyn Architecture>> {
    let hidden = config.size("hidden_size")?;
    let heads = Heads::equal(config.first_size(&["num_heads", "num_attention_heads"])?, hidden)?;
    let positions = config.size("max_position_embeddings")?;
    let shape = Shape {
        layers: parts::equal_layers(config.first_size(&["num_layers", "num_hidden_layers"])?, heads)?,
        hidden,
        vocabulary: config.size("vocab_size")?,
        positions: Some(positions),
    };
    let model = weights.find(&["transformer", ""], "wte.weight")?;
    let embedding = model.matrix("wte.weight", [shape.vocabulary, hidden])?;
    let table = model.matrix("wpe.weight", [positions, hidden])?;
    let windows = windows(config, shape.layers.len())?;
    let blocks = windows.iter().enumerate();
    let blocks = blocks.map(|(index, window)| block(config, &model.at("h").at(index), heads, *window));
    let epsilon = config.number_or("layer_norm_epsilon", 1e-5)?;
    let head = parts::head(weights, "lm_head", &embedding, config.flag_or("tie_word_embeddings", true)?)?;
    Ok(Box::new(Decoder {
        shape,
        input: Input::new(&embedding)?.with_positions(table, 0)?,
        blocks: blocks.collect::<Result<_>>()?,
        output: Output::new(model.layer_norm("ln_f", hidden, epsilon)?, head),
        rotaries: Vec::new(),
    }))
}

/// The window of each layer: from `attention_layers`, or from `attention_types`, which has lists of kinds and repeat counts.
fn windows(config: &Config, layers: usize) -> Result<Vec<Option<usize>>> {
    let window = config.size_or("window_size", 256)?;
    if window == 0 {
        return Err(parts::wrong(config, "window_size", "a number above zero"));
    }
    let (field, kinds) = match config.get("attention_layers") {
        Some(kinds) => ("attention_layers", kinds.as_list().map(<[Value]>::to_vec)),
        None => ("attention_types", kinds(config, layers)),
    };
    let expected = format!("the kinds of {layers} layers, each `global` or `local`");
    let wrong = || parts::wrong(config, field, &expected);
    let kinds = kinds.filter(|kinds| kinds.len() == layers).ok_or_else(wrong)?;
    let windows = kinds.iter().map(|kind| match kind.as_str() {
        Some("global") => Ok(None),
        Some("local") => Ok(Some(window)),
        _ => Err(wrong()),
    });
    windows.collect()
}

/// Expands `attention_types` to a kind per layer; `None` if it is malformed.
fn kinds(config: &Config, layers: usize) -> Option<Vec<Value>> {
    let Some(types) = config.get("attention_types") else {
        return Some((0..24).map(|layer| Value::str(["global", "local"][layer % 2])).collect());
    };
    let mut all = Vec::new();
    for item in types.as_list()? {
        let [kinds, times] = item.as_list()? else { return None };
        let times = usize::try_from(times.as_i64()?).ok().filter(|times| *times <= layers)?;
        let kinds = kinds.as_list()?;
        all.extend(std::iter::repeat_n(kinds, times).flatten().cloned());
    }
    Some(all)
}

fn block(config: &Config, weights: &Weights, heads: Heads, window: Option<usize>) -> Result<Block> {
    let hidden = heads.count * heads.width;
    let inner = config.size_or("intermediate_size", 4 * hidden)?;
    let epsilon = config.number_or("layer_norm_epsilon", 1e-5)?;
    let projections = weights.at("attn.attention");
    let mut attention = parts::attention(&projections, hidden, heads, false, ("out_proj", true))?;
    attention.options.scale = 1.0;
    attention.options.window = window;
    let activation = Activation::read(config, "activation_function", "gelu_new")?;
    let mlp = parts::plain_mlp(&weights.at("mlp"), ["c_fc", "c_proj"], [hidden, inner], true, activation)?;
    Ok(Block {
        flow: Flow::Sequential {
            attention: Norms::before(weights.layer_norm("ln_1", hidden, epsilon)?),
            feed_forward: Norms::before(weights.layer_norm("ln_2", hidden, epsilon)?),
        },
        attention,
        feed_forward: FeedForward::Dense(mlp),
        rotary: None,
    })
}
