//! The differences between the two dialects, one small task each.

use lmeval_core::{Dialect, MemorySplits};
use lmeval_pycompat::{Value, json, yaml};
use lmeval_tasks::prompt::RequestOptions;
use lmeval_testkit::test_environment;

use crate::prompt_reference::ask_reference;
use crate::prompt_support::{build, document, splits, task};

/// A task and the arguments of its first requests in both dialects.
struct Difference {
    name: &'static str,
    task: &'static str,
    /// The splits, if the default ones are not enough.
    data: Option<&'static str>,
    /// Arguments of the requests for the first documents, in the default dialect.
    new: &'static [&'static str],
    /// The same in the old dialect.
    old: &'static [&'static str],
    /// Whether the reference sends the requests of the old dialect; if not, it fails or sends arguments that no model
    /// accepts.
    reference: bool,
}

/// Documents `Q0`, `Q1`, … to evaluate, and `Q5` as the only example.
const DATA: &str = r"
test:
  - {q: Q0, a: A0, n: 0, digits: '0', l: 0, opts: [x, y], none: null, image: I0}
  - {q: Q1, a: A1, n: 1, digits: '1', l: 1, opts: [x, y], none: null, image: I1}
  - {q: Q2, a: A2, n: 2, digits: '2', l: 0, opts: [x, y], none: null, image: I2}
train:
  - {q: Q5, a: A5, n: 5, digits: '5', l: 1, opts: [x, y], none: null, image: I5}
empty: []
";

