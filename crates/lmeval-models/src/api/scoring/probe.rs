//! Proves protocols: their numbers must agree with those of `echo` on the same server.
//!
//! A server's description of itself only decides whether it is worth asking. Unknown fields are ignored with status 200,
//! so a status proves nothing either.

use bytes::Bytes;
use lmeval_core::{ModelError, ModelStats};
use lmeval_pycompat::{Dict, Value};
use rustc_hash::FxHashSet;

use super::super::answer::{malformed, parse};
use super::super::contact::{Listed, list_models};
use super::super::model::{ApiModel, body_text};
use super::super::protocol::{Family, Prompt, Score, Scored};
use super::chat::compare;
use super::next_token::{self, Canary, NextToken, Trouble};
use super::tail::{Read, Tail};
use super::{Choice, Precision, Proven, Shortcut, Tolerance, not_proven, salt};
use crate::http::{Call, MemberView, Route};
use crate::tokenizer::Encoder;

/// A prompt whose tokens are mostly likely ones.
const TEXT: &str = "The capital of France is Paris, the capital of Italy is Rome, and the capital of Japan is Tokyo. \
    One, two, three, four, five, six, seven, eight, nine, ten. Monday, Tuesday, Wednesday, Thursday, Friday.";
/// The length of the canary in tokens: every request carries it.
const CANARY: usize = 5;
/// Token ids whose log-probabilities show the precision.
pub(super) const MAX_PROBED_IDS: usize = 64;
/// The context lengths at which next-token log-probabilities are compared. Short ones: each is computed three times.
const POSITIONS: [usize; 3] = [CANARY, 3 * CANARY, 5 * CANARY];
/// The length of the prompt that must come from the cache: two blocks of 128 tokens, the largest default of vLLM, and more.
const LONG: usize = 280;
/// Tokens at the end of that prompt whose log-likelihood is compared with `echo`.
const COMPARED: usize = 8;
/// Messages name this in place of a document.
pub(super) const ABOUT: &str = "the scoring check";

/// The outcome for one address.
pub(super) struct Checked {
    pub(super) precision: Precision,
    pub(super) canary: Canary,
    pub(super) evidence: Dict,
}

impl ApiModel {
    /// Settles the protocols of the run; returns their name, or `None` for `echo`.
    pub(in super::super) async fn settle_scoring(&self) -> Result<Option<String>, ModelError> {
        let proven = self.planner.proven.get_or_try_init(|| self.prove_all()).await?;
        if proven.name().is_some() {
            self.start_metrics().await;
            // Addresses that could not be reached prove the protocols later.
            let is_unproven = |member: &MemberView| member.proven.is_none();
            if self.parts.client.serving().iter().any(is_unproven) {
                self.parts.keeper.watch();
            }
        }
        Ok(proven.name().map(str::to_owned))
    }

