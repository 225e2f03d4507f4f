//! The individual steps of an evaluation, for callers that query a model themselves.

use std::sync::Arc;

use anyhow::{Result, anyhow, bail};
use lmeval_core::{
    Arguments, Context, Diagnostic, Dialect, DocId, Instance, InstanceMetadata, OutputType, RequestType,
};
use lmeval_data::Settings;
use lmeval_engine::{ClassSettings, DataOptions, EngineError, load_class, request_sources};
use lmeval_host::PythonHost;
use lmeval_pycompat::{Dict, Value, repr};
use lmeval_scoring::Host;
use lmeval_scoring::scorers::{
    AnsweredDocument, AnsweredInstance, ReducedDoc, Restored, ScoreError, Scores, ScoringPipeline,
    ScoringSources, TaskScorer, loglikelihood_response,
};
use lmeval_tasks::Task;
use lmeval_tasks::prompt::{DocumentRequests, RequestBuilder, RequestOptions, Shard, read_arguments};
use lmeval_tasks::scoring::prepare_scoring;

use super::{Request, evaluate, tasks};
use crate::printer::Printer;
use crate::settings::RunSettings;
use crate::{python, report};

/// The index that represents a target not among the options.
const UNRESOLVED: i64 = -100;

/// Builds the requests of a task, document by document.
pub(super) fn requests(request: &Request, printer: &mut Printer) -> Result<Value> {
    let step = Step::new(request, printer)?;
    let options = step.request_options(request)?;
    let sources = request_sources(&step.task, &step.data)?;
    let builder = RequestBuilder::new(&step.task, &sources, &options).map_err(EngineError::from)?;
    let mut documents = Vec::new();
    for built in builder {
        let built = built.map_err(EngineError::from)?;
        documents.push(document_value(&built, step.task.config.output_type, &options.dialect));
    }
    Ok(Value::from(documents))
}

/// Filters the answers and, unless only that is requested, scores and reduces them.
pub(super) fn score(request: &Request, printer: &mut Printer) -> Result<Value> {
    let step = Step::new(request, printer)?;
    let only_filter = request.part("only_filter").is_truthy();
    if !only_filter {
        step.check_code()?;
    }
    let mut scorer = step.scorer()?;
    let documents = answered(&request.part("documents"), step.task.config.output_type)?;
    if only_filter {
        scorer.apply_filters(&documents).map_err(|error| step.failed(error))?;
    } else {
        scorer.score(&documents).map_err(|error| step.failed(error))?;
    }
    let pipelines = scorer.pipelines().iter().map(|pipeline| pipeline_value(pipeline, documents.len()));
    Ok(Value::dict([("pipelines", Value::list(pipelines)), ("higher_is_better", directions(&scorer))]))
}

/// Aggregates the values returned by [`score`].
pub(super) fn aggregate(request: &Request, printer: &mut Printer) -> Result<Value> {
    let step = Step::new(request, printer)?;
    let mut scorer = step.scorer()?;
    let given = request.part("pipelines");
    let given = given.as_list().unwrap_or_default();
    if given.len() != scorer.pipelines().len() {
        bail!("Got values of {} pipelines, expected {}", given.len(), scorer.pipelines().len());
    }
    scorer.restore(given.iter().map(restored).collect::<Result<Vec<_>>>()?);
    let aggregated =
        scorer.aggregate(step.settings.scoring.bootstrap_iters).map_err(|error| step.failed(error))?;
    for warning in &aggregated.warnings {
        printer.warn(&format!("Task `{}`: {warning}", step.task.name()));
    }
    let metrics = aggregated.metrics.iter().map(|(key, value)| (Value::from(key.to_string()), value.clone()));
    Ok(Value::dict([
        ("metrics", Value::from(metrics.collect::<Dict>())),
        ("sample_len", Value::Int(aggregated.sample_len as i64)),
        ("higher_is_better", directions(&scorer)),
    ]))
}

/// A task with everything a step needs.
struct Step {
    settings: RunSettings,
    task: Task,
    data: DataOptions,
}

