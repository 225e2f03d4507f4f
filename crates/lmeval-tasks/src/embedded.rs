//! The built-in library: a few small tasks with their data, compiled into the binary.
//!
//! Its files have paths such as `builtin:/demo/capitals.yaml`. They appear in messages and can be joined and followed
//! by includes, but are never looked up on disk.

use std::path::{Component, Path};

/// The prefix of every path in the built-in library.
pub const ROOT: &str = "builtin:";

/// Embeds files below `library/`.
macro_rules! table {
    ($($path:literal),* $(,)?) => {
        &[$(($path, include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/library/", $path)))),*]
    };
}

/// Every file, sorted by path.
static FILES: &[(&str, &str)] = table![
    "demo/_base_yaml",
    "demo/_few_shot_yaml",
    "demo/arithmetic.yaml",
    "demo/capitals.yaml",
    "demo/choice.yaml",
    "demo/data/arithmetic_test.jsonl",
    "demo/data/arithmetic_train.jsonl",
    "demo/data/capitals_test.jsonl",
    "demo/data/capitals_train.jsonl",
    "demo/data/facts_test.jsonl",
    "demo/data/facts_train.jsonl",
    "demo/data/last_word_test.jsonl",
    "demo/data/order_test.jsonl",
    "demo/data/prose_test.jsonl",
    "demo/data/sentiment_test.jsonl",
    "demo/data/sentiment_train.jsonl",
    "demo/data/spelling_test.jsonl",
    "demo/data/translate_test.jsonl",
    "demo/data/translate_train.jsonl",
    "demo/demo.yaml",
    "demo/facts.yaml",
    "demo/judge.yaml",
    "demo/last_word.yaml",
    "demo/order.yaml",
    "demo/prose.yaml",
    "demo/sentiment.yaml",
    "demo/spelling.yaml",
    "demo/translate.yaml",
];

/// The files of the built-in library, sorted by path: path below [`ROOT`] and content.
pub fn files() -> &'static [(&'static str, &'static str)] {
    FILES
}

/// Whether a path belongs to the built-in library; the file itself need not exist.
pub fn contains(path: &Path) -> bool {
    path.components().next() == Some(Component::Normal(ROOT.as_ref()))
}

/// The content of a file such as `builtin:/demo/capitals.yaml`; `.` and `..` are resolved within the library.
pub fn read(path: &Path) -> Option<&'static str> {
    let mut parts = path.components();
    if parts.next() != Some(Component::Normal(ROOT.as_ref())) {
        return None;
    }
    let mut names: Vec<&str> = Vec::new();
    for part in parts {
        match part {
            Component::Normal(name) => names.push(name.to_str()?),
            Component::CurDir => {}
            Component::ParentDir => {
                names.pop()?;
            }
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    let wanted = names.join("/");
    let index = FILES.binary_search_by(|(path, _)| path.cmp(&wanted.as_str())).ok()?;
    Some(FILES[index].1)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use fs_err as fs;
    use lmeval_pycompat::{Value, json, yaml};

    use super::*;

    fn listed(folder: &Path, prefix: &str, names: &mut Vec<String>) {
        for entry in fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let name = format!("{prefix}{}", entry.file_name().to_str().unwrap());
            if entry.file_type().unwrap().is_dir() {
                listed(&entry.path(), &format!("{name}/"), names);
            } else {
                names.push(name);
            }
        }
    }

    fn is_data(path: &str) -> bool {
        path.starts_with("demo/data/")
    }

    fn documents(name: &str) -> Vec<Value> {
        let text = read(&Path::new("builtin:/demo/data").join(format!("{name}.jsonl"))).unwrap();
        text.lines().map(|line| json::loads(line).unwrap()).collect()
    }

    fn text<'a>(document: &'a Value, key: &str) -> &'a str {
        document.as_dict().unwrap().get_str(key).unwrap().as_str().unwrap()
    }

    #[test]
    fn table_lists_every_file_in_order() {
        let mut there = Vec::new();
        listed(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/library")), "", &mut there);
        there.sort();
        let table: Vec<&str> = files().iter().map(|(path, _)| *path).collect();
        assert_eq!(table, there);
        assert!(files().iter().map(|(_, content)| content.len()).sum::<usize>() < 120_000);
    }

    #[test]
    fn reads_by_path() {
        let found = |path: &str| read(Path::new(path)).is_some();
        assert!(found("builtin:/demo/demo.yaml"));
        assert!(found("builtin:/demo/./data/../_base_yaml"));
        assert_eq!(read(&Path::new(ROOT).join("demo/demo.yaml")), read(Path::new("builtin:/demo/demo.yaml")));
        for missing in [
            "builtin:",
            "builtin:/",
            "builtin:/demo",
            "demo/demo.yaml",
            "/builtin:/demo/demo.yaml",
            "builtin:/../demo/demo.yaml",
            "",
        ] {
            assert!(!found(missing), "{missing}");
        }
        assert!(contains(Path::new("builtin:/missing")) && !contains(Path::new("builtin/demo")));
    }

    #[test]
    fn every_task_file_is_yaml_and_its_data_exists() {
        let mut used = BTreeSet::new();
        for (path, content) in files().iter().filter(|(path, _)| !is_data(path)) {
            let loaded = yaml::load(content).unwrap_or_else(|error| panic!("{path}: {error}"));
            let mapping = loaded.value.as_dict().unwrap().clone();
            let Some(arguments) = mapping.get_str("dataset_kwargs") else {
                continue;
            };
            let splits = arguments.as_dict().unwrap().get_str("data_files").unwrap().as_dict().unwrap();
            for (split, file) in splits.iter() {
                let file = file.as_str().unwrap();
                assert!(file.ends_with(&format!("_{}.jsonl", split.as_str().unwrap())), "{path}: {file}");
                assert!(read(&Path::new("builtin:/demo").join(file)).is_some(), "{path}: {file}");
                used.insert(format!("demo/{file}"));
            }
        }
        let data = files().iter().map(|(path, _)| (*path).to_owned()).filter(|path| is_data(path));
        assert_eq!(used, data.collect());
    }

    #[test]
    fn splits_are_large_enough_and_share_no_document() {
        for (path, content) in files().iter().filter(|(path, _)| is_data(path)) {
            let lines: BTreeSet<&str> = content.lines().collect();
            assert_eq!(lines.len(), content.lines().count(), "{path} repeats a document");
            let wanted = if path.ends_with("_train.jsonl") { 12..=60 } else { 20..=60 };
            assert!(wanted.contains(&lines.len()), "{path}: {}", lines.len());
            if let Some(test) = path.strip_suffix("_train.jsonl") {
                let test = read(Path::new(&format!("builtin:/{test}_test.jsonl"))).unwrap();
                assert!(test.lines().all(|line| !lines.contains(line)), "{path}");
            }
        }
    }

    #[test]
    fn answers_are_among_the_choices() {
        for name in ["capitals_test", "capitals_train", "facts_test", "facts_train"] {
            let mut seen = BTreeSet::new();
            for document in documents(name) {
                let fields = document.as_dict().unwrap();
                let choices = fields.get_str("choices").unwrap().as_list().unwrap();
                let answer = fields.get_str("answer").unwrap().as_i64().unwrap();
                let unique: BTreeSet<&str> = choices.iter().map(|choice| choice.as_str().unwrap()).collect();
                assert!(
                    unique.len() == choices.len() && (3..=5).contains(&choices.len()),
                    "{name}: {choices:?}"
                );
                assert!(usize::try_from(answer).unwrap() < choices.len(), "{name}: {choices:?}");
                seen.insert(answer);
            }
            assert!(seen.len() >= 4, "{name}: the gold index takes few values");
        }
        for name in ["sentiment_test", "sentiment_train"] {
            let labels: Vec<i64> = documents(name)
                .iter()
                .map(|document| document.as_dict().unwrap().get_str("label").unwrap().as_i64().unwrap())
                .collect();
            assert!(labels.iter().all(|label| [0, 1].contains(label)));
            assert_eq!(
                labels.iter().sum::<i64>() * 2,
                i64::try_from(labels.len()).unwrap(),
                "{name} is balanced"
            );
        }
    }

    #[test]
    fn sums_in_solutions_are_right() {
        for document in documents("arithmetic_test").iter().chain(&documents("arithmetic_train")) {
            let (solution, answer) = (text(document, "solution"), text(document, "answer"));
            let words: Vec<&str> =
                solution.split_whitespace().map(|word| word.trim_end_matches(['.', ','])).collect();
            let number = |word: &str| word.replace(',', "").parse::<i64>().unwrap();
            for window in words.windows(5).filter(|window| window[3] == "=") {
                let (left, right) = (number(window[0]), number(window[2]));
                let result = match window[1] {
                    "+" => left + right,
                    "-" => left - right,
                    "×" => left * right,
                    "÷" => left / right,
                    other => panic!("{other} in {solution}"),
                };
                assert_eq!(result, number(window[4]), "{solution}");
            }
            let last = words.iter().rev().find(|word| word.starts_with(|first: char| first.is_ascii_digit()));
            let after_equals =
                words.iter().rposition(|word| *word == "=").map(|position| words[position + 1]);
            assert!(after_equals == Some(answer) || last == Some(&answer), "{solution} → {answer}");
        }
    }

    #[test]
    fn last_words_are_words_that_follow_the_context() {
        for document in documents("last_word_test") {
            let (start, last) = (text(&document, "text"), text(&document, "last"));
            assert!(start.ends_with(char::is_alphabetic), "{start}");
            assert!(last.chars().all(char::is_alphabetic), "{last}");
        }
    }
}
