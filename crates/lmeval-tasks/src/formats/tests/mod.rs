//! Tests of format selection and of the generated templates.

mod recorded;

use lmeval_core::OutputType;
use lmeval_pycompat::yaml;
use lmeval_pycompat::{Dict, Value};
use lmeval_scoring::registry::Registry;

use super::{ChoiceLabels, Format, FormatTemplates, Overrides, Templates, resolve};
use crate::config::Field;
use crate::source::Mapping;

fn selected(formats: &str, selection: Option<&str>) -> (String, Format) {
    let formats = yaml::load(formats).unwrap().value;
    let found = resolve(&formats, selection, &Registry::default(), &Mapping::new()).unwrap();
    (found.name.to_string(), found.format)
}

fn built_in(name: &str) -> Format {
    let registry = Registry::default();
    Format::clone(registry.formats.get(name).unwrap().code.rust().unwrap())
}

fn templates(format: &Format) -> FormatTemplates {
    let text = |text: &str| Field::Text(text.into());
    format.templates(&text("question"), &text("answer"), Some(&text("choices"))).unwrap()
}

#[test]
fn selection_wins() {
    assert_eq!(selected("mcqa", None), ("mcqa".into(), built_in("mcqa")));
    assert_eq!(selected("mcqa", Some("cloze")), ("cloze".into(), built_in("cloze")));
    let (name, format) = selected("{type: mcqa, instruction: X}", None);
    assert_eq!((name.as_str(), format.instruction.as_deref()), ("mcqa", Some("X")));
    let (_, format) = selected("{type: mcqa, instruction: X}", Some("mcqa"));
    assert_eq!(format.instruction.as_deref(), Some("X"));
    assert_eq!(selected("{type: mcqa, instruction: X}", Some("cot")), ("cot".into(), built_in("cot")));
}

#[test]
fn table_defines_its_own_names() {
    let table =
        "{mcqa: {instruction: X}, short: {type: mcqa, question_prefix: null}, plain: cloze, cot: null}";
    assert_eq!(selected(table, None).1.instruction.as_deref(), Some("X"));
    let (name, format) = selected(table, Some("short"));
    assert_eq!((name.as_str(), format.question_prefix), ("short", None));
    assert_eq!(selected(table, Some("plain")), ("plain".into(), built_in("cloze")));
    assert_eq!(selected(table, Some("cot")).1, built_in("cot"));
}

#[test]
fn every_field_can_be_set() {
    let (_, format) = selected(
        "{type: mcqa, output_type: generate_until, instruction: i, question_prefix: q, choice_labels: [x, 2], \
          choice_delimiter: c, section_separator: s, answer_instruction: a, answer_prompt: p, gen_prefix: g, \
          target_delimiter: t, fewshot_delimiter: f, scorer: {type: regex}}",
        None,
    );
    let text = |text: &str| Some(text.to_owned());
    let expected = Format {
        output_type: OutputType::GenerateUntil,
        instruction: text("i"),
        question_prefix: text("q"),
        choice_labels: Some(ChoiceLabels::List(vec!["x".into(), "2".into()])),
        choice_delimiter: "c".into(),
        section_separator: "s".into(),
        answer_instruction: text("a"),
        answer_prompt: text("p"),
        gen_prefix: text("g"),
        target_delimiter: "t".into(),
        fewshot_delimiter: "f".into(),
        scorer: Some(Value::dict([("type", Value::str("regex"))])),
    };
    assert_eq!(format, expected);
    assert!(
        built_in("mcqa")
            .with_overrides(&Dict::from_iter([(Value::str("answer_prompt"), Value::Int(1))]))
            .is_err()
    );
}

#[test]
fn generates_readable_templates() {
    let mcqa = templates(&built_in("mcqa"));
    assert_eq!(
        mcqa.doc_to_text,
        "Question: {{question}}\n{% for _choice in choices %}{{ \"ABCDEFGHIJKLMNOPQRSTUVWXYZ\"[loop.index0] }}. \
         {{ _choice }}{% if not loop.last %}\n{% endif %}{% endfor %}\nAnswer:"
    );
    assert_eq!(
        mcqa.doc_to_choice.as_deref(),
        Some("{{ (\"ABCDEFGHIJKLMNOPQRSTUVWXYZ\" | list)[:choices | length] }}")
    );
    assert_eq!(mcqa.doc_to_target, "{{ answer if answer is number else choices.index(answer) }}");
    let cloze = templates(&built_in("cloze"));
    assert_eq!(cloze.doc_to_text, "Question: {{question}}\nAnswer:");
    assert_eq!(cloze.doc_to_choice.as_deref(), Some("{{choices}}"));
    let cot = templates(&built_in("cot"));
    assert_eq!(cot.doc_to_target, "{{ choices[answer] if answer is number else answer }}");
}

#[test]
fn without_options_the_target_is_the_answer() {
    let text = |text: &str| Field::Text(text.into());
    let cot = built_in("cot").templates(&text("q"), &text("{{ a }}"), None).unwrap();
    assert_eq!((cot.doc_to_choice, cot.doc_to_target.as_str()), (None, "{{ a }}"));
    assert!(built_in("mcqa").templates(&text("q"), &text("a"), None).is_err());
    let number = built_in("cot").templates(&Field::Int(5), &Field::Bool(true), None).unwrap();
    assert!(number.doc_to_text.contains("Problem: {{5}}\n"));
    assert_eq!(number.doc_to_target, "{{True}}");
}

#[test]
fn number_labels_are_integers() {
    let text = |text: &str| Field::Text(text.into());
    let (_, format) = selected("{type: generate, choice_labels: numbers}", None);
    for (target, answer, label) in [
        ("answer", Value::Float(1.0), "2"),
        ("answer", Value::Int(1), "2"),
        ("{{ answer - 1 }}", Value::Float(1.0), "1"),
        ("{{ answer }}", Value::Float(0.0), "1"),
        ("answer", Value::str("B"), "B"),
        ("answer", Value::str("Jupiter"), "2"),
    ] {
        let made = format.templates(&text("question"), &text(target), Some(&text("choices"))).unwrap();
        let options = ["Mars", "Jupiter"].map(Value::str);
        let document =
            Dict::from_iter([(Value::str("answer"), answer), (Value::str("choices"), Value::list(options))]);
        let template = lmeval_template::Environment::new().compile(&made.doc_to_target).unwrap();
        assert_eq!(template.render(&document).unwrap(), label, "{target}");
    }
}

#[test]
fn fields_of_a_format_rebuild_it() {
    let formats = Registry::default().formats;
    let mut numbered = built_in("cot");
    numbered.choice_labels = Some(ChoiceLabels::List(vec!["i".into(), "ii".into()]));
    let formats = formats.names().into_iter().map(built_in).chain([numbered]);
    for format in formats {
        let pieces = format.to_dict();
        assert_eq!(pieces.len(), Format::FIELDS.len());
        assert_eq!(built_in("mcqa").with_overrides(&pieces).unwrap(), format);
    }
}
