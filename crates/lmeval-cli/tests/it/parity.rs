//! Runs the reference and `--compat 0.4` against the same server: same requests, same files, same tables.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use lmeval_testkit::{ServerOptions, StandInServer, TestContext, test_environment};
use serde_json::{Value, json};

/// Keys that may differ: clocks, versions, the machine, and keys that only one of them writes.
const DIFFERS: [&str; 10] = [
    "date",
    "total_evaluation_time_seconds",
    "pretty_env_info",
    "transformers_version",
    "lm_eval_version",
    "git_hash",
    "upper_git_hash",
    "audit",
    "compat",
    "rescored",
];

const TASKS: [(&str, &str); 7] = [
    (
        "choice.yaml",
        "task: choice\ndataset_path: json\ndataset_kwargs: {data_files: {test: tasks/choice.jsonl, train: tasks/choice.jsonl}}\n\
         test_split: test\nfewshot_split: train\noutput_type: multiple_choice\ndoc_to_text: '{{q}}'\ndoc_to_choice: options\n\
         doc_to_target: gold\nmetric_list: [{metric: acc}, {metric: acc_norm}, {metric: acc_mutual_info}]\nmetadata: {version: 2.0}\n",
    ),
    (
        "last.yaml",
        "task: last\ndataset_path: json\ndataset_kwargs: {data_files: {test: tasks/choice.jsonl}}\ntest_split: test\n\
         output_type: loglikelihood\ndoc_to_text: '{{q}}'\ndoc_to_target: ' {{word}}'\n\
         metric_list: [{metric: acc}, {metric: perplexity}]\n",
    ),
    (
        "pages.yaml",
        "task: pages\ndataset_path: json\ndataset_kwargs: {data_files: {test: tasks/pages.jsonl}}\ntest_split: test\n\
         output_type: loglikelihood_rolling\ndoc_to_text: ''\ndoc_to_target: '{{text}}'\n\
         metric_list: [{metric: word_perplexity}, {metric: byte_perplexity}, {metric: bits_per_byte}]\n",
    ),
    (
        "said.yaml",
        "task: said\ndataset_path: json\ndataset_kwargs: {data_files: {test: tasks/choice.jsonl}}\ntest_split: test\n\
         output_type: generate_until\ndoc_to_text: 'Q: {{q}} A:'\ndoc_to_target: '{{word}}'\n\
         generation_kwargs: {until: [\"\\n\\n\", 'Q:'], max_gen_toks: 7, do_sample: false, temperature: 0.0}\n\
         filter_list:\n- {name: word, filter: [{function: regex, regex_pattern: '(yes|no|A|B)'}, {function: take_first}]}\n\
         - {name: all, filter: [{function: remove_whitespace}, {function: take_first}]}\n\
         metric_list: [{metric: exact_match, ignore_case: true}]\n",
    ),
    (
        "texts.yaml",
        "task: texts\ndataset_path: json\ndataset_kwargs: {data_files: {test: tasks/choice.jsonl}}\ntest_split: test\n\
         output_type: generate_until\ndoc_to_text: '{{q}} again'\ndoc_to_target: '{{q}}'\n\
         generation_kwargs: {until: ['?'], max_gen_toks: 20}\nmetric_list: [{metric: bleu}, {metric: chrf}, {metric: ter}]\n",
    ),
    (
        "group.yaml",
        "group: both\ntask: [choice, last]\naggregate_metric_list: [{metric: acc, weight_by_size: true}]\nmetadata: {version: 1}\n",
    ),
    (
        "extra.yaml",
        "task: chosen\ninclude: choice.yaml\ndoc_to_text: '{{q}} Choose:'\ntarget_delimiter: ''\nnum_fewshot: 0\n",
    ),
];

/// Twenty questions with two to five options, and pages of different lengths.
fn write_tasks(context: &TestContext) {
    for (name, text) in TASKS {
        context.write(format!("tasks/{name}"), text);
    }
    let words = ["yes", "no", "a small cat", "é", "seventeen", "left", "A", "B"];
    let line = |number: usize| {
        let options: Vec<&str> =
            (0..2 + number % 4).map(|index| words[(number + index) % words.len()]).collect();
        let gold = number % options.len();
        json!({"q": format!("What is number {number}, “{}”?", words[number * 5 % 8]), "options": options, "gold": gold, "word": options[gold]})
    };
    let lines = |lines: Vec<Value>| lines.iter().map(|line| line.to_string() + "\n").collect::<String>();
    context.write("tasks/choice.jsonl", lines((0..20).map(line).collect()));
    let page = |number: usize| json!({"text": "One two three, and so on. ".repeat(1 + number * 7) + "End."});
    context.write("tasks/pages.jsonl", lines((0..6).map(page).collect()));
}

/// One run: the endpoint, and the arguments after `run`.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) path: &'static str,
    pub(crate) model: &'static str,
    pub(crate) model_args: &'static str,
    pub(crate) arguments: &'static [&'static str],
}

