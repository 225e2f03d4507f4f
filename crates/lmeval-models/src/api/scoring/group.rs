//! Splits log-likelihood requests by protocol.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::task::Poll;

use lmeval_core::{ModelError, ModelFuture};
use rustc_hash::FxHashMap;

use super::super::answer::unusable;
use super::super::model::ApiModel;
use super::super::protocol::{Score, Scored};
use super::next_token::{Canary, MAX_IDS, Trouble};
use super::{Precision, Proven, Shortcut, VERIFIED_CONTEXTS};

impl ApiModel {
    /// Scores prompts, each by the cheapest protocol in use.
    pub(in super::super) async fn score_cheaply(
        &self,
        about: &str,
        prompts: Vec<Scored>,
    ) -> Vec<Result<Score, ModelError>> {
        let Some(proven) = self.planner.active() else {
            if self.planner.is_off() {
                let prompts: Vec<&Scored> = prompts.iter().collect();
                self.count_echo(&prompts);
                self.count_sent(&prompts);
            }
            return self.score(about, prompts).await;
        };
        let groups = by_context(&prompts);
        let calls = groups.iter().map(|group| {
            let of_context: Vec<&Scored> = group.iter().map(|&index| &prompts[index]).collect();
            Box::pin(self.score_context(about, of_context, proven)) as ModelFuture<'_, _>
        });
        let mut scores: Vec<Option<Result<Score, ModelError>>> = vec![None; prompts.len()];
        for (group, found) in groups.iter().zip(together(calls.collect()).await) {
            for (&index, score) in group.iter().zip(found) {
                scores[index] = Some(score);
            }
        }
        let none = || Err(unusable("The prompt was not scored"));
        scores.into_iter().map(|score| score.unwrap_or_else(none)).collect()
    }

    /// Scores prompts that share their context.
    async fn score_context(
        &self,
        about: &str,
        prompts: Vec<&Scored>,
        proven: &Proven,
    ) -> Vec<Result<Score, ModelError>> {
        let mut scores: Vec<Option<Score>> = vec![None; prompts.len()];
        let open = |scores: &[Option<Score>], wanted: fn(&Scored) -> bool| {
            let indices = 0..prompts.len();
            indices.filter(|&index| scores[index].is_none() && wanted(prompts[index])).collect::<Vec<usize>>()
        };
        if let Some(canary) = self.planner.canary(proven) {
            let single = open(&scores, |prompt| prompt.tokens.len() == prompt.context + 1);
            let of_context: Vec<&Scored> = single.iter().map(|&index| prompts[index]).collect();
            let score = || self.score_next_tokens(about, &of_context, (proven, canary));
            let found = self.verified(Shortcut::NextToken, about, &of_context, proven, score).await;
            for (index, score) in single.into_iter().zip(found.into_iter().flatten()) {
                scores[index] = Some(score);
            }
        }
        if let Some(tail) = self.planner.tail(proven) {
            let several = open(&scores, |prompt| prompt.tokens.len() > prompt.context);
            let of_context: Vec<&Scored> = several.iter().map(|&index| prompts[index]).collect();
            let score = || self.score_tails(about, &of_context, (proven, tail));
            let found = self.verified(Shortcut::Tail, about, &of_context, proven, score).await;
            for (index, score) in several.into_iter().zip(found.into_iter().flatten()) {
                scores[index] = Some(score);
            }
        }
        let rest = open(&scores, |_| true);
        let of_context: Vec<&Scored> = rest.iter().map(|&index| prompts[index]).collect();
        let mut echoed = self.echo_each(about, &of_context).await.into_iter();
        self.count_echo(&of_context);
        let none = || Err(unusable("The server returned no answer"));
        let score = |found: Option<Score>| found.map_or_else(|| echoed.next().unwrap_or_else(none), Ok);
        scores.into_iter().map(score).collect()
    }

