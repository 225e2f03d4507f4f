//! Rotary position embeddings and their scaling to longer sequences.

use std::f64::consts::TAU;
#[cfg(feature = "cuda")]
use std::sync::{Arc, Mutex, PoisonError};

use candle_core::{D, DType, Tensor};
use candle_nn::rotary_emb;
use lmeval_pycompat::Value;

use crate::batch::Batch;
use crate::config::Config;
use crate::error::{Error, Result};

/// How the dimensions of a head are paired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RotaryStyle {
    /// Dimension `i` of the first half with dimension `i` of the second half.
    Halves,
    /// Adjacent dimensions.
    Neighbours,
}

/// Rotary parameters of a configuration.
#[derive(Clone, Debug)]
pub(crate) struct RotaryParameters {
    /// The base of the frequencies.
    pub theta: f64,
    scaling: Scaling,
}

#[derive(Clone, Debug)]
enum Scaling {
    None,
    Linear { factor: f64 },
    Dynamic { factor: f64, limit: usize },
    Llama3 { factor: f64, low: f64, high: f64, original: f64 },
    Yarn { factor: f64, original: f64, fast: f64, slow: f64, truncate: bool, attention: f64 },
    Long { short: Vec<f64>, long: Vec<f64>, original: usize, attention: f64 },
}

impl RotaryParameters {
    /// Unscaled rotary embeddings.
    pub(crate) fn plain(theta: f64) -> Self {
        Self { theta, scaling: Scaling::None }
    }

    /// Wavelengths stretched by a factor each, for sequences of any length. Sines and cosines are scaled by `attention`.
    pub(crate) fn stretched(theta: f64, factors: Vec<f64>, attention: f64) -> Self {
        let long = factors.clone();
        Self { theta, scaling: Scaling::Long { short: factors, long, original: usize::MAX, attention } }
    }

    /// The object of a configuration with rotary parameters.
    ///
    /// Reference: the older of the two names wins.
    pub(crate) fn object(config: &Config) -> Result<Option<Config>> {
        config.first_object(&["rope_scaling", "rope_parameters"])
    }

    /// Reads `rope_theta` with `rope_scaling`, or `rope_parameters`.
    pub(crate) fn read(config: &Config, default_theta: f64) -> Result<Self> {
        let theta = config.optional_positive("rope_theta")?.unwrap_or(default_theta);
        let original = config.optional_size("original_max_position_embeddings")?;
        Self::read_object(config, Self::object(config)?.as_ref(), theta, original)
    }

    /// Reads an object of rotary parameters. `theta` is the default; `original` is the top-level pre-training length, which
    /// overrides that of the object.
    pub(crate) fn read_object(
        config: &Config,
        own: Option<&Config>,
        theta: f64,
        original: Option<usize>,
    ) -> Result<Self> {
        let Some(own) = own else { return Ok(Self::plain(theta)) };
        if let Some(value) = own.get("full_attention").or(own.get("sliding_attention")) {
            let field = if own.has("full_attention") { "full_attention" } else { "sliding_attention" };
            return Err(own.wrong(field, "missing, because all layers use the same rotary embedding", value));
        }
        Ok(Self {
            theta: own.optional_positive("rope_theta")?.unwrap_or(theta),
            scaling: Scaling::read(config, own, original)?,
        })
    }
}

