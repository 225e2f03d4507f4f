//! Generations that arrive piece by piece: the same text as whole ones, however they are cut and interrupted.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lmeval_core::{Answer, Context, Dialect, Finish, Model, ModelError, Progress, Response, Separator};
use lmeval_tokenizers::HuggingFaceTokenizer;
use serde_json::{Value, json};

use crate::api_support::{self, TOKENIZER, ask, bodies, generate, server};

/// What a server does with a stream: each item is written and flushed by itself.
enum Step {
    Send(Vec<u8>),
    Wait(Duration),
    /// Closes the connection within the answer.
    Break,
}

/// A server that plays a script for each generation; the function gets the number of the call and its body.
fn scripted(
    script: impl Fn(usize, &Value) -> Vec<Step> + Send + Sync + 'static,
) -> (String, Arc<Mutex<Vec<Value>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let asked: Arc<Mutex<Vec<Value>>> = Arc::default();
    let log = Arc::clone(&asked);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            stream.set_nodelay(true).unwrap();
            let Some(body) = read_request(&mut stream) else { continue };
            let Ok(body) = serde_json::from_str::<Value>(&body) else {
                let list = r#"{"data": [{"id": "m", "owned_by": "vllm"}]}"#;
                let _ = write!(
                    stream,
                    "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{list}",
                    list.len()
                );
                continue;
            };
            let number = log.lock().unwrap().len();
            log.lock().unwrap().push(body.clone());
            let steps = script(number, &body);
            std::thread::spawn(move || play(&mut stream, steps));
        }
    });
    (url, asked)
}

fn play(stream: &mut TcpStream, steps: Vec<Step>) {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n";
    if stream.write_all(head.as_bytes()).is_err() {
        return;
    }
    for step in steps {
        let sent = match step {
            Step::Send(bytes) if bytes.is_empty() => Ok(()),
            Step::Send(bytes) => {
                let chunk = [format!("{:x}\r\n", bytes.len()).as_bytes(), &bytes, b"\r\n"].concat();
                stream.write_all(&chunk).and_then(|()| stream.flush())
            }
            Step::Wait(time) => {
                std::thread::sleep(time);
                Ok(())
            }
            Step::Break => return,
        };
        if sent.is_err() {
            return;
        }
    }
    let _ = stream.write_all(b"0\r\n\r\n");
}

/// Reads a request; its body is empty for a GET.
fn read_request(stream: &mut TcpStream) -> Option<String> {
    let (mut received, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        if let Some((head, body)) = String::from_utf8_lossy(&received).split_once("\r\n\r\n") {
            let lines = head.lines().map(str::to_lowercase);
            let length =
                lines.into_iter().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
            if body.len() >= length.unwrap_or(0) {
                return Some(body.to_owned());
            }
        }
        match stream.read(&mut buffer) {
            Ok(count) if count > 0 => received.extend_from_slice(&buffer[..count]),
            _ => return None,
        }
    }
}

fn event(value: &Value) -> String {
    format!("data: {value}\n\n")
}

/// The events of a completion whose tokens are given.
fn completion(tokens: &[&str], reason: &str) -> String {
    let parts = tokens.iter().map(|text| event(&json!({"choices": [{"index": 0, "text": text}]})));
    let end = json!({"choices": [{"index": 0, "text": "", "finish_reason": reason}]});
    let usage = json!({"choices": [], "usage": {"prompt_tokens": 2, "completion_tokens": tokens.len()}});
    parts.chain([event(&end), event(&usage), "data: [DONE]\n\n".to_owned()]).collect()
}

/// The same of a chat message, with reasoning in a field of its own.
fn message(reasoning: &[&str], tokens: &[&str]) -> String {
    let delta = |name: &str, text: &&str| event(&json!({"choices": [{"index": 0, "delta": {name: text}}]}));
    let reasoning = reasoning.iter().map(|text| delta("reasoning", text));
    let parts = reasoning.chain(tokens.iter().map(|text| delta("content", text)));
    let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]});
    parts.chain([event(&end), "data: [DONE]\n\n".to_owned()]).collect()
}

