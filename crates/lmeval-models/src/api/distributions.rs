//! The most likely tokens in the place of each scored token.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use lmeval_core::{
    Arguments, Distribution, DistributionPart, DistributionSink, Kept, ModelError, ModelErrorKind,
    ModelRequest, RequestType,
};
use lmeval_pycompat::{Dict, Value};
use tokio::task::JoinSet;

use super::answer::{choices, malformed, no_logprobs, objects, parse};
use super::completions::range;
use super::model::{ApiModel, body_text};
use super::protocol::{Prompt, Rules, Scored};
use super::scoring::id_of;
use crate::http::{BadAnswer, Call, Route};
use crate::tokenizer::{Encoder, Tokenizer};

/// The tokens of a text that servers name by their strings; `None` for strings of several tokens.
type Names = HashMap<String, Option<u32>>;

/// A scored token: its log-probability, and the likely tokens in its place.
type ScoredToken = (f64, Distribution);

impl ApiModel {
    /// Passes on the most likely tokens of log-likelihood requests, rolling ones as well.
    pub(super) async fn pass_distributions(
        self: Arc<Self>,
        requests: Vec<ModelRequest>,
        kept: Kept,
        mut sink: DistributionSink,
    ) -> Result<(), ModelError> {
        // Checked before anything is sent.
        let sample = Prompt::Tokens(vec![Vec::new()]);
        let returns_top = self
            .parts
            .protocol
            .scoring(&sample, &self.parts.rules)
            .is_ok_and(|body| body.contains_str("logprobs"));
        if self.parts.protocol.is_chat() || !returns_top {
            let message = "The server returns the probabilities of several tokens only for completions";
            return Err(ModelError::new(ModelErrorKind::Unsupported, message)
                .hint("Use `--model local-completions` or `--model vllm`"));
        }
        self.encoder(RequestType::Loglikelihood)?;
        let names = Arc::new(self.names());
        let requests: Arc<[ModelRequest]> = requests.into();
        let (mut next, mut running) = (0, JoinSet::new());
        loop {
            while next < requests.len() && running.len() < self.parts.client.most_in_flight().max(1) {
                let (model, requests, names) = (Arc::clone(&self), Arc::clone(&requests), Arc::clone(&names));
                running.spawn(async move {
                    let found = model.distributions_of(&requests[next], kept, names.as_ref().as_ref()).await;
                    (next, found)
                });
                next += 1;
            }
            let Some(done) = running.join_next().await else { return Ok(()) };
            let (index, found) = done.map_err(|error| {
                ModelError::new(
                    ModelErrorKind::Answer,
                    format!("The probabilities could not be read: {error}"),
                )
            })?;
            let is_wanted = match found {
                Err(error) if error.is_fatal() => return Err(error),
                Err(error) => sink(index, DistributionPart::Failed(error)),
                Ok((tokens, found)) => {
                    let scored = found.len();
                    let mut is_wanted = sink(index, DistributionPart::Tokens { tokens, scored });
                    for (position, (logprob, distribution)) in found.into_iter().enumerate() {
                        let part = DistributionPart::Token { position, logprob, distribution };
                        is_wanted = is_wanted && sink(index, part);
                    }
                    is_wanted
                }
            };
            if !is_wanted {
                return Ok(());
            }
        }
    }

    /// All tokens of a request, and the likely tokens in the place of each scored one.
    async fn distributions_of(
        &self,
        request: &ModelRequest,
        kept: Kept,
        names: Option<&Names>,
    ) -> Result<(Vec<u32>, Vec<ScoredToken>), ModelError> {
        let mut prompts = match &request.arguments {
            Arguments::Rolling { text } => self.rolling_prompts(text).await?,
            Arguments::Loglikelihood { .. } => {
                let found = self.continuation_prompts(std::slice::from_ref(request)).await;
                found.into_iter().map(|(_, prompt)| prompt).collect::<Result<_, _>>()?
            }
            Arguments::Generate { .. } | Arguments::Letters { .. } => return Err(request.unsupported()),
        };
        self.add_texts(&mut prompts).await?;
        let (mut tokens, mut found) = (Vec::new(), Vec::new());
        for scored in &prompts {
            let begin = if tokens.is_empty() { 0 } else { scored.context };
            tokens.extend_from_slice(&scored.tokens[begin..]);
            found.extend(self.top_call(&request.describe(), scored, kept.top, names).await?);
        }
        Ok((tokens, found))
    }

    async fn top_call(
        &self,
        about: &str,
        scored: &Scored,
        top: usize,
        names: Option<&Names>,
    ) -> Result<Vec<ScoredToken>, ModelError> {
        let prompt = match &scored.text {
            Some(text) => self.text_prompt(vec![Arc::clone(text)]),
            None => Prompt::Tokens(vec![scored.tokens.clone()]),
        };
        let rules = &self.parts.rules;
        let mut body = self.parts.protocol.scoring(&prompt, rules)?;
        body.insert("logprobs", top as i64);
        if self.parts.is_extended.load(Ordering::Relaxed) {
            body.insert("return_tokens_as_token_ids", true);
        }
        let body = Bytes::from(body_text(body)?);
        let call = Call { path: "", body, about, tokens: scored.tokens.len() as u64 + 1, scores: true };
        let read = |bytes: &[u8]| read(&parse(bytes)?, scored, names, rules);
        let answer = self.parts.client.post_to(Route::default(), call, read).await;
        answer.map_err(|error| match error.kind() {
            ModelErrorKind::Request => error.hint(format!(
                "The server may allow fewer than {top} likely tokens; ask for fewer with `--top_logprobs`"
            )),
            _ => error,
        })
    }

