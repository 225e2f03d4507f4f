//! `lm-eval samples`.

use std::fmt::Write as _;

use lmeval_testkit::TestContext;
use serde_json::Value;

use crate::context;

const STAMP: &str = "2026-11-15T02-46-50.151442";

/// A samples file of lm_eval 0.4.13: one task with two filter pipelines.
const PYTHON: &str = r#"{"doc_id": 0, "doc": {"q": "2+2?", "a": "4"}, "target": "4", "arguments": {"gen_args_0": {"arg_0": "2+2?", "arg_1": {"temperature": 0.0, "do_sample": false, "max_gen_toks": 256, "until": ["\n\n"]}}}, "resps": [["lol"]], "filtered_resps": ["[invalid]"], "filter": "strict", "metrics": ["exact_match"], "doc_hash": "3c6bc89300bd7ef0008840366709b7d4693c17ea3a481f6cf390b205d8d52853", "prompt_hash": "30ad205245cd25231f697fa8934fdf8d65d0cb24040d9f0d4106fa4cfc68e4c7", "target_hash": "4b227777d4dd1fc61c6f884f48641d02b4d121d3fd328cb08b5531fcacdabf8a", "exact_match": 0.0}
{"doc_id": 0, "doc": {"q": "2+2?", "a": "4"}, "target": "4", "arguments": {"gen_args_0": {"arg_0": "2+2?", "arg_1": {"temperature": 0.0, "do_sample": false, "max_gen_toks": 256, "until": ["\n\n"]}}}, "resps": [["lol"]], "filtered_resps": ["lol"], "filter": "loose", "metrics": ["exact_match"], "doc_hash": "3c6bc89300bd7ef0008840366709b7d4693c17ea3a481f6cf390b205d8d52853", "prompt_hash": "30ad205245cd25231f697fa8934fdf8d65d0cb24040d9f0d4106fa4cfc68e4c7", "target_hash": "4b227777d4dd1fc61c6f884f48641d02b4d121d3fd328cb08b5531fcacdabf8a", "exact_match": 1.0}
"#;

/// A samples file of lm_eval 0.4.0: requests are lists; metrics, pipelines and hashes are not named.
const OLD: &str = r#"{"doc_id": 0, "doc": {"q": "Why?"}, "target": 1, "arguments": [["Why?", " yes"], ["Why?", " no"]], "resps": [[[-1.5, false]], [[-0.5, true]]], "filtered_resps": [[-1.5, false], [-0.5, true]], "acc": 1.0, "acc_norm": 0.0}
{"doc_id": 1, "doc": {"q": "Who?"}, "target": 0, "arguments": [["Who?", " me"], ["Who?", " you"]], "resps": [[[-3.5, false]], [[-0.5, true]]], "filtered_resps": [[-3.5, false], [-0.5, true]], "acc": 0.0, "acc_norm": NaN}
"#;

fn demo() -> TestContext {
    let context = context();
    let words =
        ["run", "--tasks", "demo_capitals,demo_last_word", "--output_path", "out", "--log_samples", "-q"];
    let output = context.run(&words);
    assert_eq!(output.status, 0, "{output}");
    context
}