    /// Scores prompts with `echo`, in concurrent calls.
    pub(super) async fn echo_each(&self, about: &str, prompts: &[&Scored]) -> Vec<Result<Score, ModelError>> {
        self.count_sent(prompts);
        let calls = prompts.chunks(self.parts.batch_size).map(|batch| {
            let batch = batch.iter().map(|&prompt| prompt.clone()).collect();
            Box::pin(self.score(about, batch)) as ModelFuture<'_, _>
        });
        together(calls.collect()).await.into_iter().flatten().collect()
    }

    /// Scores prompts by a protocol. The first contexts of a run are compared with `echo`, one after the other,
    /// and a difference turns the protocol off. `None` if the protocol gave no scores.
    async fn verified<F: Future<Output = Option<Vec<Score>>>>(
        &self,
        shortcut: Shortcut,
        about: &str,
        prompts: &[&Scored],
        proven: &Proven,
        score: impl FnOnce() -> F,
    ) -> Option<Vec<Score>> {
        if prompts.is_empty() {
            return None;
        }
        let usage = self.planner.of(shortcut);
        if usage.is_verified.load(Ordering::Acquire) {
            return score().await;
        }
        let mut verified = usage.verified.lock().await;
        if usage.is_off.load(Ordering::Relaxed) {
            return None;
        }
        if *verified >= VERIFIED_CONTEXTS {
            drop(verified);
            return score().await;
        }
        let found = score().await?;
        let checked = match shortcut {
            Shortcut::NextToken => extremes(&found),
            Shortcut::Tail => (0..found.len()).collect(),
        };
        let compared: Vec<&Scored> = checked.iter().map(|&index| prompts[index]).collect();
        let echoed = self.echo_each(about, &compared).await;
        for ((&index, prompt), echoed) in checked.iter().zip(&compared).zip(echoed) {
            let score = &found[index];
            // Without a number to compare with, nothing is verified.
            let echoed = echoed.ok()?;
            let continuation = (prompt.tokens.len() - prompt.context) as f64;
            let holds = proven.tolerance.holds(score.0 / continuation, echoed.0 / continuation);
            // In half precision, close tokens change places.
            let agrees = score.1 == echoed.1 || proven.precision == Precision::Half;
            if !holds || !agrees {
                let reason =
                    format!("{about}: the log-likelihood is {:.4}, but {:.4} with `echo`", score.0, echoed.0);
                self.planner.turn_off(shortcut, &reason, self.parts.client.stats());
                return None;
            }
        }
        *verified += 1;
        if *verified >= VERIFIED_CONTEXTS {
            usage.is_verified.store(true, Ordering::Release);
        }
        Some(found)
    }

    /// Scores one-token continuations of a context. The first context with a new prefix goes alone, so that the
    /// others find it in the server's cache.
    async fn score_next_tokens(
        &self,
        about: &str,
        prompts: &[&Scored],
        known: (&Proven, &Canary),
    ) -> Option<Vec<Score>> {
        let first = prompts.first()?;
        let context = &first.tokens[..first.context];
        let Some(head) = self.planner.head(Shortcut::NextToken, context) else {
            return self.next_token_scores(about, prompts, known).await;
        };
        let mut found = None;
        head.get_or_init(|| async {
            found = Some(self.next_token_scores(about, prompts, known).await);
        })
        .await;
        match found {
            Some(found) => found,
            None => self.next_token_scores(about, prompts, known).await,
        }
    }

    async fn next_token_scores(
        &self,
        about: &str,
        prompts: &[&Scored],
        (proven, canary): (&Proven, &Canary),
    ) -> Option<Vec<Score>> {
        let mut scores = Vec::with_capacity(prompts.len());
        for prompts in prompts.chunks(MAX_IDS) {
            let ids: Vec<u32> =
                prompts.iter().filter_map(|prompt| prompt.tokens.get(prompt.context).copied()).collect();
            let known = (canary, proven.tolerance);
            match self.next_token_call(about, prompts.first()?, &ids, known).await {
                Ok(found) => {
                    let found = ids.iter().map(|&id| found.score(id)).collect::<Option<Vec<_>>>()?;
                    scores.extend(found);
                }
                Err(trouble) => {
                    self.trouble(Shortcut::NextToken, trouble);
                    return None;
                }
            }
        }
        self.planner.next_token.scores.fetch_add(scores.len() as u64, Ordering::Relaxed);
        self.count_asked(prompts);
        Some(scores)
    }

