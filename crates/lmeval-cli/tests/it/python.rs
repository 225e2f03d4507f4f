//! Tasks with Python functions.

use std::time::Duration;

use lmeval_testkit::TestContext;

use crate::context;
use crate::server::Server;

const UTILS: &str = r#"
def process_docs(dataset):
    print("there are", len(dataset))
    return dataset.filter(lambda doc: doc["answer"] != "")

def doc_to_text(doc):
    return f"What is {doc['left']} + {doc['right']}?\nAnswer:"

def process_results(doc, results):
    return {"even": doc["left"] % 2 == 0, "pair": (doc["left"], len(results))}

def largest(items):
    return float(max(left for left, _ in items))

def data(size, **metadata):
    return {"test": [{"left": i, "right": i * i} for i in range(size)]}

def shorten(resps, docs):
    return [[r[:3] for r in resp] for resp in resps]

class Upper:
    def apply(self, resps, docs):
        return [[r.upper() for r in resp] for resp in resps]

def length(references, predictions):
    return [float(len(p)) for p in predictions if p == p.upper()]

def bad(doc):
    raise ValueError(f"no {doc['left']}")

def slow(doc):
    import time
    time.sleep(60)

def slow_later(doc):
    if doc["left"] > 0:
        with open("calls.txt", "a") as calls:
            calls.write("called\n")
        slow(doc)
    return "first"
"#;

fn tasks() -> TestContext {
    let context = context();
    context.write("tasks/utils.py", UTILS);
    let sums = "task: sums\ndataset_path: json\ndataset_kwargs: {data_files: {test: sums.jsonl}}\ntest_split: test\n\
        output_type: generate_until\nprocess_docs: !function utils.process_docs\ndoc_to_text: !function utils.doc_to_text\n\
        doc_to_target: '{{answer}}'\nprocess_results: !function utils.process_results\n\
        metric_list: [{metric: even}, {metric: pair, aggregation: !function utils.largest}]\n";
    context.write("tasks/sums.yaml", sums);
    let made = "task: made\ncustom_dataset: !function utils.data\nmetadata: {size: 5}\ntest_split: test\n\
        output_type: generate_until\ndoc_to_text: '{{left}}'\ndoc_to_target: '{{right}}'\n\
        filter_list: [{name: own, filter: [{function: custom, filter_fn: !function utils.shorten}, {function: !function utils.Upper}]}]\n\
        metric_list: [{metric: !function utils.length, aggregation: mean}]\n";
    context.write("tasks/made.yaml", made);
    context.write(
        "tasks/bad.yaml",
        made.replace("task: made", "task: bad").replace("'{{left}}'", "!function utils.bad"),
    );
    let slow = made.replace("task: made", "task: slow").replace("'{{left}}'", "!function utils.slow");
    context.write("tasks/slow.yaml", slow.as_str());
    let later = slow.replace("task: slow", "task: slow_later").replace("utils.slow", "utils.slow_later");
    context.write("tasks/slow_later.yaml", later.replace("size: 5", "size: 300"));
    context.write("tasks/class.yaml", "task: classy\nclass: !function utils.Upper\n");
    let line = |left: usize| {
        let answer = if left == 3 { String::new() } else { left.to_string() };
        format!("{{\"left\": {left}, \"right\": 1, \"answer\": \"{answer}\"}}\n")
    };
    context.write("sums.jsonl", (0..8).map(line).collect::<String>());
    context
}

const LIBRARY: [&str; 4] = ["--library", "none", "--include_path", "tasks"];

