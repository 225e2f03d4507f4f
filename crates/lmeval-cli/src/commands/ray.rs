//! `lm-eval ray`: runs on a Ray cluster. Ray is a package of the user's Python, which this command starts with the
//! driver that is embedded in the binary.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use lmeval::environment::LM_EVAL_COMPAT;
use lmeval_core::Diagnostic;
use lmeval_host::{RAY_BOOT, active_environment, find_python, ray_modules};
use lmeval_models::serve_command;
use lmeval_pycompat::json::{self, Options as JsonOptions};
use serde_json::{Map, Value, json};

use crate::commands::{Status, run};
use crate::printer::Printer;
use crate::settings::{Options, RunSettings};

/// The model of servers that a run starts itself.
const SERVED: &str = "local-completions";

/// Arguments of `ray`.
#[derive(Args, Debug)]
pub(crate) struct RayArgs {
    /// The subcommand to run.
    #[command(subcommand)]
    pub action: RayAction,
}

/// Subcommands of `ray`.
#[derive(Debug, Subcommand)]
pub(crate) enum RayAction {
    /// Evaluate a model on a Ray cluster.
    ///
    /// Needs Ray in your Python: `pip install 'lm-eval-rs[ray]'`. Without `--serve`, every replica is a worker that computes
    /// the model; with it, a server. All flags of `run` apply, except `--workers`.
    Run(Box<RayRunArgs>),

    /// Evaluate with the settings in a file. The driver starts this command.
    #[command(hide = true)]
    Engine {
        /// The file: a JSON object.
        settings: PathBuf,
    },
}

/// Arguments of `ray run`.
#[derive(Args, Debug)]
#[command(
    after_help = "Exit status: that of `run`, or 1 if the cluster cannot be reached or every replica fails.\n\nAn interrupted run with --output_path resumes when the same command is run again.\n\nExamples:\n  lm-eval ray run --replicas 8 --gpus-per-replica 1 --model hf --model_args pretrained=gpt2 --tasks arc_easy --output_path out\n  lm-eval ray run --replicas 4 --gpus-per-replica 2 --serve 'vllm serve MODEL --tensor-parallel-size 2' --tasks arc_easy --output_path out"
)]
pub(crate) struct RayRunArgs {
    /// The settings of the run on the cluster.
    #[command(flatten)]
    pub run: Options,

    /// The cluster and the replicas. Last, because their heading would apply to what follows.
    #[command(flatten)]
    pub ray: RayOptions,
}

/// The flags of `ray run` that are not those of `run`.
#[derive(Args, Debug)]
#[command(next_help_heading = "Cluster")]
pub(crate) struct RayOptions {
    /// The number of workers or servers.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub replicas: u32,

    /// Start the run when this many replicas are ready. The others join when the cluster has room for them.
    #[arg(long, alias = "min_replicas", value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub min_replicas: u32,

    /// GPUs of each replica, all on one node; a fraction shares a GPU. With --serve, those of `--tensor-parallel-size`.
    #[arg(long, alias = "gpus_per_replica", value_name = "N", default_value_t = 0.0, value_parser = amount)]
    pub gpus_per_replica: f64,

    /// CPUs of each replica.
    #[arg(long, alias = "cpus_per_replica", value_name = "N", default_value_t = 1.0, value_parser = amount)]
    pub cpus_per_replica: f64,

    /// The address of the cluster; `local` starts one on this machine.
    ///
    /// [default: RAY_ADDRESS, else the cluster of this machine, else a new one]
    #[arg(long, value_name = "ADDRESS")]
    pub address: Option<String>,

    /// The address that the run listens on and workers connect to. [default: that of this node, and a free port]
    #[arg(long, value_name = "HOST:PORT")]
    pub listen: Option<String>,

    /// The command of a worker, without its arguments. [default: `lm-eval worker` of this path, or of the node's PATH]
    #[arg(long, alias = "worker_command", value_name = "COMMAND")]
    pub worker_command: Option<String>,

    /// An environment variable for the replicas, with a value or with that of this process. Can be repeated.
    #[arg(long = "env", value_name = "NAME[=VALUE]")]
    pub environment: Vec<String>,

    /// Start a server with this command in each replica. `{port}` and `{host}` are replaced; without `{port}`, `--port PORT` is
    /// appended.
    #[arg(long, value_name = "COMMAND", conflicts_with_all = ["worker_command", "listen"])]
    pub serve: Option<String>,

    /// The path of the servers that takes requests. [default: that of --model, such as /v1/completions]
    #[arg(long, value_name = "PATH", requires = "serve")]
    pub endpoint: Option<String>,

    /// The path that a server answers with success when it is ready. [default: /health or /v1/models]
    #[arg(long, value_name = "PATH", requires = "serve")]
    pub health: Option<String>,

    /// How many seconds a server may take to become ready before it is started again.
    #[arg(long, alias = "ready_timeout", value_name = "SECONDS", default_value_t = 1800.0, value_parser = amount, requires = "serve")]
    pub ready_timeout: f64,
}

/// Parses a number that is not negative.
fn amount(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
    number.ok_or_else(|| "must be a number, at least 0".to_owned())
}

/// Starts the driver, or the engine on its behalf.
pub(crate) fn run(arguments: &RayArgs, printer: &mut Printer) -> Result<Status> {
    let arguments = match &arguments.action {
        RayAction::Run(arguments) => arguments,
        RayAction::Engine { settings } => return run_engine(settings, printer),
    };
    let RayRunArgs { run, ray } = &**arguments;
    let settings = RunSettings::from_flags(run)?;
    check(ray, &settings)?;
    let driver = driver_settings(ray, &settings)?;
    let python = find_python(settings.python.python.as_deref(), active_environment().as_deref());
    let Some(python) = python else {
        let asked = settings.python.python.as_deref().unwrap_or(Path::new("python3"));
        bail!(
            Diagnostic::new(format!("`{}` was not found", asked.display()))
                .hint("`--python PATH` sets the Python that has Ray")
        );
    };
    run::print_given(&settings, printer)?;
    printer.flush()?;
    start(&python, &driver)
}

