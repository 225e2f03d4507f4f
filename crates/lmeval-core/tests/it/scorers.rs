//! Scorers on small tasks: `process_results`, repeats, unresolved targets, pipelines and records.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use lmeval_core::filters::FilterSpec;
use lmeval_core::groups::Directions;
use lmeval_core::registry::ScorerEntry;
use lmeval_core::scorers::{
    AnsweredDocument, AnsweredInstance, HostAggregation, HostMetric, MetricSpec, PipelineSpec, Reference,
    ScoreError, ScoredDoc, Scorer, ScorerSpec, Scores, ScoringInput, ScoringPipeline, ScoringSources,
    Setting, TaskCode, TaskFacts, TaskScorer, build_predict_only, build_scorer, loglikelihood_response,
};
use lmeval_core::{
    Arguments, Context, Diagnose, Dialect, DocId, Host, HostError, Instance, InstanceMetadata, OutputType,
    RequestType,
};
use lmeval_pycompat::repr::repr;
use lmeval_pycompat::{Dict, Function, Value};

fn instance(doc_id: usize, idx: usize, arguments: Arguments, gold: Value) -> Instance {
    let request_type = match arguments {
        Arguments::Generate { .. } => RequestType::GenerateUntil,
        Arguments::Rolling { .. } => RequestType::LoglikelihoodRolling,
        Arguments::Loglikelihood { .. } => RequestType::Loglikelihood,
    };
    Instance {
        request_type,
        task_name: "t".into(),
        doc_id: DocId(doc_id),
        idx,
        repeats: 1,
        arguments,
        target: gold.clone(),
        gold,
        metadata: InstanceMetadata::default(),
        additional_args: None,
    }
}

fn document(doc_id: usize) -> Arc<Dict> {
    Arc::new([(Value::str("id"), Value::Int(doc_id as i64))].into_iter().collect())
}

/// A document with generated answers.
pub(crate) fn generated(doc_id: usize, gold: impl Into<Value>, answers: &[&str]) -> AnsweredDocument {
    let arguments = Arguments::Generate { context: Context::from("q"), kwargs: Arc::default() };
    let responses = answers.iter().map(|answer| Value::str(*answer)).collect();
    AnsweredDocument {
        doc_id: DocId(doc_id),
        document: document(doc_id),
        choices: None,
        answers: vec![AnsweredInstance::new(instance(doc_id, 0, arguments, gold.into()), responses)],
    }
}

/// A document with the log-likelihoods of options.
pub(crate) fn chosen(doc_id: usize, gold: &Value, options: &[(&str, f64, bool)]) -> AnsweredDocument {
    let answers = options.iter().enumerate().map(|(idx, (option, ll, greedy))| {
        let continuation = format!(" {option}").into();
        let arguments = Arguments::Loglikelihood { context: Context::from("q"), continuation };
        let instance = instance(doc_id, idx, arguments, gold.clone());
        AnsweredInstance::new(instance, vec![loglikelihood_response(*ll, *greedy)])
    });
    let texts = options.iter().map(|(option, ..)| Value::str(*option)).collect();
    AnsweredDocument {
        doc_id: DocId(doc_id),
        document: document(doc_id),
        choices: Some(Arc::new(texts)),
        answers: answers.collect(),
    }
}

pub(crate) fn pipeline(name: &str, filters: &[FilterSpec], metrics: &[MetricSpec]) -> PipelineSpec {
    PipelineSpec { name: name.to_owned(), filters: filters.to_vec(), metrics: metrics.to_vec() }
}

pub(crate) fn facts(output_type: OutputType) -> TaskFacts<'static> {
    TaskFacts { output_type, scorer: None, scores_itself: false }
}

pub(crate) fn sources() -> ScoringSources {
    ScoringSources::new(&Dialect::V05)
}

pub(crate) fn scorer_of(pipelines: Vec<ScoringPipeline>, output_type: OutputType) -> TaskScorer {
    TaskScorer::new(pipelines, output_type, Dialect::V05)
}

/// The scores without standard errors, on one line.
pub(crate) fn scores(scorer: &TaskScorer) -> String {
    let aggregated = scorer.aggregate(0).unwrap();
    let scores = aggregated.metrics.iter().filter(|(key, _)| !key.is_stderr);
    scores.map(|(key, value)| format!("{key}={}", repr(value))).collect::<Vec<_>>().join(" ")
}

