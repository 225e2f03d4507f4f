//! Random and mutated documents, against PyYAML.
//!
//! One Python process answers in batches while this one loads the same documents. A document on which the two differ
//! is shrunk before it is shown. `LM_EVAL_FUZZ_SEED` and `LM_EVAL_FUZZ_CASES` change the run.

mod generate;
mod mutate;
mod oracle;
mod random;
mod shrink;

use lmeval_pycompat::yaml::Loader;

use self::generate::Generator;
use self::mutate::Mutator;
use self::oracle::Oracle;
use self::random::Random;
use crate::yaml_typed::typed;

const SEED: u64 = 20_261_115;
const CASES: usize = 200_000;
const BATCH: usize = 500;
const MOST_SHOWN: usize = 10;

/// The typed form of a document; `None` where it does not load.
fn ours(text: &str) -> Option<String> {
    Loader { functions: true, ..Loader::default() }.load(text).ok().map(|loaded| typed(&loaded.value))
}

fn setting<T: std::str::FromStr>(name: &str, default: T) -> T {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name} is not a number: {text}")),
        Err(_) => default,
    }
}

#[test]
fn random_and_mutated_documents_give_the_values_of_pyyaml() {
    let Some(python) = lmeval_testkit::test_environment() else {
        return;
    };
    let seed = setting("LM_EVAL_FUZZ_SEED", SEED);
    let cases = setting("LM_EVAL_FUZZ_CASES", CASES);
    let mut oracle = Oracle::start(&python);
    let mut random = Random::new(seed);
    let mutator = Mutator::new(lmeval_testkit::reference_library().as_deref());
    let mut failures = Vec::new();
    let (mut done, mut loaded) = (0, 0);
    while done < cases && failures.len() < MOST_SHOWN {
        let batch: Vec<String> =
            (0..BATCH.min(cases - done)).map(|_| document(&mut random, &mutator)).collect();
        oracle.ask(&batch);
        let found: Vec<Option<String>> = batch.iter().map(|text| ours(text)).collect();
        loaded += found.iter().flatten().count();
        for ((text, ours), theirs) in batch.iter().zip(found).zip(oracle.answer()) {
            if ours != theirs && failures.len() < MOST_SHOWN {
                let shrunk = shrink::shrink(text, &mut oracle);
                if !failures.contains(&shrunk) {
                    failures.push(shrunk);
                }
            }
        }
        done += batch.len();
    }
    oracle.finish();
    assert!(failures.is_empty(), "seed {seed}:\n{}", failures.join("\n"));
    // A generator that makes only errors, or only valid documents, would test little.
    let share = loaded * 100 / done.max(1);
    assert!(cases < 1000 || (35..75).contains(&share), "{share} % of the documents load");
}

fn document(random: &mut Random, mutator: &Mutator) -> String {
    match random.below(20) {
        0..9 => Generator::new(random).document(),
        9..11 => Generator::new(random).scalar_document(),
        11..13 => Generator::new(random).noise(),
        13..17 => mutator.snippet(random),
        _ => {
            let text = Generator::new(random).document();
            mutator.mutate(&text, random)
        }
    }
}
