//! `lm-eval run --shard` and `lm-eval merge`.

use std::collections::HashSet;
use std::path::Path;
use std::time::{Duration, Instant};

use lmeval_pycompat::{Value, json};
use lmeval_testkit::{Faults, Output, ServerOptions, StandInServer, TestContext};

use crate::context;
use crate::long_run::{arguments, newest, question, write_task};
use crate::recorded_runs::{TEMPLATE, copy, dumps, flags, part, recordings};

/// The newest results without times and receipt, and all samples by task, as text. Merged runs have no receipt.
fn files(folder: &Path) -> (String, Vec<(String, String)>) {
    let results = fs_err::read_to_string(newest(folder, "results_")).unwrap();
    let is_time = |line: &&str| {
        // With the checksum of the date.
        line.trim_start().starts_with("\"date\":") || line.starts_with("  \"total_evaluation_time_seconds\":")
    };
    let mut is_receipt = false;
    let kept = results.lines().filter(|line| {
        is_receipt |= *line == "  \"receipt\": {";
        let is_kept = !is_receipt && !is_time(line);
        is_receipt &= !line.starts_with("  }");
        is_kept
    });
    let results = kept.collect::<Vec<_>>().join("\n");
    let mut samples = Vec::new();
    for entry in fs_err::read_dir(newest(folder, "results_").parent().unwrap()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if let Some((task, _)) = name.strip_prefix("samples_").and_then(|name| name.rsplit_once('_')) {
            samples.push((task.to_owned(), fs_err::read_to_string(&path).unwrap()));
        }
    }
    samples.sort();
    (results, samples)
}

/// Runs all shards into one folder.
pub(crate) fn run_shards(context: &TestContext, words: &[&str], out: &str, count: usize) {
    for index in 1..=count {
        let output = run_shard(context, words, out, index, count);
        assert_eq!(output.status, 0, "{output}");
        assert!(
            output.stderr.contains(&format!("These are the scores of shard {index}/{count}")),
            "{output}"
        );
    }
}

pub(crate) fn run_shard(
    context: &TestContext,
    words: &[&str],
    out: &str,
    index: usize,
    count: usize,
) -> Output {
    let shard = format!("{index}/{count}");
    context.run(&[words, &["--output_path", out, "--shard", &shard]].concat())
}

pub(crate) fn merge(context: &TestContext, words: &[&str]) -> Output {
    context.run(&[&["merge"], words].concat())
}

/// Checks that the answers of a run, scored again, give its scores and samples.
fn check_rescored(context: &TestContext, words: &[&str], whole: &(String, Vec<(String, String)>)) {
    if !words.contains(&"--log_samples") {
        return;
    }
    let mut rescore = vec!["rescore", "whole", "--output_path", "rescored", "--log_samples", "--flips", "0"];
    for pair in words.windows(2).filter(|pair| ["--library", "--include_path"].contains(&pair[0])) {
        rescore.extend(pair);
    }
    // Tasks that are not in a library are named as the run named them.
    let tasks = words.iter().skip_while(|word| **word != "--tasks").skip(1);
    let tasks: Vec<&str> = tasks.take_while(|word| !word.starts_with("--")).copied().collect();
    if tasks.iter().any(|task| task.contains(".yaml")) {
        rescore.push("--tasks");
        rescore.extend(tasks);
    }
    let output = context.run(&rescore);
    assert_eq!(output.status, 0, "{words:?}: {output}");
    let rescored = files(&context.work().join("rescored"));
    let [before, after] = [&whole.0, &rescored.0].map(|text| json::loads(text).unwrap());
    for key in ["results", "groups", "group_subtasks", "versions", "n-shot", "higher_is_better", "n-samples"]
    {
        assert_eq!(part(&after, key).map(dumps), part(&before, key).map(dumps), "{words:?}: {key}");
    }
    assert_eq!(rescored.1, whole.1, "{words:?}");
    fs_err::remove_dir_all(context.work().join("rescored")).unwrap();
}

