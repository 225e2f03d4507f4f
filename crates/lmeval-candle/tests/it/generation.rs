//! Compares answers for many arguments and generation settings with the reference, recorded by `fixtures/record.py`.

use std::path::Path;
use std::sync::Arc;

use lmeval_core::{
    Answer, Arguments, ChatMessage, Context, Dialect, Finish, Model, ModelError, ModelErrorKind,
    ModelSettings, Response, Role,
};
use lmeval_pycompat::{Dict, Value, json};
use lmeval_scoring::registry::Registry;
use serde_json::Value as Json;

use super::model::{answer, damaged, fixture, logprob, pair, request, text};
use super::tokens::recorded;

/// Creates the model of a folder with the arguments of a recorded case, in the dialect of the recorded version.
fn create(folder: &Path, arguments: &Json) -> Result<Arc<dyn Model>, ModelError> {
    let mut args = Dict::new();
    args.insert("pretrained", folder.to_str().unwrap());
    // Recorded in 32 bits. GPUs compute in the data type of the weights unless told otherwise.
    if let Ok(device) = std::env::var("LM_EVAL_TEST_DEVICE") {
        args.insert("device", device);
        args.insert("dtype", "float32");
    } else {
        args.insert("device", "cpu");
    }
    for (name, value) in arguments.as_object().unwrap() {
        let value = match name.as_str() {
            "tokenizer" => {
                let folder = fixture().parent().unwrap().join(value.as_str().unwrap());
                Value::str(folder.to_str().unwrap())
            }
            _ => json::loads(&value.to_string()).unwrap(),
        };
        args.insert(name.as_str(), value);
    }
    let settings = ModelSettings { dialect: Dialect::V04, ..ModelSettings::from_args(args) };
    Registry::default().with_models(lmeval_candle::models()).model("hf", &settings)
}

fn strings(list: &Json) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect()
}

fn shown(answer: &Result<Answer, ModelError>) -> &str {
    match &answer.as_ref().unwrap().response {
        Response::Text(text) => text,
        other => panic!("{other:?}"),
    }
}

/// Generates answers with the same settings.
fn texts(model: &dyn Model, prompts: &[&str], kwargs: &Json) -> Vec<String> {
    let requests = prompts.iter().map(|prompt| text(prompt, &kwargs.to_string())).collect();
    answer(model, requests).iter().map(|answer| shown(answer).to_owned()).collect()
}

/// A copy of the checkpoint with some fields of a file set.
fn with_fields(file: &str, fields: &Json) -> tempfile::TempDir {
    let known = fs_err::read(fixture().join(file)).unwrap_or_else(|_| b"{}".to_vec());
    let mut known: Json = serde_json::from_slice(&known).unwrap();
    for (name, value) in fields.as_object().unwrap() {
        known[name] = value.clone();
    }
    damaged(file, Some(known.to_string().as_bytes()))
}

#[test]
fn generation_settings_match_the_reference() {
    let recorded = recorded("generation.json");
    let prompts = strings(&recorded["prompts"]);
    let plain = create(&fixture(), &serde_json::json!({})).unwrap();
    let own = ["until", "max_gen_toks", "max_length"];
    for case in recorded["cases"].as_array().unwrap() {
        let expected = strings(&case["texts"]);
        let request = &case["request"];
        let Some(file) = case["file"].as_str() else {
            assert_eq!(texts(plain.as_ref(), &prompts, request), expected, "{request}");
            // The same settings in a file.
            let mut fields = request.clone();
            fields.as_object_mut().unwrap().retain(|name, _| !own.contains(&name.as_str()));
            if fields.get("eos_token_id").is_none() {
                fields["eos_token_id"] = 2.into();
            }
            let folder = with_fields("generation_config.json", &fields);
            let model = create(folder.path(), &serde_json::json!({})).unwrap();
            let mut kwargs = request.clone();
            kwargs.as_object_mut().unwrap().retain(|name, _| own.contains(&name.as_str()));
            assert_eq!(texts(model.as_ref(), &prompts, &kwargs), expected, "{fields} in a file");
            continue;
        };
        let folder = with_fields(file, &case["fields"]);
        let model = create(folder.path(), &serde_json::json!({})).unwrap();
        assert_eq!(texts(model.as_ref(), &prompts, request), expected, "{} in `{file}`", case["fields"]);
    }
}

