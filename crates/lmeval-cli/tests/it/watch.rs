//! `lm-eval watch`: checkpoints are found, evaluated once, and drawn.

use std::path::{Path, PathBuf};

use lmeval_testkit::{Dice, Output, StandInHub, TestContext};
use serde_json::{Value, json};

use crate::context;
use crate::hf;

const DOCUMENTS: usize = 300;

/// A folder with a task of questions with four options. `right` is the index of the right one.
pub(crate) fn write_task(context: &TestContext, documents: usize, right: impl Fn(usize) -> usize) {
    // Options of equal length, so that the weights decide which one is preferred.
    let letters = |number: usize, option: usize| {
        let mut dice = Dice::new((number * 4 + option) as u64);
        String::from_iter([(); 4].map(|()| char::from(b'a' + dice.roll(26) as u8)))
    };
    let row = |number: usize| {
        let options = [0, 1, 2, 3].map(|option| letters(number, option));
        json!({"q": format!("{number} es"), "o": options, "a": right(number)}).to_string()
    };
    context.write("rows.jsonl", (0..documents).map(row).collect::<Vec<_>>().join("\n"));
    context.write(
        "tasks/quiz.yaml",
        "task: quiz\ndataset_path: json\ndataset_kwargs: {data_files: {test: rows.jsonl}}\ntest_split: test\n\
         output_type: multiple_choice\ndoc_to_text: '{{q}}'\ndoc_to_choice: '{{o}}'\ndoc_to_target: '{{a}}'\n\
         metric_list: [{metric: acc}]\n",
    );
}

/// The weights of the small model, moved towards noise: 0 leaves them as they are.
pub(crate) fn weights(towards_noise: f32) -> Vec<u8> {
    let mut content = fs_err::read(hf::model().join("model.safetensors")).unwrap();
    let header = usize::try_from(u64::from_le_bytes(content[..8].try_into().unwrap())).unwrap();
    let mut dice = Dice::new(3);
    for pair in content[8 + header..].chunks_exact_mut(2) {
        // All weights are bfloat16, the upper half of a float.
        let value = f32::from_bits(u32::from(u16::from_le_bytes([pair[0], pair[1]])) << 16);
        let noise = (dice.roll(2001) as f32 - 1000.0) / 1000.0;
        let moved = value + (noise - value) * towards_noise;
        pair.copy_from_slice(&((moved.to_bits() >> 16) as u16).to_le_bytes());
    }
    content
}

/// Writes a checkpoint.
pub(crate) fn write_checkpoint(folder: &Path, towards_noise: f32) {
    fs_err::create_dir_all(folder).unwrap();
    for name in ["config.json", "tokenizer.json", "tokenizer_config.json"] {
        fs_err::copy(hf::model().join(name), folder.join(name)).unwrap();
    }
    fs_err::write(folder.join("model.safetensors"), weights(towards_noise)).unwrap();
}

/// The words of a watcher that looks often.
pub(crate) fn words<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let watch =
        ["watch", "ck", "--tasks", "quiz", "--include_path", "tasks", "--library", "none", "--device", "cpu"];
    [&watch[..], &["--poll", "0.05", "--settle", "0.05"], more].concat()
}

fn watch(context: &TestContext, more: &[&str]) -> Output {
    context.run(&words(more))
}

fn curve(context: &TestContext) -> Value {
    let path = context.work().join("ck/lm-eval/curve.steps.json");
    serde_json::from_str(&fs_err::read_to_string(path).unwrap()).unwrap()
}

/// The steps of a curve.
fn steps(curve: &Value) -> Vec<u64> {
    curve["steps"].as_array().unwrap().iter().map(|step| step["step"].as_u64().unwrap()).collect()
}

/// The results files of a checkpoint.
pub(crate) fn results(context: &TestContext, name: &str) -> Vec<PathBuf> {
    let folder = context.work().join("ck/lm-eval/checkpoints").join(name);
    let entries = fs_err::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path());
    let is_results = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap();
        name.starts_with("results_") && path.extension().is_some_and(|extension| extension == "json")
    };
    entries.filter(is_results).collect()
}