    /// Counts the prompt tokens that `echo` would have computed for answers.
    pub(super) fn count_asked(&self, prompts: &[&Scored]) {
        let tokens = prompts.iter().map(|prompt| prompt.tokens.len()).sum();
        self.planner.count(tokens, 0, None, self.parts.client.stats());
    }

    /// Counts prompts that are sent with `echo`.
    fn count_sent(&self, prompts: &[&Scored]) {
        let tokens = prompts.iter().map(|prompt| prompt.tokens.len()).sum();
        self.planner.count(0, tokens, None, self.parts.client.stats());
    }

    /// Counts answers of `echo`.
    fn count_echo(&self, prompts: &[&Scored]) {
        self.planner.echo.fetch_add(prompts.len() as u64, Ordering::Relaxed);
        self.count_asked(prompts);
    }

    /// Takes note of a protocol's failure; the caller falls back to `echo`.
    pub(super) fn trouble(&self, shortcut: Shortcut, trouble: Trouble) {
        let stats = self.parts.client.stats();
        match trouble {
            Trouble::Surprise(reason) => self.planner.surprise(shortcut, &reason, stats),
            Trouble::Changed(reason) => self.planner.turn_off(shortcut, &reason, stats),
            // `echo` reports it.
            Trouble::Failed(_) => {}
        }
    }
}

/// The indices of the most and the least likely of some scores. One answer has the scores of all next tokens, so these two
/// show whether it is shifted or scaled, for less than the `echo` of each.
fn extremes(scores: &[Score]) -> Vec<usize> {
    let by_score = |one: &usize, other: &usize| scores[*one].0.total_cmp(&scores[*other].0);
    let (most, least) = ((0..scores.len()).max_by(by_score), (0..scores.len()).min_by(by_score));
    most.into_iter().chain(least.filter(|least| most != Some(*least))).collect()
}

/// The indices of prompts with equal contexts, in order of appearance.
fn by_context(prompts: &[Scored]) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut known: FxHashMap<&[u32], usize> = FxHashMap::default();
    for (index, prompt) in prompts.iter().enumerate() {
        let group = *known.entry(&prompt.tokens[..prompt.context]).or_insert(groups.len());
        if group == groups.len() {
            groups.push(Vec::new());
        }
        groups[group].push(index);
    }
    groups
}

/// Waits for all futures concurrently.
pub(in super::super) async fn together<T>(mut futures: Vec<ModelFuture<'_, T>>) -> Vec<T> {
    let mut outputs: Vec<Option<T>> = futures.iter().map(|_| None).collect();
    poll_fn(|context| {
        let mut is_pending = false;
        for (future, output) in futures.iter_mut().zip(&mut outputs) {
            if output.is_some() {
                continue;
            }
            match Pin::new(future).poll(context) {
                Poll::Ready(ready) => *output = Some(ready),
                Poll::Pending => is_pending = true,
            }
        }
        if is_pending { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    outputs.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extremes_are_the_most_and_the_least_likely() {
        let scores = |logprobs: &[f64]| logprobs.iter().map(|logprob| (*logprob, false)).collect::<Vec<_>>();
        assert_eq!(extremes(&scores(&[-2.0, -5.0, -1.0, -3.0])), [2, 1]);
        assert_eq!(extremes(&scores(&[-1.0])), [0]);
        assert!(extremes(&[]).is_empty());
    }

    #[test]
    fn groups_equal_contexts() {
        let prompt = |tokens: &[u32], context| Scored::new(tokens.to_vec(), context);
        let prompts =
            [prompt(&[1, 2, 3], 2), prompt(&[1, 2, 4], 2), prompt(&[1, 2, 3], 1), prompt(&[1, 2, 5, 6], 2)];
        assert_eq!(by_context(&prompts), [vec![0, 1, 3], vec![2]]);
    }
}