impl Scaling {
    fn read(config: &Config, own: &Config, outside: Option<usize>) -> Result<Self> {
        let name = match own.string("rope_type")? {
            Some(name) => name,
            None => own.string("type")?.unwrap_or("default"),
        };
        let positions = || config.size("max_position_embeddings");
        let positive = |name: &str| own.optional_positive(name)?.map_or_else(|| own.number(name), Ok);
        let original = || match outside {
            Some(size) => Ok(size),
            None => own.optional_size("original_max_position_embeddings")?.map_or_else(positions, Ok),
        };
        match name {
            // The second rotates by places in images, too; the places of text are its positions.
            "default" | "mrope" => Ok(Self::None),
            "linear" => Ok(Self::Linear { factor: positive("factor")? }),
            "dynamic" => Ok(Self::Dynamic { factor: positive("factor")?, limit: positions()? }),
            "llama3" => Ok(Self::Llama3 {
                factor: positive("factor")?,
                low: positive("low_freq_factor")?,
                high: positive("high_freq_factor")?,
                original: original()? as f64,
            }),
            "yarn" => {
                let original = original()? as f64;
                let factor = match own.optional_positive("factor")? {
                    Some(factor) => factor,
                    None => positions()? as f64 / original,
                };
                // Reference: zero means the default.
                let turns = |name: &str, default: f64| {
                    let given = own.optional_number(name)?.filter(|turns| *turns != 0.0);
                    Ok::<_, Error>(given.unwrap_or(default))
                };
                Ok(Self::Yarn {
                    factor,
                    original,
                    fast: turns("beta_fast", 32.0)?,
                    slow: turns("beta_slow", 1.0)?,
                    truncate: own.flag_or("truncate", !own.is_null("truncate"))?,
                    attention: yarn_attention(own, factor)?,
                })
            }
            "longrope" | "su" => {
                let factors = |name: &str| {
                    own.numbers(name)?.ok_or_else(|| Error::MissingField(format!("rope_scaling.{name}")))
                };
                let original = original()?;
                let factor = match own.optional_positive("factor")? {
                    Some(factor) => factor,
                    None => positions()? as f64 / original as f64,
                };
                let attention = match own.optional_positive("attention_factor")? {
                    Some(factor) => factor,
                    None if factor <= 1.0 => 1.0,
                    None => (1.0 + factor.ln() / (original as f64).ln()).sqrt(),
                };
                Ok(Self::Long {
                    short: factors("short_factor")?,
                    long: factors("long_factor")?,
                    original,
                    attention,
                })
            }
            other => {
                let field = if own.has("rope_type") { "rope_type" } else { "type" };
                let known = "`default`, `linear`, `dynamic`, `llama3`, `yarn` or `longrope`";
                Err(own.wrong(field, known, &Value::str(other)))
            }
        }
    }
}

fn yarn_attention(own: &Config, factor: f64) -> Result<f64> {
    let scale = |weight: f64| if factor <= 1.0 { 1.0 } else { 0.1 * weight * factor.ln() + 1.0 };
    if let Some(attention) = own.optional_positive("attention_factor")? {
        return Ok(attention);
    }
    match (own.optional_number("mscale")?, own.optional_number("mscale_all_dim")?) {
        (Some(weight), Some(all)) if weight != 0.0 && all != 0.0 => Ok(scale(weight) / scale(all)),
        _ => Ok(scale(1.0)),
    }
}

/// Rotary embeddings of a model.
#[derive(Clone, Debug)]
pub(crate) struct Rotary {
    parameters: RotaryParameters,
    width: usize,
    style: RotaryStyle,
    /// The cosines and sines of all positions so far, on a GPU.
    #[cfg(feature = "cuda")]
    table: Arc<Mutex<Option<Tensor>>>,
}

/// The fewest positions that a table has.
#[cfg(feature = "cuda")]
const FEWEST_POSITIONS: usize = 4096;

impl Rotary {
    /// Rotary embeddings of the first `width` dimensions of each head.
    pub(crate) fn new(parameters: RotaryParameters, width: usize, style: RotaryStyle) -> Result<Self> {
        if width == 0 || !width.is_multiple_of(2) {
            return Err(Error::unsupported(format!(
                "Rotary embeddings cannot rotate {width} dimensions of a head"
            )));
        }
        if matches!(parameters.scaling, Scaling::Dynamic { .. }) && width == 2 {
            return Err(Error::unsupported(
                "Rotary embeddings of two dimensions cannot have the scaling type `dynamic`",
            ));
        }
        if let Scaling::Long { short, long, .. } = &parameters.scaling
            && (short.len() != width / 2 || long.len() != width / 2)
        {
            return Err(Error::unsupported(format!(
                "`short_factor` and `long_factor` of the rotary embeddings must have {} elements",
                width / 2
            )));
        }
        Ok(Self {
            parameters,
            width,
            style,
            #[cfg(feature = "cuda")]
            table: Arc::default(),
        })
    }

