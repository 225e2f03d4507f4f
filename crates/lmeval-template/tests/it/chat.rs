//! Chat templates.

use lmeval_pycompat::{Dict, Value, json};
use lmeval_template::ErrorKind;
use lmeval_template::chat::{ChatOptions, ChatTemplate};

use crate::document;

const SOURCE: &str = "{{ bos_token }}{% for message in messages %}\n<|{{ message.role }}|>\n{{ message.content }}<|end|>\n{% endfor %}\n{% if add_generation_prompt %}\n<|assistant|>\n{% endif %}";

fn messages(text: &str) -> Value {
    json::loads(text).expect("messages are JSON")
}

#[test]
fn renders_messages() {
    let template = ChatTemplate::compile(SOURCE).expect("it compiles");
    let messages =
        messages(r#"[{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "So "}]"#);
    let extra = document(r#"{"bos_token": "<s>"}"#);
    let options = ChatOptions { add_generation_prompt: true, ..ChatOptions::default() };
    assert_eq!(
        template.render_chat(&messages, options, &extra).expect("it renders"),
        "<s><|user|>\nHi<|end|>\n<|assistant|>\nSo <|end|>\n<|assistant|>\n"
    );
    let options = ChatOptions { continue_final_message: true, ..ChatOptions::default() };
    assert_eq!(
        template.render_chat(&messages, options, &extra).expect("it renders"),
        "<s><|user|>\nHi<|end|>\n<|assistant|>\nSo "
    );
    let both = ChatOptions { add_generation_prompt: true, continue_final_message: true };
    assert!(template.render_chat(&messages, both, &extra).is_err());
}

#[test]
fn exceptions_and_clocks() {
    let template = ChatTemplate::compile("{{ raise_exception('No ' ~ 'system') }}").expect("it compiles");
    let error = template.render(&Dict::new()).expect_err("the template raises");
    assert_eq!(error.kind(), ErrorKind::Raised);
    assert_eq!(error.message(), "No system");
    let template = ChatTemplate::compile("{{ strftime_now('%Y') }}").expect("it compiles");
    assert!(template.render(&Dict::new()).is_err());
    let template = template.with_clock(|format| format.replace("%Y", "2026"));
    assert_eq!(template.render(&Dict::new()).expect("it renders"), "2026");
}

#[test]
fn reads_templates_of_tokenizer_configurations() {
    let one = r#"{"chat_template": "one"}"#;
    let several =
        r#"{"chat_template": [{"name": "default", "template": "a"}, {"name": "tool_use", "template": "b"}]}"#;
    let source = |text: &str, name: Option<&str>| {
        let template = ChatTemplate::from_tokenizer_config(text, name).expect("the configuration is read");
        template.map(|template| template.source().to_owned())
    };
    assert_eq!(source(one, None).as_deref(), Some("one"));
    assert_eq!(source(several, None).as_deref(), Some("a"));
    assert_eq!(source(several, Some("tool_use")).as_deref(), Some("b"));
    assert_eq!(source("{}", None), None);
    let error =
        ChatTemplate::from_tokenizer_config(several, Some("x")).expect_err("there is no such template");
    assert_eq!(error.hints(), ["The templates are `default`, `tool_use`"]);
    assert!(ChatTemplate::from_tokenizer_config("{", None).is_err());
}
