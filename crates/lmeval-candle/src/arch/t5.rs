//! T5 and mT5: an encoder, and a decoder that attends to what it has made of the source.
//!
//! The cache row of a source token holds the keys and values for the decoder's attention to the source, that of a decoder
//! token those for its attention to itself.

use candle_core::{DType, Tensor};

use super::{Architecture, Shape, logits, parts};
use crate::batch::{Batch, Segment, Span};
use crate::cache::{Cache, LayerShape, RowCache};
use crate::config::Config;
use crate::error::{Error, Result};
use crate::layers::{Activation, AttentionOptions, Distances, Linear, Norm, attend};
use crate::matrix::Matrix;
use crate::weights::Weights;

/// Builds the model.
pub(super) fn build(config: &Config, weights: &Weights) -> Result<Box<dyn Architecture>> {
    let hidden = config.size("d_model")?;
    let vocabulary = config.size("vocab_size")?;
    let (layers, heads, width) =
        (config.size("num_layers")?, config.size("num_heads")?, config.size("d_kv")?);
    let decoder_layers = parts::checked_layers(config.size_or("num_decoder_layers", layers)?)?;
    let name = if weights.has("shared.weight") { "shared.weight" } else { "encoder.embed_tokens.weight" };
    let embedding = weights.matrix(name, [vocabulary, hidden])?;
    // Copies of the embedding, and a table of positions that is not used.
    for name in ["encoder.embed_tokens", "decoder.embed_tokens"] {
        weights.skip(name);
    }
    weights.skip("decoder.block.0.layer.1.EncDecAttention.relative_attention_bias");
    let head = parts::head(weights, "lm_head", &embedding, true)?;
    // Reference: whether the head is tied says whether its input is scaled; it is tied in any case.
    let scales = config.flag_or("scale_decoder_outputs", config.flag_or("tie_word_embeddings", true)?)?;
    let start = config.optional_size("decoder_start_token_id")?;
    let start = start.ok_or_else(|| Error::MissingField("decoder_start_token_id".into()))? as u32;
    Ok(Box::new(T5 {
        shape: Shape {
            layers: vec![LayerShape::heads(heads, width); decoder_layers],
            hidden,
            vocabulary,
            positions: None,
        },
        embedding,
        dtype: weights.dtype(),
        encoder: Stack::load(config, &weights.at("encoder"), parts::checked_layers(layers)?, false)?,
        decoder: Stack::load(config, &weights.at("decoder"), decoder_layers, true)?,
        head,
        scale: scales.then(|| (hidden as f64).sqrt().recip()),
        start,
    }))
}

/// The model.
#[derive(Debug)]
struct T5 {
    shape: Shape,
    embedding: Matrix,
    /// The data type of the computation.
    dtype: DType,
    encoder: Stack,
    decoder: Stack,
    head: Linear,
    /// Scales what the head reads.
    scale: Option<f64>,
    start: u32,
}

/// The blocks of the encoder or the decoder.
#[derive(Debug)]
struct Stack {
    blocks: Vec<Block>,
    norm: Norm,
    /// How the attention of all blocks to their own rows is computed.
    options: AttentionOptions,
}

#[derive(Debug)]
struct Block {
    own: (Norm, Attention),
    /// Attention to the source.
    source: Option<(Norm, Attention)>,
    feed_forward: (Norm, FeedForward),
}

impl Stack {
    fn load(config: &Config, weights: &Weights, layers: usize, is_decoder: bool) -> Result<Self> {
        let hidden = config.size("d_model")?;
        let epsilon = config.number_or("layer_norm_epsilon", 1e-6)?;
        let heads = config.size("num_heads")?;
        let blocks = (0..layers).map(|index| {
            let weights = weights.at("block").at(index).at("layer");
            let norm = |layer: usize| weights.at(layer).rms_norm("layer_norm", hidden, epsilon, 0.0);
            let attention = |layer: usize, name: &str| Attention::load(config, &weights.at(layer).at(name));
            let last = if is_decoder { 2 } else { 1 };
            let source = || Ok::<_, Error>((norm(1)?, attention(1, "EncDecAttention")?));
            Ok(Block {
                own: (norm(0)?, attention(0, "SelfAttention")?),
                source: if is_decoder { Some(source()?) } else { None },
                feed_forward: (norm(last)?, FeedForward::load(config, &weights.at(last))?),
            })
        });
        let buckets = config.size_or("relative_attention_num_buckets", 32)?;
        let most = config.size_or("relative_attention_max_distance", 128)?;
        let exact = if is_decoder { buckets / 2 } else { buckets / 4 };
        if exact == 0 || most <= exact {
            let expected = format!("larger than {exact}, the distances with a bucket each");
            return Err(parts::wrong(config, "relative_attention_max_distance", &expected));
        }
        let own = weights.at("block.0.layer.0.SelfAttention.relative_attention_bias").widened();
        let table = own.tensor("weight", &[buckets, heads])?.t()?.to_vec2()?;
        let options = AttentionOptions {
            distances: Some(Distances::new(&table, most, !is_decoder)),
            sees_all: !is_decoder,
            ..unscaled()
        };
        let norm = weights.rms_norm("final_layer_norm", hidden, epsilon, 0.0)?;
        Ok(Self { blocks: blocks.collect::<Result<_>>()?, norm, options })
    }
}

