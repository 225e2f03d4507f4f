//! A model with known probabilities, served like the servers that `lm-eval` scores with: vLLM with and without
//! `logprob_token_ids`, its token interface with both runners, and SGLang.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};

use super::answers::{Reply, reply};
use super::mix;

/// Tokens per block of the prefix cache.
const BLOCK: usize = 16;
/// The number of token ids: all bytes, after three special tokens.
const VOCABULARY: u64 = 259;
/// Becomes `NaN` in answers, which JSON proper cannot express.
const NAN: f64 = -77_777.25;

/// How a server treats `logprob_token_ids`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenIds {
    /// Returns raw log-probabilities of these tokens.
    Honoured,
    /// Ignores the field, as older versions do.
    Ignored,
    /// Refuses it with status 400.
    Refused,
    /// Normalizes over the requested tokens, and masks the others.
    Masked,
    /// Names tokens by their strings.
    Unnamed,
    /// Omits a requested id in every answer after the first ones.
    MissingAfter(usize),
    /// Sends NaN in every answer after the first ones.
    NanAfter(usize),
    /// Omits a requested id in every tenth answer, for example.
    MissingEvery(usize),
}

/// The interface for tails of prompts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TailRoute {
    /// vLLM without its flag: status 403.
    Forbidden,
    /// vLLM's older runner: one entry per token, invalid ones for tokens from the cache.
    Uninitialized,
    /// vLLM's newer runner: entries for computed tokens only.
    ComputedOnly,
    /// SGLang's `/generate`.
    Sglang,
}

/// The behavior of a scoring server.
#[derive(Clone, Copy, Debug)]
pub struct ScoringBehavior {
    /// `owned_by` in the model list.
    pub owner: &'static str,
    /// How `logprob_token_ids` is treated.
    pub token_ids: TokenIds,
    /// The interface for tails.
    pub tail: TailRoute,
    /// Servers with different numbers serve different models.
    pub weights: u64,
    /// Whether logits are rounded to `bfloat16`.
    pub is_half: bool,
    /// Subtracted from log-probabilities with `echo`, as another batch size may change them.
    pub noise: f64,
    /// Whether the server has chat completions only.
    pub is_chat_only: bool,
}

impl Default for ScoringBehavior {
    fn default() -> Self {
        Self {
            owner: "vllm",
            token_ids: TokenIds::Honoured,
            tail: TailRoute::Forbidden,
            weights: 1,
            is_half: false,
            noise: 0.0,
            is_chat_only: false,
        }
    }
}

/// The calls and tokens of a scoring server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScoringCounts {
    /// Calls with `echo`, or with log-probabilities of the whole prompt.
    pub echo: usize,
    /// Calls with `logprob_token_ids`.
    pub next_token: usize,
    /// Those of them with chat messages.
    pub chat: usize,
    /// Calls of the interface for tails.
    pub tail: usize,
    /// Prompt tokens computed, that is, not taken from the prefix cache.
    pub computed: usize,
}

#[derive(Debug, Default)]
struct State {
    behavior: ScoringBehavior,
    counts: ScoringCounts,
    /// Hashes of cached prefixes, with their salt.
    cache: HashSet<u64>,
}

/// A handle on a scoring server; clones share it.
#[derive(Clone, Debug, Default)]
pub struct ScoringModel {
    state: Arc<Mutex<State>>,
}

