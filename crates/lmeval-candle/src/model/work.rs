//! Answers requests with a model on one device.

use std::sync::Arc;

use lmeval_core::work_queue::{Sink, unanswered};
use lmeval_core::{
    Answer, Arguments as Asked, Context, Finish, ModelError, ModelRequest, ModelStats, Response, Usage,
    Window, windows,
};
use rayon::prelude::*;

use super::prepare::Prepared;
use crate::arguments::configuration;
use crate::encoder::{decoder_request, request};
use crate::engine::{Engine, GenerationRequest, Score, ScoreRequest};
use crate::error::Error;
use crate::generation::{Decoded, GenerationSettings, ModelDefaults, StopCheck, decode};

/// Bytes of rolling log-likelihood requests scored at a time, on the CPU and on GPUs. A stopped run loses the answers in
/// progress.
const CPU_ROLLING_BYTES: usize = 128 << 10;
const DEVICE_ROLLING_BYTES: usize = 1 << 20;

/// The number of unused tensors that are named.
const NAMED_TENSORS: usize = 5;

/// The warning about tensors of the checkpoint that the model does not use.
fn unused_tensors(names: &[String]) -> String {
    let named = names[..names.len().min(NAMED_TENSORS)].join("`, `");
    let more = match names.len().saturating_sub(NAMED_TENSORS) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!(
        "The weights have tensors that the model does not use: `{named}`{more}. If they belong to it, its answers are wrong"
    )
}

/// A model on one device.
#[derive(Debug)]
pub(super) struct Answerer {
    prepared: Prepared,
    pub(super) engine: Engine,
    /// The vocabulary size of the model.
    vocabulary: usize,
    /// The first token of the decoder, if an encoder reads contexts.
    start: Option<u32>,
}

/// A bound on the length of what a decoder returns. Only sources are truncated.
const LONGEST_TARGET: usize = 1 << 31;

impl Answerer {
    /// Loads the weights onto a device shared by `share` workers.
    pub(super) fn new(prepared: Prepared, share: usize) -> Result<Self, ModelError> {
        let device = prepared.arguments.devices.first().copied().unwrap_or_default().open()?;
        let (architecture, unused) = prepared.opened.build(&device)?;
        let vocabulary = architecture.shape().vocabulary;
        let start = architecture.decoder_start();
        let size = prepared.encoder.tokenizer().vocabulary_size();
        if size > vocabulary {
            return Err(configuration(format!(
                "The tokenizer has {size} tokens, but the model's vocabulary has {vocabulary}"
            ))
            .hint("Set the model's own tokenizer with `tokenizer=<name or folder>`"));
        }
        if let Some(token) = prepared.arguments.prefix_token_id.filter(|token| *token as usize >= vocabulary)
        {
            return Err(configuration(format!(
                "`prefix_token_id={token}` is not in the model's vocabulary of {vocabulary} tokens"
            )));
        }
        if let Some(positions) = architecture.shape().positions
            && prepared.max_length > positions
        {
            return Err(configuration(format!(
                "`max_length={}` exceeds the model's {positions} positions",
                prepared.max_length
            )));
        }
        let engine = Engine::new(architecture, &device, prepared.opened.dtype, prepared.arguments.batch_size);
        let engine = engine.shared_by(share);
        if !unused.is_empty() {
            engine.stats.warn(unused_tensors(&unused));
        }
        if let Some(note) = &prepared.opened.note {
            engine.stats.warn(note.clone());
        }
        Ok(Self { prepared, engine, vocabulary, start })
    }

    /// The model without its weights.
    pub(super) fn prepared(&self) -> &Prepared {
        &self.prepared
    }

    /// Token counts so far.
    pub(super) fn stats(&self) -> &ModelStats {
        &self.engine.stats
    }

    /// Cancels running work as soon as possible.
    pub(super) fn cancel(&self) {
        self.engine.cancel();
    }