#[test]
fn every_complete_checkpoint_is_evaluated_once_the_oldest_first() {
    let context = context();
    write_task(&context, 8, |_| 0);
    let ck = context.work().join("ck");
    write_checkpoint(&ck.join("checkpoint-20"), 0.2);
    write_checkpoint(&ck.join("iter_0000010/hf"), 0.1);
    write_checkpoint(&ck.join("final"), 0.4);
    fs_err::write(ck.join("final/trainer_state.json"), "{\"global_step\": 30}").unwrap();
    write_checkpoint(&ck.join("nameless"), 0.5);
    write_checkpoint(&ck.join("tmp-checkpoint-40"), 0.5);
    write_checkpoint(&ck.join("checkpoint-50"), 0.5);
    let half = weights(0.5);
    fs_err::write(ck.join("checkpoint-50/model.safetensors"), &half[..half.len() / 2]).unwrap();
    let output = watch(&context, &["--once", "--tensorboard"]);
    assert_eq!(output.status, 0, "{output}");
    let order: Vec<&str> =
        output.stderr.lines().filter_map(|line| line.strip_prefix("Evaluating step ")).collect();
    let order: Vec<&str> =
        order.iter().filter_map(|line| line.split_once(':')).map(|(step, _)| step).collect();
    assert_eq!(order, ["10", "20", "30"], "{output}");
    let found = curve(&context);
    assert_eq!(steps(&found), [10, 20, 30]);
    assert_eq!(found["is_live"], false);
    let waiting: Vec<(&str, &str)> = found["waiting"]
        .as_array()
        .unwrap()
        .iter()
        .map(|waiting| (waiting["checkpoint"].as_str().unwrap(), waiting["reason"].as_str().unwrap()))
        .collect();
    assert_eq!(waiting.len(), 3, "{waiting:?}");
    assert!(waiting[0].0 == "checkpoint-50" && waiting[0].1.contains("bytes"), "{waiting:?}");
    assert!(waiting[1].0 == "nameless" && waiting[1].1.contains("--step-pattern"), "{waiting:?}");
    assert_eq!(waiting[2], ("tmp-checkpoint-40", "it has a temporary name"));
    assert!(output.stderr.contains("Not evaluated: `checkpoint-50`"), "{output}");
    assert!(output.stdout.contains("|quiz |acc ↑"), "{output}");
    // One line per step, in order, with standard errors.
    let lines = fs_err::read_to_string(ck.join("lm-eval/curve.jsonl")).unwrap();
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(
        lines.iter().map(|line| line["global_step"].as_u64().unwrap()).collect::<Vec<_>>(),
        [10, 20, 30]
    );
    assert!(lines.iter().all(|line| line["quiz/acc"].is_f64()
        && line["quiz/acc_stderr"].is_f64()
        && line["quiz/documents"] == 8.0));
    for name in ["curve.svg", "curve.png", "curve.csv"] {
        assert!(ck.join("lm-eval").join(name).is_file(), "{name}");
    }
    let events = fs_err::read_dir(ck.join("lm-eval/tensorboard")).unwrap().map(|entry| entry.unwrap().path());
    let events: Vec<PathBuf> = events.collect();
    assert_eq!(events.len(), 3);
    assert!(
        events.iter().all(|path| String::from_utf8_lossy(&fs_err::read(path).unwrap()).contains("quiz/acc"))
    );
    // Again, nothing is left to do; with a pattern, the nameless one is no longer without a step.
    // The last model under a second name, and a file that nobody reads.
    write_checkpoint(&ck.join("last-30"), 0.4);
    fs_err::write(ck.join("last-30/trainer_state.json"), "{\"global_step\": 30}").unwrap();
    fs_err::write(ck.join("step_70.pt"), "weights").unwrap();
    let again = watch(&context, &["--once"]);
    assert!(again.stderr.contains("`last-30` is `final` under another name"), "{again}");
    assert!(again.stderr.contains("Not evaluated: `step_70.pt`: it is in another format"), "{again}");
    assert!(!again.stderr.contains("Evaluating"), "{again}");
    fs_err::rename(ck.join("nameless"), ck.join("run-a60b")).unwrap();
    let patterned = watch(&context, &["--once", "--step-pattern", r"(?:-|_)a?(\d+)"]);
    assert!(patterned.stderr.contains("Evaluating step 60"), "{patterned}");
    // The half one is completed.
    fs_err::write(ck.join("checkpoint-50/model.safetensors"), half).unwrap();
    let latest = watch(&context, &["--once", "--latest"]);
    assert!(latest.stderr.contains("Evaluating step 50"), "{latest}");
    assert_eq!(steps(&curve(&context)), [10, 20, 30, 50, 60]);
}