/// Attention without a scale.
fn unscaled() -> AttentionOptions {
    AttentionOptions::new(1)
}

#[derive(Debug)]
struct Attention {
    query: Linear,
    key: Linear,
    value: Linear,
    output: Linear,
    heads: usize,
    width: usize,
}

impl Attention {
    fn load(config: &Config, weights: &Weights) -> Result<Self> {
        let (hidden, heads, width) =
            (config.size("d_model")?, config.size("num_heads")?, config.size("d_kv")?);
        let inner = heads * width;
        Ok(Self {
            query: weights.linear("q", hidden, inner, false)?,
            key: weights.linear("k", hidden, inner, false)?,
            value: weights.linear("v", hidden, inner, false)?,
            output: weights.linear("o", inner, hidden, false)?,
            heads,
            width,
        })
    }

    /// Splits the outputs of a projection into heads.
    fn split(&self, projection: &Linear, rows: &Tensor) -> Result<Tensor> {
        Ok(projection.forward(rows)?.reshape((rows.dim(0)?, self.heads, self.width))?)
    }

    /// The keys and values of rows.
    fn keys(&self, rows: &Tensor) -> Result<(Tensor, Tensor)> {
        Ok((self.split(&self.key, rows)?, self.split(&self.value, rows)?))
    }

    fn attend(
        &self,
        rows: &Tensor,
        options: &AttentionOptions,
        batch: &Batch,
        cache: &RowCache,
    ) -> Result<Tensor> {
        let made = attend(&self.split(&self.query, rows)?, options, batch, cache)?;
        Ok(self.output.forward(&made)?)
    }
}

#[derive(Debug)]
struct FeedForward {
    gate: Option<Linear>,
    up: Linear,
    down: Linear,
    activation: Activation,
}

impl FeedForward {
    fn load(config: &Config, weights: &Weights) -> Result<Self> {
        let (hidden, inner) = (config.size("d_model")?, config.size("d_ff")?);
        let name = config.string("feed_forward_proj")?.unwrap_or("relu");
        let (is_gated, kind) = match name.split_once('-') {
            Some(("gated", kind)) => (true, kind),
            None => (false, name),
            Some(_) => {
                return Err(parts::wrong(config, "feed_forward_proj", "a function, or `gated-` before one"));
            }
        };
        // Reference: the gated one means the approximation.
        let kind = if (is_gated, kind) == (true, "gelu") { "gelu_new" } else { kind };
        let weights = weights.at("DenseReluDense");
        let linear = |name: &str| weights.linear(name, hidden, inner, false);
        // Reference: this layer overflows in float16, and is kept in float32.
        let exact = if weights.dtype() == DType::F16 { weights.exact() } else { weights.clone() };
        Ok(Self {
            gate: if is_gated { Some(linear("wi_0")?) } else { None },
            up: linear(if is_gated { "wi_1" } else { "wi" })?,
            down: exact.linear("wo", inner, hidden, false)?,
            activation: Activation::named(config, "feed_forward_proj", kind)?,
        })
    }

    fn forward(&self, rows: &Tensor) -> Result<Tensor> {
        let up = self.up.forward(rows)?;
        let inner = match &self.gate {
            Some(gate) => self.activation.gated(&gate.forward(rows)?, &up)?,
            None => self.activation.forward(&up)?,
        };
        if rows.dtype() == DType::F16 {
            return Ok(self.down.forward(&inner.to_dtype(DType::F32)?)?.to_dtype(rows.dtype())?);
        }
        Ok(self.down.forward(&inner)?)
    }
}

impl Architecture for T5 {
    fn shape(&self) -> &Shape {
        &self.shape
    }

    fn forward(&self, batch: &Batch, cache: &Cache) -> Result<Tensor> {
        let (sources, targets): (Vec<&Segment>, Vec<&Segment>) =
            batch.segments().iter().partition(|segment| segment.offset < segment.source);
        let is_whole = |segment: &&Segment| segment.offset == 0 && segment.len == segment.source;
        if !sources.iter().all(is_whole) || targets.iter().any(|segment| segment.source == 0) {
            return Err(Error::unsupported("The encoder reads whole sources, and the decoder needs one"));
        }
        if !sources.is_empty() {
            self.encode(batch, &sources, cache)?;
        }
        let made = Tensor::zeros((batch.rows(), self.shape.hidden), self.dtype, batch.device())?;
        if targets.is_empty() {
            return Ok(made);
        }
        let rows = row_indices(&targets, batch)?;
        Ok(made.index_add(&rows, &self.decode(batch, &rows, &targets, cache)?, 0)?)
    }

