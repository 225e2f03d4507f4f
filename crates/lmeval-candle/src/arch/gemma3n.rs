//! Gemma 3n, only its language model: several streams of rows, of which each layer changes one and corrects the others, and
//! inputs of their own for each layer.

use candle_core::cpu::erf::erf_inv;
use candle_core::{D, Tensor};

use super::{Architecture, Shape, logits, parts};
use crate::batch::Batch;
use crate::cache::{Cache, LayerShape};
use crate::config::Config;
use crate::error::Result;
use crate::layers::{Activation, Angles, AttentionOptions, Linear, Norm, Rotary, RotaryStyle, attend};
use crate::matrix::Matrix;
use crate::weights::Weights;

/// Tensors that only other input than text needs.
const OTHERS: [&str; 8] = [
    "vision_tower",
    "audio_tower",
    "embed_vision",
    "embed_audio",
    "model.vision_tower",
    "model.audio_tower",
    "model.embed_vision",
    "model.embed_audio",
];

/// Builds the model, alone or as the language model of one that reads images and sound.
pub(super) fn build(config: &Config, weights: &Weights) -> Result<Box<dyn Architecture>> {
    for name in OTHERS {
        weights.skip(name);
    }
    let tied = config.flag_or("tie_word_embeddings", true)?;
    let text = config.object("text_config")?;
    let config = text.as_ref().unwrap_or(config);
    let sizes = Sizes::read(config)?;
    let Sizes { hidden, layers, inputs, own, vocabulary, .. } = sizes;
    let model = weights.find(&parts::PREFIXES, "embed_tokens.weight")?;
    let embedding = model.matrix("embed_tokens.weight", [vocabulary, hidden])?;
    let head = parts::head(weights, parts::head_name(weights), &embedding, tied)?;
    let rows = config.size_or("vocab_size_per_layer_input", 262_144)?;
    let table = model.matrix("embed_tokens_per_layer.weight", [rows, layers * own])?;
    let others = |name: &str| {
        let all =
            (0..inputs - 1).map(|index| model.at(name).linear(&index.to_string(), hidden, hidden, false));
        all.collect::<Result<Vec<_>>>()
    };
    let epsilon = config.number_or("rms_norm_eps", 1e-6)?;
    let blocks: Vec<Block> = (0..layers)
        .map(|index| Block::load(config, &model.at("layers").at(index), &sizes, index))
        .collect::<Result<_>>()?;
    let stored = blocks.iter().map(|block| block.attention.stores(&sizes));
    let theta = [config.number_or("rope_theta", 1e6)?, config.number_or("rope_local_base_freq", 1e4)?];
    let rotary = |parameters| Rotary::new(parameters, sizes.width, RotaryStyle::Halves);
    let cap = config.number_or("final_logit_softcapping", 30.0)?;
    Ok(Box::new(Gemma3n {
        shape: Shape { layers: stored.collect(), hidden, vocabulary, positions: None },
        embedding,
        table,
        rows,
        projection: model.linear("per_layer_model_projection", hidden, layers * own, false)?,
        projection_norm: model.rms_norm("per_layer_projection_norm", own, epsilon, 0.0)?,
        spread: others("altup_projections")?,
        gather: others("altup_unembed_projections")?,
        blocks,
        rotaries: parts::rotations_by_kind(config, theta)?.into_iter().map(rotary).collect::<Result<_>>()?,
        norm: model.rms_norm("norm", hidden, epsilon, 0.0)?,
        head,
        cap: Some(cap).filter(|_| !config.is_null("final_logit_softcapping")),
        sizes,
    }))
}

/// The sizes of the model.
#[derive(Clone, Debug)]
struct Sizes {
    hidden: usize,
    layers: usize,
    vocabulary: usize,
    /// The number of streams, and the one that layers change.
    inputs: usize,
    active: usize,
    /// The width of a layer's own input.
    own: usize,
    heads: usize,
    kv: usize,
    width: usize,
    /// Whether each layer has a sliding window.
    slides: Vec<bool>,
    /// The number of layers with keys and values of their own.
    keyed: usize,
}