#[test]
fn a_curve_towards_noise_falls_where_a_comparison_says() {
    let context = context();
    // The right options are those that the model prefers, so that it knows everything.
    write_task(&context, DOCUMENTS, |_| 0);
    let first = context.run(&[
        "run",
        "--model",
        "hf",
        "--model_args",
        &format!("pretrained={},device=cpu", hf::model().display()),
        "--tasks",
        "quiz",
        "--include_path",
        "tasks",
        "--library",
        "none",
        "--output_path",
        "first",
        "--log_samples",
    ]);
    assert_eq!(first.status, 0, "{first}");
    let preferred: Vec<usize> = hf::answers(&context, "first", "quiz").iter().map(preferred).collect();
    write_task(&context, DOCUMENTS, |number| preferred[number]);
    let ck = context.work().join("ck");
    for index in 0..10 {
        write_checkpoint(&ck.join(format!("checkpoint-{}", index * 100)), (index as f32 / 10.0).powi(4));
    }
    let output = watch(&context, &["--once", "--latest", "--best", "1", "--stop-when", "quiz.acc>=0.999"]);
    assert_eq!(output.status, 0, "{output}");
    // All right in 300 documents is not yet a proof of 0.999.
    assert!(!output.stderr.contains("is reached"), "{output}");
    let found = curve(&context);
    let score = &found["scores"][0];
    let points = score["points"].as_array().unwrap();
    let values: Vec<f64> = points.iter().map(|point| point["value"].as_f64().unwrap()).collect();
    assert_eq!((values[0], score["best"].as_u64()), (1.0, Some(0)), "{values:?}");
    // Four options: noise guesses.
    assert_eq!(score["chance"], 0.25);
    assert!(values[9] < 0.5, "{values:?}");
    // It falls, up to what the documents cannot tell.
    let detectable = score["detectable"].as_f64().unwrap();
    assert!(values.windows(2).all(|pair| pair[1] <= pair[0] + detectable), "{values:?}, {detectable}");
    let rises = |point: &Value| {
        let previous = &point["previous"];
        previous["difference"].as_f64() > Some(0.0) && previous["adjusted"].as_f64() < Some(0.05)
    };
    assert!(!points.iter().any(|point| !point["previous"].is_null() && rises(point)), "{found}");
    // A direct comparison of the best step with all others has the same first drop, and the same p-values but for the choice of the best.
    let path = |index: usize| {
        context
            .work()
            .join("ck/lm-eval")
            .join(found["steps"][index]["results"].as_str().unwrap())
            .display()
            .to_string()
    };
    let runs: Vec<String> = (0..10).map(path).collect();
    let mut words: Vec<&str> = vec!["compare"];
    words.extend(runs.iter().map(String::as_str));
    words.extend(["--format", "json"]);
    let direct = context.run(&words);
    assert_eq!(direct.status, 0, "{direct}");
    let direct: Value = serde_json::from_str(&direct.stdout).unwrap();
    let adjusted: Vec<f64> = direct["comparisons"]
        .as_array()
        .unwrap()
        .iter()
        .map(|comparison| comparison["scores"][0]["p_bh"].as_f64().unwrap())
        .collect();
    let own: Vec<f64> = points[1..].iter().map(|point| point["best"]["adjusted"].as_f64().unwrap()).collect();
    let chosen: Vec<f64> = adjusted.iter().map(|p_value| (p_value * 5.0).min(1.0)).collect();
    assert_eq!(own, chosen);
    let first = |p_values: &[f64]| p_values.iter().position(|p_value| *p_value < 0.05);
    assert_eq!(first(&own), first(&adjusted));
    let drop = adjusted.iter().position(|p_value| *p_value < 0.05).expect("noise is worse");
    assert!(drop > 0, "the first step is hardly changed: {adjusted:?}");
    assert!(output.stdout.contains("—") || output.stdout.contains('*'), "{output}");
    // The link is to the best, and `curve` draws the same from the results.
    let link = fs_err::read_link(ck.join("lm-eval/best/checkpoint-0")).unwrap();
    assert_eq!(link, ck.join("checkpoint-0"));
    let drawn = context.run(&["curve", "ck/lm-eval", "--format", "json"]);
    assert_eq!(drawn.status, 0, "{drawn}");
    let drawn: Value = serde_json::from_str(&drawn.stdout).unwrap();
    assert_eq!(drawn["scores"], found["scores"]);
    let unknown = watch(&context, &["--stop-when", "quiz.f1>=0.9"]);
    assert_eq!(unknown.status, 1, "{unknown}");
    assert!(unknown.stderr.contains("They have `quiz.acc`"), "{unknown}");
    // A goal that the first step reaches with all its documents stops the watcher.
    let stopped = watch(&context, &["--stop-when", "quiz.acc>=0.9"]);
    assert_eq!(stopped.status, 0, "{stopped}");
    assert!(stopped.stderr.contains("`quiz:acc>=0.9` is reached at step 0: 1.0000"), "{stopped}");
}