    /// The reason why `echo` is the only protocol, if that is known without asking the server.
    pub(in super::super) fn known_to_echo(&self) -> Option<&'static str> {
        let has_others = self.parts.protocol.family() != Family::Other && !self.parts.is_hosted;
        match self.planner.choice {
            Choice::Echo => Some("requested by `scoring=echo`"),
            Choice::Auto if self.parts.rules.is_v04() => Some("the rules of the 0.4 line"),
            _ if !has_others => Some("the API has no other protocol"),
            _ if !self.parts.tokenized && !self.scores_chat() => {
                Some("other protocols need prompts that are sent as tokens")
            }
            _ => None,
        }
    }

    /// Proves protocols. The members of a pool must give the same numbers.
    async fn prove_all(&self) -> Result<Proven, ModelError> {
        self.parts.keeper.prove_with(&self.this);
        let (reference, compared) = self.compare_members().await?;
        let proven = Proven { reference, ..self.prove().await? };
        if proven.name().is_none() {
            for id in compared {
                self.parts.client.set_proven(id, 0);
            }
        }
        Ok(proven)
    }

    async fn prove(&self) -> Result<Proven, ModelError> {
        let choice = self.planner.choice;
        let reason = match (self.known_to_echo(), &self.parts.encoder) {
            (Some(reason), _) => reason,
            (None, Some(encoder)) => return self.prove_on(self.parts.protocol.family(), encoder).await,
            (None, None) => "other protocols need a tokenizer",
        };
        if choice.is_required() {
            return Err(not_proven(choice, reason));
        }
        Ok(Proven::echo(reason))
    }

    async fn prove_on(&self, family: Family, encoder: &Encoder) -> Result<Proven, ModelError> {
        let choice = self.planner.choice;
        let lists = list_models(&self.parts.client, self.parts.rules.model.as_deref()).await?;
        let is_expected = |listed: &Listed| listed.owner.as_deref() == Some(family.owner());
        if choice == Choice::Auto && !lists.iter().any(|(_, listed)| listed.as_ref().is_some_and(is_expected))
        {
            return Ok(Proven::echo(format!("the server does not say that it is {}", family.name())));
        }
        let Some(tokens) = self.test_tokens(encoder).await? else {
            return Ok(Proven::echo("the test prompt has too few tokens"));
        };
        let (client, mut proven) = (&self.parts.client, None::<Proven>);
        let (mut evidence, mut passed, mut failure) = (Vec::new(), Vec::new(), None);
        for (member, listed) in lists {
            let mut found = Dict::new();
            found.insert("address", member.shown.as_str());
            let Some(listed) = listed else {
                found.insert("checked", false);
                evidence.push(Value::from(found));
                continue;
            };
            found.insert("owned_by", listed.owner.as_deref().map_or(Value::None, Value::str));
            match self.prove_one(member.id, &tokens, found).await {
                Ok(mut one) => {
                    evidence.append(&mut one.evidence);
                    let so_far = match proven {
                        None => one.clone(),
                        Some(before) if client.is_pool() => before.or(&one),
                        Some(before) => before.and(&one, client.stats()),
                    };
                    proven = Some(so_far);
                    passed.push((member.id, one));
                }
                Err(Trouble::Failed(error)) if error.is_fatal() && !client.is_pool() => return Err(error),
                Err(trouble) => {
                    let reason = trouble.reason();
                    if choice.is_required() && !client.is_pool() {
                        return Err(not_proven(choice, &reason));
                    }
                    let mut found = Dict::new();
                    found.insert("address", member.shown.as_str());
                    found.insert("reason", reason.as_str());
                    evidence.push(Value::from(found));
                    if !client.is_pool() {
                        return Ok(Proven { evidence, ..Proven::echo("") });
                    }
                    // Others of the pool may prove more; this one gets no calls that need it.
                    if !matches!(trouble, Trouble::Failed(_)) {
                        client.set_proven(member.id, 0);
                    }
                    failure = Some(reason);
                }
            }
        }
        if let (None, true, Some(reason)) = (&proven, choice.is_required(), &failure) {
            return Err(not_proven(choice, reason));
        }
        let proven = proven.unwrap_or_else(|| Proven::echo(""));
        if choice == Choice::Tail && proven.tail.is_none() {
            return Err(not_proven(choice, "the server does not return tails of prompts"));
        }
        for (id, one) in passed {
            client.set_proven(id, proven.shared_with(&one));
        }
        Ok(Proven { evidence, ..proven })
    }

    /// The tokens of the test prompt; `None` if they are too few. They are kept: the tokenizer may be that of servers which
    /// are yet to be examined.
    pub(super) async fn test_tokens(&self, encoder: &Encoder) -> Result<Option<Vec<u32>>, ModelError> {
        let tokens = self.planner.test_tokens.get_or_try_init(|| encoder.encode(TEXT)).await?;
        let tokens = &tokens[..tokens.len().min(self.parts.longest())];
        Ok((tokens.len() > POSITIONS[2]).then(|| tokens.to_vec()))
    }

    /// Proves protocols on one member.
    pub(super) async fn prove_one(&self, id: usize, tokens: &[u32], found: Dict) -> Result<Proven, Trouble> {
        match self.parts.protocol.family() {
            _ if self.scores_chat() => self.prove_chat(id, tokens, found).await,
            Family::Sglang => self.prove_sglang(id, tokens, found).await,
            Family::Vllm | Family::Other => self.prove_vllm(id, tokens, found).await,
        }
    }

    /// The route to one member. Only fixed addresses are waited for, before the run.
    pub(super) fn route_to(&self, id: usize) -> Route<'static> {
        let once = self.parts.client.is_pool() || self.planner.proven.initialized();
        Route { only: Some(id), once, ..Route::default() }
    }

    async fn prove_vllm(&self, index: usize, tokens: &[u32], found: Dict) -> Result<Proven, Trouble> {
        let Checked { precision, canary, mut evidence } = self.check_next_token(index, tokens, found).await?;
        let tolerance = Tolerance::of(precision);
        let tail = Tail::Vllm { salt: salt() };
        let tail = if self.planner.choice == Choice::NextToken {
            None
        } else {
            match self.check_tail(index, tokens, (&tail, tolerance)).await {
                Ok(cached) => {
                    evidence.insert("tail_cached_tokens", cached as i64);
                    Some(tail)
                }
                Err(trouble) => {
                    evidence.insert("tail", trouble.refusal());
                    None
                }
            }
        };
        let evidence = vec![Value::from(evidence)];
        Ok(Proven { precision, tolerance, next_token: Some(canary), tail, evidence, reference: None })
    }

    async fn prove_sglang(&self, index: usize, tokens: &[u32], mut found: Dict) -> Result<Proven, Trouble> {
        if self.planner.choice == Choice::NextToken {
            return Err(Trouble::Surprise("SGLang has no next-token protocol here; use `tail`".to_owned()));
        }
        // The answers do not show the precision.
        let (precision, tail) = (Precision::Half, Tail::Sglang);
        found.insert("logits", "not measured");
        let tolerance = Tolerance::of(precision);
        let cached = self.check_tail(index, tokens, (&tail, tolerance)).await?;
        found.insert("tail_cached_tokens", cached as i64);
        let evidence = vec![Value::from(found)];
        Ok(Proven { precision, tolerance, next_token: None, tail: Some(tail), evidence, reference: None })
    }

    /// Compares next-token log-probabilities with `echo`, at three positions, for a likely and an unlikely token each.
    async fn check_next_token(
        &self,
        index: usize,
        tokens: &[u32],
        mut evidence: Dict,
    ) -> Result<Checked, Trouble> {
        let scored = test_prompts(tokens);
        let echoed = self.echo_on(index, &scored).await.map_err(Trouble::of)?;
        let mut ids: Vec<u32> = scored.iter().filter_map(|prompt| prompt.tokens.last().copied()).collect();
        ids.extend(tokens);
        let mut seen = FxHashSet::default();
        ids.retain(|id| seen.insert(*id));
        ids.truncate(MAX_PROBED_IDS);
        let contexts = POSITIONS.map(|position| &tokens[..position]);
        let found = self.next_tokens_on(index, &contexts, &ids).await?;
        let precision = precision(&found);
        let largest = compare(&scored, &echoed, &found, precision)?;
        evidence.insert("compared", scored.len() as i64);
        evidence.insert("largest_difference", largest);
        evidence.insert("logits", precision.name());
        let known = scored[..2].iter().zip(&echoed);
        let known = known.filter_map(|(prompt, echoed)| Some((*prompt.tokens.last()?, echoed.0))).collect();
        let canary = Canary { prompt: tokens[..CANARY].to_vec(), messages: None, known };
        Ok(Checked { precision, canary, evidence })
    }

    /// Sends the beginning of a long prompt, then the prompt twice, with the cache and without. The answer with the
    /// cache must be shorter than the prompt and equal to the end of the other. Returns the number of tokens that came
    /// from the cache.
    async fn check_tail(
        &self,
        index: usize,
        tokens: &[u32],
        (tail, tolerance): (&Tail, Tolerance),
    ) -> Result<u64, Trouble> {
        let length = LONG.min(self.parts.longest());
        let prompt: Vec<u32> = tokens.iter().copied().cycle().take(length).collect();
        let context = length - COMPARED;
        let route = Route { path: tail.route(), ..self.route_to(index) };
        let call = |fresh| self.tail_call_to(route, ABOUT, (&prompt, context), fresh, tail);
        let beginning = (&prompt[..context - 1], context - 2);
        self.tail_call_to(route, ABOUT, beginning, true, tail).await?;
        let complete = |read| match read {
            Read::Complete(scores) => Ok(scores),
            Read::Cold => Err(Trouble::Surprise(
                "an answer from the prefix cache has an entry for every token, so some are not valid"
                    .to_owned(),
            )),
            _ => Err(Trouble::Surprise("the answer does not cover the continuation".to_owned())),
        };
        let (found, cached) = call(false).await?;
        let found = complete(found)?;
        let fresh = complete(call(true).await?.0)?;
        let scored = Scored::new(prompt.clone(), context);
        let echoed = self.echo_on(index, std::slice::from_ref(&scored)).await.map_err(Trouble::of)?;
        let sum = |scores: &[Score]| scores.iter().map(|(logprob, _)| logprob).sum::<f64>();
        let per_token = |sum: f64| sum / COMPARED as f64;
        let echoed = echoed.first().map_or(f64::NAN, |(logprob, _)| *logprob);
        let agrees = found.len() == fresh.len()
            && found.iter().zip(&fresh).all(|(one, other)| tolerance.holds(one.0, other.0))
            && tolerance.holds(per_token(sum(&found)), per_token(echoed));
        if !agrees {
            return Err(Trouble::Surprise(format!(
                "the tail of a prompt has the log-likelihood {:.4}, but {echoed:.4} with `echo`",
                sum(&found)
            )));
        }
        Ok(cached.unwrap_or(0))
    }

    /// Scores prompts with `echo` on one address.
    pub(super) async fn echo_on(&self, index: usize, scored: &[Scored]) -> Result<Vec<Score>, ModelError> {
        let prompt = Prompt::Tokens(scored.iter().map(|prompt| prompt.tokens.clone()).collect());
        self.echo(self.route_to(index), ABOUT, &prompt, scored).await
    }

    async fn next_tokens_on(
        &self,
        index: usize,
        contexts: &[&[u32]],
        ids: &[u32],
    ) -> Result<Vec<NextToken>, Trouble> {
        let body = body_text(next_token::body(contexts, ids, &self.parts.rules)).map_err(Trouble::Failed)?;
        let tokens = contexts.iter().map(|context| context.len() as u64 + 1).sum();
        let call = Call { path: "", body: Bytes::from(body), about: ABOUT, tokens, scores: false };
        let route = self.route_to(index);
        let read = |bytes: &[u8]| {
            let answer = parse(bytes)?;
            if answer.as_dict().is_none() {
                return Err(malformed("The answer is not a JSON object"));
            }
            Ok(next_token::read(&answer, contexts.len(), ids))
        };
        let found = self.parts.client.post_to(route, call, read).await.map_err(Trouble::of)?;
        found.map_err(Trouble::Surprise)
    }
}

