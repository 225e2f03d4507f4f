//! Requests in, answers out: what a model of one device does.

use lmeval_core::{
    Answer, Arguments as Asked, Context, ModelError, ModelRequest, ModelStats, Response, Usage, Window,
    windows,
};
use rayon::prelude::*;

use super::prepare::Prepared;
use super::sink::{Sink, lost};
use crate::arguments::configuration;
use crate::codec::request;
use crate::engine::{Engine, GenerationRequest, Score, ScoreRequest};
use crate::error::Error;
use crate::generation::{GenerationSettings, StopCheck, Surroundings, answer_text};

/// How much of whole texts is scored at a time on a processor, and on other devices. A run that is ended loses what it has
/// of it.
const CPU_ROLLING_BYTES: usize = 128 << 10;
const DEVICE_ROLLING_BYTES: usize = 1 << 20;

/// A model on one device.
#[derive(Debug)]
pub(super) struct Answerer {
    prepared: Prepared,
    engine: Engine,
    /// How many tokens the model knows.
    vocabulary: usize,
}

impl Answerer {
    /// Loads the weights of a model to a device that so many share.
    pub(super) fn new(prepared: Prepared, share: usize) -> Result<Self, ModelError> {
        let device = prepared.arguments.places.first().copied().unwrap_or_default().open()?;
        let architecture = prepared.opened.build(&device)?;
        let vocabulary = architecture.shape().vocabulary;
        let size = prepared.codec.tokenizer().vocabulary_size();
        if size > vocabulary {
            return Err(configuration(format!(
                "The tokenizer has {size} tokens, and the model knows {vocabulary}"
            ))
            .hint("Give the model's own tokenizer as `tokenizer=<name or folder>`"));
        }
        if let Some(token) = prepared.arguments.prefix_token_id.filter(|token| *token as usize >= vocabulary)
        {
            return Err(configuration(format!(
                "There is no token {token} for `prefix_token_id`: the model knows {vocabulary} tokens"
            )));
        }
        if let Some(positions) = architecture.shape().positions
            && prepared.max_length > positions
        {
            return Err(configuration(format!(
                "The model has {positions} positions, fewer than `max_length={}`",
                prepared.max_length
            )));
        }
        let engine = Engine::new(architecture, &device, prepared.opened.dtype, prepared.arguments.batch_size);
        let engine = engine.shared_by(share);
        Ok(Self { prepared, engine, vocabulary })
    }

    /// What is known without the weights.
    pub(super) fn prepared(&self) -> &Prepared {
        &self.prepared
    }

    /// What was computed so far.
    pub(super) fn stats(&self) -> &ModelStats {
        &self.engine.stats
    }

    /// Ends the work that is under way as soon as possible.
    pub(super) fn end(&self) {
        self.engine.end();
    }

    /// Answers requests of all kinds.
    pub(super) fn work(&self, requests: &[ModelRequest], sink: &Sink) {
        // What is wrong with settings is told before anything is computed.
        let mut settings = requests.iter().filter_map(|asked| match &asked.arguments {
            Asked::Generate { kwargs, .. } => self.settings(kwargs).err(),
            _ => None,
        });
        if let Some(error) = settings.find(ModelError::is_fatal) {
            return sink.fail(&error);
        }
        let result = self
            .score(requests, sink)
            .and_then(|()| self.score_rolling(requests, sink))
            .and_then(|()| self.generate(requests, sink));
        match result {
            Ok(()) => sink.fail(&lost()),
            Err(error) => sink.fail(&error.into()),
        }
    }

    /// Answers requests for the likelihood of continuations.
    fn score(&self, requests: &[ModelRequest], sink: &Sink) -> Result<(), Error> {
        let encoded: Vec<(usize, Result<ScoreRequest, ModelError>)> = requests
            .par_iter()
            .enumerate()
            .filter_map(|(place, asked)| match &asked.arguments {
                Asked::Loglikelihood { context, continuation } => {
                    Some((place, self.pair(context, continuation)))
                }
                _ => None,
            })
            .collect();
        let mut places = Vec::new();
        let mut texts = Vec::new();
        for (place, text) in encoded {
            match text {
                Ok(text) => {
                    places.push(place);
                    texts.push(text);
                }
                Err(error) => sink.give(place, Err(error)),
            }
        }
        self.engine.score(&texts, &mut |index, score| {
            let usage = usage(texts[index].tokens.len(), 0);
            let answer = score.map_err(ModelError::from).map(|Score { logprob, is_greedy }| Answer {
                response: Response::Loglikelihood { logprob, is_greedy },
                truncated: false,
                usage,
            });
            sink.give(places[index], answer);
        })
    }

