//! `lm-eval worker`: computes the model of a run on this machine.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use lmeval_core::{ModelError, ModelErrorKind};
use lmeval_host::{Token, WorkerOptions, WorkerTls, work_for_run};
use lmeval_pycompat::{Dict, Value};
use lmeval_report::lm_eval_version;

use crate::commands::Status;
use crate::printer::Printer;
use crate::python;
use crate::run::model;
use crate::settings::{Options, PythonArgs, RunSettings, parse_pairs};

/// Arguments of `worker`.
#[derive(Args, Debug)]
#[command(
    after_help = "Exit status: 0 when the run is over, 1 if the run refuses the worker or cannot be reached, 2 for a usage error.\n\nExamples:\n  lm-eval run --model hf --model_args pretrained=gpt2 --tasks arc_easy --output_path out --workers listen=0.0.0.0:7000,token_file=token\n  lm-eval worker --connect head:7000 --token_file token\n  lm-eval worker --connect head:7000 --token_file token --device cuda:1 --model_args pretrained=/local/gpt2"
)]
pub(crate) struct WorkerArgs {
    /// The address of the run: that of its `--workers listen=…`.
    #[arg(long, value_name = "HOST:PORT")]
    pub connect: String,

    /// The file with the token of the run.
    #[arg(long = "token_file", alias = "token-file", value_name = "FILE")]
    pub token_file: PathBuf,

    /// Encrypt the connection (TLS): a PEM file with the certificate of the run, or that of the authority which issued it.
    #[arg(long = "tls_ca", alias = "tls-ca", value_name = "FILE")]
    pub tls_ca: Option<PathBuf>,

    /// Model arguments of this machine, over those of the run: `key=value,…`, such as the path of the checkpoint here.
    #[arg(long = "model_args", alias = "model-args", value_name = "ARGS")]
    pub model_args: Option<String>,

    /// Device for the model, over that of the run.
    #[arg(long, value_name = "DEVICE")]
    pub device: Option<String>,

    /// How many seconds to try to reach the run, at the start and after the connection is lost.
    #[arg(long, value_name = "SECONDS", default_value_t = 600.0)]
    pub patience: f64,

    /// The Python of a model written in Python.
    #[command(flatten)]
    pub python: PythonArgs,
}

/// Works for a run until it is over.
pub(crate) fn run(arguments: &WorkerArgs, printer: &mut Printer) -> Result<Status> {
    let notes = printer.notes();
    let patience = if arguments.patience.is_finite() { arguments.patience.clamp(0.0, 1e9) } else { 1e9 };
    let options = WorkerOptions {
        address: arguments.connect.clone(),
        token: Token::read(&arguments.token_file)?,
        tls: arguments.tls_ca.as_deref().map(WorkerTls::read).transpose()?,
        version: lm_eval_version().to_owned(),
        patience: Duration::from_secs_f64(patience),
        name: name(),
    };
    let create = |setup: &Dict| {
        let made = settings(setup, arguments).and_then(|settings| {
            let options =
                python::options(settings.python.python.as_deref(), settings.python.plugins(), &[], &notes)?;
            model::create(&settings, &options, &notes, false)
        });
        made.map_err(|error| match error.downcast::<ModelError>() {
            Ok(error) => error,
            Err(error) => ModelError::new(ModelErrorKind::Configuration, format!("{error:#}")),
        })
    };
    work_for_run(&options, &|level, text| notes.line(level, text), &create)?;
    Ok(Status::Success)
}

/// The settings of the run with those of this machine.
fn settings(setup: &Dict, arguments: &WorkerArgs) -> Result<RunSettings> {
    let mut setup = setup.clone();
    let mut model_args = setup.get_str("model_args").and_then(Value::as_dict).cloned().unwrap_or_default();
    if let Some(own) = &arguments.model_args {
        model_args.update(&parse_pairs(own));
    }
    if let Some(device) = &arguments.device {
        model_args.remove_str("device");
        setup.insert("device", device.as_str());
    }
    if !model_args.is_empty() {
        setup.insert("model_args", model_args);
    }
    RunSettings::from_stored(&setup, &Options { python: arguments.python.clone(), ..Options::default() })
}

/// The name of this process in messages of the run.
fn name() -> String {
    let host = fs_err::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = host.trim();
    format!("{host}, process {}", std::process::id())
}
