//! Times building every request of a task or group; run by `bench/requests.py`.
//!
//! `build-requests LIBRARY NAME NUM_FEWSHOT` prints one line of JSON: the seconds from the start of the process to the first
//! and to the last request, and the number of requests and their bytes.

use std::error::Error;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use lmeval_data::Settings;
use lmeval_tasks::prompt::{RequestBuilder, RequestOptions, RequestSources};
use lmeval_tasks::{Overrides, Spec, TaskManager};

fn main() -> Result<(), Box<dyn Error>> {
    let start = Instant::now();
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [library, name, num_fewshot] = words.as_slice() else {
        return Err("usage: build-requests LIBRARY NAME NUM_FEWSHOT".into());
    };
    let manager = TaskManager::new(&[PathBuf::from(library)]);
    let mut loaded = manager.load(&[Spec::from(name.as_str())], Overrides::default())?;
    let settings = Settings::from_environment();
    let options = RequestOptions::default();
    let mut first = None;
    let (mut requests, mut bytes) = (0_usize, 0_usize);
    for task in loaded.tasks.values_mut() {
        task.config.set_num_fewshot(num_fewshot.parse()?);
        let request = task.dataset_request().ok_or("the task has no dataset")?;
        let sources = RequestSources::new(Arc::new(lmeval_data::load(&request, &settings)?));
        for document in RequestBuilder::new(task, &sources, &options)? {
            for instance in document?.instances {
                first.get_or_insert_with(|| start.elapsed());
                requests += 1;
                bytes += instance
                    .args(&options.dialect)
                    .iter()
                    .map(|value| value.as_str().map_or(0, str::len))
                    .sum::<usize>();
            }
        }
    }
    let first = first.ok_or("no requests were built")?.as_secs_f64();
    let last = start.elapsed().as_secs_f64();
    let mut out = std::io::stdout().lock();
    writeln!(out, "{{\"first\": {first}, \"last\": {last}, \"requests\": {requests}, \"bytes\": {bytes}}}")?;
    Ok(())
}