impl Step {
    fn new(request: &Request, printer: &mut Printer) -> Result<Self> {
        let settings = RunSettings::from_python(&request.dict("settings"))?;
        if settings.output.quiet {
            printer.notes().be_quiet();
        }
        let (mut tasks, roots) = tasks::of_run(request, printer)?;
        let task = tasks.tasks.shift_remove_index(0).filter(|_| tasks.tasks.is_empty());
        let (_, mut task) = task.ok_or_else(|| anyhow!("The request must name exactly one task"))?;
        request.use_registered();
        let python = python::of_run(&settings, &roots, Some(&request.caller), &printer.notes())?;
        let data = DataOptions {
            settings: Some(Settings::from_environment()),
            python: Some(PythonHost::new(python)),
            ..lmeval::environment::data_options()
        };
        let classes = ClassSettings {
            fewshot_seed: settings.prompts.seeds[3],
            dialect: settings.dialect,
            ..ClassSettings::default()
        };
        for warning in load_class(&mut task, &classes, &data)? {
            report::warn(printer, &warning);
        }
        Ok(Self { settings, task, data })
    }

    fn request_options(&self, request: &Request) -> Result<RequestOptions> {
        let template = evaluate::live_model(request, &self.settings)?;
        let template = template.map(|model| model.chat_template(None)).transpose()?;
        let number = |name: &str| request.part(name).as_i64().and_then(|number| usize::try_from(number).ok());
        let samples = request.part("samples");
        let samples = samples.as_list().map(|ids| ids.iter().filter_map(Value::as_i64).collect());
        Ok(RequestOptions {
            dialect: self.settings.dialect,
            fewshot_seed: self.settings.prompts.seeds[3],
            system_instruction: self.settings.prompts.system_instruction.clone(),
            chat_template: template.map(|template| template.template),
            fewshot_as_multiturn: self.settings.prompts.fewshot_as_multiturn.unwrap_or_default(),
            limit: self.settings.documents.limit.to_f64(),
            samples,
            shard: Shard {
                rank: number("rank").unwrap_or(0),
                world_size: number("world_size").unwrap_or(1).max(1),
            },
            ..RequestOptions::default()
        })
    }

    fn check_code(&self) -> Result<()> {
        if self.task.config.unsafe_code && !self.settings.scoring.confirm_run_unsafe_code {
            let message = format!("The task `{}` runs code that the model writes", self.task.name());
            let hint = "Set `confirm_run_unsafe_code=True` to allow it on this machine";
            bail!(Diagnostic::new(message).hint(hint));
        }
        Ok(())
    }

    fn scorer(&self) -> Result<TaskScorer> {
        let mut sources = ScoringSources::new(&self.settings.dialect).with_registry(self.task.registry());
        if let Some(python) = &self.data.python {
            sources.host = Arc::clone(python) as Arc<dyn Host>;
        }
        Ok(prepare_scoring(&self.task, &sources, false)?)
    }

    fn failed(&self, source: ScoreError) -> EngineError {
        EngineError::Score { task: self.task.name().to_owned(), source: Box::new(source) }
    }
}

/// A document and its requests, with the field names of the package's `Instance`.
fn document_value(built: &DocumentRequests, output_type: OutputType, dialect: &Dialect) -> Value {
    let conditional = built.instances.iter().filter(|instance| !instance.metadata.unconditional).count();
    let options = built.choices.as_deref().filter(|options| options.len() == conditional);
    let mut options = options.into_iter().flatten();
    let instances = built.instances.iter().map(|instance| {
        let mut metadata = instance.metadata.to_dict();
        if !instance.metadata.unconditional
            && let Some(option) = options.next()
        {
            metadata.insert("option_text", repr::str(option));
        }
        Value::dict([
            ("request_type", Value::str(instance.request_type.name())),
            ("arguments", Value::tuple(arguments(instance, dialect))),
            ("idx", Value::Int(instance.idx as i64)),
            ("repeats", Value::Int(instance.repeats as i64)),
            ("target", target(&instance.gold, output_type)),
            ("metadata", Value::from(metadata)),
            ("task_name", Value::Str(Arc::clone(&instance.task_name))),
            ("additional_args", instance.additional_args.clone().map_or(Value::None, Value::Dict)),
        ])
    });
    Value::dict([
        ("doc_id", Value::Int(built.doc_id.0 as i64)),
        ("doc", Value::Dict(Arc::clone(&built.document))),
        ("instances", Value::list(instances)),
    ])
}

