//! Texts that models generate.

use std::sync::Arc;

use bytes::Bytes;
use lmeval_core::{Answer, Arguments, Context, ModelError, ModelErrorKind, ModelRequest, Response};
use lmeval_pycompat::{Dict, Value, json};

use super::answer::{malformed, parse, share, unusable, usage};
use super::images::{has_media, with_images};
use super::model::{ApiModel, Parts, body_text};
use super::protocol::{Generation, Prompt, Rules};
use super::template::JsonTemplate;
use crate::http::{BadAnswer, Call};

/// A request for text on its way to the server.
struct Asked<'a> {
    place: usize,
    request: &'a ModelRequest,
    settings: &'a Arc<Dict>,
    prompt: Ready,
}

/// A prompt that is ready to be sent.
enum Ready {
    Tokens(Vec<u32>),
    Text(Arc<str>),
    Messages(Value),
}

impl ApiModel {
    /// The prompt of a request for text; contexts that become tokens come with them.
    fn prepare(&self, request: &ModelRequest, context: &Context) -> Result<Option<Ready>, ModelError> {
        let messages = match context {
            Context::Text(_) if self.parts.tokenized => return Ok(None),
            Context::Text(text) => return Ok(Some(Ready::Text(Arc::clone(text)))),
            Context::Json(text) => json::loads(text).map_err(|error| {
                ModelError::new(ModelErrorKind::Request, format!("The conversation is not JSON: {error}"))
            })?,
            Context::Messages(messages) => JsonTemplate::new(self.parts.rules.dialect).messages(messages),
        };
        if self.parts.tokenized {
            let message = "A conversation cannot be turned into tokens: the tokenizer has no chat template";
            return Err(ModelError::new(ModelErrorKind::Unsupported, message).hint(
                "Use `tokenized_requests=False`, or a chat interface with `--model local-chat-completions`",
            ));
        }
        Ok(Some(Ready::Messages(match &request.additional_args {
            None => messages,
            Some(additional) => with_images(messages, additional, self.parts.max_images)?,
        })))
    }

    /// How many tokens may be generated.
    fn limit(&self, settings: &Dict) -> i64 {
        let given = settings.get_str("max_gen_toks").and_then(Value::to_f64);
        given.map_or(self.parts.rules.max_gen_toks, |given| given as i64)
    }

    /// The last tokens of a context, such that what is generated fits behind them.
    fn cut(&self, mut tokens: Vec<u32>, settings: &Dict) -> Result<Vec<u32>, ModelError> {
        let limit = self.limit(settings);
        let room = self.parts.longest as i64 - limit;
        let surplus = if room > 0 {
            tokens.len().saturating_sub(room as usize)
        } else if self.parts.rules.is_v04() {
            // Reference: a slice by a number that is not negative drops as many tokens from the front.
            tokens.len().min(room.unsigned_abs() as usize)
        } else {
            let message = format!(
                "`max_gen_toks` is {limit}, which leaves no room for a prompt: both together may have {} tokens",
                self.parts.longest
            );
            return Err(ModelError::new(ModelErrorKind::Request, message)
                .hint("Set `max_length` to the length of the model's context, or lower `max_gen_toks`"));
        };
        tokens.drain(..surplus);
        Ok(tokens)
    }