    /// The tokens by their strings, for servers that do not name them by their ids.
    fn names(&self) -> Option<Names> {
        let Tokenizer::HuggingFace(tokenizer) = self.parts.encoder.as_ref().map(Encoder::tokenizer)? else {
            return None;
        };
        let mut names = Names::new();
        for id in 0..tokenizer.vocabulary_size() as u32 {
            if let Ok(name) = tokenizer.decode_plain(&[id]) {
                names.entry(name).and_modify(|known| *known = None).or_insert(Some(id));
            }
        }
        Some(names)
    }
}

/// The id that a name of a token stands for.
fn id(name: &str, names: Option<&Names>) -> Option<u32> {
    id_of(name).or_else(|| names?.get(name).copied().flatten())
}

/// Reads the likely tokens in the place of each scored token.
fn read(
    answer: &Value,
    scored: &Scored,
    names: Option<&Names>,
    rules: &Rules,
) -> Result<Vec<ScoredToken>, BadAnswer> {
    let mut found = Vec::new();
    for object in objects(answer)? {
        found.extend(choices(object)?);
    }
    let [choice] = found.as_slice() else {
        return Err(malformed(format!("the server returned {} choices for one prompt", found.len())));
    };
    let logprobs = choice.get_str("logprobs").and_then(Value::as_dict);
    let logprobs = logprobs.ok_or_else(|| no_logprobs("`logprobs` is missing"))?;
    let list = |name: &str| {
        let list = logprobs.get_str(name).and_then(Value::as_list);
        list.ok_or_else(|| no_logprobs(&format!("`{name}` is missing")))
    };
    let (own, top, tokens) = (list("token_logprobs")?, list("top_logprobs")?, list("tokens")?);
    let first = tokens.first().and_then(Value::as_str);
    let ends_there = choice.get_str("finish_reason").and_then(Value::as_str) == Some("stop");
    let (start, end) = range(own.len(), scored, first, ends_there, rules)?;
    if top.len() < end || tokens.len() < end {
        return Err(no_logprobs("`top_logprobs` has too few entries"));
    }
    let mut read = Vec::with_capacity(end - start);
    for (index, token) in (start..end).zip(&scored.tokens[scored.context..]) {
        let logprob = own[index].to_f64().filter(|logprob| *logprob <= 1e-3);
        let logprob = logprob.ok_or_else(|| malformed("A log-probability of the continuation is missing"))?;
        let listed = top[index].as_dict();
        let listed = listed.ok_or_else(|| malformed("The most likely tokens of a position are missing"))?;
        read.push((logprob, distribution((*token, logprob), listed, names)));
    }
    Ok(read)
}

/// The distribution of the listed tokens. Tokens whose names stand for no single id belong to the rest.
fn distribution((token, logprob): (u32, f64), listed: &Dict, names: Option<&Names>) -> Distribution {
    let named = listed.iter().filter_map(|(name, logprob)| {
        let logprob = logprob.to_f64().filter(|logprob| *logprob <= 1e-3)?;
        Some((id(name.as_str()?, names)?, logprob))
    });
    let mut likely: Vec<(u32, f64)> = named.filter(|(id, _)| *id != token).collect();
    likely.push((token, logprob));
    Distribution::of_likely(likely)
}

#[cfg(test)]
mod tests {
    use lmeval_core::Dialect;
    use lmeval_pycompat::json;

    use super::*;

    fn found(top: &str, names: Option<&Names>) -> Result<Vec<ScoredToken>, BadAnswer> {
        let rules = Rules {
            model: None,
            max_gen_toks: 256,
            seed: 1234,
            end_of_text: None,
            think_end_token: None,
            truncation: super::super::truncation::Side::Left,
            dialect: Dialect::V05,
        };
        let text = format!(
            r#"{{"choices": [{{"index": 0, "finish_reason": "length", "logprobs": {{"tokens": ["a", "b", "c", "d"],
            "token_logprobs": [null, -1, -2.5, -9], "top_logprobs": [null, {{"a": -1}}, {top}, null]}}}}]}}"#
        );
        read(&json::loads(&text).unwrap(), &Scored::new(vec![5, 6, 7], 2), names, &rules)
    }

    #[test]
    fn tokens_are_named_by_ids_or_strings() {
        let found = found(r#"{"token_id:3": -0.5, "token_id:7": -2.5}"#, None).unwrap();
        let (logprob, named) = &found[0];
        assert_eq!((*logprob, named.best(), named.logprob(7)), (-2.5, Some(3), Some(-2.5)));
    }

    #[test]
    fn unknown_and_ambiguous_names_belong_to_the_rest() {
        let names = Names::from([("x".to_owned(), Some(4)), ("y".to_owned(), None)]);
        let answer = found(r#"{"x": -1.0, "y": -1.5, "z": -2.0}"#, Some(&names)).unwrap();
        let (_, distribution) = &answer[0];
        assert_eq!(distribution.likely.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [4, 7]);
        let listed = (-1.0_f64).exp() + (-2.5_f64).exp();
        assert!((distribution.rest - (1.0 - listed)).abs() < 1e-12);
    }

    #[test]
    fn damaged_answers_are_errors() {
        for top in ["null", "3"] {
            assert!(found(top, None).is_err(), "{top}");
        }
    }
}
