//! Locks of runs: `lm-eval lock diff`, and `run --locked`.

use lmeval_testkit::{ServerOptions, StandInServer, TestContext};
use serde_json::{Value, json};

use crate::context;

const BASE: &str = "dataset_path: json\ndataset_kwargs: {data_files: {train: train.jsonl, test: test.jsonl}}\ntest_split: test\nfewshot_split: train\nnum_fewshot: 2\n";
const TASK: &str = "include: base.yaml\ntask: sums\noutput_type: generate_until\ndoc_to_text: !function utils.question\ndoc_to_target: '{{a}}'\n\
     generation_kwargs: {until: [\"\\n\"], max_gen_toks: 8}\n\
     filter_list:\n- {name: number, filter: [{function: regex, regex_pattern: '([0-9]+)'}, {function: take_first}]}\n\
     metric_list: [{metric: exact_match}]\n";
const UTILS: &str = "def question(doc):\n    return f\"{doc['q']} =\"\n";

const TOKENIZER: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../lmeval-tokenizers/tests/data/tokenizer/tokenizer.json");

fn rows(prefix: &str, count: usize) -> String {
    let rows =
        (0..count).map(|index| json!({"q": format!("{prefix}{index} + 1"), "a": index + 1}).to_string());
    rows.collect::<Vec<_>>().join("\n")
}

fn write(context: &TestContext) {
    context.write("tasks/base.yaml", BASE);
    context.write("tasks/sums.yaml", TASK);
    context.write("tasks/utils.py", UTILS);
    context.write("tasks/test.jsonl", rows("", 12));
    context.write("tasks/train.jsonl", rows("9", 6));
    let tokenizer = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}";
    context.write("model/tokenizer.json", fs_err::read_to_string(TOKENIZER).unwrap());
    context.write(
        "model/tokenizer_config.json",
        json!({"chat_template": tokenizer, "eos_token": "</s>"}).to_string(),
    );
}

fn run(context: &TestContext, server: &StandInServer, out: &str, more: &[&str]) {
    let args = format!(
        "model=m,base_url={},tokenizer_backend=huggingface,tokenizer=model",
        server.url("/v1/completions")
    );
    let words = [
        "run",
        "--model",
        "local-completions",
        "--model_args",
        &args,
        "--tasks",
        "tasks/sums.yaml",
        "--limit",
        "8",
    ];
    let output = context.run(&[&words[..], &["--output_path", out, "--apply_chat_template"], more].concat());
    assert_eq!(output.status, 0, "{output}");
}

/// What `lock diff` names, as `suspect: what`.
fn diff(context: &TestContext, base: &str, new: &str) -> Vec<String> {
    let output = context.run(&["lock", "diff", base, new, "--json"]);
    let found: Vec<String> = output
        .stdout
        .lines()
        .map(|line| {
            let one: Value = serde_json::from_str(line).unwrap();
            format!("{}: {}", one["suspect"].as_str().unwrap(), one["what"].as_str().unwrap())
        })
        .collect();
    assert_eq!(output.status, i32::from(!found.is_empty()), "{output}");
    found
}

/// A name, files that change, flags of the second run, and what is named.
type Drift<'a> = (&'a str, &'a [(&'a str, String)], &'a [&'a str], &'a [&'a str]);

#[test]
fn every_drift_is_named_and_nothing_else() {
    let server = StandInServer::start(ServerOptions::default());
    let template = json!({"chat_template": "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}", "eos_token": "</s>"}).to_string();
    let mut data = rows("", 12);
    data = data.replace("3 + 1", "3 + 2");
    let drifts: [Drift<'_>; 18] = [
        ("a row", &[("tasks/test.jsonl", data)], &[], &["data: documents or examples"]),
        (
            "a row behind the limit",
            &[("tasks/test.jsonl", rows("", 12).replace("10 + 1", "10 + 2"))],
            &[],
            &[],
        ),
        (
            "a comment",
            &[("tasks/sums.yaml", TASK.replace("task: sums", "task: sums  # of numbers"))],
            &[],
            &[],
        ),
        (
            "the order of keys",
            &[(
                "tasks/base.yaml",
                BASE.replace("num_fewshot: 2\n", "").replace("dataset_path", "num_fewshot: 2\ndataset_path"),
            )],
            &[],
            &[],
        ),
        (
            "the name of a file",
            &[
                ("tasks/base.yaml", BASE.replace("test.jsonl", "other.jsonl")),
                ("tasks/other.jsonl", rows("", 12)),
            ],
            &[],
            &[],
        ),
        (
            "another spelling of a prompt",
            &[("tasks/sums.yaml", TASK.replace("!function utils.question", "'{{q}} ='"))],
            &[],
            &[],
        ),
        ("a function", &[("tasks/utils.py", UTILS.replace(" =", ":"))], &[], &["definition: doc_to_text"]),
        (
            "an included key",
            &[("tasks/base.yaml", format!("{BASE}description: Sums.\n"))],
            &[],
            &["definition: description"],
        ),
        (
            "a filter",
            &[("tasks/sums.yaml", TASK.replace("[0-9]+", "-?[0-9]+"))],
            &[],
            &["definition: filter_list"],
        ),
        (
            "a stop string",
            &[("tasks/sums.yaml", TASK.replace("\\n\"]", "\\n\", \"#\"]"))],
            &[],
            &["generation: generation_kwargs"],
        ),
        ("the template", &[("model/tokenizer_config.json", template)], &[], &["template: chat template"]),
        (
            "the tokenizer",
            &[(
                "model/tokenizer.json",
                fs_err::read_to_string(TOKENIZER).unwrap().replace("\"[\":60", "\"[\":800"),
            )],
            &[],
            &["model: tokenizer file"],
        ),
        ("a system prompt", &[], &["--system_instruction", "Add."], &["template: system prompt"]),
        ("turns", &[], &["--fewshot_as_multiturn", "false"], &["template: fewshot_as_multiturn"]),
        ("the seed of examples", &[], &["--seed", "0,1234,1234,7"], &["selection: fewshot_seed"]),
        (
            "the number of examples",
            &[],
            &["--num_fewshot", "1"],
            &["selection: num_fewshot", "selection: number of examples"],
        ),
        ("the temperature", &[], &["--gen_kwargs", "temperature=0.5"], &["generation: gen_kwargs"]),
        ("the release line", &[], &["--compat", "0.4"], &["scoring: compat"]),
    ];
    for (name, files, flags, expected) in drifts {
        let context = context();
        write(&context);
        run(&context, &server, "base", &[]);
        for (path, text) in files {
            context.write(path, text);
        }
        run(&context, &server, "new", flags);
        assert_eq!(diff(&context, "base", "new"), expected, "{name}");
        let [base, new] = ["base", "new"].map(|out| format!("{out}/m"));
        assert_eq!(diff(&context, &base, &new), expected, "{name}");
    }
}

