//! Request bodies of the 0.5 dialect, and model metadata.

use std::sync::Arc;

use lmeval_core::{
    ChatMessage, Context, Diagnose as _, Dialect, Finish, Model, ModelErrorKind, RequestType, Response, Role,
    Usage,
};
use lmeval_models::{ModelSettings, create};
use lmeval_pycompat::{Dict, Value, json};
use lmeval_tokenizers::HuggingFaceTokenizer;

use crate::api_support::{TOKENIZER, ask, bodies, dict, generate, model, pair, rolling, server, value};

/// Log-probabilities of a tokenized prompt: minus the token's id; the last token is the generated one.
fn echo(prompt: &Value) -> String {
    let tokens: Vec<i64> = prompt.as_list().unwrap().iter().map(|token| token.as_i64().unwrap()).collect();
    let number = |index: usize| if index == 0 { "null".into() } else { format!("-{}.5", tokens[index]) };
    let mut numbers: Vec<String> = (0..tokens.len()).map(number).collect();
    numbers.push("-0.25".into());
    let top = numbers.iter().map(|number| format!("{{\"a\": {number}, \"b\": -9999}}"));
    let top: Vec<String> = top.map(|top| if top.contains("null") { "null".into() } else { top }).collect();
    format!(
        r#""logprobs": {{"token_logprobs": [{}], "top_logprobs": [{}]}}"#,
        numbers.join(", "),
        top.join(", ")
    )
}

