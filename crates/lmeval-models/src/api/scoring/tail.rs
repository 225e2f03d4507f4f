//! The log-probabilities of the end of a prompt, whose beginning comes from the server's prefix cache.
//!
//! vLLM's token interface returns an entry for each prompt token that it computed: with `off` tokens from the cache,
//! entry `i` belongs to token `off + i`, and the first entry is null. An older runner returns an entry for every
//! token instead, with uninitialized memory for those from the cache. So an answer counts only if it has fewer entries
//! than the prompt has tokens, or if the request did not allow the cache.
//!
//! SGLang's native interface returns the log-probabilities from a given position on.

use std::sync::atomic::Ordering;

use bytes::Bytes;
use lmeval_core::ModelFuture;
use lmeval_pycompat::{Dict, Value, float};

use super::super::answer::{objects, parse};
use super::super::model::{ApiModel, body_text};
use super::super::protocol::{Score, Scored};
use super::group::together;
use super::next_token::{Canary, Trouble};
use super::{Proven, Shortcut, affinity};
use crate::http::{Call, Route};

/// vLLM's token interface.
const VLLM_ROUTE: &str = "/inference/v1/generate";
/// After this many requests without a cache hit, if they are the majority, the protocol saves nothing.
const MAX_COLD: u32 = 16;

/// A server's interface for tails.
#[derive(Clone, Debug)]
pub(super) enum Tail {
    /// With the salt that separates this run's cache from others.
    Vllm {
        salt: String,
    },
    Sglang,
}

/// Per token: its log-probability, and whether it is the most likely one.
type TokenScores = Vec<Score>;

/// The scored tokens of an answer.
#[derive(Debug, PartialEq)]
pub(super) enum Read {
    /// Every token of the continuation.
    Complete(TokenScores),
    /// Every token but the first: the cache covered the whole context.
    WithoutFirst(TokenScores),
    /// The cache was not used, so the answer may be of the older runner.
    Cold,
    /// The cache covered more than the context.
    Covered,
}

impl Tail {
    pub(super) fn route(&self) -> Option<&'static str> {
        match self {
            Self::Vllm { .. } => Some(VLLM_ROUTE),
            Self::Sglang => None,
        }
    }

    /// The body of a request for the tokens after `context`; `fresh` forbids the cache.
    pub(super) fn body(&self, tokens: &[u32], context: usize, fresh: bool) -> Dict {
        let ids = Value::list(tokens.iter().map(|&id| Value::Int(id.into())));
        let mut body = Dict::new();
        match self {
            Self::Vllm { salt } => {
                body.insert("token_ids", ids);
                body.insert("cache_salt", salt.as_str());
                let mut sampling = Dict::new();
                sampling.insert("max_tokens", 1);
                sampling.insert("temperature", 0);
                sampling.insert("prompt_logprobs", 1);
                sampling.insert("skip_reading_prefix_cache", fresh);
                sampling.insert("detokenize", false);
                body.insert("sampling_params", sampling);
            }
            Self::Sglang => {
                body.insert("input_ids", Value::list([ids]));
                let mut sampling = Dict::new();
                sampling.insert("max_new_tokens", 0);
                sampling.insert("temperature", 0);
                body.insert("sampling_params", sampling);
                body.insert("return_logprob", true);
                body.insert("logprob_start_len", if fresh { 0 } else { context as i64 - 1 });
                body.insert("top_logprobs_num", 1);
            }
        }
        body
    }

    /// Reads the scores of the tokens after `context`, and the number of cached tokens. The error says what is
    /// unexpected.
    pub(super) fn read(
        &self,
        answer: &Value,
        tokens: &[u32],
        context: usize,
        fresh: bool,
    ) -> Result<(Read, Option<u64>), String> {
        match self {
            Self::Vllm { .. } => read_vllm(answer, tokens, context, fresh),
            Self::Sglang => read_sglang(answer, tokens, context),
        }
    }
}

