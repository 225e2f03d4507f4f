//! Every key of a task file that can hold a function, and every location a function can come from.

use lmeval_testkit::TestContext;
use serde_json::{Value, json};

use crate::context;

const UTILS: &str = r#"
import functools
from helper import PREFIX
from .pack.inner import wrap
from lm_eval.api.registry import register_sampler
from lm_eval.api.samplers import ContextSampler

def question(number, doc):
    return f"{PREFIX}{number} {wrap(doc['q'])}"

globals().update({f"question_{n}": functools.partial(question, n) for n in range(3)})

def answer(doc):
    return doc["label"]

def options(doc):
    return ["no", "yes"]

def example_question(doc):
    return f"Example: {doc['q']}"

def named_labels(dataset):
    label = dataset.features["label"]
    assert label.str2int("yes") == 1 and label.num_classes == 2
    return dataset.map(lambda doc: {"q": f"{doc['q']} ({label.int2str(doc['label'])} of {label.names})"})

def evens(dataset):
    return dataset.filter(lambda doc: doc["label"] == 0)

def samples():
    return [{"q": f"sample {n}", "label": n % 2} for n in range(5)]

class Backwards(ContextSampler):
    def sample(self, n, eval_doc=None, df=None, **kwargs):
        return list(reversed(self.df))[:n]

@register_sampler("by_letter")
class ByLetter(ContextSampler):
    def sample(self, n, eval_doc=None, df=None, **kwargs):
        return sorted(self.df, key=lambda doc: doc["q"][-1])[:n]

def first_word(resps, docs):
    return [[r.split()[0] for r in resp] for resp in resps]

class Lower:
    def __init__(self, times=1):
        self.times = times
    def apply(self, resps, docs):
        return [[r.lower() * self.times for r in resp] for resp in resps]

def longest(reference, values):
    return max(values)

def letters(references, predictions):
    return [float(len(p)) for p in predictions]

def total(values):
    return sum(values)
"#;

const BASE: &str = "\
dataset_path: data
validation_split: validation
fewshot_split: train
output_type: multiple_choice
doc_to_text: !function utils.question_2
doc_to_target: !function utils.answer
doc_to_choice: !function utils.options
";

/// Tasks in two folders whose modules have the same names.
fn tasks() -> TestContext {
    let context = context();
    for folder in ["one", "two"] {
        context.write(format!("tasks/{folder}/utils.py"), UTILS);
        context.write(format!("tasks/{folder}/helper.py"), format!("PREFIX = '{folder}'\n"));
        context.write(format!("tasks/{folder}/pack/__init__.py"), "SIGN = '*'\n");
        context.write(
            format!("tasks/{folder}/pack/inner.py"),
            "from . import SIGN\ndef wrap(text):\n    return SIGN + text\ndef plain(doc):\n    return doc['q']\n",
        );
        context.write(format!("tasks/{folder}/base.yaml"), format!("task: {folder}_base\n{BASE}"));
    }
    let yaml = |name: &str, text: &str| {
        context.write(format!("tasks/one/{name}.yaml"), format!("include: base.yaml\ntask: {name}\n{text}"));
    };
    yaml("package", "doc_to_text: !function pack.inner.plain\n");
    yaml("labels", "process_docs: !function utils.named_labels\n");
    yaml(
        "examples",
        "fewshot_config: {sampler: first_n, doc_to_text: !function utils.example_question, process_docs: !function utils.evens}\n",
    );
    yaml(
        "samples",
        "fewshot_split: null\nfewshot_config: {sampler: first_n, samples: !function utils.samples}\n",
    );
    yaml("backwards", "fewshot_config: {sampler: !function utils.Backwards}\n");
    yaml("registered", "fewshot_config: {sampler: by_letter}\n");
    yaml("unknown", "fewshot_config: {sampler: by_leter}\n");
    context.write(
        "tasks/one/scored.yaml",
        "task: scored\ndataset_path: data\nvalidation_split: validation\noutput_type: generate_until\nrepeats: 2\n\
         doc_to_text: q\ndoc_to_target: ''\ngeneration_kwargs: {do_sample: true, temperature: 1.0}\n\
         filter_list: [{name: own, filter: [{function: custom, filter_fn: !function utils.first_word}, \
         {function: !function utils.Lower, times: 2}]}]\n\
         metric_list: [{metric: !function utils.letters, reduction: !function utils.longest, aggregation: !function utils.total}]\n",
    );
    // The card names the values of the column.
    context.write(
        "data/README.md",
        "---\ndataset_info:\n  features:\n  - name: q\n    dtype: string\n  - name: label\n    dtype:\n      class_label:\n        \
         names:\n          '0': 'no'\n          '1': 'yes'\n---\n",
    );
    let lines = |letters: &str| -> String {
        let line =
            |(number, letter)| json!({"q": format!("q{letter}"), "label": number % 2}).to_string() + "\n";
        letters.chars().enumerate().map(line).collect()
    };
    context.write("data/train.jsonl", lines("zyxw"));
    context.write("data/validation.jsonl", lines("ab"));
    context
}