impl Sizes {
    fn read(config: &Config) -> Result<Self> {
        let layers = parts::checked_layers(config.size_or("num_hidden_layers", 35)?)?;
        let slides =
            (0..layers).map(|layer| parts::slides(config, layer, |layer| !(layer + 1).is_multiple_of(5)));
        let heads = parts::Heads {
            count: config.size_or("num_attention_heads", 8)?,
            kv: config.size_or("num_key_value_heads", 2)?,
            width: config.size_or("head_dim", 256)?,
        };
        let heads = heads.checked()?;
        let inputs = config.size_or("altup_num_inputs", 4)?;
        let active = config.size_or("altup_active_idx", 0)?;
        if active >= inputs {
            return Err(parts::wrong(config, "altup_active_idx", &format!("less than {inputs}")));
        }
        let shared = config.size_or("num_kv_shared_layers", 15)?;
        Ok(Self {
            hidden: config.size_or("hidden_size", 2048)?,
            layers,
            vocabulary: config.size_or("vocab_size", 262_400)?,
            inputs,
            active,
            own: config.size_or("hidden_size_per_layer_input", 256)?,
            heads: heads.count,
            kv: heads.kv,
            width: heads.width,
            slides: slides.collect::<Result<_>>()?,
            // Reference: if all layers shared, none does.
            keyed: if shared < layers { layers - shared } else { layers },
        })
    }

    /// The layer whose keys and values a layer reads: the last one of its kind before sharing begins.
    fn source(&self, layer: usize) -> Option<usize> {
        let is_like = |other: &usize| self.slides[*other] == self.slides[layer];
        if layer < self.keyed { Some(layer) } else { (0..self.keyed).rev().find(is_like) }
    }
}

/// The model.
#[derive(Debug)]
struct Gemma3n {
    shape: Shape,
    embedding: Matrix,
    /// The embedding of all layers' own inputs, and the number of its rows.
    table: Matrix,
    rows: usize,
    /// Projects embeddings to the layers' own inputs.
    projection: Linear,
    projection_norm: Norm,
    /// Projects embeddings to the other streams, and these back.
    spread: Vec<Linear>,
    gather: Vec<Linear>,
    blocks: Vec<Block>,
    /// Those of layers with full attention and with a sliding window.
    rotaries: Vec<Rotary>,
    norm: Norm,
    head: Linear,
    cap: Option<f64>,
    sizes: Sizes,
}

impl Gemma3n {
    /// The own inputs of all layers, `[rows, layers, width]`.
    fn own_inputs(&self, embedded: &Tensor, batch: &Batch) -> Result<Tensor> {
        let Sizes { hidden, layers, own, .. } = self.sizes;
        let size = (batch.rows(), layers, own);
        // Reference: tokens beyond the end of the table use the row of token 0.
        let tokens = batch.tokens();
        let known = tokens.lt(self.rows as u32)?.to_dtype(tokens.dtype())?;
        let read = (self.table.gather(&(tokens * known)?)? * (own as f64).sqrt())?.reshape(size)?;
        let projected = (self.projection.forward(embedded)? * (hidden as f64).sqrt().recip())?;
        let projected = self.projection_norm.forward(&projected.reshape(size)?)?;
        Ok(((projected + read)? * 0.5_f64.sqrt())?)
    }
}

/// Scales rows to the mean square of others.
fn like(rows: &Tensor, square: &Tensor) -> Result<Tensor> {
    let own = rows.sqr()?.mean_keepdim(D::Minus1)?.maximum(1e-5)?.sqrt()?;
    Ok(rows.broadcast_mul(&square.sqrt()?)?.broadcast_div(&own)?)
}

impl Architecture for Gemma3n {
    fn shape(&self) -> &Shape {
        &self.shape
    }

