//! The log-probabilities of chosen next tokens: vLLM's `logprob_token_ids`.

use std::sync::atomic::Ordering;

use bytes::Bytes;
use lmeval_core::{ModelError, ModelErrorKind};
use lmeval_pycompat::{Dict, Value};
use rustc_hash::FxHashMap;

use super::super::answer::{choices, objects, parse};
use super::super::model::{ApiModel, body_text};
use super::super::protocol::{Rules, Score, Scored};
use super::{Shortcut, Tolerance, affinity};
use crate::http::{Call, Route};

/// Token ids in one request, at most; servers refuse more than 128.
pub(super) const MAX_IDS: usize = 120;

/// Calls on a chat API between two that check the canary.
const CANARY_INTERVAL: u64 = 16;

/// Lower log-probabilities mark masked tokens, for which servers send -9999 or less.
const MASKED: f64 = -5000.0;

/// A short prompt with known log-probabilities, sent with every request: its numbers show that the server still
/// returns raw log-probabilities, of the same model.
#[derive(Clone, Debug)]
pub(super) struct Canary {
    pub(super) prompt: Vec<u32>,
    /// The conversation that takes the place of the prompt on a chat API, in calls of its own.
    pub(super) messages: Option<Value>,
    /// Token ids with their log-probabilities by `echo`.
    pub(super) known: Vec<(u32, f64)>,
}

/// The next-token log-probabilities after one prompt.
#[derive(Debug)]
pub(super) struct NextToken {
    /// The most likely token.
    pub(super) sampled: u32,
    /// The log-probability of the most likely token.
    pub(super) best: f64,
    pub(super) logprobs: FxHashMap<u32, f64>,
}

/// Why a protocol gave no scores.
#[derive(Debug)]
pub(super) enum Trouble {
    /// An unexpected answer.
    Surprise(String),
    /// The server's numbers have changed.
    Changed(String),
    /// The call failed.
    Failed(ModelError),
}

impl Trouble {
    /// The reason as messages name it.
    pub(super) fn reason(&self) -> String {
        match self {
            Self::Surprise(reason) | Self::Changed(reason) => reason.clone(),
            Self::Failed(error) => error.to_string(),
        }
    }

    /// The reason for not using an interface; most servers do not offer it.
    pub(super) fn refusal(&self) -> String {
        match self {
            Self::Failed(error) if error.kind() == ModelErrorKind::Authentication => {
                "the server does not offer it".to_owned()
            }
            _ => self.reason(),
        }
    }

    /// Refused requests and unreadable answers are surprises; other failures are failures of the server.
    pub(super) fn of(error: ModelError) -> Self {
        match error.kind() {
            ModelErrorKind::Request | ModelErrorKind::Answer => Self::Surprise(error.to_string()),
            _ => Self::Failed(error),
        }
    }
}

/// The body of a request for the log-probabilities of `ids` after each prompt.
pub(super) fn body(prompts: &[&[u32]], ids: &[u32], rules: &Rules) -> Dict {
    let list = |ids: &[u32]| Value::list(ids.iter().map(|&id| Value::Int(id.into())));
    let mut body = Dict::new();
    body.insert("model", rules.model_value());
    body.insert("prompt", Value::list(prompts.iter().map(|prompt| list(prompt))));
    body.insert("temperature", 0);
    body.insert("max_tokens", 1);
    body.insert("logprobs", 1);
    ask_for(&mut body, ids, rules);
    body
}

/// The body of a request for the log-probabilities of `ids` at the start of a chat answer.
pub(super) fn chat_body(messages: Value, ids: &[u32], rules: &Rules) -> Dict {
    let mut body = Dict::new();
    body.insert("model", rules.model_value());
    start_answer(&mut body, &messages);
    body.insert("messages", messages);
    body.insert("temperature", 0);
    body.insert("max_tokens", 1);
    body.insert("logprobs", true);
    body.insert("top_logprobs", 1);
    ask_for(&mut body, ids, rules);
    body
}

/// Asks for the start of an answer, or for the rest of the last message if it is the assistant's.
pub(super) fn start_answer(body: &mut Dict, messages: &Value) {
    let last = messages.as_list().and_then(|messages| messages.last()?.as_dict()?.get_str("role")?.as_str());
    let continues = last == Some("assistant");
    body.insert("add_generation_prompt", !continues);
    body.insert("continue_final_message", continues);
}

/// The fields that completions and chat have in common.
fn ask_for(body: &mut Dict, ids: &[u32], rules: &Rules) {
    body.insert("logprob_token_ids", Value::list(ids.iter().map(|&id| Value::Int(id.into()))));
    body.insert("return_tokens_as_token_ids", true);
    // The defaults of a server may come from the model's generation settings; then the sampled token is not the
    // most likely one.
    body.insert("presence_penalty", 0);
    body.insert("frequency_penalty", 0);
    body.insert("repetition_penalty", 1.0);
    body.insert("seed", rules.seed);
}

