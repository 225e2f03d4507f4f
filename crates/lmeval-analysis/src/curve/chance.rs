//! The expected score of guessing.

use std::sync::Arc;

use lmeval_pycompat::Value;

use crate::Error;
use crate::read::Run;
use crate::samples::SampleReader;

/// Metrics that are 1 where the best option is the right one.
const METRICS: [&str; 4] = ["acc", "acc_norm", "acc_bytes", "acc_mutual_info"];

/// Whether guessing has a known score by this metric, if the task is multiple choice.
pub(super) fn is_about(metric: &str) -> bool {
    METRICS.contains(&metric)
}

/// The mean over documents of right options among all options; `None` for tasks without options, or without samples.
pub(super) fn of_task(run: &Run, task: &str) -> Result<Option<f64>, Error> {
    let config = run.section("configs").and_then(|configs| configs.get_str(task)?.as_dict());
    let kind = config.and_then(|config| config.get_str("output_type")?.as_str());
    let (Some(config), Some("multiple_choice"), Some(file)) = (config, kind, run.samples_of(task)) else {
        return Ok(None);
    };
    // Mutual information asks for each option twice.
    let is_doubled = config.get_str("metric_list").and_then(Value::as_list).is_some_and(|metrics| {
        let mut names = metrics.iter().filter_map(|metric| metric.as_dict()?.get_str("metric")?.as_str());
        names.any(|name| name == "acc_mutual_info")
    });
    let mut reader = SampleReader::open(run, file, None)?;
    let (mut sum, mut count) = (0.0, 0.0);
    let mut first: Option<Arc<str>> = None;
    while let Some(sample) = reader.read_next()? {
        let filter: Arc<str> = sample.filter().as_ref().into();
        if *first.get_or_insert_with(|| Arc::clone(&filter)) != filter {
            continue;
        }
        let options = sample.continuations()?.len() / if is_doubled { 2 } else { 1 };
        let right = match sample.value("target")? {
            Some(Value::List(targets)) => targets.len().max(1),
            _ => 1,
        };
        // Options that were compared in another way, such as by their letters in one request.
        if options < 2 {
            return Ok(None);
        }
        sum += right.min(options) as f64 / options as f64;
        count += 1.0;
    }
    Ok((count > 0.0).then(|| sum / count))
}