    fn forward(&self, batch: &Batch, cache: &Cache) -> Result<Tensor> {
        let first = (self.embedding.gather(batch.tokens())? * (self.sizes.hidden as f64).sqrt())?;
        let own = self.own_inputs(&first, batch)?;
        let square = first.sqr()?.mean_keepdim(D::Minus1)?;
        let others = self.spread.iter().map(|projection| like(&projection.forward(&first)?, &square));
        let mut streams: Vec<Tensor> = others.collect::<Result<_>>()?;
        streams.insert(0, first);
        let angles = self.rotaries.iter().map(|rotary| rotary.at(batch, streams[0].dtype()));
        let angles: Vec<Angles> = angles.collect::<Result<_>>()?;
        for (index, block) in self.blocks.iter().enumerate() {
            batch.check()?;
            let own = own.narrow(1, index, 1)?.squeeze(1)?.contiguous()?;
            let angles = &angles[usize::from(self.sizes.slides[index])];
            streams = block.forward(&streams, &own, angles, batch, cache)?;
        }
        let square = streams[0].sqr()?.mean_keepdim(D::Minus1)?;
        let mut sum = streams[0].clone();
        for (projection, stream) in self.gather.iter().zip(&streams[1..]) {
            sum = (sum + like(&projection.forward(stream)?, &square)?)?;
        }
        Ok(self.norm.forward(&(sum / streams.len() as f64)?)?)
    }

    fn head(&self, rows: &Tensor) -> Result<Tensor> {
        let made = logits(&self.head, rows)?;
        match self.cap {
            Some(cap) => Ok(((made / cap)?.tanh()? * cap)?),
            None => Ok(made),
        }
    }
}

#[derive(Debug)]
struct Block {
    attention: Attention,
    streams: Streams,
    /// Norms before and after attention, and before and after the feed-forward layer.
    norms: [Norm; 4],
    /// A narrow layer beside attention.
    laurel: (Linear, Linear, Norm),
    feed_forward: FeedForward,
    /// The gate of the layer's own input, its activation, projection and norm.
    own: (Linear, Activation, Linear, Norm),
}

impl Block {
    fn load(config: &Config, weights: &Weights, sizes: &Sizes, layer: usize) -> Result<Self> {
        let Sizes { hidden, own, .. } = *sizes;
        let epsilon = config.number_or("rms_norm_eps", 1e-6)?;
        let norm = |name: &str| weights.rms_norm(name, hidden, epsilon, 0.0);
        let rank = config.size_or("laurel_rank", 64)?;
        let laurel = weights.at("laurel");
        let activation = Activation::read(config, "hidden_activation", "gelu_pytorch_tanh")?;
        Ok(Self {
            attention: Attention::load(config, &weights.at("self_attn"), sizes, layer)?,
            streams: Streams::load(config, &weights.at("altup"), sizes)?,
            norms: [
                norm("input_layernorm")?,
                norm("post_attention_layernorm")?,
                norm("pre_feedforward_layernorm")?,
                norm("post_feedforward_layernorm")?,
            ],
            laurel: (
                laurel.linear("linear_left", hidden, rank, false)?,
                laurel.linear("linear_right", rank, hidden, false)?,
                laurel.rms_norm("post_laurel_norm", hidden, epsilon, 0.0)?,
            ),
            feed_forward: FeedForward::load(config, &weights.at("mlp"), sizes, layer, activation)?,
            own: (
                weights.linear("per_layer_input_gate", hidden, own, false)?,
                activation,
                weights.linear("per_layer_projection", own, hidden, false)?,
                norm("post_per_layer_input_norm")?,
            ),
        })
    }

    fn forward(
        &self,
        streams: &[Tensor],
        own: &Tensor,
        angles: &Angles,
        batch: &Batch,
        cache: &Cache,
    ) -> Result<Vec<Tensor>> {
        let predicted = self.streams.predict(streams)?;
        let active = &predicted[self.streams.active];
        let read = self.norms[0].forward(active)?;
        let (left, right, norm) = &self.laurel;
        let beside = (&read + norm.forward(&right.forward(&left.forward(&read)?)?)?)?;
        let attended = self.norms[1].forward(&self.attention.forward(&read, angles, batch, cache)?)?;
        let rows = (((active + attended)? + beside)? * 0.5_f64.sqrt())?;
        let fed = self.feed_forward.forward(&self.norms[2].forward(&rows)?)?;
        let rows = (&rows + self.norms[3].forward(&fed)?)?;
        let mut corrected = self.streams.correct(predicted, &rows)?;
        let (gate, activation, projection, norm) = &self.own;
        let read = self.streams.scaled(&corrected[self.streams.active])?;
        let gated = (activation.forward(&gate.forward(&read)?)? * own)?;
        let added = norm.forward(&projection.forward(&gated)?)?;
        for stream in &mut corrected[1..] {
            *stream = (&*stream + &added)?;
        }
        Ok(corrected)
    }
}