    /// Answers requests of all types.
    pub(super) fn work(&self, requests: &[ModelRequest], sink: &Sink) {
        // Report invalid settings before computing anything.
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
            Ok(()) => sink.fail(&unanswered()),
            Err(error) => sink.fail(&error.into()),
        }
    }

    /// Answers log-likelihood requests.
    fn score(&self, requests: &[ModelRequest], sink: &Sink) -> Result<(), Error> {
        let encoded: Vec<(usize, Result<ScoreRequest, ModelError>)> = requests
            .par_iter()
            .enumerate()
            .filter_map(|(index, asked)| match &asked.arguments {
                Asked::Loglikelihood { context, continuation } => {
                    Some((index, self.pair(context, continuation)))
                }
                _ => None,
            })
            .collect();
        let mut indices = Vec::new();
        let mut sequences = Vec::new();
        for (index, sequence) in encoded {
            match sequence {
                Ok(sequence) => {
                    indices.push(index);
                    sequences.push(sequence);
                }
                Err(error) => sink.deliver(index, Err(error)),
            }
        }
        self.engine.score(&sequences, &mut |sequence, score| {
            let usage = usage(sequences[sequence].tokens.len(), 0);
            let answer = score.map_err(ModelError::from).map(|Score { logprob, is_greedy }| {
                Answer::new(Response::Loglikelihood { logprob, is_greedy }, usage)
            });
            sink.deliver(indices[sequence], answer);
        })
    }

    pub(super) fn pair(&self, context: &Context, continuation: &str) -> Result<ScoreRequest, ModelError> {
        let Prepared { encoder, max_length, .. } = &self.prepared;
        let context = prompt_of(context)?;
        let pair = match self.start {
            Some(start) => encoder.source_and_target(context, continuation, start, *max_length)?,
            None => encoder.pair(context, continuation, *max_length)?,
        };
        self.check_tokens(&pair.tokens)?;
        Ok(pair)
    }

    /// Refuses tokens outside the model's vocabulary.
    fn check_tokens(&self, tokens: &[u32]) -> Result<(), ModelError> {
        match tokens.iter().find(|token| **token as usize >= self.vocabulary) {
            None => Ok(()),
            Some(token) => Err(request(format!(
                "The tokenizer produced token {token}, but the model's vocabulary has {} tokens",
                self.vocabulary
            ))),
        }
    }

    /// Answers rolling log-likelihood requests, some at a time: a request has many windows, and is answered only with the
    /// last of them.
    fn score_rolling(&self, requests: &[ModelRequest], sink: &Sink) -> Result<(), Error> {
        let texts = requests.iter().enumerate().filter_map(|(index, asked)| match &asked.arguments {
            Asked::Rolling { text } => Some((index, text.as_ref())),
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
            self.score_documents(now, sink)?;
            rest = later;
        }
        Ok(())
    }

    /// Answers rolling log-likelihood requests, given with their indices.
    fn score_documents(&self, asked: &[(usize, &str)], sink: &Sink) -> Result<(), Error> {
        let encoded: Vec<Result<Vec<ScoreRequest>, ModelError>> =
            asked.par_iter().map(|(_, text)| self.windows(text)).collect();
        let mut sums = Vec::new();
        let mut sequences = Vec::new();
        // For each window: the index of its sum, and its index in the request.
        let mut owners = Vec::new();
        for ((index, _), windows) in asked.iter().zip(encoded) {
            match windows {
                Err(error) => sink.deliver(*index, Err(error)),
                Ok(windows) if windows.is_empty() => {
                    sink.deliver(*index, Ok(Response::Rolling { logprob: 0.0 }.into()));
                }
                Ok(windows) => {
                    owners.extend((0..windows.len()).map(|window| (sums.len(), window)));
                    sums.push(Rolling::new(*index, &windows));
                    sequences.extend(windows);
                }
            }
        }
        self.engine.score(&sequences, &mut |sequence, score| {
            let (owner, window) = owners[sequence];
            let sum: &mut Rolling = &mut sums[owner];
            if let Some(answer) = sum.add(window, score) {
                sink.deliver(sum.index, answer);
            }
        })
    }

    pub(super) fn windows(&self, text: &str) -> Result<Vec<ScoreRequest>, ModelError> {
        let Prepared { encoder, max_length, .. } = &self.prepared;
        let tokens = encoder.encode(text)?;
        self.check_tokens(&tokens)?;
        let request = |Window { context, continuation, .. }| match self.start {
            // Reference: the encoder reads the context of the window.
            Some(start) => decoder_request(context, start, continuation, *max_length),
            None => {
                let scored = continuation.len();
                Ok(ScoreRequest { tokens: [context, continuation].concat(), scored, source: 0 })
            }
        };
        windows(&tokens, encoder.prefix()?, *max_length, 1).into_iter().map(request).collect()
    }

    /// Answers generation requests.
    fn generate(&self, requests: &[ModelRequest], sink: &Sink) -> Result<(), Error> {
        let mut asked: Vec<(usize, GenerationSettings, StopCheck)> = Vec::new();
        let mut sequences = Vec::new();
        for (index, one) in requests.iter().enumerate() {
            let Asked::Generate { context, kwargs } = &one.arguments else { continue };
            let prepared = self.settings(kwargs).and_then(|mut settings| {
                let (prompt, source) = self.prompt(context, settings.limit)?;
                self.check_tokens(&prompt)?;
                settings.limit = match self.start {
                    Some(_) => settings.room_of_decoder(source)?,
                    None => settings.room(prompt.len(), self.prepared.max_length)?,
                };
                let check = StopCheck::new(&settings.stops, self.prepared.encoder.tokenizer())?;
                Ok((settings, prompt, source, check))
            });
            match prepared {
                Err(error) => sink.deliver(index, Err(error)),
                Ok((settings, _, _, _)) if settings.limit == 0 => {
                    sink.deliver(index, Ok(Response::Text("".into()).into()));
                }
                Ok((settings, tokens, source, check)) => {
                    let mut sampling = settings.sampling.clone();
                    sampling.prompt = tokens.len() - source;
                    sampling.total = sampling.prompt + settings.limit;
                    sampling.seed = seed(self.prepared.arguments.seed, settings.seed, one.repeat, &tokens);
                    let limit = settings.limit;
                    sequences.push(GenerationRequest { tokens, source, limit, sampling });
                    asked.push((index, settings, check));
                }
            }
        }
        let tokenizer = self.prepared.encoder.tokenizer();
        let is_done = |sequence: usize, added: &[u32]| {
            added.last().is_some_and(|token| asked[sequence].1.ends.contains(token))
                || asked[sequence].2.is_found(added, tokenizer)
        };
        self.engine.generate(&sequences, &is_done, &mut |sequence, generated| {
            let (index, settings, _) = &asked[sequence];
            let generated = match generated {
                Ok(generated) => generated,
                Err(error) => return sink.deliver(*index, Err(error.into())),
            };
            let end = self.prepared.arguments.think_end.as_ref();
            let decoded =
                decode(&generated.tokens, &settings.stops, end, self.prepared.thinks_first, tokenizer);
            let usage = usage(sequences[sequence].tokens.len(), generated.tokens.len());
            let answer = decoded.map(|Decoded { answer, trace }| Answer {
                response: Response::Text(answer.into()),
                finish: if generated.is_cut { Finish::CutOff } else { Finish::Complete },
                usage,
                trace: Some(Arc::new(trace)),
            });
            sink.deliver(*index, answer);
        })
    }

    /// The settings of a request. Independent of the prompt, so that all can be validated before computing anything.
    fn settings(&self, kwargs: &lmeval_pycompat::Dict) -> Result<GenerationSettings, ModelError> {
        let defaults = ModelDefaults {
            files: &self.prepared.defaults,
            eos_token: self.prepared.encoder.eos().map(|(_, token)| token),
            limit: self.prepared.arguments.max_gen_toks,
            max_length: self.start.map_or(self.prepared.max_length, |_| LONGEST_TARGET),
        };
        GenerationSettings::read(kwargs, defaults)
    }

    /// Encodes a prompt, truncated on the left to leave room for the answer. Also returns how much of it an encoder reads; then
    /// the whole length is room for that.
    fn prompt(&self, context: &Context, limit: usize) -> Result<(Vec<u32>, usize), ModelError> {
        let Prepared { encoder, max_length, .. } = &self.prepared;
        let context = prompt_of(context)?;
        let (mut tokens, room) = match self.start {
            Some(_) => (encoder.encode_source(context)?, *max_length),
            None => (encoder.encode_prompt(context)?, max_length - limit),
        };
        if tokens.is_empty() {
            tokens.push(encoder.prefix()?);
        }
        let surplus = tokens.len().saturating_sub(room);
        tokens.drain(..surplus);
        let source = if self.start.is_some() { tokens.len() } else { 0 };
        tokens.extend(self.start);
        Ok((tokens, source))
    }
}

