//! `lm-eval budget`: the curve of one run equals direct runs with each limit.

use lmeval_testkit::{Output, Scripted, StandInServer, TestContext};
use serde_json::{Value, json};

use crate::context;
use crate::hf;
use crate::judge::{self, asked, number_after, server};
use crate::long_run::newest;

const DOCUMENTS: usize = 24;

/// The words of the answer to a question: some thoughts, and a result that is right except for every fifth question.
fn words(question: usize, before: usize) -> Vec<String> {
    let length = 1 + (question * 7 + before * 5) % 40;
    let result = if (question + before).is_multiple_of(5) { "=7" } else { "=4" };
    let thoughts =
        (1..length).map(|index| format!("{}{}", (b'a' + (index % 26) as u8) as char, question % 10));
    thoughts.chain([result.to_owned()]).collect()
}

/// A model whose words are tokens. It stops at the limit of a request.
fn limited(body: &Value, before: usize) -> Scripted {
    let words = words(number_after(asked(body), "Question "), before);
    let limit = body["max_tokens"].as_u64().unwrap() as usize;
    let text = words[..words.len().min(limit)].join(" ");
    let reason = if words.len() > limit { "length" } else { "stop" };
    let usage = json!({"prompt_tokens": 3, "completion_tokens": words.len().min(limit)});
    let message = json!({"role": "assistant", "content": text});
    let choice = json!({"index": 0, "message": message, "finish_reason": reason});
    Scripted::Body(200, json!({"choices": [choice], "usage": usage}))
}

/// The same model, whose server returns thoughts apart.
fn apart(body: &Value, before: usize) -> Scripted {
    let words = words(number_after(asked(body), "Question "), before);
    let limit = body["max_tokens"].as_u64().unwrap() as usize;
    let shown = &words[..words.len().min(limit)];
    let (thoughts, result) =
        if shown.len() == words.len() { shown.split_at(words.len() - 1) } else { (shown, &[][..]) };
    let content = result.first().map_or(Value::Null, |result| json!(result));
    let message =
        json!({"role": "assistant", "content": content, "reasoning_content": thoughts.join(" ") + " "});
    let reason = if words.len() > limit { "length" } else { "stop" };
    let choice = json!({"index": 0, "message": message, "finish_reason": reason});
    Scripted::Body(
        200,
        json!({"choices": [choice], "usage": {"prompt_tokens": 3, "completion_tokens": shown.len()}}),
    )
}

fn write_task(context: &TestContext) {
    let row = |number: usize| {
        json!({"q": format!("Question {number}"), "a": words(number, 0).join(" ")}).to_string()
    };
    context.write("rows.jsonl", (1..=DOCUMENTS).map(row).collect::<Vec<_>>().join("\n"));
    context.write(
        "tasks/sums.yaml",
        "task: sums\ndataset_path: json\ndataset_kwargs: {data_files: {test: rows.jsonl}}\ntest_split: test\n\
         output_type: generate_until\ndoc_to_text: \"{{q}}?\"\ndoc_to_target: '{{a}}'\n\
         generation_kwargs: {until: [], max_gen_toks: 64}\nmetric_list: [{metric: chrf}]\n\
         filter_list:\n- {name: whole, filter: [{function: take_first}], metric_list: [{metric: chrf}]}\n",
    );
    context.write(
        "tasks/right.yaml",
        "task: right\ndataset_path: json\ndataset_kwargs: {data_files: {test: rows.jsonl}}\ntest_split: test\n\
         output_type: generate_until\ndoc_to_text: \"{{q}}?\"\ndoc_to_target: '4'\n\
         generation_kwargs: {until: [], max_gen_toks: 64}\nmetric_list: [{metric: exact_match}]\n\
         filter_list:\n- {name: result, filter: [{function: regex, regex_pattern: '=(\\d)'}, {function: take_first}]}\n",
    );
}

fn run(context: &TestContext, server: &StandInServer, out: &str, more: &[&str]) -> Value {
    let args = format!("model=m,base_url={},num_concurrent=1", server.url("/v1/chat/completions"));
    let words =
        ["run", "--model", "local-chat-completions", "--model_args", &args, "--include_path", "tasks"];
    let output = ["--apply_chat_template", "--output_path", out];
    let output = context.run(&[&words[..], &output, more].concat());
    assert_eq!(output.status, 0, "{output}");
    results(context, out)
}