    fn pair(&self, context: &Context, continuation: &str) -> Result<ScoreRequest, ModelError> {
        let pair = self.prepared.codec.pair(text_of(context)?, continuation, self.prepared.max_length)?;
        self.known(&pair.tokens)?;
        Ok(pair)
    }

    /// Refuses tokens that the model does not know.
    fn known(&self, tokens: &[u32]) -> Result<(), ModelError> {
        match tokens.iter().find(|token| **token as usize >= self.vocabulary) {
            None => Ok(()),
            Some(token) => Err(request(format!(
                "The tokenizer gives the token {token}, and the model knows {} tokens",
                self.vocabulary
            ))),
        }
    }

    /// Answers requests for the likelihood of whole texts, some at a time: a text has many windows, and its answer is only
    /// there with the last of them.
    fn score_rolling(&self, requests: &[ModelRequest], sink: &Sink) -> Result<(), Error> {
        let texts = requests.iter().enumerate().filter_map(|(place, asked)| match &asked.arguments {
            Asked::Rolling { text } => Some((place, text.as_ref())),
            _ => None,
        });
        let texts: Vec<(usize, &str)> = texts.collect();
        let most = if self.prepared.arguments.is_cpu() { CPU_ROLLING_BYTES } else { DEVICE_ROLLING_BYTES };
        let mut rest = texts.as_slice();
        while !rest.is_empty() {
            let mut bytes = 0;
            let fits = |(_, text): &&(usize, &str)| {
                bytes += text.len();
                bytes <= most
            };
            let (now, later) = rest.split_at(rest.iter().take_while(fits).count().max(1));
            self.score_whole(now, sink)?;
            rest = later;
        }
        Ok(())
    }

    /// Answers requests for the likelihood of whole texts, given with their places.
    fn score_whole(&self, asked: &[(usize, &str)], sink: &Sink) -> Result<(), Error> {
        let encoded: Vec<Result<Vec<Window>, ModelError>> =
            asked.par_iter().map(|(_, text)| self.windows(text)).collect();
        let mut sums = Vec::new();
        let mut texts = Vec::new();
        // Which of the sums a window belongs to, and which of its windows it is.
        let mut owners = Vec::new();
        for ((place, _), windows) in asked.iter().zip(encoded) {
            match windows {
                Err(error) => sink.give(*place, Err(error)),
                Ok(windows) if windows.is_empty() => {
                    sink.give(*place, Ok(Response::Rolling { logprob: 0.0 }.into()));
                }
                Ok(windows) => {
                    owners.extend((0..windows.len()).map(|window| (sums.len(), window)));
                    sums.push(Rolling::new(*place, &windows));
                    texts.extend(windows.into_iter().map(|window| {
                        let scored = window.continuation.len();
                        ScoreRequest { tokens: [window.context, window.continuation].concat(), scored }
                    }));
                }
            }
        }
        self.engine.score(&texts, &mut |index, score| {
            let (owner, window) = owners[index];
            let sum: &mut Rolling = &mut sums[owner];
            if let Some(answer) = sum.add(window, score) {
                sink.give(sum.place, answer);
            }
        })
    }

    fn windows(&self, text: &str) -> Result<Vec<Window>, ModelError> {
        let tokens = self.prepared.codec.encode(text)?;
        self.known(&tokens)?;
        Ok(windows(&tokens, self.prepared.codec.prefix()?, self.prepared.max_length, 1))
    }