/// Checks that shards merge to the files of a whole run, and that its answers can be scored again.
fn check(context: &TestContext, words: &[&str], counts: &[usize]) {
    let whole = context.run(&[words, &["--output_path", "whole"]].concat());
    assert_eq!(whole.status, 0, "{whole}");
    let expected = files(&context.work().join("whole"));
    // The answers of `--predict_only` are scored for the first time.
    if !words.contains(&"--predict_only") {
        check_rescored(context, words, &expected);
    }
    for &count in counts {
        let [out, merged] = [format!("out-{count}"), format!("merged-{count}")];
        run_shards(context, words, &out, count);
        let output = merge(context, &[&out, "-o", &merged]);
        assert_eq!(output.status, 0, "{output}");
        assert_eq!(output.stdout, whole.stdout, "{count} shards");
        let found = files(&context.work().join(&merged));
        assert_eq!(found.0, expected.0, "{count} shards");
        assert_eq!(found.1, expected.1, "{count} shards");
    }
    for folder in counts.iter().flat_map(|count| [format!("out-{count}"), format!("merged-{count}")]) {
        fs_err::remove_dir_all(context.work().join(folder)).unwrap();
    }
    fs_err::remove_dir_all(context.work().join("whole")).unwrap();
}

/// Checks every `of`th recorded run, from `first` on.
fn check_recorded(first: usize, of: usize) {
    let context = context();
    copy(&recordings(), &context.work());
    context.write("template.jinja", TEMPLATE);
    let recorded = json::loads(&fs_err::read_to_string(recordings().join("recorded.json")).unwrap()).unwrap();
    let mut checked = 0;
    for (number, case) in recorded.as_list().unwrap().iter().enumerate().skip(first).step_by(of) {
        if part(case, "error").is_some() {
            continue;
        }
        let answers = part(case, "requests").and_then(Value::as_list).unwrap_or_default().iter();
        let recording = format!("answers-{number}.jsonl");
        context.write(&recording, answers.map(|line| dumps(line) + "\n").collect::<String>());
        let model_args = format!("path={recording}");
        let mut words: Vec<String> =
            ["run", "--model", "replay", "--model_args", &model_args, "--log_samples"]
                .into_iter()
                .chain(["--library", "none", "--include_path", "tasks"])
                .map(str::to_owned)
                .collect();
        words.extend(flags(&context, part(case, "run").unwrap().as_dict().unwrap()));
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        check(&context, &words, &[2, 3, 7]);
        checked += 1;
    }
    assert!(checked > 5, "{checked}");
}

#[test]
fn recorded_runs_equal_their_shards_and_rescored_runs() {
    check_recorded(0, 4);
}

#[test]
fn recorded_runs_equal_their_shards_and_rescored_runs_2() {
    check_recorded(1, 4);
}

#[test]
fn recorded_runs_equal_their_shards_and_rescored_runs_3() {
    check_recorded(2, 4);
}

#[test]
fn recorded_runs_equal_their_shards_and_rescored_runs_4() {
    check_recorded(3, 4);
}

#[test]
fn groups_examples_and_bootstraps_are_those_of_a_whole_run() {
    let context = context();
    let words =
        ["run", "--model", "ngram", "--tasks", "demo_all", "--num_fewshot", "2", "--bootstrap_iters", "50"];
    check(&context, &[&words[..], &["--log_samples", "--limit", "11"]].concat(), &[3]);
    // More shards than documents, and no samples.
    check(&context, &[&words[..], &["--limit", "0.1"]].concat(), &[5]);
    let samples = ["--samples", "{\"demo_capitals\": [9, 3, 5, 3]}", "--compat", "0.4", "--log_samples"];
    check(&context, &[&words[..3], &["--tasks", "demo_capitals"], &samples].concat(), &[2]);
}