/// The option with the highest log-likelihood in the answer to a document.
fn preferred(answer: &Value) -> usize {
    let text = |option: &Value| {
        option[0][0].as_str().and_then(|text| text.parse::<f64>().ok()).or_else(|| option[0][0].as_f64())
    };
    let values: Vec<f64> =
        answer.as_array().unwrap().iter().map(|option| text(option).expect("a log-likelihood")).collect();
    (0..values.len()).max_by(|left, right| values[*left].total_cmp(&values[*right])).unwrap()
}

#[test]
fn other_formats_are_converted_and_the_copy_is_removed() {
    let context = context();
    write_task(&context, 4, |_| 0);
    let ck = context.work().join("ck");
    // A folder with a name that shells would take apart.
    let source = ck.join("it's a run/iter_0000007");
    write_checkpoint(&source.join("shards"), 0.1);
    fs_err::rename(source.join("shards/model.safetensors"), source.join("shards/rank0.distcp")).unwrap();
    fs_err::remove_file(source.join("shards/config.json")).unwrap();
    let command = format!(
        "cp {{input}}/shards/* {{output}}/ && mv {{output}}/rank0.distcp {{output}}/model.safetensors && cp {}/config.json {{output}}/ && test {{step}} = 7",
        hf::model().display()
    );
    let waiting = watch(&context, &["--once", "--convert", &command, "--ready", "DONE"]);
    assert!(waiting.stderr.contains("`DONE` is not there yet"), "{waiting}");
    fs_err::write(source.join("DONE"), "").unwrap();
    let output = watch(&context, &["--once", "--convert", &command, "--ready", "DONE"]);
    assert_eq!(output.status, 0, "{output}");
    let folder = "it's a run/iter_0000007";
    assert_eq!(results(&context, folder).len(), 1, "{output}");
    assert!(!context.work().join("ck/lm-eval/checkpoints").join(folder).join("converted").exists());
    assert!(source.join("shards/rank0.distcp").is_file());
    fs_err::create_dir_all(ck.join("iter_8")).unwrap();
    fs_err::write(ck.join("iter_8/x.distcp"), "x").unwrap();
    let failed = watch(&context, &["--once", "--convert", "exit 3"]);
    assert_eq!(failed.status, 1, "{failed}");
    assert!(
        failed.stderr.contains("attempt 2 of 2")
            && failed.stderr.contains("`iter_8`: its evaluation failed 2 times"),
        "{failed}"
    );
}

#[test]
fn gguf_files_are_checkpoints_too() {
    let context = context();
    write_task(&context, 4, |_| 0);
    let file = hf::model().join("../quantised/gguf_mixed.gguf");
    let content = fs_err::read(file).unwrap();
    let ck = context.work().join("ck");
    fs_err::create_dir_all(&ck).unwrap();
    fs_err::write(ck.join("model-step5.gguf"), &content).unwrap();
    fs_err::write(ck.join("model-step6.gguf"), &content[..content.len() - 100]).unwrap();
    context.write("words/tokenizer.json", hf::SMALL_TOKENIZER);
    let output = watch(&context, &["--once", "--model_args", "tokenizer=words"]);
    assert_eq!(output.status, 0, "{output}");
    assert_eq!(steps(&curve(&context)), [5], "{output}");
    assert!(output.stderr.contains("Not evaluated: `model-step6`"), "{output}");
}

