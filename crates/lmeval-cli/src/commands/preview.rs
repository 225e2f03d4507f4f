//! `lm-eval preview`: prints the prompts and requests sent to a model.

use std::fmt::Write;
use std::sync::Arc;

use anyhow::{Result, anyhow, bail};
use lmeval_core::{Arguments, ChatTemplate, Context, Dialect, Instance, RemoteTemplate};
use lmeval_data::Settings;
use lmeval_engine::{ClassSettings, DataOptions, load_class, request_sources};
use lmeval_pycompat::{Dict, Value, repr};
use lmeval_tasks::Task;
use lmeval_tasks::prompt::{DocumentRequests, RequestBuilder, RequestOptions};
use lmeval_tokenizers::TokenizerTemplate;

use crate::cli::PreviewArgs;
use crate::commands::Status;
use crate::printer::Printer;
use crate::progress::Downloads;
use crate::settings::{dialect, parse_samples, resolve_samples};
use crate::words::skip_reason;
use crate::{json_line, python, report, roots};

/// Prints the requests of the named tasks.
pub(crate) fn run(arguments: &PreviewArgs, printer: &mut Printer) -> Result<Status> {
    let roots = roots::resolve(&arguments.library, printer)?;
    let manager = roots::manager(&roots, &arguments.library)?;
    let mut loaded = roots::load(&manager, &arguments.names, printer)?;
    if let Some(count) = arguments.num_fewshot.filter(|count| *count < 0) {
        bail!("`num_fewshot` must be a non-negative integer, not {count}");
    }
    let options = options(arguments)?;
    let samples = samples(arguments)?;
    let mut settings = Settings::from_environment();
    settings.hub.progress = Arc::new(Downloads::new(printer.notes()));
    let data = DataOptions {
        settings: Some(settings),
        python: Some(python::host(
            arguments.python.python.as_deref(),
            arguments.python.plugins(),
            &roots,
            &printer.notes(),
        )?),
        ..lmeval::environment::data_options()
    };
    for (name, task) in &mut loaded.tasks {
        let num_fewshot = task.options.num_fewshot.or(arguments.num_fewshot);
        let classes = ClassSettings {
            num_fewshot,
            fewshot_seed: options.fewshot_seed,
            dialect: options.dialect,
            ..ClassSettings::default()
        };
        for warning in load_class(task, &classes, &data)? {
            report::warn(printer, &warning);
        }
        task.set_num_fewshot(arguments.num_fewshot);
        let mut options = options.clone();
        options.samples = samples.as_ref().and_then(|samples| document_indices(samples, name));
        preview(task, &data, &options, arguments.json, printer)?;
    }
    Ok(Status::Success)
}

fn options(arguments: &PreviewArgs) -> Result<RequestOptions> {
    let chat_template: Option<Arc<dyn ChatTemplate>> =
        match (&arguments.apply_chat_template, &arguments.tokenizer) {
            (None, None) => None,
            (None, Some(_)) => bail!("`--tokenizer` is only used with `--apply_chat_template`"),
            (Some(_), None) => Some(Arc::new(RemoteTemplate)),
            (Some(name), Some(path)) => {
                let name = Some(name.as_str()).filter(|name| !name.is_empty());
                Some(Arc::new(TokenizerTemplate::read(path, name)?))
            }
        };
    let multiturn = arguments.fewshot_as_multiturn;
    if multiturn == Some(true) && chat_template.is_none() {
        bail!("`--fewshot_as_multiturn` needs `--apply_chat_template`");
    }
    if arguments.samples.is_some() && arguments.limit.is_some() {
        bail!("`--samples` and `--limit` are mutually exclusive");
    }
    let limit = match (arguments.limit, &arguments.samples) {
        (None, None) if !arguments.json => Some(1.0),
        (limit, _) => limit,
    };
    Ok(RequestOptions {
        dialect: dialect(arguments.compat.as_ref())?,
        fewshot_seed: Some(arguments.seed),
        system_instruction: arguments.system_instruction.clone(),
        fewshot_as_multiturn: multiturn.unwrap_or(chat_template.is_some()),
        chat_template,
        limit,
        ..RequestOptions::default()
    })
}

/// The document indices chosen by `--samples`.
fn samples(arguments: &PreviewArgs) -> Result<Option<Dict>> {
    let Some(text) = &arguments.samples else { return Ok(None) };
    resolve_samples(&parse_samples(text).map_err(|error| anyhow!("`--samples` is {error}"))?)
}

