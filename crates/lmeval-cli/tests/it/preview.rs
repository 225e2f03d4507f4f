//! `lm-eval preview`.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::context;

fn recordings() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/e2e")
}

/// The arguments of a recorded run; `None` if `preview` lacks an option for one of them.
fn arguments(run: &Value, template: &Path) -> Option<Vec<String>> {
    let mut words: Vec<String> = vec!["preview".into()];
    for (key, value) in run.as_object().unwrap() {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        match key.as_str() {
            "tasks" => {
                for task in value.as_array().unwrap() {
                    words.push(task.as_str()?.to_owned());
                }
            }
            "limit" | "num_fewshot" | "system_instruction" | "samples" | "fewshot_as_multiturn" => {
                words.extend([format!("--{key}"), text]);
            }
            "fewshot_random_seed" => words.extend(["--seed".to_owned(), text]),
            "apply_chat_template" => words.extend([
                "--tokenizer".to_owned(),
                template.display().to_string(),
                "--apply_chat_template".to_owned(),
            ]),
            "bootstrap_iters" | "predict_only" => {}
            "gen_kwargs" | "repeats" => return None,
            other => panic!("unknown argument `{other}`"),
        }
    }
    words.extend(["--json", "--library", "none", "--include_path", "tasks"].map(str::to_owned));
    Some(words)
}

#[test]
fn requests_match_the_recordings() {
    let context = context();
    let template = context.write(
        "template.jinja",
        "{% for m in messages %}<{{ m.role }}>{{ m.content }}</{{ m.role }}>{% endfor %}\
         {% if add_generation_prompt %}<assistant>{% endif %}",
    );
    let recorded = fs_err::read(recordings().join("recorded.json")).unwrap();
    let runs: Vec<Value> = serde_json::from_slice(&recorded).unwrap();
    let mut compared = 0;
    for run in &runs {
        let name = run["name"].as_str().unwrap();
        let Some(words) = arguments(&run["run"], &template) else {
            continue;
        };
        let output = Command::new(env!("CARGO_BIN_EXE_lm-eval"))
            .args(&words)
            .current_dir(recordings())
            .output()
            .unwrap();
        if run.get("error").is_some() {
            assert_eq!(output.status.code(), Some(1), "{name}");
            continue;
        }
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        let ours: Vec<Value> = String::from_utf8(output.stdout)
            .unwrap()
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        // A run sends request types one after the other.
        for kind in ["loglikelihood", "loglikelihood_rolling", "generate_until"] {
            let of_kind = |requests: &[Value]| -> Vec<[Value; 4]> {
                requests
                    .iter()
                    .filter(|request| request["type"] == kind)
                    .map(|request| ["task", "doc_id", "idx", "args"].map(|key| request[key].clone()))
                    .collect()
            };
            let (ours, theirs) = (of_kind(&ours), of_kind(run["requests"].as_array().unwrap()));
            for (ours, theirs) in ours.iter().zip(&theirs) {
                assert_eq!(ours, theirs, "{name}");
            }
            assert_eq!(ours.len(), theirs.len(), "{name}: {kind}");
        }
        compared += 1;
    }
    assert!(compared >= 28, "only {compared} runs");
}

#[test]
fn shows_trailing_spaces_and_newlines() {
    let context = context();
    context.write("d.jsonl", "{\"q\": \"Why? \", \"a\": \"So\"}\n");
    context.write(
        "t.yaml",
        "task: t\ndataset_path: json\ndataset_kwargs: {data_files: {test: d.jsonl}}\ntest_split: test\n\
         doc_to_text: \"{{q}}\\n\"\ndoc_to_target: a\ngeneration_kwargs: {until: [x]}\n",
    );
    let output = context.run(&["preview", "t.yaml"]);
    assert_eq!(
        output.stdout,
        "=== t, document 0\n--- context\n|Why? |\n||\n--- generate_until {'until': ['x']}\n--- target 'So'\n\n"
    );
}

#[test]
fn shows_chat_messages_or_the_rendered_template() {
    let context = context();
    let output = context.run(&["preview", "demo_arithmetic", "-f", "1", "--apply_chat_template"]);
    assert_eq!(output.status, 0, "{output}");
    assert!(output.stdout.contains("--- user\n") && output.stdout.contains("--- assistant\n"), "{output}");
    let config = serde_json::json!({
        "bos_token": {"content": "<s>"},
        "chat_template": "{{ bos_token }}{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}",
    });
    context.write("model/tokenizer_config.json", config.to_string());
    let words = ["preview", "demo_arithmetic", "-f", "1", "--tokenizer", "model", "--apply_chat_template"];
    let output = context.run(&words);
    assert!(output.stdout.contains("|<s>[user]Problem:"), "{output}");
}

#[test]
fn explains_mistakes() {
    let context = context();
    let data = "dataset_path: json\ndataset_kwargs: {data_files: {test: d.jsonl}}\ntest_split: test\n";
    context.write("d.jsonl", "{\"question\": \"Why?\", \"answer\": \"So\"}\n");
    context.write(
        "column.yaml",
        format!("task: t\n{data}doc_to_text: \"{{{{questio}}}}\"\ndoc_to_target: answer\n"),
    );
    context.write("split.yaml", format!("task: t\n{}", data.replace("test_split: test", "test_split: dev")));
    context.write("file.yaml", format!("task: t\n{}", data.replace("d.jsonl", "nothing.jsonl")));
    context.write(
        "python.yaml",
        format!("task: t\n{data}process_docs: !function utils.f\ndoc_to_text: question\n"),
    );
    context.write("broken.jsonl", "{\"question\": \"Why?\"}\n{\"question\": }\n");
    context.write("line.yaml", format!("task: t\n{}", data.replace("d.jsonl", "broken.jsonl")));
    for (file, words) in [
        ("column.yaml", vec!["questio", "question", "answer", "document 0"]),
        ("split.yaml", vec!["dev", "test"]),
        ("file.yaml", vec!["nothing.jsonl"]),
        ("python.yaml", vec!["utils.f", "--python"]),
        ("line.yaml", vec!["broken.jsonl:2"]),
    ] {
        let output = context.run(&["preview", file]);
        assert_eq!(output.status, 1, "{file}: {output}");
        for word in words {
            assert!(output.stderr.contains(word), "{file}: {word} is not in {output}");
        }
    }
}

#[test]
fn samples_and_limit_are_mutually_exclusive() {
    let output =
        context().run(&["preview", "demo_capitals", "-n", "2", "--samples", "{\"demo_capitals\": [1]}"]);
    assert_eq!(output.status, 1);
    assert!(output.stderr.contains("mutually exclusive"), "{output}");
    let output =
        context().run(&["preview", "demo_capitals", "--json", "--samples", "{\"demo_capitals\": [5, 3]}"]);
    let ids: Vec<i64> = output
        .stdout
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["doc_id"].as_i64().unwrap())
        .collect();
    assert!(ids.first() == Some(&3) && ids.last() == Some(&5), "{ids:?}");
}