/// Reads the answer for a number of prompts. The error says what is unexpected.
pub(super) fn read(answer: &Value, prompts: usize, ids: &[u32]) -> Result<Vec<NextToken>, String> {
    let mut found = Vec::new();
    for object in objects(answer).map_err(|_| "the answer is not an object")? {
        found.extend(choices(object).map_err(|_| "the answer has no usable choices")?);
    }
    if found.len() != prompts {
        return Err(format!("{} choices for {prompts} prompts", found.len()));
    }
    found.into_iter().map(|choice| read_choice(choice, ids)).collect()
}

fn read_choice(choice: &Dict, ids: &[u32]) -> Result<NextToken, String> {
    let logprobs = choice.get_str("logprobs").and_then(Value::as_dict).ok_or("`logprobs` is missing")?;
    let one = |name: &str| match logprobs.get_str(name).and_then(Value::as_list) {
        Some([one]) => Ok(one),
        Some(several) => Err(format!("`{name}` has {} entries instead of one", several.len())),
        None => Err(format!("`{name}` is missing")),
    };
    let sampled = (one("tokens")?, one("token_logprobs")?);
    let top = one("top_logprobs")?.as_dict().ok_or("`top_logprobs` has no entries")?;
    next_token(sampled, top.iter(), ids)
}

/// The next token of a chat answer.
pub(super) fn read_chat(answer: &Value, ids: &[u32]) -> Result<NextToken, String> {
    let mut found = Vec::new();
    for object in objects(answer).map_err(|_| "the answer is not an object")? {
        found.extend(choices(object).map_err(|_| "the answer has no usable choices")?);
    }
    let [choice] = found.as_slice() else {
        return Err(format!("{} choices for one conversation", found.len()));
    };
    let logprobs = choice.get_str("logprobs").and_then(Value::as_dict).ok_or("`logprobs` is missing")?;
    let content = logprobs.get_str("content").and_then(Value::as_list).ok_or("`content` is missing")?;
    let [first] = content else {
        return Err(format!("`content` has {} entries instead of one", content.len()));
    };
    let entry = |value: &'_ Value| {
        let entry = value.as_dict()?;
        Some((entry.get_str("token")?.clone(), entry.get_str("logprob").cloned().unwrap_or(Value::None)))
    };
    let sampled = entry(first).ok_or("the sampled token is missing")?;
    let top = first.as_dict().and_then(|first| first.get_str("top_logprobs")).and_then(Value::as_list);
    let top = top.ok_or("`top_logprobs` is missing")?.iter().map(entry);
    let top: Vec<(Value, Value)> = top.collect::<Option<_>>().ok_or("`top_logprobs` has other entries")?;
    next_token((&sampled.0, &sampled.1), top.iter().map(|(token, logprob)| (token, logprob)), ids)
}

/// Checks the log-probabilities of a next token.
fn next_token<'a>(
    (sampled, best): (&Value, &Value),
    top: impl Iterator<Item = (&'a Value, &'a Value)>,
    ids: &[u32],
) -> Result<NextToken, String> {
    let sampled = sampled.as_str().and_then(id_of).ok_or("the sampled token has no id")?;
    let best = best.to_f64().ok_or("the sampled token has no log-probability")?;
    let mut found = FxHashMap::default();
    for (token, logprob) in top {
        let id = token.as_str().and_then(id_of).ok_or("a token is not named by its id")?;
        let logprob = logprob.to_f64().unwrap_or(f64::NAN);
        if !is_plausible(logprob) {
            return Err(format!("the log-probability of token {id} is {logprob}"));
        }
        found.insert(id, logprob);
    }
    if !is_plausible(best) {
        return Err(format!("the log-probability of the sampled token is {best}"));
    }
    if let Some(missing) = ids.iter().find(|id| !found.contains_key(id)) {
        return Err(format!("token {missing} is missing from the answer"));
    }
    if found.get(&sampled).is_some_and(|logprob| *logprob != best) {
        return Err("the sampled token has two log-probabilities".to_owned());
    }
    found.insert(sampled, best);
    if found.values().any(|logprob| *logprob > best + 1e-6) {
        return Err("the sampled token is not the most likely one".to_owned());
    }
    let total: f64 = found.values().map(|logprob| logprob.exp()).sum();
    if total > 1.01 {
        return Err(format!("the probabilities of {} tokens add up to {total:.3}", found.len()));
    }
    Ok(NextToken { sampled, best, logprobs: found })
}

