//! Generation requests.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use lmeval_core::{
    Answer, Arguments, Context, ModelError, ModelErrorKind, ModelRequest, OPTIONAL_FIELDS, Response,
};
use lmeval_pycompat::{Dict, Value, json, repr};

use super::answer::{malformed, parse, share, unusable, usage};
use super::media::{has_media, in_document, with_media};
use super::model::{ApiModel, Parts, body_text};
use super::protocol::{Generation, Prompt, Rules};
use super::stream::{Continuation, Knows, Streaming, Streams};
use super::template::JsonTemplate;
use crate::http::{BadAnswer, Call, Receiver, Route};

/// A generation request and its settings.
struct PendingGeneration<'a> {
    index: usize,
    request: &'a ModelRequest,
    settings: &'a Arc<Dict>,
    prompt: ReadyPrompt,
}

/// A prompt ready to be sent.
pub(super) enum ReadyPrompt {
    Tokens(Vec<u32>),
    Text(Arc<str>),
    Messages(Value),
}

impl ApiModel {
    /// The prompt of a generation request; `None` for contexts that are tokenized in batches.
    pub(super) fn prepare(
        &self,
        request: &ModelRequest,
        context: &Context,
    ) -> Result<Option<ReadyPrompt>, ModelError> {
        let messages = match context {
            Context::Text(_) if self.parts.tokenized => return Ok(None),
            Context::Text(text) => return Ok(Some(ReadyPrompt::Text(Arc::clone(text)))),
            Context::Json(text) => json::loads(text).map_err(|error| {
                ModelError::new(ModelErrorKind::Request, format!("The chat messages are not JSON: {error}"))
            })?,
            Context::Messages(messages) => JsonTemplate::new(self.parts.rules.dialect).messages(messages),
        };
        if self.parts.tokenized {
            let message = "The chat messages cannot be tokenized: the tokenizer has no chat template";
            return Err(ModelError::new(ModelErrorKind::Unsupported, message).hint(
                "Use `tokenized_requests=False`, or a chat API with `--model local-chat-completions`",
            ));
        }
        Ok(Some(ReadyPrompt::Messages(match &request.additional_args {
            None => messages,
            Some(additional) => with_media(messages, additional, self.parts.media)
                .map_err(|error| in_document(&error, request))?,
        })))
    }

    /// The generation limit in tokens.
    fn limit(&self, settings: &Dict) -> i64 {
        let given = settings.get_str("max_gen_toks").and_then(Value::to_f64);
        given.map_or(self.parts.rules.max_gen_toks, |given| given as i64)
    }

    /// Truncates a context so that the generation fits.
    fn cut(&self, mut tokens: Vec<u32>, settings: &Dict) -> Result<Vec<u32>, ModelError> {
        let limit = self.limit(settings);
        // The reference's classes for engines in the process do not reserve a token twice.
        let longest = self.parts.longest() + usize::from(self.parts.protocol.is_launched());
        let room = longest as i64 - limit;
        let surplus = if room > 0 {
            tokens.len().saturating_sub(room as usize)
        } else if self.parts.rules.is_v04() {
            // Reference: a slice with a non-negative bound drops that many tokens from the front.
            tokens.len().min(room.unsigned_abs() as usize)
        } else {
            let message = format!(
                "`max_gen_toks` is {limit}, which leaves no room for a prompt: the total is limited to {longest} tokens"
            );
            return Err(ModelError::new(ModelErrorKind::Request, message)
                .hint("Set `max_length` to the model's context length, or lower `max_gen_toks`"));
        };
        self.parts.rules.truncation.drop_from(&mut tokens, surplus);
        Ok(tokens)
    }