/// How a layer predicts all streams, and corrects them by the one that it has changed.
#[derive(Debug)]
struct Streams {
    router: (Norm, Linear),
    /// Scales what the router reads.
    scale: f64,
    prediction: Linear,
    correction: Linear,
    /// Scales the active stream for the layer's own input.
    output: Option<Tensor>,
    inputs: usize,
    active: usize,
}

impl Streams {
    fn load(config: &Config, weights: &Weights, sizes: &Sizes) -> Result<Self> {
        let Sizes { hidden, inputs, active, .. } = *sizes;
        let epsilon = config.number_or("rms_norm_eps", 1e-6)?;
        // The tensor is there in any case.
        let output = weights.tensor("correct_output_scale", &[hidden])?;
        let is_scaled = config.flag_or("altup_correct_scale", true)?;
        Ok(Self {
            router: (
                weights.rms_norm("router_norm", hidden, epsilon, 0.0)?,
                weights.linear("modality_router", hidden, inputs, false)?,
            ),
            scale: (hidden as f64).recip(),
            prediction: weights.linear("prediction_coefs", inputs, inputs * inputs, false)?,
            correction: weights.linear("correction_coefs", inputs, inputs, false)?,
            output: Some(output).filter(|_| is_scaled),
            inputs,
            active,
        })
    }

    /// The weights of streams for rows.
    fn route(&self, rows: &Tensor) -> Result<Tensor> {
        let (norm, router) = &self.router;
        Ok(router.forward(&(norm.forward(rows)? * self.scale)?)?.tanh()?)
    }

    fn predict(&self, streams: &[Tensor]) -> Result<Vec<Tensor>> {
        let factors = self.prediction.forward(&self.route(&streams[self.active])?)?;
        let predict = |target: usize| {
            let mut sum = streams[target].clone();
            for (source, stream) in streams.iter().enumerate() {
                let factor = factors.narrow(1, target * self.inputs + source, 1)?;
                sum = (sum + stream.broadcast_mul(&factor)?)?;
            }
            Ok(sum)
        };
        (0..self.inputs).map(predict).collect()
    }

    fn correct(&self, predicted: Vec<Tensor>, rows: &Tensor) -> Result<Vec<Tensor>> {
        let factors = (self.correction.forward(&self.route(rows)?)? + 1.0)?;
        let change = (rows - &predicted[self.active])?;
        let correct = |(index, stream): (usize, Tensor)| {
            Ok((stream + change.broadcast_mul(&factors.narrow(1, index, 1)?)?)?)
        };
        predicted.into_iter().enumerate().map(correct).collect()
    }

    fn scaled(&self, rows: &Tensor) -> Result<Tensor> {
        match &self.output {
            Some(scale) => Ok(rows.broadcast_mul(scale)?),
            None => Ok(rows.clone()),
        }
    }
}

#[derive(Debug)]
struct Attention {
    query: Linear,
    query_norm: Norm,
    /// Keys with their norm, and values with theirs; `None` if the layer reads those of another.
    stored: Option<(Linear, Norm, Linear, Norm)>,
    output: Linear,
    options: AttentionOptions,
    heads: [usize; 2],
    width: usize,
    /// The layer whose keys and values it reads.
    source: usize,
}

impl Attention {
    fn load(config: &Config, weights: &Weights, sizes: &Sizes, layer: usize) -> Result<Self> {
        let Sizes { hidden, heads, kv, width, .. } = *sizes;
        let epsilon = config.number_or("rms_norm_eps", 1e-6)?;
        let bias = config.flag_or("attention_bias", false)?;
        let source = sizes.source(layer);
        let expected = "such that a layer of each kind has keys of its own";
        let source = source.ok_or_else(|| parts::wrong(config, "num_kv_shared_layers", expected))?;
        let stored = if source == layer {
            Some((
                weights.linear("k_proj", hidden, kv * width, bias)?,
                weights.rms_norm("k_norm", width, epsilon, 0.0)?,
                weights.linear("v_proj", hidden, kv * width, bias)?,
                parts::plain_rms_norm(weights, width, epsilon)?,
            ))
        } else {
            for name in ["k_proj", "k_norm", "v_proj", "v_norm"] {
                weights.skip(name);
            }
            None
        };
        let mut options = AttentionOptions { scale: 1.0, ..AttentionOptions::new(width) };
        if sizes.slides[layer] {
            options.window = parts::window(config, Some(512))?;
        }
        Ok(Self {
            query: weights.linear("q_proj", hidden, heads * width, bias)?,
            query_norm: weights.rms_norm("q_norm", width, epsilon, 0.0)?,
            stored,
            output: weights.linear("o_proj", heads * width, hidden, bias)?,
            options,
            heads: [heads, kv],
            width,
            source,
        })
    }