fn is_plausible(logprob: f64) -> bool {
    logprob > MASKED && logprob < 1e-3
}

/// The id in `token_id:123`.
pub(in super::super) fn id_of(token: &str) -> Option<u32> {
    token.strip_prefix("token_id:")?.parse().ok()
}

impl NextToken {
    /// The score of a token that was among the requested ones.
    pub(super) fn score(&self, id: u32) -> Option<Score> {
        let logprob = *self.logprobs.get(&id)?;
        Some((logprob, logprob >= self.best))
    }
}

impl Canary {
    /// Fails if the server's numbers differ from the known ones.
    fn check(&self, found: &NextToken, tolerance: Tolerance) -> Result<(), Trouble> {
        for (id, known) in &self.known {
            let now = found.logprobs.get(id).copied().unwrap_or(f64::NAN);
            if !tolerance.holds(*known, now) {
                return Err(Trouble::Changed(format!(
                    "the log-probability of a test token changed from {known:.4} to {now:.4}; the server may \
                     have been restarted with other settings or another model"
                )));
            }
        }
        Ok(())
    }
}

impl ApiModel {
    /// The log-probabilities of tokens after the context of a prompt.
    pub(super) async fn next_token_call(
        &self,
        about: &str,
        prompt: &Scored,
        ids: &[u32],
        (canary, tolerance): (&Canary, Tolerance),
    ) -> Result<NextToken, Trouble> {
        let context = &prompt.tokens[..prompt.context];
        if let Some(messages) = &prompt.messages {
            return self.next_token_chat(about, (messages, context), ids, (canary, tolerance)).await;
        }
        let mut all: Vec<u32> = ids.iter().copied().chain(canary.known.iter().map(|(id, _)| *id)).collect();
        all.sort_unstable();
        all.dedup();
        let prompts = [canary.prompt.as_slice(), context];
        let sent = canary.prompt.len() + context.len();
        let text = body_text(body(&prompts, &all, &self.parts.rules)).map_err(Trouble::Failed)?;
        let call = Call { path: "", body: Bytes::from(text), about, tokens: sent as u64 + 2, scores: false };
        let needs = Shortcut::NextToken.bit();
        let route = Route { affinity: Some(affinity(context)), needs, ..Route::default() };
        let read = |bytes: &[u8]| {
            let answer = parse(bytes)?;
            Ok((read(&answer, prompts.len(), &all), cached_tokens(&answer)))
        };
        let (found, cached) = self.parts.client.post_to(route, call, read).await.map_err(Trouble::of)?;
        let usage = self.planner.of(Shortcut::NextToken);
        usage.calls.fetch_add(1, Ordering::Relaxed);
        self.planner.count(0, sent, cached, self.parts.client.stats());
        let mut found = found.map_err(Trouble::Surprise)?;
        let of_context = found.pop();
        match (found.pop(), of_context) {
            (Some(of_canary), Some(of_context)) => {
                canary.check(&of_canary, tolerance)?;
                Ok(of_context)
            }
            _ => Err(Trouble::Surprise("the answer is incomplete".to_owned())),
        }
    }
}

impl ApiModel {
    /// The same on a chat API, which takes one conversation per call: the canary goes with every few calls only.
    async fn next_token_chat(
        &self,
        about: &str,
        (messages, context): (&Value, &[u32]),
        ids: &[u32],
        (canary, tolerance): (&Canary, Tolerance),
    ) -> Result<NextToken, Trouble> {
        let needs = Shortcut::NextToken.bit();
        let route = Route { affinity: Some(affinity(context)), needs, ..Route::default() };
        let calls = self.planner.of(Shortcut::NextToken).calls.fetch_add(1, Ordering::Relaxed);
        if calls.is_multiple_of(CANARY_INTERVAL)
            && let Some(messages) = &canary.messages
        {
            let known: Vec<u32> = canary.known.iter().map(|(id, _)| *id).collect();
            let (found, _) = self.next_tokens_of_chat(route, about, messages, &known).await?;
            canary.check(&found, tolerance)?;
        }
        let found = self.next_tokens_of_chat(route, about, messages, ids).await;
        let cached = found.as_ref().ok().and_then(|(_, cached)| *cached);
        self.planner.count(0, context.len(), cached, self.parts.client.stats());
        found.map(|(found, _)| found)
    }
}

/// The prompt tokens that the server took from its cache, if it reports them.
pub(super) fn cached_tokens(answer: &Value) -> Option<u64> {
    let usage = answer.as_dict()?.get_str("usage")?.as_dict()?;
    let cached = usage.get_str("prompt_tokens_details")?.as_dict()?.get_str("cached_tokens")?.as_i64()?;
    u64::try_from(cached).ok()
}