#[test]
fn revisions_of_the_hub_are_checkpoints() {
    let context = context();
    write_task(&context, 4, |_| 0);
    let hub = StandInHub::new();
    for (revision, noise) in [("main", 0.0), ("step10", 0.1), ("step20", 0.2), ("other-30", 0.3)] {
        let folder = context.work().join(revision);
        write_checkpoint(&folder, noise);
        hub.add_model_folder("org/model", revision, &folder);
    }
    let watch = |more: &[&str]| {
        let words = [
            "watch",
            "org/model",
            "--revisions",
            "step*",
            "--tasks",
            "quiz",
            "--include_path",
            "tasks",
            "--once",
        ];
        let own = ["--library", "none", "--device", "cpu", "--output_path", "out"];
        let command = context.command(&[&words[..], &own, more].concat());
        command.env("HF_ENDPOINT", hub.endpoint()).env("HF_HOME", context.work().join("home")).run()
    };
    let output = watch(&[]);
    assert_eq!(output.status, 0, "{output}");
    let text = fs_err::read_to_string(context.work().join("out/curve.steps.json")).unwrap();
    let found: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(steps(&found), [10, 20]);
    assert_eq!(found["steps"][1]["checkpoint"], "org/model@step20");
    let again = watch(&[]);
    assert!(!again.stderr.contains("Evaluating"), "{again}");
    // A branch that moves is another checkpoint.
    let moved = context.work().join("moved");
    write_checkpoint(&moved, 0.9);
    hub.add_model_folder("org/model", "step20", &moved);
    let output = watch(&[]);
    assert!(
        output.stderr.contains("`step20` has other weights") && output.stderr.contains("Evaluating step 20"),
        "{output}"
    );
}

#[test]
fn wrong_settings_end_before_the_first_checkpoint() {
    let context = context();
    write_task(&context, 4, |_| 0);
    fs_err::create_dir_all(context.work().join("ck")).unwrap();
    for (more, message) in [
        (&["--stop-when", "quiz>=1"][..], "`quiz>=1` is not a goal"),
        (&["--step-pattern", "x"], "it has no group"),
        (&["--model_args", "pretrained=x"], "`watch` sets `pretrained` itself"),
        (&["--shard", "1/2"], "`watch` has no `--shard`"),
        (&["--output_path", "x.json"], "`watch` needs a folder"),
        (&["--tasks", "quizz"], "quizz"),
        (&["--chance", "quiz"], "TASK=VALUE"),
        (&["--once", "--until-idle", "1"], "cannot be used with"),
        (&["--settle=-1"], "seconds"),
    ] {
        let output = watch(&context, more);
        assert!(matches!(output.status, 1 | 2) && output.stderr.contains(message), "{more:?}: {output}");
    }
    let none = context.run(&["watch", "ck"]);
    assert!(none.stderr.contains("does not know what to evaluate"), "{none}");
    let missing = context.run(&["watch", "nowhere", "--tasks", "demo_facts"]);
    assert!(missing.stderr.contains("The folder `nowhere` does not exist"), "{missing}");
    let two = context.run(&["watch", "ck", "--tasks", "demo_facts,demo_capitals", "--best", "1"]);
    assert!(two.stderr.contains("--best-by"), "{two}");
    // An empty folder is not an error.
    let empty = watch(&context, &["--until-idle", "0.1"]);
    assert_eq!(empty.status, 0, "{empty}");
    assert!(steps(&curve(&context)).is_empty());
}

/// vLLM starts with each checkpoint and ends with its evaluation.
#[cfg(target_os = "linux")]
#[test]
fn a_server_is_started_for_each_checkpoint() {
    let stage = crate::launched::Stage::new();
    let ck = stage.context.work().join("ck");
    for step in [10, 20] {
        write_checkpoint(&ck.join(format!("checkpoint-{step}")), 0.0);
    }
    let python = lmeval_testkit::python().display().to_string();
    let words = ["watch", "ck", "--model", "vllm", "--tasks", "options", "--include_path", "tasks"];
    let more = ["--library", "none", "--limit", "4", "--settle", "0", "--once", "--python", &python];
    let output = stage.command(&[&words[..], &more].concat()).run();
    assert_eq!(output.status, 0, "{output}");
    let starts = stage.starts();
    assert_eq!(starts.len(), 2, "{output}");
    for (start, step) in starts.iter().zip([10, 20]) {
        let path = ck.join(format!("checkpoint-{step}")).display().to_string();
        assert!(start.argv.contains(&path), "{:?}", start.argv);
        assert!(!Path::new(&format!("/proc/{}", start.pid)).exists());
    }
}