#[test]
fn scores_of_a_part_never_fail_it() {
    let context = context();
    context.write(
        "tasks/own.yaml",
        "task: own\ndataset_path: json\ndataset_kwargs: {data_files: {test: own.jsonl}}\ntest_split: test\n\
         output_type: loglikelihood\ndoc_to_text: '{{q}}'\ndoc_to_target: \"{{'x'}}\"\ntarget_delimiter: ' '\nmetric_list: [{metric: perplexity}]\n",
    );
    context.write(
        "tasks/all.yaml",
        "group: all\ntask: [own]\naggregate_metric_list: [{metric: perplexity, filter_list: none}]\n",
    );
    context.write("own.jsonl", (0..4).map(|q| format!("{{\"q\": \"q{q}\"}}\n")).collect::<Vec<_>>().concat());
    // The perplexity of two of the documents overflows, that of all four does not.
    let answer = |q: usize| {
        let logprob = if q == 1 { -1500 } else { -1 };
        format!(
            "{{\"type\": \"loglikelihood\", \"args\": [\"q{q}\", \"x\"], \"response\": [{logprob}.0, false]}}\n"
        )
    };
    context.write("answers.jsonl", (0..4).map(answer).collect::<String>());
    let words = [
        "run",
        "--model",
        "replay",
        "--model_args",
        "path=answers.jsonl",
        "--tasks",
        "all",
        "--include_path",
        "tasks",
        "--log_samples",
        "--bootstrap_iters",
        "0",
    ];
    let whole = context.run(&[&words[..], &["--output_path", "whole"]].concat());
    assert_eq!(whole.status, 0, "{whole}");
    let outputs: Vec<Output> = (1..=2).map(|index| run_shard(&context, &words, "out", index, 2)).collect();
    assert!(outputs.iter().all(|output| output.status == 0), "{outputs:?}");
    let warned = outputs.iter().filter(|output| {
        output.stderr.contains("has no scores of its own: The result overflows a float: exp(750.5)")
    });
    assert_eq!(warned.count(), 1, "{outputs:?}");
    let merged = merge(&context, &["out", "-o", "merged"]);
    assert_eq!(merged.status, 0, "{merged}");
    assert_eq!(merged.stdout, whole.stdout);
    assert_eq!(files(&context.work().join("merged")), files(&context.work().join("whole")));
}

#[test]
fn scoring_that_sees_all_documents_is_exact() {
    let context = context();
    // The filter ranks the answers among those of all documents.
    context.write(
        "tasks/utils.py",
        "def rank(resps, docs):\n    resps = [list(r) for r in resps]\n    order = sorted(r[0] for r in resps)\n\
         \x20   return [[str(order.index(r[0])) + '/' + str(len(order))] for r in resps]\n\n\
         def process_results(doc, results):\n    return {'first': float(results[0].startswith('0')), 'own': (results[0], doc['q'])}\n\n\
         def spread(items):\n    return float(len({a for a, q in items})) / len(items)\n",
    );
    context.write(
        "tasks/ranked.yaml",
        "task: ranked\ndataset_path: json\ndataset_kwargs: {data_files: {test: ranked.jsonl}}\ntest_split: test\n\
         output_type: generate_until\ndoc_to_text: '{{q}}'\ndoc_to_target: '{{a}}'\n\
         generation_kwargs: {until: [\"\\n\"], max_gen_toks: 3}\nprocess_results: !function utils.process_results\n\
         filter_list: [{name: own, filter: [{function: custom, filter_fn: !function utils.rank}]}]\n\
         metric_list: [{metric: first}, {metric: own, aggregation: !function utils.spread}]\n",
    );
    let lines = (0..20).map(|number| format!("{{\"q\": \"the number {number}\", \"a\": \"x\"}}\n"));
    context.write("ranked.jsonl", lines.collect::<String>());
    let words =
        ["run", "--model", "ngram", "--tasks", "ranked", "--library", "none", "--include_path", "tasks"];
    check(&context, &[&words[..], &["--log_samples", "--bootstrap_iters", "20"]].concat(), &[3]);
}

pub(crate) fn words(arguments: &[String]) -> Vec<&str> {
    arguments.iter().map(String::as_str).collect()
}

/// The arguments of the long task without an output path.
pub(crate) fn long_run(server: &StandInServer, more: &str) -> Vec<String> {
    let mut arguments = arguments(server, more);
    let at = arguments.iter().position(|word| word == "--output_path").unwrap();
    arguments.drain(at..at + 2);
    arguments.retain(|word| word != "--quiet");
    arguments
}