    /// What the layer stores.
    fn stores(&self, sizes: &Sizes) -> LayerShape {
        match self.stored {
            Some(_) => LayerShape::heads(sizes.kv, sizes.width),
            None => LayerShape::default(),
        }
    }

    fn forward(&self, rows: &Tensor, angles: &Angles, batch: &Batch, cache: &Cache) -> Result<Tensor> {
        let count = rows.dim(0)?;
        let [heads, kv] = self.heads;
        let split = |projection: &Linear, heads: usize| -> Result<Tensor> {
            Ok(projection.forward(rows)?.reshape((count, heads, self.width))?)
        };
        let queries = angles.apply(&self.query_norm.forward(&split(&self.query, heads)?)?)?;
        let cache = cache.layer(self.source)?.rows()?;
        if let Some((key, key_norm, value, value_norm)) = &self.stored {
            let keys = angles.apply(&key_norm.forward(&split(key, kv)?)?)?;
            let values = value_norm.forward(&split(value, kv)?)?;
            cache.write(batch, &keys, Some(&values))?;
        }
        Ok(self.output.forward(&attend(&queries, &self.options, batch, cache)?)?)
    }
}

#[derive(Debug)]
struct FeedForward {
    gate: Linear,
    up: Linear,
    down: Linear,
    activation: Activation,
    /// Only gates this many standard deviations above the mean of their row are kept.
    cutoff: Option<f64>,
}

impl FeedForward {
    fn load(
        config: &Config,
        weights: &Weights,
        sizes: &Sizes,
        layer: usize,
        activation: Activation,
    ) -> Result<Self> {
        let hidden = sizes.hidden;
        let inner = of_layer(config, "intermediate_size", layer)?.unwrap_or(16_384.0) as usize;
        // Reference: by default, the first ten layers of a deep model keep one gate of twenty.
        let default = if sizes.layers > 10 && layer < 10 { 0.95 } else { 0.0 };
        let dropped = of_layer(config, "activation_sparsity_pattern", layer)?.unwrap_or(default);
        if !(0.0..1.0).contains(&dropped) {
            return Err(parts::wrong(
                config,
                "activation_sparsity_pattern",
                "numbers from zero to below one",
            ));
        }
        let cutoff = (dropped > 0.0).then(|| 2.0_f64.sqrt() * erf_inv(2.0 * dropped - 1.0));
        Ok(Self {
            gate: weights.linear("gate_proj", hidden, inner, false)?,
            up: weights.linear("up_proj", hidden, inner, false)?,
            down: weights.linear("down_proj", inner, hidden, false)?,
            activation,
            cutoff,
        })
    }

    fn forward(&self, rows: &Tensor) -> Result<Tensor> {
        let mut gate = self.gate.forward(rows)?;
        if let Some(cutoff) = self.cutoff {
            let mean = gate.mean_keepdim(D::Minus1)?;
            let deviation = gate.broadcast_sub(&mean)?.sqr()?.mean_keepdim(D::Minus1)?.sqrt()?;
            gate = gate.broadcast_sub(&(mean + (deviation * cutoff)?)?)?.relu()?;
        }
        Ok(self.down.forward(&self.activation.gated(&gate, &self.up.forward(rows)?)?)?)
    }
}

/// A number, or the one of a layer in a list.
fn of_layer(config: &Config, field: &str, layer: usize) -> Result<Option<f64>> {
    match config.get(field) {
        Some(value) if value.as_list().is_some() => {
            let all = config.numbers(field)?.unwrap_or_default();
            let own = all.get(layer).copied().filter(|number| *number >= 0.0);
            let expected = "a number, or a list with one for each layer";
            own.map(Some).ok_or_else(|| parts::wrong(config, field, expected))
        }
        _ => config.optional_number(field),
    }
}