    fn head(&self, rows: &Tensor) -> Result<Tensor> {
        match self.scale {
            Some(scale) => logits(&self.head, &(rows * scale)?),
            None => logits(&self.head, rows),
        }
    }

    fn decoder_start(&self) -> Option<u32> {
        Some(self.start)
    }
}

impl T5 {
    /// Encodes sources, and stores the decoder's keys and values for them.
    fn encode(&self, batch: &Batch, sources: &[&Segment], cache: &Cache) -> Result<()> {
        let tokens = batch.tokens().index_select(&row_indices(sources, batch)?, 0)?;
        let mut rows = self.embedding.gather(&tokens)?;
        // The keys of the encoder are not stored: they are the rows themselves.
        let own = packed(sources, |segment, first| {
            let spans = vec![Span { start: first, len: segment.len }];
            Segment { first, len: segment.len, spans, ..Segment::default() }
        });
        let own = Batch::of(tokens.clone(), own);
        for block in &self.encoder.blocks {
            batch.check()?;
            let (norm, attention) = &block.own;
            let read = norm.forward(&rows)?;
            let (keys, values) = attention.keys(&read)?;
            let keys = RowCache::of(keys, values)?;
            rows = (&rows + attention.attend(&read, &self.encoder.options, &own, &keys)?)?;
            let (norm, feed_forward) = &block.feed_forward;
            rows = (&rows + feed_forward.forward(&norm.forward(&rows)?)?)?;
        }
        let rows = self.encoder.norm.forward(&rows)?;
        let stored = packed(sources, |segment, first| Segment {
            first,
            spans: segment.spans.clone(),
            ..segment.clone()
        });
        let stored = Batch::of(tokens, stored);
        for (index, block) in self.decoder.blocks.iter().enumerate() {
            let Some((_, attention)) = &block.source else { continue };
            let (keys, values) = attention.keys(&rows)?;
            cache.layer(index)?.rows()?.write(&stored, &keys, Some(&values))?;
        }
        Ok(())
    }

    /// Computes the rows of the decoder after the final norm.
    fn decode(&self, batch: &Batch, rows: &Tensor, targets: &[&Segment], cache: &Cache) -> Result<Tensor> {
        let tokens = batch.tokens().index_select(rows, 0)?;
        let mut rows = self.embedding.gather(&tokens)?;
        let own = packed(targets, |segment, first| {
            let (_, spans) = split(&segment.spans, segment.source);
            Segment {
                first,
                len: segment.len,
                offset: segment.offset - segment.source,
                spans,
                ..Segment::default()
            }
        });
        let own = Batch::of(tokens.clone(), own);
        let source = packed(targets, |segment, first| {
            let (spans, _) = split(&segment.spans, segment.source);
            Segment { first, len: segment.len, spans, ..Segment::default() }
        });
        let source = Batch::of(tokens, source);
        let to_source = AttentionOptions { sees_all: true, ..unscaled() };
        for (index, block) in self.decoder.blocks.iter().enumerate() {
            batch.check()?;
            let cache = cache.layer(index)?.rows()?;
            let (norm, attention) = &block.own;
            let read = norm.forward(&rows)?;
            let (keys, values) = attention.keys(&read)?;
            cache.write(&own, &keys, Some(&values))?;
            rows = (&rows + attention.attend(&read, &self.decoder.options, &own, cache)?)?;
            if let Some((norm, attention)) = &block.source {
                rows = (&rows + attention.attend(&norm.forward(&rows)?, &to_source, &source, cache)?)?;
            }
            let (norm, feed_forward) = &block.feed_forward;
            rows = (&rows + feed_forward.forward(&norm.forward(&rows)?)?)?;
        }
        Ok(self.decoder.norm.forward(&rows)?)
    }
}

/// The rows of segments in a batch.
fn row_indices(segments: &[&Segment], batch: &Batch) -> Result<Tensor> {
    let rows = segments.iter().flat_map(|segment| segment.first..segment.first + segment.len);
    Ok(Tensor::new(rows.map(|row| row as u32).collect::<Vec<_>>(), batch.device())?)
}

/// Segments one after the other, each made from one of a batch and its first row.
fn packed(segments: &[&Segment], make: impl Fn(&Segment, usize) -> Segment) -> Vec<Segment> {
    let mut first = 0;
    let made = segments.iter().map(|segment| {
        let own = make(segment, first);
        first += segment.len;
        own
    });
    made.collect()
}

/// Splits spans after a number of rows.
fn split(spans: &[Span], rows: usize) -> (Vec<Span>, Vec<Span>) {
    let (mut before, mut behind) = (Vec::new(), Vec::new());
    let mut left = rows;
    for &Span { start, len } in spans {
        let first = left.min(len);
        left -= first;
        before.extend((first > 0).then_some(Span { start, len: first }));
        behind.extend((first < len).then_some(Span { start: start + first, len: len - first }));
    }
    (before, behind)
}
