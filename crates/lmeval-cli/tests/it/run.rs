//! `lm-eval run`: output, files and exit status.

use serde_json::Value;

use crate::context;

#[test]
fn bare_run_evaluates_the_demo() {
    let output = context().run(&["run"]);
    assert_eq!(output.status, 0, "{output}");
    assert!(
        output
            .stdout
            .starts_with("ngram ({}), gen_kwargs: ({}), limit: None, num_fewshot: None, batch_size: 1\n")
    );
    assert!(output.stdout.contains("|    Tasks    |Version|") || output.stdout.contains("Tasks"), "{output}");
    // What the model can do, and what it cannot.
    for row in [
        "|demo_spelling  |      1|none            |     0|acc        |↑  |0.950|",
        "|demo_order     |      1|none            |     0|acc        |↑  |0.925|",
        "|demo_arithmetic|",
    ] {
        assert!(output.stdout.contains(row), "{row}: {output}");
    }
    assert!(output.stderr.ends_with("then lm-eval view out\n"), "{output}");
    let chosen = context().run(&["run", "--tasks", "demo_spelling"]);
    assert!(chosen.status == 0 && !chosen.stderr.contains("Next"), "{chosen}");
    assert!(output.stdout.contains("|\n† demo_arithmetic, strict-match: 36 of 36 documents"), "{output}");
    assert!(output.stderr.contains("No `--model` given: using `ngram`"), "{output}");
    assert!(!output.stderr.contains('\u{1b}') && !output.stderr.contains('\r'), "{output}");
}

#[test]
fn accepts_older_command_lines_and_spellings() {
    let context = context();
    let words = ["--model", "uniform", "--tasks", "demo_capitals", "--limit", "3"];
    let old = context.run(&words);
    assert_eq!(old.status, 0, "{old}");
    let new = context.run(&["run", "-M", "uniform", "-t", "demo_capitals", "-L3"]);
    assert_eq!(old.stdout, new.stdout);
    let long =
        context.run(&["run", "--model=uniform", "--task", "demo_capitals,", "--lim", "9", "--limit", "3"]);
    assert_eq!(old.stdout, long.stdout);
    assert!(old.stdout.contains("limit: 3.0"), "{old}");
    let dashes = context.run(&[
        "run",
        "--model",
        "uniform",
        "--tasks",
        "demo_capitals",
        "--limit",
        "3",
        "--num-fewshot",
        "0",
        "--batch-size",
        "4",
        "--system-instruction",
        "Be brief.",
        "--bootstrap-iters",
        "0",
    ]);
    assert!(dashes.stdout.contains("num_fewshot: 0, batch_size: 4"), "{dashes}");
}

#[test]
fn groups_have_their_own_table() {
    let output = context().run(&["run", "--model", "uniform", "--tasks", "demo", "--limit", "4"]);
    assert_eq!(output.status, 0, "{output}");
    assert!(output.stdout.contains("|  - demo_capitals") && output.stdout.contains(" Groups "), "{output}");
    let output = context().run(&["run", "--tasks", "demo", "--limit", "4", "--format", "latex", "-q"]);
    assert!(output.stdout.contains("\\begin{array}"), "{output}");
    assert_eq!(output.stderr, "");
}

#[test]
fn writes_files_to_the_output_path() {
    let context = context();
    let words = [
        "run",
        "--model",
        "uniform",
        "--model_args",
        "model=org/small:1",
        "--tasks",
        "demo_capitals",
        "-L",
        "2",
    ];
    let output = context.run(&[&words[..], &["--output_path", "out", "--log_samples"]].concat());
    assert_eq!(output.status, 0, "{output}");
    assert!(output.stderr.contains("Results saved to out/org__small__1/results_"), "{output}");
    let names = |folder: &str| {
        let mut names: Vec<String> = fs_err::read_dir(context.work().join(folder))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    };
    let found = names("out/org__small__1");
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(found[0].starts_with("eval_2") && found[0].contains(".lock"), "{found:?}");
    assert!(found[2].starts_with("samples_demo_capitals_2") && found[2].contains(".jsonl"), "{found:?}");
    let output = context.run(&[&words[..], &["--output_path", "other/mine.json"]].concat());
    assert_eq!(output.status, 0, "{output}");
    assert!(names("other")[0].starts_with("mine_2"), "{:?}", names("other"));
    let text = fs_err::read_to_string(context.work().join("other").join(&names("other")[0])).unwrap();
    let results: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(results["model_name"], "org/small:1");
    assert_eq!(results["config"]["limit"], 2.0);
    assert_eq!(results["configs"]["demo_capitals"]["metadata"]["model"], "org/small:1");
    assert_eq!(results["task_hashes"], serde_json::json!({}));
    context.write("file", "");
    let output = context.run(&[&words[..], &["--output_path", "file/out"]].concat());
    assert_eq!(output.status, 1, "{output}");
    assert!(output.stderr.contains("hint: "), "{output}");
}

