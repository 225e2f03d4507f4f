//! `dummy`.

use std::sync::Arc;

use lmeval_core::{ChatMessage, Context, Diagnose as _, Dialect, DocId, Model, ModelErrorKind, Role};
use lmeval_models::{ModelSettings, create, models};

use crate::local::{ask, dict, generate, loglikelihood, rolling, score, text};

fn dummy(dialect: Dialect, args: &str) -> Arc<dyn Model> {
    let settings = ModelSettings { dialect, random_seed: Some(0), ..ModelSettings::from_args(dict(args)) };
    create("dummy", &settings).unwrap()
}

#[test]
fn answers_in_the_default_dialect() {
    let model = dummy(Dialect::V05, "{}");
    let at = |doc_id| {
        let mut request = loglikelihood("a", "b");
        request.doc_id = DocId(doc_id);
        score(&*model, request)
    };
    assert_eq!(at(3), (-3.0, false));
    assert_eq!(at(4), (-4.0, true));
    assert!(at(0).0.is_sign_negative() && at(0).1);
    assert_eq!(text(&*model, generate("x", "{}")), "lol");
    assert!(model.traits().depends_on_document);
    assert_eq!(model.traits().in_flight, 1);
}

#[test]
fn draws_in_order() {
    let draws = [-0.8444218515250481, -0.7579544029403025, -0.420571580830845];
    let model = dummy(Dialect::V05, "{}");
    assert_eq!([0, 1, 2].map(|_| score(&*model, rolling("x")).0), draws);
    let model = dummy(Dialect::V04, r#"{"pretrained": "anything"}"#);
    assert_eq!(score(&*model, loglikelihood("a", "b")), (draws[0], false));
    assert_eq!(score(&*model, rolling("x")).0, draws[1]);
    assert_eq!(score(&*model, loglikelihood("a", "b")), (draws[2], false));
}

#[test]
fn rejects_whitespace_contexts() {
    let model = dummy(Dialect::V05, "{}");
    let error = ask(&*model, generate(" \n", "{}")).unwrap_err();
    assert_eq!(error.kind(), ModelErrorKind::Request);
    assert_eq!(error.to_string(), "The context of `t`, document 0, generate_until 0 is empty or whitespace");
    assert!(model.chat_template(None).unwrap_err().hints()[0].contains("raw_chats=true"));

    let model = dummy(Dialect::V05, r#"{"raw_chats": true}"#);
    assert_eq!(text(&*model, generate(" \n", "{}")), "lol");
    let messages = vec![ChatMessage::new(Role::User, "x")];
    let context = model.chat_template(None).unwrap().template.apply(messages.clone(), true).unwrap();
    assert_eq!(context, Context::Messages(messages.into()));
}

#[test]
fn creates_models_by_name() {
    for name in ["replay", "ngram", "uniform", "dummy"] {
        assert!(models().iter().any(|entry| entry.name == name));
    }
    let error = create("ngrm", &ModelSettings::default()).unwrap_err();
    assert_eq!(error.hints(), ["Did you mean `ngram`?"]);
    let error = create("replay", &ModelSettings::default()).unwrap_err();
    assert_eq!(error.to_string(), "The model needs the argument `path`");
}
