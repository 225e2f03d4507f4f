//! Probabilities of option labels from the `top_logprobs` of a chat answer of one token.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use lmeval_core::{Answer, Arguments, Context, Letter, ModelError, ModelErrorKind, ModelRequest, Response};
use lmeval_pycompat::{Dict, Value};

use super::answer::{choices, malformed, objects, parse, unusable, usage};
use super::generate::ReadyPrompt;
use super::model::{ApiModel, body_text};
use super::protocol::Prompt;
use crate::http::{BadAnswer, Call};

/// The number of tokens that OpenAI's API lists at most, and most servers with it.
pub(super) const TOP_LOGPROBS: u64 = 20;

/// The number requested from a server that refuses the first one.
const FEWER_LOGPROBS: u64 = 5;

/// The forms in which a label can be a token: alone, or after a space.
const VARIANTS: usize = 2;

/// How far listed probabilities may exceed 1 by rounding.
const ROUNDING: f64 = 0.02;

/// First tokens of models that write their reasoning into the answer.
const REASONING_TOKENS: [&str; 5] = ["<think>", "<|channel|>", "<thinking>", "[THINK]", "<reasoning>"];

/// The number of tokens to request; lowered once if the server refuses it.
#[derive(Debug)]
pub(super) struct TopLogprobs(AtomicU64);

impl TopLogprobs {
    pub(super) fn new(count: u64) -> Self {
        Self(AtomicU64::new(count))
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Lowers the number after a refusal of `refused` tokens. Returns whether to try again, and whether this call
    /// was the one that lowered it.
    fn lower(&self, refused: u64) -> (bool, bool) {
        if refused <= FEWER_LOGPROBS {
            return (false, false);
        }
        (true, self.0.fetch_min(FEWER_LOGPROBS, Ordering::Relaxed) > FEWER_LOGPROBS)
    }
}

impl ApiModel {
    /// Answers all requests for the probabilities of labels.
    pub(super) async fn answer_letters(
        &self,
        requests: &[ModelRequest],
        answers: &mut [Option<Result<Answer, ModelError>>],
    ) {
        for (request, answer) in requests.iter().zip(answers) {
            if let Arguments::Letters { context, labels } = &request.arguments {
                *answer = Some(self.letters(request, context, labels).await);
            }
        }
    }

