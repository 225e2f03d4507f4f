//! Log-likelihoods of continuations, and rolling log-likelihoods in windows.

use std::sync::Arc;

use bytes::Bytes;
use lmeval_core::{
    Answer, Arguments, ModelError, ModelErrorKind, ModelRequest, RequestType, Response, windows,
};
use lmeval_pycompat::float;

use super::answer::{parse, unusable};
use super::completions;
use super::media::{has_media, scores_no_media};
use super::model::{ApiModel, body_text};
use super::protocol::{Prompt, Protocol, Score, Scored};
use crate::http::{Call, Route};
use crate::pair::cut_pair;

impl ApiModel {
    /// Truncates context and continuation from the left to the model's limit.
    fn fit(&self, mut tokens: Vec<u32>, context: usize) -> Result<Scored, ModelError> {
        let surplus = tokens.len().saturating_sub(self.parts.longest());
        if context <= surplus {
            let longest = self.parts.longest();
            let message = format!(
                "The continuation of {} tokens leaves no room for its context: a prompt is limited to {longest} tokens",
                tokens.len() - context
            );
            return Err(ModelError::new(ModelErrorKind::Request, message)
                .hint("Set `max_length` to the model's context length"));
        }
        tokens.drain(..surplus);
        Ok(Scored::new(tokens, context - surplus))
    }

    /// Scores prompts with `echo`, in batches.
    pub(super) async fn score(
        &self,
        about: &str,
        mut prompts: Vec<Scored>,
    ) -> Vec<Result<Score, ModelError>> {
        if let Err(error) = self.add_texts(&mut prompts).await {
            return prompts.iter().map(|_| Err(error.clone())).collect();
        }
        let mut scores = Vec::with_capacity(prompts.len());
        for batch in prompts.chunks(self.parts.batch_size) {
            match self.score_call(about, batch).await {
                Ok(found) => scores.extend(found.into_iter().map(Ok)),
                // One bad prompt must not fail the others.
                Err(error) if batch.len() > 1 && error.kind() == ModelErrorKind::Request => {
                    for prompt in batch {
                        let alone = self.score_call(about, std::slice::from_ref(prompt)).await;
                        scores.push(alone.and_then(|found| {
                            found.into_iter().next().ok_or_else(|| unusable("The server returned no answer"))
                        }));
                    }
                }
                Err(error) => scores.extend(batch.iter().map(|_| Err(error.clone()))),
            }
        }
        scores
    }

    /// Adds the strings of prompts, unless they are sent as tokens.
    pub(super) async fn add_texts(&self, prompts: &mut [Scored]) -> Result<(), ModelError> {
        if self.parts.tokenized || self.scores_chat() {
            return Ok(());
        }
        let Some(encoder) = &self.parts.encoder else { return Ok(()) };
        for prompt in prompts {
            prompt.text = Some(encoder.decode(&prompt.tokens).await?.into());
        }
        Ok(())
    }

    async fn score_call(&self, about: &str, batch: &[Scored]) -> Result<Vec<Score>, ModelError> {
        let texts: Option<Vec<Arc<str>>> = batch.iter().map(|prompt| prompt.text.clone()).collect();
        let prompt = match texts {
            Some(texts) => self.text_prompt(texts),
            None => Prompt::Tokens(batch.iter().map(|prompt| prompt.tokens.clone()).collect()),
        };
        self.echo(Route::default(), about, &prompt, batch).await
    }

    /// Sends one call with `echo`. A chat API has none; its server gets it as completions.
    pub(super) async fn echo(
        &self,
        route: Route<'_>,
        about: &str,
        prompt: &Prompt,
        batch: &[Scored],
    ) -> Result<Vec<Score>, ModelError> {
        let (protocol, path): (&dyn Protocol, _) = if self.scores_chat() {
            (&completions::LOCAL, Some("/v1/completions"))
        } else {
            (&*self.parts.protocol, None)
        };
        let body = body_text(protocol.scoring(prompt, &self.parts.rules)?)?;
        let tokens = batch.iter().map(|prompt| prompt.tokens.len() as u64 + 1).sum();
        let call = Call { path: "", body: Bytes::from(body), about, tokens, scores: true };
        let read = |bytes: &[u8]| protocol.read_scores(&parse(bytes)?, batch, &self.parts.rules);
        self.parts.client.post_to(Route { path, ..route }, call, read).await
    }

    /// The rolling log-likelihood of a string.
    pub(super) async fn roll(&self, request: &ModelRequest, text: &str) -> Result<Answer, ModelError> {
        let prompts = self.rolling_prompts(text).await?;
        let about = request.describe();
        let mut numbers = Vec::with_capacity(prompts.len());
        for score in self.score(&about, prompts).await {
            numbers.push(score?.0);
        }
        Ok(Response::Rolling { logprob: float::sum(numbers) }.into())
    }