#[test]
fn failures_are_those_of_a_whole_run() {
    let context = context();
    write_task(&context, 40);
    let faults = Faults { refused: ["7:", "8:", "31:"].map(str::to_owned).to_vec(), ..Faults::default() };
    let server = StandInServer::start(ServerOptions { faults, ..ServerOptions::default() });
    let arguments = long_run(&server, ",retry_wait=0.005");
    let words = words(&arguments);
    let whole = context.run(&[&words[..], &["--output_path", "whole"]].concat());
    assert_eq!(whole.status, 1, "{whole}");
    for index in 1..=3 {
        run_shard(&context, &words, "out", index, 3);
    }
    let output = merge(&context, &["out", "-o", "merged"]);
    assert_eq!(output.status, 1, "{output}");
    assert_eq!(files(&context.work().join("merged")), files(&context.work().join("whole")));
    assert!(output.stderr.contains("requests failed permanently"), "{output}");
    assert!(output.stderr.contains("Run the commands of these shards again"), "{output}");
}

#[test]
fn killed_shard_resumes() {
    let context = context();
    write_task(&context, 300);
    let options =
        ServerOptions { delay: Duration::from_millis(2), keep_bodies: true, ..ServerOptions::default() };
    let server = StandInServer::start(options);
    let arguments = long_run(&server, ",num_concurrent=4");
    let words = words(&arguments);
    let whole = context.run(&[&words[..], &["--output_path", "whole"]].concat());
    assert_eq!(whole.status, 0, "{whole}");
    assert_eq!(run_shard(&context, &words, "out", 1, 3).status, 0);
    assert_eq!(run_shard(&context, &words, "out", 3, 3).status, 0);
    server.reset();
    let second = [&words[..], &["--output_path", "out", "--shard", "2/3"]].concat();
    let mut child = context.command(&second).spawn();
    let start = Instant::now();
    while server.counts().total() < 30 {
        assert!(start.elapsed() < Duration::from_mins(1) && child.try_wait().unwrap().is_none());
        std::thread::sleep(Duration::from_millis(1));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let output = merge(&context, &["out", "-o", "merged"]);
    assert_eq!(output.status, 1, "{output}");
    for text in
        ["1 of 3 shards is missing: 2", "shard 2/3 in `out/shard-2-of-3` is not finished", "--partial"]
    {
        assert!(output.stderr.contains(text), "{text}: {output}");
    }
    let exported = context.run(&["journal", "export", "out/shard-2-of-3"]);
    let known: HashSet<u64> = exported
        .stdout
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["doc_id"].as_u64().unwrap())
        .collect();
    assert!(known.len() >= 20, "{}", known.len());
    server.reset();
    assert_eq!(context.run(&second).status, 0);
    let asked: Vec<u64> = server.counts().bodies.iter().map(|(_, body)| question(body) as u64).collect();
    assert!(asked.iter().all(|document| !known.contains(document)), "an answered request was sent again");
    assert_eq!(asked.len() + known.len(), 100);
    let output = merge(&context, &["out", "-o", "merged"]);
    assert_eq!(output.status, 0, "{output}");
    assert_eq!(files(&context.work().join("merged")), files(&context.work().join("whole")));
}

/// A run in shards of a small task with the built-in model.
fn small(context: &TestContext, out: &str, count: usize, more: &[&str]) {
    let words = [&["run", "--model", "uniform", "--tasks", "demo_capitals", "--limit", "8"], more].concat();
    run_shards(context, &words, out, count);
}