#[test]
fn reduces_repeats_to_composites() {
    let metric = MetricSpec::named("exact_match").with("regexes_to_ignore", Value::list([Value::str("x")]));
    let number = FilterSpec::named("regex").with("regex_pattern", r"(\d)");
    let all = pipeline("strict", std::slice::from_ref(&number), std::slice::from_ref(&metric));
    let first = pipeline("first", &[number, FilterSpec::named("take_first")], &[metric]);
    let build = |spec| build_scorer(Some(spec), facts(OutputType::GenerateUntil), &sources()).unwrap();
    let mut scorer = scorer_of(vec![build(&all), build(&first)], OutputType::GenerateUntil);
    let documents = [generated(0, "0x", &["is 0", "is 1", "is 2", "0"])];
    scorer.score(&documents).unwrap();
    let expected = "pass@1(exact_match),strict=0.5 pass@3(exact_match),strict=1.0 pass@4(exact_match),strict=1.0 \
         exact_match,first=1.0";
    assert_eq!(scores(&scorer), expected);
    let directions = scorer.higher_is_better();
    let names: Vec<&str> = directions.iter().map(|(name, _)| &**name).collect();
    let composites = ["pass@1(exact_match)", "pass@3(exact_match)", "pass@4(exact_match)"];
    assert_eq!(names, [&["exact_match"], &composites[..]].concat());
    let records = scorer.samples(&documents).unwrap();
    let record = Value::from(records[0].to_file_dict());
    assert!(repr(&record).ends_with(
        "'pass@1(exact_match)': 0.5, 'pass@3(exact_match)': 1.0, 'pass@4(exact_match)': 1.0, \
         'scores_per_repeat': {'exact_match': [1, 0, 0, 1]}}"
    ));
    assert!(records[1].scores_per_repeat.is_none());
}

/// Scores, directions and counts do not depend on the block size.
#[test]
fn scoring_in_blocks_gives_same_results() {
    let number = FilterSpec::named("regex").with("regex_pattern", r"(\d)");
    let exact = MetricSpec::named("exact_match");
    let pipelines = [
        pipeline("strict", std::slice::from_ref(&number), std::slice::from_ref(&exact)),
        pipeline("vote", &[number, FilterSpec::named("majority_vote")], &[exact, MetricSpec::named("bleu")]),
        pipeline("none", &[], &[]),
    ];
    let build = || {
        let built = pipelines
            .iter()
            .map(|spec| build_scorer(Some(spec), facts(OutputType::GenerateUntil), &sources()).unwrap());
        scorer_of(built.collect(), OutputType::GenerateUntil)
    };
    let documents: Vec<AnsweredDocument> = (0..23)
        .map(|place| {
            let answers = [["is 0", "is 1", "1"], ["", " \n", "0"], ["x", "2 1", "0"]][place % 3];
            generated(place, ["0", "1"][place % 2], &answers)
        })
        .collect();
    let mut whole = build();
    whole.score(&documents).unwrap();
    assert!(!whole.needs().together);
    for size in [1, 2, 7, 22, 23] {
        let mut blocks = build();
        for block in documents.chunks(size) {
            blocks.score_next(block).unwrap();
        }
        assert_eq!(scores(&blocks), scores(&whole), "blocks of {size}");
        assert_eq!(blocks.audit(&[]), whole.audit(&documents), "blocks of {size}");
        assert_eq!(blocks.higher_is_better(), whole.higher_is_better(), "blocks of {size}");
        assert_eq!(blocks.aggregate(100).unwrap().metrics, whole.aggregate(100).unwrap().metrics);
    }
}

#[test]
fn merges_values_of_several_processes() {
    let spec = pipeline("none", &[], &[MetricSpec::named("exact_match")]);
    let build = || build_scorer(Some(&spec), facts(OutputType::GenerateUntil), &sources()).unwrap();
    let mut ranks = Vec::new();
    for rank in 0..2 {
        let documents: Vec<AnsweredDocument> =
            (0..2).map(|place| generated(2 * place + rank, "a", &[["a", "b"][place]])).collect();
        let mut scorer = scorer_of(vec![build()], OutputType::GenerateUntil);
        scorer.score(&documents).unwrap();
        ranks.push(scorer.export_reduced());
    }
    let mut main = scorer_of(vec![build()], OutputType::GenerateUntil);
    main.import_reduced(&ranks);
    assert_eq!(scores(&main), "exact_match,none=0.5");
    let ids: Vec<usize> = main.pipelines()[0].reduced_docs().iter().map(|doc| doc.doc_id.0).collect();
    assert_eq!(ids, [0, 2, 1, 3]);
    assert!(main.pipelines()[0].raw_docs().is_empty());
}