#[cfg(test)]
mod tests {
    use lmeval_pycompat::json;

    use super::*;

    fn parsed(tokens: &str, best: &str, top: &str) -> Result<Vec<NextToken>, String> {
        let text = format!(
            r#"{{"choices": [{{"index": 0, "logprobs":
                {{"tokens": {tokens}, "token_logprobs": {best}, "top_logprobs": {top}}}}}]}}"#
        );
        read(&json::loads(&text).unwrap(), 1, &[5, 9])
    }

    #[test]
    fn reads_requested_ids() {
        let found =
            parsed(r#"["token_id:9"]"#, "[-0.1]", r#"[{"token_id:9": -0.1, "token_id:5": -3.5}]"#).unwrap();
        assert_eq!(found[0].score(9), Some((-0.1, true)));
        assert_eq!(found[0].score(5), Some((-3.5, false)));
        assert_eq!(found[0].score(6), None);
    }

    #[test]
    fn reads_chat_answers() {
        let read = |content: &str| {
            let text = format!(r#"{{"choices": [{{"index": 0, "logprobs": {{"content": {content}}}}}]}}"#);
            read_chat(&json::loads(&text).unwrap(), &[5, 9])
        };
        let entry =
            |top: &str| format!(r#"{{"token": "token_id:9", "logprob": -0.1, "top_logprobs": {top}}}"#);
        let both = entry(
            r#"[{"token": "token_id:9", "logprob": -0.1}, {"token": "token_id:5", "logprob": -3.5, "bytes": null}]"#,
        );
        let found = read(&format!("[{both}]")).unwrap();
        assert_eq!(
            (found.sampled, found.score(9), found.score(5)),
            (9, Some((-0.1, true)), Some((-3.5, false)))
        );
        let words = r#"{"token": "yes", "logprob": -0.1, "top_logprobs": []}"#;
        let nan = r#"[{"token": "token_id:5", "logprob": NaN}]"#;
        for (content, reason) in [
            ("null".to_owned(), "`content` is missing"),
            ("[]".to_owned(), "0 entries"),
            (format!("[{both}, {both}]"), "2 entries"),
            (format!("[{}]", entry("null")), "`top_logprobs` is missing"),
            (format!("[{}]", entry("[]")), "token 5 is missing"),
            (format!("[{}]", entry(nan)), "is NaN"),
            (format!("[{words}]"), "no id"),
        ] {
            let error = read(&content).unwrap_err();
            assert!(error.contains(reason), "{error}, not {reason}");
        }
    }

    #[test]
    fn refuses_unexpected_answers() {
        let both = r#"[{"token_id:9": -0.1, "token_id:5": -3.5}]"#;
        for (tokens, best, top, reason) in [
            (r#"["token_id:9"]"#, "[-0.1]", r#"[{"token_id:9": -0.1}]"#, "token 5 is missing"),
            (r#"[" yes"]"#, "[-0.1]", r#"[{" yes": -0.1}]"#, "no id"),
            (r#"["token_id:9"]"#, "[-0.1]", r#"[{" yes": -0.1, "token_id:5": -1}]"#, "not named by its id"),
            (r#"["token_id:9"]"#, "[-0.1, -2]", both, "2 entries"),
            (r#"["token_id:9"]"#, "[]", both, "0 entries"),
            (r#"["token_id:9"]"#, "[-0.1]", "[null]", "no entries"),
            (r#"["token_id:9"]"#, "[-0.1]", r#"[{"token_id:9": -0.1, "token_id:5": NaN}]"#, "is NaN"),
            (r#"["token_id:9"]"#, "[-0.1]", r#"[{"token_id:9": -0.1, "token_id:5": null}]"#, "is NaN"),
            (r#"["token_id:9"]"#, "[-0.1]", r#"[{"token_id:9": -0.1, "token_id:5": -9999.0}]"#, "is -9999"),
            (r#"["token_id:9"]"#, "[-0.1]", r#"[{"token_id:9": -0.1, "token_id:5": 12.5}]"#, "is 12.5"),
            (
                r#"["token_id:9"]"#,
                "[-5]",
                r#"[{"token_id:9": -5, "token_id:5": -3.5}]"#,
                "not the most likely",
            ),
            (r#"["token_id:9"]"#, "[-0.1]", r#"[{"token_id:9": -0.1, "token_id:5": -0.1}]"#, "add up to"),
            (r#"["token_id:9"]"#, "[-0.2]", both, "two log-probabilities"),
        ] {
            let error = parsed(tokens, best, top).unwrap_err();
            assert!(error.contains(reason), "{error}, not {reason}");
        }
    }
}