fn read_vllm(
    answer: &Value,
    tokens: &[u32],
    context: usize,
    fresh: bool,
) -> Result<(Read, Option<u64>), String> {
    let entries = answer.as_dict().and_then(|answer| answer.get_str("prompt_logprobs"));
    let entries = entries.and_then(Value::as_list).ok_or("`prompt_logprobs` is missing")?;
    if entries.is_empty() || entries.len() > tokens.len() {
        return Err(format!("{} log-probabilities for {} tokens", entries.len(), tokens.len()));
    }
    let cached = tokens.len() - entries.len();
    if fresh && cached > 0 {
        return Err("the prefix cache was used although the request forbids it".to_owned());
    }
    let found = Some(cached as u64);
    if !fresh && cached == 0 {
        return Ok((Read::Cold, found));
    }
    if context < cached {
        return Ok((Read::Covered, found));
    }
    let first = context.max(cached + 1);
    let scores = (first..tokens.len()).map(|index| read_entry(&entries[index - cached], tokens[index]));
    let scores = scores.collect::<Result<TokenScores, String>>()?;
    Ok((if first > context { Read::WithoutFirst(scores) } else { Read::Complete(scores) }, found))
}

/// Reads `{"504": {"logprob": -0.5, "rank": 1}, …}`.
fn read_entry(entry: &Value, id: u32) -> Result<Score, String> {
    let entry = entry.as_dict().ok_or("a log-probability is missing")?;
    let number = |value: &Value| value.as_dict()?.get_str("logprob")?.to_f64();
    let own =
        entry.get_str(&id.to_string()).ok_or_else(|| format!("token {id} is missing from the answer"))?;
    let own = number(own).unwrap_or(f64::NAN);
    let mut best = own;
    for other in entry.values() {
        best = best.max(number(other).ok_or("a log-probability is missing")?);
    }
    plausible(id, own)?;
    Ok((own, own >= best))
}

fn plausible(id: u32, logprob: f64) -> Result<(), String> {
    if logprob > -5000.0 && logprob < 1e-3 {
        return Ok(());
    }
    Err(format!("the log-probability of token {id} is {logprob}"))
}

/// Reads `[log-probability, token id, …]` of the last tokens and of the most likely ones.
fn read_sglang(answer: &Value, tokens: &[u32], context: usize) -> Result<(Read, Option<u64>), String> {
    let objects = objects(answer).map_err(|_| "the answer is not an object")?;
    let [object] = objects.as_slice() else {
        return Err(format!("{} answers for one prompt", objects.len()));
    };
    let info = object.get_str("meta_info").and_then(Value::as_dict).ok_or("`meta_info` is missing")?;
    let list = |name: &str| {
        info.get_str(name).and_then(Value::as_list).ok_or_else(|| format!("`{name}` is missing"))
    };
    let (own, top) = (list("input_token_logprobs")?, list("input_top_logprobs")?);
    let wanted = &tokens[context..];
    if own.len() < wanted.len() || top.len() != own.len() || own.len() > tokens.len() {
        return Err(format!("{} log-probabilities for {} tokens", own.len(), wanted.len()));
    }
    let skip = own.len() - wanted.len();
    let parts = |entry: &Value| {
        let (Value::List(parts) | Value::Tuple(parts)) = entry else { return None };
        Some((parts.first()?.to_f64()?, parts.get(1)?.as_i64()?))
    };
    let mut scores = Vec::with_capacity(wanted.len());
    for ((own, top), &id) in own[skip..].iter().zip(&top[skip..]).zip(wanted) {
        let (logprob, found) = parts(own).ok_or("a log-probability is missing")?;
        if found != i64::from(id) {
            return Err(format!("the answer has token {found} instead of {id}"));
        }
        plausible(id, logprob)?;
        let best = top.as_list().and_then(|top| parts(top.first()?));
        let (_, best) = best.ok_or("a most likely token is missing")?;
        scores.push((logprob, best == found));
    }
    let cached = info.get_str("cached_tokens").and_then(Value::as_i64);
    Ok((Read::Complete(scores), cached.and_then(|cached| u64::try_from(cached).ok())))
}