#[test]
fn unresolved_targets_are_wrong_and_counted() {
    let metrics =
        ["acc", "acc_norm", "exact_match_mc", "logprob", "brier_score", "mcc"].map(MetricSpec::named);
    let spec = pipeline("none", &[], &metrics);
    let built = build_scorer(Some(&spec), facts(OutputType::MultipleChoice), &sources()).unwrap();
    let mut scorer = scorer_of(vec![built], OutputType::MultipleChoice);
    let options = [("a", -1.0, true), ("b", -2.0, false)];
    let documents = [chosen(0, &Value::Int(0), &options), chosen(1, &Value::None, &options)];
    scorer.score(&documents).unwrap();
    let scores = scores(&scorer);
    assert!(
        scores.starts_with("acc,none=0.5 acc_norm,none=0.5 exact_match_mc,none=0.5 logprob,none=-1.0"),
        "{scores}"
    );
    assert_eq!(scorer.aggregate(0).unwrap().sample_len, 2);
    let (name, audit) = scorer.audit(&documents)[0].clone();
    assert_eq!((&*name, audit.documents, audit.unresolved_targets, audit.answers), ("none", 2, 1, 0));
}

#[test]
fn counts_suspicious_answers() {
    let filters =
        [FilterSpec::named("regex").with("regex_pattern", r"(\d+)"), FilterSpec::named("take_first")];
    let spec = pipeline("strict", &filters, &[]);
    let built = build_scorer(Some(&spec), facts(OutputType::GenerateUntil), &sources()).unwrap();
    let mut scorer = scorer_of(vec![built], OutputType::GenerateUntil);
    let mut documents =
        vec![generated(0, "1", &[""]), generated(1, "1", &[" \n"]), generated(2, "1", &["1"])];
    documents[2].answers[0].truncated = 1;
    scorer.score(&documents).unwrap();
    let (_, audit) = scorer.audit(&documents)[0].clone();
    let counts =
        (audit.answers, audit.empty, audit.whitespace_only, audit.truncated, audit.extraction_failed);
    assert_eq!(counts, (3, 1, 1, 1, 2));
    assert_eq!(scores(&scorer), "exact_match,strict=0.3333333333333333");
}

#[test]
fn predict_only_scores_bypass() {
    for output_type in OutputType::ALL {
        let built = build_predict_only(output_type, &sources()).unwrap();
        let mut scorer = scorer_of(vec![built], output_type);
        let documents = match output_type {
            OutputType::GenerateUntil => [generated(0, "a", &["a"]), generated(1, "a", &["b"])],
            _ => [0, 1].map(|id| chosen(id, &Value::Int(0), &[("a", -1.0, true)])),
        };
        scorer.score(&documents).unwrap();
        let aggregated = scorer.aggregate(1000).unwrap();
        let shown: Vec<String> =
            aggregated.metrics.iter().map(|(key, value)| format!("{key}={}", repr(value))).collect();
        assert_eq!(shown, ["bypass,none=999", "bypass_stderr,none=0.0"], "{output_type}");
    }
}