/// The arguments, with chat messages for a server as a tuple of their JSON.
fn arguments(instance: &Instance, dialect: &Dialect) -> Vec<Value> {
    let mut arguments = instance.args(dialect);
    if let Arguments::Loglikelihood { context: Context::Json(text), .. }
    | Arguments::Generate { context: Context::Json(text), .. } = &instance.arguments
    {
        arguments[0] = Value::tuple([Value::Str(Arc::clone(text))]);
    }
    arguments
}

/// The target as metrics get it: 0 if the target itself is scored.
fn target(gold: &Value, output_type: OutputType) -> Value {
    match output_type {
        OutputType::MultipleChoice => of_index(gold, &|gold| match gold {
            Value::None => Value::Int(UNRESOLVED),
            other => other.clone(),
        }),
        OutputType::GenerateUntil => match gold {
            Value::Str(_) | Value::List(_) | Value::Tuple(_) | Value::Set(_) | Value::Dict(_) => gold.clone(),
            // A generation is compared with a string.
            other => Value::from(repr::str(other)),
        },
        OutputType::Loglikelihood | OutputType::LoglikelihoodRolling => Value::Int(0),
    }
}

fn of_index(gold: &Value, index: &dyn Fn(&Value) -> Value) -> Value {
    match gold {
        Value::List(golds) => Value::list(golds.iter().map(index)),
        one => index(one),
    }
}

/// Reads the documents and their answers.
fn answered(documents: &Value, output_type: OutputType) -> Result<Vec<AnsweredDocument>> {
    let documents = documents.as_list().unwrap_or_default().iter();
    documents.map(|document| answered_document(document, output_type)).collect()
}

fn answered_document(given: &Value, output_type: OutputType) -> Result<AnsweredDocument> {
    let given = given.as_dict().ok_or_else(|| anyhow!("Malformed document"))?;
    let doc_id = given.get_str("doc_id").and_then(Value::as_i64).and_then(|id| usize::try_from(id).ok());
    let doc_id =
        DocId(doc_id.ok_or_else(|| anyhow!("The `doc_id` of a request must be a non-negative integer"))?);
    let instances = given.get_str("instances").and_then(Value::as_list).unwrap_or_default();
    let (mut answers, mut choices) = (Vec::with_capacity(instances.len()), Vec::new());
    for given in instances {
        let given = given.as_dict().ok_or_else(|| anyhow!("Malformed request"))?;
        let (answer, option) = answered_instance(doc_id, given, output_type)?;
        if !answer.instance.metadata.unconditional {
            choices.push(option);
        }
        answers.push(answer);
    }
    let choices: Option<Vec<Value>> = choices.into_iter().collect();
    let document = match given.get_str("doc") {
        Some(Value::Dict(document)) => Arc::clone(document),
        _ => bail!("A document must be a dictionary"),
    };
    Ok(AnsweredDocument { doc_id, document, choices: choices.map(Arc::new), answers, judgements: Vec::new() })
}

fn answered_instance(
    doc_id: DocId,
    given: &Dict,
    output_type: OutputType,
) -> Result<(AnsweredInstance, Option<Value>)> {
    let text = |name: &str| given.get_str(name).and_then(Value::as_str).unwrap_or_default();
    let count =
        |name: &str| given.get_str(name).and_then(Value::as_i64).and_then(|n| usize::try_from(n).ok());
    let arguments = match given.get_str("arguments") {
        Some(Value::Tuple(arguments) | Value::List(arguments)) => arguments.as_slice(),
        _ => &[],
    };
    let (request_type, arguments, media) =
        read_arguments(text("request_type"), arguments).map_err(EngineError::from)?;
    let metadata = given.get_str("metadata").and_then(Value::as_dict).cloned().unwrap_or_default();
    let mut gold = given.get_str("target").cloned().unwrap_or_default();
    if output_type == OutputType::MultipleChoice {
        gold = of_index(&gold, &|gold| match gold {
            Value::Int(UNRESOLVED) => Value::None,
            other => other.clone(),
        });
    }
    let responses = given.get_str("resps").and_then(Value::as_list).unwrap_or_default();
    let responses = responses.iter().map(|response| response_value(request_type, response));
    let instance = Instance {
        request_type,
        task_name: text("task_name").into(),
        doc_id,
        idx: count("idx").unwrap_or_default(),
        repeats: count("repeats").unwrap_or(1),
        arguments,
        target: gold.clone(),
        gold,
        metadata: InstanceMetadata {
            unconditional: metadata.get_str("acc_mutual_info").is_some_and(Value::is_truthy),
            metric_kwargs: match metadata.get_str("metric_kwargs") {
                Some(Value::Dict(kwargs)) => Some(Arc::clone(kwargs)),
                _ => None,
            },
        },
        additional_args: match given.get_str("additional_args") {
            Some(Value::Dict(args)) => Some(Arc::clone(args)),
            _ => media,
        },
    };
    let option = metadata.get_str("option_text").cloned();
    Ok((AnsweredInstance::new(instance, responses.collect()), option))
}