/// The partial result of a rolling log-likelihood request.
struct Rolling {
    index: usize,
    /// Log-probabilities by window, summed in order.
    logprobs: Vec<f64>,
    missing: usize,
    tokens: usize,
}

impl Rolling {
    fn new(index: usize, windows: &[ScoreRequest]) -> Self {
        let tokens = windows.iter().map(|window| window.scored).sum();
        Self { index, logprobs: vec![0.0; windows.len()], missing: windows.len(), tokens }
    }

    /// Adds the score of a window. Returns the answer after the last window, or after an error.
    fn add(&mut self, window: usize, score: Result<Score, Error>) -> Option<Result<Answer, ModelError>> {
        match score {
            Ok(score) => self.logprobs[window] = score.logprob,
            Err(error) => return Some(Err(error.into())),
        }
        self.missing -= 1;
        (self.missing == 0).then(|| {
            let response = Response::Rolling { logprob: self.logprobs.iter().sum() };
            Ok(Answer::new(response, usage(self.tokens, 0)))
        })
    }
}

/// The prompt of a context, which must not be chat messages.
pub(super) fn prompt_of(context: &Context) -> Result<&str, ModelError> {
    let prompt = context.as_text().map(AsRef::as_ref);
    prompt.ok_or_else(|| request("The model `hf` needs `--apply_chat_template` to answer chat messages"))
}

fn usage(prompt: usize, completion: usize) -> Usage {
    Usage { prompt_tokens: prompt as u64, completion_tokens: completion as u64 }
}

/// Derives a request's seed from the run's seed, its own seed, the repeat and the prompt.
fn seed(run: u64, own: Option<u64>, repeat: usize, tokens: &[u32]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let tokens = tokens.iter().map(|token| u64::from(*token));
    let numbers = [run, repeat as u64].into_iter().chain(own).chain(tokens);
    for number in numbers {
        hash = (hash ^ number).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23);
    }
    hash
}
