//! In-process models and their worker processes, from the command line.

use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use lmeval_testkit::{Output, TestContext};
use serde_json::Value;

pub(crate) const DOCUMENTS: usize = 60;
/// A tokenizer with tokens for a few letters and one for all others.
pub(crate) const SMALL_TOKENIZER: &str = r#"{"version": "1.0", "added_tokens": [], "normalizer": null, "pre_tokenizer": null,
    "post_processor": null, "decoder": null, "truncation": null, "padding": null, "model": {"type": "BPE",
    "unk_token": "<unk>", "vocab": {"<unk>": 0, "<s>": 1, "</s>": 2, "e": 3, "n": 4, "s": 5, " ": 6}, "merges": []}}"#;

pub(crate) fn model() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../lmeval-candle/tests/fixtures/llama")
        .canonicalize()
        .unwrap()
}

/// A folder with a task of each kind: options with few-shot examples, rolling, sampled generations, and long generations.
pub(crate) fn prepared() -> TestContext {
    let context = crate::context();
    let line = |number: usize| {
        format!(
            "{{\"q\": \"Is {number} even?\", \"o\": [\"yes\", \"no {number}\"], \"a\": {}}}\n",
            number % 2
        )
    };
    context.write("tasks/numbers.jsonl", (0..DOCUMENTS).map(line).collect::<String>());
    let data =
        "dataset_path: json\ndataset_kwargs: {data_files: {test: tasks/numbers.jsonl}}\ntest_split: test\n";
    let tasks = [
        (
            "options",
            "output_type: multiple_choice\nfewshot_split: test\nnum_fewshot: 2\ndoc_to_choice: '{{o}}'\n\
             doc_to_target: '{{a}}'",
        ),
        (
            "wholes",
            "output_type: loglikelihood_rolling\ndoc_to_target: '{{q}}'\nmetric_list:\n- metric: word_perplexity\n  \
             aggregation: weighted_perplexity\n  higher_is_better: false",
        ),
        (
            "draws",
            "output_type: generate_until\ndoc_to_target: '{{a}}'\nrepeats: 2\ngeneration_kwargs: {until: ['a'], \
             max_gen_toks: 20, temperature: 1.0, do_sample: true}",
        ),
        (
            "long",
            "output_type: generate_until\ndoc_to_target: '{{a}}'\ngeneration_kwargs: {until: [], max_gen_toks: 250}",
        ),
    ];
    for (name, more) in tasks {
        let text = format!("task: {name}\n{data}doc_to_text: '{{{{q}}}}'\n{more}\n");
        context.write(format!("tasks/{name}.yaml"), text);
    }
    context
}

pub(crate) fn arguments(tasks: &str, model_args: &str, out: &str) -> Vec<String> {
    let model_args = format!("pretrained={},device=cpu,max_length=600{model_args}", model().display());
    ["run", "--model", "hf", "--model_args", &model_args, "--tasks", tasks, "--include_path", "tasks"]
        .into_iter()
        .chain(["--library", "none", "--output_path", out, "--log_samples"])
        .map(str::to_owned)
        .collect()
}

pub(crate) fn run(context: &TestContext, arguments: &[String]) -> Output {
    context.run(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
}

/// The answers of the newest records of a task, by document.
pub(crate) fn answers(context: &TestContext, out: &str, task: &str) -> Vec<Value> {
    let folder = context.work().join(out);
    let folders = fs_err::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = folders
        .flat_map(|folder| fs_err::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()))
        .filter(|path| path.file_name().unwrap().to_string_lossy().starts_with(&format!("samples_{task}_")))
        .collect();
    files.sort();
    let text = fs_err::read_to_string(files.pop().unwrap()).unwrap();
    let answers = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["resps"].clone());
    answers.collect()
}

#[test]
fn workers_match_a_single_process() {
    let context = prepared();
    let tasks = "options,wholes,draws";
    for (out, more) in [("one", ""), ("three", ",data_parallel=3")] {
        let output = run(&context, &arguments(tasks, more, out));
        assert_eq!(output.status, 0, "{output}");
    }
    for task in tasks.split(',') {
        let [one, three] = ["one", "three"].map(|out| answers(&context, out, task));
        assert_eq!(one.len(), DOCUMENTS);
        // To the last digit.
        assert_eq!(one, three, "{task}");
    }
    // It is the same model, so a run with another number of workers reuses its answers.
    let output = run(&context, &arguments(tasks, ",data_parallel=2", "one"));
    assert!(output.stderr.contains("answers were reused from"), "{output}");
}

#[test]
fn workers_load_weights_of_any_name() {
    let context = prepared();
    let fixtures = model().join("..");
    let copy = |from: &str, to: &str| {
        let content = fs_err::read(fixtures.join(from)).unwrap();
        context.write(format!("model/{to}"), content);
    };
    copy("gguf/qwen3.gguf", "weights.q8");
    copy("llama/tokenizer_config.json", "tokenizer_config.json");
    context.write("model/tokenizer.json", SMALL_TOKENIZER);
    let mut found = Vec::new();
    for (out, more) in [("one", ""), ("two", ",data_parallel=2")] {
        let mut words = arguments("options", more, out);
        words[4] = format!("pretrained=model,gguf_file=weights.q8,device=cpu{more}");
        let output = run(&context, &words);
        assert_eq!(output.status, 0, "{output}");
        found.push(answers(&context, out, "options"));
    }
    assert_eq!(found[0], found[1]);
}

#[test]
fn reports_load_errors_of_workers_once() {
    let context = prepared();
    let output = run(&context, &arguments("options", ",data_parallel=2,prefix_token_id=9999", "out"));
    assert_eq!(output.status, 1, "{output}");
    assert_eq!(
        output.stderr.matches("`prefix_token_id=9999` is not in the model's vocabulary").count(),
        1,
        "{output}"
    );
}