    /// The length above which rotations depend on the length of a sequence.
    pub(crate) fn boundary(&self) -> Option<usize> {
        match self.parameters.scaling {
            Scaling::Dynamic { limit, .. } => Some(limit),
            _ => self.crossing(),
        }
    }

    /// The length beyond which the rotation of all tokens changes, including earlier ones.
    pub(crate) fn crossing(&self) -> Option<usize> {
        match &self.parameters.scaling {
            Scaling::Long { short, long, original, .. } if short != long => Some(*original),
            _ => None,
        }
    }

    /// The rotary angles of a batch's rows, in a data type.
    pub(crate) fn at(&self, batch: &Batch, dtype: DType) -> Result<Angles> {
        #[cfg(feature = "cuda")]
        if let Some(turns) = self.turns(batch)? {
            let rows = batch.ragged()?.places.narrow(0, 0, batch.rows())?;
            let angles = Source::Table { turns, rows, dtype };
            return Ok(Angles { source: angles, width: self.width, style: self.style });
        }
        let count = batch.rows() * self.width / 2;
        let (mut cos, mut sin) = (Vec::with_capacity(count), Vec::with_capacity(count));
        let boundary = self.boundary().unwrap_or(usize::MAX);
        let mut known = 0;
        let (mut frequencies, mut scale) = self.frequencies(known);
        for segment in batch.segments() {
            let length = if segment.length > boundary { segment.length } else { 0 };
            if length != known {
                (frequencies, scale) = self.frequencies(length);
                known = length;
            }
            for position in segment.offset..segment.offset + segment.len {
                for frequency in &frequencies {
                    let (sine, cosine) = (position as f32 * frequency).sin_cos();
                    cos.push(cosine * scale);
                    sin.push(sine * scale);
                }
            }
        }
        let shape = (batch.rows(), self.width / 2);
        let tensor = |numbers| Tensor::from_vec(numbers, shape, batch.device())?.to_dtype(dtype);
        let source = Source::Rows { cos: tensor(cos)?, sin: tensor(sin)? };
        Ok(Angles { source, width: self.width, style: self.style })
    }

    /// The table on a GPU, if the rotation of all rows depends on nothing but their positions.
    #[cfg(feature = "cuda")]
    fn turns(&self, batch: &Batch) -> Result<Option<crate::cuda::Turns>> {
        let boundary = self.boundary().unwrap_or(usize::MAX);
        let is_plain = batch.segments().iter().all(|segment| segment.length <= boundary);
        if !batch.device().is_cuda() || !is_plain || !batch.ragged()?.has_positions() {
            return Ok(None);
        }
        let needed = batch.ragged()?.positions;
        let mut known = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let table = match known.as_ref() {
            Some(table) if table.dim(0)? >= needed => table.clone(),
            _ => {
                let positions = needed.next_power_of_two().max(FEWEST_POSITIONS);
                let (frequencies, scale) = self.frequencies(0);
                let turn = |position: usize| {
                    let turn = move |frequency: &f32| {
                        let (sine, cosine) = (position as f32 * frequency).sin_cos();
                        [cosine * scale, sine * scale]
                    };
                    frequencies.iter().flat_map(turn)
                };
                let numbers: Vec<f32> = (0..positions).flat_map(turn).collect();
                let table = Tensor::from_vec(numbers, (positions, self.width / 2, 2), batch.device())?;
                known.insert(table).clone()
            }
        };
        Ok(Some(crate::cuda::Turns { table, is_adjacent: self.style == RotaryStyle::Neighbours }))
    }

