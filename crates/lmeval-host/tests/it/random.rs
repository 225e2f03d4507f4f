//! Random numbers in functions.

use std::collections::BTreeSet;
use std::sync::Arc;

use lmeval_core::{Documents, MemoryDocuments};
use lmeval_pycompat::{Dict, Value};
use lmeval_scoring::Host;

use crate::support::{Folder, document};

const UTILS: &str = r"
import random

own = random.Random(42)

def drawn(doc):
    return random.random()

def of_own(doc):
    return own.random()

def shuffled(dataset):
    rows = list(dataset)
    random.shuffle(rows)
    return rows
";

fn numbered(number: i64) -> Arc<Dict> {
    document([("n", Value::Int(number))])
}

#[test]
fn draws_depend_only_on_the_document() {
    let folder = Folder::new(UTILS);
    let draw = |number| folder.host.call(&folder.function("utils.drawn"), &numbered(number)).unwrap();
    let forth: Vec<Value> = (0..20).map(draw).collect();
    let mut back: Vec<Value> = (0..20).rev().map(draw).collect();
    back.reverse();
    assert_eq!(forth, back);
    let different: BTreeSet<String> = forth.iter().map(|value| format!("{value:?}")).collect();
    assert_eq!(different.len(), 20);
}

#[test]
fn keeps_generators_created_by_code() {
    let folder = Folder::with(UTILS, |options| options.workers = 1);
    let draw = || folder.host.call(&folder.function("utils.of_own"), &numbered(0)).unwrap().to_f64();
    // The values of `random.Random(42)`.
    assert_eq!([draw(), draw()], [Some(0.639_426_798_457_883_7), Some(0.025_010_755_222_666_936)]);
}

#[test]
fn shuffles_splits_deterministically() {
    let folder = Folder::new(UTILS);
    let order = || {
        let split: Arc<dyn Documents> =
            Arc::new(MemoryDocuments::with_columns(vec!["n".into()], (0..5).map(numbered).collect()));
        let made = folder.host.process_documents(&folder.function("utils.shuffled"), split).unwrap();
        (0..5).map(|index| made.get(index).unwrap().get_str("n").and_then(Value::as_i64)).collect::<Vec<_>>()
    };
    // The order from `random.seed(0)` and `random.shuffle`, as in a run with the default seeds.
    assert_eq!(order(), [2, 1, 0, 4, 3].map(Some));
    assert_eq!(order(), order());
}
