//! Malicious files, data and limits: each ends with a message, and no control character reaches the terminal.

use std::fmt::Write as _;
use std::process::Command;
use std::time::{Duration, Instant};

use lmeval_testkit::{Output, ServerOptions, StandInServer};

use crate::context;

/// Colors, a new title, a cleared screen, a bell, a carriage return, and an 8-bit control sequence.
const CONTROLS: &str = "\\x1b[31mred\\x1b]0;title\\x07\\x1b[2J\\r\\u009b2J\\x7f";

fn is_harmless(output: &Output) {
    for text in [&output.stdout, &output.stderr] {
        let raw = text.chars().find(|c| c.is_control() && !matches!(c, '\n' | '\t'));
        assert_eq!(raw, None, "{output:?}");
    }
    assert!(!output.stderr.contains("panicked") && !output.stderr.contains("stack backtrace"), "{output}");
}

#[test]
fn escapes_control_characters() {
    let context = context();
    let document = format!("{{\"question\": \"{CONTROLS}\", \"answer\": \"7\"}}\n").replace("\\x", "\\u00");
    context.write("data.jsonl", document);
    context.write(
        "task.yaml",
        format!(
            "task: hostile\ntask_alias: \"alias {CONTROLS}\"\ndescription: \"{CONTROLS}\"\ndataset_path: json\n\
             dataset_kwargs: {{data_files: data.jsonl}}\ntest_split: train\noutput_type: multiple_choice\n\
             doc_to_text: \"{{{{question}}}}\"\ndoc_to_choice: [\"{CONTROLS}\", b]\ndoc_to_target: 0\n\
             metadata: {{version: \"{CONTROLS}\"}}\n"
        ),
    );
    context.write(
        "tag.yaml",
        format!("task: \"named {CONTROLS}\"\ntag: \"tag {CONTROLS}\"\ninclude: task.yaml\n"),
    );
    for words in [
        &["preview", "task.yaml"][..],
        &["show", "task.yaml"],
        &["ls", "tasks", "--include_path", ".", "--library", "none"],
        &["ls", "tags", "--include_path", ".", "--library", "none"],
        &["run", "--model", "dummy", "--tasks", "task.yaml", "--write_out"],
        &["run", "--model", "dummy", "--tasks", "task.yaml", "--progress", "plain"],
        &["run", "--model", "\u{1b}[31mhf", "--tasks", "task.yaml"],
        &["run", "--tasks", "\u{1b}[31m\u{9b}2J"],
        &["validate", "--tasks", "\u{1b}[31m"],
    ] {
        is_harmless(&context.run(words));
    }
    let shown = context.run(&["preview", "task.yaml"]).stdout;
    assert!(shown.contains("\\x1b[31mred"), "{shown}");
    // JSON is for programs and has its own escapes.
    let json = context.run(&["preview", "task.yaml", "--json"]).stdout;
    let line: serde_json::Value = serde_json::from_str(json.lines().next().unwrap()).unwrap();
    assert!(line["args"][0].as_str().unwrap().contains("\u{1b}[31mred"), "{json}");
}

fn fails(output: &Output, words: &[&str]) {
    assert_eq!(output.status, 1, "{output}");
    is_harmless(output);
    for word in words {
        assert!(output.stderr.contains(word), "{word}: {output}");
    }
}

const GENERATION: &str = "output_type: generate_until\ndataset_path: json\ndataset_kwargs: {data_files: data.jsonl}\n\
                          test_split: train\ndoc_to_text: q\ndoc_to_target: a\nmetric_list: [{metric: exact_match}]\n";

#[test]
fn limits_repeats() {
    let context = context();
    context.write("data.jsonl", "{\"q\": \"a\", \"a\": \"b\"}\n");
    for repeats in ["9223372036854775807", "4000000000", "100001"] {
        context.write("task.yaml", format!("task: often\nrepeats: {repeats}\n{GENERATION}"));
        fails(&context.run(&["run", "--model", "dummy", "--tasks", "task.yaml"]), &["`repeats`", "100000"]);
        context.write("task.yaml", format!("task: often\n{GENERATION}"));
        let words = ["run", "--model", "dummy", "--tasks", "task.yaml", "--repeats", repeats];
        fails(&context.run(&words), &["`repeats`", "100000"]);
    }
}