/// Compares log-likelihoods. The reference refuses some requests.
fn compare(found: &[Result<Answer, ModelError>], expected: &Json, tolerance: f64, what: &str) {
    for (index, (found, expected)) in found.iter().zip(expected.as_array().unwrap()).enumerate() {
        let (expected, is_greedy) = match expected {
            Json::Array(pair) => (pair[0].as_f64().unwrap(), pair[1].as_bool()),
            Json::Number(number) => (number.as_f64().unwrap(), None),
            _ => continue,
        };
        let difference = (logprob(found) - expected).abs();
        assert!(difference <= tolerance * expected.abs(), "{what}, {index}: {} {expected}", logprob(found));
        if let Response::Loglikelihood { is_greedy: found, .. } = found.as_ref().unwrap().response {
            assert_eq!(Some(found), is_greedy, "{what}, {index}");
        }
    }
}

#[test]
fn arguments_match_the_reference() {
    let recorded = recorded("answers.json");
    let prompts = strings(&recorded["prompts"]);
    let pairs: Vec<Vec<&str>> = recorded["pairs"].as_array().unwrap().iter().map(strings).collect();
    for case in recorded["cases"].as_array().unwrap() {
        let what = format!("{} {}", case["name"], case["arguments"]);
        let model = create(&fixture(), &case["arguments"]).unwrap();
        // The reference is imprecise in half precision.
        let tolerance = if case["arguments"].get("dtype").is_some() { 1e-2 } else { 1e-5 };
        if !case["pairs"].is_null() {
            let requests = pairs.iter().map(|texts| pair(texts[0], texts[1])).collect();
            compare(&answer(model.as_ref(), requests), &case["pairs"], tolerance, &what);
            let rolling = strings(&recorded["rolling"]);
            let requests = rolling.iter().map(|text| request(Arguments::Rolling { text: (*text).into() }));
            compare(&answer(model.as_ref(), requests.collect()), &case["rolling"], tolerance, &what);
        }
        let settings = recorded["settings"].as_array().unwrap();
        for (expected, kwargs) in case["texts"].as_array().into_iter().flatten().zip(settings) {
            assert_eq!(texts(model.as_ref(), &prompts, kwargs), strings(expected), "{what} {kwargs}");
        }
    }
}

#[test]
fn generation_stops_at_stop_strings() {
    let recorded = recorded("answers.json");
    let prompt = recorded["prompts"][0].as_str().unwrap();
    let model = create(&fixture(), &serde_json::json!({})).unwrap();
    // Within a token and across tokens, long before the limit.
    for kwargs in &recorded["settings"].as_array().unwrap()[1..3] {
        let made = answer(model.as_ref(), vec![text(prompt, &kwargs.to_string())]).remove(0).unwrap();
        assert!((5..20).contains(&made.usage.completion_tokens), "{kwargs}: {:?}", made.usage);
        assert_eq!(made.finish, Finish::Complete);
    }
}