const LIBRARY: [&str; 4] = ["--library", "none", "--include_path", "tasks"];

/// The prompt of the first document of a task.
fn prompt(context: &TestContext, task: &str, more: &[&str]) -> String {
    let preview = ["preview", task, "--json", "--limit", "1", "--python", "python3"];
    let output = context.run(&[&preview[..], &LIBRARY, more].concat());
    assert_eq!(output.status, 0, "{output}");
    let first: Value = serde_json::from_str(output.stdout.lines().next().unwrap()).unwrap();
    first["args"][0].as_str().unwrap().to_owned()
}

#[test]
fn finds_functions_in_all_locations() {
    let context = tasks();
    assert_eq!(prompt(&context, "one_base", &[]), "one2 *qa");
    assert_eq!(prompt(&context, "package", &[]), "qa");
    let both = ["preview", "one_base,two_base,package", "--json", "--limit", "1", "--python", "python3"];
    let output = context.run(&[&both[..], &LIBRARY].concat());
    for part in ["\"one2 *qa\"", "\"two2 *qa\"", "\"qa\""] {
        assert!(output.stdout.contains(part), "{part}: {output}");
    }
    assert_eq!(prompt(&context, "labels", &[]), "one2 *qa (no of ['no', 'yes'])");
}

#[test]
fn functions_and_classes_provide_examples() {
    let context = tasks();
    let two = ["--num_fewshot", "2"];
    assert_eq!(prompt(&context, "examples", &two), "Example: qz no\n\nExample: qx no\n\none2 *qa");
    assert_eq!(prompt(&context, "samples", &two), "one2 *sample 0 no\n\none2 *sample 1 yes\n\none2 *qa");
    assert_eq!(prompt(&context, "backwards", &two), "one2 *qw yes\n\none2 *qx no\n\none2 *qa");
    assert_eq!(prompt(&context, "registered", &two), "one2 *qw yes\n\none2 *qx no\n\none2 *qa");
    let unknown = ["preview", "unknown", "--num_fewshot", "1", "--python", "python3"];
    let output = context.run(&[&unknown[..], &LIBRARY].concat());
    assert_eq!(output.status, 1);
    assert!(output.stderr.contains("`by_leter`"), "{output}");
}

#[test]
fn calls_scoring_functions() {
    let context = tasks();
    let run = ["run", "--model", "dummy", "--tasks", "scored", "--format", "json", "--bootstrap_iters", "0"];
    let output = context.run(&[&run[..], &["--python", "python3"], &LIBRARY].concat());
    let results: Value = serde_json::from_str(&output.stdout).unwrap_or_else(|_| panic!("{output}"));
    assert_eq!(results["results"]["scored"]["letters,own"], json!(12.0), "{results}");
}

#[test]
fn finds_code_next_to_a_bare_file_name() {
    let Some(python) = lmeval_testkit::test_environment() else { return };
    let context = context();
    context.write(
        "folder/utils.py",
        "from lm_eval.api.registry import register_metric\n\
         @register_metric(metric='nearly', higher_is_better=True, output_type='generate_until', aggregation='mean')\n\
         def nearly(references, predictions, **kwargs):\n    return [1.0 for _ in predictions]\n\
         def question(doc):\n    return 'Q ' + doc['q']\n",
    );
    context.write("folder/d.jsonl", "{\"q\": \"1?\"}\n");
    context.write(
        "folder/mine.yaml",
        "task: mine\ndataset_path: json\ndataset_kwargs: {data_files: {test: d.jsonl}}\ntest_split: test\n\
         output_type: generate_until\ndoc_to_text: !function utils.question\ndoc_to_target: a\n\
         metric_list: [{metric: nearly}]\n",
    );
    let run = |folder: &str, file: &str| {
        let script = format!(
            "cd {folder} && '{}' run --model dummy --tasks {file} --python '{}' --format json -q",
            env!("CARGO_BIN_EXE_lm-eval"),
            python.display()
        );
        std::process::Command::new("sh").args(["-c", &script]).current_dir(context.work()).output().unwrap()
    };
    let output = run("folder", "mine.yaml");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let results: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(results["results"]["mine"]["nearly,none"], 1.0);
    let output = run("folder", "./mine.yaml");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
