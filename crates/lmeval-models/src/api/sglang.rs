//! `sglang-generate`: SGLang's native API.

use lmeval_core::{Finish, ModelError, ModelErrorKind, RequestType};
use lmeval_pycompat::{Dict, Value, float};

use super::answer::{finish_of, malformed, no_logprobs, objects, refuse_abort, text};
use super::arguments::{Backend, Credentials};
use super::completions::take_limit;
use super::protocol::{Family, Generation, Prompt, Protocol, Rules, Score, Scored};
use crate::http::BadAnswer;

pub(crate) const SGLANG: Backend = Backend {
    name: "sglang-generate",
    base_url: None,
    tokenizer: "huggingface",
    credentials: Credentials::Nobody,
    is_hosted: false,
    make: |_| Ok(Box::new(Sglang { is_launched: false })),
};

/// SGLang's `/generate` protocol.
#[derive(Debug)]
pub(super) struct Sglang {
    /// Whether the run starts the servers.
    pub(super) is_launched: bool,
}

impl Protocol for Sglang {
    fn is_launched(&self) -> bool {
        self.is_launched
    }

    fn needs_model_name(&self) -> bool {
        false
    }

    fn family(&self) -> Family {
        Family::Sglang
    }

    fn supports(&self, kind: RequestType, _: &Rules, tokenized: bool) -> Result<(), ModelError> {
        if kind == RequestType::GenerateUntil || tokenized {
            return Ok(());
        }
        let message = format!("SGLang can answer `{kind}` requests only if prompts are sent as tokens");
        Err(ModelError::new(ModelErrorKind::Unsupported, message)
            .hint("Drop `tokenized_requests=False`, and set `tokenizer=<name or folder>`"))
    }

    fn generation(&self, prompt: &Prompt, mut settings: Dict, rules: &Rules) -> Result<Dict, ModelError> {
        let field = match prompt {
            Prompt::Tokens(_) => "input_ids",
            Prompt::Text(_) | Prompt::Texts(_) => "text",
            Prompt::Messages(_) => {
                let message = "SGLang's native API takes strings or tokens, not chat messages";
                return Err(ModelError::new(ModelErrorKind::Unsupported, message).hint(
                    "Set `tokenizer` to the model's tokenizer, so that its chat template is applied locally",
                ));
            }
        };
        settings.remove_str("do_sample");
        let mut sampling = Dict::new();
        sampling.insert("max_new_tokens", take_limit(&mut settings, rules));
        sampling.insert("temperature", settings.remove_str("temperature").unwrap_or(Value::Int(0)));
        let until = settings.remove_str("until");
        sampling.insert("stop", Value::list(rules.stops(until.as_ref(), self.is_launched)?));
        sampling.update(&settings);
        let mut body = Dict::new();
        body.insert("sampling_params", sampling);
        body.insert(field, prompt.to_value());
        Ok(body)
    }

    fn read_generations(&self, answer: &Value, _: &Rules) -> Result<Vec<Generation>, BadAnswer> {
        let read = |object: &Dict| {
            let reason = object
                .get_str("meta_info")
                .and_then(Value::as_dict)
                .and_then(|info| info.get_str("finish_reason"));
            let kind = reason
                .and_then(|reason| reason.as_dict().map_or(Some(reason), |reason| reason.get_str("type")));
            refuse_abort(kind)?;
            let finish = kind.and_then(Value::as_str).map_or(Finish::Complete, finish_of);
            Ok(Generation::new(text(object, "text")?, finish))
        };
        objects(answer)?.into_iter().map(read).collect()
    }

    fn scoring(&self, prompt: &Prompt, _: &Rules) -> Result<Dict, ModelError> {
        let sampling = Value::dict([("max_new_tokens", Value::Int(1)), ("temperature", Value::Int(0))]);
        let mut body = Dict::new();
        body.insert("input_ids", prompt.to_value());
        body.insert("sampling_params", sampling);
        body.insert("logprob_start_len", 0);
        body.insert("top_logprobs_num", 1);
        body.insert("return_logprob", true);
        Ok(body)
    }

    fn read_scores(&self, answer: &Value, scored: &[Scored], _: &Rules) -> Result<Vec<Score>, BadAnswer> {
        let objects = objects(answer)?;
        if objects.len() != scored.len() {
            let problem =
                format!("the server returned {} answers for {} prompts", objects.len(), scored.len());
            return Err(malformed(problem));
        }
        objects.into_iter().zip(scored).map(|(object, scored)| score(object, scored)).collect()
    }
}

/// Scores one prompt from `[log-probability, token id, …]` of each token and of the most likely ones.
fn score(object: &Dict, scored: &Scored) -> Result<Score, BadAnswer> {
    let info = object.get_str("meta_info").and_then(Value::as_dict);
    let list = |name: &str| info.and_then(|info| info.get_str(name)).and_then(Value::as_list);
    let Some(tokens) = list("input_token_logprobs") else {
        return Err(no_logprobs("`meta_info.input_token_logprobs` is missing"));
    };
    let Some(top) = list("input_top_logprobs") else {
        return Err(no_logprobs("`meta_info.input_top_logprobs` is missing"));
    };
    if tokens.len() != scored.tokens.len() || top.len() < tokens.len() {
        let problem =
            format!("the server returned {} for a prompt of {} tokens", tokens.len(), scored.tokens.len());
        return Err(no_logprobs(&problem));
    }
    let missing = || malformed("A log-probability of the continuation is missing");
    let mut numbers = Vec::with_capacity(tokens.len() - scored.context);
    let mut is_greedy = true;
    for (token, top) in tokens.iter().zip(top).skip(scored.context) {
        let (number, id) = entry(token).ok_or_else(missing)?;
        let (_, best) = top.as_list().and_then(|top| entry(top.first()?)).ok_or_else(missing)?;
        numbers.push(number);
        is_greedy &= id == best;
    }
    Ok((float::sum(numbers), is_greedy))
}

fn entry(entry: &Value) -> Option<(f64, i64)> {
    let (Value::List(parts) | Value::Tuple(parts)) = entry else { return None };
    Some((parts.first()?.to_f64()?, parts.get(1)?.as_i64()?))
}