#[test]
fn limits_groups() {
    let context = context();
    context.write("data.jsonl", "{\"q\": \"a\", \"a\": \"b\"}\n");
    context.write("deep/task.yaml", format!("task: leaf\n{GENERATION}"));
    for level in 0..2000 {
        let next = if level == 1999 { "leaf".to_owned() } else { format!("level{}", level + 1) };
        context.write(format!("deep/level{level}.yaml"), format!("group: level{level}\ntask: [{next}]\n"));
    }
    let words = ["show", "level0", "--include_path", "deep", "--library", "none"];
    fails(&context.run(&words), &["more than 100 deep", "level0"]);
    let mut nested = "leaf".to_owned();
    for level in 0..60 {
        nested = format!("{{group: inner{level}, task: [{nested}]}}");
    }
    context.write("deep/inline.yaml", format!("group: inline\ntask: [{nested}]\n"));
    let output = context.run(&["show", "inline", "--include_path", "deep", "--library", "none"]);
    assert_eq!(output.status, 0, "{output}");

    context.write("wide/task.yaml", format!("task: leaf\n{GENERATION}"));
    for level in 0..40 {
        let mut members = String::new();
        for side in ["a", "b"] {
            let next = if level == 39 { "leaf".to_owned() } else { format!("{side}{}", level + 1) };
            let _ = write!(members, "{next}, ");
        }
        for side in ["a", "b"] {
            context.write(
                format!("wide/{side}{level}.yaml"),
                format!("group: {side}{level}\ntask: [{members}]\n"),
            );
        }
    }
    let words = ["show", "a0", "--include_path", "wide", "--library", "none"];
    fails(&context.run(&words), &["`a0`", "more than 1000 times"]);
}

#[test]
fn limits_filler_text() {
    let context = context();
    context.write("data.jsonl", "{\"q\": \"a\", \"a\": \"b\"}\n");
    for call in ["lipsum(n=10**6)", "lipsum(n=1, min=9223372036854775807)", "lipsum(n=2, max=10**12)"] {
        let task = format!("task: filler\n{GENERATION}")
            .replace("doc_to_text: q", &format!("doc_to_text: \"{{{{{call}}}}}\""));
        context.write("task.yaml", task);
        let start = Instant::now();
        fails(&context.run(&["preview", "task.yaml"]), &["too large"]);
        assert!(start.elapsed() < Duration::from_secs(20), "{call}");
    }
}

/// The tokenizers crate panics when this file is used.
#[test]
fn names_a_panicking_tokenizer() {
    let context = context();
    context.write("data.jsonl", "{\"q\": \"a\", \"a\": \"b\"}\n");
    context.write(
        "task.yaml",
        format!("task: any\n{GENERATION}")
            .replace("generate_until", "loglikelihood")
            .replace("exact_match", "acc"),
    );
    let path = context.write(
        "broken/tokenizer.json",
        r#"{"version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
            "pre_tokenizer": null, "decoder": null,
            "post_processor": {"type": "TemplateProcessing",
                "single": [{"SpecialToken": {"id": "[NONE]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
                "special_tokens": {}},
            "model": {"type": "WordLevel", "vocab": {"a": 0, "[UNK]": 1}, "unk_token": "[UNK]"}}"#,
    );
    let folder = path.parent().unwrap().display().to_string();
    let server = StandInServer::start(ServerOptions::default());
    let model_args =
        format!("model=m,base_url={},tokenizer={folder},add_bos_token=True", server.url("/v1/completions"));
    let words = ["run", "--model", "local-completions", "--tasks", "task.yaml", "--model_args", &model_args];
    let output = context.run(&words);
    fails(&output, &["broken"]);
}

/// `ulimit -f`: the run names the file that became too large.
#[cfg(unix)]
#[test]
fn file_size_limit_ends_with_a_message() {
    let context = context();
    let line = format!(
        "ulimit -f 8; exec {} run --model dummy --tasks demo_all --log_samples --output_path out",
        env!("CARGO_BIN_EXE_lm-eval")
    );
    let home = context.lm_eval_home();
    let output = Command::new("sh")
        .args(["-c", &line])
        .current_dir(context.work())
        .env("LM_EVAL_HOME", home)
        .env_remove("RUST_BACKTRACE")
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{:?} {stderr}", output.status);
    assert!(stderr.contains("error: ") && stderr.contains("too large"), "{stderr}");
}

/// A worker stuck in C code ends with the engine.
#[cfg(target_os = "linux")]
#[test]
fn worker_in_c_code_ends_with_the_engine() {
    let context = context();
    context.write("data.jsonl", "{\"q\": \"a\", \"a\": \"b\"}\n");
    // `PyDLL` holds the interpreter lock, so no Python thread runs meanwhile.
    context.write(
        "utils.py",
        "import ctypes, os\ndef stuck(doc):\n    open('pid.part', 'w').write(str(os.getpid()))\n    \
         os.rename('pid.part', 'pid')\n    ctypes.PyDLL(None).sleep(1000)\n",
    );
    let task =
        format!("task: stuck\n{GENERATION}").replace("doc_to_text: q", "doc_to_text: !function utils.stuck");
    context.write("task.yaml", task);
    let mut engine = context.command(&["run", "--model", "dummy", "--tasks", "task.yaml"]).spawn();
    let file = context.work().join("pid");
    let wait = |what: &str, is_done: &dyn Fn() -> bool| {
        let start = Instant::now();
        while !is_done() {
            assert!(start.elapsed() < Duration::from_mins(1), "{what}");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    wait("the worker does not start", &|| file.exists());
    let worker = fs_err::read_to_string(&file).unwrap();
    engine.kill().unwrap();
    engine.wait().unwrap();
    let environment = format!("/proc/{}/environ", worker.trim());
    // A zombie is still listed, with an empty command line.
    wait("the worker outlives the engine", &|| {
        fs_err::read(&environment).map_or(true, |text| text.is_empty())
    });
}