/// Prompts whose last token is compared: at each position a likely and an unlikely one.
pub(super) fn test_prompts(tokens: &[u32]) -> Vec<Scored> {
    let mut scored = Vec::new();
    for position in POSITIONS {
        let likely = tokens[position];
        let unlikely = tokens.iter().rev().copied().find(|id| *id != likely).unwrap_or(likely);
        for id in [likely, unlikely] {
            let prompt = [&tokens[..position], &[id]].concat();
            scored.push(Scored::new(prompt, position));
        }
    }
    scored
}

impl Proven {
    /// The protocols that at least one of two members of a pool has proven.
    fn or(self, other: &Self) -> Self {
        Self {
            next_token: self.next_token.or_else(|| other.next_token.clone()),
            tail: self.tail.or_else(|| other.tail.clone()),
            ..self
        }
    }

    /// Those of the run's protocols that a server has proven, as bits, given its own proof. Its test numbers must be those
    /// that every answer is checked with.
    pub(super) fn shared_with(&self, one: &Self) -> u8 {
        let mut shared = 0;
        if let (Some(canary), Some(own)) = (&self.next_token, &one.next_token) {
            let numbers = canary.known.iter().zip(&own.known);
            if canary.known.len() == own.known.len()
                && numbers.into_iter().all(|(one, two)| self.tolerance.holds(one.1, two.1))
            {
                shared |= Shortcut::NextToken.bit();
            }
        }
        if self.tail.is_some() && one.tail.is_some() {
            shared |= Shortcut::Tail.bit();
        }
        shared
    }

