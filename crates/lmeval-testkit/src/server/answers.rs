//! Answers derived from a hash of the prompt.

use serde_json::{Value, json};

use super::{Script, Scripted, ServerOptions, hash, mix};

/// An HTTP response.
pub(super) struct Reply {
    pub(super) status: u16,
    /// Additional headers, each with a line ending.
    pub(super) headers: String,
    pub(super) body: Vec<u8>,
}

/// The id reported for the model.
const MODEL: &str = "stand-in";

/// Tokens are bytes, after this many special tokens.
const SPECIAL: u64 = 3;

/// Answers a request.
pub(super) fn answer(options: &ServerOptions, path: &str, body: &[u8]) -> Reply {
    let refused = |status, message: &str| reply(status, &json!({"error": {"message": message}}));
    let text = String::from_utf8_lossy(body);
    if let Some(word) = options.faults.refused.iter().find(|word| text.contains(word.as_str())) {
        return refused(400, &format!("The prompt must not contain {word}"));
    }
    let request: Value = serde_json::from_slice(body).unwrap_or(Value::Null);
    if let Some(reply) = options.scoring.as_ref().and_then(|model| model.answer(path, &request)) {
        return reply;
    }
    match path {
        "/v1/models" => reply(200, &json!({"object": "list", "data": [{"id": MODEL, "root": MODEL}]})),
        "/v1/completions" => reply(200, &completions(options, &request)),
        "/v1/chat/completions" => reply(200, &chat(&request)),
        "/tokenizer_info" if options.tokenizer => reply(
            200,
            &json!({"eos_token": "</s>", "bos_token": "<s>", "pad_token": null, "chat_template": null}),
        ),
        "/tokenize" if options.tokenizer => {
            let prompt = request["prompt"].as_str().unwrap_or_default();
            reply(200, &json!({"tokens": tokenize(prompt)}))
        }
        "/detokenize" if options.tokenizer => {
            let tokens: Vec<u64> = ids(&request["tokens"]).unwrap_or_default();
            let bytes: Vec<u8> =
                tokens.iter().filter_map(|id| u8::try_from(id.checked_sub(SPECIAL)?).ok()).collect();
            reply(200, &json!({"prompt": String::from_utf8_lossy(&bytes)}))
        }
        _ => refused(404, "Unknown endpoint"),
    }
}

pub(super) fn reply(status: u16, body: &Value) -> Reply {
    Reply { status, headers: String::new(), body: body.to_string().into_bytes() }
}

/// The reply of a scripted server.
pub(super) fn scripted_reply(script: Script, body: &[u8], before: usize) -> Option<Reply> {
    let request: Value = serde_json::from_slice(body).unwrap_or(Value::Null);
    let scripted = match script(&request, before) {
        Scripted::Unscripted => return None,
        Scripted::Body(status, body) => reply(status, &body),
        Scripted::Status(status) => reply(status, &json!({"error": {"message": "scripted"}})),
        Scripted::Text(text) => reply(
            200,
            &json!({
                "id": "chat", "object": "chat.completion", "model": request["model"],
                "choices": [{
                    "index": 0, "message": {"role": "assistant", "content": text}, "text": text,
                    "finish_reason": "stop"
                }],
                "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
            }),
        ),
    };
    Some(scripted)
}

pub(super) fn tokenize(text: &str) -> Vec<u64> {
    match text {
        "<s>" => vec![1],
        "</s>" => vec![2],
        _ => text.bytes().map(|byte| u64::from(byte) + SPECIAL).collect(),
    }
}

/// A prompt: its tokens as strings, and a hash of each prefix.
struct Prompt {
    tokens: Vec<String>,
    hashes: Vec<u64>,
}

impl Prompt {
    fn of_text(text: &str) -> Self {
        let mut running = 0;
        let (tokens, hashes) = text
            .chars()
            .map(|character| {
                running = mix(running ^ u64::from(character as u32)).wrapping_add(1);
                (character.to_string(), running)
            })
            .unzip();
        Self { tokens, hashes }
    }

    fn of_ids(ids: &[u64]) -> Self {
        let mut running = 0;
        let (tokens, hashes) = ids
            .iter()
            .map(|id| {
                running = mix(running ^ id.wrapping_mul(0x9e37)).wrapping_add(1);
                (format!("token_id:{id}"), running)
            })
            .unzip();
        Self { tokens, hashes }
    }

    fn hash(&self) -> u64 {
        self.hashes.last().copied().unwrap_or(0)
    }
}

pub(super) fn ids(value: &Value) -> Option<Vec<u64>> {
    value.as_array()?.iter().map(Value::as_u64).collect()
}