    /// The frequency of each pair, and the scale of sines and cosines.
    ///
    /// Reference: computed in float32 and in this order. More precise frequencies would differ in the last bit, which becomes
    /// visible after thousands of positions.
    fn frequencies(&self, length: usize) -> (Vec<f32>, f32) {
        let width = self.width as f64;
        let theta = match self.parameters.scaling {
            Scaling::Dynamic { factor, limit } if length > limit => {
                let stretch = factor * length as f64 / limit as f64 - (factor - 1.0);
                self.parameters.theta * stretch.powf(width / (width - 2.0))
            }
            _ => self.parameters.theta,
        };
        let base = f64::from(theta as f32);
        let powers = (0..self.width / 2).map(|pair| {
            let exponent = (2 * pair) as f32 / self.width as f32;
            base.powf(f64::from(exponent)) as f32
        });
        let plain = powers.clone().map(f32::recip);
        match &self.parameters.scaling {
            Scaling::None | Scaling::Dynamic { .. } => (plain.collect(), 1.0),
            Scaling::Linear { factor } => (plain.map(|frequency| frequency / *factor as f32).collect(), 1.0),
            Scaling::Llama3 { factor, low, high, original } => {
                let stretch = |frequency: f32| {
                    let wave = frequency.recip() * TAU as f32;
                    if wave < (original / high) as f32 {
                        return frequency;
                    }
                    if wave > (original / low) as f32 {
                        return frequency / *factor as f32;
                    }
                    let smooth = (wave.recip() * *original as f32 - *low as f32) / (high - low) as f32;
                    (1.0 - smooth) * frequency / *factor as f32 + smooth * frequency
                };
                (plain.map(stretch).collect(), 1.0)
            }
            Scaling::Yarn { factor, original, fast, slow, truncate, attention } => {
                let dimension = |turns: f64| width * (original / (turns * TAU)).ln() / (2.0 * theta.ln());
                let (mut first, mut last) = (dimension(*fast), dimension(*slow));
                if *truncate {
                    (first, last) = (first.floor(), last.ceil());
                }
                (first, last) = (first.max(0.0), last.min(width - 1.0));
                if first == last {
                    last += 0.001;
                }
                let stretch = |(pair, power): (usize, f32)| {
                    let ramp = ((pair as f32 - first as f32) / (last - first) as f32).clamp(0.0, 1.0);
                    let kept = 1.0 - ramp;
                    (*factor as f32 * power).recip() * (1.0 - kept) + power.recip() * kept
                };
                (powers.enumerate().map(stretch).collect(), *attention as f32)
            }
            Scaling::Long { short, long, original, attention } => {
                let factors = if length > *original { long } else { short };
                let stretch = |(power, factor): (f32, &f64)| (*factor as f32 * power).recip();
                (powers.zip(factors).map(stretch).collect(), *attention as f32)
            }
        }
    }
}

/// Sines and cosines of a batch's rows.
#[derive(Clone, Debug)]
pub(crate) struct Angles {
    source: Source,
    width: usize,
    style: RotaryStyle,
}

/// Where the angles are.
#[derive(Clone, Debug)]
enum Source {
    /// `[rows, pairs]` each.
    Rows { cos: Tensor, sin: Tensor },
    /// In a table by position, and the positions of the rows.
    #[cfg(feature = "cuda")]
    Table { turns: crate::cuda::Turns, rows: Tensor, dtype: DType },
}

impl Angles {
    /// The table of a GPU.
    #[cfg(feature = "cuda")]
    pub(crate) fn turns(&self) -> Option<&crate::cuda::Turns> {
        match &self.source {
            Source::Table { turns, .. } => Some(turns),
            Source::Rows { .. } => None,
        }
    }

