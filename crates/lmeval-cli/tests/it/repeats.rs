//! Several answers to each document: `--repeats`, `--reductions` and options of single tasks.

use lmeval_testkit::{Output, Scripted, StandInServer, TestContext};
use serde_json::{Value, json};

use crate::context;
use crate::judge::{asked, number_after, server};
use crate::long_run::newest;

/// Of four answers to each document, those to questions 1 to 5 are right, wrong, wrong, right; to 6 to 10, right, other,
/// right, wrong. So answers agree on a wrong one in the first half, and on the right one in the second.
fn answers(body: &Value, before: usize) -> Scripted {
    let question = number_after(asked(body), "Question ");
    let text = match (question <= 5, before % 4) {
        (true, 0 | 3) | (false, 0 | 2) => "#### 4",
        (false, 1) => "#### 9",
        _ => "#### 7",
    };
    let message = json!({"role": "assistant", "content": text});
    Scripted::Body(200, json!({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}))
}

fn write_tasks(context: &TestContext) {
    let rows: Vec<String> =
        (1..=10).map(|number| json!({"q": format!("Question {number}")}).to_string()).collect();
    context.write("rows.jsonl", rows.join("\n"));
    let task = |name: &str| {
        format!(
            "task: {name}\ndataset_path: json\ndataset_kwargs: {{data_files: {{test: rows.jsonl}}}}\ntest_split: test\n\
             output_type: generate_until\ndoc_to_text: \"{{{{q}}}}?\"\ndoc_to_target: '4'\n\
             generation_kwargs: {{until: [], max_gen_toks: 20, do_sample: true, temperature: 1}}\n\
             metric_list: [{{metric: exact_match}}]\n\
             filter_list: [{{name: strict, filter: [{{function: regex}}, {{function: take_first}}]}}]\n"
        )
    };
    context.write("tasks/sums.yaml", task("sums"));
    context.write("tasks/more.yaml", task("more"));
}

fn run(context: &TestContext, server: &StandInServer, tasks: &str, out: &str, more: &[&str]) -> Output {
    let args = format!("model=m,base_url={},num_concurrent=1", server.url("/v1/chat/completions"));
    let words =
        ["run", "--model", "local-chat-completions", "--model_args", &args, "--include_path", "tasks"];
    let output = ["--tasks", tasks, "--apply_chat_template", "--log_samples", "--output_path", out];
    context.run(&[&words[..], &output, more].concat())
}

fn results(context: &TestContext, out: &str) -> Value {
    let path = newest(&context.work().join(out), "results_");
    serde_json::from_str(&fs_err::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn reductions_score_all_repeats() {
    let context = context();
    write_tasks(&context);
    let server = server(answers);
    let output =
        run(&context, &server, "sums", "out", &["--repeats", "4", "--reductions", "avg@4,pass@2,maj@4"]);
    assert_eq!(output.status, 0, "{output}");
    assert!(!output.stderr.contains("only the first"), "{output}");
    let results = results(&context, "out");
    let scores = &results["results"]["sums"];
    assert_eq!(scores["avg@4(exact_match),strict"], json!(0.5), "{output}");
    // Two of four are right: 1 - C(2, 2) / C(4, 2).
    let pass = scores["pass@2(exact_match),strict"].as_f64().unwrap();
    assert!((pass - 5.0 / 6.0).abs() < 1e-12, "{output}");
    // 4, 7, 7, 4 is a tie that the first wins; 4, 9, 4, 7 is a vote for 4.
    assert_eq!(scores["exact_match,strict-maj@4"], json!(1.0), "{output}");
    assert_eq!(scores.get("exact_match,strict"), None);
    assert_eq!(results["configs"]["sums"]["reductions"], json!(["avg@4", "pass@2", "maj@4"]));
    // Scored again as in the run, and in another way, without a server.
    let rescored = context.run(&["rescore", "out", "--include_path", "tasks", "--output_path", "again"]);
    assert_eq!(rescored.status, 0, "{rescored}");
    assert_eq!(self::results(&context, "again")["results"], results["results"]);
    let words = [
        "rescore",
        "out",
        "--include_path",
        "tasks",
        "--output_path",
        "other",
        "--reductions",
        "avg@2,maj@3",
    ];
    let rescored = context.run(&words);
    assert_eq!(rescored.status, 0, "{rescored}");
    let other = &self::results(&context, "other")["results"]["sums"];
    assert_eq!(other["avg@2(exact_match),strict"], json!(0.5));
    // 4, 7, 7 for five documents, and 4, 9, 4 for five.
    assert_eq!(other["exact_match,strict-maj@3"], json!(0.5));
}

#[test]
fn options_of_one_task_win_over_those_of_the_run() {
    let context = context();
    write_tasks(&context);
    let server = server(answers);
    let output =
        run(&context, &server, "sums:repeats=4:reductions=avg@4+pass@1,more", "out", &["--repeats", "2"]);
    assert_eq!(output.status, 0, "{output}");
    let results = results(&context, "out");
    assert_eq!(results["configs"]["sums"]["repeats"], 4);
    assert_eq!(results["configs"]["more"]["repeats"], 2);
    assert_eq!(results["results"]["sums"]["avg@4(exact_match),strict"], json!(0.5));
    assert!(results["results"]["more"].get("exact_match,strict").is_some());
    let warning = "only the first of 2 answers is scored, because of the filter `take_first`: more. \
                   `--reductions avg@2,pass@1,maj@2` scores all";
    assert!(output.stderr.contains(warning), "{output}");
}

#[test]
fn reductions_that_cannot_be_computed_stop_the_run_before_it_asks() {
    let context = context();
    write_tasks(&context);
    let server = server(answers);
    for (more, problem) in [
        (
            &["--repeats", "4", "--reductions", "avg@8"][..],
            "`avg@8` needs 8 answers to each document, and there are 4",
        ),
        (&["--reductions", "maj@2"], "needs 2 answers to each document, and there is one"),
        (&["--repeats", "4", "--reductions", "agv@4"], "`agv@4` is not a known reduction"),
    ] {
        let output = run(&context, &server, "sums", "out", more);
        assert!(output.status != 0 && output.stderr.contains(problem), "{output}");
    }
    let output = run(&context, &server, "sums:temperature=1", "out", &[]);
    assert!(output.status != 0 && output.stderr.contains("no option `temperature`"), "{output}");
    assert_eq!(server.connections(), 0);
}
