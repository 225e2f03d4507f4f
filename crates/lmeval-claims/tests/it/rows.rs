//! Rows against the formulas of their originals, on synthetic answers.

use std::collections::BTreeMap;

use lmeval_claims::document::Document;
use lmeval_claims::recipe::{RECIPE, Recipe, Scored, add_rows, definition};
use lmeval_pycompat::random::Random;
use lmeval_pycompat::{Dict, Value};

/// Synthetic answers: for each task its metrics, and for each of them the values of documents.
type Answers = BTreeMap<String, BTreeMap<String, Vec<f64>>>;

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// A results object of tasks, with groups of them.
fn results(answers: &Answers, groups: &[(&str, Vec<String>)], recipe: &Recipe) -> Dict {
    let (mut results, mut samples, mut members) = (Dict::new(), Dict::new(), Dict::new());
    for (task, metrics) in answers {
        let mut entry = Dict::new();
        for (metric, values) in metrics {
            let count = values.len() as f64;
            let mean = mean(values);
            let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
            entry.insert(format!("{metric},none"), mean);
            entry.insert(format!("{metric}_stderr,none"), (variance / count).sqrt());
            samples.insert(task.as_str(), Value::dict([("effective", Value::Int(values.len() as i64))]));
        }
        results.insert(task.as_str(), entry);
    }
    for (group, tasks) in groups {
        // The mean by documents, as groups of the harness have it.
        let mut entry = Dict::new();
        for metric in answers[&tasks[0]].keys() {
            let all: Vec<f64> = tasks.iter().flat_map(|task| answers[task][metric].clone()).collect();
            entry.insert(format!("{metric},none"), mean(&all));
        }
        results.insert(*group, entry);
        members.insert(*group, Value::list(tasks.iter().map(|task| Value::str(task.as_str()))));
    }
    [
        ("results", Value::from(results)),
        ("n-samples", Value::from(samples)),
        ("group_subtasks", Value::from(members)),
        ("n-shot", Value::dict::<&str>([])),
        (RECIPE, definition(recipe)),
    ]
    .into_iter()
    .map(|(key, value)| (Value::str(key), value))
    .collect()
}

fn score(object: &Dict, key: &str, metric: &str) -> f64 {
    let results = object.get_str("results").and_then(Value::as_dict).unwrap();
    let entry = results.get_str(key).and_then(Value::as_dict).unwrap_or_else(|| panic!("no {key}"));
    entry.get_str(&format!("{metric},none")).and_then(Value::to_f64).unwrap()
}

fn close(left: f64, right: f64) {
    assert!((left - right).abs() < 1e-9, "{left} {right}");
}

/// Random answers of each task, right with a probability of its own, sometimes below chance.
fn draw(random: &mut Random, tasks: &[(String, &[&str])]) -> Answers {
    let mut answers = Answers::new();
    for (task, metrics) in tasks {
        let count = 20 + random.randbelow(50) as usize;
        for metric in *metrics {
            let p = random.random();
            let values = (0..count).map(|_| f64::from(u8::from(random.random() < p))).collect();
            answers.entry(task.clone()).or_default().insert((*metric).to_owned(), values);
        }
    }
    answers
}