fn prompts(prompt: &Value) -> Vec<Prompt> {
    match prompt {
        Value::String(text) => vec![Prompt::of_text(text)],
        Value::Array(items) => match ids(prompt) {
            Some(ids) if !items.is_empty() => vec![Prompt::of_ids(&ids)],
            _ => items.iter().flat_map(prompts).collect(),
        },
        _ => Vec::new(),
    }
}

fn completions(options: &ServerOptions, request: &Value) -> Value {
    let echo = request["echo"] == true && !options.ignores_echo;
    let mut used = 0;
    let choices: Vec<Value> = prompts(&request["prompt"])
        .iter()
        .enumerate()
        .map(|(index, prompt)| {
            used += prompt.tokens.len();
            if request["echo"] == true {
                json!({"index": index, "text": "", "logprobs": logprobs(prompt, echo), "finish_reason": "length"})
            } else {
                let (text, finish) = generate(prompt.hash(), request, &["max_tokens", "max_gen_toks"]);
                json!({"index": index, "text": text, "logprobs": null, "finish_reason": finish})
            }
        })
        .collect();
    json!({
        "id": "cmpl", "object": "text_completion", "model": MODEL, "choices": choices,
        "usage": {"prompt_tokens": used, "completion_tokens": 1, "total_tokens": used + 1}
    })
}

/// Log-probabilities of the prompt, if requested, and of one generated token.
fn logprobs(prompt: &Prompt, echo: bool) -> Value {
    let mut tokens = Vec::new();
    let mut offsets = Vec::new();
    let (mut token_logprobs, mut top_logprobs) = (Vec::new(), Vec::new());
    let mut offset = 0;
    if echo {
        for (index, (token, hash)) in prompt.tokens.iter().zip(&prompt.hashes).enumerate() {
            tokens.push(json!(token));
            offsets.push(json!(offset));
            offset += token.chars().count();
            if index == 0 {
                token_logprobs.push(Value::Null);
                top_logprobs.push(Value::Null);
                continue;
            }
            let logprob = -((hash % 40_000) as f64 / 10_000.0) - 0.001;
            token_logprobs.push(json!(logprob));
            // Two of three tokens are the most likely ones.
            top_logprobs.push(if hash.is_multiple_of(3) {
                json!({"another": logprob / 2.0, token.as_str(): logprob})
            } else {
                json!({token.as_str(): logprob})
            });
        }
    }
    tokens.push(json!("!"));
    offsets.push(json!(offset));
    token_logprobs.push(json!(-0.5));
    top_logprobs.push(json!({"!": -0.5}));
    json!({
        "tokens": tokens, "token_logprobs": token_logprobs, "top_logprobs": top_logprobs, "text_offset": offsets
    })
}

fn chat(request: &Value) -> Value {
    let messages = request["messages"].as_array().cloned().unwrap_or_default();
    // The key `type` differs between the release lines of the harness, so it is not hashed.
    let rendered = messages.iter().map(|message| format!("{}:{};", message["role"], message["content"]));
    let (text, finish) = generate(
        hash(rendered.collect::<String>().bytes()),
        request,
        &["max_tokens", "max_completion_tokens"],
    );
    json!({
        "id": "chat", "object": "chat.completion", "model": MODEL,
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish}],
        "usage": {"prompt_tokens": messages.len(), "completion_tokens": 4, "total_tokens": messages.len() + 4}
    })
}

/// Generates a few words, cut at the stop strings and the limit; returns the finish reason too.
fn generate(seed: u64, request: &Value, limits: &[&str]) -> (String, &'static str) {
    const WORDS: [&str; 12] =
        ["The", "answer", "is", "A", "B", "yes", "no", "####", "(C)", "because", "of\n\nQ:", "so."];
    let mut number = mix(seed);
    let mut words: Vec<String> = Vec::new();
    for _ in 0..3 + number % 6 {
        number = mix(number.wrapping_add(1));
        let word = WORDS[number as usize % WORDS.len()];
        words.push(if number.is_multiple_of(5) { (number % 100).to_string() } else { word.to_owned() });
    }
    let limit = limits.iter().find_map(|limit| request[*limit].as_u64()).unwrap_or(256) as usize;
    let finish = if words.len() > limit { "length" } else { "stop" };
    words.truncate(limit);
    let mut text = format!(" {}", words.join(" "));
    let stops = match &request["stop"] {
        Value::String(stop) => vec![stop.clone()],
        Value::Array(stops) => stops.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    };
    for stop in stops.iter().filter(|stop| !stop.is_empty()) {
        if let Some(at) = text.find(stop.as_str()) {
            text.truncate(at);
        }
    }
    (text, finish)
}
