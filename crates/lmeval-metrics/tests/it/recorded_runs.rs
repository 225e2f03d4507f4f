//! Aggregates the per-sample values of every recorded run again.

use fs_err as fs;
use lmeval_metrics::{metric, stderr_for_metric};
use lmeval_pycompat::Value;

use crate::{close, field, load, number};

/// The values of one metric of a task under one filter, in document order.
fn values(samples: &[Value], filter: &str, name: &str) -> Vec<Value> {
    samples
        .iter()
        .filter(|sample| field(sample, "filter").as_str() == Some(filter))
        .map(|sample| field(sample, name).clone())
        .filter(|value| !value.is_none())
        .collect()
}

#[test]
fn results_follow_from_samples() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/e2e/recorded.json");
    let runs = load(&fs::read_to_string(path).unwrap());
    let mut checked = 0;
    for run in runs.as_list().unwrap() {
        let (Some(samples), Some(results)) =
            (field(run, "samples").as_dict(), field(run, "results").as_dict())
        else {
            continue;
        };
        let iterations = field(field(run, "run"), "bootstrap_iters").as_i64().unwrap_or(100_000);
        for (task, samples) in samples.iter() {
            let Some(result) = results.get(task).and_then(Value::as_dict) else { continue };
            for (key, expected) in result.iter() {
                let key = key.as_str().unwrap();
                let Some((name, filter)) = key.split_once(',') else { continue };
                let Some(metric) = metric(name) else { continue };
                let values = values(samples.as_list().unwrap(), filter, name);
                let what =
                    format!("{}, {}, {key}", field(run, "name").as_str().unwrap(), task.as_str().unwrap());
                if values.is_empty() {
                    continue;
                }
                let found = metric.aggregation().aggregate(&values).unwrap().to_f64();
                assert!(close(found, number(expected)), "{what}: {found} instead of {expected:?}");
                let error =
                    stderr_for_metric(&*metric.aggregation(), &values, iterations).unwrap().to_value();
                let expected = result.get_str(&format!("{name}_stderr,{filter}")).unwrap();
                match (error.to_f64(), expected.to_f64()) {
                    (Some(found), Some(expected)) => {
                        assert!(close(found, expected), "{what}: error {found} instead of {expected}");
                    }
                    _ => assert_eq!(&error, expected, "{what}"),
                }
                checked += 1;
            }
        }
    }
    assert!(checked >= 40, "{checked}");
}