#[test]
fn open_llm_leaderboard_v2_normalises_as_its_documentation_says() {
    // huggingface.co/docs/leaderboards/open_llm_leaderboard/normalization: below the lower bound 0, else the position between the
    // bound and 1, in percent; BBH and MuSR by subtask, then their mean.
    let normalised =
        |raw: f64, bound: f64| if raw < bound { 0.0 } else { (raw - bound) / (1.0 - bound) * 100.0 };
    let bbh: [(&str, f64); 24] = [
        ("boolean_expressions", 2.0),
        ("causal_judgement", 2.0),
        ("date_understanding", 6.0),
        ("disambiguation_qa", 3.0),
        ("formal_fallacies", 2.0),
        ("geometric_shapes", 11.0),
        ("hyperbaton", 2.0),
        ("logical_deduction_five_objects", 5.0),
        ("logical_deduction_seven_objects", 7.0),
        ("logical_deduction_three_objects", 3.0),
        ("movie_recommendation", 6.0),
        ("navigate", 2.0),
        ("object_counting", 19.0),
        ("penguins_in_a_table", 5.0),
        ("reasoning_about_colored_objects", 18.0),
        ("ruin_names", 6.0),
        ("salient_translation_error_detection", 6.0),
        ("snarks", 2.0),
        ("sports_understanding", 2.0),
        ("temporal_sequences", 4.0),
        ("tracking_shuffled_objects_five_objects", 5.0),
        ("tracking_shuffled_objects_seven_objects", 7.0),
        ("tracking_shuffled_objects_three_objects", 3.0),
        ("web_of_lies", 2.0),
    ];
    let musr = [("murder_mysteries", 2.0), ("object_placements", 5.0), ("team_allocation", 3.0)];
    let recipe = Recipe::open("open-llm-leaderboard-v2").unwrap();
    let mut random = Random::from_seed(7);
    for _ in 0..200 {
        let named = |prefix: &str, name: &str| format!("leaderboard_{prefix}::leaderboard_{prefix}_{name}");
        let mut tasks: Vec<(String, &[&str])> = Vec::new();
        tasks.extend(bbh.iter().map(|(name, _)| (named("bbh", name), &["acc_norm"][..])));
        tasks.extend(musr.iter().map(|(name, _)| (named("musr", name), &["acc_norm"][..])));
        tasks.extend(["diamond", "extended", "main"].map(|name| (named("gpqa", name), &["acc_norm"][..])));
        let maths = ["algebra", "geometry", "precalculus"]
            .map(|name| format!("leaderboard_math_hard::leaderboard_math_{name}_hard"));
        tasks.extend(maths.iter().map(|name| (name.clone(), &["exact_match", "exact_match_original"][..])));
        tasks.push(("leaderboard_mmlu_pro".to_owned(), &["acc"]));
        tasks.push(("leaderboard_ifeval".to_owned(), &["prompt_level_strict_acc", "inst_level_strict_acc"]));
        let answers = draw(&mut random, &tasks);
        let members = |prefix: &str| {
            answers
                .keys()
                .filter(|task| task.starts_with(&format!("{prefix}::")))
                .cloned()
                .collect::<Vec<_>>()
        };
        let groups = ["leaderboard_bbh", "leaderboard_musr", "leaderboard_gpqa", "leaderboard_math_hard"];
        let groups = groups.map(|group| (group, members(group)));
        let mut object = results(&answers, &groups, &recipe);
        assert_eq!(add_rows(&mut object).unwrap(), Vec::<String>::new());
        let raw = |task: &str, metric: &str| mean(&answers[task][metric]);
        let of = |prefix: &str, list: &[(&str, f64)]| {
            let each: Vec<f64> = list
                .iter()
                .map(|(name, choices)| normalised(raw(&named(prefix, name), "acc_norm"), 1.0 / choices))
                .collect();
            mean(&each)
        };
        let gpqa: Vec<f64> = groups[2].1.iter().flat_map(|task| answers[task]["acc_norm"].clone()).collect();
        let math: Vec<f64> =
            groups[3].1.iter().flat_map(|task| answers[task]["exact_match_original"].clone()).collect();
        let expected = [
            (
                "IFEval",
                100.0
                    * (raw("leaderboard_ifeval", "prompt_level_strict_acc")
                        + raw("leaderboard_ifeval", "inst_level_strict_acc"))
                    / 2.0,
            ),
            ("BBH", of("bbh", &bbh)),
            ("MATH Lvl 5", 100.0 * mean(&math)),
            ("GPQA", normalised(mean(&gpqa), 0.25)),
            ("MuSR", of("musr", &musr)),
            ("MMLU-Pro", normalised(raw("leaderboard_mmlu_pro", "acc"), 0.1)),
        ];
        for (row, value) in &expected {
            close(score(&object, &format!("open-llm-leaderboard-v2::{row}"), "normalized"), *value);
        }
        let all: Vec<f64> = expected.iter().map(|(_, value)| *value).collect();
        close(score(&object, "open-llm-leaderboard-v2", "normalized"), mean(&all));
    }
}

