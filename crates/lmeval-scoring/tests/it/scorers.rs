//! Scorers on small tasks: `process_results`, repeats, unresolved targets, pipelines and records.

use std::sync::Arc;

use lmeval_core::{
    Arguments, Context, Diagnose, Dialect, DocId, Finish, Instance, InstanceMetadata, OutputType, RequestType,
};
use lmeval_pycompat::repr::repr;
use lmeval_pycompat::{Dict, Function, Value};
use lmeval_scoring::filters::FilterSpec;
use lmeval_scoring::registry::ScorerEntry;
use lmeval_scoring::scorers::{
    AnsweredDocument, AnsweredInstance, Bounds, MetricSpec, PipelineSpec, ScoreError, ScoredDoc, Scorer,
    ScorerSpec, Scores, ScoringInput, ScoringPipeline, ScoringSources, TaskFacts, TaskScorer,
    build_predict_only, build_scorer, loglikelihood_response,
};

fn instance(doc_id: usize, idx: usize, arguments: Arguments, gold: Value) -> Instance {
    let request_type = match arguments {
        Arguments::Generate { .. } => RequestType::GenerateUntil,
        Arguments::Rolling { .. } => RequestType::LoglikelihoodRolling,
        Arguments::Loglikelihood { .. } => RequestType::Loglikelihood,
        Arguments::Letters { .. } => RequestType::ChoiceLetters,
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
        judgements: Vec::new(),
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
        judgements: Vec::new(),
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
    documents[2].answers[0] = documents[2].answers[0].clone().finished([Finish::CutOff]);
    scorer.score(&documents).unwrap();
    let (_, audit) = scorer.audit(&documents)[0].clone();
    let counts =
        (audit.answers, audit.empty, audit.whitespace_only, audit.truncated, audit.extraction_failed);
    assert_eq!((counts, audit.unfinished), ((3, 1, 1, 1, 2), 3));
    assert_eq!(scores(&scorer), "exact_match,strict=0.3333333333333333");
    let (key, bounds) = scorer.aggregate(0).unwrap().bounds[0].clone();
    assert_eq!((key.to_string().as_str(), bounds), ("exact_match,strict", Bounds { low: 0.0, high: 1.0 }));
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

pub(crate) fn function(reference: &str) -> Arc<Function> {
    Arc::new(Function { reference: reference.to_owned(), directory: String::new() })
}