#[test]
fn filters_and_metrics_come_from_pipeline_scorer_or_output_type() {
    let first_token = ScorerSpec { kind: "first_token".to_owned(), kwargs: Dict::new() };
    let with_scorer = TaskFacts { scorer: Some(&first_token), ..facts(OutputType::GenerateUntil) };
    let names = |pipeline: &ScoringPipeline| -> Vec<String> {
        pipeline.metrics().iter().map(|metric| metric.name.to_string()).collect()
    };
    // From the scorer, overridden by the pipeline.
    let by_scorer = build_scorer(Some(&PipelineSpec::new("p")), with_scorer, &sources()).unwrap();
    let mut scorer = scorer_of(vec![by_scorer], OutputType::GenerateUntil);
    scorer.score(&[generated(0, "Paris", &[" paris!\n"])]).unwrap();
    assert_eq!(scores(&scorer), "exact_match,p=1.0");
    let own = pipeline("p", &[FilterSpec::named("noop")], &[MetricSpec::named("exact_match")]);
    let mut scorer = scorer_of(
        vec![build_scorer(Some(&own), with_scorer, &sources()).unwrap()],
        OutputType::GenerateUntil,
    );
    scorer.score(&[generated(0, "Paris", &[" paris!\n"])]).unwrap();
    assert_eq!(scores(&scorer), "exact_match,p=0.0");
    // From the output type.
    let by_type =
        build_scorer(Some(&PipelineSpec::new("p")), facts(OutputType::LoglikelihoodRolling), &sources());
    assert_eq!(names(&by_type.unwrap()), ["word_perplexity", "byte_perplexity", "bits_per_byte"]);
    // Errors: a generation scorer on another output type, unknown scorers and arguments.
    let wrong = TaskFacts { output_type: OutputType::LoglikelihoodRolling, ..with_scorer };
    assert!(matches!(build_scorer(None, wrong, &sources()), Err(ScoreError::OutputType { .. })));
    let unknown = ScorerSpec { kind: "first_tokens".to_owned(), kwargs: Dict::new() };
    let error =
        build_scorer(None, TaskFacts { scorer: Some(&unknown), ..with_scorer }, &sources()).unwrap_err();
    assert_eq!(error.hints(), ["Did you mean `first_token`?"]);
    let kwargs = [(Value::str("regex_pattern"), Value::str("x"))].into_iter().collect();
    let argument = ScorerSpec { kind: "regex".to_owned(), kwargs };
    let error =
        build_scorer(None, TaskFacts { scorer: Some(&argument), ..with_scorer }, &sources()).unwrap_err();
    assert_eq!(error.to_string(), "The scorer `regex` takes no argument `regex_pattern`");
    let option = pipeline("p", &[], &[MetricSpec::named("exact_match").with("ignore_cases", true)]);
    let error = build_scorer(Some(&option), facts(OutputType::GenerateUntil), &sources()).unwrap_err();
    assert!(matches!(error, ScoreError::Options { .. }));
    let comma = pipeline("p", &[], &[MetricSpec::named("a,b")]);
    let error = build_scorer(Some(&comma), facts(OutputType::GenerateUntil), &sources()).unwrap_err();
    assert!(matches!(error, ScoreError::MetricName { .. }));
}

#[derive(Debug)]
struct Length;

impl Scorer for Length {
    fn name(&self) -> &'static str {
        "length"
    }

    fn score(&self, input: &ScoringInput<'_>) -> Result<Scores<Vec<Value>>, ScoreError> {
        let lengths =
            input.predictions()?.iter().map(|answer| Value::Int(answer.as_str().unwrap().len() as i64));
        Ok([("length", lengths.collect())].into_iter().collect())
    }

    fn default_metrics(&self) -> Option<Vec<MetricSpec>> {
        Some(vec![MetricSpec::named("length").with_reduction("mean").with_aggregation("median")])
    }
}

#[derive(Debug)]
struct Batch;

impl Scorer for Batch {
    fn name(&self) -> &'static str {
        "batch"
    }

    fn score_documents(&self, inputs: &[ScoringInput<'_>]) -> Result<Vec<ScoredDoc>, ScoreError> {
        let share = Value::Float(1.0 / inputs.len() as f64);
        let scored = inputs.iter().map(|input| ScoredDoc {
            doc_id: input.doc_id(),
            reference: Value::None,
            scores: [("share", vec![share.clone()])].into_iter().collect(),
        });
        Ok(scored.collect())
    }
}

#[test]
fn registers_custom_scorers() {
    let mut sources = sources();
    sources.registry.register(ScorerEntry::new("length", |_| Ok(Arc::new(Length)))).unwrap();
    sources.registry.register(ScorerEntry::new("batch", |_| Ok(Arc::new(Batch)))).unwrap();
    let documents = [generated(0, "a", &["a", "abc"]), generated(1, "a", &["abcd", "abcd"])];
    for (kind, expected) in [("length", "length,length=4.0"), ("batch", "share,batch=0.5")] {
        let spec = ScorerSpec { kind: kind.to_owned(), kwargs: Dict::new() };
        let facts = TaskFacts { scorer: Some(&spec), ..facts(OutputType::GenerateUntil) };
        let built = build_scorer(None, facts, &sources).unwrap();
        let mut scorer = scorer_of(vec![built], OutputType::GenerateUntil);
        scorer.score(&documents).unwrap();
        assert_eq!(scores(&scorer), expected);
    }
}

/// Scoring functions of a task, without Python.
#[derive(Debug)]
struct FlagsHost;

#[derive(Debug)]
struct Code;

#[derive(Debug)]
struct Flatten;