#[test]
fn dclm_core_centres_by_the_baselines_of_its_table() {
    // eval/eval_meta_data.csv of DataComp-LM: the baseline in percent.
    let table: [(&str, i64, &str, &str, f64); 13] = [
        ("hellaswag", 0, "acc_norm", "hellaswag_zeroshot", 25.0),
        ("arc_easy", 10, "acc_norm", "arc_easy", 25.0),
        ("arc_challenge", 10, "acc_norm", "arc_challenge", 25.0),
        ("copa", 0, "acc", "copa", 50.0),
        ("commonsense_qa", 10, "acc", "commonsense_qa", 40.3),
        ("piqa", 10, "acc_norm", "piqa", 50.0),
        ("openbookqa", 0, "acc_norm", "openbook_qa", 25.0),
        ("lambada_openai", 0, "acc", "lambada_openai", 0.0),
        ("hellaswag", 10, "acc_norm", "hellaswag", 25.0),
        ("wsc273", 0, "acc", "winograd", 50.0),
        ("winogrande", 0, "acc", "winogrande", 50.0),
        ("agieval_lsat_ar", 3, "acc_norm", "agi_eval_lsat_ar", 25.0),
        ("boolq", 10, "acc", "boolq", 62.0),
    ];
    for name in ["dclm-core", "nanochat-core"] {
        let recipe = Recipe::open(name).unwrap();
        let mut random = Random::from_seed(11);
        for _ in 0..100 {
            let key = |task: &str, shots: i64| {
                if task == "hellaswag" { format!("{task}:{shots}") } else { task.to_owned() }
            };
            let tasks: Vec<(String, &[&str])> =
                table.iter().map(|(task, shots, ..)| (key(task, *shots), &["acc", "acc_norm"][..])).collect();
            let answers = draw(&mut random, &tasks);
            let mut object = results(&answers, &[], &recipe);
            let shots: Dict = table
                .iter()
                .map(|(task, shots, ..)| (Value::from(key(task, *shots)), Value::Int(*shots)))
                .collect();
            object.insert("n-shot", shots);
            assert_eq!(add_rows(&mut object).unwrap(), Vec::<String>::new());
            let mut centred = Vec::new();
            for (task, shots, metric, row, baseline) in &table {
                let raw = mean(&answers[&key(task, *shots)][*metric]);
                let value = (raw - 0.01 * baseline) / (1.0 - 0.01 * baseline);
                close(score(&object, &format!("{name}::{row}"), "centered"), value);
                centred.push(value);
            }
            close(score(&object, name, "centered"), mean(&centred));
        }
    }
}

#[test]
fn open_llm_leaderboard_v1_averages_subjects_and_not_documents() {
    let recipe = Recipe::open("open-llm-leaderboard-v1").unwrap();
    let mut random = Random::from_seed(3);
    let subjects: Vec<String> = (0..57).map(|index| format!("mmlu_{index}")).collect();
    let mut tasks: Vec<(String, &[&str])> =
        subjects.iter().map(|name| (name.clone(), &["acc"][..])).collect();
    tasks.extend(
        ["arc_challenge", "hellaswag", "truthfulqa_mc2", "winogrande"]
            .map(|name| (name.to_owned(), &["acc", "acc_norm"][..])),
    );
    tasks.push(("gsm8k".to_owned(), &["exact_match"]));
    let answers = draw(&mut random, &tasks);
    let mut object = results(&answers, &[("mmlu", subjects.clone())], &recipe);
    // The task has two pipelines.
    let Some(Value::Dict(all)) = object.get_str("results").cloned() else { unreachable!() };
    let mut all = Dict::clone(&all);
    all.insert(
        "gsm8k",
        Value::dict([
            ("exact_match,strict-match", Value::Float(0.25)),
            ("exact_match,flexible-extract", Value::Float(0.5)),
        ]),
    );
    object.insert("results", all);
    assert_eq!(add_rows(&mut object).unwrap(), Vec::<String>::new());
    let each: Vec<f64> = subjects.iter().map(|task| mean(&answers[task]["acc"])).collect();
    close(score(&object, "open-llm-leaderboard-v1::MMLU", "score"), 100.0 * mean(&each));
    assert!((score(&object, "mmlu", "acc") - mean(&each)).abs() > 1e-6);
    let rows = [
        100.0 * mean(&answers["arc_challenge"]["acc_norm"]),
        100.0 * mean(&answers["hellaswag"]["acc_norm"]),
        100.0 * mean(&each),
        100.0 * mean(&answers["truthfulqa_mc2"]["acc"]),
        100.0 * mean(&answers["winogrande"]["acc"]),
        25.0,
    ];
    close(score(&object, "open-llm-leaderboard-v1", "score"), mean(&rows));
}

