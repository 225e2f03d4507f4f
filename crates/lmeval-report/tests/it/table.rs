//! Tables equal the reference's, byte for byte.

use lmeval_pycompat::random::Random;
use lmeval_pycompat::{Dict, Value, json};
use lmeval_report::{Column, make_latex_table, make_table};

use crate::reference::{ask, question, text};

/// The number of objects compared.
const OBJECTS: usize = 60;

const ALIASES: [&str; 50] = [
    "1e100",
    "1E-3",
    " 5 ",
    "+3",
    ".5",
    "5.",
    "1e-100",
    "0x10",
    "１２",
    "1 000",
    "NaN",
    "Infinity",
    "+inf",
    "-nan",
    "1__0",
    "_1",
    "1_",
    "1,2,3",
    "1,234.5",
    "a1,2",
    "1e+05",
    "1.5e3",
    "١٢",
    "1e5e",
    "TRUE ",
    "2020-01-02",
    "plain",
    "two words",
    "123",
    "日本語",
    "a|b",
    "true",
    "False",
    "nan",
    "-inf",
    "1,234",
    "\"quoted\"",
    "'q'",
    "a\tb",
    "a\nb",
    "1e5",
    "0.50",
    "café",
    "x\u{301}",
    "｜",
    "10%",
    "1_0",
    "mmlu - x",
    "\"a\" and \"b\"",
    "-",
];

const METRICS: [&str; 8] =
    ["acc", "acc_norm", "exact_match", "f1", "1", "pass@1(exact_match)", "word_perplexity", "m_é"];

const FILTERS: [&str; 6] = ["none", "strict-match", "1", "2.5", "", "a,b"];

fn pick<'a, T>(random: &mut Random, items: &'a [T]) -> &'a T {
    random.choice(items).unwrap()
}

fn version(random: &mut Random) -> Value {
    pick(
        random,
        &[
            Value::Int(0),
            Value::Int(1),
            Value::Int(2),
            Value::Float(1.0),
            Value::Float(2.0),
            Value::Float(2.5),
            Value::Float(0.125),
            Value::str("Yaml"),
            Value::str("2.0"),
            Value::str("N/A"),
            Value::str("v1"),
            Value::None,
            Value::Bool(true),
        ],
    )
    .clone()
}

fn number(random: &mut Random) -> f64 {
    match random.randbelow(12) {
        0 => 0.0,
        1 => 1.0,
        2 => 0.5,
        3 => 0.25,
        4 => 1.0 / 3.0,
        5 => -0.0,
        6 => f64::NAN,
        7 => f64::INFINITY,
        8 => f64::NEG_INFINITY,
        9 => random.random() * 1e6,
        10 => random.random() * 1e-4,
        _ => random.random(),
    }
}

fn value(random: &mut Random) -> Value {
    match random.randbelow(16) {
        0 => Value::Int(999),
        1 => Value::None,
        2 => Value::str("text"),
        3 => Value::Float(f64::from_bits(0x4340_0000_0000_0001)),
        4 => Value::Bool(false),
        5 => Value::str("0.1250"),
        _ => Value::Float(number(random)),
    }
}

fn stderr(random: &mut Random) -> Option<Value> {
    match random.randbelow(8) {
        0 => None,
        1 | 2 => Some(Value::str("N/A")),
        3 => Some(Value::Int(0)),
        _ => Some(Value::Float(number(random))),
    }
}

/// One object: some tasks, some nested groups, each part present or not.
fn object(random: &mut Random) -> Dict {
    let mut results = Dict::new();
    let mut parts = [Dict::new(), Dict::new(), Dict::new(), Dict::new()];
    let names: Vec<String> =
        (0..=random.randbelow(6)).map(|number| format!("n{}", 7 * number % 10)).collect();
    for name in &names {
        let mut entry = Dict::new();
        if random.random() < 0.9 {
            entry.insert("alias", *pick(random, &ALIASES));
        }
        entry.insert("name", name.as_str());
        entry.insert("sample_len", 3_i64);
        let mut directions = Dict::new();
        for _ in 0..random.randbelow(4) {
            let (metric, filter) = (*pick(random, &METRICS), *pick(random, &FILTERS));
            entry.insert(format!("{metric},{filter}"), value(random));
            if let Some(error) = stderr(random) {
                entry.insert(format!("{metric}_stderr,{filter}"), error);
            }
            directions
                .insert(metric, pick(random, &[Value::Bool(true), Value::Bool(false), Value::None]).clone());
        }
        results.insert(name.as_str(), entry);
        let [versions, shots, higher, _] = &mut parts;
        if random.random() < 0.9 {
            versions.insert(name.as_str(), version(random));
        }
        if random.random() < 0.8 {
            shots.insert(name.as_str(), *pick(random, &[0_i64, 0, 5, 25]));
        }
        if random.random() < 0.9 {
            higher.insert(name.as_str(), directions);
        }
    }
    // Members come later in the list than their group, so there are no cycles.
    for (index, name) in names.iter().enumerate() {
        if random.random() < 0.4 && index + 1 < names.len() {
            let members = names[index + 1..].iter().filter(|_| random.random() < 0.5);
            let members = Value::list(members.map(|member| Value::str(member.as_str())));
            parts[3].insert(name.as_str(), members);
        }
    }
    let [versions, shots, higher, subtasks] = parts;
    let mut object = Dict::new();
    object.insert("results", results.clone());
    object.insert("groups", results);
    object.insert("group_subtasks", subtasks);
    object.insert("versions", versions);
    object.insert("n-shot", shots);
    object.insert("higher_is_better", higher);
    object
}

#[test]
fn tables_match_the_reference() {
    let mut random = Random::from_seed(22);
    let cases: Vec<(Dict, Column, bool)> = (0..OBJECTS)
        .map(|_| {
            let column = *pick(&mut random, &[Column::Results, Column::Groups]);
            (object(&mut random), column, random.random() < 0.2)
        })
        .collect();
    let questions: Vec<Value> = cases
        .iter()
        .map(|(object, column, sort)| {
            let column = if *column == Column::Groups { "groups" } else { "results" };
            question(
                "table",
                [
                    ("object", Value::from(object.clone())),
                    ("column", Value::str(column)),
                    ("sort", Value::Bool(*sort)),
                ],
            )
        })
        .collect();
    let Some(answers) = ask(&questions) else { return };
    let mut latex = 0;
    let mut wrong = Vec::new();
    for ((object, column, sort), answer) in cases.iter().zip(answers) {
        let answer = answer.unwrap();
        let ours = make_table(object, *column, *sort);
        let shown = || json::dumps(&Value::from(object.clone()), &json::Options::default()).unwrap();
        if ours != text(&answer, "markdown") {
            wrong.push(format!("{}\n{ours}\n{}", shown(), text(&answer, "markdown")));
        }
        // The reference's LaTeX writer cannot show infinity and NaN.
        if answer.as_dict().unwrap().contains_str("latex") {
            latex += 1;
            let ours = make_latex_table(object, *column, *sort);
            if ours != text(&answer, "latex") {
                wrong.push(format!("{}\n{ours}\n{}", shown(), text(&answer, "latex")));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {OBJECTS} differ:\n{}",
        wrong.len(),
        wrong[..wrong.len().min(4)].join("\n\n")
    );
    assert!(latex > OBJECTS / 3, "{latex} LaTeX tables");
}