impl ApiModel {
    /// Scores continuations of a context. `None` if the protocol gave no scores.
    pub(super) async fn score_tails(
        &self,
        about: &str,
        prompts: &[&Scored],
        (proven, tail): (&Proven, &Tail),
    ) -> Option<Vec<Score>> {
        let first = prompts.first()?;
        // Shorter contexts fill no block of the cache.
        let head = self.planner.head(Shortcut::Tail, &first.tokens[..first.context])?;
        let mut scores = Vec::with_capacity(prompts.len());
        head.get_or_init(|| async {
            scores.push(self.score_tail(about, first, true, (proven, tail)).await);
        })
        .await;
        let rest = prompts[scores.len()..].iter().map(|prompt| {
            Box::pin(self.score_tail(about, prompt, false, (proven, tail))) as ModelFuture<'_, _>
        });
        scores.extend(together(rest.collect()).await);
        let scores = scores.into_iter().collect::<Option<Vec<Score>>>()?;
        self.planner.tail.scores.fetch_add(scores.len() as u64, Ordering::Relaxed);
        self.count_asked(prompts);
        Some(scores)
    }

    /// Scores one continuation; `fresh` if the server cannot have its context in the cache.
    async fn score_tail(
        &self,
        about: &str,
        prompt: &Scored,
        fresh: bool,
        (proven, tail): (&Proven, &Tail),
    ) -> Option<Score> {
        // A fresh request is only needed for answers that would be ambiguous otherwise.
        let fresh = fresh && matches!(tail, Tail::Vllm { .. });
        let mut read = self.tail_call(about, prompt, fresh, tail).await;
        if matches!(read, Ok(Read::Cold | Read::Covered)) {
            self.count_cold();
            read = self.tail_call(about, prompt, true, tail).await;
        }
        let tokens = match read {
            Ok(Read::Complete(tokens)) => tokens,
            Ok(Read::WithoutFirst(tokens)) => {
                let first = match self.planner.canary(proven) {
                    Some(canary) => self.first_token(about, prompt, (proven, canary)).await?,
                    None => return None,
                };
                [vec![first], tokens].concat()
            }
            Ok(Read::Cold | Read::Covered) => return None,
            Err(trouble) => {
                self.trouble(Shortcut::Tail, trouble);
                return None;
            }
        };
        let is_greedy = tokens.iter().all(|(_, is_best)| *is_best);
        Some((float::sum(tokens.into_iter().map(|(logprob, _)| logprob)), is_greedy))
    }

    /// Scores the first token of a continuation alone.
    async fn first_token(
        &self,
        about: &str,
        prompt: &Scored,
        (proven, canary): (&Proven, &Canary),
    ) -> Option<Score> {
        let id = *prompt.tokens.get(prompt.context)?;
        match self.next_token_call(about, prompt, &[id], (canary, proven.tolerance)).await {
            Ok(found) => found.score(id),
            Err(trouble) => {
                self.trouble(Shortcut::NextToken, trouble);
                None
            }
        }
    }

    pub(super) async fn tail_call(
        &self,
        about: &str,
        prompt: &Scored,
        fresh: bool,
        tail: &Tail,
    ) -> Result<Read, Trouble> {
        let Scored { tokens, context, .. } = prompt;
        let route = Route {
            path: tail.route(),
            affinity: Some(affinity(&tokens[..*context])),
            needs: Shortcut::Tail.bit(),
            ..Route::default()
        };
        let (read, cached) = self.tail_call_to(route, about, (tokens, *context), fresh, tail).await?;
        self.planner.of(Shortcut::Tail).calls.fetch_add(1, Ordering::Relaxed);
        self.planner.count(0, tokens.len(), cached, self.parts.client.stats());
        Ok(read)
    }

    pub(super) async fn tail_call_to(
        &self,
        route: Route<'_>,
        about: &str,
        (tokens, context): (&[u32], usize),
        fresh: bool,
        tail: &Tail,
    ) -> Result<(Read, Option<u64>), Trouble> {
        let body = body_text(tail.body(tokens, context, fresh)).map_err(Trouble::Failed)?;
        let call =
            Call { path: "", body: Bytes::from(body), about, tokens: tokens.len() as u64 + 1, scores: false };
        let read = |bytes: &[u8]| Ok(tail.read(&parse(bytes)?, tokens, context, fresh));
        let found = self.parts.client.post_to(route, call, read).await.map_err(Trouble::of)?;
        found.map_err(Trouble::Surprise)
    }

