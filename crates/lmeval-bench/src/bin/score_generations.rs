//! Times scoring the generations of a task; run by `bench/scoring.py`.
//!
//! `score_generations FOLDER` reads the task `bench` of a folder and `generations.jsonl`, one generation per document. It
//! prints one line of JSON: the wall-clock and CPU seconds for filters, metrics and aggregation, the number of documents,
//! and the scores with their standard errors.

use std::error::Error;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use lmeval_core::Dialect;
use lmeval_data::Settings;
use lmeval_pycompat::{Dict, Value, json};
use lmeval_scoring::scorers::{AnsweredDocument, AnsweredInstance, ScoringSources};
use lmeval_tasks::prompt::{RequestBuilder, RequestOptions, RequestSources};
use lmeval_tasks::scoring::task_scorer;
use lmeval_tasks::{Overrides, Spec, TaskManager};

/// The reference's number of bootstrap iterations.
const BOOTSTRAP_ITERS: i64 = 100_000;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [folder] = words.as_slice() else {
        return Err("usage: score_generations FOLDER".into());
    };
    let folder = PathBuf::from(folder);
    let dialect = Dialect::V04;
    let loaded =
        TaskManager::new(std::slice::from_ref(&folder)).load(&[Spec::from("bench")], Overrides::default())?;
    let task = loaded.tasks.values().next().ok_or("no task in the folder")?;
    let request = task.dataset_request().ok_or("the task has no dataset")?;
    let options = RequestOptions { dialect, ..RequestOptions::default() };
    let mut scorer = task_scorer(&task.config, &ScoringSources::new(&dialect), false)?;
    let keeps_documents = scorer.needs().documents;
    let nothing: Arc<Dict> = Arc::default();
    let mut documents = Vec::new();
    {
        let data = lmeval_data::load(&request, &Settings::from_environment())?;
        let sources = RequestSources::new(Arc::new(data));
        let mut generations = BufReader::new(File::open(folder.join("generations.jsonl"))?).lines();
        for built in RequestBuilder::new(task, &sources, &options)? {
            let built = built?;
            let mut answers = Vec::with_capacity(built.instances.len());
            for instance in built.instances {
                let line = generations.next().ok_or("not enough generations")??;
                answers.push(AnsweredInstance::new(instance, vec![json::loads(&line)?]));
            }
            documents.push(AnsweredDocument {
                doc_id: built.doc_id,
                document: if keeps_documents { built.document } else { Arc::clone(&nothing) },
                choices: built.choices,
                answers,
                judgements: Vec::new(),
            });
        }
    }
    let cpu_before = cpu_seconds();
    let start = Instant::now();
    scorer.score(&documents)?;
    let aggregated = scorer.aggregate(BOOTSTRAP_ITERS)?;
    let seconds = start.elapsed().as_secs_f64();
    let cpu = cpu_seconds().zip(cpu_before).map(|(after, before)| after - before);
    let scores: Dict =
        aggregated.metrics.into_iter().map(|(key, value)| (Value::from(key.to_string()), value)).collect();
    let report = Value::dict([
        ("seconds", Value::Float(seconds)),
        ("cpu", cpu.map_or(Value::None, Value::Float)),
        ("documents", Value::Int(documents.len() as i64)),
        ("scores", Value::from(scores)),
    ]);
    writeln!(std::io::stdout().lock(), "{}", json::dumps(&report, &json::Options::default())?)?;
    Ok(())
}

/// The CPU time of all threads so far, on Linux.
fn cpu_seconds() -> Option<f64> {
    const TICKS_PER_SECOND: f64 = 100.0;
    let mut line = String::new();
    File::open("/proc/self/stat").ok()?.read_to_string(&mut line).ok()?;
    // The second field is a name in parentheses; user and system time are fields 14 and 15.
    let fields: Vec<&str> = line.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |index: usize| fields.get(index)?.parse::<f64>().ok();
    Some((ticks(11)? + ticks(12)?) / TICKS_PER_SECOND)
}