fn results(context: &TestContext, out: &str) -> Value {
    let path = newest(&context.work().join(out), "results_");
    serde_json::from_str(&fs_err::read_to_string(path).unwrap()).unwrap()
}

fn curve(context: &TestContext, words: &[&str]) -> (Value, Output) {
    let output = context.run(&[&["budget"], words, &["--format", "json"]].concat());
    assert_eq!(output.status, 0, "{output}");
    // That answers are cut off is the purpose here.
    assert!(!output.stderr.contains("cut off at the token limit"), "{output}");
    (serde_json::from_str(&output.stdout).unwrap(), output)
}

/// The point of a task with a budget.
fn point<'a>(curve: &'a Value, task: &str, budget: Option<u64>) -> &'a Value {
    let tasks = curve["tasks"].as_array().unwrap();
    let task = tasks.iter().find(|found| found["task"] == task).unwrap();
    let points = task["points"].as_array().unwrap();
    points.iter().find(|point| point["budget"].as_u64() == budget).unwrap()
}

#[test]
fn the_curve_of_one_run_equals_direct_runs() {
    let context = context();
    write_task(&context);
    let server = server(limited);
    let tasks = ["--tasks", "sums,right"];
    let whole = run(&context, &server, "out", &tasks);
    let budgets = [1, 2, 5, 9, 16, 30, 39];
    let list = budgets.map(|budget| budget.to_string()).join(",");
    let (curve, output) = curve(&context, &["out", "--include_path", "tasks", "--budgets", &list]);
    assert!(output.stderr.contains("estimated positions"), "{output}");
    for budget in budgets.map(Some).into_iter().chain([None]) {
        let direct = match budget {
            None => whole.clone(),
            Some(budget) => {
                let limit = format!("max_gen_toks={budget}");
                run(
                    &context,
                    &server,
                    &format!("direct{budget}"),
                    &[&tasks[..], &["--gen_kwargs", &limit]].concat(),
                )
            }
        };
        let right = &point(&curve, "right", budget)["scores"][0];
        assert_eq!(right["value"], direct["results"]["right"]["exact_match,result"], "{budget:?}");
        assert_eq!(right["stderr"], direct["results"]["right"]["exact_match_stderr,result"], "{budget:?}");
        let whole = &point(&curve, "sums", budget)["scores"][0];
        assert_eq!(whole["value"], direct["results"]["sums"]["chrf,whole"], "{budget:?}");
        let cut = direct["audit"]["sums"]["whole"]["truncated"].as_u64().unwrap_or(0) as f64;
        let finished = point(&curve, "sums", budget)["finished"].as_f64().unwrap();
        assert!((finished - (1.0 - cut / DOCUMENTS as f64)).abs() < 1e-12, "{budget:?} {cut} {finished}");
        let tokens: usize =
            (1..=DOCUMENTS).map(|number| words(number, 0).len().min(budget.unwrap_or(99) as usize)).sum();
        let mean = point(&curve, "sums", budget)["tokens"].as_f64().unwrap();
        assert!((mean - tokens as f64 / DOCUMENTS as f64).abs() < 1e-12);
    }
}

#[test]
fn reasoning_that_is_cut_leaves_no_answer() {
    let context = context();
    write_task(&context);
    let server = server(apart);
    run(&context, &server, "out", &["--tasks", "right", "--log_samples"]);
    let samples = fs_err::read_to_string(newest(&context.work().join("out"), "samples_right")).unwrap();
    let first: Value = serde_json::from_str(samples.lines().next().unwrap()).unwrap();
    assert_eq!(first["resps"], json!([["=4"]]));
    assert_eq!(first["reasoning"][0][0], json!(words(1, 0)[..words(1, 0).len() - 1].join(" ") + " "));
    let (curve, _) = curve(&context, &["out", "--include_path", "tasks", "--budgets", "4,12"]);
    for budget in [4, 12] {
        let limit = format!("max_gen_toks={budget}");
        let out = format!("direct{budget}");
        let direct = run(&context, &server, &out, &["--tasks", "right", "--gen_kwargs", &limit]);
        let right = &point(&curve, "right", Some(budget))["scores"][0];
        assert_eq!(right["value"], direct["results"]["right"]["exact_match,result"], "{budget}");
    }
}

