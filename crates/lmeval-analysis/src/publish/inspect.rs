//! Logs of Inspect in their JSON form: one file per task, with its documents.

use lmeval_pycompat::{Dict, Value};
use rustc_hash::FxHashMap;

use super::output::{Output, Part, json_text};
use super::parts::Document;
use super::record::{Record, iso, own_name, text};
use crate::Error;
use crate::read::{SamplesFile, number};
use crate::samples::SampleReader;
use crate::summary::{Score, TaskSummary};

/// Writes one log per task. Groups have none, because Inspect has nothing like them.
pub(super) fn write(record: &Record, output: &mut Output) -> Result<(), Error> {
    let (start, _) = record.times()?;
    let stamp: String =
        iso(start).chars().take(19).map(|letter| if letter == ':' { '-' } else { letter }).collect();
    for task in record.summary.tasks.iter().filter(|task| !task.is_group) {
        let plain: String = own_name(task)
            .chars()
            .map(|letter| if letter.is_ascii_alphanumeric() || "-.".contains(letter) { letter } else { '-' })
            .collect();
        let name = format!("{stamp}+00-00_{plain}_{}.json", record.uuid(&task.name));
        let part = output.create(&name)?;
        write_log(record, task, part, output)?;
    }
    Ok(())
}

/// The head of the log, then its documents one by one: all of them may not fit into memory.
fn write_log(record: &Record, task: &TaskSummary, mut part: Part, output: &mut Output) -> Result<(), Error> {
    let documents = match record.run.samples_of(&task.name) {
        Some(file) => documents(record, file, output)?,
        None => Vec::new(),
    };
    let head = json_text(&head(record, task, documents.len())?, None)?;
    let Some(file) = record.run.samples_of(&task.name) else {
        output.notes.push(format!("`{}` has no documents: `--log_samples` writes them", task.name));
        part.text(&(head + "\n"))?;
        part.finish(output)?;
        return Ok(());
    };
    part.text(head.strip_suffix('}').unwrap_or(&head))?;
    part.text(", \"samples\": [")?;
    let mut reader = SampleReader::open(&record.run, file, None)?;
    for (index, offsets) in documents.iter().enumerate() {
        part.text(if index == 0 { "\n" } else { ",\n" })?;
        part.text(&json_text(&sample(record, task, &mut reader, offsets)?, None)?)?;
    }
    part.text("\n]}\n")?;
    part.finish(output)?;
    Ok(())
}

/// Where the lines of each document are: a line per filter pipeline.
fn documents(record: &Record, file: &SamplesFile, output: &mut Output) -> Result<Vec<Vec<u64>>, Error> {
    let mut reader = SampleReader::open(&record.run, file, None)?;
    let (mut found, mut known): (Vec<Vec<u64>>, FxHashMap<String, usize>) =
        (Vec::new(), FxHashMap::default());
    while let Some(sample) = reader.read_next()? {
        let id = sample.fields().raw("doc_id").unwrap_or_default().to_owned();
        let index = *known.entry(id).or_insert(found.len());
        if index == found.len() {
            found.push(Vec::new());
        }
        found[index].push(sample.offset());
    }
    output.notes.extend(reader.checksum().and_then(|now| record.run.samples_change(file, now)));
    output.notes.extend(reader.incomplete().map(ToString::to_string));
    Ok(found)
}

fn head(record: &Record, task: &TaskSummary, documents: usize) -> Result<Value, Error> {
    let (start, end) = record.times()?;
    let string = |text: &str| Value::str(text);
    let total = task.documents.map_or(documents as i64, |count| count as i64);
    let scores = task.scores.iter().filter_map(|score| aggregate(task, score));
    let results = Value::dict([
        ("total_samples", Value::Int(total + task.failed as i64)),
        ("completed_samples", Value::Int(total)),
        ("scores", Value::list(scores)),
    ]);
    let stats = Value::dict([("started_at", string(&iso(start))), ("completed_at", string(&iso(end)))]);
    let step = Value::dict([("solver", string("generate")), ("params", Value::from(Dict::new()))]);
    Ok(Value::dict([
        ("version", Value::Int(2)),
        ("status", string("success")),
        ("eval", specification(record, task, total, &iso(start))),
        ("plan", Value::dict([("name", string("plan")), ("steps", Value::list([step]))])),
        ("results", results),
        ("stats", stats),
    ]))
}

fn specification(record: &Record, task: &TaskSummary, documents: i64, created: &str) -> Value {
    let config = record.config(&task.name);
    let mut arguments = Dict::new();
    for key in ["num_fewshot", "output_type", "generation_kwargs"] {
        if let Some(value) = config.and_then(|config| config.get_str(key)).filter(|value| !value.is_none()) {
            arguments.insert(key, value.clone());
        }
    }
    arguments.insert("num_fewshot", task.num_fewshot.clone().unwrap_or_default());
    let mut metadata = Dict::new();
    for key in [
        "model_args",
        "limit",
        "gen_kwargs",
        "system_instruction",
        "chat_template",
        "fewshot_as_multiturn",
        "compat",
    ] {
        if let Some(value) = record.setting(key) {
            metadata.insert(key, value.clone());
        }
    }
    let dataset = config.and_then(|config| config.get_str("dataset_path")).map_or_else(String::new, text);
    let version = record.summary.version.as_deref().unwrap_or("unknown");
    Value::dict([
        ("eval_id", Value::str(record.uuid(&format!("eval {}", task.name)))),
        ("run_id", Value::str(record.uuid("run"))),
        ("created", Value::str(created)),
        ("task", Value::str(own_name(task))),
        ("task_id", Value::str(task.name.as_str())),
        ("task_version", Value::str(task.version.as_ref().map_or_else(|| "0".to_owned(), text))),
        ("task_args", Value::from(arguments)),
        ("dataset", Value::dict([("name", Value::str(dataset)), ("samples", Value::Int(documents))])),
        ("model", Value::str(record.model())),
        ("config", Value::from(Dict::new())),
        ("packages", Value::dict([("lm_eval", Value::str(version))])),
        ("metadata", Value::from(metadata)),
    ])
}