#[test]
fn calls_functions() {
    let context = tasks();
    let output = context.run(&[&["preview", "sums", "-n", "1"][..], &LIBRARY].concat());
    assert!(output.stdout.contains("|What is 0 + 1?|"), "{output:?}");
    assert!(output.stderr.contains("there are 8"), "{output:?}");
    let run =
        ["run", "--model", "dummy", "--tasks", "sums,made", "--bootstrap_iters", "0", "--format", "json"];
    let output = context.run(&[&run[..], &LIBRARY].concat());
    let results: serde_json::Value =
        serde_json::from_str(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    let score = |task: &str, key: &str| results["results"][task][key].as_f64();
    assert_eq!(score("sums", "even,none"), Some(4.0 / 7.0), "{results}");
    assert_eq!(score("sums", "pair,none"), Some(7.0), "{results}");
    assert_eq!(score("made", "length,own"), Some(3.0), "{results}");
}

#[test]
fn errors_name_function_and_document() {
    let context = tasks();
    let output = context.run(&[&["run", "--model", "dummy", "--tasks", "bad"][..], &LIBRARY].concat());
    assert_eq!(output.status, 1);
    for part in ["in bad", "document 0", "`utils.bad` failed: ValueError: no 0"] {
        assert!(output.stderr.contains(part), "{part}: {}", output.stderr);
    }
    let output = context.run(&[&["preview", "classy"][..], &LIBRARY].concat());
    assert!(output.stderr.contains("`classy` from its Python class"), "{output:?}");
    let absent = [&["preview", "sums", "--python", "/no/such/python"][..], &LIBRARY].concat();
    assert!(context.run(&absent).stderr.contains("Cannot start Python `/no/such/python`"));
}

#[test]
fn environment_limits_calls() {
    let context = tasks();
    let preview = [&["preview", "slow", "-n", "1"][..], &LIBRARY].concat();
    let output = context.command(&preview).env("LM_EVAL_PYTHON_TIMEOUT", "1").run();
    assert!(output.stderr.contains("`utils.slow` failed"), "{output:?}");
    let output = context.command(&preview).env("LM_EVAL_PYTHON_TIMEOUT", "soon").run();
    let message = "`LM_EVAL_PYTHON_TIMEOUT` must be a positive integer, not `soon`";
    assert!(output.stderr.contains(message), "{output:?}");
}

#[test]
fn hanging_prompt_function_times_out_once() {
    let context = tasks();
    let run = [&["run", "--model", "dummy", "--tasks", "slow_later"][..], &LIBRARY].concat();
    let limits = [("LM_EVAL_PYTHON_TIMEOUT", "1"), ("LM_EVAL_PYTHON_WORKERS", "1")];
    let output = limits.iter().fold(context.command(&run), |run, (name, value)| run.env(name, value)).run();
    assert_eq!(output.status, 1, "{output}");
    assert!(output.stderr.contains("`utils.slow_later` failed"), "{output}");
    assert!(output.stderr.contains("no answer within 1 seconds"), "{output}");
    // Without stopping at the first failure, all of the first 256 documents would be tried. One call is usual; a thread that
    // reaches an earlier document only after the timeout tries that one, so that the first failure is the one reported.
    let calls = fs_err::read_to_string(context.work().join("calls.txt")).unwrap();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    assert!((1..=threads).contains(&calls.lines().count()), "{calls}");
}

#[test]
fn rejects_values_that_cannot_be_aggregated_early() {
    let context = context();
    context.write("tasks/utils.py", "def marks(references, predictions):\n    return [1.0, 0.0]\n\ndef flat(items):\n    return sum(sum(item) for item in items) / len(items)\n");
    let task = "task: marked\ndataset_path: json\ndataset_kwargs: {data_files: {test: numbers.jsonl}}\ntest_split: test\n\
        output_type: generate_until\ndoc_to_text: 'Number {{n}}:'\ndoc_to_target: '{{n}}'\n\
        metric_list: [{metric: !function utils.marks, aggregation: mean}]\n";
    context.write("tasks/marked.yaml", task);
    let rows: Vec<String> = (0..200).map(|n| format!("{{\"n\": {n}}}\n")).collect();
    context.write("numbers.jsonl", rows.concat());
    let server = Server::start(Duration::from_millis(15), None);
    let model_args = format!("model=m,base_url={},num_concurrent=1,tokenizer_backend=None", server.url);
    let run = ["run", "--model", "local-completions", "--model_args", &model_args, "--tasks", "marked"];
    let run = [&run[..], &LIBRARY, &["--output_path", "out"]].concat();
    let output = context.run(&run);
    assert_eq!(output.status, 1, "{output}");
    for part in
        ["`marked`", "`mean` of `marks` does not accept the value of document 0", "[1.0, 0.0]", "hint: "]
    {
        assert!(output.stderr.contains(part), "{part}: {output}");
    }
    let sent = server.requests();
    assert!((1..200).contains(&sent), "{sent}");
    // Answers are reused once the task is fixed.
    context.write("tasks/marked.yaml", task.replace("mean", "!function utils.flat"));
    let output = context.run(&[&run[..], &["--format", "json"]].concat());
    assert_eq!(output.status, 0, "{output}");
    assert!(output.stdout.contains("\"marks,none\": 1.0"), "{output}");
    assert_eq!(server.requests(), 200);
}