#[test]
fn repeats_have_curves_of_their_own() {
    let context = context();
    write_task(&context);
    let server = server(limited);
    let sampled = ["--tasks", "right", "--repeats", "4", "--gen_kwargs", "temperature=1,do_sample=true"];
    run(&context, &server, "out", &sampled);
    let output = context.run(&[
        "budget",
        "out",
        "--include_path",
        "tasks",
        "--budgets",
        "8",
        "--output_path",
        "out/m",
    ]);
    assert_eq!(output.status, 0, "{output}");
    assert!(output.stdout.contains("|pass@k|"), "{output}");
    assert!(output.stderr.contains("`right` has 4 answers to each document"), "{output}");
    let (curve, _) = curve(&context, &["out", "--include_path", "tasks", "--budgets", "8"]);
    let whole = point(&curve, "right", None);
    let at = |reduction: &str, k: u64| {
        let all = whole["repeats"].as_array().unwrap();
        all.iter().find(|at| at["reduction"] == reduction && at["k"] == k).unwrap()
    };
    let rescore = |reduction: &str, out: &str| {
        let words =
            ["rescore", "out", "--include_path", "tasks", "--reductions", reduction, "--output_path", out];
        let output = context.run(&words);
        assert_eq!(output.status, 0, "{output}");
        results(&context, out)["results"]["right"].clone()
    };
    let averages = rescore("avg@4", "avg");
    assert_eq!(at("avg", 4)["value"], averages["avg@4(exact_match),result"]);
    assert_eq!(at("avg", 1)["value"], at("avg", 4)["value"]);
    let passes = rescore("pass@2", "pass");
    let (found, expected) = (at("pass", 2)["value"].as_f64(), passes["pass@2(exact_match),result"].as_f64());
    assert!((found.unwrap() - expected.unwrap()).abs() < 1e-12);
    let width = |at: &Value| at["interval"][1].as_f64().unwrap() - at["interval"][0].as_f64().unwrap();
    assert!(width(at("avg", 1)) > width(at("avg", 4)));
    assert!(at("maj", 4)["value"].as_f64().unwrap() > at("maj", 1)["value"].as_f64().unwrap());
    // All formats are written next to the results.
    let files = fs_err::read_dir(context.work().join("out/m")).unwrap().map(|entry| entry.unwrap().path());
    let curves: Vec<_> = files.filter(|path| path.display().to_string().contains("budget_")).collect();
    assert_eq!(curves.len(), 4, "{curves:?}");
    for path in curves {
        assert!(fs_err::metadata(&path).unwrap().len() > 300, "{}", path.display());
    }
}

#[test]
fn native_generations_are_cut_to_the_byte() {
    let context = hf::prepared();
    let args = format!("pretrained={}", hf::model().display());
    let run = |out: &str, more: &[&str]| {
        let words =
            ["run", "--model", "hf", "--model_args", &args, "--device", "cpu", "--include_path", "tasks"];
        let output = ["--tasks", "long", "--limit", "8", "--log_samples", "--output_path", out];
        let output = context.run(&[&words[..], &output, more].concat());
        assert_eq!(output.status, 0, "{output}");
        results(&context, out)
    };
    let metric = "metric_list:\n- metric: chrf\n- metric: ter\n";
    let text = fs_err::read_to_string(context.work().join("tasks/long.yaml")).unwrap();
    context.write("tasks/long.yaml", text + metric);
    run("out", &["--gen_kwargs", "max_gen_toks=48"]);
    let (curve, output) = curve(&context, &["out", "--include_path", "tasks", "--budgets", "1,3,10,33"]);
    assert!(!output.stderr.contains("tokenizer"), "{output}");
    for budget in [1, 3, 10, 33] {
        let limit = format!("max_gen_toks={budget}");
        let direct = run(&format!("direct{budget}"), &["--gen_kwargs", &limit]);
        for score in point(&curve, "long", Some(budget))["scores"].as_array().unwrap() {
            let name = format!("{},none", score["metric"].as_str().unwrap());
            assert_eq!(score["value"], direct["results"]["long"][&name], "{budget} {name}");
        }
    }
}