#[test]
fn empty_prompt_becomes_the_prefix_token() {
    let model = create(&fixture(), &serde_json::json!({})).unwrap();
    let kwargs = r#"{"until": [], "max_gen_toks": 5}"#;
    let answers = answer(
        model.as_ref(),
        vec![
            text("", kwargs),
            text("<s>", kwargs),
            text("abc", r#"{"until": [], "max_gen_toks": 0}"#),
            pair("  ", "abc"),
            pair("", "  abc"),
        ],
    );
    assert_eq!(shown(&answers[0]), shown(&answers[1]));
    assert_eq!(shown(&answers[2]), "");
    assert!((logprob(&answers[3]) - logprob(&answers[4])).abs() < 1e-5);
}

#[test]
fn facts_follow_the_arguments() {
    let fact = |arguments: Json, name: &str| {
        let facts = create(&fixture(), &arguments).unwrap().facts();
        let value = facts.config.get_str(name).or_else(|| facts.tokenizer.get_str(name)).cloned();
        value.map(|value| lmeval_pycompat::repr::repr(&value)).unwrap_or_default()
    };
    assert_eq!(fact(serde_json::json!({"revision": "other"}), "model_revision"), "'other'");
    assert_eq!(fact(serde_json::json!({}), "model_revision"), "'main'");
    // The CPU computes in float32, whatever the weights are.
    if std::env::var("LM_EVAL_TEST_DEVICE").is_err() {
        assert_eq!(fact(serde_json::json!({"dtype": "bfloat16"}), "model_dtype"), "'torch.float32'");
    }
    assert_eq!(fact(serde_json::json!({}), "tokenizer_pad_token"), "['</s>', '2']");
    assert_eq!(
        fact(serde_json::json!({"tokenizer": "gpt2"}), "tokenizer_pad_token"),
        "['<|endoftext|>', '0']"
    );
}

#[test]
fn chat_prompts_match_the_reference() {
    let chats = &recorded("answers.json")["chats"];
    let fields = serde_json::json!({"chat_template": chats["template"]});
    let folder = with_fields("tokenizer_config.json", &fields);
    let messages = |count: usize| -> Vec<ChatMessage> {
        let all = chats["conversation"].as_array().unwrap().iter().take(count);
        all.map(|message| {
            let role = match message["role"].as_str().unwrap() {
                "system" => Role::System,
                "user" => Role::User,
                _ => Role::Assistant,
            };
            ChatMessage::new(role, message["content"].as_str().unwrap())
        })
        .collect()
    };
    for case in chats["cases"].as_array().unwrap() {
        let model = create(folder.path(), &case["arguments"]).unwrap();
        let template = model.chat_template(None).unwrap();
        assert_eq!(template.source.as_deref(), chats["template"].as_str());
        let prompts: Vec<Context> = [(2, true), (3, false)]
            .into_iter()
            .map(|(count, opens)| template.template.apply(messages(count), opens).unwrap())
            .collect();
        let prompts: Vec<&str> = prompts.iter().map(|prompt| prompt.as_text().unwrap().as_ref()).collect();
        assert_eq!(prompts, strings(&case["prompts"]), "{}", case["arguments"]);
        let score = answer(model.as_ref(), vec![pair(prompts[0], " Four")]);
        let expected = serde_json::json!([case["score"]]);
        compare(&score, &expected, 1e-5, &case["arguments"].to_string());
    }
    let error = create(&fixture(), &serde_json::json!({})).unwrap().chat_template(None).unwrap_err();
    assert!(error.to_string().contains("has no chat template"), "{error}");
}

#[test]
fn invalid_settings_fail_the_run() {
    let model = create(&fixture(), &serde_json::json!({})).unwrap();
    let kind = |model: &dyn Model, kwargs: &str| {
        let error = answer(model, vec![text("abc", kwargs)]).remove(0).unwrap_err();
        (error.kind(), error.to_string())
    };
    for (kwargs, expected) in [
        (r#"{"num_beams": 4}"#, "`num_beams` is `4`"),
        (r#"{"temprature": 1.0}"#, "Unknown generation setting `temprature`"),
        (r#"{"max_gen_toks": 1e30}"#, "must be a number from 0 to 2147483648"),
        (r#"{"max_gen_toks": 128}"#, "leaves no room"),
        (r#"{"max_gen_toks": 5, "repetition_penalty": 0}"#, "must be a number above 0"),
    ] {
        let (kind, message) = kind(model.as_ref(), kwargs);
        assert_eq!(kind, ModelErrorKind::Configuration, "{message}");
        assert!(message.contains(expected), "{message}");
    }
    // Invalid settings in a file matter only for generation.
    for (fields, expected) in [
        (serde_json::json!({"num_beams": 4}), "The field `num_beams` of `generation_config.json` is `4`"),
        (
            serde_json::json!({"eos_token_id": "x"}),
            "The field `eos_token_id` of `generation_config.json` must be",
        ),
    ] {
        let folder = with_fields("generation_config.json", &fields);
        let model = create(folder.path(), &serde_json::json!({})).unwrap();
        assert!(answer(model.as_ref(), vec![pair("abc", " d")])[0].is_ok());
        let (kind, message) = kind(model.as_ref(), r#"{"max_gen_toks": 5}"#);
        assert_eq!(kind, ModelErrorKind::Configuration);
        assert!(message.contains(expected), "{message}");
    }
}
