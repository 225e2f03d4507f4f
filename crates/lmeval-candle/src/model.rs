//! The model `hf`: answers requests with a model of this process.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lmeval_core::{
    Answer, AnswerSink, Arguments as Asked, Context, Dispatch, Model, ModelError, ModelErrorKind, ModelFacts,
    ModelFuture, ModelIdentity, ModelRequest, ModelStats, ModelTemplate, Response, Usage,
};
use lmeval_models::{HubSettings, ModelSettings, wait, windows};
use lmeval_pycompat::Value;
use rayon::prelude::*;

use crate::arguments::{Arguments, configuration};
use crate::codec::{Codec, request};
use crate::config::Config;
use crate::engine::{Engine, GenerationRequest, ScoreRequest};
use crate::error::Error;
use crate::fingerprint;
use crate::generation::{Defaults, GenerationSettings, StopCheck, answer_text};
use crate::load::{Loaded, load};

/// Requests that are looked at together for what they have in common.
const REQUESTS: usize = 8192;

/// A model of this process, and all that its answers need.
#[derive(Debug)]
pub(crate) struct HfModel {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    arguments: Arguments,
    codec: Codec,
    engine: Engine,
    defaults: Defaults,
    max_length: usize,
    identity: ModelIdentity,
    facts: ModelFacts,
    /// Whether thoughts are removed before stop strings are looked for.
    thinks_first: bool,
    /// How many tokens the model knows.
    vocabulary: usize,
    is_ending: AtomicBool,
}

/// Makes the model.
pub(crate) fn create(settings: &ModelSettings) -> Result<Arc<dyn Model>, ModelError> {
    let arguments = Arguments::read(settings)?;
    let mut loaded = load(&arguments)?;
    let folder = match &arguments.tokenizer {
        None => loaded.folder.clone(),
        Some(name) => {
            wait(async { HubSettings::from_environment().locate(name, &arguments.revision).await })?
        }
    };
    let own = loaded.tokenizer.take();
    let codec = Codec::new(&folder, own, arguments.add_bos_token, arguments.prefix_token_id)?;
    let vocabulary = loaded.architecture.shape().vocabulary;
    if codec.tokenizer().vocabulary_size() > vocabulary {
        return Err(configuration(format!(
            "The tokenizer has {} tokens, and the model knows {vocabulary}",
            codec.tokenizer().vocabulary_size()
        ))
        .hint("Give the model's own tokenizer as `tokenizer=<name or folder>`"));
    }
    if let Some(token) = arguments.prefix_token_id.filter(|token| *token as usize >= vocabulary) {
        return Err(configuration(format!(
            "There is no token {token} for `prefix_token_id`: the model knows {vocabulary} tokens"
        )));
    }
    let own = loaded.folder.join("generation_config.json");
    let own = if own.is_file() { Some(Config::read(&own)?) } else { None };
    let defaults = Defaults::read(own.as_ref(), &loaded.config, codec.end().map(|(token, _)| token))?;
    let max_length = max_length(&arguments, &loaded)?;
    let thinks_first = settings.dialect.name == "0.4";
    let files = fingerprint::of_small_files(&loaded.folder, &folder)?;
    let identity = identity(&arguments, &loaded, max_length, files, thinks_first);
    let facts = facts(&arguments, &loaded, &codec, max_length);
    let Loaded { architecture, dtype, .. } = loaded;
    let engine = Engine::new(architecture, &arguments.device, dtype, arguments.batch_size);
    let inner = Inner {
        codec,
        engine,
        defaults,
        max_length,
        identity,
        facts,
        thinks_first,
        vocabulary,
        is_ending: AtomicBool::new(false),
        arguments,
    };
    Ok(Arc::new(HfModel { inner: Arc::new(inner) }))
}

/// How many tokens the model takes: as the arguments, the configuration or its class say.
///
/// Reference: the tokenizer counts for classes without a number of positions, and all that are known have one.
fn max_length(arguments: &Arguments, loaded: &Loaded) -> Result<usize, ModelError> {
    let nested = loaded.config.object("text_config").map_err(ModelError::from)?;
    let config = nested.as_ref().unwrap_or(&loaded.config);
    let mut length = None;
    for name in ["n_positions", "max_position_embeddings", "n_ctx"] {
        length = length.or(config.optional_size(name).map_err(ModelError::from)?);
    }
    let length = arguments.max_length.or(length).unwrap_or(loaded.positions);
    if let Some(positions) = loaded.architecture.shape().positions
        && length > positions
    {
        return Err(configuration(format!(
            "The model has {positions} positions, fewer than `max_length={length}`"
        )));
    }
    Ok(length)
}