    async fn letters(
        &self,
        request: &ModelRequest,
        context: &Context,
        labels: &[Arc<str>],
    ) -> Result<Answer, ModelError> {
        let prompt = match self.prepare(request, context)? {
            Some(ReadyPrompt::Messages(messages)) => Prompt::Messages(messages),
            Some(ReadyPrompt::Text(text)) => Prompt::Text(text),
            Some(ReadyPrompt::Tokens(_)) | None => return Err(request.unsupported()),
        };
        let about = request.describe();
        loop {
            let count = self.parts.top_logprobs.get();
            let body = body_text(self.parts.protocol.letters(&prompt, count, &self.parts.rules)?)?;
            let tokens = body.len() as u64 / 4;
            let call = Call { path: "", body: Bytes::from(body), about: &about, tokens, scores: true };
            let read = |bytes: &[u8]| {
                let answer = parse(bytes)?;
                Ok((read_letters(&answer, labels)?, usage(&answer)))
            };
            match self.parts.client.post(call, read).await {
                Ok((letters, usage)) => {
                    let response = Response::Letters(letters.into());
                    return Ok(Answer::new(response, usage));
                }
                Err(error) if is_about_logprobs(&error) => {
                    let (again, is_first) = self.parts.top_logprobs.lower(count);
                    if !again {
                        return Err(refuses_logprobs(&error));
                    }
                    if is_first {
                        self.parts.client.stats().warn(format!(
                            "The server refuses `top_logprobs` of {count}; {FEWER_LOGPROBS} are requested, so more letters may be missing"
                        ));
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// Whether the server rejected a request because of the number of log-probabilities.
fn is_about_logprobs(error: &ModelError) -> bool {
    error.kind() == ModelErrorKind::Request && error.to_string().to_lowercase().contains("logprob")
}

fn refuses_logprobs(error: &ModelError) -> ModelError {
    ModelError::new(ModelErrorKind::Capability, format!("The server refuses log-probabilities: {error}"))
        .hint(GENERATE_INSTEAD)
}

const GENERATE_INSTEAD: &str =
    "`--choices generate` lets the model write its answer and extracts the letter, without log-probabilities";

fn incapable(problem: &str) -> BadAnswer {
    let message = format!("The server does not return the log-probabilities of likely tokens: {problem}");
    BadAnswer::Incapable(ModelError::new(ModelErrorKind::Capability, message).hint(GENERATE_INSTEAD))
}

fn reasons() -> BadAnswer {
    let message = "The model reasons before it answers, so its first token is not a letter";
    BadAnswer::Fatal(
        ModelError::new(ModelErrorKind::Capability, message)
            .hint("`--choices generate` with `--model_args …,think_end_token=</think>` strips the reasoning")
            .hint("Or start the server with reasoning switched off"),
    )
}

/// Reads the probability of each label.
///
/// A label's tokens are the label itself and the label after one space. Of tokens that are not listed it is known that
/// each is at most as likely as the least likely listed one, and all together have what the listed ones leave of 1.
fn read_letters(answer: &Value, labels: &[Arc<str>]) -> Result<Vec<Letter>, BadAnswer> {
    let objects = objects(answer)?;
    let object = objects.first().ok_or_else(|| malformed("The answer has no `choices`"))?;
    let choices = choices(object)?;
    let choice = choices.first().ok_or_else(|| malformed("The answer has no `choices`"))?;
    let message = choice.get_str("message").and_then(Value::as_dict);
    let field = |name: &str| message.and_then(|message| message.get_str(name));
    if ["reasoning_content", "reasoning"].into_iter().any(|name| field(name).is_some_and(Value::is_truthy)) {
        return Err(reasons());
    }
    let has_text = field("content").is_some_and(Value::is_truthy);
    let Some(listed) = listed_tokens(choice, has_text)? else {
        // The model ended its answer at once: no token, and nothing known about letters.
        return Ok(vec![Letter { logprob: None, upper: 0.0, is_greedy: false }; labels.len()]);
    };
    if listed.iter().all(|(token, _)| token.starts_with("token_id:")) {
        return Err(incapable(
            "tokens are named by their ids; start vLLM without `--return-tokens-as-token-ids`",
        ));
    }
    let best = listed.iter().fold(f64::NEG_INFINITY, |best, (_, logprob)| best.max(*logprob));
    let greedy = listed.iter().find(|(_, logprob)| *logprob == best).map_or("", |(token, _)| *token);
    if REASONING_TOKENS.contains(&greedy.trim()) {
        return Err(reasons());
    }
    let total: f64 = listed.iter().map(|(_, logprob)| logprob.exp()).sum();
    if total > 1.0 + ROUNDING {
        let message = format!("The probabilities of the listed tokens add up to {total:.3}, more than 1");
        return Err(BadAnswer::Final(unusable(message)));
    }
    let rest = (1.0 - total).max(0.0);
    let least = listed.iter().fold(f64::INFINITY, |least, (_, logprob)| least.min(*logprob)).exp();
    let letter = |label: &Arc<str>| {
        let own = listed.iter().filter(|(token, _)| is_variant(token, label)).map(|(_, logprob)| *logprob);
        let own: Vec<f64> = own.collect();
        let logprob = (!own.is_empty()).then(|| log_sum_exp(&own));
        let unlisted = VARIANTS.saturating_sub(own.len()) as f64 * least;
        let upper = match logprob {
            Some(logprob) if unlisted == 0.0 || rest == 0.0 => logprob,
            logprob => (logprob.map_or(0.0, f64::exp) + unlisted.min(rest)).ln(),
        };
        let upper = logprob.map_or(upper, |logprob| upper.max(logprob));
        Letter { logprob, upper, is_greedy: is_variant(greedy, label) }
    };
    Ok(labels.iter().map(letter).collect())
}

/// The tokens listed for the first position, with their log-probabilities; `None` if the answer has no token.
fn listed_tokens(choice: &Dict, has_text: bool) -> Result<Option<Vec<(&str, f64)>>, BadAnswer> {
    let logprobs = choice.get_str("logprobs").and_then(Value::as_dict);
    let logprobs = logprobs.ok_or_else(|| incapable("the answer has no `logprobs`"))?;
    let pairs: Vec<(&str, &Value)> = match (logprobs.get_str("content"), logprobs.get_str("top_logprobs")) {
        (Some(Value::List(positions)), _) => {
            let Some(first) = positions.first() else {
                return if has_text { Err(incapable("`logprobs` are empty")) } else { Ok(None) };
            };
            let listed = first.as_dict().and_then(|first| first.get_str("top_logprobs")?.as_list());
            let listed = listed.unwrap_or_default().iter().map(|entry| {
                let entry = entry.as_dict()?;
                Some((entry.get_str("token")?.as_str()?, entry.get_str("logprob")?))
            });
            listed
                .collect::<Option<_>>()
                .ok_or_else(|| malformed("An entry of `top_logprobs` has no token or no logprob"))?
        }
        // The layout of the completions API, which some chat servers use.
        (_, Some(Value::List(positions))) => match positions.first() {
            Some(Value::Dict(listed)) => {
                listed.iter().filter_map(|(token, logprob)| Some((token.as_str()?, logprob))).collect()
            }
            _ => Vec::new(),
        },
        _ => Vec::new(),
    };
    if pairs.is_empty() {
        return Err(incapable("the answer has no `top_logprobs`"));
    }
    let number = |(token, logprob): (_, &Value)| match logprob.to_f64() {
        // Rounding may put a certain token slightly above 0; anything else is not a probability.
        Some(logprob) if logprob < 1e-3 => Ok((token, logprob.min(0.0))),
        _ => Err(malformed(format!("The log-probability of the token `{token}` is not a number below 0"))),
    };
    Ok(Some(pairs.into_iter().map(number).collect::<Result<_, _>>()?))
}

/// Whether a token is a label, alone or after a space; some servers show the space as their vocabulary does.
fn is_variant(token: &str, label: &str) -> bool {
    token.strip_prefix([' ', '▁', 'Ġ']).unwrap_or(token) == label
}

/// `ln Σ exp(x)`, also for very unlikely tokens.
fn log_sum_exp(logprobs: &[f64]) -> f64 {
    let largest = logprobs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if logprobs.len() == 1 || largest == f64::NEG_INFINITY {
        return largest;
    }
    largest + logprobs.iter().map(|logprob| (logprob - largest).exp()).sum::<f64>().ln()
}

#[cfg(test)]
mod tests {
    use lmeval_pycompat::json;

    use super::*;

    fn labels(all: &str) -> Vec<Arc<str>> {
        all.chars().map(|label| label.to_string().into()).collect()
    }

    fn answer(top: &str) -> Value {
        let text = format!(
            r#"{{"choices": [{{"message": {{"content": "A"}}, "finish_reason": "length", "logprobs": {{"content": [{{"token": "A", "logprob": -0.1, "top_logprobs": [{top}]}}]}}}}]}}"#
        );
        json::loads(&text).unwrap()
    }

    fn token(token: &str, probability: f64) -> String {
        format!(r#"{{"token": "{token}", "logprob": {}}}"#, probability.ln())
    }

    fn near(found: f64, probability: f64) {
        assert!((found.exp() - probability).abs() < 1e-12, "{} instead of {probability}", found.exp());
    }

    #[test]
    fn sums_variants_and_bounds_the_rest() {
        let top = [token(" A", 0.25), token("A", 0.5), token("B", 0.125), token("The", 0.0625)].join(",");
        let letters = read_letters(&answer(&top), &labels("ABC")).unwrap();
        near(letters[0].logprob.unwrap(), 0.75);
        assert_eq!(letters[0].upper, letters[0].logprob.unwrap());
        assert!(letters[0].is_greedy && !letters[1].is_greedy);
        near(letters[1].logprob.unwrap(), 0.125);
        // One variant is unlisted: at most the smallest listed probability, which here equals the rest of 1.
        near(letters[1].upper, 0.1875);
        assert_eq!(letters[2].logprob, None);
        near(letters[2].upper, 0.0625);
    }

    #[test]
    fn a_complete_list_leaves_nothing_for_missing_letters() {
        let top = [token("A", 0.5), token("x", 0.5)].join(",");
        let letters = read_letters(&answer(&top), &labels("AB")).unwrap();
        assert_eq!(letters[0].upper, letters[0].logprob.unwrap());
        assert_eq!(letters[1].upper, f64::NEG_INFINITY);
    }

    #[test]
    fn variants_are_whole_tokens() {
        for (token, is_it) in [
            ("A", true),
            (" A", true),
            ("▁A", true),
            ("ĠA", true),
            ("a", false),
            ("Ab", false),
            ("  A", false),
        ] {
            assert_eq!(is_variant(token, "A"), is_it, "{token}");
        }
    }

    #[test]
    fn masked_tokens_are_listed_and_nonsense_is_refused() {
        let masked = r#"{"token": "A", "logprob": -9999.0}, {"token": "B", "logprob": -0.5}, {"token": "C", "logprob": -Infinity}"#;
        let letters = read_letters(&answer(masked), &labels("ABC")).unwrap();
        assert_eq!(letters[0].logprob, Some(-9999.0));
        assert_eq!(letters[2].logprob, Some(f64::NEG_INFINITY));
        for nonsense in ["NaN", "null", "0.7", "\"x\""] {
            let top = format!(r#"{{"token": "A", "logprob": {nonsense}}}"#);
            assert!(matches!(read_letters(&answer(&top), &labels("A")), Err(BadAnswer::Retry(_))), "{top}");
        }
        let too_much = [token("A", 0.9), token("B", 0.9)].join(",");
        assert!(matches!(read_letters(&answer(&too_much), &labels("AB")), Err(BadAnswer::Final(_))));
    }

    #[test]
    fn incapable_and_reasoning_servers_are_recognised() {
        let read = |text: &str| read_letters(&json::loads(text).unwrap(), &labels("AB"));
        for text in [
            r#"{"choices": [{"message": {"content": "A"}, "finish_reason": "length"}]}"#,
            r#"{"choices": [{"message": {"content": "A"}, "finish_reason": "length", "logprobs": null}]}"#,
            r#"{"choices": [{"message": {"content": "A"}, "finish_reason": "length", "logprobs": {"content": []}}]}"#,
            r#"{"choices": [{"message": {"content": "A"}, "logprobs": {"content": [{"token": "A", "logprob": -1}]}}]}"#,
            r#"{"choices": [{"message": {"content": "A"}, "logprobs": {"content": [{"top_logprobs": [{"token": "token_id:5", "logprob": -1}]}]}}]}"#,
        ] {
            assert!(matches!(read(text), Err(BadAnswer::Incapable(_))), "{text}");
        }
        for text in [
            r#"{"choices": [{"message": {"content": null, "reasoning_content": "Okay"}, "logprobs": {"content": []}}]}"#,
            r#"{"choices": [{"message": {"content": "<think>"}, "logprobs": {"content": [{"top_logprobs": [{"token": "<think>", "logprob": -0.1}]}]}}]}"#,
        ] {
            assert!(matches!(read(text), Err(BadAnswer::Fatal(_))), "{text}");
        }
        let ended = r#"{"choices": [{"message": {"content": ""}, "finish_reason": "stop", "logprobs": {"content": []}}]}"#;
        let letters = read(ended).unwrap();
        assert!(letters.iter().all(|letter| letter.logprob.is_none() && letter.upper == 0.0));
        let old = r#"{"choices": [{"message": {"content": "A"}, "logprobs": {"tokens": ["A"], "top_logprobs": [{"A": -0.5, " B": -1.5}]}}]}"#;
        let letters = read(old).unwrap();
        assert_eq!((letters[0].logprob, letters[1].logprob), (Some(-0.5), Some(-1.5)));
    }

    #[test]
    fn lowers_the_number_once() {
        let top = TopLogprobs::new(20);
        assert_eq!(top.lower(20), (true, true));
        assert_eq!(top.lower(20), (true, false));
        assert_eq!(top.get(), 5);
        assert_eq!(top.lower(5), (false, false));
    }
}