    /// Answers requests for text.
    fn generate(&self, requests: &[ModelRequest], sink: &Sink) -> Result<(), Error> {
        let mut asked: Vec<(usize, GenerationSettings, StopCheck)> = Vec::new();
        let mut texts = Vec::new();
        for (place, one) in requests.iter().enumerate() {
            let Asked::Generate { context, kwargs } = &one.arguments else { continue };
            let prepared = self.settings(kwargs).and_then(|mut settings| {
                let prompt = self.prompt(context, settings.limit)?;
                self.known(&prompt)?;
                settings.limit = settings.room(prompt.len(), self.prepared.max_length)?;
                let check = StopCheck::new(&settings.stops, self.prepared.codec.tokenizer())?;
                Ok((settings, prompt, check))
            });
            match prepared {
                Err(error) => sink.give(place, Err(error)),
                Ok((settings, _, _)) if settings.limit == 0 => {
                    sink.give(place, Ok(Response::Text("".into()).into()));
                }
                Ok((settings, tokens, check)) => {
                    let mut sampling = settings.sampling.clone();
                    sampling.prompt = tokens.len();
                    sampling.total = tokens.len() + settings.limit;
                    sampling.seed = seed(self.prepared.arguments.seed, settings.seed, one.repeat, &tokens);
                    texts.push(GenerationRequest { tokens, limit: settings.limit, sampling });
                    asked.push((place, settings, check));
                }
            }
        }
        let tokenizer = self.prepared.codec.tokenizer();
        let is_done = |index: usize, added: &[u32]| {
            added.last().is_some_and(|token| asked[index].1.ends.contains(token))
                || asked[index].2.is_found(added, tokenizer)
        };
        self.engine.generate(&texts, &is_done, &mut |index, generated| {
            let (place, settings, _) = &asked[index];
            let generated = match generated {
                Ok(generated) => generated,
                Err(error) => return sink.give(*place, Err(error.into())),
            };
            let end = self.prepared.arguments.think_end.as_ref();
            let text =
                answer_text(&generated.tokens, &settings.stops, end, self.prepared.thinks_first, tokenizer);
            let usage = usage(texts[index].tokens.len(), generated.tokens.len());
            let answer = text.map(|text| Answer {
                response: Response::Text(text.into()),
                truncated: generated.is_cut,
                usage,
            });
            sink.give(*place, answer);
        })
    }

    /// The settings of a request; it needs no prompt, so that all of them can be checked before anything is computed.
    fn settings(&self, kwargs: &lmeval_pycompat::Dict) -> Result<GenerationSettings, ModelError> {
        let around = Surroundings {
            defaults: &self.prepared.defaults,
            end_text: self.prepared.codec.end().map(|(_, text)| text),
            limit: self.prepared.arguments.max_gen_toks,
            max_length: self.prepared.max_length,
        };
        GenerationSettings::read(kwargs, around)
    }

    /// The tokens of a prompt, of which those stay that leave room for the answer.
    fn prompt(&self, context: &Context, limit: usize) -> Result<Vec<u32>, ModelError> {
        let mut tokens = self.prepared.codec.encode_prompt(text_of(context)?)?;
        if tokens.is_empty() {
            tokens.push(self.prepared.codec.prefix()?);
        }
        let surplus = tokens.len().saturating_sub(self.prepared.max_length - limit);
        tokens.drain(..surplus);
        Ok(tokens)
    }
}

/// The windows of a whole text that are scored, and those that are missing.
struct Rolling {
    place: usize,
    /// The log-probabilities by window; they are added in order.
    logprobs: Vec<f64>,
    missing: usize,
    tokens: usize,
}

impl Rolling {
    fn new(place: usize, windows: &[Window]) -> Self {
        let tokens = windows.iter().map(|window| window.continuation.len()).sum();
        Self { place, logprobs: vec![0.0; windows.len()], missing: windows.len(), tokens }
    }

    /// Takes the score of a window; the answer where it was the last one, or where there will be none.
    fn add(&mut self, window: usize, score: Result<Score, Error>) -> Option<Result<Answer, ModelError>> {
        match score {
            Ok(score) => self.logprobs[window] = score.logprob,
            Err(error) => return Some(Err(error.into())),
        }
        self.missing -= 1;
        (self.missing == 0).then(|| {
            let response = Response::Rolling { logprob: self.logprobs.iter().sum() };
            Ok(Answer { response, truncated: false, usage: usage(self.tokens, 0) })
        })
    }
}

/// The text of a context.
pub(super) fn text_of(context: &Context) -> Result<&str, ModelError> {
    let text = context.as_text().map(AsRef::as_ref);
    text.ok_or_else(|| request("The model `hf` continues texts: conversations need `--apply_chat_template`"))
}

fn usage(prompt: usize, completion: usize) -> Usage {
    Usage { prompt_tokens: prompt as u64, completion_tokens: completion as u64 }
}

/// The seed of a request: of the run, of what is asked, and of which time it is asked.
fn seed(run: u64, own: Option<u64>, repeat: usize, tokens: &[u32]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let tokens = tokens.iter().map(|token| u64::from(*token));
    let numbers = [run, repeat as u64].into_iter().chain(own).chain(tokens);
    for number in numbers {
        hash = (hash ^ number).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23);
    }
    hash
}
