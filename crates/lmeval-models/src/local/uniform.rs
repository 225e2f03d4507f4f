//! `uniform`: chance level.
//!
//! Guessing means that every option is equally likely to be picked, whatever its length or index. One
//! constant for all options would always pick the first one, and a constant per byte the shortest one, so the
//! log-likelihood of an option is pseudo-random: a hash of seed, context and continuation. Values are spread
//! over a thousand powers of two, evenly on the logarithmic scale, so that dividing by a length hardly
//! changes which one is the greatest: an option ten times as long as another one beats it in `acc_norm` in
//! 50.3% of cases. All values are just below 0, so normalized probabilities are equal.

use std::sync::Arc;

use lmeval_core::{
    Answer, Arguments, Context, InProcess, LocalModel, Model, ModelError, ModelIdentity, ModelRequest,
    ModelSettings, ModelTemplate, ModelTraits, Response,
};
use rayon::prelude::*;
use sha2::{Digest, Sha256};

use super::arguments;
use super::generation::GenerationSettings;
use super::template::PlainTemplate;

const LN_256: f64 = 8.0 * std::f64::consts::LN_2;

/// Powers of two over which the values are spread.
const OCTAVES: u64 = 1000;

/// Maximum length of a generated word.
const LONGEST_WORD: usize = 8;

#[derive(Debug)]
pub(crate) struct Uniform {
    seed: i64,
    /// Whether a continuation gets the probability of its bytes instead of a random one.
    bytes: bool,
}

pub(crate) fn create(settings: &ModelSettings) -> Result<Arc<dyn Model>, ModelError> {
    arguments::check(settings, "uniform", &["seed", "bytes"])?;
    let model = Uniform { seed: arguments::seed(settings)?, bytes: settings.flag("bytes", false)? };
    Ok(Arc::new(InProcess::new(model)))
}

impl Uniform {
    /// 256 pseudo-random bits that depend only on the request.
    fn hash(&self, kind: &str, repeat: usize, context: &Context, continuation: &str) -> [u8; 32] {
        let context = context.hash_text();
        let mut hash = Sha256::new();
        hash.update(self.seed.to_le_bytes());
        for part in [kind, &repeat.to_string(), &context, continuation] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        hash.finalize().into()
    }
}

/// A value in (-1, 0), evenly spread on the logarithmic scale; computed without rounding.
fn drawn_logprob(hash: &[u8; 32]) -> f64 {
    let word = |offset: usize| -> u64 {
        hash[offset..offset + 8].iter().fold(0, |word, byte| (word << 8) | u64::from(*byte))
    };
    let exponent = 1022 - word(0) % OCTAVES;
    -f64::from_bits((exponent << 52) | (word(8) >> 12))
}

/// A word of up to eight lowercase letters.
fn drawn_word(hash: &[u8; 32]) -> String {
    let length = 1 + usize::from(hash[0]) % LONGEST_WORD;
    hash[1..=length].iter().map(|byte| char::from(b'a' + byte % 26)).collect()
}

impl LocalModel for Uniform {
    fn traits(&self) -> ModelTraits {
        ModelTraits { is_worth_saving: false, takes_media: true, ..ModelTraits::local() }
    }

    fn identity(&self) -> ModelIdentity {
        let facts = vec![("seed", self.seed.to_string()), ("bytes", self.bytes.to_string())];
        ModelIdentity { backend: "uniform".to_owned(), facts }
    }

    fn chat_template(&self, _: Option<&str>) -> Result<ModelTemplate, ModelError> {
        Ok(PlainTemplate::built_in().into_model_template())
    }

    fn answer(&self, request: &ModelRequest) -> Result<Response, ModelError> {
        Ok(match &request.arguments {
            Arguments::Loglikelihood { continuation, .. } if self.bytes => {
                Response::Loglikelihood { logprob: bytes_logprob(continuation), is_greedy: false }
            }
            Arguments::Loglikelihood { context, continuation } => {
                let hash = self.hash("loglikelihood", 0, context, continuation);
                Response::Loglikelihood { logprob: drawn_logprob(&hash), is_greedy: false }
            }
            Arguments::Rolling { text } => Response::Rolling { logprob: bytes_logprob(text) },
            Arguments::Generate { context, kwargs } => {
                let settings = GenerationSettings::read(kwargs)?;
                let repeat = if settings.temperature > 0.0 { request.repeat } else { 0 };
                let mut word = drawn_word(&self.hash("generate_until", repeat, context, ""));
                word.truncate(settings.limit);
                Response::Text(settings.cut(&word).into())
            }
            Arguments::Letters { .. } => return Err(request.unsupported()),
        })
    }

    fn answer_batch(&self, requests: &[ModelRequest]) -> Vec<Result<Answer, ModelError>> {
        requests.par_iter().map(|request| self.answer(request).map(Answer::from)).collect()
    }
}

/// Eight bits per byte.
fn bytes_logprob(text: &str) -> f64 {
    -(text.len() as f64) * LN_256
}