impl HostAggregation for Flatten {
    fn aggregate(&self, values: &[Value]) -> Result<Value, HostError> {
        let flat: Vec<f64> =
            values.iter().flat_map(|value| value.as_list().unwrap()).filter_map(Value::to_f64).collect();
        Ok(Value::Float(flat.iter().sum::<f64>() / flat.len() as f64))
    }
}

/// Fails on one document and counts its calls.
#[derive(Debug, Default)]
struct Failing(AtomicUsize);

impl HostMetric for Failing {
    fn compute(&self, references: &Value, predictions: &Value, _: &Dict) -> Result<Value, HostError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        if references != predictions {
            return Err(HostError::needs_python(&function("utils.failing")));
        }
        Ok(Value::Int(1))
    }
}

#[derive(Debug)]
struct FailingHost(Arc<Failing>);

impl Host for FailingHost {
    fn metric(&self, _: &Arc<Function>) -> Result<Arc<dyn HostMetric>, HostError> {
        Ok(self.0.clone())
    }
}

#[test]
fn stops_calling_a_failed_function() {
    let metric = Arc::new(Failing::default());
    let sources = ScoringSources { host: Arc::new(FailingHost(Arc::clone(&metric))), ..sources() };
    let failing = MetricSpec {
        metric: Reference::Function(function("utils.failing")),
        ..MetricSpec::named("failing").with_aggregation("mean")
    };
    let spec = pipeline("none", &[], &[failing]);
    let built = build_scorer(Some(&spec), facts(OutputType::GenerateUntil), &sources).unwrap();
    let mut scorer = scorer_of(vec![built], OutputType::GenerateUntil);
    let documents = [generated(0, "a", &["a"]), generated(7, "a", &["b"]), generated(8, "a", &["a"])];
    let error = scorer.score(&documents).unwrap_err();
    assert!(matches!(error, ScoreError::HostOnDocument { document: DocId(7), .. }), "{error}");
    assert_eq!(metric.0.load(Ordering::Relaxed), 2);
}

#[derive(Debug)]
struct Halves;

impl HostMetric for Halves {
    fn compute(&self, references: &Value, predictions: &Value, _: &Dict) -> Result<Value, HostError> {
        assert_eq!((references.as_list().unwrap().len(), predictions.as_list().unwrap().len()), (1, 1));
        Ok(Value::dict([("half", Value::Float(0.5)), ("whole", Value::Int(1))]))
    }
}

impl TaskCode for Code {
    fn process_results(&self, document: &Arc<Dict>, results: &[Value]) -> Result<Option<Dict>, HostError> {
        let id = document.get_str("id").and_then(Value::as_i64).unwrap();
        let entries = match id {
            0 => vec![("flags", Value::list([1, 0, 1].map(Value::Int))), ("only_first", Value::Int(7))],
            100 => return Ok(None),
            _ => vec![("flags", Value::list([1, 0, 1].map(Value::Int)))],
        };
        let mut values: Dict = entries.into_iter().map(|(key, value)| (Value::str(key), value)).collect();
        values.insert("count", results.len() as i64);
        Ok(Some(values))
    }

    fn higher_is_better(&self) -> Option<Directions> {
        None
    }
}

impl Host for FlagsHost {
    fn metric(&self, _: &Arc<Function>) -> Result<Arc<dyn HostMetric>, HostError> {
        Ok(Arc::new(Halves))
    }

    fn aggregation(&self, _: &Arc<Function>) -> Result<Arc<dyn HostAggregation>, HostError> {
        Ok(Arc::new(Flatten))
    }

    fn process_results(&self, _: &Arc<Function>) -> Result<Arc<dyn TaskCode>, HostError> {
        Ok(Arc::new(Code))
    }
}

pub(crate) fn function(reference: &str) -> Arc<Function> {
    Arc::new(Function { reference: reference.to_owned(), directory: String::new() })
}