fn identity(
    arguments: &Arguments,
    loaded: &Loaded,
    max_length: usize,
    files: String,
    thinks_first: bool,
) -> ModelIdentity {
    let mut facts = vec![
        ("model", arguments.pretrained.clone()),
        ("weights", loaded.fingerprint.clone()),
        ("files", files),
        ("dtype", format!("{:?}, {:?}", arguments.precision, loaded.dtype)),
        ("device", if arguments.device.is_cpu() { "cpu".into() } else { "cuda".into() }),
        ("max_length", max_length.to_string()),
        ("seed", arguments.seed.to_string()),
    ];
    let mut add = |name, fact: Option<String>| facts.extend(fact.map(|fact| (name, fact)));
    add("tokenizer", arguments.tokenizer.clone());
    add("add_bos_token", arguments.add_bos_token.map(|flag| flag.to_string()));
    add("prefix_token_id", arguments.prefix_token_id.map(|token| token.to_string()));
    add("max_gen_toks", arguments.max_gen_toks.map(|limit| limit.to_string()));
    // The order matters where there is something to remove.
    add("think_end_token", arguments.think_end.as_ref().map(|end| format!("{end:?}, first: {thinks_first}")));
    ModelIdentity { backend: "hf".into(), facts }
}

fn facts(arguments: &Arguments, loaded: &Loaded, codec: &Codec, max_length: usize) -> ModelFacts {
    let mut facts = ModelFacts::default();
    facts.config.insert("model_num_parameters", loaded.parameters as i64);
    let dtype = match loaded.dtype {
        candle_core::DType::BF16 => "torch.bfloat16",
        candle_core::DType::F16 => "torch.float16",
        _ => "torch.float32",
    };
    facts.config.insert("model_dtype", dtype);
    facts.config.insert("model_revision", arguments.revision.as_str());
    facts.config.insert("model_sha", loaded.commit.as_deref().unwrap_or_default());
    let tokenizer = codec.tokenizer();
    let shown = |text: Option<&str>, id: Option<u32>| {
        let id = id.map_or_else(|| "None".to_owned(), |id| id.to_string());
        Value::list([text.map_or(Value::None, Value::str), Value::str(id)])
    };
    let own = |name: &str| {
        let token = tokenizer.special_token(name);
        shown(token.map(|token| token.text), token.and_then(|token| token.id))
    };
    let (text, id) = tokenizer.padding();
    facts.tokenizer.insert("tokenizer_pad_token", shown(Some(&text), Some(id)));
    facts.tokenizer.insert("tokenizer_eos_token", own("eos_token"));
    facts.tokenizer.insert("tokenizer_bos_token", own("bos_token"));
    let end = codec.end().map_or(Value::None, |(token, _)| Value::Int(token.into()));
    facts.tokenizer.insert("eot_token_id", end);
    facts.tokenizer.insert("max_length", max_length as i64);
    facts
}

impl Model for HfModel {
    fn identity(&self) -> ModelFuture<'_, Result<ModelIdentity, ModelError>> {
        Box::pin(async { Ok(self.inner.identity.clone()) })
    }

    fn chat_template(&self, name: Option<&str>) -> Result<ModelTemplate, ModelError> {
        self.inner.codec.chat_template(name)
    }

    fn dispatch(&self) -> Dispatch {
        Dispatch { batch_size: REQUESTS, in_flight: 1 }
    }

    fn fill_time(&self) -> Duration {
        Duration::from_secs(1)
    }

    fn facts(&self) -> ModelFacts {
        self.inner.facts.clone()
    }

    fn stats(&self) -> Option<&ModelStats> {
        Some(&self.inner.engine.stats)
    }

    fn wind_down(&self) {
        self.inner.is_ending.store(true, Ordering::Relaxed);
    }

    fn answer(&self, requests: Vec<ModelRequest>) -> ModelFuture<'_, Vec<Result<Answer, ModelError>>> {
        Box::pin(async move {
            let answers = Arc::new(Mutex::new(vec![None; requests.len()]));
            let kept = Arc::clone(&answers);
            let sink = move |place: usize, answer| {
                if let Some(slot) = kept.lock().ok().as_mut().and_then(|kept| kept.get_mut(place)) {
                    *slot = Some(answer);
                }
            };
            self.answer_each(requests, Box::new(sink)).await;
            let answers = answers.lock().map(|mut answers| std::mem::take(&mut *answers)).unwrap_or_default();
            answers.into_iter().map(|answer| answer.unwrap_or_else(|| Err(lost()))).collect()
        })
    }

    fn answer_each(&self, requests: Vec<ModelRequest>, sink: AnswerSink) -> ModelFuture<'_, ()> {
        let inner = Arc::clone(&self.inner);
        Box::pin(async move {
            let sink = Arc::new(Mutex::new(Sink::new(sink, requests.len())));
            let working = Arc::clone(&sink);
            let work = tokio::task::spawn_blocking(move || inner.work(&requests, &working));
            if work.await.is_err() {
                fail(&sink, &lost());
            }
        })
    }
}