#[test]
fn missing_shards_are_merged_only_on_request() {
    let context = context();
    small(&context, "out", 4, &[]);
    fs_err::remove_dir_all(context.work().join("out/shard-2-of-4")).unwrap();
    fs_err::remove_dir_all(context.work().join("out/shard-3-of-4")).unwrap();
    let output = merge(&context, &["out", "-o", "merged"]);
    assert_eq!(output.status, 1, "{output}");
    assert!(output.stderr.contains("2 of 4 shards are missing: 2, 3"), "{output}");
    assert!(!context.work().join("merged").exists());
    let output = merge(&context, &["out", "-o", "merged", "--partial"]);
    assert_eq!(output.status, 0, "{output}");
    assert!(output.stderr.contains("warning: 2 shards of 4 missing (2, 3)"), "{output}");
    let results = fs_err::read_to_string(newest(&context.work().join("merged"), "results_")).unwrap();
    let results: serde_json::Value = serde_json::from_str(&results).unwrap();
    assert_eq!(results["missing_shards"], serde_json::json!([2, 3]));
    assert_eq!(results["n-samples"]["demo_capitals"]["effective"], 4);
}

/// Checks the message of a merge that is refused.
pub(crate) fn refused(context: &TestContext, folders: &[&str], texts: &[&str]) {
    let output = merge(context, &[folders, &["-o", "merged"]].concat());
    assert_eq!(output.status, 1, "{output}");
    for text in texts {
        assert!(output.stderr.contains(text), "{text}: {output}");
    }
    assert!(!context.work().join("merged").join("uniform").join("results").exists());
}

#[test]
fn shards_of_different_runs_are_refused() {
    let context = context();
    small(&context, "out", 2, &[]);
    small(&context, "three", 3, &[]);
    let (one, two) = ("out/shard-1-of-2", "out/shard-2-of-2");
    refused(&context, &[one, one, two], &["Shard 1/2 is given twice"]);
    refused(
        &context,
        &[one, "three/shard-2-of-3"],
        &["not of the same run", "is shard 1/2 and", "shard 2/3"],
    );
    small(&context, "draws", 2, &["--bootstrap_iters", "5"]);
    refused(
        &context,
        &[one, "draws/shard-2-of-2"],
        &["`bootstrap_iters` is not set in", "and `5` in", "same settings"],
    );
    let model = ["run", "--model", "ngram", "--tasks", "demo_capitals", "--limit", "8"];
    run_shards(&context, &model, "ngram", 2);
    refused(&context, &[one, "ngram/shard-2-of-2"], &["Another model", "ngram"]);
    refused(&context, &["merged"], &["`merged` does not exist"]);
    fs_err::create_dir(context.work().join("empty")).unwrap();
    refused(&context, &["empty"], &["`empty` has no shards"]);
    fs_err::remove_file(newest(&context.work().join(two), "shard.json")).unwrap();
    refused(&context, &[two], &["Shard 2/2 in `out/shard-2-of-2` is not finished"]);
}

/// Replaces text in a file of a shard, and makes it one without checksums: as another version would have written it.
fn edit(context: &TestContext, folder: &str, file: &str, from: &str, to: &str) {
    let path = newest(&context.work().join(folder), file);
    let text = fs_err::read_to_string(&path).unwrap();
    assert!(text.contains(from), "{text}");
    let text = text.replace(from, to).replace("\"checksum", "\"no checksum");
    fs_err::write(path, text).unwrap();
}

#[test]
fn other_versions_and_damaged_files_are_refused() {
    let context = context();
    let two = "out/shard-2-of-2";
    let again = || small(&context, "out", 2, &[]);
    again();
    edit(&context, two, "shard.json", "+rust", "-other");
    refused(&context, &["out"], &["not of the same run: lm-eval", "same version"]);
    again();
    for shard in ["out/shard-1-of-2", two] {
        edit(&context, shard, "shard.json", "+rust", "-other");
    }
    refused(&context, &["out"], &["The shards are from lm-eval"]);
    again();
    edit(&context, two, "results_", "\"repeats\": 1", "\"repeats\": 2");
    refused(&context, &["out"], &["The task `demo_capitals` has `repeats` `1` in", "same task definitions"]);
    again();
    edit(&context, two, "shard.json", "\"original\": ", "\"original\": 1");
    refused(&context, &["out"], &["The data of `demo_capitals` has", "same version of the dataset"]);
    again();
    edit(&context, two, "shard.json", "\"format\": 1", "\"format\": 99");
    refused(&context, &["out"], &["a format that this version cannot read"]);
    again();
    edit(&context, two, "shard.json", "\"tasks\"", "\"tusks\"");
    refused(&context, &["out"], &["is not the manifest of a shard: `tasks`"]);
    again();
    edit(&context, two, "shard.json", "{", "");
    refused(&context, &["out"], &["shard.json` is damaged"]);
    again();
    let path = newest(&context.work().join(two), "answers_demo_capitals");
    let text = fs_err::read_to_string(&path).unwrap();
    let (_, rest) = text.split_once('\n').unwrap();
    fs_err::write(&path, rest).unwrap();
    refused(
        &context,
        &["out"],
        &["is damaged: it has 3 of 4 documents", "Run the command of the shard again"],
    );
    fs_err::write(&path, &text[..text.len() - 9]).unwrap();
    refused(&context, &["out"], &["is damaged in line 4"]);
    fs_err::write(&path, format!("{rest}{rest}")).unwrap();
    refused(&context, &["out"], &["occurs twice or out of order"]);
    fs_err::remove_file(&path).unwrap();
    refused(&context, &["out"], &["Cannot read the answers of a shard", "answers_demo_capitals"]);
}