    /// Counts a request that found nothing in the cache.
    fn count_cold(&self) {
        let cold = self.planner.cold.fetch_add(1, Ordering::Relaxed) + 1;
        let calls = self.planner.tail.calls.load(Ordering::Relaxed);
        if cold >= MAX_COLD && u64::from(cold) * 2 > calls {
            let reason = "the server's prefix cache does not hold the contexts";
            self.planner.turn_off(Shortcut::Tail, reason, self.parts.client.stats());
        }
    }
}

#[cfg(test)]
mod tests {
    use lmeval_pycompat::json;

    use super::*;

    fn vllm(entries: &str, context: usize, fresh: bool) -> Result<Read, String> {
        let answer = json::loads(&format!(r#"{{"prompt_logprobs": {entries}}}"#)).unwrap();
        read_vllm(&answer, &[7, 8, 9, 6], context, fresh).map(|(read, _)| read)
    }

    const NINE: &str = r#"{"9": {"logprob": -1.5}, "5": {"logprob": -0.5}}"#;
    const SIX: &str = r#"{"6": {"logprob": -0.25}}"#;

    #[test]
    fn aligns_tails_from_the_end() {
        let both = vec![(-1.5, false), (-0.25, true)];
        let one = || vec![(-0.25, true)];
        assert_eq!(vllm(&format!("[null, {NINE}, {SIX}]"), 2, false), Ok(Read::Complete(both.clone())));
        assert_eq!(vllm(&format!("[null, {{}}, {NINE}, {SIX}]"), 2, true), Ok(Read::Complete(both)));
        assert_eq!(vllm(&format!("[null, {SIX}]"), 3, false), Ok(Read::Complete(one())));
        assert_eq!(vllm(&format!("[null, {SIX}]"), 2, false), Ok(Read::WithoutFirst(one())));
        assert_eq!(vllm("[null]", 2, false), Ok(Read::Covered));
    }

    #[test]
    fn never_uses_a_full_list_that_may_come_from_the_cache() {
        assert_eq!(vllm(&format!("[null, {{}}, {NINE}, {SIX}]"), 2, false), Ok(Read::Cold));
        assert!(vllm(&format!("[null, {NINE}, {SIX}]"), 2, true).is_err());
    }

    #[test]
    fn refuses_unexpected_tails() {
        let nan = r#"{"6": {"logprob": NaN}}"#;
        for (entries, reason) in [
            ("[]".to_owned(), "0 log-probabilities"),
            (format!("[null, {SIX}, {NINE}]"), "token 9 is missing"),
            (format!("[null, {NINE}, {nan}]"), "is NaN"),
            (format!("[null, null, {SIX}]"), "is missing"),
            (format!("[null, null, null, null, {SIX}]"), "5 log-probabilities"),
        ] {
            let error = vllm(&entries, 2, false).unwrap_err();
            assert!(error.contains(reason), "{error}, not {reason}");
        }
    }

    #[test]
    fn reads_the_tail_of_sglang() {
        let read = |own: &str, top: &str| {
            let text = format!(
                r#"{{"text": "", "meta_info": {{"input_token_logprobs": {own}, "input_top_logprobs": {top}}}}}"#
            );
            read_sglang(&json::loads(&text).unwrap(), &[7, 8, 9, 6], 2).map(|(read, _)| read)
        };
        let top = "[null, [[-0.5, 5, null]], [[-0.25, 6, null]]]";
        let own = "[[null, 8, null], [-1.5, 9, null], [-0.25, 6, null]]";
        assert_eq!(read(own, top), Ok(Read::Complete(vec![(-1.5, false), (-0.25, true)])));
        assert!(read("[[null, 8, null], [-1.5, 6, null], [-0.25, 6, null]]", top).is_err());
        assert!(read("[[-0.25, 6, null]]", "[[[-0.25, 6, null]]]").is_err());
        assert!(read("[[null, 8, null], [-1.5, 9, null], [null, 6, null]]", top).is_err());
    }
}