#[test]
fn problems_are_explained() {
    let context = context();
    write_task(&context);
    let server = server(limited);
    run(&context, &server, "out", &["--tasks", "right", "--gen_kwargs", "max_gen_toks=10"]);
    let budget =
        |words: &[&str]| context.run(&[&["budget", "out", "--include_path", "tasks"], words].concat());
    let output = budget(&["--budgets", "4,16"]);
    assert!(output.stderr.contains("The run itself cut answers off at 10 tokens"), "{output}");
    assert!(output.stdout.contains("|     4|") && !output.stdout.contains("|    16|"), "{output}");
    for (words, problem) in [
        (&["--budgets", "0"][..], "`0` is not a number of tokens"),
        (&["--budgets", "4", "--tokenizer", "missing"], "missing"),
        (&["--tasks", "nothing"], "nothing"),
    ] {
        let words = [&["budget", "out", "--include_path", "tasks"], words].concat();
        let output = context.command(&words).env("HF_HUB_OFFLINE", "1").run();
        assert!(output.status != 0 && output.stderr.contains(problem), "{output}");
    }
    let output = context.run(&["budget", "absent"]);
    assert!(output.status == 1 && output.stderr.contains("absent"), "{output}");
}

#[test]
fn a_run_scores_its_own_budgets() {
    let context = context();
    write_task(&context);
    let server = server(limited);
    let args = format!("model=m,base_url={},num_concurrent=1", server.url("/v1/chat/completions"));
    let words = ["run", "--model", "local-chat-completions", "--model_args", &args, "--apply_chat_template"];
    let more = ["--tasks", "tasks/right.yaml", "--budgets", "8,1k"];
    let output = context.run(&[&words[..], &more].concat());
    assert!(output.status == 1 && output.stderr.contains("`--budgets` needs a folder"), "{output}");
    let output = context.run(&[&words[..], &more, &["--output_path", "out"]].concat());
    assert_eq!(output.status, 0, "{output}");
    assert!(output.stdout.contains("|right|result|exact_match|     8|"), "{output}");
    let results = results(&context, "out");
    assert_eq!(results["config"]["gen_kwargs"]["max_gen_toks"], 1024, "{output}");
    let (curve, _) = curve(&context, &["out", "--tasks", "tasks/right.yaml", "--budgets", "8"]);
    let value = point(&curve, "right", Some(8))["scores"][0]["value"].as_f64().unwrap();
    assert!(output.stdout.contains(&format!("|{value:.4}|")), "{output}");
}

/// Answers of as many words as the number of their question, and judges that find the odd ones right.
fn judged(body: &Value, _: usize) -> Scripted {
    let text = asked(body);
    let question = number_after(text, "Question ");
    if text.contains("Grade this") {
        return Scripted::Text(if question % 2 == 1 { "GRADE: C" } else { "GRADE: I" }.to_owned());
    }
    let (words, limit) = (question, body["max_tokens"].as_u64().unwrap() as usize);
    let text = vec!["word"; words.min(limit)].join(" ");
    let reason = if words > limit { "length" } else { "stop" };
    let usage = json!({"prompt_tokens": 3, "completion_tokens": words.min(limit)});
    let message = json!({"role": "assistant", "content": text});
    let choice = json!({"index": 0, "message": message, "finish_reason": reason});
    Scripted::Body(200, json!({"choices": [choice], "usage": usage}))
}

#[test]
fn judgements_count_only_where_the_text_is_the_same() {
    let (context, server) = (context(), server(judged));
    judge::write_task(&context, 8, judge::GRADED);
    let output = judge::run(&context, &judge::arguments(&server, &["grader"], &judge::OUT));
    assert_eq!(output.status, 0, "{output}");
    let before = server.total();
    // Of the answers with 1 to 8 words, those with at most 3 are not cut at a budget of 3.
    let (curve, output) = curve(&context, &["out", "--tasks", "judged.yaml", "--budgets", "3,8"]);
    assert_eq!(server.total(), before, "no judge is asked: {output}");
    let (short, whole) = (point(&curve, "judged", Some(3)), point(&curve, "judged", Some(8)));
    // Of questions 1 to 3, two are odd. With the judgements of cut answers, both scores would be 0.5.
    assert_eq!(
        (&short["scores"][0]["value"], &whole["scores"][0]["value"]),
        (&json!(2.0 / 3.0), &json!(0.5))
    );
    assert_eq!((&short["finished"], &whole["finished"]), (&json!(0.375), &json!(1.0)), "{curve}");
}
