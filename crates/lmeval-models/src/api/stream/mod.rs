//! Generations that arrive piece by piece.
//!
//! A stream is put together to the answer that the server would have sent as a whole, so that everything after it is the same. A
//! generation that is interrupted continues from what it has brought where the protocol allows it.

mod assembly;
mod events;

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use lmeval_core::{Answer, Finish, ModelError, ModelSettings, ModelStats, Progress, Response, Trace, Usage};
use lmeval_pycompat::{Dict, Value, repr};
use tokio::time::Instant;

use self::assembly::{Assembly, Choice};
use self::events::EventReader;
use super::answer::{malformed, parse};
use super::model::body_text;
use crate::http::{BadAnswer, Receiver};
use crate::tokenizer::Encoder;

/// From this limit in tokens on, generations are streamed without being asked for.
const LONG: i64 = 2048;
/// Shorter beginnings of answers are generated again: that costs little, and the text is then surely what one generation gives.
const WORTH_KEEPING: usize = 32;
/// How often the beginning of an answer is passed on to be saved.
const NOTE: Duration = Duration::from_secs(1);
/// The names of the limit of a generation in bodies.
const LIMITS: [&str; 2] = ["max_tokens", "max_completion_tokens"];

/// Whether generations are streamed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Streams {
    /// Those with a high limit.
    Long,
    All,
    None,
}

impl Streams {
    /// Reads the model argument `stream`.
    pub(super) fn read(settings: &ModelSettings) -> Result<Self, ModelError> {
        match settings.get("stream") {
            None | Some(Value::None) => Ok(Self::Long),
            Some(value) if repr::str(value).eq_ignore_ascii_case("auto") => Ok(Self::Long),
            Some(_) => Ok(if settings.flag("stream", false)? { Self::All } else { Self::None }),
        }
    }

    /// Whether a generation with a limit is streamed.
    pub(super) fn applies(self, limit: i64) -> bool {
        match self {
            Self::Long => limit >= LONG,
            Self::All => true,
            Self::None => false,
        }
    }
}

/// How a server is asked for the rest of a generation.
pub(super) enum Continuation<'a> {
    /// It cannot be.
    Impossible,
    /// The prompt is followed by what was generated, as tokens if there is an encoder.
    Prompt(Option<&'a Encoder>),
    /// The last message is the beginning of the answer.
    Message,
}

/// What the server knows besides OpenAI's API.
#[derive(Clone, Copy, Debug)]
pub(super) struct Knows {
    /// Whether it may be asked to count the tokens of each event.
    pub(super) counts_each: bool,
    /// Whether it may be asked to return tokens.
    pub(super) returns_tokens: bool,
}

/// The stream of one call.
pub(super) struct Streaming<'a> {
    body: Dict,
    continuation: Continuation<'a>,
    progress: Option<&'a Progress>,
    stats: &'a ModelStats,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    reader: EventReader,
    assembly: Assembly,
    /// Whether an event has been read while the answer arrived.
    is_stream: bool,
    /// Whether this attempt has brought something that the next one can continue from.
    has_grown: bool,
    noted: Option<Instant>,
}

impl<'a> Streaming<'a> {
    /// A stream that continues from what an earlier run has saved.
    pub(super) fn new(
        mut body: Dict,
        continuation: Continuation<'a>,
        progress: Option<&'a Progress>,
        stats: &'a ModelStats,
        knows: Knows,
    ) -> Self {
        let mut options = Dict::new();
        options.insert("include_usage", true);
        if knows.counts_each {
            options.insert("continuous_usage_stats", true);
        }
        body.insert("stream", true);
        body.insert("stream_options", options);
        if knows.returns_tokens {
            body.insert("return_token_ids", true);
        }
        let mut state = State::default();
        if let Some(begun) = progress.and_then(Progress::begun).filter(|_| continuation.is_possible()) {
            state.assembly.choices.extend(begun_choice(&begun).map(|choice| (0, choice)));
        }
        Self { body, continuation, progress, stats, state: Mutex::new(state) }
    }

