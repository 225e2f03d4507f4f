//! Scoring runs again whose model renders its own chat template.

use lmeval_testkit::TestContext;
use serde_json::Value;

use crate::context;
use crate::long_run::newest;

/// Renders conversations in ways that no template of the results describes.
const PLUGIN: &str = r#"
from lm_eval.api.model import LM
from lm_eval.api.registry import register_model

class Own(LM):
    source = None

    def apply_chat_template(self, chat_history, add_generation_prompt=True):
        turns = "".join(f"[{m['role'].upper()}] {m['content'].strip()} [END]\n" for m in chat_history)
        return turns + ("[ASSISTANT] " if add_generation_prompt else "")

    def chat_template(self, chat_template=False):
        return self.source

    def loglikelihood(self, requests):
        return [(-float(len(r.args[0]) % 7 + len(r.args[1])), len(r.args[1]) % 2 == 0) for r in requests]

    def loglikelihood_rolling(self, requests):
        return [(-float(len(r.args[-1])), False) for r in requests]

    def generate_until(self, requests):
        return [r.args[0][-40:] for r in requests]

@register_model("own-none")
class OwnNone(Own):
    pass

@register_model("own-empty")
class OwnEmpty(Own):
    source = ""

@register_model("own-words")
class OwnWords(Own):
    source = "my own template {% of %} a kind"

@register_model("own-other")
class OwnOther(Own):
    source = "{% for m in messages %}{{ m.content }}{% endfor %}"
"#;

fn results(context: &TestContext, folder: &str) -> (Value, Vec<String>) {
    let folder = context.work().join(folder);
    let text = fs_err::read_to_string(newest(&folder, "results_")).unwrap();
    let results: Value = serde_json::from_str(&text).unwrap();
    let parent = newest(&folder, "results_").parent().unwrap().to_owned();
    let files = fs_err::read_dir(parent).unwrap().map(|entry| entry.unwrap().path());
    let samples = files.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("samples_"));
    let mut samples: Vec<String> = samples.map(|path| fs_err::read_to_string(path).unwrap()).collect();
    samples.sort();
    (results, samples)
}

fn run(context: &TestContext, model: &str, out: &str, more: &[&str]) {
    let words = ["run", "--model", model, "--plugins", "plugin.py", "--apply_chat_template", "--log_samples"];
    let output = context.run(&[&words[..], &["--limit", "6", "--output_path", out], more].concat());
    assert_eq!(output.status, 0, "{output}");
}

#[test]
fn prompts_of_unknown_templates_are_taken_from_the_run() {
    let context = context();
    context.write("plugin.py", PLUGIN);
    for (number, (model, more)) in [
        ("own-none", &[][..]),
        (
            "own-none",
            &["--num_fewshot", "2", "--fewshot_as_multiturn", "true", "--system_instruction", "Be brief."],
        ),
        ("own-none", &["--num_fewshot", "2", "--fewshot_as_multiturn", "false"]),
        ("own-empty", &["--num_fewshot", "2", "--fewshot_as_multiturn", "false", "--compat", "0.4"]),
        ("own-words", &["--compat", "0.4"]),
        ("own-empty", &[]),
        ("own-words", &["--num_fewshot", "1"]),
        ("own-other", &["--num_fewshot", "1"]),
    ]
    .into_iter()
    .enumerate()
    {
        let (out, again) = (format!("out-{number}"), format!("again-{number}"));
        run(
            &context,
            model,
            &out,
            &[&["--tasks", "demo_capitals,demo_arithmetic,demo_prose"][..], more].concat(),
        );
        let rescored = context.run(&["rescore", &out, "--output_path", &again, "--log_samples"]);
        assert_eq!(rescored.status, 0, "{model} {more:?}: {rescored}");
        let ((before, samples), (after, same)) = (results(&context, &out), results(&context, &again));
        assert_eq!(before["results"], after["results"], "{model} {more:?}");
        assert_eq!(samples, same, "{model} {more:?}");
    }
}

#[test]
fn changed_messages_are_refused() {
    let context = context();
    context.write("plugin.py", PLUGIN);
    let task = |question: &str| {
        context.write(
            "own.yaml",
            format!(
                "task: own\ndataset_path: json\ndataset_kwargs: {{data_files: {{test: own.jsonl}}}}\ntest_split: test\n\
                 output_type: multiple_choice\ndoc_to_text: '{question}'\ndoc_to_choice: [a, b]\ndoc_to_target: 0\n"
            ),
        );
    };
    context.write("own.jsonl", (0..4).map(|q| format!("{{\"q\": \"q{q}\"}}\n")).collect::<Vec<_>>().concat());
    task("Question: {{q}}");
    run(&context, "own-none", "out", &["--tasks", "own.yaml"]);
    let rescore = || context.run(&["rescore", "out", "--tasks", "own.yaml"]);
    let output = rescore();
    assert_eq!(output.status, 0, "{output}");
    // The stored prompt shows this question, but it shows more.
    task("{{q}}");
    let output = rescore();
    assert_eq!(output.status, 1, "{output}");
    assert!(output.stderr.contains("The chat messages of `own` are not those of the stored run"), "{output}");
    task("What: {{q}}");
    let output = rescore();
    assert_eq!(output.status, 1, "{output}");
    assert!(output.stderr.contains("4 documents have no stored answer"), "{output}");
}
