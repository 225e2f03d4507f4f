//! Compares the templates of formats with recorded prompts.

use std::path::PathBuf;

use lmeval_core::OutputType;
use lmeval_pycompat::literal::literal_eval;
use lmeval_pycompat::yaml;
use lmeval_pycompat::{Dict, Value};
use lmeval_template::Environment;

use super::super::{ChoiceLabels, Templates};
use super::built_in;
use crate::config::{Field, TaskConfig};
use crate::source::{Mapping, Origin};

fn golden(name: &str) -> String {
    let path = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/e2e")).join(name);
    fs_err::read_to_string(path).unwrap()
}

fn documents(name: &str) -> Vec<Dict> {
    let line = |line: &str| match yaml::load(line).unwrap().value {
        Value::Dict(document) => Dict::clone(&document),
        other => panic!("{other:?}"),
    };
    golden(name).lines().map(line).collect()
}

fn render(field: Option<&Field>, document: &Dict) -> String {
    let Some(Field::Text(source)) = field else { panic!("{field:?}") };
    Environment::new().compile(source).unwrap().render(document).unwrap()
}

fn choices(config: &TaskConfig, document: &Dict) -> Vec<String> {
    let text = render(config.doc_to_choice.as_ref(), document);
    let Value::List(items) = literal_eval(&text).unwrap() else { panic!("{text}") };
    items.iter().map(|item| item.as_str().unwrap().to_owned()).collect()
}

/// The prompt of a document; for an example, followed by its answer.
fn turn(config: &TaskConfig, document: &Dict, is_example: bool) -> String {
    let text = render(config.doc_to_text.as_ref(), document);
    let delimiter = config.target_delimiter.as_deref().unwrap();
    let target = render(config.doc_to_target.as_ref(), document);
    let answer = match config.output_type {
        OutputType::MultipleChoice => choices(config, document)[target.parse::<usize>().unwrap()].clone(),
        _ => target,
    };
    let prefix = config.gen_prefix.as_ref().and_then(Field::as_text);
    text + &match (prefix, is_example) {
        (Some(prefix), true) => format!("{delimiter}{prefix} {answer}"),
        (Some(prefix), false) => format!("{delimiter}{prefix}"),
        (None, true) => format!("{delimiter}{answer}"),
        (None, false) => String::new(),
    }
}

fn task(selection: Option<&str>) -> TaskConfig {
    let Value::Dict(dict) = yaml::load(&golden("tasks/mc_formats.yaml")).unwrap().value else {
        panic!("not a mapping")
    };
    let mut mapping = Mapping::from_dict(Dict::clone(&dict), &Origin::Inline);
    if let Some(selection) = selection {
        mapping.insert("_formats_selection", selection, Origin::Override);
    }
    TaskConfig::from_mapping(&mapping, &mut Vec::new()).unwrap()
}

#[test]
fn renders_every_recorded_prompt() {
    let tests = documents("data/mc_test.jsonl");
    let training = documents("data/mc_train.jsonl");
    let runs: Vec<serde_json::Value> = serde_json::from_str(&golden("recorded.json")).unwrap();
    let mut compared = 0;
    for run in &runs {
        let Some(name) = run["run"]["tasks"][0].as_str().filter(|name| name.starts_with("mc_formats")) else {
            continue;
        };
        let config = task(name.split_once('@').map(|(_, format)| format));
        let examples: Vec<String> = training.iter().map(|document| turn(&config, document, true)).collect();
        for request in run["requests"].as_array().unwrap() {
            let document = &tests[request["doc_id"].as_u64().unwrap() as usize];
            let prompt = request["args"][0].as_str().unwrap();
            let parts: Vec<&str> = prompt.split("\n\n").collect();
            let (question, shots) = parts.split_last().unwrap();
            assert_eq!(*question, turn(&config, document, false), "{name}");
            assert_eq!(shots.len(), 2, "{name}");
            for shot in shots {
                assert!(examples.iter().any(|example| example == shot), "{name}: {shot}");
            }
            if config.output_type == OutputType::MultipleChoice {
                let option = &choices(&config, document)[request["idx"].as_u64().unwrap() as usize];
                let delimiter = config.target_delimiter.as_deref().unwrap();
                assert_eq!(request["args"][1], format!("{delimiter}{option}"), "{name}");
            }
            compared += 1;
        }
        for sample in run["samples"]["mc_formats"].as_array().unwrap() {
            let document = &tests[sample["doc_id"].as_u64().unwrap() as usize];
            let target = render(config.doc_to_target.as_ref(), document);
            let recorded =
                sample["target"].as_str().map_or_else(|| sample["target"].to_string(), str::to_owned);
            assert_eq!(target, recorded, "{name}");
        }
    }
    assert!(compared >= 60, "{compared}");
}