/// A score of the task; `None` if it is not a number.
fn aggregate(task: &TaskSummary, score: &Score) -> Option<Value> {
    let metric =
        |name: &str, value: f64| Value::dict([("name", Value::str(name)), ("value", Value::Float(value))]);
    let value = score.value.filter(|value| value.is_finite())?;
    let mut metrics = Dict::new();
    metrics.insert(score.metric.as_str(), metric(&score.metric, value));
    if let Some(stderr) = score.stderr.filter(|stderr| stderr.is_finite()) {
        metrics.insert("stderr", metric("stderr", stderr));
    }
    let name = score_name(task, &score.metric, &score.filter);
    Some(Value::dict([
        ("name", Value::str(name.as_str())),
        ("scorer", Value::str(name)),
        ("scored_samples", task.documents.map_or(Value::None, |count| Value::Int(count as i64))),
        ("metrics", Value::from(metrics)),
    ]))
}

/// The metric, with its filter if the task has several.
fn score_name(task: &TaskSummary, metric: &str, filter: &str) -> String {
    let is_single = task.scores.iter().all(|score| score.filter == filter);
    if is_single { metric.to_owned() } else { format!("{metric},{filter}") }
}

/// A document with the scores of all its lines.
fn sample(
    record: &Record,
    task: &TaskSummary,
    reader: &mut SampleReader,
    offsets: &[u64],
) -> Result<Value, Error> {
    let (mut scores, mut first, mut metadata) = (Dict::new(), None, Value::None);
    for &offset in offsets {
        let line = reader.read_at(offset)?;
        let (document, filter) = (Document::new(&line)?, line.filter());
        for score in task.scores.iter().filter(|score| score.filter == filter) {
            let value = line.fields().raw(&score.metric).and_then(number).filter(|value| value.is_finite());
            let Some(value) = value else { continue };
            let answer = document.filtered.as_deref().map(Value::str);
            let value = Value::dict([("value", Value::Float(value)), ("answer", answer.into())]);
            scores.insert(score_name(task, &score.metric, &filter), value);
        }
        if first.is_none() {
            metadata = line.value("doc")?.unwrap_or_default();
            first = Some(document);
        }
    }
    let document = first.expect("a document has at least one line");
    let strings = |items: &[String]| Value::list(items.iter().map(|item| Value::str(item.as_str())));
    let message = |role: &str, content: &str| {
        Value::dict([("role", Value::str(role)), ("content", Value::str(content))])
    };
    let prompt = match document.prompt.as_list() {
        Some(messages) => messages.iter().map(chat_message).collect(),
        None => vec![message("user", &document.prompt_text())],
    };
    let answers = document.answers.iter().map(|answer| {
        Value::dict([("message", message("assistant", answer)), ("stop_reason", Value::str("unknown"))])
    });
    // Log-likelihoods are one answer.
    let choices: Vec<Value> = if document.filtered.is_some() {
        answers.collect()
    } else {
        vec![Value::dict([("message", message("assistant", &document.answers.join("\n")))])]
    };
    let said = choices.first().and_then(|choice| choice.as_dict()?.get_str("message").cloned());
    let input = if document.prompt.as_list().is_some() {
        Value::list(prompt.clone())
    } else {
        Value::str(document.prompt_text())
    };
    let options = (!document.options.is_empty()).then(|| strings(&document.options));
    Ok(Value::dict([
        ("id", Value::str(document.id.as_str())),
        ("epoch", Value::Int(1)),
        ("input", input),
        ("choices", options.into()),
        ("target", strings(&document.targets)),
        ("messages", Value::list(prompt.into_iter().chain(said))),
        ("output", Value::dict([("model", Value::str(record.model())), ("choices", Value::list(choices))])),
        ("scores", Value::from(scores)),
        ("metadata", Value::dict([("doc", metadata)])),
    ]))
}

/// A message of a chat, in the roles that Inspect knows.
fn chat_message(message: &Value) -> Value {
    const ROLES: [&str; 4] = ["system", "user", "assistant", "tool"];
    let part = |name: &str| {
        message.as_dict().and_then(|message| message.get_str(name)).map_or_else(String::new, text)
    };
    let role =
        Some(part("role")).filter(|role| ROLES.contains(&role.as_str())).unwrap_or_else(|| "user".to_owned());
    Value::dict([("role", Value::str(role)), ("content", Value::str(part("content")))])
}