#[test]
fn a_locked_run_repeats_the_settings_and_refuses_to_differ() {
    let context = context();
    write(&context);
    let server = StandInServer::start(ServerOptions::default());
    run(&context, &server, "base", &[]);
    let asked = server.total();
    // Everything comes from the lock, and from the answers of the first run nothing.
    let again = ["run", "--locked", "base", "--output_path", "again"];
    let output = context.run(&again);
    assert_eq!(output.status, 0, "{output}");
    assert_eq!(diff(&context, "base", "again"), Vec::<String>::new());
    assert!(server.total() > asked);
    let asked = server.total();
    context.write("tasks/test.jsonl", rows("", 12).replace("3 + 1", "3 + 2"));
    let output = context.run(&[&again[..], &["--num_fewshot", "1"]].concat());
    assert_eq!(output.status, 1, "{output}");
    for problem in
        ["would differ from", "selection: num_fewshot, `None` there and `1` here", "Nothing was sent"]
    {
        assert!(output.stderr.contains(problem), "{output}");
    }
    let output = context.run(&again);
    assert!(
        output.status == 1 && output.stderr.contains("data: documents or examples of `sums`"),
        "{output}"
    );
    assert_eq!(server.total(), asked);
    // Batches change the last digits at most.
    context.write("tasks/test.jsonl", rows("", 12));
    let output = context.run(&[&again[..], &["--batch_size", "4", "--fresh"]].concat());
    assert_eq!(output.status, 0, "{output}");
    assert!(output.stderr.contains("environment: batch_size, `1` there and `4` here"), "{output}");
}

#[test]
fn locks_have_no_secrets() {
    let context = context();
    write(&context);
    let server = StandInServer::start(ServerOptions::default());
    let args = format!(
        "model=m,base_url={},tokenizer_backend=None,tokenized_requests=False,api_key=sk-Q7f93kd02Kd93jf",
        server.url("/v1/completions")
    );
    let words = [
        "run",
        "--model",
        "local-completions",
        "--model_args",
        &args,
        "--tasks",
        "demo_arithmetic",
        "--limit",
        "1",
        "--output_path",
        "out",
    ];
    assert_eq!(context.run(&words).status, 0);
    let lock = fs_err::read_to_string(crate::long_run::newest(&context.work().join("out"), "eval_")).unwrap();
    assert!(!lock.contains("sk-Q7f93kd02Kd93jf") && !lock.contains("***"), "{lock}");
    assert!(lock.contains("\"base_url\""), "{lock}");
}

#[test]
fn problems_with_locks_are_named() {
    let context = context();
    context.write("some.lock", "{}");
    context.write("damaged.lock", "{\"lock\": 1, \"run\": {}}");
    context.write("later.lock", "{\"lock\": 2}");
    context.write("results_x.json", "{}");
    for (path, problem) in [
        ("some.lock", "`some.lock` is not a lock"),
        ("damaged.lock", "The file has no `tasks`"),
        ("later.lock", "has the form 2"),
        ("missing.lock", "`missing.lock` does not exist"),
        ("results_x.json", "`results_x.json` has no lock"),
        ("model", "`model` does not exist"),
    ] {
        let output = context.run(&["lock", "diff", path, path]);
        assert!(output.status == 1 && output.stderr.contains(problem), "{output}");
        let output = context.run(&["run", "--locked", path]);
        assert!(output.status == 1 && output.stderr.contains(problem), "{output}");
    }
    fs_err::create_dir(context.work().join("empty")).unwrap();
    let output = context.run(&["lock", "diff", "empty", "empty"]);
    assert!(output.stderr.contains("There is no lock in `empty`"), "{output}");
}
