//! Settings that the files of a model recommend are suggested before a run.

use lmeval_testkit::{Scripted, StandInServer, TestContext};
use serde_json::{Value, json};

use crate::context;
use crate::judge::server;

fn four(_: &Value, _: usize) -> Scripted {
    let message = json!({"role": "assistant", "content": "4"});
    Scripted::Body(200, json!({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}))
}

/// The suggestions of a run with the files of `folder`.
fn suggestions(context: &TestContext, server: &StandInServer, folder: &str, more: &[&str]) -> Vec<String> {
    let url = server.url("/v1/chat/completions");
    let args = format!("model=m,base_url={url},tokenizer={folder}");
    let mut words = vec!["run", "--model", "local-chat-completions", "--model_args", &args];
    words.extend(["--include_path", "tasks", "--tasks", "sum", "--apply_chat_template"]);
    words.extend(more);
    let output = context.command(&words).run();
    assert_eq!(output.status, 0, "{output}");
    let lines = output.stderr.lines().filter_map(|line| line.split_once("Suggestion: "));
    lines.map(|(_, suggestion)| suggestion.to_owned()).collect()
}

fn write_model(context: &TestContext, folder: &str, template: &str, generation: &Value, card: &str) {
    let config = json!({"tokenizer_class": "PreTrainedTokenizerFast", "chat_template": template});
    context.write(format!("{folder}/tokenizer_config.json"), config.to_string());
    context.write(format!("{folder}/generation_config.json"), generation.to_string());
    context.write(format!("{folder}/README.md"), card);
}

#[test]
fn files_of_a_model_suggest_settings() {
    let context = context();
    context.write("rows.jsonl", r#"{"q": "2 + 2"}"#);
    context.write(
        "tasks/sum.yaml",
        "task: sum\ndataset_path: json\ndataset_kwargs: {data_files: {test: rows.jsonl}}\ntest_split: test\n\
         output_type: generate_until\ndoc_to_text: \"{{q}}?\"\ndoc_to_target: '4'\n\
         generation_kwargs: {until: [], max_gen_toks: 20}\nmetric_list: [{metric: exact_match}]\n",
    );
    let opening = "{{ messages[0].content }}<assistant>{% if add_generation_prompt %}<think>\n{% endif %}";
    let sampling = json!({"do_sample": true, "temperature": 0.6, "top_p": 0.95});
    write_model(&context, "thinker", opening, &sampling, "DO **NOT** use greedy decoding.");
    write_model(&context, "plain", "{{ messages[0].content }}", &json!({"temperature": 1.0}), "A model.");
    let server = server(four);
    let found = |folder: &str, more: &[&str]| suggestions(&context, &server, folder, more);

    let both = found("thinker", &[]);
    assert_eq!(both.len(), 2, "{both:#?}");
    assert!(both[0].contains("--gen_kwargs do_sample=true,temperature=0.6,top_p=0.95"), "{both:#?}");
    assert!(both[0].contains("its model card warns of greedy decoding"), "{both:#?}");
    assert!(both[1].contains("begins answers with reasoning"), "{both:#?}");
    assert!(both[1].contains("think_end_token=</think>"), "{both:#?}");
    // Who samples needs only the second.
    let sampled = found("thinker", &["--gen_kwargs", "do_sample=true,temperature=0.6,top_p=0.95"]);
    assert_eq!(sampled, both[1..]);
    // `do_sample` is absent from the settings of a model that does not sample, which recommends nothing.
    assert_eq!(found("plain", &[]), Vec::<String>::new());
}