    /// Reads the answer after its last byte, and the tokens of its generation if the server has returned them. A server that does
    /// not stream has sent the answer as a whole.
    pub(super) fn read(&self, bytes: &[u8]) -> Result<(Value, Option<Vec<u32>>), BadAnswer> {
        let mut state = self.lock();
        if matches!(bytes.trim_ascii_start().first(), Some(b'{' | b'[')) {
            return Ok((parse(bytes)?, None));
        }
        let State { reader, assembly, is_stream, .. } = &mut *state;
        if !*is_stream {
            // It was encoded on the way, or has no event that ends.
            *reader = EventReader::default();
            reader.feed(bytes, |data| {
                assembly.add(data);
            });
        }
        reader.finish(|data| {
            assembly.add(data);
        });
        let answer = assembly.to_answer().map_err(malformed)?;
        let ids = assembly.choices.get(&0).filter(|choice| choice.has_ids()).map(|choice| choice.ids.clone());
        Ok((answer, ids.filter(|_| assembly.choices.len() == 1)))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The body of a request for the rest of a generation; `None` if there is no way to ask for it.
    fn rest(&self, choice: &Choice) -> Option<Dict> {
        let mut body = self.body.clone();
        let text = choice.text.as_str();
        match &self.continuation {
            Continuation::Impossible => return None,
            Continuation::Prompt(encoder) => {
                let prompt = match (body.get_str("prompt")?, encoder) {
                    (Value::Str(prompt), _) => Value::from(format!("{prompt}{text}")),
                    (Value::List(prompts), Some(encoder)) => {
                        let [Value::List(tokens)] = prompts.as_slice() else { return None };
                        let more =
                            if choice.has_ids() { choice.ids.clone() } else { encoder.encode_rest(text)? };
                        let more = more.into_iter().map(|token| Value::Int(token.into()));
                        Value::list([Value::list(tokens.iter().cloned().chain(more))])
                    }
                    (Value::List(prompts), None) => {
                        let [Value::Str(prompt)] = prompts.as_slice() else { return None };
                        Value::list([Value::from(format!("{prompt}{text}"))])
                    }
                    _ => return None,
                };
                body.insert("prompt", prompt);
            }
            Continuation::Message => {
                let messages = body.get_str("messages")?.as_list()?;
                let begun = Value::dict([("role", Value::str("assistant")), ("content", Value::str(text))]);
                body.insert("messages", Value::list(messages.iter().cloned().chain([begun])));
                body.insert("add_generation_prompt", false);
                body.insert("continue_final_message", true);
            }
        }
        let name = LIMITS.into_iter().find(|name| body.contains_str(name))?;
        let left = body.get_str(name)?.as_i64()? - choice.tokens as i64;
        body.insert(name, left);
        (left > 0).then_some(body)
    }

    /// What has arrived, with the text of all its tokens, as the beginning of another attempt.
    fn whole(&self, choice: &Choice) -> Choice {
        let encoder = match &self.continuation {
            Continuation::Prompt(encoder) => *encoder,
            Continuation::Impossible | Continuation::Message => None,
        };
        let decoded =
            encoder.filter(|_| choice.has_ids()).and_then(|encoder| encoder.decode_local(&choice.ids));
        match decoded.filter(|decoded| decoded.starts_with(choice.text.as_str())) {
            Some(decoded) if !decoded.ends_with(char::REPLACEMENT_CHARACTER) => {
                Choice::resumed(&decoded, choice.tokens, choice.ids.clone())
            }
            _ => Choice::resumed(&choice.text, choice.tokens, Vec::new()),
        }
    }

    /// Passes the beginning of the answer on.
    fn note(&self, state: &mut State) {
        let Some(progress) = self.progress.filter(|_| self.continuation.is_possible()) else { return };
        let Some(choice) = state.assembly.choices.get(&0).filter(|choice| is_worth_keeping(choice)) else {
            return;
        };
        state.noted = Some(Instant::now());
        let begun = self.whole(choice);
        let trace = Trace { ids: begun.ids.into(), ..Trace::default() };
        progress.set(Some(Answer {
            response: Response::Text(begun.text.into()),
            finish: Finish::CutOff,
            usage: Usage { prompt_tokens: 0, completion_tokens: begun.tokens as u64 },
            trace: Some(Arc::new(trace)),
        }));
    }
}

impl Continuation<'_> {
    fn is_possible(&self) -> bool {
        !matches!(self, Self::Impossible)
    }
}

impl Receiver for Streaming<'_> {
    fn begin(&self) -> Bytes {
        let mut state = self.lock();
        let kept = state.assembly.choices.get(&0).filter(|choice| is_worth_keeping(choice));
        let kept = kept.map(|choice| self.whole(choice));
        let rest = kept.and_then(|choice| Some((self.rest(&choice)?, choice)));
        let noted = state.noted;
        *state = State { noted, ..State::default() };
        let body = match rest {
            Some((body, choice)) => {
                state.assembly.choices.insert(0, choice);
                body_text(body)
            }
            None => body_text(self.body.clone()),
        };
        // The same settings were serialised before, so this cannot fail; an empty body would be refused.
        body.unwrap_or_default().into()
    }

    fn receive(&self, bytes: &[u8]) {
        let mut state = self.lock();
        let State { reader, assembly, is_stream, has_grown, .. } = &mut *state;
        let mut new = 0;
        reader.feed(bytes, |data| {
            *is_stream = true;
            new += assembly.add(data);
        });
        *has_grown |= new > 0;
        self.stats.tokens_received.fetch_add(new as u64, Ordering::Relaxed);
        if new > 0 && state.noted.is_none_or(|noted| noted.elapsed() >= NOTE) {
            self.note(&mut state);
        }
    }

    fn has_kept(&self) -> bool {
        let mut state = self.lock();
        self.note(&mut state);
        let kept = state.assembly.choices.get(&0).filter(|choice| is_worth_keeping(choice));
        state.has_grown && kept.is_some_and(|choice| self.rest(choice).is_some())
    }
}

/// Whether a generation is long enough to be continued. Within reasoning that the server returns apart, it cannot be.
fn is_worth_keeping(choice: &Choice) -> bool {
    choice.tokens >= WORTH_KEEPING && choice.reasoning.is_empty()
}

/// The generation whose beginning was saved.
fn begun_choice(begun: &Answer) -> Option<Choice> {
    let Response::Text(text) = &begun.response else { return None };
    let tokens = usize::try_from(begun.usage.completion_tokens).ok()?;
    let ids = begun.trace.as_ref().map(|trace| trace.ids.to_vec());
    Some(Choice::resumed(text, tokens, ids.unwrap_or_default()))
}