impl ScoringModel {
    /// A server with a behavior.
    pub fn new(behavior: ScoringBehavior) -> Self {
        Self { state: Arc::new(Mutex::new(State { behavior, ..State::default() })) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Restarts the server with another behavior and an empty cache.
    pub fn restart(&self, behavior: ScoringBehavior) {
        let mut state = self.lock();
        (state.behavior, state.cache) = (behavior, HashSet::new());
    }

    /// Calls and tokens so far.
    pub fn counts(&self) -> ScoringCounts {
        self.lock().counts
    }

    /// The prompt that the chat template makes of messages.
    pub fn render(messages: &Value) -> String {
        let mut prompt = String::new();
        for message in messages.as_array().into_iter().flatten() {
            let text = |name: &str| message[name].as_str().unwrap_or_default();
            let _ = writeln!(prompt, "[{}] {}", text("role"), text("content"));
        }
        let last = messages.as_array().and_then(|messages| messages.last());
        if last.is_some_and(|last| last["role"] == "assistant") {
            prompt.pop();
            return prompt;
        }
        prompt + "[assistant] "
    }

    /// The true log-probabilities of every token in the place of each one of a continuation.
    pub fn logprobs(&self, context: &str, continuation: &str) -> Vec<Vec<f64>> {
        let tokens: Vec<u64> = super::answers::tokenize(&format!("{context}{continuation}"));
        let begin = tokens.len() - continuation.len();
        let state = self.lock();
        (begin..tokens.len()).map(|index| state.logprobs(&tokens[..index])).collect()
    }

    /// The true log-likelihood of a continuation, and whether it is the most likely one.
    pub fn score(&self, context: &str, continuation: &str) -> (f64, bool) {
        let state = self.lock();
        let tokens: Vec<u64> = super::answers::tokenize(&format!("{context}{continuation}"));
        let begin = tokens.len() - continuation.len();
        let (mut sum, mut is_greedy) = (0.0, true);
        for index in begin..tokens.len() {
            let all = state.logprobs(&tokens[..index]);
            let own = all[tokens[index] as usize];
            sum += own;
            is_greedy &= all.iter().all(|other| *other <= own);
        }
        (sum, is_greedy)
    }

    /// Answers a request, if it is one for this model.
    pub(super) fn answer(&self, path: &str, request: &Value) -> Option<Reply> {
        let mut state = self.lock();
        let answer = match path {
            "/v1/models" => {
                let owner = state.behavior.owner;
                json!({"object": "list", "data": [{"id": "m", "root": "m", "owned_by": owner}]})
            }
            "/v1/completions" if state.behavior.is_chat_only => {
                return Some(reply(404, &json!({"error": {"message": "Not found"}})));
            }
            "/tokenize" if request["messages"].is_array() => {
                json!({"tokens": super::answers::tokenize(&Self::render(&request["messages"]))})
            }
            "/v1/chat/completions" if request["logprob_token_ids"].is_array() => match state.chat(request) {
                Some(answer) => answer,
                None => return Some(reply(400, &json!({"error": {"message": "Unknown field"}}))),
            },
            "/v1/completions" if request["logprob_token_ids"].is_array() => {
                match state.next_tokens(request) {
                    Some(answer) => answer,
                    None => return Some(reply(400, &json!({"error": {"message": "Unknown field"}}))),
                }
            }
            "/v1/completions" if request["echo"] == true => state.echo(request),
            "/inference/v1/generate" => match state.behavior.tail {
                TailRoute::Forbidden | TailRoute::Sglang => {
                    return Some(reply(403, &json!({"error": {"message": "Not enabled"}})));
                }
                route => state.tail(request, route),
            },
            "/generate" if state.behavior.tail == TailRoute::Sglang => state.sglang(request),
            _ => return None,
        };
        let mut reply = reply(200, &answer);
        let text = String::from_utf8_lossy(&reply.body).replace(&NAN.to_string(), "NaN");
        reply.body = text.into_bytes();
        Some(reply)
    }
}

impl State {
    /// The log-probabilities of all next tokens.
    fn logprobs(&self, prefix: &[u64]) -> Vec<f64> {
        let seed = prefix.iter().fold(mix(self.behavior.weights), |hash, id| mix(hash ^ id).wrapping_add(1));
        let logit = |id: u64| {
            let logit = (mix(seed ^ id.wrapping_mul(0x9e37_79b9)) % 100_000) as f64 / 12_500.0 + 1.0;
            if self.behavior.is_half {
                f64::from(f32::from_bits((logit as f32).to_bits() & 0xffff_0000))
            } else {
                logit
            }
        };
        let logits: Vec<f64> = (0..VOCABULARY).map(logit).collect();
        let total = logits.iter().map(|logit| logit.exp()).sum::<f64>().ln();
        // Servers answer in single precision.
        logits.into_iter().map(|logit| f64::from((logit - total) as f32)).collect()
    }

    /// Takes a prompt's prefix from the cache and adds the prompt to it; returns the number of tokens taken.
    fn cached(&mut self, tokens: &[u64], salt: &str, reads: bool) -> usize {
        let salt = super::hash(salt.bytes());
        let mut hash = salt;
        let (mut hit, mut is_hit) = (0, reads);
        for (index, id) in tokens.iter().enumerate() {
            hash = mix(hash ^ id).wrapping_add(3);
            let length = index + 1;
            if length % BLOCK == 0 {
                let is_new = self.cache.insert(hash);
                is_hit &= !is_new;
                // The last token is always computed.
                if is_hit && length < tokens.len() {
                    hit = length;
                }
            }
        }
        self.counts.computed += tokens.len() - hit;
        hit
    }

    fn echo(&mut self, request: &Value) -> Value {
        self.counts.echo += 1;
        let mut choices = Vec::new();
        let mut used = 0;
        for tokens in prompts(&request["prompt"]) {
            self.cached(&tokens, "", false);
            used += tokens.len();
            let (mut own, mut top, mut names) = (vec![Value::Null], vec![Value::Null], Vec::new());
            for index in 1..=tokens.len() {
                let mut all = self.logprobs(&tokens[..index]);
                for logprob in &mut all {
                    *logprob -= self.behavior.noise;
                }
                let best = best(&all);
                let id = tokens.get(index).copied().unwrap_or(best);
                own.push(json!(all[id as usize]));
                let mut listed = most_likely(&all, request["logprobs"].as_u64().unwrap_or(1) as usize);
                listed.push(id);
                top.push(entries(&listed, &all));
            }
            names.extend(tokens.iter().map(|id| json!(name(*id))));
            names.push(json!("token_id:0"));
            let logprobs = json!({"tokens": names, "token_logprobs": own, "top_logprobs": top});
            choices.push(json!({
                "index": choices.len(), "text": "", "logprobs": logprobs, "finish_reason": "length"
            }));
        }
        json!({"choices": choices, "usage": {"prompt_tokens": used, "completion_tokens": 1}})
    }

    /// Answers a request with `logprob_token_ids`; `None` refuses it.
    fn next_tokens(&mut self, request: &Value) -> Option<Value> {
        let call = self.counts.next_token;
        self.counts.next_token += 1;
        let behavior = self.behavior.token_ids;
        if behavior == TokenIds::Refused {
            return None;
        }
        let ids = super::answers::ids(&request["logprob_token_ids"]).unwrap_or_default();
        let (mut choices, mut used, mut cached) = (Vec::new(), 0, 0);
        for tokens in prompts(&request["prompt"]) {
            cached += self.cached(&tokens, "", true);
            used += tokens.len();
            let mut all = self.logprobs(&tokens);
            let best = best(&all);
            let mut shown = vec![best];
            let is_missing = match behavior {
                TokenIds::Ignored => true,
                TokenIds::MissingAfter(after) => call >= after,
                TokenIds::MissingEvery(every) => call % every == every - 1,
                _ => false,
            };
            if !is_missing {
                shown.extend(&ids);
            } else if behavior != TokenIds::Ignored {
                shown.extend(&ids[..ids.len() - 1]);
            }
            if behavior == TokenIds::Masked {
                let total: f64 = ids.iter().map(|id| all[*id as usize].exp()).sum();
                for (id, logprob) in all.iter_mut().enumerate() {
                    let is_allowed = ids.contains(&(id as u64));
                    *logprob = if is_allowed { *logprob - total.ln() } else { -9999.0 };
                }
            }
            if matches!(behavior, TokenIds::NanAfter(after) if call >= after) {
                all[*shown.last().unwrap_or(&best) as usize] = NAN;
            }
            let sampled = shown
                .iter()
                .copied()
                .fold(best, |most, id| if all[id as usize] > all[most as usize] { id } else { most });
            let top = entries(&shown, &all);
            let token = if behavior == TokenIds::Unnamed { json!("word") } else { json!(name(sampled)) };
            choices.push(json!({
                "index": choices.len(), "text": "", "finish_reason": "length",
                "logprobs": {"tokens": [token], "token_logprobs": [all[sampled as usize]], "top_logprobs": [top]}
            }));
        }
        let details = json!({"cached_tokens": cached});
        let usage = json!({"prompt_tokens": used, "completion_tokens": 1, "prompt_tokens_details": details});
        Some(json!({"choices": choices, "usage": usage}))
    }

    /// Answers a chat request with `logprob_token_ids`; `None` refuses it.
    fn chat(&mut self, request: &Value) -> Option<Value> {
        self.counts.chat += 1;
        let prompt = super::answers::tokenize(&ScoringModel::render(&request["messages"]));
        let asked = json!({"prompt": [prompt], "logprob_token_ids": request["logprob_token_ids"]});
        let answer = self.next_tokens(&asked)?;
        let found = &answer["choices"][0]["logprobs"];
        let top = found["top_logprobs"][0].as_object().into_iter().flatten();
        let top: Vec<Value> =
            top.map(|(token, logprob)| json!({"token": token, "logprob": logprob})).collect();
        let first =
            json!({"token": found["tokens"][0], "logprob": found["token_logprobs"][0], "top_logprobs": top});
        let message = json!({"role": "assistant", "content": ""});
        let choice = json!({
            "index": 0, "message": message, "finish_reason": "length", "logprobs": {"content": [first]}
        });
        Some(json!({"choices": [choice], "usage": answer["usage"]}))
    }

    fn tail(&mut self, request: &Value, route: TailRoute) -> Value {
        self.counts.tail += 1;
        let tokens = super::answers::ids(&request["token_ids"]).unwrap_or_default();
        let reads = request["sampling_params"]["skip_reading_prefix_cache"] != true;
        let hit = self.cached(&tokens, request["cache_salt"].as_str().unwrap_or_default(), reads);
        let begin = if route == TailRoute::ComputedOnly { hit } else { 0 };
        let entries: Vec<Value> = (begin..tokens.len())
            .map(|index| {
                if index == begin {
                    return Value::Null;
                }
                let all = self.logprobs(&tokens[..index]);
                let (id, best) = (tokens[index], best(&all));
                // Memory of an earlier request: plausible and wrong.
                let shift = if index < hit { -1.5 } else { 0.0 };
                let logprob = |id: u64| json!({"logprob": all[id as usize] + shift, "rank": 1});
                let (id_name, best_name) = (id.to_string(), best.to_string());
                json!({id_name: logprob(id), best_name: logprob(best)})
            })
            .collect();
        json!({
            "request_id": "r", "prompt_logprobs": entries,
            "choices": [{"index": 0, "token_ids": [0], "finish_reason": "length"}]
        })
    }

    fn sglang(&mut self, request: &Value) -> Value {
        let start = request["logprob_start_len"].as_u64().unwrap_or(0) as usize;
        let answers: Vec<Value> = prompts(&request["input_ids"])
            .into_iter()
            .map(|tokens| {
                if start > 0 {
                    self.counts.tail += 1;
                } else {
                    self.counts.echo += 1;
                }
                let hit = self.cached(&tokens, "", start > 0).min(start);
                let (mut own, mut top) = (vec![json!([null, tokens[start], null])], vec![Value::Null]);
                for index in start + 1..tokens.len() {
                    let all = self.logprobs(&tokens[..index]);
                    let (id, best) = (tokens[index], best(&all));
                    own.push(json!([all[id as usize], id, null]));
                    top.push(json!([[all[best as usize], best, null]]));
                }
                json!({"text": "", "meta_info": {
                    "input_token_logprobs": own, "input_top_logprobs": top, "cached_tokens": hit,
                    "prompt_tokens": tokens.len(), "completion_tokens": 0, "finish_reason": {"type": "length"}
                }})
            })
            .collect();
        Value::from(answers)
    }
}

fn best(all: &[f64]) -> u64 {
    let mut best = 0;
    for (id, logprob) in all.iter().enumerate() {
        if *logprob > all[best] {
            best = id;
        }
    }
    best as u64
}

/// The most likely tokens.
fn most_likely(all: &[f64], count: usize) -> Vec<u64> {
    let mut ids: Vec<u64> = (0..all.len() as u64).collect();
    ids.sort_by(|a, b| all[*b as usize].total_cmp(&all[*a as usize]).then(a.cmp(b)));
    ids.truncate(count);
    ids
}

fn name(id: u64) -> String {
    format!("token_id:{id}")
}

fn entries(ids: &[u64], all: &[f64]) -> Value {
    ids.iter().map(|id| (name(*id), json!(all[*id as usize]))).collect::<serde_json::Map<_, _>>().into()
}

/// One prompt, or several.
fn prompts(value: &Value) -> Vec<Vec<u64>> {
    match super::answers::ids(value) {
        Some(ids) if !ids.is_empty() => vec![ids],
        _ => value.as_array().into_iter().flatten().filter_map(super::answers::ids).collect(),
    }
}
