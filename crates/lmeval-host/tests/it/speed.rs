//! The cost of a call: `cargo test -p lmeval-host --release speed -- --ignored --nocapture`.

use std::sync::Arc;
use std::time::Instant;

use lmeval_pycompat::{Dict, Value};
use lmeval_scoring::Host;

use crate::support::{Folder, document};

const CALLS: usize = 20_000;

#[test]
#[ignore = "a measurement"]
fn calls_alone_and_in_batches() {
    let folder = Folder::new(
        "def text(doc):\n    return doc['question']\ndef results(doc, results):\n    return {'acc': results[0] == doc['answer']}\n",
    );
    let documents: Vec<Arc<Dict>> = (0..CALLS)
        .map(|number| {
            document([
                (
                    "question",
                    Value::from(format!("What is the {number}th word of this question? ").repeat(4)),
                ),
                ("answer", Value::from(number.to_string())),
                ("choices", Value::list((0..4).map(|choice| Value::from(format!("choice {choice}"))))),
            ])
        })
        .collect();
    let text = folder.function("utils.text");
    folder.host.check(&text).unwrap();
    let started = Instant::now();
    for document in &documents {
        folder.host.call(&text, document).unwrap();
    }
    report("one by one, one thread", started);
    let started = Instant::now();
    std::thread::scope(|scope| {
        for half in documents.chunks(CALLS / 2) {
            scope.spawn(|| half.iter().for_each(|document| drop(folder.host.call(&text, document).unwrap())));
        }
    });
    report("one by one, two threads", started);
    let code = folder.host.process_results(&folder.function("utils.results")).unwrap();
    let calls: Vec<(Arc<Dict>, Vec<Value>)> =
        documents.into_iter().map(|document| (document, vec![Value::str("1")])).collect();
    let started = Instant::now();
    assert_eq!(code.process_many(&calls).unwrap().len(), CALLS);
    report("in batches", started);
}

fn report(what: &str, started: Instant) {
    let elapsed = started.elapsed();
    let each = elapsed.as_secs_f64() * 1e6 / CALLS as f64;
    println!("{what}: {each:.1} µs a call, {:.0} calls a second", CALLS as f64 / elapsed.as_secs_f64());
}