fn send(text: &str) -> Step {
    Step::Send(text.as_bytes().to_vec())
}

fn model(name: &str, url: &str, more: &str) -> Arc<dyn Model> {
    let path = if name.contains("chat") { "chat/completions" } else { "completions" };
    let args = format!(
        r#"{{"model": "m", "base_url": "{url}/v1/{path}", "tokenizer_backend": "none", "tokenized_requests": false{more}}}"#
    );
    api_support::model(name, &args, 1, Dialect::V05).unwrap()
}

fn text_of(answer: &Answer) -> &str {
    match &answer.response {
        Response::Text(text) => text,
        other => panic!("{other:?}"),
    }
}

fn chat(text: &str) -> Context {
    Context::Json(json!([{"role": "user", "content": text}]).to_string().into())
}

#[tokio::test(flavor = "multi_thread")]
async fn streamed_text_equals_whole_text_wherever_it_is_cut() {
    let tokens = ["Hé", "llo ", "\u{1f600}", "€", " wörld\n\n", "data: x"];
    let text = completion(&tokens, "stop");
    let length = text.len();
    let (url, asked) = scripted(move |number, _| {
        // Each call is cut at another byte; the first ones are sent byte by byte and as a whole.
        let bytes = text.as_bytes();
        match number {
            0 => bytes.chunks(1).map(|byte| Step::Send(byte.to_vec())).collect(),
            1 => vec![Step::Send(bytes.to_vec())],
            _ => vec![Step::Send(bytes[..number - 1].to_vec()), Step::Send(bytes[number - 1..].to_vec())],
        }
    });
    let model = model("local-completions", &url, r#", "stream": true"#);
    for _ in 0..=length {
        let answer = ask(&model, generate("Q".into(), r#"{"max_gen_toks": 64, "until": []}"#)).await.unwrap();
        assert_eq!(text_of(&answer), tokens.concat());
        assert_eq!((answer.finish, answer.usage.completion_tokens), (Finish::Complete, 6));
    }
    let asked = asked.lock().unwrap();
    assert_eq!((asked.len(), &asked[0]["stream"]), (length + 1, &json!(true)));
    assert_eq!(asked[0]["stream_options"]["include_usage"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn long_generations_are_streamed_without_being_asked_for() {
    let (url, asked) = scripted(|_, body| match body["stream"].as_bool() {
        Some(true) => vec![send(&completion(&["a"], "stop"))],
        _ => vec![send(r#"{"choices": [{"index": 0, "text": "b", "finish_reason": "length"}]}"#)],
    });
    for (more, limit, text) in [
        ("", 256, "b"),
        ("", 4096, "a"),
        (r#", "stream": false"#, 4096, "b"),
        (r#", "stream": true"#, 16, "a"),
        (r#", "stream": "auto""#, 2047, "b"),
    ] {
        let model = model("local-completions", &url, more);
        let settings = format!(r#"{{"max_gen_toks": {limit}, "until": []}}"#);
        let answer = ask(&model, generate("Q".into(), &settings)).await.unwrap();
        assert_eq!(text_of(&answer), text, "{more} {limit}");
        assert_eq!(model.traits().streams, more != r#", "stream": false"#);
    }
    assert_eq!(asked.lock().unwrap().len(), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn reasoning_is_kept_apart() {
    let (url, _) = scripted(|_, _| vec![send(": ping\n\n"), send(&message(&["h", "m"], &["A", "B"]))]);
    let model = model("local-chat-completions", &url, r#", "stream": true"#);
    let answer = ask(&model, generate(chat("Q"), r#"{"max_gen_toks": 64, "until": []}"#)).await.unwrap();
    let trace = answer.trace.clone().unwrap();
    assert_eq!((text_of(&answer), &*trace.reasoning), ("AB", "hm"));
    assert_eq!(trace.separator, Separator::Field);
}

#[tokio::test(flavor = "multi_thread")]
async fn streamed_messages_are_whole_wherever_they_are_cut() {
    let (thoughts, tokens) = (["Hm… ", "\u{1f914}"], ["Né", "\u{1f600}", "\"€\"\n\n"]);
    let text = message(&thoughts, &tokens);
    let length = text.len();
    let (url, asked) = scripted(move |number, _| {
        let bytes = text.as_bytes();
        match number {
            0 => bytes.chunks(1).map(|byte| Step::Send(byte.to_vec())).collect(),
            _ => vec![Step::Send(bytes[..number].to_vec()), Step::Send(bytes[number..].to_vec())],
        }
    });
    let model = model("local-chat-completions", &url, r#", "stream": true"#);
    for _ in 0..length {
        let answer = ask(&model, generate(chat("Q"), r#"{"max_gen_toks": 64, "until": []}"#)).await.unwrap();
        assert_eq!(text_of(&answer), tokens.concat());
        assert_eq!(&*answer.trace.clone().unwrap().reasoning, thoughts.concat());
        assert_eq!(answer.finish, Finish::Complete);
    }
    assert_eq!(asked.lock().unwrap().len(), length);
}

/// The tokens `w0 `, `w1 `, … of a long answer.
fn words(range: std::ops::Range<usize>) -> Vec<String> {
    range.map(|index| format!("w{index} ")).collect()
}

/// Answers with the words that follow those at the end of the prompt, up to 100, and breaks off after 40 of them.
fn interrupted(number: usize, begun: &str, limit: usize) -> Vec<Step> {
    let first = begun.split_whitespace().filter(|word| word.starts_with('w')).count();
    let words = words(first..(first + limit).min(100));
    let all: Vec<&str> = words.iter().map(String::as_str).collect();
    if number < 2 {
        let text = completion(&all[..all.len().min(40)], "stop");
        let cut = text.rfind(r#"data: {"choices":[{"finish_reason""#).unwrap_or(text.len());
        return vec![send(&text[..cut]), Step::Break];
    }
    vec![send(&completion(&all, "stop"))]
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_completion_continues_from_what_it_has_brought() {
    let (url, asked) = scripted(|number, body| {
        interrupted(number, body["prompt"].as_str().unwrap(), body["max_tokens"].as_u64().unwrap() as usize)
    });
    let model = model("local-completions", &url, r#", "stream": true"#);
    let answer = ask(&model, generate("Q ".into(), r#"{"max_gen_toks": 200, "until": []}"#)).await.unwrap();
    assert_eq!(text_of(&answer), words(0..100).concat());
    assert_eq!(answer.usage.completion_tokens, 100);
    let asked = asked.lock().unwrap();
    let limits: Vec<u64> = asked.iter().map(|body| body["max_tokens"].as_u64().unwrap()).collect();
    assert_eq!(limits, [200, 160, 120]);
    assert_eq!(asked[1]["prompt"], json!(format!("Q {}", words(0..40).concat())));
}

/// The text of a prompt that is a list of tokens, and how many of them were generated.
fn decoded(tokenizer: &HuggingFaceTokenizer, body: &Value) -> (String, usize) {
    let ids = |value: &Value| -> Vec<u32> {
        value.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
    };
    let prompt = ids(&body["prompt"][0]);
    let question = tokenizer.encode("Q ", false).unwrap().len();
    (tokenizer.decode_plain(&prompt).unwrap(), prompt.len() - question)
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_that_the_server_returns_continue_a_generation_exactly() {
    // Tokens that the tokenizer would not choose for this text, and whose text arrives late.
    let tokenizer = Arc::new(HuggingFaceTokenizer::from_folder(Path::new(TOKENIZER)).unwrap());
    let pieces: Vec<String> = (0..90).map(|index| ["a", "b", " ", "é"][index % 4].to_owned()).collect();
    let ids: Vec<u32> = pieces.iter().flat_map(|piece| tokenizer.encode(piece, false).unwrap()).collect();
    let whole = tokenizer.decode_plain(&ids).unwrap();
    assert_ne!(tokenizer.encode(&whole, false).unwrap(), ids);
    let (own, all) = (Arc::clone(&tokenizer), ids.clone());
    let (url, asked) = scripted(move |number, body| {
        let begun = decoded(&own, body).1;
        let until = if number == 0 { 50 } else { all.len() };
        let mut steps = Vec::new();
        let mut sent = own.decode_plain(&all[..begun]).unwrap().len();
        for count in begun + 1..=until {
            // Five tokens late, as while they could begin a stop string.
            let shown = own
                .decode_plain(
                    &all[..if count == all.len() { count } else { count.saturating_sub(5).max(begun) }],
                )
                .unwrap();
            let shown = shown.trim_end_matches('\u{fffd}');
            let text = shown.get(sent..).unwrap_or_default().to_owned();
            sent += text.len();
            let choice = json!({"index": 0, "text": text, "token_ids": [all[count - 1]]});
            steps.push(send(&event(
                &json!({"choices": [choice], "usage": {"completion_tokens": count - begun}}),
            )));
        }
        if number == 0 {
            return steps.into_iter().chain([Step::Break]).collect();
        }
        let end = json!({"choices": [{"index": 0, "text": "", "finish_reason": "stop", "token_ids": []}]});
        steps.into_iter().chain([send(&event(&end))]).collect()
    });
    let args = format!(
        r#"{{"model": "m", "base_url": "{url}/v1/completions", "tokenizer": "{TOKENIZER}", "stream": true}}"#
    );
    let model = api_support::model("local-completions", &args, 1, Dialect::V05).unwrap();
    model.first_contact().await.unwrap();
    let answer = ask(&model, generate("Q ".into(), r#"{"max_gen_toks": 200, "until": []}"#)).await.unwrap();
    assert_eq!(text_of(&answer), whole);
    let asked = asked.lock().unwrap();
    assert_eq!(asked[0]["return_token_ids"], true);
    assert_eq!(decoded(&tokenizer, &asked[1]).1, 50);
    // Every cut is what decoding as many tokens gives.
    let trace = answer.trace.unwrap();
    assert_eq!(trace.tokens.len(), ids.len());
    for count in 0..ids.len() {
        assert_eq!(
            trace.cut(&whole, count, &[]),
            Some(tokenizer.decode_plain(&ids[..count]).unwrap()),
            "{count}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_message_continues_where_the_server_can() {
    let script = |number: usize, body: &Value| {
        let last = body["messages"].as_array().unwrap().last().unwrap();
        let begun = if last["role"] == "assistant" { last["content"].as_str().unwrap() } else { "" };
        let first = begun.split_whitespace().count();
        let words = words(first..60);
        let all: Vec<&str> = words.iter().map(String::as_str).collect();
        match number {
            0 => vec![
                send(message(&[], &all[..40]).split(r#"{"choices":[{"delta":{},"#).next().unwrap()),
                Step::Break,
            ],
            _ => vec![send(&message(&[], &all))],
        }
    };
    // The list of the server says that it is vLLM.
    for (knows, expected) in [(true, json!(true)), (false, Value::Null)] {
        let (url, asked) = scripted(script);
        let model = model("local-chat-completions", &url, r#", "stream": true"#);
        if knows {
            model.first_contact().await.unwrap();
        }
        let answer = ask(&model, generate(chat("Q"), r#"{"max_gen_toks": 200, "until": []}"#)).await.unwrap();
        assert_eq!(text_of(&answer), words(0..60).concat());
        assert_eq!(asked.lock().unwrap()[1]["continue_final_message"], expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stalled_stream_is_noticed_and_a_slow_one_is_not() {
    let (url, asked) = scripted(|number, _| {
        let tokens = vec!["x"; 8];
        let text = completion(&tokens, "stop");
        let pieces = text.as_bytes().chunks(text.len() / 8).map(|piece| Step::Send(piece.to_vec()));
        match number {
            // Hangs after half of the answer.
            0 => pieces.take(4).chain([Step::Wait(Duration::from_secs(30))]).collect(),
            // Takes longer than the limit of a whole answer.
            _ => pieces.flat_map(|piece| [Step::Wait(Duration::from_millis(200)), piece]).collect(),
        }
    });
    let model = model("local-completions", &url, r#", "stream": true, "timeout": 1, "idle_timeout": 0.7"#);
    let answer = ask(&model, generate("Q".into(), r#"{"max_gen_toks": 64, "until": []}"#)).await.unwrap();
    assert_eq!(text_of(&answer), "xxxxxxxx");
    assert_eq!(asked.lock().unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn saved_beginnings_are_continued_and_passed_on() {
    let (url, asked) = scripted(|_, body| {
        interrupted(9, body["prompt"].as_str().unwrap(), body["max_tokens"].as_u64().unwrap() as usize)
    });
    let model = model("local-completions", &url, r#", "stream": true"#);
    let settings = r#"{"max_gen_toks": 200, "until": []}"#;
    let progress = Arc::new(Progress::default());
    let mut request = generate("Q ".into(), settings);
    request.progress = Some(Arc::clone(&progress));
    let whole = ask(&model, request.clone()).await.unwrap();
    // What was passed on is the beginning of the answer.
    let begun = progress.take_new().unwrap();
    assert!(text_of(&whole).starts_with(text_of(&begun)) && text_of(&begun).len() > 32);
    assert_eq!(progress.take_new(), None);
    request.progress = Some(Arc::new(Progress::resuming(Some(begun.clone()))));
    let resumed = ask(&model, request).await.unwrap();
    assert_eq!(text_of(&resumed), text_of(&whole));
    let asked = asked.lock().unwrap();
    assert_eq!(asked[1]["prompt"], json!(format!("Q {}", text_of(&begun))));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_refuses_to_stream_is_asked_without() {
    let (url, log) = server(|_, body| {
        if body.contains("stream_options") {
            return (400, r#"{"error": {"message": "Unknown field stream_options"}}"#.to_owned());
        }
        (200, r#"{"choices": [{"index": 0, "text": "whole", "finish_reason": "stop"}]}"#.to_owned())
    })
    .await;
    let model = model("local-completions", &url, r#", "stream": true"#);
    for _ in 0..3 {
        let answer = ask(&model, generate("Q".into(), r#"{"max_gen_toks": 64, "until": []}"#)).await.unwrap();
        assert_eq!(text_of(&answer), "whole");
    }
    assert_eq!(bodies(&log).len(), 4);
    let warnings = model.stats().unwrap().take_warnings();
    assert!(warnings.len() == 1 && warnings[0].contains("does not stream"), "{warnings:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn broken_streams_fail_with_a_reason() {
    for (steps, problem) in [
        (vec![r#"data: {"error": {"message": "out of memory"}}"#], "out of memory"),
        (vec!["data: {\n\n", "data: [DONE]\n\n"], "not a JSON object"),
        (vec![r#"data: {"choices": [{"index": 0, "text": "a"}]}"#], "before the answer was complete"),
        (vec![r#"data: {"choices": [{"index": 0, "text": "a", "finish_reason": "abort"}]}"#], "abort"),
        (vec![""], "stream"),
    ] {
        let (url, _) = scripted(move |_, _| steps.iter().map(|text| send(text)).collect());
        let model = model("local-completions", &url, r#", "stream": true"#);
        let error: ModelError =
            ask(&model, generate("Q".into(), r#"{"max_gen_toks": 64, "until": []}"#)).await.unwrap_err();
        assert!(error.to_string().contains(problem), "{problem}: {error}");
    }
}

#[test]
fn other_back_ends_refuse_to_stream() {
    let args = r#"{"model": "m", "base_url": "http://127.0.0.1:9/generate", "tokenizer_backend": "none", "stream": true}"#;
    let error = api_support::model("sglang-generate", args, 1, Dialect::V05).unwrap_err();
    assert!(error.to_string().contains("does not stream generations"), "{error}");
}