    /// Cosines and sines, `[rows, pairs]`.
    #[cfg_attr(
        not(feature = "cuda"),
        expect(clippy::unnecessary_wraps, reason = "looking up the table of a GPU can fail")
    )]
    fn tensors(&self) -> Result<(Tensor, Tensor)> {
        match &self.source {
            Source::Rows { cos, sin } => Ok((cos.clone(), sin.clone())),
            #[cfg(feature = "cuda")]
            Source::Table { turns, rows, dtype } => {
                let chosen = turns.table.index_select(rows, 0)?;
                let part = |index| chosen.narrow(2, index, 1)?.squeeze(2)?.contiguous()?.to_dtype(*dtype);
                Ok((part(0)?, part(1)?))
            }
        }
    }

    /// Rotates heads `[rows, heads, width]`. Further dimensions of a head are unchanged.
    pub(crate) fn apply(&self, heads: &Tensor) -> Result<Tensor> {
        let (_, _, width) = heads.dims3()?;
        if width > self.width {
            let rotated = self.rotate(&heads.narrow(D::Minus1, 0, self.width)?)?;
            let rest = heads.narrow(D::Minus1, self.width, width - self.width)?;
            return Ok(Tensor::cat(&[&rotated, &rest.contiguous()?], 2)?);
        }
        self.rotate(heads)
    }

    fn rotate(&self, heads: &Tensor) -> Result<Tensor> {
        let (cos, sin) = self.tensors()?;
        let rows = heads.contiguous()?.unsqueeze(0)?;
        let rotated = match self.style {
            RotaryStyle::Halves => rotary_emb::rope_thd(&rows, &cos, &sin)?,
            RotaryStyle::Neighbours => {
                let rows = rows.transpose(1, 2)?.contiguous()?;
                rotary_emb::rope_i(&rows, &cos, &sin)?.transpose(1, 2)?
            }
        };
        Ok(rotated.squeeze(0)?)
    }
}

#[cfg(test)]
mod tests {
    use lmeval_pycompat::{Value, json};

    use super::*;

    /// The sum of the bits of all frequencies, and the scale of sines and cosines.
    fn bits(config: &str, width: usize, length: usize) -> (u64, f32) {
        let Value::Dict(fields) = json::loads(config).unwrap() else { panic!("{config}") };
        let config = Config::from_fields((*fields).clone());
        let parameters = RotaryParameters::read(&config, 10_000.0).unwrap();
        let rotary = Rotary::new(parameters, width, RotaryStyle::Halves).unwrap();
        let (frequencies, scale) = rotary.frequencies(length);
        (frequencies.iter().map(|frequency| u64::from(frequency.to_bits())).sum(), scale)
    }

    #[test]
    fn frequencies_are_those_of_the_reference() {
        let llama3 = |factor: u32| {
            format!(
                r#"{{"rope_theta": 500000.0, "rope_scaling": {{"rope_type": "llama3", "factor": {factor},
                "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}}}}"#
            )
        };
        let linear = r#"{"rope_scaling": {"type": "linear", "factor": 3.0}}"#;
        let dynamic =
            r#"{"max_position_embeddings": 2048, "rope_scaling": {"type": "dynamic", "factor": 2.0}}"#;
        let yarn = r#"{"rope_theta": 1000000.0, "rope_scaling": {"rope_type": "yarn", "factor": 4.0,
            "original_max_position_embeddings": 32768}}"#;
        let recorded: [(&str, usize, usize, u64, f32); 9] = [
            ("{}", 64, 100, 32_348_573_512, 1.0),
            ("{}", 80, 100, 40_423_092_523, 1.0),
            (r#"{"rope_theta": 500000.0}"#, 128, 100, 63_149_401_323, 1.0),
            (linear, 64, 100, 31_922_721_993, 1.0),
            (dynamic, 128, 1000, 64_641_155_544, 1.0),
            (dynamic, 128, 3000, 64_386_699_458, 1.0),
            (&llama3(32), 64, 100, 30_978_712_179, 1.0),
            (&llama3(8), 128, 100, 62_355_240_189, 1.0),
            (yarn, 128, 100, 62_380_410_894, 1.138_629_4),
        ];
        for (config, width, length, expected, expected_scale) in recorded {
            let (sum, scale) = bits(config, width, length);
            // The reference's powers are sometimes off by one bit.
            assert!(sum.abs_diff(expected) <= 1, "{config}, {width}, {length}: {sum} instead of {expected}");
            assert_eq!(scale.to_bits(), expected_scale.to_bits(), "{config}");
        }
    }
}