fn planets() -> Dict {
    let Value::Dict(document) =
        yaml::load("{question: Largest planet?, choices: [Mars, Jupiter, Venus], answer: 1, word: Jupiter}")
            .unwrap()
            .value
    else {
        panic!("not a mapping")
    };
    Dict::clone(&document)
}

/// The prompt, options and target of a format for the document about planets.
fn rendered(format: &str, labels: Option<ChoiceLabels>, answer: &str) -> (String, String, String) {
    let text = |text: &str| Field::Text(text.into());
    let mut format = built_in(format);
    format.choice_labels = labels.or(format.choice_labels);
    let made = format.templates(&text("question"), &text(answer), Some(&text("choices"))).unwrap();
    let show = |source: &str| render(Some(&text(source)), &planets());
    (show(&made.doc_to_text), show(&made.doc_to_choice.unwrap()), show(&made.doc_to_target))
}

#[test]
fn renders_labels_of_every_kind() {
    let is = |found: (String, String, String), text: &str, options: &str, target: &str| {
        assert_eq!((found.0.as_str(), found.1.as_str(), found.2.as_str()), (text, options, target));
    };
    let mcqa = "Question: Largest planet?\nA. Mars\nB. Jupiter\nC. Venus\nAnswer:";
    is(rendered("mcqa", None, "answer"), mcqa, "['A', 'B', 'C']", "1");
    is(rendered("mcqa", None, "{{ word }}"), mcqa, "['A', 'B', 'C']", "1");
    let numbers = "Question: Largest planet?\n1. Mars\n2. Jupiter\n3. Venus\nAnswer:";
    is(rendered("mcqa", Some(ChoiceLabels::Numbers), "answer"), numbers, "['1', '2', '3']", "1");
    let own = ChoiceLabels::List(vec!["x".into(), "it's".into(), "{{".into()]);
    let listed = "Question: Largest planet?\nx. Mars\nit's. Jupiter\n{{. Venus\nAnswer:";
    is(rendered("mcqa", Some(own.clone()), "answer"), listed, "['x', \"it's\", '{{']", "1");
    is(
        rendered("cloze", None, "word"),
        "Question: Largest planet?\nAnswer:",
        "['Mars', 'Jupiter', 'Venus']",
        "1",
    );
    assert_eq!(rendered("generate", None, "answer").2, "B");
    assert_eq!(rendered("generate", None, "word").2, "B");
    assert_eq!(rendered("generate", None, "{{ 'Pluto' }}").2, "Pluto");
    assert_eq!(rendered("generate", Some(ChoiceLabels::Numbers), "answer").2, "2");
    assert_eq!(rendered("generate", Some(own), "answer").2, "Jupiter");
    assert_eq!(
        rendered("generate", Some(ChoiceLabels::Numbers), "answer").0,
        "Given the following question and 3 candidate answers (1, 2 and 3), choose the best answer.\n\
         Question: Largest planet?\n1. Mars\n2. Jupiter\n3. Venus\nYour response should end with \"The best answer \
         is [answer_letter]\" where the [answer_letter] is one of 1, 2 or 3."
    );
}

#[test]
fn more_options_than_letters_is_an_error() {
    let text = |text: &str| Field::Text(text.into());
    let many: Vec<Value> = (0..27).map(Value::Int).collect();
    let options = Field::List(many.into());
    let made = built_in("mcqa").templates(&text("question"), &text("answer"), Some(&options));
    let template = Environment::new().compile(&made.unwrap().doc_to_text).unwrap();
    assert!(template.render(&planets()).is_err());
}