#[test]
fn shows_prompts_and_results() {
    let words = ["run", "--model", "uniform", "--tasks", "demo_capitals", "-L", "2"];
    let output = context().run(&[&words[..], &["--write_out"]].concat());
    assert!(output.stderr.contains("Task `demo_capitals`, document 0:\n--- prompt\n"), "{output}");
    let output = context().run(&[&words[..], &["--show_config"]].concat());
    let (object, table) = output.stdout.split_once("\n}\n").unwrap();
    let object: Value = serde_json::from_str(&format!("{object}\n}}")).unwrap();
    assert_eq!(object["config"]["model"], "uniform");
    assert!(table.starts_with("uniform ("), "{output}");
    let output = context().run(&[&words[..], &["--format", "json", "--progress", "json"]].concat());
    let object: Value = serde_json::from_str(&output.stdout).unwrap();
    assert!(object["results"]["demo_capitals"]["acc,none"].is_f64());
    let events: Vec<Value> = output.stderr.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(events.iter().any(|event| event["event"] == "message"), "{output}");
    let last = events.iter().rfind(|event| event["event"] == "progress").unwrap();
    assert_eq!(last["done"], last["total"]);
    assert!(last["total_is_final"].as_bool().unwrap());
    let output = context().run(&["run", "--tasks", "nothing", "--progress", "json"]);
    assert_eq!(output.status, 1, "{output}");
    let events: Vec<Value> = output.stderr.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (last, others) = events.split_last().unwrap();
    assert!(others.iter().all(|event| event["event"] == "message"), "{output}");
    assert_eq!(others.last().unwrap()["level"], "error", "{output}");
    assert_eq!(
        (&last["event"], &last["status"], &last["exit_status"]),
        (&"finished".into(), &"failure".into(), &1.into())
    );
}

