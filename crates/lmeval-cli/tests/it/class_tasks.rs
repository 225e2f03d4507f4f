//! Tasks that are Python classes.

use lmeval_testkit::{TestContext, test_environment};
use serde_json::{Value, json};

use crate::context;
use crate::parity::{Case, compare};

/// Classes like those of libraries; they load their data in several ways.
const CLASSES: &str = r#"
from functools import partial

import datasets

from lm_eval.api.instance import Instance
from lm_eval.api.metrics import mean, median
from lm_eval.api.task import ConfigurableTask, Task

from .shapes import Quoted

FILES = {"train": "tasks/train.jsonl", "validation": "tasks/validation.jsonl"}


def share(key, items):
    return sum(key in text for text, _ in items) / len(items)


class Answers(ConfigurableTask):
    """Ignores the file and sends two kinds of requests."""

    VERSION = 3
    DATASET_PATH = "json"

    def __init__(self, config=None):
        super().__init__(config={"metadata": {"version": self.VERSION}, "dataset_kwargs": {"data_files": dict(FILES)}})

    def has_training_docs(self):
        return True

    def has_validation_docs(self):
        return True

    def has_test_docs(self):
        return False

    def training_docs(self):
        return self.dataset["train"]

    def validation_docs(self):
        return self.dataset["validation"]

    def doc_to_text(self, doc, *unused):
        return str(Quoted(doc["q"])) + " Answer:"

    def doc_to_target(self, doc, *unused):
        return doc["a"][0] if doc["a"] else "none"

    def construct_requests(self, doc, ctx, chat_template=None, apply_chat_template=False, **kwargs):
        return [
            Instance(request_type="generate_until", doc=doc, arguments=(ctx, {"until": ["\n"], "max_gen_toks": 9}),
                     idx=0, **kwargs),
            Instance(request_type="loglikelihood", doc=doc, arguments=(ctx, " none"), idx=0, **kwargs),
        ]

    def process_results(self, doc, results):
        text, (likelihood, is_greedy) = results
        return {"hit": int(any(a in text for a in doc["a"])), "letters": (text, doc["a"]), "none": likelihood,
                "middle": likelihood}

    def aggregation(self):
        return {"hit": mean, "letters": partial(share, "e"), "none": sum, "middle": median}

    def higher_is_better(self):
        return {"hit": True, "letters": True, "none": False, "middle": False}


class Older(Task):
    """An older class, which loads its data itself."""

    VERSION = 1

    def __init__(self):
        super().__init__()

    def download(self, *args, **kwargs):
        self.dataset = datasets.load_dataset("json", data_files=dict(FILES))

    def has_training_docs(self):
        return True

    def has_validation_docs(self):
        return True

    def has_test_docs(self):
        return False

    def training_docs(self):
        return [self._process_doc(doc) for doc in self.dataset["train"]]

    def validation_docs(self):
        return [self._process_doc(doc) for doc in self.dataset["validation"]]

    def _process_doc(self, doc):
        return {"query": doc["q"].lower(), "choices": ["yes", "no", "perhaps"], "gold": len(doc["a"]) % 3}

    def doc_to_text(self, doc):
        return "Question: " + doc["query"] + "\nAnswer:"

    def doc_to_target(self, doc):
        return " " + doc["choices"][doc["gold"]]

    def construct_requests(self, doc, ctx, apply_chat_template=False, chat_template=None, **kwargs):
        return [
            Instance(request_type="loglikelihood", doc=doc, arguments=(ctx, " " + choice), idx=i, **kwargs)
            for i, choice in enumerate(doc["choices"])
        ]

    def process_results(self, doc, results):
        likelihoods = [likelihood for likelihood, _ in results]
        return {"acc": 1.0 if likelihoods.index(max(likelihoods)) == doc["gold"] else 0.0}

    def aggregation(self):
        return {"acc": mean}

    def higher_is_better(self):
        return {"acc": True}