#[cfg(target_os = "linux")]
mod processes {
    use super::*;

    /// The running child processes of a process.
    fn workers(parent: u32) -> Vec<u32> {
        let mut found = Vec::new();
        for task in fs_err::read_dir(format!("/proc/{parent}/task")).unwrap().map_while(Result::ok) {
            let children = fs_err::read_to_string(task.path().join("children")).unwrap_or_default();
            found.extend(children.split_whitespace().map(|number| number.parse::<u32>().unwrap()));
        }
        found
    }

    fn lives(process: u32) -> bool {
        let status = fs_err::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        // The state follows the name; a zombie is dead.
        status.rsplit(") ").next().is_some_and(|state| !state.is_empty() && !state.starts_with('Z'))
    }

    fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
        let begun = Instant::now();
        while !condition() {
            assert!(begun.elapsed() < Duration::from_mins(2), "timed out waiting for {what}");
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// The number of answers in the journal.
    fn saved(context: &TestContext, out: &str) -> usize {
        let Ok(folders) = fs_err::read_dir(context.work().join(out)) else { return 0 };
        let journal =
            folders.map(|entry| entry.unwrap().path().join("answers.journal")).find(|path| path.exists());
        let Some(journal) = journal else { return 0 };
        let output = context.run(&["journal", "export", journal.to_str().unwrap()]);
        output.stdout.lines().count()
    }

    /// A run of the long task with two workers that has saved some answers.
    fn begun(context: &TestContext) -> (Child, Vec<u32>) {
        let mut words = arguments("long", ",data_parallel=2,batch_size=4", "out");
        words.extend(["--progress", "json"].map(str::to_owned));
        let child = context.command(&words.iter().map(String::as_str).collect::<Vec<_>>()).spawn_piped();
        wait_for("answers", || saved(context, "out") >= 3);
        let workers = workers(child.id());
        assert_eq!(workers.len(), 2);
        (child, workers)
    }

    fn signal(name: &str, process: u32) {
        assert!(Command::new("kill").args([name, &process.to_string()]).status().unwrap().success());
    }

    fn assert_undisturbed(context: &TestContext) {
        let output = run(context, &arguments("long", ",batch_size=4", "undisturbed"));
        assert_eq!(output.status, 0, "{output}");
        let [found, expected] = ["out", "undisturbed"].map(|out| answers(context, out, "long"));
        assert_eq!(found.len(), DOCUMENTS);
        assert_eq!(found, expected);
    }

    #[test]
    fn replaces_a_dead_worker() {
        let context = prepared();
        let (child, workers) = begun(&context);
        signal("-KILL", workers[0]);
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{stderr}");
        assert!(stderr.contains("\"retries\": 1,") && stderr.contains("\"tokens_saved\": 0"), "{stderr}");
        assert!(!lives(workers[1]), "a worker outlives its run");
        assert_undisturbed(&context);
    }

    #[test]
    fn workers_end_with_a_killed_run_which_resumes() {
        let context = prepared();
        let (mut child, workers) = begun(&context);
        child.kill().unwrap();
        child.wait().unwrap();
        wait_for("the end of the workers", || !workers.iter().any(|worker| lives(*worker)));
        let before = saved(&context, "out");
        assert!((3..DOCUMENTS).contains(&before), "{before}");
        let output = run(&context, &arguments("long", ",data_parallel=2,batch_size=4", "out"));
        assert_eq!(output.status, 0, "{output}");
        // Each answer is written once: saved ones were not computed again.
        assert_eq!(saved(&context, "out"), DOCUMENTS);
        assert_undisturbed(&context);
    }

    #[test]
    fn ctrl_c_ends_workers_and_saves_their_answers() {
        let context = prepared();
        let (child, workers) = begun(&context);
        signal("-INT", child.id());
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(130), "{stderr}");
        wait_for("the end of the workers", || !workers.iter().any(|worker| lives(*worker)));
        assert!((3..DOCUMENTS).contains(&saved(&context, "out")), "{stderr}");
    }
}

#[test]
fn code_of_a_checkpoint_is_refused_only_if_there_is_any() {
    let context = prepared();
    let run = |folder: &str, words: &[&str]| {
        let mut all =
            vec!["run", "--model", "hf", "--tasks", "demo_capitals", "--limit", "2", "--model_args"];
        let pretrained = format!("pretrained={folder}");
        all.push(&pretrained);
        all.extend(words);
        context.run(&all)
    };
    let plain = model().display().to_string();
    for words in [&["--trust_remote_code"][..], &["trust_remote_code=True"]] {
        let output = run(&plain, words);
        assert_eq!(output.status, 0, "{output}");
    }
    for file in fs_err::read_dir(model()).unwrap() {
        let file = file.unwrap();
        context.write(format!("own/{}", file.file_name().display()), fs_err::read(file.path()).unwrap());
    }
    let config = context.work().join("own/config.json");
    let text = fs_err::read_to_string(&config).unwrap();
    let own = text.replacen('{', "{\"auto_map\": {\"AutoModelForCausalLM\": \"modeling_own.Own\"},", 1);
    fs_err::write(&config, own).unwrap();
    assert_eq!(run("own", &[]).status, 0);
    for words in [&["--trust_remote_code"][..], &["trust_remote_code=True"]] {
        let output = run("own", words);
        assert_eq!(output.status, 1, "{output}");
        assert!(output.stderr.contains("brings its own model code (`modeling_own.Own`)"), "{output}");
    }
}
