//! Generation settings of a task, as the reference's classes for engines in the process understand them.

use std::sync::Arc;

use lmeval_core::{Arguments, ModelRequest};
use lmeval_pycompat::{Dict, Value};

/// Names of the token limit in vLLM's class; the first one present wins.
const LIMITS: [&str; 4] = ["max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens"];

/// What requests of a launched server get besides the settings of their task.
#[derive(Clone, Debug)]
pub(super) struct GenerationSettings {
    /// Whether the server is vLLM, where `do_sample` and every name of the token limit count.
    pub(super) is_vllm: bool,
    /// The seed of the first repeat.
    pub(super) seed: i64,
    /// The variables of the server's own chat template.
    pub(super) template_fields: Option<Value>,
}

impl GenerationSettings {
    /// Completes the settings of generation requests. Requests that share settings still do.
    pub(super) fn complete(&self, requests: &mut [ModelRequest]) {
        let mut last: Option<(Arc<Dict>, usize, Arc<Dict>)> = None;
        for request in requests {
            let repeat = request.repeat;
            let Arguments::Generate { kwargs, .. } = &mut request.arguments else { continue };
            let changed = match &last {
                Some((before, same, after)) if *same == repeat && Arc::ptr_eq(before, kwargs) => {
                    Arc::clone(after)
                }
                _ => {
                    let changed = Arc::new(self.settings(kwargs, repeat));
                    last = Some((Arc::clone(kwargs), repeat, Arc::clone(&changed)));
                    changed
                }
            };
            *kwargs = changed;
        }
    }

    fn settings(&self, given: &Dict, repeat: usize) -> Dict {
        let mut settings = given.clone();
        // Reference: generated strings keep special tokens, and have no spaces between them.
        for name in ["skip_special_tokens", "spaces_between_special_tokens"] {
            if settings.get_str(name).is_none() {
                settings.insert(name, Value::Bool(false));
            }
        }
        if self.is_vllm {
            take_limit(&mut settings);
            take_sampling(&mut settings);
            // The server repeats an answer for the same seed, so repeats differ in it.
            let temperature = settings.get_str("temperature").and_then(Value::to_f64);
            if temperature.is_some_and(|temperature| temperature > 0.0)
                && settings.get_str("seed").is_none_or(Value::is_none)
            {
                settings.insert("seed", self.seed.wrapping_add(repeat as i64));
            }
        }
        if let Some(fields) = &self.template_fields {
            settings.insert("chat_template_kwargs", fields.clone());
        }
        settings
    }
}

/// Moves the token limit to the name that the client reads.
fn take_limit(settings: &mut Dict) {
    let limits = LIMITS.map(|name| settings.remove_str(name));
    if let Some(limit) = limits.into_iter().flatten().find(|limit| !limit.is_none()) {
        settings.insert("max_gen_toks", limit);
    }
}

/// Replaces `do_sample` by a temperature: `False` is greedy whatever the temperature is, and `True` without a temperature samples
/// with vLLM's default.
fn take_sampling(settings: &mut Dict) {
    let temperature = match settings.remove_str("do_sample") {
        Some(Value::Bool(false)) => 0.0,
        Some(Value::Bool(true)) if settings.get_str("temperature").is_none() => 1.0,
        _ => return,
    };
    settings.insert("temperature", temperature);
}

#[cfg(test)]
mod tests {
    use lmeval_pycompat::json;

    use super::*;

    fn dict(text: &str) -> Dict {
        json::loads(text).unwrap().as_dict().unwrap().clone()
    }

    fn completed(given: &str, repeat: usize) -> Dict {
        let settings = GenerationSettings { is_vllm: true, seed: 1234, template_fields: None };
        let mut changed = settings.settings(&dict(given), repeat);
        for name in ["skip_special_tokens", "spaces_between_special_tokens"] {
            assert_eq!(changed.remove_str(name), Some(Value::Bool(false)));
        }
        changed
    }

    /// Recorded from `VLLM.modify_gen_kwargs` of 0.4.13, but for the seeds and the temperature of `do_sample` alone, which are vLLM's.
    #[test]
    fn follows_the_reference() {
        for (given, expected) in [
            (r#"{"do_sample": false, "temperature": 1}"#, r#"{"temperature": 0.0}"#),
            (r#"{"do_sample": false}"#, r#"{"temperature": 0.0}"#),
            (r#"{"do_sample": true, "temperature": 0}"#, r#"{"temperature": 0}"#),
            (r#"{"do_sample": null, "temperature": 0}"#, r#"{"temperature": 0}"#),
            (r#"{"do_sample": true}"#, r#"{"temperature": 1.0, "seed": 1234}"#),
            (
                r#"{"max_completion_tokens": 8, "max_new_tokens": 7, "max_tokens": 6, "max_gen_toks": 5}"#,
                r#"{"max_gen_toks": 5}"#,
            ),
            (r#"{"max_tokens": 6, "max_new_tokens": 7}"#, r#"{"max_gen_toks": 7}"#),
            (r#"{"max_completion_tokens": 8}"#, r#"{"max_gen_toks": 8}"#),
            (r#"{"top_p": 0.9, "seed": 3}"#, r#"{"top_p": 0.9, "seed": 3}"#),
        ] {
            assert_eq!(completed(given, 0), dict(expected), "{given}");
        }
    }

    #[test]
    fn repeats_have_seeds_of_their_own() {
        let seed = |given: &str, repeat| completed(given, repeat).get_str("seed").and_then(Value::as_i64);
        for repeat in [0, 1, 63] {
            assert_eq!(seed(r#"{"temperature": 0.2}"#, repeat), Some(1234 + repeat as i64));
        }
        assert_eq!(seed(r#"{"temperature": 0}"#, 3), None);
        assert_eq!(seed(r#"{"temperature": 0.2, "seed": 9}"#, 3), Some(9));
    }
}
