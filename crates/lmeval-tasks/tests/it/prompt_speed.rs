//! How long building requests takes; run it with optimisation.

use std::sync::Arc;
use std::time::Instant;

use lmeval_core::{Dialect, MemoryDocuments, MemorySplits};
use lmeval_pycompat::{Dict, Value};
use lmeval_tasks::prompt::{RequestBuilder, RequestOptions, RequestSources};

use crate::prompt_support::task;

fn document(number: usize) -> Dict {
    let choices =
        Value::list((0..4).map(|choice| Value::from(format!("choice {choice} of question {number}"))));
    let entries = [
        (
            "question",
            Value::from(format!(
                " Which of the following statements about case {number} is the best one? "
            )),
        ),
        ("subject", Value::str("abstract_algebra")),
        ("choices", choices),
        ("answer", Value::Int((number % 4) as i64)),
    ];
    entries
        .into_iter()
        .map(|(key, value)| (Value::str(key), value))
        .collect()
}

#[test]
#[ignore = "a measurement"]
fn requests_of_57_tasks() {
    for (name, sampler) in [("first_n", "first_n"), ("default", "default")] {
        let definition = format!(
            "{{task: t, test_split: test, fewshot_split: dev, num_fewshot: 5, output_type: multiple_choice,
              fewshot_config: {{sampler: {sampler}}}, doc_to_choice: [A, B, C, D], doc_to_target: answer,
              description: 'The following are multiple choice questions (with answers).\n\n',
              doc_to_text: \"{{{{question.strip()}}}}\nA. {{{{choices[0]}}}}\nB. {{{{choices[1]}}}}\nC. {{{{choices[2]}}}}\nD. {{{{choices[3]}}}}\nAnswer:\"}}"
        );
        let task = task(&definition.replace('\n', "\\n").replace("\\n              ", "\n"));
        let prepared: Vec<RequestSources> = (0..57)
            .map(|number| {
                let count = if number == 0 { 14_042 - 56 * 246 } else { 246 };
                let splits = MemorySplits::new()
                    .with("test", MemoryDocuments::new((0..count).map(document).collect()))
                    .with(
                        "dev",
                        MemoryDocuments::new((1_000..1_040).map(document).collect()),
                    );
                RequestSources::new(Arc::new(splits))
            })
            .collect();
        let started = Instant::now();
        let (mut requests, mut bytes) = (0, 0);
        for sources in &prepared {
            for built in RequestBuilder::new(&task, sources, &RequestOptions::default()).unwrap() {
                let built = built.unwrap();
                requests += built.instances.len();
                bytes += built
                    .instances
                    .iter()
                    .map(|instance| instance.args(&Dialect::V05).len())
                    .sum::<usize>();
            }
        }
        println!(
            "{name}: {requests} requests in {:?} ({bytes} arguments)",
            started.elapsed()
        );
        assert_eq!(requests, 4 * 14_042);
    }
}