class Configured(ConfigurableTask):
    """Everything from the file except the scores."""

    def __init__(self, config):
        self.letter = config.pop("letter")
        config.pop("class")
        super().__init__(config=config)

    def process_results(self, doc, results):
        return {"has_letter": int(self.letter in results[0]), "words": len(results[0].split())}

    def aggregation(self):
        return {"has_letter": mean, "words": max}

    def higher_is_better(self):
        return {"has_letter": True, "words": True}
"#;

/// A module next to the classes.
const SHAPES: &str = r#"
class Quoted:
    def __init__(self, text):
        self.text = text

    def __str__(self):
        return f"“{self.text}”"
"#;

fn write_tasks(context: &TestContext) {
    context.write("tasks/task.py", CLASSES);
    context.write("tasks/shapes.py", SHAPES);
    context.write("tasks/answers.yaml", "task: answers\nclass: !function task.Answers\n");
    context.write("tasks/older.yaml", "task: older\nclass: !function task.Older\n");
    context.write(
        "tasks/configured.yaml",
        "task: configured\nclass: !function task.Configured\nletter: e\ndataset_path: json\n\
         dataset_kwargs: {data_files: {train: tasks/train.jsonl, validation: tasks/validation.jsonl}}\n\
         validation_split: validation\nfewshot_split: train\n\
         doc_to_text: 'Q: {{q}} A:'\ndoc_to_target: '{{a | first | default(0)}}'\ngeneration_kwargs: {until: ['.']}\nmetadata: {version: 0.5}\n",
    );
    let words = ["red", "green", "blue", "seven", "é"];
    let line = |number: usize| {
        let answers: Vec<&str> = (0..number % 3).map(|index| words[(number + index) % words.len()]).collect();
        json!({"q": format!("Which Thing {number}?"), "a": answers})
    };
    for (split, numbers) in [("train", 0..9), ("validation", 20..31)] {
        let lines: String = numbers.map(|number| line(number).to_string() + "\n").collect();
        context.write(format!("tasks/{split}.jsonl"), lines);
    }
}

const CASES: [Case; 2] = [
    Case {
        name: "classes",
        path: "/v1/completions",
        model: "local-completions",
        model_args: "model=m,tokenizer_backend=huggingface,tokenizer=TOKENIZER,tokenized_requests=False",
        arguments: &["--tasks", "answers,older,configured"],
    },
    Case {
        name: "classes with examples",
        path: "/v1/completions",
        model: "local-completions",
        model_args: "model=m,tokenizer_backend=huggingface,tokenizer=TOKENIZER,tokenized_requests=False",
        arguments: &[
            "--tasks",
            "older,answers,configured",
            "--num_fewshot",
            "2",
            "--limit",
            "7",
            "--gen_kwargs",
            "top_p=0.5",
            "--seed",
            "3,3,3,3",
        ],
    },
];

#[test]
fn compat_04_matches_the_reference_on_classes() {
    let Some(environment) = test_environment() else { return };
    let context = context();
    write_tasks(&context);
    // The reference does not find the neighbouring module: the folder is not a package.
    context.write("tasks/task.py", CLASSES.replace("from .shapes import Quoted", SHAPES));
    compare(&context, &environment, &CASES);
}

const LIBRARY: [&str; 4] = ["--library", "none", "--include_path", "tasks"];