    /// Sends generation requests that share settings, in batches.
    async fn generate(&self, pending: &[&PendingGeneration<'_>]) -> Vec<Result<Answer, ModelError>> {
        let mut answers = Vec::with_capacity(pending.len());
        let is_single = pending.iter().any(|pending| matches!(pending.prompt, ReadyPrompt::Messages(_)));
        for batch in pending.chunks(if is_single { 1 } else { self.parts.batch_size }) {
            match self.generate_call(batch).await {
                Ok(found) => answers.extend(found.into_iter().map(Ok)),
                Err(error) if batch.len() > 1 && error.kind() == ModelErrorKind::Request => {
                    for pending in batch {
                        let alone = self.generate_call(std::slice::from_ref(pending)).await;
                        answers.push(alone.and_then(|found| {
                            found.into_iter().next().ok_or_else(|| unusable("The server returned no answer"))
                        }));
                    }
                }
                Err(error) => answers.extend(batch.iter().map(|_| Err(error.clone()))),
            }
        }
        answers
    }

    /// Sends one call. If the server refuses to stream the answer and accepts the call without that, the rest of the run does
    /// without.
    async fn generate_call(&self, batch: &[&PendingGeneration<'_>]) -> Result<Vec<Answer>, ModelError> {
        let refusal = match self.generate_fields(batch).await {
            Err(error) if error.kind() == ModelErrorKind::Request => error,
            answered => return answered,
        };
        let limit = batch.first().map_or(0, |first| self.limit(first.settings));
        if !self.streams(limit) {
            return Err(refusal);
        }
        let refuses = &self.parts.refuses_streams;
        refuses.store(true, Ordering::Relaxed);
        match self.generate_fields(batch).await {
            Err(_) => {
                // It was not the stream.
                refuses.store(false, Ordering::Relaxed);
                Err(refusal)
            }
            answered => {
                let warning =
                    format!("The server does not stream generations, which are requested whole: {refusal}");
                self.parts.client.stats().warn(warning);
                answered
            }
        }
    }

    /// Sends one call. If the server refuses it with optional fields and accepts it without them, the rest of the run
    /// does without.
    async fn generate_fields(&self, batch: &[&PendingGeneration<'_>]) -> Result<Vec<Answer>, ModelError> {
        let Some(first) = batch.first() else { return Ok(Vec::new()) };
        let mut settings = first.settings.as_ref().clone();
        let optional = settings.remove_str(OPTIONAL_FIELDS);
        let refuses = &self.parts.refuses_fields;
        let Some(optional) =
            optional.as_ref().and_then(Value::as_dict).filter(|_| !refuses.load(Ordering::Relaxed))
        else {
            return self.generate_with(batch, &settings, &Dict::new()).await;
        };
        let refusal = match self.generate_with(batch, &settings, optional).await {
            Err(error) if error.kind() == ModelErrorKind::Request => error,
            answered => return answered,
        };
        let answers = self.generate_with(batch, &settings, &Dict::new()).await?;
        if !refuses.swap(true, Ordering::Relaxed) {
            let names: Vec<String> = optional.keys().map(repr::str).collect();
            self.parts.client.stats().warn(format!(
                "The server refuses `{}`, and requests are sent without it: {refusal}",
                names.join("`, `")
            ));
        }
        Ok(answers)
    }

    /// Whether a generation with a limit is streamed.
    fn streams(&self, limit: i64) -> bool {
        let Parts { protocol, streams, refuses_streams, rules, .. } = &self.parts;
        // Reference: 0.4 sends other bodies.
        let may = protocol.can_stream() && (!rules.is_v04() || *streams == Streams::All);
        may && streams.applies(limit) && !refuses_streams.load(Ordering::Relaxed)
    }

    /// The stream of a call.
    fn streaming<'a>(&'a self, body: Dict, batch: &[&'a PendingGeneration<'_>]) -> Streaming<'a> {
        let Parts { protocol, encoder, client, is_extended, is_hosted, .. } = &self.parts;
        let is_extended = is_extended.load(Ordering::Relaxed);
        let knows = Knows { counts_each: !is_hosted, returns_tokens: is_extended };
        let [pending] = batch else {
            return Streaming::new(body, Continuation::Impossible, None, client.stats(), knows);
        };
        let continuation = match &pending.prompt {
            ReadyPrompt::Tokens(_) => Continuation::Prompt(encoder.as_ref()),
            ReadyPrompt::Text(_) => Continuation::Prompt(None),
            ReadyPrompt::Messages(_) if is_extended && protocol.is_chat() => Continuation::Message,
            ReadyPrompt::Messages(_) => Continuation::Impossible,
        };
        let progress = pending.request.progress.as_deref();
        Streaming::new(body, continuation, progress, client.stats(), knows)
    }

    async fn generate_with(
        &self,
        batch: &[&PendingGeneration<'_>],
        settings: &Dict,
        optional: &Dict,
    ) -> Result<Vec<Answer>, ModelError> {
        let Some(first) = batch.first() else { return Ok(Vec::new()) };
        let mut tokens = Vec::new();
        let mut texts = Vec::new();
        let mut size = 0;
        for pending in batch {
            match &pending.prompt {
                ReadyPrompt::Tokens(prompt) => {
                    size += prompt.len();
                    tokens.push(prompt.clone());
                }
                ReadyPrompt::Text(text) => {
                    size += text.len() / 4;
                    texts.push(Arc::clone(text));
                }
                ReadyPrompt::Messages(_) => {}
            }
        }
        let prompt = match &first.prompt {
            ReadyPrompt::Tokens(_) => Prompt::Tokens(tokens),
            ReadyPrompt::Text(_) => self.text_prompt(texts),
            ReadyPrompt::Messages(messages) => Prompt::Messages(messages.clone()),
        };
        let Parts { protocol, rules, client, .. } = &self.parts;
        let mut body = protocol.generation(&prompt, settings.clone(), rules)?;
        body.update(optional);
        let limit = self.limit(settings);
        let spent = size as u64 + u64::try_from(limit).unwrap_or(0) * batch.len() as u64;
        let about = first.request.describe();
        let streaming = self.streams(limit).then(|| self.streaming(body.clone(), batch));
        let receiver = streaming.as_ref().map(|streaming| streaming as &dyn Receiver);
        let body = Bytes::from(body_text(body)?);
        let call = Call { path: "", body, about: &about, tokens: spent, scores: false };
        let read = |bytes: &[u8]| {
            let (answer, ids) = match &streaming {
                Some(streaming) => streaming.read(bytes)?,
                None => (parse(bytes)?, None),
            };
            let mut found = protocol.read_generations(&answer, rules)?;
            if protocol.is_launched() {
                let until = settings.get_str("until");
                let answers = found.into_iter().map(|found| rules.answer(found, until));
                found = answers.collect::<Result<_, _>>().map_err(BadAnswer::Final)?;
            }
            if let (Some(found), Some(ids), Some(encoder)) = (found.first_mut(), ids, &self.parts.encoder) {
                found.add_tokens(&ids, encoder);
            }
            Ok((matched(found, batch.len(), settings, rules)?, usage(&answer)))
        };
        let route = Route { receiver, ..Route::default() };
        let (found, total) = client.post_to(route, call, read).await?;
        let answer = |(index, found): (usize, Generation)| Answer {
            response: Response::Text(found.text),
            finish: found.finish,
            usage: share(total, index, batch.len()),
            trace: Some(found.trace).filter(|trace| !trace.is_empty()).map(Arc::new),
        };
        Ok(found.into_iter().enumerate().map(answer).collect())
    }

    /// Answers all generation requests of a batch.
    pub(super) async fn answer_generations(
        &self,
        requests: &[ModelRequest],
        answers: &mut [Option<Result<Answer, ModelError>>],
    ) {
        let mut ready = Vec::new();
        let mut unready = Vec::new();
        for (index, request) in requests.iter().enumerate() {
            let Arguments::Generate { context, kwargs } = &request.arguments else { continue };
            if has_media(request.additional_args.as_ref()) && self.parts.encoder.is_some() {
                answers[index] = Some(Err(images_need_no_tokenizer()));
                continue;
            }
            match (self.prepare(request, context), context.as_text()) {
                (Ok(Some(prompt)), _) => {
                    ready.push(PendingGeneration { index, request, settings: kwargs, prompt });
                }
                (Ok(None), Some(text)) => unready.push((index, request, kwargs, text.as_ref())),
                (Ok(None), None) => {}
                (Err(error), _) => answers[index] = Some(Err(error)),
            }
        }
        if let Some(encoder) = &self.parts.encoder {
            let texts: Vec<&str> = unready.iter().map(|(.., text)| *text).collect();
            let encoded = encoder.encode_all(&texts).await;
            for ((index, request, settings, _), tokens) in unready.into_iter().zip(encoded) {
                match tokens.and_then(|tokens| self.cut(tokens, settings)) {
                    Ok(tokens) => {
                        ready.push(PendingGeneration {
                            index,
                            request,
                            settings,
                            prompt: ReadyPrompt::Tokens(tokens),
                        });
                    }
                    Err(error) => answers[index] = Some(Err(error)),
                }
            }
        }
        let mut rest: Vec<&PendingGeneration<'_>> = ready.iter().collect();
        while let Some(first) = rest.first().copied() {
            let is_alike = |other: &&PendingGeneration<'_>| {
                Arc::ptr_eq(other.settings, first.settings) || other.settings == first.settings
            };
            let (group, others) = rest.into_iter().partition::<Vec<_>, _>(is_alike);
            rest = others;
            for (pending, answer) in group.iter().zip(self.generate(&group).await) {
                answers[pending.index] = Some(answer);
            }
        }
    }
}

/// Checks that there is one generation per prompt.
fn matched(
    mut found: Vec<Generation>,
    prompts: usize,
    settings: &Dict,
    rules: &Rules,
) -> Result<Vec<Generation>, BadAnswer> {
    if found.len() > prompts && rules.is_v04() {
        // Reference: surplus generations are ignored.
        found.truncate(prompts);
    }
    if found.len() == prompts {
        return Ok(found);
    }
    let message = format!("The server returned {} generations for {prompts} prompts", found.len());
    let asks_for_several =
        ["n", "best_of"].iter().any(|name| settings.get_str(name).and_then(Value::as_i64) > Some(1));
    if !asks_for_several {
        return Err(malformed(message));
    }
    Err(BadAnswer::Final(
        unusable(message).hint("The setting `n` must be 1; use the task's `repeats` to sample several times"),
    ))
}

fn images_need_no_tokenizer() -> ModelError {
    ModelError::new(
        ModelErrorKind::Unsupported,
        "Requests with images can only be sent to models without a local tokenizer",
    )
    .hint("Use a chat API with `--model local-chat-completions`")
}
