//! `ngram`: a byte-level language model, trained on any corpus within moments.
//!
//! A baseline that knows only which letters follow which. Its answers are exact probabilities of a
//! distribution over bytes, so log-likelihoods, perplexities and generations have their usual meaning, and
//! they are the same on every machine. A token is a byte.

mod corpus;
mod counts;
mod generate;
mod maths;
mod utf8;

use std::sync::Arc;

use lmeval_core::{
    Answer, Arguments, Context, InProcess, LocalModel, Model, ModelError, ModelErrorKind, ModelIdentity,
    ModelRequest, ModelSettings, ModelTemplate, ModelTraits, Response, Usage,
};
use rayon::prelude::*;

use self::corpus::Corpus;
use self::counts::{Counts, History};
use self::generate::greedy_symbol;
use self::utf8::Utf8State;
use super::arguments;
use super::generation::GenerationSettings;
use super::template::PlainTemplate;

/// The default n-gram length.
const DEFAULT_ORDER: i64 = 6;

/// The maximum n-gram length.
const LONGEST_ORDER: i64 = 8;

#[derive(Debug)]
pub(crate) struct Ngram {
    counts: Counts,
    order: i64,
    seed: i64,
    source: String,
    hash: String,
    template: PlainTemplate,
}

pub(crate) fn create(settings: &ModelSettings) -> Result<Arc<dyn Model>, ModelError> {
    Ngram::new(settings).map(|model| Arc::new(InProcess::new(model)) as Arc<dyn Model>)
}

impl Ngram {
    /// Trains on the corpus named by the arguments.
    pub(crate) fn new(settings: &ModelSettings) -> Result<Self, ModelError> {
        arguments::check(settings, "ngram", &["corpus", "corpus_limit", "order", "seed"])?;
        let order = settings.integer("order")?.unwrap_or(DEFAULT_ORDER);
        if !(1..=LONGEST_ORDER).contains(&order) {
            let message =
                format!("The model argument `order` must be between 1 and {LONGEST_ORDER}, not `{order}`");
            return Err(arguments::configuration(message));
        }
        let corpus = Corpus::read(settings)?;
        Ok(Self {
            counts: Counts::new(corpus.texts(), order as usize - 1),
            order,
            seed: arguments::seed(settings)?,
            source: corpus.source,
            hash: corpus.hash,
            template: PlainTemplate::built_in(),
        })
    }

    /// The log-likelihood of a continuation, and whether each of its bytes is the most likely one.
    fn score(&self, context: &str, text: &str) -> (f64, bool) {
        let mut history = History::after(context);
        let mut state = Utf8State::BOUNDARY;
        let (mut logprob, mut greedy) = (0.0, true);
        for byte in text.bytes() {
            logprob += maths::ln(self.counts.probability(history, byte));
            greedy = greedy && greedy_symbol(&self.counts.probabilities(history), state) == byte;
            history = history.then(byte);
            state = state.after(byte);
        }
        (logprob, greedy)
    }

    /// The log-likelihood of a string from the start of a document.
    fn score_whole(&self, text: &str) -> f64 {
        let mut history = History::START;
        text.bytes().fold(0.0, |sum, byte| {
            let probability = self.counts.probability(history, byte);
            history = history.then(byte);
            sum + maths::ln(probability)
        })
    }

    /// Renders a context as a string.
    fn text(&self, request: &ModelRequest, context: &Context) -> Result<Arc<str>, ModelError> {
        match context {
            Context::Text(text) | Context::Json(text) => Ok(Arc::clone(text)),
            Context::Messages(messages) => {
                self.template.render(messages, true).map(Arc::from).map_err(|error| {
                    let message =
                        format!("The chat messages of {} could not be rendered: {error}", request.describe());
                    ModelError::new(ModelErrorKind::Request, message)
                })
            }
        }
    }

    fn reply(&self, request: &ModelRequest) -> Result<Answer, ModelError> {
        let usage = |prompt: &str, completion: usize| Usage {
            prompt_tokens: prompt.len() as u64,
            completion_tokens: completion as u64,
        };
        match &request.arguments {
            Arguments::Loglikelihood { context, continuation } => {
                let context = self.text(request, context)?;
                let (logprob, is_greedy) = self.score(&context, continuation);
                let response = Response::Loglikelihood { logprob, is_greedy };
                Ok(Answer::new(response, usage(&context, continuation.len())))
            }
            Arguments::Rolling { text } => {
                let response = Response::Rolling { logprob: self.score_whole(text) };
                Ok(Answer::new(response, usage("", text.len())))
            }
            Arguments::Generate { context, kwargs } => {
                let context = self.text(request, context)?;
                let settings = GenerationSettings::read(kwargs)?;
                let generated =
                    generate::generate(&self.counts, &context, &settings, self.seed, request.repeat);
                let usage = usage(&context, generated.bytes);
                let answer = Answer::new(Response::Text(generated.text.into()), usage);
                Ok(Answer { finish: generated.finish, ..answer })
            }
            Arguments::Letters { .. } => Err(request.unsupported()),
        }
    }
}

impl LocalModel for Ngram {
    fn traits(&self) -> ModelTraits {
        ModelTraits { is_worth_saving: false, ..ModelTraits::local() }
    }

    fn identity(&self) -> ModelIdentity {
        let facts = vec![
            ("corpus", self.source.clone()),
            ("sha256", self.hash.clone()),
            ("order", self.order.to_string()),
            ("seed", self.seed.to_string()),
        ];
        ModelIdentity { backend: "ngram".to_owned(), facts }
    }

    fn chat_template(&self, _: Option<&str>) -> Result<ModelTemplate, ModelError> {
        Ok(PlainTemplate::built_in().into_model_template())
    }

    fn answer(&self, request: &ModelRequest) -> Result<Response, ModelError> {
        self.reply(request).map(|answer| answer.response)
    }

    fn answer_batch(&self, requests: &[ModelRequest]) -> Vec<Result<Answer, ModelError>> {
        requests.par_iter().map(|request| self.reply(request)).collect()
    }
}