const CASES: [Case; 7] = [
    Case {
        name: "token ids",
        path: "/v1/completions",
        model: "local-completions",
        model_args: "model=org/m,tokenizer_backend=huggingface,tokenizer=TOKENIZER,max_length=100",
        arguments: &["--tasks", "both,pages,said,texts,chosen", "--num_fewshot", "2"],
    },
    Case {
        name: "batches of prompts",
        path: "/v1/completions",
        model: "local-completions",
        model_args: "model=m,tokenizer_backend=huggingface,tokenizer=TOKENIZER,tokenized_requests=False,add_bos_token=True",
        arguments: &[
            "--tasks",
            "choice,pages,said",
            "--batch_size",
            "4",
            "--limit",
            "9",
            "--seed",
            "1,2,3,4",
        ],
    },
    Case {
        name: "no tokenizer",
        path: "/v1/completions",
        model: "local-completions",
        model_args: "model=m,tokenizer_backend=none,tokenized_requests=False,eos_string=END,seed=7",
        arguments: &[
            "--tasks",
            "said,texts",
            "--gen_kwargs",
            "temperature=0.5,do_sample=True,top_p=0.9",
            "--num_fewshot",
            "0",
        ],
    },
    Case {
        name: "conversations",
        path: "/v1/chat/completions",
        model: "local-chat-completions",
        model_args: "model=m",
        arguments: &[
            "--tasks",
            "said,texts",
            "--apply_chat_template",
            "--system_instruction",
            "Be brief.",
            "--num_fewshot",
            "1",
        ],
    },
    Case {
        name: "conversation in one turn",
        path: "/v1/chat/completions",
        model: "local-chat-completions",
        model_args: "model=m,max_gen_toks=5",
        arguments: &[
            "--tasks",
            "said",
            "--apply_chat_template",
            "--fewshot_as_multiturn",
            "false",
            "--num_fewshot",
            "2",
        ],
    },
    Case {
        name: "llama.cpp",
        path: "",
        model: "gguf",
        model_args: "model=m,max_length=512",
        arguments: &["--tasks", "last,said", "--limit", "5"],
    },
    Case {
        name: "prediction only",
        path: "/v1/completions",
        model: "local-completions",
        model_args: "model=m,tokenizer_backend=none,tokenized_requests=False",
        arguments: &["--tasks", "texts", "--predict_only", "--limit", "3"],
    },
];

impl Case {
    fn arguments(&self, server: &StandInServer, output: &str) -> Vec<String> {
        let tokenizer = concat!(env!("CARGO_MANIFEST_DIR"), "/../lmeval-tokenizers/tests/data/tokenizer");
        let model_args = self.model_args.replace("TOKENIZER", tokenizer);
        let model_args = format!("{model_args},base_url={}", server.url(self.path));
        ["run", "--model", self.model, "--model_args", &model_args, "--include_path", "tasks"]
            .into_iter()
            .chain(["--output_path", output, "--log_samples"])
            .chain(self.arguments.iter().copied())
            .map(str::to_owned)
            .collect()
    }
}

/// The requests at the server, each once; batched prompts separately.
fn requests(server: &StandInServer) -> BTreeSet<String> {
    let mut requests = BTreeSet::new();
    for (path, body) in server.counts().bodies {
        let body: Value = serde_json::from_str(&body).unwrap();
        match body["prompt"].as_array() {
            Some(prompts) => {
                for prompt in prompts {
                    let mut single = body.clone();
                    single["prompt"] = json!([prompt]);
                    requests.insert(format!("{path} {single}"));
                }
            }
            None => drop(requests.insert(format!("{path} {body}"))),
        }
    }
    requests
}

/// The files a run wrote, by name without the time stamp. The reference has neither journals nor locks.
fn files(folder: &Path) -> Vec<(String, PathBuf)> {
    let mut files = Vec::new();
    for entry in fs_err::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(self::files(&path));
            continue;
        }
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if !name.contains(".journal") && path.extension().is_none_or(|end| end != "lock") {
            let kind = name.rsplit_once('_').map_or(name.as_str(), |(kind, _)| kind).to_owned();
            files.push((kind, path));
        }
    }
    files.sort();
    files
}

/// The first difference between two values: types and key order matter, the last digits of floats do not.
fn difference(path: &str, ours: &Value, theirs: &Value) -> Option<String> {
    match (ours, theirs) {
        (Value::Object(ours), Value::Object(theirs)) => {
            let keys = |object: &serde_json::Map<String, Value>| -> Vec<String> {
                object
                    .keys()
                    .filter(|key| path != "results_" || !DIFFERS.contains(&key.as_str()))
                    .cloned()
                    .collect()
            };
            if keys(ours) != keys(theirs) {
                return Some(format!("{path}: keys {:?} instead of {:?}", keys(ours), keys(theirs)));
            }
            keys(ours).iter().find_map(|key| difference(&format!("{path}/{key}"), &ours[key], &theirs[key]))
        }
        (Value::Array(ours), Value::Array(theirs)) if ours.len() == theirs.len() => {
            let pairs = ours.iter().zip(theirs).enumerate();
            pairs
                .into_iter()
                .find_map(|(index, (ours, theirs))| difference(&format!("{path}/{index}"), ours, theirs))
        }
        (Value::Number(one), Value::Number(other)) if one.is_f64() && other.is_f64() => {
            let (one, other) = (one.as_f64().unwrap(), other.as_f64().unwrap());
            let close = one == other || (one - other).abs() <= 1e-12 * other.abs();
            (!close).then(|| format!("{path}: {one} instead of {other}"))
        }
        _ => (ours != theirs).then(|| format!("{path}: {ours} instead of {theirs}")),
    }
}