fn lines(context: &TestContext, words: &[&str]) -> Vec<Value> {
    let output = context.run(&[&["samples"], words, &["--format", "jsonl"]].concat());
    assert_eq!(output.status, 0, "{output}");
    output.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn fails(context: &TestContext, words: &[&str], parts: &[&str]) {
    let output = context.run(&[&["samples"], words].concat());
    assert_eq!(output.status, 1, "{output}");
    for part in parts {
        assert!(output.stderr.contains(part), "{part}: {output}");
    }
}

/// One sample of a generation task, with escaped text.
fn sample(id: usize, answer: &str, score: &str) -> String {
    let answer = serde_json::to_string(answer).unwrap();
    format!(
        "{{\"doc_id\": {id}, \"doc\": {{\"n\": {}}}, \"target\": \"x\", \"arguments\": {{\"gen_args_0\": {{\"arg_0\": \"Q{id}\", \"arg_1\": {{}}}}}}, \
         \"resps\": [[{answer}]], \"filtered_resps\": [{answer}], \"filter\": \"none\", \"metrics\": [\"em\"], \"em\": {score}}}\n",
        id % 7
    )
}

#[test]
fn wrong_and_right_follow_the_first_metric() {
    let context = demo();
    let all = lines(&context, &["out", "--task", "demo_capitals"]);
    assert_eq!(all.len(), 40);
    let wrong = lines(&context, &["out", "-t", "demo_cap*", "--wrong"]);
    let right = lines(&context, &["out", "-t", "demo_capitals", "--right"]);
    assert!(!wrong.is_empty() && wrong.iter().all(|sample| sample["acc"] == 0));
    assert!(!right.is_empty() && right.iter().all(|sample| sample["acc"] == 1));
    assert_eq!(wrong.len() + right.len(), 40);
    let by_other = lines(&context, &["out", "-t", "demo_capitals", "--wrong", "--metric", "acc_norm"]);
    assert!(by_other.iter().all(|sample| sample["acc_norm"] == 0));
    // Less perplexity is better, so the next metric decides.
    let last_word = lines(&context, &["out", "-t", "demo_last_word", "--wrong"]);
    assert_eq!(last_word.len(), 32);
    fails(&context, &["out", "--metric", "ac"], &["no metric `ac`", "Did you mean `acc`"]);
    fails(&context, &["out", "--task", "demo_capital"], &["no task `demo_capital`", "`demo_last_word`"]);
}

#[test]
fn lines_are_those_of_the_file() {
    let context = demo();
    let folder = context.work().join("out/ngram");
    let mut files = fs_err::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let file = files.find(|path| path.to_string_lossy().contains("samples_demo_capitals")).unwrap();
    let output = context.run(&["samples", "out", "--task", "demo_capitals", "--format", "jsonl"]);
    assert_eq!(output.stdout, fs_err::read_to_string(&file).unwrap());
    let output = context.run(&["samples", file.to_str().unwrap(), "--format", "jsonl"]);
    assert_eq!(output.stdout, fs_err::read_to_string(&file).unwrap());
}

#[test]
fn conditions_order_and_fields() {
    let context = demo();
    let chosen =
        ["out", "-t", "demo_capitals", "--fields", "doc_id, doc.country,prompt | length, outcome,scores.acc"];
    let rows = lines(
        &context,
        &[&chosen[..], &["--where", "doc.country[0] in 'ABC'", "--sort", "-prompt|length"]].concat(),
    );
    assert!(rows.len() > 1);
    let lengths: Vec<u64> = rows.iter().map(|row| row["prompt | length"].as_u64().unwrap()).collect();
    assert!(lengths.is_sorted_by(|left, right| left >= right), "{lengths:?}");
    for row in &rows {
        assert!(row["doc.country"].as_str().unwrap().starts_with(['A', 'B', 'C']), "{row}");
        assert_eq!(row["outcome"], if row["scores.acc"] == 1 { "right" } else { "wrong" });
    }
    let first = lines(
        &context,
        &[&chosen[..], &["--where", "doc.country[0] in 'ABC'", "--sort", "-prompt|length", "-n", "1"]]
            .concat(),
    );
    assert_eq!(first[..], rows[..1]);
    let both = lines(&context, &["out", "--where", "task == 'demo_capitals'", "--where", "doc_id < 3"]);
    assert_eq!(both.len(), 3);
    let output = context.run(&["samples", "out", "-n", "2", "--fields", "doc_id", "--format", "csv"]);
    assert_eq!(output.stdout, "doc_id\n0\n1\n");
    assert!(output.stderr.contains("Stopped after 2 documents"), "{output}");
    let output = context.run(&["samples", "out", "--sort", "doc_id", "-n", "2", "--fields", "doc_id"]);
    assert!(output.stderr.contains("2 of 72 matching documents shown"), "{output}");
    let output = context.run(&["samples", "out", "--where", "doc_id < 0"]);
    assert!(output.status == 0 && output.stderr.contains("None of 72 documents matches"), "{output}");
}

#[test]
fn blocks_show_prompt_target_and_answer() {
    let context = demo();
    let output = context.run(&["samples", "out", "-t", "demo_capitals", "--where", "doc_id == 0"]);
    assert_eq!(
        output.stdout,
        "demo_capitals document 0: right, acc 1, acc_norm 0\n  prompt: Question: What is the capital of France?\n    Answer:\n  \
         target: ' Paris' (option 2)\n  answer:\n       -21.4082  ' Toulouse'\n       -21.7297  ' Lyon'\n    *✓ -18.4924  ' Paris'\n       -29.4768  ' Marseille'\n"
    );
}

#[test]
fn mistakes_in_expressions_name_the_position_and_the_fields() {
    let context = demo();
    fails(&context, &["out", "--where", "acc = 0"], &["--where:1:5", "Found `=`", "`==` compares"]);
    fails(
        &context,
        &["out", "-t", "demo_capitals", "--where", "doc_id >= 0 and ac == 0"],
        &[
            "The variable `ac` is not defined, for document 0 of `demo_capitals`",
            "--where:1:17",
            "Did you mean `acc`",
            "`filtered_resps`, ",
            "`prompt`",
        ],
    );
    fails(
        &context,
        &["out", "-t", "demo_capitals", "--where", "doc.contry == 'x'"],
        &["`contry`", "The fields of `doc` are `country`"],
    );
    fails(&context, &["out", "--where", "acc_norm == 0"], &["demo_last_word", "is defined and"]);
    fails(&context, &["out", "--where", "target + 1"], &["--where:1:1"]);
    fails(&context, &["out", "--sort", "-ac"], &["No sample has a field `ac`", "--sort:1:1"]);
    fails(&context, &["out", "--sort", "doc.nothing"], &["No sample has a value of `doc.nothing`"]);
    fails(&context, &["out", "--fields", "doc_id,qq"], &["No sample has a field `qq`", "--fields:1:1"]);
    fails(&context, &["out", "--fields", "doc_id,,acc"], &["empty field"]);
    let output = context.run(&["samples", "out", "-n", "1", "--fields", "doc_id,doc.nothing"]);
    assert!(
        output.status == 0 && output.stderr.contains("no document has a value of `doc.nothing`"),
        "{output}"
    );
    for words in [["out", "-n", "0"], ["out", "--right", "--wrong"]] {
        let output = context.run(&[&["samples"], &words[..]].concat());
        assert_eq!(output.status, 2, "{output}");
    }
}

#[test]
fn files_of_the_python_harness_are_read() {
    let context = context();
    context.write(format!("samples_quiz_{STAMP}.jsonl"), PYTHON);
    context.write("old.jsonl", OLD);
    let file = format!("samples_quiz_{STAMP}.jsonl");
    let output = context.run(&["samples", &file]);
    assert_eq!(output.status, 0, "{output}");
    assert_eq!(
        output.stdout,
        "quiz document 0 (strict): wrong, exact_match 0.0\n  prompt: 2+2?\n  target: 4\n  answer: lol\n  filtered: [invalid]\n\n\
         quiz document 0 (loose): right, exact_match 1.0\n  prompt: 2+2?\n  target: 4\n  answer: lol\n"
    );
    assert_eq!(lines(&context, &[&file, "--filter", "loose"]).len(), 1);
    assert_eq!(lines(&context, &[&file, "--right", "--filter", "strict"]).len(), 0);
    fails(&context, &[&file, "--filter", "none"], &["no filter `none`", "`strict`, `loose`"]);
    let output = context.run(&["samples", "old.jsonl", "--where", "doc_id == 0"]);
    assert_eq!(
        output.stdout,
        "old document 0: right, acc 1.0, acc_norm 0.0\n  prompt: Why?\n  target: ' no' (option 1)\n  answer:\n       -1.5000  ' yes'\n    *✓ -0.5000  ' no'\n"
    );
    // NaN is neither right nor wrong, and sorts last in both directions.
    let output = context.run(&[
        "samples",
        "old.jsonl",
        "--wrong",
        "--metric",
        "acc_norm",
        "--fields",
        "doc_id",
        "--format",
        "csv",
    ]);
    assert_eq!(output.stdout, "doc_id\n0\n");
    assert!(output.stderr.contains("1 document without a score left out"), "{output}");
    for sort in ["acc_norm", "-acc_norm"] {
        let output =
            context.run(&["samples", "old.jsonl", "--sort", sort, "--fields", "doc_id", "--format", "csv"]);
        assert_eq!(output.stdout, "doc_id\n0\n1\n");
        assert!(output.stderr.contains("1 document without a value to sort by"), "{output}");
    }
}

#[test]
fn partial_scores_are_neither_right_nor_wrong() {
    let context = context();
    context.write("f.jsonl", [sample(0, "a", "0.5"), sample(1, "b", "0"), sample(2, "c", "1.0")].concat());
    let output = context.run(&["samples", "f.jsonl", "--wrong", "--fields", "doc_id", "--format", "csv"]);
    assert_eq!(output.stdout, "doc_id\n1\n");
    assert!(output.stderr.contains("1 document with a score other than 0 and 1 left out"), "{output}");
    context.write("g.jsonl", [sample(0, "a", "0.5"), sample(1, "b", "-3.25")].concat());
    fails(&context, &["g.jsonl", "--right"], &["No document has a score of 0 or 1", "--where"]);
}

#[test]
fn csv_and_markdown_keep_text_apart_from_markup() {
    let context = context();
    let text = "a,\"b\"\nc | <d> *e*";
    context.write("f.jsonl", sample(0, text, "1"));
    let output = context.run(&["samples", "f.jsonl", "--fields", "doc_id,answer,doc", "--format", "csv"]);
    assert_eq!(output.stdout, "doc_id,answer,doc\n0,\"a,\"\"b\"\"\nc | <d> *e*\",\"{\"\"n\"\": 0}\"\n");
    let output = context.run(&["samples", "f.jsonl", "--fields", "answer", "--format", "markdown"]);
    assert_eq!(output.stdout, "| answer |\n| --- |\n| a,\"b\"<br>c \\| &lt;d> \\*e\\* |\n");
    let output = context.run(&["samples", "f.jsonl", "--fields", "doc_id,answer"]);
    assert_eq!(
        output.stdout,
        "|doc_id|     answer      |\n|------|-----------------|\n|0     |a,\"b\"⏎c \\| <d> *e*|\n"
    );
    // Without --fields: the usual ones and every metric.
    let output = context.run(&["samples", "f.jsonl", "--format", "csv"]);
    assert!(
        output.stdout.starts_with(
            "task,doc_id,filter,outcome,prompt,target,answer,filtered_resps,em\nf,0,none,right,Q0,x,"
        ),
        "{output}"
    );
    // A header even if nothing matches.
    let output = context.run(&["samples", "f.jsonl", "--wrong", "--fields", "em", "--format", "csv"]);
    assert_eq!((output.status, output.stdout.as_str()), (0, "em\n"), "{output}");
}

#[test]
fn long_values_are_folded_and_counted() {
    let context = context();
    let long = format!("start{}end", "x".repeat(10_000_000));
    context.write("f.jsonl", [sample(0, &long, "1"), sample(1, "short", "0")].concat());
    let output = context.run(&["samples", "f.jsonl"]);
    assert_eq!(output.status, 0, "{output}");
    assert!(
        output.stdout.len() < 2000 && output.stdout.contains(" … 9999208 characters … "),
        "{}",
        output.stdout.len()
    );
    assert!(output.stderr.contains("1 long value folded; --full shows everything"), "{output}");
    let output = context.run(&["samples", "f.jsonl", "--full", "--no-pager"]);
    assert!(output.stdout.contains(&long) && output.stderr.is_empty(), "{}", output.stderr);
    for format in ["csv", "jsonl"] {
        let output = context.run(&["samples", "f.jsonl", "--format", format]);
        assert!(output.stdout.contains(&long) && output.stderr.is_empty(), "{format}: {}", output.stderr);
    }
}

#[test]
fn damaged_and_other_files_are_errors_that_name_them() {
    let context = context();
    let good = sample(0, "a", "1");
    context.write("cut.jsonl", format!("{good}{}", &sample(1, "b", "1")[..80]));
    let output = context.run(&["samples", "cut.jsonl", "--fields", "doc_id", "--format", "csv"]);
    assert_eq!((output.status, output.stdout.as_str()), (0, "doc_id\n0\n"), "{output}");
    assert!(
        output.stderr.contains("warning: ")
            && output.stderr.contains("line 2 of `cut.jsonl` ends in the middle"),
        "{output}"
    );
    context.write("odd.jsonl", format!("{good}{{\"doc_id\": 1, oops}}\n{good}"));
    fails(&context, &["odd.jsonl"], &["line 2 of `odd.jsonl` is not a JSON object", "column 15"]);
    context.write("value.jsonl", "{\"doc_id\": 0, \"resps\": [tru]}\n");
    fails(&context, &["value.jsonl"], &["`resps` of document 0 in `value.jsonl` is not JSON"]);
    context.write("data.jsonl", "{\"question\": \"Why?\"}\n");
    fails(&context, &["data.jsonl"], &["neither `doc_hash` nor `doc_id`", "--log_samples"]);
    fs_err::write(context.work().join("bytes.jsonl"), [0x89, b'P', b'N', b'G', 0xff, b'\n']).unwrap();
    fails(&context, &["bytes.jsonl"], &["line 1 of `bytes.jsonl` is not UTF-8"]);
    context.write("empty.jsonl", "");
    let output = context.run(&["samples", "empty.jsonl"]);
    assert!(output.status == 0 && output.stderr.contains("None of 0 documents"), "{output}");
    fs_err::create_dir(context.work().join("folder")).unwrap();
    fails(&context, &["folder"], &["There are no results in `folder`"]);
    fails(&context, &["nowhere"], &["`nowhere` does not exist"]);
    context.write("answers.journal", "x");
    fails(&context, &["answers.journal"], &["no results beside it"]);
    context.write("notes.txt", "hello");
    fails(&context, &["notes.txt"], &["not a results file"]);
    let output =
        context.run(&["run", "--model", "uniform", "--tasks", "demo_capitals", "--output_path", "bare"]);
    assert_eq!(output.status, 0, "{output}");
    fails(&context, &["bare"], &["no samples beside", "--log_samples"]);
}

#[test]
fn sorting_by_text_numbers_and_everything_else() {
    let context = context();
    let mut text = String::new();
    for (id, value) in ["\"b\"", "2", "null", "\"a\"", "[1]", "-1.5", "true"].iter().enumerate() {
        let _ = writeln!(text, "{{\"doc_id\": {id}, \"doc\": {{\"v\": {value}}}, \"metrics\": []}}");
    }
    context.write("f.jsonl", text);
    let ids = |sort: &str| -> Vec<i64> {
        let rows = lines(&context, &["f.jsonl", "--sort", sort, "--fields", "doc_id"]);
        rows.iter().map(|row| row["doc_id"].as_i64().unwrap()).collect()
    };
    assert_eq!(ids("doc.v"), [5, 6, 1, 3, 0, 4, 2]);
    assert_eq!(ids("-doc.v"), [4, 0, 3, 1, 6, 5, 2]);
    assert_eq!(ids("doc_id % 2"), [0, 2, 4, 6, 1, 3, 5]);
}

#[test]
fn first_of_many_equal_those_of_the_whole_order() {
    let context = context();
    // More than are kept while searching for the first few.
    let text: String = (0..3000).map(|id| sample(id * 7919 % 3000, "a", "1")).collect();
    context.write("f.jsonl", text);
    let fields = ["f.jsonl", "--fields", "doc_id,doc.n"];
    let all = lines(&context, &[&fields[..], &["--sort", "doc.n"]].concat());
    let first = lines(&context, &[&fields[..], &["--sort", "doc.n", "-n", "10"]].concat());
    assert_eq!((all.len(), &all[..10]), (3000, &first[..]));
}

#[test]
fn reader_that_goes_away_ends_the_command() {
    let context = context();
    let text: String = (0..20_000).map(|id| sample(id, "a", "1")).collect();
    context.write("f.jsonl", text);
    let call = format!("'{}' samples f.jsonl | head -n 1", env!("CARGO_BIN_EXE_lm-eval"));
    let output =
        std::process::Command::new("sh").args(["-c", &call]).current_dir(context.work()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "f document 0: right, em 1\n");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}
