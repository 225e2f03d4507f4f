//! Checks a server for `lm-eval doctor`.

use std::time::{Duration, Instant};

use lmeval_core::{Check, CheckSink, Diagnose as _, ModelError, ModelErrorKind, ModelFuture, RequestType};
use lmeval_pycompat::{Dict, Value};

use super::answer::{malformed, parse};
use super::contact::{Listed, list_models};
use super::model::{ApiModel, Parts, body_text};
use super::protocol::Scored;
use super::scoring::together;
use crate::http::{Call, Route};
use crate::tokenizer::{Encoder, Tokenizer};

/// Strings on which tokenizers differ.
const STRINGS: [&str; 5] = [
    "Hello, world!",
    " 1 + 1 = 2\n\n",
    "naïve café — 東京 🙂",
    "    if x:\n\treturn None",
    "The quick brown fox jumps over the lazy dog",
];
/// Calls for the latency.
const CALLS: usize = 5;
/// Concurrent calls for the throughput.
const CURVE: [usize; 4] = [1, 4, 16, 64];

/// The time limit of a check.
pub(super) const LIMIT: Duration = Duration::from_secs(5);

impl ApiModel {
    /// Makes all checks, until one shows that the others cannot be made.
    pub(super) async fn examine_server(&self, mut report: CheckSink) {
        if let Some(listed) = self.examine_contact(&mut report).await {
            self.examine_answers(&listed, None, report).await;
        }
    }

    /// Checks whether a model server answers; returns its model list if so.
    pub(super) async fn examine_contact(&self, report: &mut CheckSink) -> Option<Listed> {
        let found = async {
            let (contact, listed) = self.contact().await?;
            let kind = self.check_kind(&listed).await;
            // What answers may not be a model server.
            if kind.as_ref().err().is_none_or(|check| check.subject != contact.subject) {
                report(contact);
            }
            report(kind?);
            Ok(listed)
        };
        match found.await {
            Ok(listed) => Some(listed),
            Err(check) => {
                report(check);
                None
            }
        }
    }

    /// Checks how a model server answers. A tokenizer that could not be loaded has failed its check.
    pub(super) async fn examine_answers(
        &self,
        listed: &Listed,
        no_tokenizer: Option<&ModelError>,
        mut report: CheckSink,
    ) {
        report(self.check_model(listed));
        let check = match no_tokenizer {
            Some(error) => failed("tokenizer", error),
            None => self.within("tokenizer", self.check_tokenizer()).await,
        };
        report(check);
        report(self.check_template());
        let check = self.within("log-probabilities", self.check_logprobs()).await;
        let is_scored = check.verdict == lmeval_core::Verdict::Good;
        report(check);
        if is_scored {
            let check = self.within("scoring", self.check_protocol()).await;
            report(check);
        }
        let check = self.check_latency().await;
        let is_answered = check.verdict == lmeval_core::Verdict::Good;
        report(check);
        if is_answered {
            let check = self.check_throughput().await;
            report(check);
        }
    }

    /// Ends a check that takes too long, with the reason if the client knows one.
    async fn within(&self, subject: &'static str, check: impl Future<Output = Check>) -> Check {
        tokio::time::timeout(LIMIT, check).await.unwrap_or_else(|_| self.unfinished(subject))
    }

    fn unfinished(&self, subject: &'static str) -> Check {
        let seconds = LIMIT.as_secs();
        match self.parts.client.stats().take_retry_reason() {
            Some(reason) => Check::bad(subject, format!("no answer within {seconds} s: {reason}")),
            None => Check::note(
                subject,
                format!("not finished within {seconds} s; a run takes the time it needs"),
            ),
        }
    }

    async fn contact(&self) -> Result<(Check, Listed), Check> {
        let Parts { client, rules, is_hosted, keeper, .. } = &self.parts;
        if *is_hosted {
            let detail = format!("`{}`, not queried for its models", client.shown_url());
            return Ok((Check::note("contact", detail), Listed::default()));
        }
        keeper.first_contact().await.map_err(|error| failed("contact", &error))?;
        let begun = Instant::now();
        let lists = list_models(client, rules.model.as_deref()).await;
        let lists = lists.map_err(|error| failed("contact", &error))?;
        let milliseconds = begun.elapsed().as_secs_f64() * 1e3;
        let reached = lists.iter().filter(|(_, listed)| listed.is_some()).count();
        let listed = lists.into_iter().find_map(|(_, listed)| listed).unwrap_or_default();
        if let Some(error) =
            listed.problem.as_ref().filter(|error| error.kind() == ModelErrorKind::Authentication)
        {
            return Err(failed("contact", error));
        }
        let all = client.members().len();
        let detail = match client.pool() {
            None if all == 1 => format!("`{}` answered in {milliseconds:.0} ms", client.shown_url()),
            None => format!("{reached} of {all} addresses answered in {milliseconds:.0} ms"),
            Some(pool) => format!("{reached} of {all} servers of `{pool}` answered in {milliseconds:.0} ms"),
        };
        if reached < all {
            let advice = "Start the other servers, or remove their addresses from `base_url`";
            let check = Check::note("contact", detail).advise(advice);
            return Ok((keeper.refusals().into_iter().fold(check, Check::advise), listed));
        }
        Ok((Check::good("contact", detail), listed))
    }