/// The requests of a task.
fn requests(context: &TestContext, task: &str, more: &[&str]) -> Vec<Value> {
    let output =
        context.run(&[&["preview", task, "--json", "--python", "python3"], &LIBRARY[..], more].concat());
    assert_eq!(output.status, 0, "{output}");
    output.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn classes_need_no_package() {
    let context = context();
    write_tasks(&context);
    let first = requests(&context, "answers", &["--limit", "1", "--num_fewshot", "0"]);
    assert_eq!(first[0]["args"], json!(["“Which Thing 20?” Answer:", {"until": ["\n"], "max_gen_toks": 9}]));
    assert_eq!(first[1]["args"], json!(["“Which Thing 20?” Answer:", " none"]));
    assert_eq!((&first[0]["target"], first.len()), (&json!("red"), 2));
    let examples = requests(&context, "older", &["--limit", "1", "--num_fewshot", "2"]);
    let prompt = examples[0]["args"][0].as_str().unwrap();
    assert_eq!(prompt.matches("Question: ").count(), 3, "{prompt}");
    assert!(prompt.contains("?\nAnswer: ") && prompt.ends_with("Answer:"), "{prompt}");
    context.write("tasks/other.py", "def keep(dataset):\n    return dataset.filter(lambda doc: doc['a'])\n");
    let kept = "task: kept\ninclude: configured.yaml\nprocess_docs: !function other.keep\n";
    context.write("tasks/kept.yaml", kept);
    let run = ["run", "--model", "dummy", "--tasks", "answers,older,configured,kept", "--format", "json"];
    let run = [&run[..], &["--python", "python3", "--bootstrap_iters", "10"], &LIBRARY].concat();
    let output = context.run(&run);
    let results: Value = serde_json::from_str(&output.stdout).unwrap_or_else(|_| panic!("{output}"));
    assert_eq!(results["results"]["configured"]["words,none"], json!(1), "{results}");
    assert_eq!(results["n-samples"]["older"]["effective"], json!(11), "{results}");
    assert_eq!(results["n-samples"]["kept"]["original"], json!(7), "{results}");
    assert_eq!(results["versions"]["older"], json!(1), "{results}");
    assert_eq!(results["higher_is_better"]["answers"]["none"], json!(false), "{results}");
    assert_eq!(results["configs"]["answers"]["doc_to_text"], json!("task.Answers.doc_to_text"), "{results}");
}

#[test]
fn errors_name_the_class_and_method() {
    let context = context();
    write_tasks(&context);
    context.write("tasks/plain.yaml", "task: plain\nclass: !function shapes.Quoted\n");
    context.write("tasks/lacking.yaml", "task: lacking\nclass: !function task.Configured\n");
    context.write(
        "tasks/wrong.py",
        "from .task import Answers\nclass Wrong(Answers):\n    def construct_requests(self, doc, ctx, **kwargs):\n        \
         return [1 / 0]\n",
    );
    context.write("tasks/wrong.yaml", "task: wrong\nclass: !function wrong.Wrong\n");
    for (task, parts) in [
        (
            "plain",
            &["`plain` from its Python class", "`Quoted` is not a subclass of `lm_eval.api.task.Task`"][..],
        ),
        ("lacking", &["`task.Configured` failed: KeyError: 'letter'"]),
        ("wrong", &["Task `wrong`, document 0: The function `wrong.Wrong` failed: ZeroDivisionError"]),
    ] {
        let output = context.run(&[&["run", "--model", "dummy", "--tasks", task][..], &LIBRARY].concat());
        assert_eq!(output.status, 1, "{output}");
        for part in parts {
            assert!(output.stderr.contains(part), "{part}: {}", output.stderr);
        }
    }
    let shown = context.run(&[&["show", "plain"][..], &LIBRARY].concat());
    assert_eq!(shown.status, 0, "{shown}");
}

#[test]
fn skipped_documents_name_the_class() {
    let context = context();
    write_tasks(&context);
    context.write(
        "tasks/silent.py",
        "from .task import Older\nclass Silent(Older):\n    def construct_requests(self, doc, ctx, **kwargs):\n        \
         return super().construct_requests(doc, ctx, **kwargs) if doc['gold'] else []\n",
    );
    context.write("tasks/silent.yaml", "task: silent\nclass: !function silent.Silent\n");
    let output = context.run(&[&["run", "--model", "dummy", "--tasks", "silent"][..], &LIBRARY].concat());
    assert_eq!(output.status, 0, "{output}");
    let reason = "of `silent` is skipped: the task class returned no requests for it";
    assert!(output.stderr.contains(reason), "{output}");
}