fn document_indices(samples: &Dict, name: &str) -> Option<Vec<i64>> {
    let indices = samples.get_str(name)?.as_list()?;
    Some(indices.iter().filter_map(Value::as_i64).collect())
}

fn preview(
    task: &Task,
    data: &DataOptions,
    options: &RequestOptions,
    json: bool,
    printer: &mut Printer,
) -> Result<()> {
    let sources = request_sources(task, data)?;
    let builder = RequestBuilder::new(task, &sources, options)?;
    for missing in builder.missing_columns() {
        report::warn(printer, &missing.diagnostic(task));
    }
    for requests in builder {
        let requests = requests?;
        let mut text = String::new();
        if json {
            for instance in &requests.instances {
                json_request(&mut text, instance, &options.dialect)?;
            }
        } else {
            describe(&mut text, task, &requests);
        }
        if json { printer.exact(&text)? } else { printer.result(&text)? }
    }
    Ok(())
}

/// One line per repeat of the request.
fn json_request(text: &mut String, instance: &Instance, dialect: &Dialect) -> Result<()> {
    let line = Value::dict([
        ("task", Value::Str(instance.task_name.clone())),
        ("doc_id", Value::Int(instance.doc_id.0 as i64)),
        ("idx", Value::Int(instance.idx as i64)),
        ("type", Value::from(instance.request_type.name())),
        ("args", Value::from(instance.args(dialect))),
        ("target", instance.target.clone()),
    ]);
    for _ in 0..instance.repeats {
        json_line::write(text, &line)?;
    }
    Ok(())
}

/// Describes the requests of a document: each context once, followed by what is requested after it.
pub(super) fn describe(text: &mut String, task: &Task, requests: &DocumentRequests) {
    let _ = writeln!(text, "=== {}, document {}", task.name(), requests.doc_id);
    if let Some(reason) = &requests.skipped {
        let reason = skip_reason(*reason);
        let _ = writeln!(text, "skipped: {reason}\n");
        return;
    }
    let mut shown: Option<&Context> = None;
    for instance in &requests.instances {
        if let Some(context) = instance.arguments.context()
            && shown != Some(context)
        {
            shown = Some(context);
            describe_context(text, context);
        }
        let kind = instance.request_type;
        match &instance.arguments {
            Arguments::Loglikelihood { continuation, .. } => {
                let _ = writeln!(text, "--- {kind} {}: {}", instance.idx, quoted(continuation));
            }
            Arguments::Rolling { text: scored } => {
                let _ = writeln!(text, "--- {kind}");
                lines(text, scored);
            }
            Arguments::Generate { kwargs, .. } => {
                let kwargs = repr::repr(&Value::Dict(Arc::clone(kwargs)));
                let times =
                    if instance.repeats > 1 { format!(" x {}", instance.repeats) } else { String::new() };
                let _ = writeln!(text, "--- {kind}{times} {kwargs}");
            }
            Arguments::Letters { labels, .. } => {
                let _ = writeln!(text, "--- {kind}: {}", labels.join(", "));
            }
        }
    }
    if let Some(instance) = requests.instances.first() {
        for (name, files) in instance.additional_args.iter().flat_map(|media| media.iter()) {
            describe_files(text, &repr::str(name), files);
        }
        let _ = writeln!(text, "--- target {}", repr::repr(&instance.target));
    }
    text.push('\n');
}

/// Describes the images and sounds of a document, in order.
fn describe_files(text: &mut String, name: &str, files: &Value) {
    match files {
        Value::List(files) | Value::Tuple(files) => {
            files.iter().for_each(|file| describe_files(text, name, file));
        }
        file => {
            let mut line = String::new();
            // A value that JSON does not have is shown as Python shows it.
            if json_line::write(&mut line, file).is_err() {
                line = repr::repr(file);
            }
            let _ = writeln!(text, "--- {name} {}", line.trim_end());
        }
    }
}

fn describe_context(text: &mut String, context: &Context) {
    match context {
        Context::Text(context) | Context::Json(context) => {
            let _ = writeln!(text, "--- context");
            lines(text, context);
        }
        Context::Messages(messages) => {
            for message in messages.iter() {
                let _ = writeln!(text, "--- {}", message.role);
                lines(text, &message.content);
            }
        }
    }
}

/// Writes lines between bars, so that leading and trailing spaces and the final newline are visible.
fn lines(text: &mut String, content: &str) {
    for line in content.split('\n') {
        let _ = writeln!(text, "|{line}|");
    }
}

fn quoted(content: &str) -> String {
    repr::repr(&Value::from(content))
}