    fn check_model(&self, listed: &Listed) -> Check {
        let model = self.parts.rules.model.as_deref();
        let names: Vec<String> = listed.names.iter().take(10).map(|name| format!("`{name}`")).collect();
        let shown = model.map_or_else(|| "not named".to_owned(), |model| format!("`{model}`"));
        if names.is_empty() {
            let reason = listed.problem.as_ref().map(|error| format!(": {error}")).unwrap_or_default();
            return Check::note("model", format!("{shown}; the server does not list its models{reason}"));
        }
        if model.is_none_or(|model| !listed.names.iter().any(|name| name == model)) {
            let detail = format!("{shown}; the server lists {}", names.join(", "));
            return Check::note("model", detail).advise("Set `model` to a name that the server lists");
        }
        let root = listed.root.as_ref().map(|root| format!(", from `{root}`")).unwrap_or_default();
        let own = self.parts.longest() as i64 + 1;
        match listed.max_length {
            Some(length) if length < own => {
                let detail = format!("{shown}{root}; context length {length}, but `max_length` is {own}");
                Check::bad("model", detail)
                    .advise(format!("Set `max_length={length}`: longer prompts would be refused"))
            }
            Some(length) if length > own => {
                let detail = format!("{shown}{root}; context length {length}, but `max_length` is {own}");
                Check::note("model", detail)
                    .advise(format!("Set `max_length={length}`, so that longer prompts are not truncated"))
            }
            Some(length) => Check::good("model", format!("{shown}{root}; context length {length}")),
            None => Check::good("model", format!("{shown}{root}")),
        }
    }

    async fn check_tokenizer(&self) -> Check {
        let Some(encoder) = &self.parts.encoder else {
            return Check::note("tokenizer", "none: only generation tasks can be run")
                .advise("Set `tokenizer=<name or folder>` for log-likelihood tasks");
        };
        if matches!(encoder.tokenizer(), Tokenizer::Remote(_)) {
            return Check::good("tokenizer", "the server's own");
        }
        let name = encoder.describe();
        for text in STRINGS {
            match (self.server_tokens(text).await, encoder.encode(text).await) {
                (Ok(server), Ok(local)) if server == local => {}
                (Ok(server), Ok(local)) => {
                    let detail = format!("{name}: {text:?} is {local:?} here, but {server:?} on the server");
                    return Check::bad("tokenizer", detail)
                        .advise("Set `tokenizer` to the tokenizer of the served model, or use `tokenizer_backend=remote`");
                }
                (_, Err(error)) => return failed("tokenizer", &error),
                (Err(_), Ok(_)) => {
                    return Check::note(
                        "tokenizer",
                        format!("{name}; the server has no `/tokenize` to compare with"),
                    );
                }
            }
        }
        Check::good(
            "tokenizer",
            format!("{name}; {} strings have the same tokens on the server", STRINGS.len()),
        )
    }

    /// A string's tokens by the server.
    async fn server_tokens(&self, text: &str) -> Result<Vec<u32>, ModelError> {
        let mut body = Dict::new();
        body.insert("model", self.parts.rules.model_value());
        body.insert("prompt", text);
        body.insert("add_special_tokens", false);
        let body = body_text(body)?;
        let call = Call { path: "", body: body.into(), about: "a test request", tokens: 0, scores: false };
        let route = Route { path: Some("/tokenize"), ..Route::default() };
        let read = |bytes: &[u8]| {
            let answer = parse(bytes)?;
            let tokens =
                answer.as_dict().and_then(|answer| answer.get_str("tokens")).and_then(Value::as_list);
            let id = |token: &Value| u32::try_from(token.as_i64()?).ok();
            tokens.and_then(|tokens| tokens.iter().map(id).collect()).ok_or_else(|| malformed("No `tokens`"))
        };
        self.parts.client.post_to(route, call, read).await
    }

    fn check_template(&self) -> Check {
        use lmeval_core::Model as _;
        match self.chat_template(None) {
            Ok(_) if self.parts.protocol.is_chat() => {
                Check::good("chat template", "applied by the server; use `--apply_chat_template`")
            }
            Ok(_) => Check::good("chat template", "available for `--apply_chat_template`"),
            Err(error) => Check::note("chat template", error.to_string()),
        }
    }