fn recipe(text: &str) -> Recipe {
    Recipe::from_document(&Document::parse("r.yaml".as_ref(), text.as_bytes()).unwrap()).unwrap()
}

#[test]
fn the_best_of_two_formats_counts() {
    let recipe = recipe(
        "recipe: r\ntasks: [t@mcqa, t@cloze]\nrows:\n- name: t\n  combine: max\n  of: [{task: t@mcqa, metric: acc}, {task: t@cloze, metric: acc}]\n",
    );
    let answers: Answers = [("t@mcqa", vec![1.0, 0.0, 0.0, 0.0]), ("t@cloze", vec![1.0, 1.0, 0.0, 0.0])]
        .into_iter()
        .map(|(task, values)| (task.to_owned(), BTreeMap::from([("acc".to_owned(), values)])))
        .collect();
    let mut object = results(&answers, &[], &recipe);
    assert!(add_rows(&mut object).unwrap().is_empty());
    close(score(&object, "r::t", "score"), 0.5);
    let entry =
        object.get_str("results").and_then(|all| all.as_dict()?.get_str("r::t")?.as_dict().cloned()).unwrap();
    close(entry.get_str("score_stderr,none").and_then(Value::to_f64).unwrap(), (1.0_f64 / 3.0 / 4.0).sqrt());
    assert!(object.get_str("group_subtasks").and_then(Value::as_dict).unwrap().is_empty());
}

#[test]
fn standard_errors_are_propagated_and_missing_scores_named() {
    let recipe = recipe(
        "recipe: r\ntasks: [a, b]\nrows:\n- {name: x, scale: 100, of: {task: a, metric: acc, chance: 1/2}}\n\
         - {name: y, of: [{task: a, metric: acc}, {task: b, metric: acc}]}\ntotal: {of: [{row: x}, {row: y}]}\n",
    );
    let answers: Answers =
        BTreeMap::from([("a".to_owned(), BTreeMap::from([("acc".to_owned(), vec![1.0, 1.0, 1.0, 0.0])]))]);
    let mut object = results(&answers, &[], &recipe);
    let missing = add_rows(&mut object).unwrap();
    assert_eq!(missing[0], "No row `y`: the run has no scores of `b`");
    assert_eq!(missing[1], "No row `total`: the row `y` could not be computed");
    close(score(&object, "r::x", "score"), 50.0);
    let all = object.get_str("results").and_then(Value::as_dict).unwrap();
    let stderr = |key: &str, metric: &str| {
        all.get_str(key).and_then(|entry| entry.as_dict()?.get_str(metric)?.to_f64()).unwrap()
    };
    close(stderr("r::x", "score_stderr,none"), 200.0 * stderr("a", "acc_stderr,none"));
    assert!(matches!(recipe.rows.all().count(), 3));
    assert!(
        recipe
            .expected
            .iter()
            .all(|expected| expected.scores.iter().all(|score| matches!(score.of, Scored::Row(_))))
    );
}