#[test]
fn changed_task_is_refused() {
    let context = context();
    let task = |question: &str| {
        format!(
            "task: own\ndataset_path: json\ndataset_kwargs: {{data_files: {{test: own.jsonl}}}}\ntest_split: test\n\
             output_type: multiple_choice\ndoc_to_text: '{question}'\ndoc_to_choice: [a, b]\ndoc_to_target: 0\n"
        )
    };
    context.write("own.jsonl", "{\"q\": 1}\n{\"q\": 2}\n{\"q\": 3}\n");
    context.write("own.yaml", task("{{q}}"));
    run_shards(&context, &["run", "--model", "uniform", "--tasks", "own.yaml"], "out", 2);
    context.write("own.yaml", task("{{q}}?"));
    refused(
        &context,
        &["out"],
        &["The task `own` has changed since the shards ran: `doc_to_text` was `'{{q}}'`"],
    );
    fs_err::remove_file(context.work().join("own.yaml")).unwrap();
    refused(&context, &["out"], &["own.yaml"]);
}

#[test]
fn thresholds_are_checked_on_merged_scores() {
    let context = context();
    let words =
        ["run", "--model", "uniform", "--tasks", "demo_capitals", "--fail_under", "demo_capitals:acc=1"];
    run_shards(&context, &words, "out", 2);
    assert_eq!(merge(&context, &["out", "-o", "merged"]).status, 3);
}

#[test]
fn bad_shard_numbers_are_usage_errors() {
    let context = context();
    for (shard, text) in
        [("0/3", "the first of 3 is `1/3`"), ("4/3", "there is no shard 4 of 3"), ("2", "such as `2/8`")]
    {
        let output = context.run(&["run", "--model", "uniform", "--output_path", "out", "--shard", shard]);
        assert_eq!(output.status, 2, "{output}");
        assert!(output.stderr.contains(text), "{text}: {output}");
    }
    for (words, text) in [
        (&["--shard", "1/2"][..], "`--shard` needs a folder"),
        (&["--shard", "1/2", "--output_path", "a.json"], "must be a folder with `--shard`"),
        (&["--shard", "1/2", "--output_path", "a", "--wandb_args", "project=p"], "cannot be logged"),
    ] {
        let output = context.run(&[&["run", "--model", "uniform"], words].concat());
        assert_eq!(output.status, 1, "{output}");
        assert!(output.stderr.contains(text), "{text}: {output}");
    }
}

#[test]
fn secrets_are_not_stored() {
    let context = context();
    write_task(&context, 4);
    let server = StandInServer::start(ServerOptions::default());
    let arguments = long_run(&server, ",api_key=hunter2hunter2");
    run_shards(&context, &words(&arguments), "out", 2);
    let manifest = fs_err::read_to_string(newest(&context.work().join("out"), "shard.json")).unwrap();
    assert!(!manifest.contains("hunter2hunter2"), "{manifest}");
    let output = merge(&context, &["out", "-o", "merged"]);
    assert_eq!(output.status, 0, "{output}");
}