#[test]
fn last_event_has_status_and_files() {
    let context = context();
    let words =
        ["run", "--model", "uniform", "--tasks", "demo_capitals,demo_prose", "-L", "2", "--progress", "json"];
    let events = |more: &[&str]| -> Vec<Value> {
        let output = context.run(&[&words[..], more].concat());
        assert_eq!(output.status, 0, "{output}");
        output.stderr.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let found = events(&["--output_path", "out", "--log_samples"]);
    let last = found.last().unwrap();
    assert_eq!(
        (&last["event"], &last["status"], &last["exit_status"]),
        (&"finished".into(), &"success".into(), &0.into())
    );
    let results = last["results"].as_str().unwrap();
    assert!(results.starts_with("out/uniform/results_") && context.work().join(results).is_file(), "{last}");
    for task in ["demo_capitals", "demo_prose"] {
        assert!(context.work().join(last["samples"][task].as_str().unwrap()).is_file(), "{last}");
    }
    assert_eq!(last["journal"], Value::Null);
    let levels: Vec<&Value> =
        found.iter().filter(|event| event["event"] == "message").map(|event| &event["level"]).collect();
    assert!(!levels.is_empty() && levels.iter().all(|level| **level == "info"), "{found:?}");
    let found = events(&[]);
    assert_eq!(found.last().unwrap()["results"], Value::Null);
    assert_eq!(found.last().unwrap()["samples"], serde_json::json!({}));
}

#[test]
fn predict_only_writes_records_without_scores() {
    let context = context();
    let words = ["run", "--model", "ngram", "--tasks", "demo_all", "--predict_only", "-L", "2"];
    let output = context.run(&words);
    assert_eq!(output.status, 1);
    assert!(output.stderr.contains("--output_path"), "{output}");
    let output = context.run(&[&words[..], &["--output_path", "out"]].concat());
    assert_eq!(output.status, 0, "{output}");
    assert!(output.stdout.contains("|bypass|") && output.stdout.contains("999"), "{output}");
}

#[test]
fn selects_documents() {
    let context = context();
    context.write("chosen.json", "{\"demo_capitals\": [0, 7]}");
    for samples in ["chosen.json", "{\"demo_capitals\": [7, 0]}"] {
        let words = [
            "run",
            "--model",
            "uniform",
            "--tasks",
            "demo_capitals",
            "--samples",
            samples,
            "--format",
            "json",
        ];
        let output = context.run(&words);
        assert_eq!(output.status, 0, "{output}");
        let object: Value = serde_json::from_str(&output.stdout).unwrap();
        assert_eq!(object["n-samples"]["demo_capitals"]["effective"], 2);
    }
}

#[test]
fn loads_tasks_from_folders_and_files() {
    let context = context();
    let task = |name: &str| {
        format!(
            "task: {name}\ndataset_path: json\ndataset_kwargs: {{data_files: {{test: d.jsonl}}}}\ntest_split: test\n\
             output_type: multiple_choice\ndoc_to_text: \"{{{{q}}}}\"\ndoc_to_choice: [a, b]\ndoc_to_target: 0\n"
        )
    };
    context.write("d.jsonl", "{\"q\": \"1?\"}\n{\"q\": \"2?\"}\n");
    context.write("tasks/one.yaml", task("one"));
    context.write("tasks/two.yaml", task("two"));
    for (words, expected) in [
        (&["--tasks", "tasks"][..], &["one", "two"][..]),
        (&["--tasks", "tasks/t*.yaml"], &["two"]),
        (&["--tasks", "tasks/one.yaml", "tasks/two.yaml"], &["one", "two"]),
        (
            &["--include_path", "tasks", "--library", "none", "--tasks", "one", "--tasks", "two"],
            &["one", "two"],
        ),
    ] {
        let output = context.run(&[&["run", "--model", "uniform"], words].concat());
        assert_eq!(output.status, 0, "{output}");
        for task in expected {
            assert!(output.stdout.contains(&format!("|{task}")), "{task}: {output}");
        }
    }
}

#[test]
fn model_folders_are_not_hidden() {
    let context = context();
    let run = |more: &[&str]| {
        let words = ["run", "--tasks", "demo_capitals", "-L", "2", "--output_path", "out"];
        let output = context.run(&[&words[..], more].concat());
        assert_eq!(output.status, 0, "{output}");
        output.stderr
    };
    assert!(run(&["--model", "ngram"]).contains("Results saved to out/ngram/results_"));
    assert!(run(&["--model", "dummy", "--model_args", "pretrained=./x"]).contains("to out/x/results_"));
    assert!(run(&["--model", "dummy", "--model_args", "pretrained=../y/z"]).contains("to out/y__z/results_"));
}

#[test]
fn rejects_tasks_with_the_same_samples_file() {
    let context = context();
    let rest = "output_type: generate_until\ndoc_to_text: '{{q}}'\ndoc_to_target: a\ntest_split: test\n\
                dataset_path: json\ndataset_kwargs: {data_files: {test: data.jsonl}}\n";
    context.write("data.jsonl", "{\"q\": \"Q\"}\n");
    context.write("tasks/dashes.yaml", format!("task: g--t\n{rest}"));
    context.write("tasks/member.yaml", format!("task: t\n{rest}"));
    context.write("tasks/group.yaml", "group: g\ntask: [t]\n");
    let words =
        ["run", "--model", "uniform", "--include_path", "tasks", "--tasks", "g,g--t", "--output_path", "out"];
    let output = context.run(&words);
    assert_eq!(output.status, 0, "{output}");
    let output = context.run(&[&words[..], &["--log_samples"]].concat());
    assert_ne!(output.status, 0, "{output}");
    assert!(output.stderr.contains("`g::t` and `g--t` would write the same samples file"), "{output}");
}

#[test]
fn file_names_have_no_colon() {
    let context = context();
    let words =
        ["run", "--model", "uniform", "--tasks", "demo", "-L", "2", "--output_path", "out", "--log_samples"];
    assert_eq!(context.run(&words).status, 0);
    let folder = context.work().join("out/uniform");
    let names: Vec<String> = fs_err::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    assert!(names.iter().any(|name| name.starts_with("samples_demo_choice--demo_capitals_")), "{names:?}");
    assert!(names.iter().all(|name| !name.contains(':')), "{names:?}");
    // Such files can be replayed, and so can those with the names of earlier versions.
    let replay = |path: &str| {
        let model_args = format!("path={path}");
        let output = context.run(&[
            "run",
            "--model",
            "replay",
            "--model_args",
            &model_args,
            "--tasks",
            "demo",
            "-L",
            "2",
        ]);
        assert_eq!(output.status, 0, "{output}");
    };
    replay("out/uniform");
    fs_err::create_dir_all(context.work().join("old")).unwrap();
    for name in names.iter().filter(|name| name.starts_with("samples_")) {
        fs_err::copy(folder.join(name), context.work().join("old").join(name.replace("--", "::"))).unwrap();
    }
    replay("old");
}

#[test]
fn results_record_the_device() {
    let context = context();
    let device = |more: &[&str]| {
        let words = ["run", "--tasks", "demo_capitals", "-L", "2", "--format", "json", "-q"];
        let output = context.run(&[&words[..], more].concat());
        assert_eq!(output.status, 0, "{output}");
        serde_json::from_str::<Value>(&output.stdout).unwrap()["config"]["device"].clone()
    };
    let model =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../lmeval-candle/tests/fixtures/llama");
    let model_args = format!("pretrained={},max_length=600", model.display());
    assert_eq!(device(&["--model", "hf", "--model_args", &model_args]), "cpu");
    assert_eq!(device(&["--model", "uniform"]), "cpu");
    // The 0.4 line records the requested device.
    assert_eq!(device(&["--model", "uniform", "--compat", "0.4"]), "cuda:0");
}