const DIFFERENCES: &[Difference] = &[
    Difference {
        name: "space before an option",
        task: "{output_type: multiple_choice, doc_to_text: '{{q}} ', doc_to_choice: opts, doc_to_target: l}",
        data: None,
        new: &[r#"["Q0 ", "x"]"#, r#"["Q0 ", "y"]"#],
        old: &[r#"["Q0 ", " x"]"#, r#"["Q0 ", " y"]"#],
        reference: true,
    },
    Difference {
        name: "space in an option",
        task: r#"{output_type: multiple_choice, doc_to_text: q, doc_to_choice: [" x", y], doc_to_target: l}"#,
        data: None,
        new: &[r#"["Q0", " x"]"#, r#"["Q0", " y"]"#],
        old: &[r#"["Q0", "  x"]"#, r#"["Q0", " y"]"#],
        reference: true,
    },
    Difference {
        name: "empty context",
        task: r#"{output_type: multiple_choice, doc_to_text: "", doc_to_choice: opts, doc_to_target: l}"#,
        data: None,
        new: &[r#"["", "x"]"#],
        old: &[r#"["", " x"]"#],
        reference: true,
    },
    Difference {
        name: "prefix that ends in a space",
        task: "{output_type: multiple_choice, doc_to_text: q, doc_to_choice: opts, doc_to_target: l, gen_prefix: 'GP '}",
        data: None,
        new: &[r#"["Q0 GP ", "x"]"#],
        old: &[r#"["Q0 GP ", " x"]"#],
        reference: true,
    },
    Difference {
        name: "options as contexts",
        task: "{output_type: multiple_choice, doc_to_text: l, doc_to_choice: \"{{[q ~ ' x', q ~ ' y']}}\",
                doc_to_target: a, num_fewshot: 1, fewshot_split: train}",
        data: None,
        new: &[r#"["Q5 y A5\n\nQ0 x", " A0"]"#, r#"["Q5 y A5\n\nQ0 y", " A0"]"#],
        old: &[r#"["Q5 y A5\n\nQ0 x", " A0"]"#, r#"["Q5 y A5\n\nQ0 y", " A0"]"#],
        reference: true,
    },
    Difference {
        name: "question made of digits",
        task: "{output_type: multiple_choice, doc_to_text: '{{l}}', doc_to_choice: opts, doc_to_target: '{{1}}'}",
        data: None,
        new: &[r#"["x", " 1"]"#, r#"["y", " 1"]"#],
        old: &[r#"["x", " 1"]"#, r#"["y", " 1"]"#],
        reference: true,
    },
    Difference {
        name: "question made of digits, generation",
        task: "{doc_to_text: '{{l}}', doc_to_choice: opts, doc_to_target: a, generation_kwargs: {until: [x]}}",
        data: None,
        new: &[r#"["0", {"until": ["x"]}]"#],
        old: &[r#"["0", {"until": ["x"]}]"#],
        reference: false,
    },
    Difference {
        name: "mutual information",
        task: "{output_type: multiple_choice, doc_to_text: q, doc_to_choice: opts, doc_to_target: l,
                metric_list: [{metric: acc_mutual_info}]}",
        data: None,
        new: &[r#"["Q0", " x"]"#, r#"["Q0", " y"]"#, r#"["", " x"]"#, r#"["", " y"]"#],
        old: &[r#"["Q0", " x"]"#, r#"["Q0", " y"]"#, r#"["", " x"]"#, r#"["", " y"]"#],
        reference: true,
    },
    Difference {
        name: "mutual information after a space",
        task: "{output_type: multiple_choice, doc_to_text: '{{q}} ', doc_to_choice: opts, doc_to_target: l,
                metric_list: [{metric: acc_mutual_info}]}",
        data: None,
        new: &[r#"["Q0 ", "x"]"#, r#"["Q0 ", "y"]"#, r#"["", "x"]"#, r#"["", "y"]"#],
        old: &[r#"["Q0 ", " x"]"#, r#"["Q0 ", " y"]"#, r#"["", " x"]"#, r#"["", " y"]"#],
        reference: true,
    },
    Difference {
        name: "digits as the answer of an example",
        task: "{doc_to_text: q, doc_to_target: '{{n}}', num_fewshot: 1, fewshot_split: train,
                generation_kwargs: {until: [x]}}",
        data: None,
        new: &[r#"["Q5 5\n\nQ0", {"until": ["x"]}]"#],
        old: &[r#"["Q5 5\n\nQ0", {"until": ["x"]}]"#],
        reference: true,
    },
    Difference {
        name: "number as the answer of an example",
        task: "{doc_to_text: q, doc_to_target: n, num_fewshot: 1, fewshot_split: train, generation_kwargs: {until: [x]}}",
        data: None,
        new: &[r#"["Q5 5\n\nQ0", {"until": ["x"]}]"#],
        old: &[r#"["Q5 5\n\nQ0", {"until": ["x"]}]"#],
        reference: false,
    },
    Difference {
        name: "rendered list as the answer of an example",
        task: "{doc_to_text: q, doc_to_target: \"{{[a, 'b']}}\", num_fewshot: 1, fewshot_split: train,
                generation_kwargs: {until: [x]}}",
        data: None,
        new: &[r#"["Q5 A5\n\nQ0", {"until": ["x"]}]"#],
        old: &[r#"["Q5 A5\n\nQ0", {"until": ["x"]}]"#],
        reference: true,
    },
    Difference {
        name: "written list as target",
        task: "{doc_to_text: q, doc_to_target: ['{{a}}'], num_fewshot: 1, fewshot_split: train,
                generation_kwargs: {until: [x]}}",
        data: None,
        new: &[r#"["Q5 A5\n\nQ0", {"until": ["x"]}]"#],
        old: &[r#"["Q5 {{a}}\n\nQ0", {"until": ["x"]}]"#],
        reference: true,
    },
    Difference {
        name: "rendered list of indices",
        task: "{output_type: multiple_choice, doc_to_text: q, doc_to_choice: opts, doc_to_target: '{{[1,0]}}',
                num_fewshot: 1, fewshot_split: train}",
        data: None,
        new: &[r#"["Q5 y\n\nQ0", " x"]"#],
        old: &[r#"["Q5 y\n\nQ0", " x"]"#],
        reference: false,
    },
    Difference {
        name: "target that is not an option",
        task: "{output_type: multiple_choice, doc_to_text: q, doc_to_choice: opts, doc_to_target: a,
                num_fewshot: 1, fewshot_split: train}",
        data: None,
        new: &[r#"["Q5Q0", " x"]"#, r#"["Q5Q0", " y"]"#],
        old: &[r#"["Q5 A5\n\nQ0", " x"]"#, r#"["Q5 A5\n\nQ0", " y"]"#],
        reference: true,
    },
    Difference {
        name: "digits in a column as target",
        task: "{output_type: multiple_choice, doc_to_text: q, doc_to_choice: ['4', '5'], doc_to_target: digits,
                num_fewshot: 1, fewshot_split: train}",
        data: None,
        new: &[r#"["Q5Q0", " 4"]"#],
        old: &[r#"["Q5 5\n\nQ0", " 4"]"#],
        reference: true,
    },
    Difference {
        name: "options by key",
        task: "{output_type: multiple_choice, doc_to_text: q, doc_to_choice: {one: x, two: y}, doc_to_target: l}",
        data: None,
        new: &[r#"["Q0", " x"]"#, r#"["Q0", " y"]"#],
        old: &[r#"["Q0", " x"]"#, r#"["Q0", " y"]"#],
        reference: true,
    },
    Difference {
        name: "written list of options",
        task: "{output_type: multiple_choice, doc_to_text: q, doc_to_choice: ['{{a}}', z], doc_to_target: l}",
        data: None,
        new: &[r#"["Q0", " A0"]"#, r#"["Q0", " z"]"#],
        old: &[r#"["Q0", " {{a}}"]"#, r#"["Q0", " z"]"#],
        reference: true,
    },
    Difference {
        name: "rendered tuple of options",
        task: "{output_type: multiple_choice, doc_to_text: q, doc_to_choice: \"{{(a, 'z')}}\", doc_to_target: l}",
        data: None,
        new: &[r#"["Q0", " A0"]"#, r#"["Q0", " z"]"#],
        old: &[r#"["Q0", " A0"]"#, r#"["Q0", " z"]"#],
        reference: true,
    },
    Difference {
        name: "rendered options with surrounding whitespace",
        task: "{output_type: multiple_choice, doc_to_text: q, doc_to_choice: \" {{[a, 'z']}}\\n\", doc_to_target: l}",
        data: None,
        new: &[r#"["Q0", " A0"]"#, r#"["Q0", " z"]"#],
        old: &[r#"["Q0", " A0"]"#, r#"["Q0", " z"]"#],
        reference: true,
    },
    Difference {
        name: "digits to score",
        task: "{output_type: loglikelihood, doc_to_text: q, doc_to_target: '{{n}}'}",
        data: None,
        new: &[r#"["Q0", "0"]"#, r#"["Q1", "1"]"#],
        old: &[r#"["Q0", "0"]"#, r#"["Q1", "1"]"#],
        reference: true,
    },
    Difference {
        name: "list literal to score",
        task: "{output_type: loglikelihood, doc_to_text: q, doc_to_target: '{{[n]}}'}",
        data: None,
        new: &[r#"["Q0", "[0]"]"#],
        old: &[r#"["Q0", "[0]"]"#],
        reference: false,
    },
    Difference {
        name: "rolling",
        task: "{output_type: loglikelihood_rolling, doc_to_text: '', doc_to_target: a}",
        data: None,
        new: &[r#"["", "A0"]"#],
        old: &[r#"["A0"]"#],
        reference: true,
    },
    Difference {
        name: "prefix of an example",
        task: "{output_type: multiple_choice, doc_to_text: q, doc_to_choice: opts, doc_to_target: l, gen_prefix: '{{q}}',
                num_fewshot: 1, fewshot_split: train}",
        data: None,
        new: &[r#"["Q5 Q0 y\n\nQ0 Q0", " x"]"#],
        old: &[r#"["Q5 Q5 y\n\nQ0 Q0", " x"]"#],
        reference: true,
    },
    Difference {
        name: "first_n from the evaluated split",
        task: "{doc_to_text: q, doc_to_target: a, num_fewshot: 2, fewshot_split: test,
                fewshot_config: {sampler: first_n}, generation_kwargs: {until: [x]}}",
        data: None,
        new: &[r#"["Q0 A0\n\nQ1 A1\n\nQ0", {"until": ["x"]}]"#],
        old: &[r#"["Q1 A1\n\nQ2 A2\n\nQ0", {"until": ["x"]}]"#],
        reference: true,
    },
    Difference {
        name: "copies of the evaluated document",
        task: "{doc_to_text: q, doc_to_target: a, num_fewshot: 1, fewshot_split: test, generation_kwargs: {until: [x]}}",
        data: Some("test: [{q: Q0, a: A0}, {q: Q0, a: A0}, {q: Q0, a: A0}, {q: Q0, a: A0}, {q: Q1, a: A1}]"),
        new: &[
            r#"["Q1 A1\n\nQ0", {"until": ["x"]}]"#,
            r#"["Q1 A1\n\nQ0", {"until": ["x"]}]"#,
            r#"["Q1 A1\n\nQ0", {"until": ["x"]}]"#,
        ],
        old: &[
            r#"["Q1 A1\n\nQ0", {"until": ["x"]}]"#,
            r#"["Q1 A1\n\nQ0", {"until": ["x"]}]"#,
            r#"["Q1 A1\n\nQ0", {"until": ["x"]}]"#,
        ],
        reference: true,
    },
    Difference {
        name: "empty training split",
        task: "{doc_to_text: q, doc_to_target: a, num_fewshot: 1, training_split: empty, validation_split: train,
                fewshot_config: {sampler: first_n}, generation_kwargs: {until: [x]}}",
        data: None,
        new: &[r#"["Q5 A5\n\nQ0", {"until": ["x"]}]"#],
        old: &[r#"["Q5 A5\n\nQ0", {"until": ["x"]}]"#],
        reference: false,
    },
    Difference {
        name: "empty test split",
        task: "{doc_to_text: q, doc_to_target: a, test_split: empty, validation_split: train,
                generation_kwargs: {until: [x]}}",
        data: None,
        new: &[r#"["Q5", {"until": ["x"]}]"#],
        old: &[r#"["Q5", {"until": ["x"]}]"#],
        reference: false,
    },
    Difference {
        name: "split in fewshot_config",
        task: "{doc_to_text: q, doc_to_target: a, num_fewshot: 1, fewshot_config: {split: train},
                generation_kwargs: {until: [x]}}",
        data: None,
        new: &[r#"["Q5 A5\n\nQ0", {"until": ["x"]}]"#],
        old: &[r#"["Q5 A5\n\nQ0", {"until": ["x"]}]"#],
        reference: true,
    },
    Difference {
        name: "null as split in fewshot_config",
        task: "{doc_to_text: q, doc_to_target: a, num_fewshot: 1, validation_split: more, fewshot_split: train,
                fewshot_config: {split: null, sampler: first_n}, generation_kwargs: {until: [x]}}",
        data: Some("test: [{q: Q0, a: A0}]\ntrain: [{q: Q5, a: A5}]\nmore: [{q: Q7, a: A7}]"),
        new: &[r#"["Q5 A5\n\nQ0", {"until": ["x"]}]"#],
        old: &[r#"["Q7 A7\n\nQ0", {"until": ["x"]}]"#],
        reference: true,
    },
    Difference {
        name: "indices of examples",
        task: "{doc_to_text: q, doc_to_target: a, num_fewshot: 1, fewshot_split: train, generation_kwargs: {until: [x]},
                fewshot_config: {sampler: first_n, fewshot_indices: [1]}}",
        data: Some("test: [{q: Q0, a: A0}]\ntrain: [{q: Q5, a: A5}, {q: Q6, a: A6}]"),
        new: &[r#"["Q6 A6\n\nQ0", {"until": ["x"]}]"#],
        old: &[r#"["Q5 A5\n\nQ0", {"until": ["x"]}]"#],
        reference: true,
    },
    Difference {
        name: "columns of given examples",
        task: "{doc_to_text: q, doc_to_target: a, num_fewshot: 1, generation_kwargs: {until: [x]},
                fewshot_config: {sampler: first_n, samples: [{q: SQ, target: SA}], doc_to_target: target}}",
        data: None,
        new: &[r#"["SQ SA\n\nQ0", {"until": ["x"]}]"#],
        old: &[r#"["SQ target\n\nQ0", {"until": ["x"]}]"#],
        reference: true,
    },
    Difference {
        name: "null target of an example",
        task: "{doc_to_text: q, doc_to_target: none, num_fewshot: 1, fewshot_split: train,
                generation_kwargs: {until: [x]}}",
        data: None,
        new: &[r#"["Q5Q0", {"until": ["x"]}]"#],
        old: &[r#"["Q5Q0", {"until": ["x"]}]"#],
        reference: true,
    },
    Difference {
        name: "empty generation settings",
        task: "{doc_to_text: q, doc_to_target: a, generation_kwargs: {}}",
        data: None,
        new: &[r#"["Q0", {"temperature": 0.0, "do_sample": false, "max_gen_toks": 256, "until": ["\n\n"]}]"#],
        old: &[r#"["Q0", {"until": ["\n\n"]}]"#],
        reference: true,
    },
    Difference {
        name: "generation settings without stop",
        task: "{doc_to_text: q, doc_to_target: a, generation_kwargs: {temperature: '0.5', max_tokens: 5}}",
        data: None,
        new: &[r#"["Q0", {"temperature": 0.5, "max_tokens": 5, "until": ["\n\n"]}]"#],
        old: &[r#"["Q0", {"temperature": 0.5, "max_tokens": 5, "until": ["\n\n"]}]"#],
        reference: true,
    },
    Difference {
        name: "images",
        task: "{doc_to_text: q, doc_to_target: a, doc_to_image: image, generation_kwargs: {until: [x]}}",
        data: None,
        new: &[r#"["Q0", {"until": ["x"]}, {"visual": "I0"}]"#],
        old: &[r#"["Q0", {"until": ["x"]}, {"visual": "I0"}]"#],
        reference: true,
    },
    Difference {
        name: "lists of images and absent audio",
        task: "{doc_to_text: q, doc_to_target: a, doc_to_image: [image, none, '{{[q]}}'], doc_to_audio: none,
                generation_kwargs: {until: [x]}}",
        data: None,
        new: &[r#"["Q0", {"until": ["x"]}, {"visual": ["I0", ["Q0"]]}]"#],
        old: &[r#"["Q0", {"until": ["x"]}, {"visual": ["I0", ["Q0"]], "audio": null}]"#],
        reference: true,
    },
    Difference {
        name: "options from a string column",
        task: "{output_type: multiple_choice, doc_to_text: q, doc_to_choice: a, doc_to_target: l}",
        data: Some("test: [{q: Q0, a: \"['u', 'v']\", l: 0}, {q: Q1, a: \"['u', 'v']\", l: 1}]"),
        new: &[r#"["Q0", " u"]"#, r#"["Q0", " v"]"#],
        old: &[r#"["Q0", " ["]"#, r#"["Q0", " '"]"#, r#"["Q0", " u"]"#],
        reference: true,
    },
    Difference {
        name: "description and prefix from columns",
        task: "{output_type: multiple_choice, doc_to_text: q, doc_to_choice: opts, doc_to_target: l, description: a,
                gen_prefix: q, target_delimiter: ' => '}",
        data: None,
        new: &[r#"["A0Q0 => Q0", " => x"]"#],
        old: &[r#"["A0Q0 => Q0", " => x"]"#],
        reference: true,
    },
];

impl Difference {
    fn definition(&self) -> String {
        // Every task has a name and, by default, evaluates the split `test`.
        let test = if self.task.contains("test_split") { "" } else { "test_split: test, " };
        format!("{{task: t, {test}{}", &self.task[1..])
    }

    fn splits(&self) -> MemorySplits {
        splits(self.data.unwrap_or(DATA))
    }

    fn requests(&self, dialect: Dialect) -> Vec<String> {
        let options = RequestOptions { dialect, ..RequestOptions::default() };
        build(&task(&self.definition()), self.splits(), &options)
            .unwrap_or_else(|error| panic!("{}, dialect {dialect}: {error}", self.name))
    }
}

#[test]
fn builds_the_requests_of_each_dialect() {
    for difference in DIFFERENCES {
        for (dialect, expected) in [(Dialect::V05, difference.new), (Dialect::V04, difference.old)] {
            let requests = difference.requests(dialect);
            let shown = &requests[..expected.len().min(requests.len())];
            assert_eq!(shown, expected, "{}, dialect {dialect}", difference.name);
        }
    }
}

#[test]
fn old_dialect_equals_the_reference() {
    let Some(python) = test_environment() else { return };
    let case = |difference: &Difference| {
        let value = |text: &str| yaml::load(text).unwrap().value;
        Value::dict([
            ("config", value(&difference.definition())),
            ("splits", value(difference.data.unwrap_or(DATA))),
            ("runs", Value::list([Value::dict::<&str>([])])),
        ])
    };
    let theirs = ask_reference(&python, &Value::list(DIFFERENCES.iter().map(case)), &["args"]);
    for (number, difference) in DIFFERENCES.iter().enumerate() {
        let found = &theirs[&(number, 0)];
        if difference.reference {
            let ours = as_lines(&difference.requests(Dialect::V04));
            assert_eq!(found.as_ref(), Ok(&ours), "{}", difference.name);
        } else if let Ok(lines) = found {
            // If the reference does not fail, it sends something that is not a string.
            assert!(
                lines.iter().any(|line| line.starts_with("[[[") || line.contains(", [")),
                "{}",
                difference.name
            );
        }
    }
}

/// The same requests in the notation of the reference.
fn as_lines(requests: &[String]) -> Vec<String> {
    let line = |args: &String| Value::list([json::loads(args).unwrap()]);
    requests.iter().map(|args| json::dumps(&line(args), &json::Options::default()).unwrap()).collect()
}

#[test]
fn merges_generation_settings_as_the_reference_does() {
    let written =
        ["", "generation_kwargs: null", "generation_kwargs: {}", "generation_kwargs: {max_gen_toks: 5}"];
    let given = [
        "{}",
        r#"{"temperature": 0.0, "max_gen_toks": 256}"#,
        r#"{"max_gen_toks": 256, "do_sample": false, "until": ["."]}"#,
        r#"{"do_sample": true, "temperature": "0.5", "top_p": 1}"#,
    ];
    let definition = |written: &str| {
        format!(
            "{{task: t, test_split: test, doc_to_text: q, doc_to_target: a, fewshot_delimiter: '##', {written}}}"
        )
    };
    let requests = |written: &str, given: &str, dialect: Dialect| {
        let mut task = task(&definition(written));
        task.config.merge_generation_kwargs(&document(json::loads(given).unwrap()));
        build(&task, splits(DATA), &RequestOptions { dialect, ..RequestOptions::default() }).unwrap()
    };
    assert_eq!(
        requests("generation_kwargs: {}", given[1], Dialect::V04)[0],
        r###"["Q0", {"until": ["##"], "temperature": 0.0, "max_gen_toks": 256}]"###
    );
    assert_eq!(
        requests("generation_kwargs: {}", given[1], Dialect::V05)[0],
        r###"["Q0", {"temperature": 0.0, "do_sample": false, "max_gen_toks": 256, "until": ["##"]}]"###
    );
    let Some(python) = test_environment() else { return };
    let case = |written: &&str| {
        let runs = given.map(|given| Value::dict([("gen_kwargs", json::loads(given).unwrap())]));
        Value::dict([
            ("config", yaml::load(&definition(written)).unwrap().value),
            ("splits", yaml::load(DATA).unwrap().value),
            ("runs", Value::list(runs)),
        ])
    };
    let theirs = ask_reference(&python, &Value::list(written.iter().map(case)), &["args"]);
    for (number, written) in written.iter().enumerate() {
        for (run, given) in given.iter().enumerate() {
            let ours = as_lines(&requests(written, given, Dialect::V04));
            assert_eq!(theirs[&(number, run)].as_ref(), Ok(&ours), "{written} with {given}");
        }
    }
}