fn completions(_: &str, body: &str) -> (u16, String) {
    if body.is_empty() {
        return (200, r#"{"data": [{"id": "m", "root": "/models/m"}]}"#.into());
    }
    let body = dict(body);
    let prompts = match body.get_str("prompt").unwrap() {
        Value::List(list) => list.to_vec(),
        other => vec![other.clone()],
    };
    if prompts.iter().any(|prompt| json::dumps(prompt, &json::Options::default()).unwrap().contains("refuse"))
    {
        return (400, "refused".into());
    }
    let choices = prompts.iter().enumerate().map(|(index, prompt)| match body.get_str("echo") {
        Some(_) => format!(r#"{{"index": {index}, {}}}"#, echo(prompt)),
        None => format!(r#"{{"index": {index}, "text": "text {index}", "finish_reason": "length"}}"#),
    });
    let choices: Vec<String> = choices.rev().collect();
    (
        200,
        format!(
            r#"{{"choices": [{}], "usage": {{"prompt_tokens": 9, "completion_tokens": 4}}}}"#,
            choices.join(", ")
        ),
    )
}

fn tokens(text: &str) -> Vec<u32> {
    HuggingFaceTokenizer::from_folder(TOKENIZER.as_ref()).unwrap().encode(text, false).unwrap()
}

fn local(root: &str, more: &str, batch_size: i64) -> Arc<dyn Model> {
    let args = format!(
        r#"{{"model": "m", "base_url": "{root}/v1/completions", "tokenizer_backend": "huggingface", "tokenizer": "{TOKENIZER}"{more}}}"#
    );
    model("local-completions", &args, batch_size, Dialect::V05).unwrap()
}

fn score(response: &Response) -> (f64, bool) {
    match response {
        Response::Loglikelihood { logprob, is_greedy } => (*logprob, *is_greedy),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn scores_pairs() {
    let (root, log) = server(completions).await;
    let model = local(&root, "", 1);
    for (context, continuation, before, scored) in [
        ("Hello \n ", "x", "Hello", " \n x"),
        ("", "Once", "<s>", "Once"),
        // A whitespace-only context is treated as empty.
        (" \n", "Once", "<s>", " \nOnce"),
        ("", "<s>Once", "<s>", "Once"),
    ] {
        let answer = ask(&model, pair(context, continuation)).await.unwrap();
        let (before, all) = (tokens(before), tokens(&format!("{before}{scored}")));
        let expected: f64 = all[before.len()..].iter().map(|&token| -f64::from(token) - 0.5).sum();
        assert_eq!(score(&answer.response), (expected, true), "{context:?} {continuation:?}");
        let prompt = format!(
            r#"{{"model": "m", "prompt": [{all:?}], "temperature": 0, "max_tokens": 1, "logprobs": 1, "seed": 1234, "echo": true}}"#
        );
        assert_eq!(bodies(&log).last(), Some(&prompt));
    }
    let error = ask(&model, pair("", "")).await.unwrap_err();
    assert_eq!(error.kind(), ModelErrorKind::Request);
    let empty = ask(&model, pair("Hello", "")).await.unwrap();
    assert_eq!(score(&empty.response), (0.0, true));
}

#[tokio::test(flavor = "multi_thread")]
async fn truncates_long_prompts_from_the_left() {
    let (root, log) = server(completions).await;
    let model = local(&root, r#", "max_length": 8"#, 1);
    let text = "zero one two three four five six seven eight nine ten";
    let all = tokens(text);
    ask(&model, pair(text, " zero")).await.unwrap();
    let whole = tokens(&format!("{text} zero"));
    let sent = format!("\"prompt\": [{:?}]", &whole[whole.len() - 7..]);
    assert!(bodies(&log)[0].contains(&sent), "{} {sent}", bodies(&log)[0]);
    let error = ask(&model, pair("a", text)).await.unwrap_err();
    assert!(error.to_string().contains("leaves no room for its context"), "{error}");
    ask(&model, generate(text.into(), r#"{"max_gen_toks": 4}"#)).await.unwrap();
    let sent = format!("\"prompt\": [{:?}]", &all[all.len() - 3..]);
    assert!(bodies(&log)[1].contains(&sent), "{}", bodies(&log)[1]);
    let count = bodies(&log).len();
    for limit in [7, 9] {
        let error =
            ask(&model, generate(text.into(), &format!(r#"{{"max_gen_toks": {limit}}}"#))).await.unwrap_err();
        assert!(error.to_string().contains("leaves no room for a prompt"), "{error}");
        assert!(error.hints()[0].contains("max_length"));
    }
    assert_eq!(bodies(&log).len(), count);
    let rolled = ask(&model, rolling(text)).await.unwrap();
    let expected: f64 = all.iter().map(|&token| -f64::from(token) - 0.5).sum();
    assert_eq!(rolled.response, Response::Rolling { logprob: expected });
    assert_eq!(ask(&model, rolling("")).await.unwrap().response, Response::Rolling { logprob: 0.0 });
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_mixed_requests() {
    let (root, log) = server(completions).await;
    let model = local(&root, r#", "tokenized_requests": false, "eos_string": "<E>""#, 8);
    let answers = model
        .answer(vec![
            generate("a".into(), r#"{"until": ["x"]}"#),
            generate("b".into(), r#"{"until": ["y"]}"#),
            generate("c".into(), r#"{"until": ["x"]}"#),
        ])
        .await;
    let texts: Vec<Value> =
        answers.iter().map(|answer| answer.as_ref().unwrap().response.to_value()).collect();
    assert_eq!(texts, [Value::str("text 0"), Value::str("text 0"), Value::str("text 1")]);
    assert!(answers.iter().all(|answer| answer.as_ref().unwrap().finish == Finish::CutOff));
    assert_eq!(answers[0].as_ref().unwrap().usage, Usage { prompt_tokens: 5, completion_tokens: 2 });
    assert_eq!(answers[2].as_ref().unwrap().usage, Usage { prompt_tokens: 4, completion_tokens: 2 });
    assert_eq!(
        bodies(&log),
        [
            r#"{"prompt": ["a", "c"], "model": "m", "max_tokens": 256, "temperature": 0, "stop": ["x", "<E>"], "seed": 1234}"#,
            r#"{"prompt": ["b"], "model": "m", "max_tokens": 256, "temperature": 0, "stop": ["y", "<E>"], "seed": 1234}"#,
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn fails_only_the_bad_request_of_a_batch() {
    let (root, _) = server(completions).await;
    let model = local(&root, r#", "tokenized_requests": false"#, 4);
    let requests = ["a", "refuse", "c"].map(|text| generate(text.into(), r#"{"until": ["x"]}"#));
    let answers = model.answer(requests.to_vec()).await;
    assert_eq!(answers[0].as_ref().unwrap().response, Response::Text("text 0".into()));
    assert_eq!(answers[1].as_ref().unwrap_err().kind(), ModelErrorKind::Request);
    assert_eq!(answers[2].as_ref().unwrap().response, Response::Text("text 0".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn identity_and_facts_of_a_model() {
    let (root, _) = server(completions).await;
    let settings = |more: &str| {
        let args = format!(
            r#"{{"model": "{TOKENIZER}", "base_url": "{root}/v1/completions", "tokenizer_backend": "huggingface"{more}}}"#
        );
        ModelSettings::from_args(dict(&args))
    };
    let model = create("local-completions", &settings("")).unwrap();
    let facts =
        json::dumps(&Value::Dict(Arc::new(model.facts().tokenizer)), &json::Options::default()).unwrap();
    assert_eq!(
        facts,
        r#"{"tokenizer_pad_token": ["</s>", "1"], "tokenizer_eos_token": ["</s>", "1"], "tokenizer_bos_token": ["<s>", "0"], "eot_token_id": 1, "max_length": 2047}"#
    );
    let identity = model.identity().await.unwrap().to_string();
    let location = root.trim_start_matches("http://");
    assert!(identity.ends_with(&format!("serves m (/models/m), server {location}")), "{identity}");
    let (other, _) = server(completions).await;
    let elsewhere = format!(
        r#"{{"model": "{TOKENIZER}", "base_url": "{other}/v1/completions", "tokenizer_backend": "huggingface"}}"#
    );
    let elsewhere = create("local-completions", &ModelSettings::from_args(dict(&elsewhere))).unwrap();
    assert_ne!(elsewhere.identity().await.unwrap().to_string(), identity, "the same name at another address");
    let mut auto = settings("");
    auto.batch_size = Some(Value::str("auto:4"));
    assert_eq!(create("local-completions", &auto).unwrap().traits().batch_size, 1);
    auto.batch_size = Some(Value::str("many"));
    assert_eq!(create("local-completions", &auto).unwrap_err().kind(), ModelErrorKind::Configuration);
    let secret = create(
        "local-completions",
        &settings(r#", "header": {"Authorization": "Bearer sk-1"}, "auth_token": "sk-2""#),
    )
    .unwrap();
    let shown = format!("{secret:?} {}", secret.identity().await.unwrap());
    assert!(!shown.contains("Bearer sk-1"), "{shown}");
    assert!(!secret.identity().await.unwrap().to_string().contains("sk-"));
}

#[tokio::test(flavor = "multi_thread")]
async fn chat_bodies_and_answers() {
    let (root, log) = server(|_, _| {
        (
            200,
            r#"{"choices": [{"index": 0, "message": {"content": null}, "finish_reason": "length"}]}"#.into(),
        )
    })
    .await;
    let args = format!(r#"{{"model": "m", "base_url": "{root}/v1/chat/completions"}}"#);
    let model = model("local-chat-completions", &args, 8, Dialect::V05).unwrap();
    assert_eq!(model.traits().batch_size, 1);
    let template = model.chat_template(None).unwrap();
    assert_eq!(template.source.as_deref(), Some(""));
    let messages = vec![ChatMessage::new(Role::System, "S é"), ChatMessage::new(Role::User, "hi")];
    let context = template.template.apply(messages, true).unwrap();
    let answer = ask(&model, generate(context.clone(), r#"{"until": "x", "top_p": 0.5}"#)).await.unwrap();
    assert_eq!((answer.response, answer.finish), (Response::Text("".into()), Finish::CutOff));
    assert_eq!(
        bodies(&log)[0],
        r#"{"messages": [{"role": "system", "content": "S \u00e9", "type": "text"}, {"role": "user", "content": "hi", "type": "text"}], "model": "m", "max_tokens": 256, "temperature": 0, "stop": ["x"], "seed": 1234, "top_p": 0.5}"#
    );
    let mut with_image = generate(context, "{}");
    let mut additional = Dict::new();
    additional.insert("visual", Value::list([Value::Bytes([0x89, b'P', b'N', b'G'].as_slice().into())]));
    with_image.additional_args = Some(Arc::new(additional));
    ask(&model, with_image).await.unwrap();
    let body = value(&bodies(&log)[1]);
    let last =
        body.as_dict().unwrap().get_str("messages").unwrap().as_list().unwrap().last().unwrap().clone();
    assert_eq!(
        json::dumps(&last, &json::Options::default()).unwrap(),
        r#"{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw==", "detail": "auto"}}, {"type": "text", "text": "hi"}]}"#
    );
    let error = ask(&model, generate(Context::from("plain"), "{}")).await.unwrap_err();
    assert_eq!(error.hints(), ["Add `--apply_chat_template`"]);
    for kind in [RequestType::Loglikelihood, RequestType::LoglikelihoodRolling] {
        let error = model.supports(kind).unwrap_err();
        assert!(error.hints()[0].contains("local-completions"), "{error}");
    }
    assert!(model.supports(RequestType::GenerateUntil).is_ok());
}