    /// The windows that score a string.
    pub(super) async fn rolling_prompts(&self, text: &str) -> Result<Vec<Scored>, ModelError> {
        let encoder = self.encoder(RequestType::LoglikelihoodRolling)?;
        let tokens = encoder.encode(text).await?;
        // One token of each prompt precedes the first scored one.
        let windows = windows(&tokens, encoder.prefix()?, self.parts.longest() - 1, 1);
        let mut prompts = Vec::with_capacity(windows.len());
        for window in windows {
            let context = window.context.len();
            prompts.push(self.fit([window.context, window.continuation].concat(), context)?);
        }
        Ok(prompts)
    }

    /// Answers all log-likelihood requests of a batch.
    pub(super) async fn answer_loglikelihoods(
        &self,
        requests: &[ModelRequest],
        answers: &mut [Option<Result<Answer, ModelError>>],
    ) {
        if self.scores_chat() {
            return self.answer_chat_loglikelihoods(requests, answers).await;
        }
        let (mut indices, mut prompts) = (Vec::new(), Vec::new());
        for (index, prompt) in self.continuation_prompts(requests).await {
            match prompt {
                Ok(prompt) => {
                    indices.push(index);
                    prompts.push(prompt);
                }
                Err(error) => answers[index] = Some(Err(error)),
            }
        }
        self.answer_prompts(requests, answers, indices, prompts).await;
    }

    /// The prompts that score the continuations of a batch, with the indices of their requests.
    pub(super) async fn continuation_prompts(
        &self,
        requests: &[ModelRequest],
    ) -> Vec<(usize, Result<Scored, ModelError>)> {
        let mut found = Vec::new();
        let mut pairs = Vec::new();
        for (index, request) in requests.iter().enumerate() {
            if let Arguments::Loglikelihood { context, continuation } = &request.arguments {
                if has_media(request.additional_args.as_ref()) {
                    found.push((index, Err(scores_no_media())));
                    continue;
                }
                match context.as_text() {
                    Some(context) => pairs.push((index, context, [context.as_ref(), continuation].concat())),
                    None => found.push((index, Err(no_plain_context()))),
                }
            }
        }
        let joined: Vec<&str> = pairs.iter().map(|(.., prompt)| prompt.as_str()).collect();
        let encoder = self.encoder(RequestType::Loglikelihood);
        let encoded = match &encoder {
            Ok(encoder) => encoder.encode_all(&joined).await,
            Err(error) => joined.iter().map(|_| Err(error.clone())).collect(),
        };
        for ((index, context, prompt), tokens) in pairs.iter().zip(encoded) {
            let plain = encoder.as_ref().ok().filter(|_| context.is_empty());
            let tokens = plain.and_then(|encoder| encoder.encode_after_nothing(prompt)).unwrap_or(tokens);
            let pair = match (&encoder, tokens) {
                (Ok(encoder), Ok(tokens)) => cut_pair(encoder, context, tokens).await,
                (_, Err(error)) => Err(error),
                (Err(error), _) => Err(error.clone()),
            };
            found.push((*index, pair.and_then(|pair| self.fit(pair.tokens, pair.context))));
        }
        found
    }

    /// Answers all log-likelihood requests of a batch on a chat API.
    async fn answer_chat_loglikelihoods(
        &self,
        requests: &[ModelRequest],
        answers: &mut [Option<Result<Answer, ModelError>>],
    ) {
        let (mut all, mut pairs) = (Vec::new(), Vec::new());
        for (index, request) in requests.iter().enumerate() {
            if let Arguments::Loglikelihood { context, continuation } = &request.arguments {
                if has_media(request.additional_args.as_ref()) {
                    answers[index] = Some(Err(scores_no_media()));
                    continue;
                }
                all.push(index);
                pairs.push((context, continuation.as_ref()));
            }
        }
        let found = match self.encoder(RequestType::Loglikelihood) {
            Ok(encoder) => self.chat_prompts(&pairs, encoder).await,
            Err(error) => pairs.iter().map(|_| Err(error.clone())).collect(),
        };
        let (mut indices, mut prompts) = (Vec::new(), Vec::new());
        for (index, prompt) in all.into_iter().zip(found) {
            match prompt {
                Ok(prompt) => {
                    indices.push(index);
                    prompts.push(prompt);
                }
                Err(error) => answers[index] = Some(Err(error)),
            }
        }
        self.answer_prompts(requests, answers, indices, prompts).await;
    }

    async fn answer_prompts(
        &self,
        requests: &[ModelRequest],
        answers: &mut [Option<Result<Answer, ModelError>>],
        indices: Vec<usize>,
        prompts: Vec<Scored>,
    ) {
        let about = indices.first().map(|&index| requests[index].describe()).unwrap_or_default();
        let scores = self.score_cheaply(&about, prompts).await;
        for (index, score) in indices.into_iter().zip(scores) {
            let response = score.map(|(logprob, is_greedy)| Response::Loglikelihood { logprob, is_greedy });
            answers[index] = Some(response.map(Answer::from));
        }
    }
}

fn no_plain_context() -> ModelError {
    let message =
        "The continuation of chat messages can only be scored if the chat template is applied locally";
    ModelError::new(ModelErrorKind::Unsupported, message)
        .hint("Use `tokenizer_backend=huggingface` with `tokenizer=<name or folder>`, and tokenized requests")
}