#[test]
fn process_results_replaces_metrics() {
    let sources = ScoringSources { host: Arc::new(FlagsHost), ..sources() };
    let flags = MetricSpec {
        aggregation: Setting::Given(Reference::Function(function("utils.flatten"))),
        ..MetricSpec::named("flags")
    };
    let spec = pipeline("none", &[], &[flags]);
    let build = || {
        let facts = TaskFacts { scores_itself: true, ..facts(OutputType::GenerateUntil) };
        build_scorer(Some(&spec), facts, &sources).unwrap()
    };
    let code = sources.host.process_results(&function("utils.process")).unwrap();
    let mut scorer = scorer_of(vec![build()], OutputType::GenerateUntil).with_code(Some(code.clone()));
    scorer.score(&[generated(0, "a", &["a"]), generated(1, "a", &["b"])]).unwrap();
    // The task aggregates the list as one value; each metric covers the documents that have it.
    assert_eq!(scores(&scorer), "flags,none=0.6666666666666666 only_first,none=7.0 count,none=1.0");
    let aggregated = scorer.aggregate(200).unwrap();
    assert_eq!(aggregated.sample_len, 2);
    assert!(aggregated.metrics[1].1.to_f64().unwrap() < 1e-12);
    assert_eq!(repr(&aggregated.metrics[3].1), "'N/A'");
    // With several answers, a list holds one value per answer, and `only_first` has no reduction.
    let mut scorer = scorer_of(vec![build()], OutputType::GenerateUntil).with_code(Some(code.clone()));
    scorer.score(&[generated(1, "a", &["a", "b", "c"])]).unwrap();
    assert_eq!(repr(scorer.pipelines()[0].reduced_docs()[0].values.get("flags").unwrap()), "1");
    // Values for the first document only are an error; none for the first leave scoring to the metrics.
    let mut scorer = scorer_of(vec![build()], OutputType::GenerateUntil).with_code(Some(code.clone()));
    let error = scorer.score(&[generated(0, "a", &["a"]), generated(100, "a", &["b"])]).unwrap_err();
    assert!(matches!(error, ScoreError::NoValues { document: DocId(100) }));
    let plain = build_scorer(None, facts(OutputType::GenerateUntil), &sources).unwrap();
    let mut scorer = scorer_of(vec![plain], OutputType::GenerateUntil).with_code(Some(code));
    scorer.score(&[generated(100, "a", &["a"])]).unwrap();
    assert_eq!(scores(&scorer), "exact_match,none=1.0");
}

#[test]
fn task_functions_are_metrics() {
    let sources = ScoringSources { host: Arc::new(FlagsHost), ..sources() };
    let metric = MetricSpec {
        metric: Reference::Function(function("utils.halves")),
        higher_is_better: Setting::Given(false),
        ..MetricSpec::named("")
    };
    let spec = pipeline("none", &[], &[metric]);
    let built = build_scorer(Some(&spec), facts(OutputType::GenerateUntil), &sources).unwrap();
    let mut scorer = scorer_of(vec![built], OutputType::GenerateUntil);
    scorer.score(&[generated(0, "a", &["a"])]).unwrap();
    assert_eq!(scores(&scorer), "half,none=0.5 whole,none=1.0");
    let directions = scorer.higher_is_better();
    assert_eq!(directions.get("half"), Some(&Some(false)));
    // The task's aggregation gets pairs if the metric does not support the output type.
    let pairs = MetricSpec {
        aggregation: Setting::Given(Reference::Function(function("utils.flatten"))),
        ..MetricSpec::named("f1")
    };
    let spec = pipeline("none", &[], &[pairs]);
    let built = build_scorer(Some(&spec), facts(OutputType::GenerateUntil), &sources).unwrap();
    let mut scorer = scorer_of(vec![built], OutputType::GenerateUntil);
    scorer.score(&[generated(0, "a", &["b"])]).unwrap();
    assert_eq!(repr(scorer.pipelines()[0].reduced_docs()[0].values.get("f1").unwrap()), "['a', 'b']");
}

#[test]
fn unknown_metric_fails_when_used() {
    let spec = pipeline("none", &[], &[MetricSpec::named("no_such")]);
    let built = build_scorer(Some(&spec), facts(OutputType::GenerateUntil), &sources()).unwrap();
    let mut scorer = scorer_of(vec![built], OutputType::GenerateUntil);
    let error = scorer.score(&[generated(0, "a", &["a"])]).unwrap_err();
    assert!(matches!(error, ScoreError::NoFunction { .. }));
    let python = MetricSpec { metric: Reference::Function(function("utils.f")), ..MetricSpec::named("") };
    let spec = pipeline("none", &[], &[python]);
    let error = build_scorer(Some(&spec), facts(OutputType::GenerateUntil), &sources()).unwrap_err();
    assert_eq!(error.to_string(), "The function `utils.f` needs Python");
    let mut scorer = scorer_of(
        vec![build_scorer(None, facts(OutputType::MultipleChoice), &sources()).unwrap()],
        OutputType::MultipleChoice,
    );
    scorer.score(&[]).unwrap();
    assert_eq!(scorer.aggregate(10).unwrap().sample_len, 0);
}