/// An answer in the form scoring expects: models return a rolling log-likelihood as a bare number.
fn response_value(request_type: RequestType, response: &Value) -> Value {
    match (request_type, response) {
        (RequestType::GenerateUntil, answer) => answer.clone(),
        (_, Value::List(pair)) => Value::tuple(pair.iter().cloned()),
        (RequestType::LoglikelihoodRolling, answer) => {
            answer.to_f64().map_or_else(|| answer.clone(), |logprob| loglikelihood_response(logprob, false))
        }
        (_, answer) => answer.clone(),
    }
}

/// The results of a pipeline.
fn pipeline_value(pipeline: &ScoringPipeline, documents: usize) -> Value {
    let filtered = (0..documents).map(|index| {
        Value::list(pipeline.filtered(index).iter().map(|answers| Value::list(answers.clone())))
    });
    let raw = pipeline.raw_docs().iter().map(|scored| {
        let scores = scored.scores.iter();
        let scores =
            scores.map(|(metric, values)| (Value::Str(Arc::clone(metric)), Value::list(values.clone())));
        Value::dict([
            ("doc_id", Value::Int(scored.doc_id.0 as i64)),
            ("reference", scored.reference.clone()),
            ("scores", Value::from(scores.collect::<Dict>())),
        ])
    });
    let reduced = pipeline.reduced_docs().iter();
    let reduced = reduced
        .map(|reduced| Value::list([Value::Int(reduced.doc_id.0 as i64), Value::from(reduced.to_dict())]));
    let owners = pipeline.owners().iter();
    let owners =
        owners.map(|(name, metric)| Value::list([Value::Str(Arc::clone(name)), Value::Int(*metric as i64)]));
    Value::dict([
        ("name", Value::Str(Arc::clone(pipeline.name()))),
        ("filtered", Value::list(filtered)),
        ("raw", Value::list(raw)),
        ("reduced", Value::list(reduced)),
        ("owners", Value::list(owners)),
    ])
}

/// Reads back the values and owners that [`pipeline_value`] returned.
fn restored(given: &Value) -> Result<Restored> {
    let wrong = || anyhow!("Malformed values of a pipeline");
    let given = given.as_dict().ok_or_else(wrong)?;
    let list = |name: &str| given.get_str(name).and_then(Value::as_list).unwrap_or_default();
    let number = |value: &Value| value.as_i64().and_then(|number| usize::try_from(number).ok());
    let documents = list("reduced").iter().map(|entry| match entry.as_list() {
        Some([id, Value::Dict(values)]) => {
            let mut scores = Scores::new();
            for (metric, value) in values.iter() {
                scores.insert(metric.as_str().ok_or_else(wrong)?, value.clone());
            }
            Ok(ReducedDoc { doc_id: DocId(number(id).ok_or_else(wrong)?), values: scores })
        }
        _ => Err(wrong()),
    });
    let owners = list("owners").iter().map(|entry| match entry.as_list() {
        Some([Value::Str(name), metric]) => Ok((Arc::clone(name), number(metric).ok_or_else(wrong)?)),
        _ => Err(wrong()),
    });
    Ok((documents.collect::<Result<_>>()?, owners.collect::<Result<_>>()?))
}

fn directions(scorer: &TaskScorer) -> Value {
    let directions = scorer.higher_is_better();
    let directions =
        directions.iter().map(|(metric, higher)| (Value::Str(Arc::clone(metric)), Value::from(*higher)));
    Value::from(directions.collect::<Dict>())
}