fn lost() -> ModelError {
    ModelError::new(ModelErrorKind::Unreachable, "The computation ended unexpectedly")
}

/// Hands answers over, each request once.
struct Sink {
    sink: AnswerSink,
    is_done: Vec<bool>,
}

impl Sink {
    fn new(sink: AnswerSink, count: usize) -> Self {
        Self { sink, is_done: vec![false; count] }
    }

    fn give(&mut self, place: usize, answer: Result<Answer, ModelError>) {
        if let Some(is_done) = self.is_done.get_mut(place).filter(|is_done| !**is_done) {
            *is_done = true;
            (self.sink)(place, answer);
        }
    }
}

fn give(sink: &Mutex<Sink>, place: usize, answer: Result<Answer, ModelError>) {
    sink.lock().unwrap_or_else(std::sync::PoisonError::into_inner).give(place, answer);
}

/// Answers all requests that have no answer yet with an error.
fn fail(sink: &Mutex<Sink>, error: &ModelError) {
    let mut sink = sink.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    for place in 0..sink.is_done.len() {
        sink.give(place, Err(error.clone()));
    }
}

impl Inner {
    /// Answers requests of all kinds.
    fn work(&self, requests: &[ModelRequest], sink: &Mutex<Sink>) {
        let result = self
            .score(requests, sink)
            .and_then(|()| self.score_rolling(requests, sink))
            .and_then(|()| self.generate(requests, sink));
        match result {
            Ok(()) => fail(sink, &lost()),
            Err(error) => fail(sink, &error.into()),
        }
    }