    /// Asks for texts with one set of settings, as many in one call as the model takes.
    async fn generate(&self, asked: &[&Asked<'_>]) -> Vec<Result<Answer, ModelError>> {
        let mut answers = Vec::with_capacity(asked.len());
        let is_single = asked.iter().any(|asked| matches!(asked.prompt, Ready::Messages(_)));
        for batch in asked.chunks(if is_single { 1 } else { self.parts.batch_size }) {
            match self.generate_call(batch).await {
                Ok(found) => answers.extend(found.into_iter().map(Ok)),
                Err(error) if batch.len() > 1 && error.kind() == ModelErrorKind::Request => {
                    for asked in batch {
                        let alone = self.generate_call(std::slice::from_ref(asked)).await;
                        answers.push(alone.and_then(|found| {
                            found.into_iter().next().ok_or_else(|| unusable("The server gave no answer"))
                        }));
                    }
                }
                Err(error) => answers.extend(batch.iter().map(|_| Err(error.clone()))),
            }
        }
        answers
    }

    async fn generate_call(&self, batch: &[&Asked<'_>]) -> Result<Vec<Answer>, ModelError> {
        let Some(first) = batch.first() else { return Ok(Vec::new()) };
        let mut tokens = Vec::new();
        let mut texts = Vec::new();
        let mut size = 0;
        for asked in batch {
            match &asked.prompt {
                Ready::Tokens(prompt) => {
                    size += prompt.len();
                    tokens.push(prompt.clone());
                }
                Ready::Text(text) => {
                    size += text.len() / 4;
                    texts.push(Arc::clone(text));
                }
                Ready::Messages(_) => {}
            }
        }
        let prompt = match &first.prompt {
            Ready::Tokens(_) => Prompt::Tokens(tokens),
            Ready::Text(_) => self.text_prompt(texts),
            Ready::Messages(messages) => Prompt::Messages(messages.clone()),
        };
        let Parts { protocol, rules, client, .. } = &self.parts;
        let body = body_text(protocol.generation(&prompt, first.settings.as_ref().clone(), rules)?)?;
        let limit = self.limit(first.settings);
        let spent = size as u64 + u64::try_from(limit).unwrap_or(0) * batch.len() as u64;
        let about = first.request.describe();
        let call = Call { path: "", body: Bytes::from(body), about: &about, tokens: spent, scores: false };
        let read = |bytes: &[u8]| {
            let answer = parse(bytes)?;
            let found = protocol.read_generations(&answer, rules)?;
            Ok((matched(found, batch.len(), first.settings, rules)?, usage(&answer)))
        };
        let (found, total) = client.post(call, read).await?;
        let answer = |(place, found): (usize, Generation)| Answer {
            response: Response::Text(found.text),
            truncated: found.truncated,
            usage: share(total, place, batch.len()),
        };
        Ok(found.into_iter().enumerate().map(answer).collect())
    }

    /// Answers the requests for texts.
    pub(super) async fn answer_generations(
        &self,
        requests: &[ModelRequest],
        answers: &mut [Option<Result<Answer, ModelError>>],
    ) {
        let mut ready = Vec::new();
        let mut unready = Vec::new();
        for (place, request) in requests.iter().enumerate() {
            let Arguments::Generate { context, kwargs } = &request.arguments else { continue };
            if has_media(request.additional_args.as_ref()) && self.parts.encoder.is_some() {
                answers[place] = Some(Err(images_need_no_tokenizer()));
                continue;
            }
            match (self.prepare(request, context), context.as_text()) {
                (Ok(Some(prompt)), _) => ready.push(Asked { place, request, settings: kwargs, prompt }),
                (Ok(None), Some(text)) => unready.push((place, request, kwargs, text.as_ref())),
                (Ok(None), None) => {}
                (Err(error), _) => answers[place] = Some(Err(error)),
            }
        }
        if let Some(encoder) = &self.parts.encoder {
            let texts: Vec<&str> = unready.iter().map(|(.., text)| *text).collect();
            let encoded = encoder.encode_all(&texts).await;
            for ((place, request, settings, _), tokens) in unready.into_iter().zip(encoded) {
                match tokens.and_then(|tokens| self.cut(tokens, settings)) {
                    Ok(tokens) => {
                        ready.push(Asked { place, request, settings, prompt: Ready::Tokens(tokens) });
                    }
                    Err(error) => answers[place] = Some(Err(error)),
                }
            }
        }
        let mut rest: Vec<&Asked<'_>> = ready.iter().collect();
        while let Some(first) = rest.first().copied() {
            let is_alike = |other: &&Asked<'_>| {
                Arc::ptr_eq(other.settings, first.settings) || other.settings == first.settings
            };
            let (group, others) = rest.into_iter().partition::<Vec<_>, _>(is_alike);
            rest = others;
            for (asked, answer) in group.iter().zip(self.generate(&group).await) {
                answers[asked.place] = Some(answer);
            }
        }
    }
}

/// As many texts as prompts.
fn matched(
    mut found: Vec<Generation>,
    prompts: usize,
    settings: &Dict,
    rules: &Rules,
) -> Result<Vec<Generation>, BadAnswer> {
    if found.len() > prompts && rules.is_v04() {
        // Reference: what is too much is left out.
        found.truncate(prompts);
    }
    if found.len() == prompts {
        return Ok(found);
    }
    let message = format!("{} texts came back for {prompts} prompts", found.len());
    let asks_for_several =
        ["n", "best_of"].iter().any(|name| settings.get_str(name).and_then(Value::as_i64) > Some(1));
    if !asks_for_several {
        return Err(malformed(message));
    }
    Err(BadAnswer::Final(
        unusable(message).hint("The setting `n` must be 1; the task's `repeats` asks several times"),
    ))
}

fn images_need_no_tokenizer() -> ModelError {
    ModelError::new(
        ModelErrorKind::Unsupported,
        "Requests with images can only be sent to models without a tokenizer here",
    )
    .hint("Use a chat interface with `--model local-chat-completions`")
}