fn check(ray: &RayOptions, settings: &RunSettings) -> Result<()> {
    for (flag, is_given) in [("--expect", settings.expect.is_some()), ("--locked", settings.locked.is_some())]
    {
        if is_given {
            let wrong = Diagnostic::new(format!("`ray run` has no `{flag}`"));
            bail!(
                wrong.hint("`lm-eval reproduce CLAIM RUN` and `lm-eval lock diff A B` read the finished run")
            );
        }
    }
    if settings.model.workers.is_some() {
        let wrong = Diagnostic::new("`ray run` sets `--workers` itself");
        bail!(wrong.hint("`--listen HOST:PORT` sets the address that workers connect to"));
    }
    if ray.min_replicas > ray.replicas {
        bail!("`--min-replicas` is {}, but `--replicas` is {}", ray.min_replicas, ray.replicas);
    }
    if ray.cpus_per_replica == 0.0 && ray.gpus_per_replica == 0.0 {
        bail!("A replica needs CPUs or GPUs: `--cpus-per-replica` and `--gpus-per-replica` are 0");
    }
    if ray.gpus_per_replica > 1.0 && ray.gpus_per_replica.fract() != 0.0 {
        bail!("`--gpus-per-replica` must be a whole number above 1, not {}", ray.gpus_per_replica);
    }
    if ray.serve.is_some() && settings.model.args.get_str("base_url").is_some() {
        let wrong = Diagnostic::new("`--serve` starts the servers, so `base_url` cannot be set");
        bail!(wrong.hint("Without `--serve`, `lm-eval run` uses servers that are already running"));
    }
    Ok(())
}

/// The settings for the driver.
fn driver_settings(ray: &RayOptions, settings: &RunSettings) -> Result<Value> {
    let mut environment = Map::new();
    for given in &ray.environment {
        let (name, value) = match given.split_once('=') {
            Some((name, value)) => (name, value.to_owned()),
            None => match std::env::var(given) {
                Ok(value) => (given.as_str(), value),
                Err(_) => bail!("`--env {given}`: this variable is not set, or its value is not UTF-8"),
            },
        };
        environment.insert(name.to_owned(), value.into());
    }
    let serve = match &ray.serve {
        Some(command) => Some(command.clone()),
        None => serve_command(&settings.model.name, &settings.model_settings()).transpose()?,
    };
    let mut run = settings.stored();
    if ray.serve.is_some() && run.get_str("model").is_none() {
        run.insert("model", SERVED);
    }
    let run = json::dumps(&run.into(), &JsonOptions { allow_nan: false, ..JsonOptions::default() })?;
    Ok(json!({
        "replicas": ray.replicas,
        "min_replicas": ray.min_replicas,
        "gpus": ray.gpus_per_replica,
        "cpus": ray.cpus_per_replica,
        "address": ray.address,
        "listen": ray.listen,
        "worker_command": ray.worker_command,
        "environment": environment,
        "serve": serve,
        "endpoint": ray.endpoint,
        "health": ray.health,
        "ready_timeout": ray.ready_timeout,
        "binary": std::env::current_exe()?.to_string_lossy(),
        "run": serde_json::from_str::<Value>(&run)?,
    }))
}

/// Evaluates with the settings that the driver has written.
fn run_engine(path: &Path, printer: &mut Printer) -> Result<Status> {
    let stored = json::loads(&fs_err::read_to_string(path)?)?;
    let Some(stored) = stored.as_dict() else { bail!("`{}` is not a JSON object", path.display()) };
    let settings = RunSettings::from_stored(stored, &Options::default())?;
    run::run_with(settings, printer, None)
}

/// Replaces this process with the driver: a script on standard input, so that its code is not part of the command line,
/// and a file with its data, which it deletes.
#[cfg(unix)]
fn start(python: &Path, settings: &Value) -> Result<Status> {
    use std::io::{Seek as _, Write as _};
    use std::os::unix::process::CommandExt as _;
    use std::process::{Command, Stdio};

    let modules: Map<String, Value> =
        ray_modules().map(|(path, source)| (path.to_owned(), source.into())).collect();
    let mut data = tempfile::Builder::new().prefix("lm-eval-ray-").suffix(".json").tempfile()?;
    serde_json::to_writer(&mut data, &json!({ "modules": modules, "settings": settings }))?;
    let data = data.into_temp_path();
    let mut script = tempfile::tempfile()?;
    script.write_all(RAY_BOOT.as_bytes())?;
    script.rewind()?;
    let error = Command::new(python)
        .args(["-", "lm-eval", "ray", "run"])
        .arg(&data)
        // The settings contain its value.
        .env_remove(LM_EVAL_COMPAT)
        .stdin(Stdio::from(script))
        .exec();
    bail!("Cannot start {}: {error}", python.display());
}

#[cfg(not(unix))]
fn start(_: &Path, _: &Value) -> Result<Status> {
    bail!("`lm-eval ray` needs Linux or macOS");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_not_negative() {
        assert_eq!(amount("0.25"), Ok(0.25));
        for text in ["-1", "x", "inf", "nan", ""] {
            assert!(amount(text).is_err(), "{text}");
        }
    }
}