    /// Answers requests for the likelihood of continuations.
    fn score(&self, requests: &[ModelRequest], sink: &Mutex<Sink>) -> Result<(), Error> {
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
                Err(error) => give(sink, place, Err(error)),
            }
        }
        self.engine.score(&texts, &self.is_ending, &mut |index, score| {
            let usage = usage(texts[index].tokens.len(), 0);
            let response = Response::Loglikelihood { logprob: score.logprob, is_greedy: score.is_greedy };
            give(sink, places[index], Ok(Answer { response, truncated: false, usage }));
        })
    }

    fn pair(&self, context: &Context, continuation: &str) -> Result<ScoreRequest, ModelError> {
        let pair = self.codec.pair(text_of(context)?, continuation, self.max_length)?;
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

    /// Answers requests for the likelihood of whole texts.
    fn score_rolling(&self, requests: &[ModelRequest], sink: &Mutex<Sink>) -> Result<(), Error> {
        // For each request its place, how many of its windows are missing, and the sum so far.
        let mut sums: Vec<(usize, Vec<f64>, usize, usize)> = Vec::new();
        let mut texts = Vec::new();
        // The request and the place of each window.
        let mut owners = Vec::new();
        for (place, asked) in requests.iter().enumerate() {
            let Asked::Rolling { text } = &asked.arguments else { continue };
            let encoded = self.codec.encode(text).and_then(|tokens| {
                self.known(&tokens)?;
                Ok((tokens, self.codec.prefix()?))
            });
            let tokens = match encoded {
                Ok((tokens, prefix)) => windows(&tokens, prefix, self.max_length, 1),
                Err(error) => {
                    give(sink, place, Err(error));
                    continue;
                }
            };
            if tokens.is_empty() {
                give(sink, place, Ok(Response::Rolling { logprob: 0.0 }.into()));
                continue;
            }
            let count = tokens.iter().map(|window| window.continuation.len()).sum();
            sums.push((place, vec![0.0; tokens.len()], tokens.len(), count));
            for (index, window) in tokens.into_iter().enumerate() {
                let scored = window.continuation.len();
                texts.push(ScoreRequest { tokens: [window.context, window.continuation].concat(), scored });
                owners.push((sums.len() - 1, index));
            }
        }
        self.engine.score(&texts, &self.is_ending, &mut |index, score| {
            let (owner, window) = owners[index];
            let (place, windows, missing, count) = &mut sums[owner];
            windows[window] = score.logprob;
            *missing -= 1;
            if *missing == 0 {
                let response = Response::Rolling { logprob: windows.iter().sum() };
                give(sink, *place, Ok(Answer { response, truncated: false, usage: usage(*count, 0) }));
            }
        })
    }

    /// Answers requests for text.
    fn generate(&self, requests: &[ModelRequest], sink: &Mutex<Sink>) -> Result<(), Error> {
        let mut asked: Vec<(usize, GenerationSettings, StopCheck)> = Vec::new();
        let mut texts = Vec::new();
        for (place, one) in requests.iter().enumerate() {
            let Asked::Generate { context, kwargs } = &one.arguments else { continue };
            let prepared = self.settings(kwargs).and_then(|mut settings| {
                let prompt = self.prompt(context, settings.limit)?;
                self.known(&prompt)?;
                settings.limit = self.limit(&settings, prompt.len())?;
                let check = StopCheck::new(&settings.stops, self.codec.tokenizer())?;
                Ok((settings, prompt, check))
            });
            match prepared {
                Err(error) => give(sink, place, Err(error)),
                Ok((settings, _, _)) if settings.limit == 0 => {
                    give(sink, place, Ok(Response::Text("".into()).into()));
                }
                Ok((settings, tokens, check)) => {
                    let mut sampling = settings.sampling.clone();
                    sampling.seed = seed(self.arguments.seed, settings.seed, one.repeat, &tokens);
                    texts.push(GenerationRequest { tokens, limit: settings.limit, sampling });
                    asked.push((place, settings, check));
                }
            }
        }
        let tokenizer = self.codec.tokenizer();
        let is_done = |index: usize, added: &[u32]| {
            added.last().is_some_and(|token| self.defaults.ends.contains(token))
                || asked[index].2.is_found(added, tokenizer)
        };
        self.engine.generate(&texts, &self.is_ending, &is_done, &mut |index, generated| {
            let (place, settings, _) = &asked[index];
            let end = self.arguments.think_end.as_ref();
            let text = answer_text(&generated.tokens, &settings.stops, end, self.thinks_first, tokenizer);
            let usage = usage(texts[index].tokens.len(), generated.tokens.len());
            let answer = text.map(|text| Answer {
                response: Response::Text(text.into()),
                truncated: generated.is_cut,
                usage,
            });
            give(sink, *place, answer);
        })
    }

    fn settings(&self, kwargs: &lmeval_pycompat::Dict) -> Result<GenerationSettings, ModelError> {
        let end = self.codec.end().map(|(_, text)| text);
        GenerationSettings::read(kwargs, &self.defaults, end, self.arguments.max_gen_toks)
    }

    /// How many tokens are added to a prompt.
    fn limit(&self, settings: &GenerationSettings, prompt: usize) -> Result<usize, ModelError> {
        match settings.total {
            None => Ok(settings.limit),
            Some(total) if total > prompt && total <= self.max_length => Ok(total - prompt),
            Some(total) => Err(request(format!(
                "The generation setting `max_length` is {total}: it must be above the {prompt} tokens of the \
                 prompt and at most the {} tokens that the model takes",
                self.max_length
            ))
            .hint("`max_gen_toks` is the number of tokens of an answer alone")),
        }
    }

    /// The tokens of a prompt, of which those stay that leave room for the answer.
    fn prompt(&self, context: &Context, limit: usize) -> Result<Vec<u32>, ModelError> {
        if limit >= self.max_length {
            return Err(request(format!(
                "An answer of {limit} tokens leaves no room for a prompt: the model takes {} tokens",
                self.max_length
            ))
            .hint("Set `max_gen_toks` in `--gen_kwargs`, or `max_length` in `--model_args`"));
        }
        let mut tokens = self.codec.encode_prompt(text_of(context)?)?;
        if tokens.is_empty() {
            tokens.push(self.codec.prefix()?);
        }
        let surplus = tokens.len().saturating_sub(self.max_length - limit);
        tokens.drain(..surplus);
        Ok(tokens)
    }
}

fn text_of(context: &Context) -> Result<&str, ModelError> {
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
