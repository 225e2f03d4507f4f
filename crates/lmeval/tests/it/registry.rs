//! Extensions registered in Rust are used by validation, `show` and runs of task files.

use std::sync::{Arc, Mutex};

use lmeval::filters::{Filter, FilterDocs, FilterError, Filtered, Responses};
use lmeval::formats::Format;
use lmeval::metrics::aggregation::{Aggregation, Mean};
use lmeval::metrics::reduction::{Reduced, Reduction};
use lmeval::metrics::{MetricError, Resample};
use lmeval::sampler::{Draw, Sampler, SamplerError};
use lmeval::scorers::{ScoreError, Scorer, Scores, ScoringInput};
use lmeval::{
    AggregationEntry, Arguments, EvaluateOptions, Evaluation, FilterEntry, FormatEntry, InProcess,
    LocalModel, Metric, MetricEntry, ModelEntry, ModelError, ModelIdentity, ModelRequest, ModelSettings,
    Number, OutputType, ReductionEntry, Registry, Response, SamplerEntry, ScorerEntry, Value,
};

/// Answers with the first word of the prompt and the index of the repeat.
#[derive(Debug)]
struct FirstWord;

impl LocalModel for FirstWord {
    fn identity(&self) -> ModelIdentity {
        ModelIdentity { backend: "first_word".to_owned(), facts: Vec::new() }
    }

    fn answer(&self, request: &ModelRequest) -> Result<Response, ModelError> {
        let Arguments::Generate { context, .. } = &request.arguments else {
            return Ok(Response::Loglikelihood { logprob: -1.0, is_greedy: false });
        };
        let prompt = context.as_text().unwrap();
        let word = prompt.split_whitespace().next().unwrap_or_default();
        Ok(Response::Text(format!("{word}{}", request.repeat).into()))
    }
}

#[derive(Debug)]
struct Last;

impl Sampler for Last {
    fn draw(&mut self, draw: Draw<'_>) -> Result<Vec<usize>, SamplerError> {
        Ok((draw.pool.len() - draw.count..draw.pool.len()).collect())
    }
}

#[derive(Debug)]
struct Shout;

impl Filter for Shout {
    fn apply(&self, mut responses: Responses, _: &FilterDocs<'_>) -> Result<Filtered, FilterError> {
        for answer in responses.iter_mut().flatten() {
            *answer = Value::str(answer.as_str().unwrap_or_default().to_uppercase());
        }
        Ok(Filtered::from(responses))
    }
}

struct LastRepeat;

impl Reduction<Number, Number> for LastRepeat {
    fn reduce(&self, _: &Value, values: &[Number]) -> Result<Reduced<Number>, MetricError> {
        Ok(Reduced::One(*values.last().ok_or(MetricError::NoValues)?))
    }
}

struct Percent;

struct Values(Vec<f64>);

impl Aggregation<Number> for Percent {
    fn prepare(&self, values: &[Number]) -> Result<Box<dyn Resample>, MetricError> {
        Ok(Box::new(Values(values.iter().map(|value| value.to_f64()).collect())))
    }
}

impl Resample for Values {
    fn score(&self, draws: &[u32]) -> Result<f64, MetricError> {
        let sum: f64 = draws.iter().map(|index| self.0[*index as usize]).sum();
        Ok(100.0 * sum / draws.len() as f64)
    }
}

#[derive(Debug)]
struct Quarter;

impl Scorer for Quarter {
    fn name(&self) -> &'static str {
        "quarter"
    }

    fn score(&self, input: &ScoringInput<'_>) -> Result<Scores<Vec<Value>>, ScoreError> {
        let values = vec![Value::Float(0.25); input.predictions()?.len()];
        Ok([("quarter", values)].into_iter().collect())
    }
}

fn registry() -> Registry {
    let mut registry = Registry::default();
    let is_target = Metric::new("is_target", &[OutputType::GenerateUntil], Mean, |_| {
        Ok(Box::new(|input| {
            let (targets, answers) = input.generation()?;
            Ok(answers.iter().map(|answer| Number::from(*answer == targets[0])).collect())
        }))
    });
    registry.register(MetricEntry::from(is_target)).unwrap();
    registry.register(AggregationEntry::new::<Number>("percent", Percent)).unwrap();
    registry.register(ReductionEntry::new::<Number, Number>("last_repeat", LastRepeat)).unwrap();
    registry.register(FilterEntry::new("shout", |_, _| Ok(Box::new(Shout)))).unwrap();
    registry.register(ScorerEntry::new("quarter", |_| Ok(Arc::new(Quarter)))).unwrap();
    registry.register(SamplerEntry::new("last", || Box::new(Last))).unwrap();
    let mcqa = registry.formats.get("mcqa").and_then(|entry| entry.code.rust()).unwrap();
    let terse = Format { question_prefix: Some("Q! ".to_owned()), ..Format::clone(mcqa) };
    registry.register(FormatEntry::new("terse", terse)).unwrap();
    registry.register(ModelEntry::new("first_word", |_| Ok(Arc::new(InProcess::new(FirstWord))))).unwrap();
    registry
}

