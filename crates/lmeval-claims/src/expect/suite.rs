//! Reads the files of vLLM's and SGLang's accuracy suites.
//!
//! Their runners add settings to each file, which are added here: a BOS token, 4,096 tokens of context, and release 0.4 of the harness.

use std::path::Path;

use lmeval_analysis::stats::Sampled;
use lmeval_pycompat::{Dict, Value, repr};

use super::{Against, Check, Expectations, split_metric};
use crate::Error;
use crate::document::{Document, Node};

/// Keys that are settings of a run under the same name.
const SETTINGS: [&str; 6] =
    ["num_fewshot", "limit", "gen_kwargs", "apply_chat_template", "fewshot_as_multiturn", "batch_size"];

/// Keys that are arguments of the engine under the same name.
const ENGINE: [&str; 8] = [
    "trust_remote_code",
    "max_model_len",
    "enforce_eager",
    "kv_cache_dtype",
    "quantization",
    "dtype",
    "load_format",
    "tensor_parallel_size",
];

/// Keys that are read here.
const READ: [&str; 4] = ["model_name", "backend", "tasks", "rtol"];

pub(super) fn read(path: &Path, document: &Document) -> Result<Expectations, Error> {
    let root = document.root();
    let rtol = root.get("rtol")?.map(|node| node.number()).transpose()?;
    let mut checks = Vec::new();
    let mut tasks = Vec::new();
    for task in root.need("tasks")?.items()? {
        let name = task.need("name")?.text()?;
        for metric in task.need("metrics")?.items()? {
            checks.push(check(&name, &metric, rtol)?);
        }
        tasks.push(Value::from(name));
    }
    let known = |key: &str| [&SETTINGS[..], &ENGINE[..], &READ[..]].concat().contains(&key);
    let others: Vec<String> =
        root.entries()?.into_iter().map(|(key, _)| key).filter(|key| !known(key)).collect();
    let notes = match others.as_slice() {
        [] => Vec::new(),
        others => vec![format!("`{}`: without effect here: `{}`", path.display(), others.join("`, `"))],
    };
    let mut settings = settings(&root)?;
    settings.insert("tasks", Value::list(tasks));
    Ok(Expectations { path: path.to_owned(), settings, checks, gates: Vec::new(), baseline: None, notes })
}

fn check(task: &str, node: &Node<'_>, of_file: Option<f64>) -> Result<Check, Error> {
    let (metric, filter) = split_metric(&node.need("name")?.text()?);
    let number = |key: &str| node.get(key)?.map(|node| node.number()).transpose();
    let value = node.need("value")?.number()?;
    let against = match number("rtol")?.or(of_file) {
        Some(rtol) => Against::Tolerance { value, rtol },
        None => Against::Score(Sampled { value, stderr: number("stderr")?, documents: number("n")? }),
    };
    Ok(Check { task: task.to_owned(), metric, filter, against, margin: number("margin")? })
}

/// The settings of the run that the suite's own runner would start.
fn settings(root: &Node<'_>) -> Result<Dict, Error> {
    let mut settings = Dict::new();
    settings.insert("compat", "0.4");
    settings.insert("batch_size", "auto");
    for key in SETTINGS {
        if let Some(node) = root.get(key)? {
            settings.insert(key, node.value().clone());
        }
    }
    let Some(model) = root.get("model_name")? else { return Ok(settings) };
    let backend = root.get("backend")?.map_or(Ok("vllm".to_owned()), |node| node.text())?;
    if backend == "vllm-vlm" {
        settings.insert("apply_chat_template", true);
    }
    let mut engine = Dict::new();
    engine.insert("pretrained", model.text()?);
    engine.insert("add_bos_token", true);
    engine.insert("max_model_len", 4096_i64);
    for key in ENGINE {
        if let Some(node) = root.get(key)? {
            engine.insert(key, without_quotes(node.value()));
        }
    }
    settings.insert("model", backend);
    settings.insert("model_args", engine);
    Ok(settings)
}

/// Truth values are often written as strings.
fn without_quotes(value: &Value) -> Value {
    match repr::str(value).to_lowercase().as_str() {
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        _ => value.clone(),
    }
}
