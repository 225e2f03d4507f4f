//! Compares random and mutated documents with PyYAML.
//!
//! A Python process loads them in batches while this process loads the same ones. A document on which the two differ is
//! shrunk before it is shown. `LM_EVAL_FUZZ_SEED` and `LM_EVAL_FUZZ_CASES` set the seed and the number of documents.

mod generate;
mod mutate;
mod shrink;

use lmeval_pycompat::yaml::Loader;
use lmeval_testkit::{Confirmed, Dice, Oracle, fuzz_cases, fuzz_seed};

use self::generate::Generator;
use self::mutate::Mutator;
use crate::yaml_typed::typed;

const SEED: u64 = 20_261_115;
const CASES: usize = 200_000;
const BATCH: usize = 500;
const MOST_SHOWN: usize = 10;

/// The typed form of a document; `None` if it does not load.
fn ours(text: &str) -> Option<String> {
    Loader { functions: true, ..Loader::default() }.load(text).ok().map(|loaded| typed(&loaded.value))
}

/// One line for `tests/oracle/yaml_values.py`.
fn question(documents: &[String]) -> String {
    serde_json::to_string(documents).unwrap()
}

/// The typed forms that PyYAML gave; `None` for a document that does not load.
fn theirs(answer: &str) -> Vec<Option<String>> {
    serde_json::from_str(answer).unwrap()
}

#[test]
fn random_and_mutated_documents_load_as_in_pyyaml() {
    let Some(python) = lmeval_testkit::test_environment() else {
        return;
    };
    let seed = fuzz_seed(SEED);
    let cases = fuzz_cases(CASES);
    let mut confirmed = Confirmed::load("yaml");
    let mut oracle = None;
    let mut dice = Dice::new(seed);
    let mutator = Mutator::new(lmeval_testkit::reference_library().as_deref());
    let mut failures = Vec::new();
    let (mut done, mut loaded) = (0, 0);
    while done < cases && failures.len() < MOST_SHOWN {
        let batch: Vec<String> =
            (0..BATCH.min(cases - done)).map(|_| document(&mut dice, &mutator)).collect();
        let found: Vec<Option<String>> = batch.iter().map(|text| ours(text)).collect();
        loaded += found.iter().flatten().count();
        done += batch.len();
        let outcomes = found.iter().map(|found| found.as_deref().unwrap_or("does not load"));
        if confirmed.contains(batch.iter().map(String::as_str).chain(outcomes)) {
            continue;
        }
        let oracle = oracle.get_or_insert_with(|| Oracle::start(&python, "yaml_values.py"));
        let answers = oracle.ask(&question(&batch));
        for ((text, ours), theirs) in batch.iter().zip(found).zip(theirs(&answers)) {
            if ours != theirs && failures.len() < MOST_SHOWN {
                let shrunk = shrink::shrink(text, oracle);
                if !failures.contains(&shrunk) {
                    failures.push(shrunk);
                }
            }
        }
    }
    assert!(failures.is_empty(), "seed {seed}:\n{}", failures.join("\n"));
    // Only errors, or only valid documents, would test little.
    let share = loaded * 100 / done.max(1);
    assert!(cases < 1000 || (35..75).contains(&share), "{share} % of the documents load");
    confirmed.finish();
}

fn document(dice: &mut Dice, mutator: &Mutator) -> String {
    match dice.roll(20) {
        0..9 => Generator::new(dice).document(),
        9..11 => Generator::new(dice).scalar_document(),
        11..13 => Generator::new(dice).noise(),
        13..17 => mutator.snippet(dice),
        _ => {
            let text = Generator::new(dice).document();
            mutator.mutate(&text, dice)
        }
    }
}