/// The lines of a file as JSON; a results file is one value.
fn values(path: &Path) -> Vec<Value> {
    let text = fs_err::read_to_string(path).unwrap().replace("NaN", "\"NaN\"");
    if path.extension().is_some_and(|extension| extension == "jsonl") {
        return text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    }
    vec![serde_json::from_str(&text).unwrap()]
}

fn compare_files(case: &Case, ours: &Path, theirs: &Path) -> Vec<String> {
    let (ours, theirs) = (files(ours), files(theirs));
    let names = |files: &[(String, PathBuf)]| files.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    if names(&ours) != names(&theirs) {
        return vec![format!("{}: files {:?} instead of {:?}", case.name, names(&ours), names(&theirs))];
    }
    let mut differences = Vec::new();
    for ((name, ours), (_, theirs)) in ours.iter().zip(&theirs) {
        let (ours, theirs) = (values(ours), values(theirs));
        assert_eq!(ours.len(), theirs.len(), "{}: lines of {name}", case.name);
        let root = if name == "results" { "results_" } else { name.as_str() };
        let found = ours.iter().zip(&theirs).find_map(|(ours, theirs)| difference(root, ours, theirs));
        differences.extend(found.map(|found| format!("{}: {found}", case.name)));
    }
    differences
}

#[test]
fn compat_04_matches_the_reference() {
    let Some(environment) = test_environment() else { return };
    let context = crate::context();
    write_tasks(&context);
    compare(&context, &environment, &CASES);
}

/// Runs the tasks of the folder `tasks` in both.
pub(crate) fn compare(context: &TestContext, environment: &Path, cases: &[Case]) {
    let server = StandInServer::start(ServerOptions { keep_bodies: true, ..ServerOptions::default() });
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/parity.py");
    let mut differences = Vec::new();
    for (index, case) in cases.iter().enumerate() {
        let (own, other) = (format!("ours{index}"), format!("theirs{index}"));
        let mut reference = Command::new(environment)
            .arg(script)
            .current_dir(context.work())
            .env("HF_HUB_OFFLINE", "1")
            .env("HF_DATASETS_OFFLINE", "1")
            .env("HF_DATASETS_CACHE", context.work().join("cache"))
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut call = vec![format!("{other}.txt")];
        call.extend(case.arguments(&server, &other));
        let mut input = reference.stdin.take().unwrap();
        writeln!(input, "{}", json!(call)).unwrap();
        drop(input);
        server.reset();
        let output = reference.wait_with_output().unwrap();
        assert!(output.status.success(), "{}: {}", case.name, String::from_utf8_lossy(&output.stderr));
        let theirs = requests(&server);
        server.reset();
        let arguments = case.arguments(&server, &own);
        let mut arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        arguments.extend(["--compat", "0.4", "--library", "none", "--quiet"]);
        let output = context.run(&arguments);
        assert_eq!(output.status, 0, "{}: {output}", case.name);
        let ours = requests(&server);
        let first = |more: &BTreeSet<String>, less: &BTreeSet<String>| more.difference(less).next().cloned();
        if let Some(request) = first(&theirs, &ours) {
            let instead = first(&ours, &theirs).unwrap_or_default();
            differences.push(format!("{}: not sent:\n  {request}\ninstead:\n  {instead}", case.name));
        } else if let Some(request) = first(&ours, &theirs) {
            differences.push(format!("{}: sent only by us:\n  {request}", case.name));
        }
        differences.extend(compare_files(case, &context.work().join(&own), &context.work().join(&other)));
        if !case.arguments.contains(&"--predict_only") {
            // The stored answers of either give the same results once more.
            for (run, again) in [(&own, format!("again{index}")), (&other, format!("their-again{index}"))] {
                let words = ["rescore", run, "--include_path", "tasks", "--library", "none"];
                let output = context.run(&[&words[..], &["--output_path", &again, "--log_samples"]].concat());
                assert_eq!(output.status, 0, "{}: {output}", case.name);
                differences.extend(compare_files(
                    case,
                    &context.work().join(&again),
                    &context.work().join(&other),
                ));
            }
        }
        let table = fs_err::read_to_string(context.work().join(format!("{other}.txt"))).unwrap();
        // Reference: prints a line about each bootstrapped error before the table.
        let table: Vec<&str> = table.lines().filter(|line| !line.starts_with("bootstrapping")).collect();
        let table = table.join("\n");
        if output.stdout.trim_end() != table.trim_end() {
            differences.push(format!("{}: printed\n{}\ninstead of\n{table}", case.name, output.stdout));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n\n"));
}