const DATA: &str = "dataset_path: json\ndataset_kwargs: {data_files: {train: train.jsonl, test: test.jsonl}}\n\
                    test_split: test\ndoc_to_text: q\ndoc_to_target: a\n";

const TASKS: [(&str, &str); 3] = [
    (
        "parts",
        "repeats: 2\nfewshot_split: train\nnum_fewshot: 1\nfewshot_config: {sampler: last}\n\
         filter_list:\n  - name: own\n    filter: [{function: shout}]\n\
         metric_list: [{metric: is_target, aggregation: percent, reduction: last_repeat}]\n",
    ),
    ("scored", "scorer: quarter\n"),
    ("formatted", "formats: terse\ndoc_to_choice: c\n"),
];

/// A folder with data and the tasks.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs_err::write(folder.path().join(name), text).unwrap();
    write(
        "train.jsonl",
        "{\"q\": \"one\", \"a\": \"x\", \"c\": [\"x\", \"y\"]}\n{\"q\": \"two\", \"a\": \"y\", \"c\": [\"x\", \"y\"]}\n",
    );
    write("test.jsonl", "{\"q\": \"three\", \"a\": \"TWO1\", \"c\": [\"TWO1\", \"z\"]}\n");
    for (name, rest) in TASKS {
        write(&format!("{name}.yaml"), &format!("task: {name}\n{DATA}{rest}"));
    }
    folder
}

fn evaluation(folder: &tempfile::TempDir, registry: Registry, tasks: &[&str]) -> Evaluation {
    Evaluation::new("first_word")
        .include_path(folder.path())
        .installed_library(false)
        .tasks(tasks.iter().copied())
        .registry(registry)
}

#[test]
fn run_uses_registered_extensions() {
    let folder = folder();
    let results = evaluation(&folder, registry(), &TASKS.map(|(name, _)| name)).run().unwrap();
    // The sampler shows `two` first, the model repeats it, the filter uppercases, the second repeat is the target.
    assert_eq!(results.score("parts", "is_target,own"), Some(100.0));
    assert_eq!(results.score("scored", "quarter"), Some(0.25));
    assert!(results.score("formatted", "acc").is_some());
}

#[test]
fn validate_and_show_know_registered_extensions() {
    let folder = folder();
    let all = TASKS.map(|(name, _)| name);
    assert!(evaluation(&folder, registry(), &all).validate().unwrap().is_empty());
    let shown = evaluation(&folder, registry(), &all).show().unwrap();
    for part in ["function: shout", "metric: is_target", "sampler: last", "type: quarter", "Q! {{q}}"] {
        assert!(shown.contains(part), "{part} in {shown}");
    }

    let found = evaluation(&folder, Registry::default(), &["parts", "scored"]).validate().unwrap();
    let found: Vec<&str> = found.iter().map(|finding| finding.diagnostic.message.as_str()).collect();
    for name in ["last", "shout", "percent", "last_repeat", "is_target", "quarter"] {
        let named = format!("`{name}` is not a known");
        assert!(found.iter().any(|message| message.contains(&named)), "{name}: {found:?}");
    }
    assert!(evaluation(&folder, Registry::default(), &["formatted"]).show().is_err());
    let unknown = evaluation(&folder, Registry::default(), &["demo_capitals"]).run().unwrap_err();
    assert_eq!(unknown.to_string(), "There is no model `first_word`");
}

#[test]
fn suggests_similar_registered_names() {
    let folder = folder();
    let text = format!("task: typo\n{DATA}filter_list: [{{name: own, filter: [{{function: shuot}}]}}]\n");
    fs_err::write(folder.path().join("typo.yaml"), text).unwrap();
    let found = evaluation(&folder, registry(), &["typo"]).validate().unwrap();
    assert_eq!(found[0].diagnostic.hints[0], "Did you mean `shout`?");
}

#[test]
fn finds_built_in_models_by_name() {
    let error = Evaluation::new("hf").installed_library(false).tasks(["demo_capitals"]).run().unwrap_err();
    assert!(error.to_string().contains("pretrained"), "{error}");
}

#[test]
fn in_process_models_use_the_journal() {
    let folder = folder();
    let journal = folder.path().join("answers.journal");
    let run = || evaluation(&folder, registry(), &["parts"]).journal(&journal).run().unwrap();
    let first = run();
    let size = fs_err::metadata(&journal).unwrap().len();
    assert!(size > 0);
    assert_eq!(run().score("parts", "is_target"), first.score("parts", "is_target"));
    assert_eq!(fs_err::metadata(&journal).unwrap().len(), size, "no request was repeated");
}