    /// The protocols that two servers have in common.
    fn and(self, other: &Self, stats: &ModelStats) -> Self {
        let tolerance = match other.precision {
            Precision::Half => other.tolerance,
            Precision::Full => self.tolerance,
        };
        let precision = if self.precision == Precision::Half { self.precision } else { other.precision };
        let numbers = |proven: &Self| proven.next_token.as_ref().map(|canary| canary.known.clone());
        if let (Some(one), Some(two)) = (numbers(&self), numbers(other))
            && one.iter().zip(&two).any(|(one, two)| !tolerance.holds(one.1, two.1))
        {
            stats.warn(
                "The addresses of `base_url` give different log-probabilities for the same prompt: they do not run \
                 the same model"
                    .to_owned(),
            );
            return Self::echo("the addresses give different numbers");
        }
        Self {
            precision,
            tolerance,
            next_token: self.next_token.filter(|_| other.next_token.is_some()),
            tail: self.tail.filter(|_| other.tail.is_some()),
            evidence: Vec::new(),
            reference: None,
        }
    }
}

impl Precision {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Full => "float32",
            Self::Half => "half precision",
        }
    }
}

/// Estimates the precision of logits. The differences of half-precision logits are multiples of a power of two.
pub(super) fn precision(found: &[NextToken]) -> Precision {
    /// Logits of magnitude 1 or more are multiples of this, in both half-precision formats.
    const STEP: f64 = 1.0 / 1024.0;
    let differences = found.iter().flat_map(|found| {
        found.logprobs.values().map(|logprob| found.best - logprob).filter(|difference| *difference > 0.5)
    });
    let differences: Vec<f64> = differences.collect();
    let is_multiple = |difference: &&f64| {
        let steps = **difference / STEP;
        (steps - steps.round()).abs() < 0.03
    };
    let multiples = differences.iter().filter(is_multiple).count();
    if differences.len() >= 8 && multiples * 5 >= differences.len() * 4 {
        Precision::Half
    } else {
        Precision::Full
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(logit: impl Fn(f64) -> f64) -> [NextToken; 1] {
        let logits: Vec<f64> = (0..40_u32).map(|id| logit(f64::from(id).sin() * 9.0)).collect();
        let total = logits.iter().map(|logit| logit.exp()).sum::<f64>().ln();
        let logprobs: rustc_hash::FxHashMap<u32, f64> =
            (0..40).zip(logits).map(|(id, logit)| (id, f64::from((logit - total) as f32))).collect();
        let best = logprobs.values().copied().fold(f64::NEG_INFINITY, f64::max);
        [NextToken { sampled: 0, best, logprobs }]
    }

    #[test]
    fn estimates_the_precision_of_logits() {
        assert_eq!(precision(&found(|logit| logit)), Precision::Full);
        let bfloat16 = |logit: f64| f64::from(f32::from_bits((logit as f32).to_bits() & 0xffff_0000));
        assert_eq!(precision(&found(bfloat16)), Precision::Half);
        let float16 = |logit: f64| f64::from(f32::from_bits((logit as f32).to_bits() & 0xffff_e000));
        assert_eq!(precision(&found(float16)), Precision::Half);
    }
}
