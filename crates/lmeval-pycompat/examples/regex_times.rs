//! Times compiling and matching of recorded patterns, to compare two builds:
//!
//! ```text
//! python3.11 tests/record/re_vectors.py --library TASKS_DIRECTORY > library.json
//! cargo run --profile profiling -p lmeval-pycompat --example regex_times -- library.json
//! ```
//!
//! Prints the best of several rounds: microseconds for each compilation, and for `findall` of each pattern on each
//! string.

use std::hint::black_box;
use std::time::Instant;

use lmeval_pycompat::re::{Flags, Regex};
use serde_json::Value;

const ROUNDS: usize = 15;

fn best(mut work: impl FnMut()) -> f64 {
    let seconds = (0..ROUNDS).map(|_| {
        let start = Instant::now();
        work();
        start.elapsed().as_secs_f64()
    });
    seconds.fold(f64::INFINITY, f64::min)
}

#[expect(clippy::print_stdout, reason = "the figures are the result")]
fn main() {
    let path = std::env::args().nth(1).expect("the path of a recording");
    let recording = fs_err::read_to_string(path).expect("a recording");
    let cases: Vec<Value> = serde_json::from_str(&recording).expect("a recording in JSON");
    let text = |value: &Value| value.as_str().expect("a string").to_owned();
    let cases: Vec<(String, Vec<String>)> = cases
        .iter()
        .filter(|case| case.get("e").is_none())
        .map(|case| {
            let strings = case["x"].as_array().expect("strings");
            (text(&case["p"]), strings.iter().map(|entry| text(&entry["t"])).collect())
        })
        .collect();
    let compile = best(|| {
        for _ in 0..10 {
            for (pattern, _) in &cases {
                black_box(Regex::new(pattern, Flags::NONE)).expect("a valid pattern");
            }
        }
    });
    let compiled: Vec<Regex> =
        cases.iter().map(|(pattern, _)| Regex::new(pattern, Flags::NONE).expect("a valid pattern")).collect();
    let pairs: usize = cases.iter().map(|(_, strings)| strings.len()).sum();
    let find = best(|| {
        for (regex, (_, strings)) in compiled.iter().zip(&cases) {
            for text in strings {
                black_box(regex.findall(text)).expect("no limit");
            }
        }
    });
    let compiles = 10.0 * cases.len() as f64;
    println!(
        "{} patterns, {pairs} pairs: compile {:.3} µs, findall {:.4} µs",
        cases.len(),
        compile * 1e6 / compiles,
        find * 1e6 / pairs as f64
    );
}