    async fn check_logprobs(&self) -> Check {
        use lmeval_core::Model as _;
        if let Err(error) = self.supports(RequestType::Loglikelihood) {
            let mut check = Check::note("log-probabilities", error.to_string());
            if self.parts.protocol.is_chat() {
                check = check.advise(
                    "Multiple-choice tasks run on chat APIs with `--choices letters` or `--choices generate`",
                );
            }
            return error.hints().into_iter().fold(check, Check::advise);
        }
        let tokens = match &self.parts.encoder {
            Some(encoder) => test_tokens(encoder).await,
            None => return Check::note("log-probabilities", "not checked without a tokenizer"),
        };
        let tokens = match tokens {
            Ok(tokens) => tokens,
            Err(error) => return failed("log-probabilities", &error),
        };
        let context = tokens.len() / 2;
        let scores = self.score("a test request", vec![Scored::new(tokens, context)]).await;
        match scores.into_iter().next() {
            Some(Ok(_)) => Check::good("log-probabilities", "returned for prompts"),
            Some(Err(error)) => failed("log-probabilities", &error),
            None => Check::bad("log-probabilities", "no answer"),
        }
    }

    async fn check_protocol(&self) -> Check {
        let subject = "scoring";
        let settled = self.settle_scoring().await;
        let evidence = self.planner.evidence();
        match settled {
            Ok(Some(name)) => Check::good(subject, format!("`{name}`: {evidence}")),
            Ok(None) => {
                let check = Check::note(subject, format!("`echo`: {evidence}"));
                check.advise(
                    "With `echo`, the server computes each prompt in full for each choice; newer versions of vLLM \
                     are many times faster on multiple-choice tasks",
                )
            }
            Err(error) => failed(subject, &error),
        }
    }

    async fn check_latency(&self) -> Check {
        let mut times = Vec::with_capacity(CALLS);
        let deadline = tokio::time::Instant::now() + LIMIT;
        while times.len() < CALLS {
            let begun = Instant::now();
            match tokio::time::timeout_at(deadline, self.try_once()).await {
                Ok(Ok(())) => times.push(begun.elapsed()),
                Ok(Err(error)) => return failed("latency", &error),
                Err(_) if times.is_empty() => return self.unfinished("latency"),
                Err(_) => break,
            }
        }
        times.sort_unstable();
        let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
        let (median, longest) = (times[times.len() / 2], times[times.len() - 1]);
        let detail = format!(
            "{:.1} ms for one token (median of {}; longest {:.1} ms)",
            milliseconds(median),
            times.len(),
            milliseconds(longest)
        );
        Check::good("latency", detail)
    }

    async fn check_throughput(&self) -> Check {
        let most = self.parts.client.most_in_flight();
        let mut steps: Vec<(usize, f64)> = Vec::new();
        let deadline = tokio::time::Instant::now() + LIMIT;
        for concurrent in CURVE.into_iter().filter(|concurrent| *concurrent <= most) {
            let waves = (2 * concurrent).max(8).div_ceil(concurrent);
            let begun = Instant::now();
            let mut failure = None;
            let step = async {
                for _ in 0..waves {
                    let wave =
                        (0..concurrent).map(|_| Box::pin(self.try_once()) as ModelFuture<'_, _>).collect();
                    failure = together(wave).await.into_iter().find_map(Result::err).or(failure.take());
                }
            };
            let is_complete = tokio::time::timeout_at(deadline, step).await.is_ok();
            if let Some(error) = failure {
                return failed("throughput", &error);
            }
            if !is_complete {
                break;
            }
            steps.push((concurrent, (waves * concurrent) as f64 / begun.elapsed().as_secs_f64()));
        }
        if steps.is_empty() {
            return self.unfinished("throughput");
        }
        let shown: Vec<String> =
            steps.iter().map(|(concurrent, rate)| format!("{rate:.0}/s with {concurrent}")).collect();
        let check =
            Check::good("throughput", format!("requests of one token: {} in flight", shown.join(", ")));
        match best_concurrency(&steps) {
            Some(best) if best < most => {
                check.advise(format!("`num_concurrent={best}` reaches most of this throughput"))
            }
            _ => check,
        }
    }
}

/// The smallest concurrency with at least nine tenths of the highest rate.
fn best_concurrency(steps: &[(usize, f64)]) -> Option<usize> {
    let highest = steps.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
    steps.iter().find(|(_, rate)| *rate >= 0.9 * highest).map(|(concurrent, _)| *concurrent)
}

async fn test_tokens(encoder: &Encoder) -> Result<Vec<u32>, ModelError> {
    encoder.encode(STRINGS[STRINGS.len() - 1]).await
}

pub(super) fn failed(subject: &'static str, error: &ModelError) -> Check {
    let check = Check::bad(subject, error.to_string());
    error.hints().into_iter().fold(check, Check::advise)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recommends_the_smallest_sufficient_concurrency() {
        assert_eq!(best_concurrency(&[(1, 10.0), (4, 38.0), (16, 41.0), (64, 40.0)]), Some(4));
        assert_eq!(best_concurrency(&[]), None);
    }
}