#[test]
fn evaluation_has_the_defaults_of_the_command() {
    let folder = folder();
    let seen = Arc::new(Mutex::new(None));
    let resolved = |evaluation: Evaluation| {
        let (into, of_model) = (Arc::clone(&seen), Arc::new(Mutex::new(None)));
        let model = Arc::clone(&of_model);
        let run = evaluation
            .options(move |options| *into.lock().unwrap() = Some(options.clone()))
            .model_settings(move |settings| *model.lock().unwrap() = Some(settings.clone()))
            .run();
        run.unwrap();
        let made: ModelSettings = of_model.lock().unwrap().take().unwrap();
        let options: EvaluateOptions = seen.lock().unwrap().take().unwrap();
        (options, made)
    };
    let (options, made) = resolved(evaluation(&folder, registry(), &["parts"]));
    assert_eq!((options.fewshot_seed, options.bootstrap_iters), (Some(1234), 100_000));
    assert!(options.log_samples && options.keep_samples && !options.fewshot_as_multiturn);
    assert_eq!((made.random_seed, made.batch_size), (Some(0), Some(Value::Int(1))));

    let args = [("batch_size", Value::Int(4)), ("pretrained", Value::str("a"))];
    let given = evaluation(&folder, registry(), &["parts"]).model_args(args).limit(1).num_fewshot(0);
    let (options, made) = resolved(given);
    assert_eq!((options.limit, options.num_fewshot), (Some(1.0), Some(0)));
    assert_eq!(made.batch_size, Some(Value::Int(4)));
    assert_eq!(made.args.keys().filter_map(Value::as_str).collect::<Vec<_>>(), ["pretrained"]);
}

#[test]
fn chat_template_makes_examples_turns() {
    let seen = Arc::new(Mutex::new(None));
    let into = Arc::clone(&seen);
    let folder = folder();
    let run = evaluation(&folder, registry(), &["parts"])
        .apply_chat_template()
        .options(move |options| *into.lock().unwrap() = Some(options.clone()))
        .run();
    // The model has no chat template; the settings were resolved before.
    assert!(run.is_err());
    assert!(seen.lock().unwrap().take().unwrap().fewshot_as_multiturn);
}

#[test]
fn option_changes_are_applied_last() {
    let folder = folder();
    let limit = Arc::new(Mutex::new(None));
    let into = Arc::clone(&limit);
    let run = evaluation(&folder, registry(), &["parts"])
        .options(|options| options.limit = Some(2.0))
        .options(move |options| *into.lock().unwrap() = options.limit)
        .limit(1)
        .run();
    run.unwrap();
    assert_eq!(*limit.lock().unwrap(), Some(2.0), "a later `limit` does not win");
}

#[test]
fn invalid_settings_fail_every_step() {
    let folder = folder();
    let wrong = || evaluation(&folder, registry(), &["parts"]).limit(-1);
    let expected = "`limit` must be greater than 0";
    assert_eq!(wrong().run().unwrap_err().to_string(), expected);
    assert_eq!(wrong().show().unwrap_err().to_string(), expected);
    let negative = evaluation(&folder, registry(), &["parts"]).num_fewshot(-1).run().unwrap_err();
    assert!(negative.to_string().contains("`num_fewshot`"), "{negative}");
}

#[test]
fn overrides_of_one_task_add_up() {
    let shown = Evaluation::new("uniform")
        .installed_library(false)
        .tasks(["demo_capitals"])
        .override_task("demo_capitals", "{num_fewshot: 3, description: first}")
        .unwrap()
        .override_task("demo_capitals", "{description: second}")
        .unwrap()
        .show()
        .unwrap();
    assert!(shown.contains("num_fewshot: 3") && shown.contains("description: second"), "{shown}");
}

#[test]
fn unused_overrides_are_errors() {
    let evaluation = || {
        let evaluation =
            Evaluation::new("uniform").installed_library(false).tasks(["demo_capitals"]).limit(1);
        evaluation.override_task("demo_capitols", "{num_fewshot: 3}").unwrap()
    };
    let expected = "`demo_capitols` cannot be overridden: not in the list of tasks";
    assert_eq!(evaluation().show().unwrap_err().to_string(), expected);
    assert_eq!(evaluation().run().unwrap_err().to_string(), expected);
}

#[test]
fn results_have_the_warnings_about_task_definitions() {
    let results = Evaluation::new("uniform")
        .installed_library(false)
        .tasks(["demo_capitals"])
        .override_task("demo_capitals", "{metric_list: [{metric: acc, agregation: median}]}")
        .unwrap()
        .limit(1)
        .run()
        .unwrap();
    let warnings = results.results.warnings;
    assert!(warnings.iter().any(|warning| warning.contains("did you mean `aggregation`?")), "{warnings:?}");
}
