//! Workers that compute the model on other machines.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use lmeval_core::{Diagnostic, nearest, secrets};
use lmeval_pycompat::{Dict, Value, repr};

/// The arguments of `--workers`.
const ARGUMENTS: [&str; 5] = ["listen", "token_file", "tls_cert", "tls_key", "stall"];

/// Settings from which a worker creates the model.
const OF_MODEL: [&str; 8] =
    ["model", "model_args", "batch_size", "max_batch_size", "device", "seed", "compat", "trust_remote_code"];

/// How long a worker may say nothing.
const STALL: f64 = 60.0;

/// The workers of a run.
#[derive(Clone, Debug)]
pub(crate) struct WorkerSettings {
    /// The address to listen on.
    pub listen: String,
    /// The file with the token of the run.
    pub token_file: PathBuf,
    /// The files of the certificate and of its key, if connections are encrypted.
    pub tls: Option<[PathBuf; 2]>,
    /// A worker that says nothing for this long is given up.
    pub stall: Duration,
}

impl WorkerSettings {
    /// Reads the arguments of `--workers`; `None` if there are none.
    pub(super) fn resolve(given: &Dict) -> Result<Option<Self>> {
        if given.is_empty() {
            return Ok(None);
        }
        let mut names = given.keys().filter_map(Value::as_str);
        if let Some(name) = names.find(|name| !ARGUMENTS.contains(name)) {
            let diagnostic = Diagnostic::new(format!("`--workers` has no argument `{name}`"));
            let near = nearest(name, ARGUMENTS.iter().copied());
            let names = if near.is_empty() { ARGUMENTS.to_vec() } else { near };
            bail!(diagnostic.hint(format!("Its arguments are `{}`", names.join("`, `"))));
        }
        let text = |name: &str| given.get_str(name).map(repr::str).filter(|text| !text.is_empty());
        let listen = text("listen").ok_or_else(|| {
            Diagnostic::new("`--workers` needs an address")
                .hint("For example `--workers listen=0.0.0.0:7000,token_file=token`")
        })?;
        let token_file = text("token_file").ok_or_else(|| {
            Diagnostic::new("`--workers` needs a token file: without a token, anybody could join the run")
                .hint(
                    "Create one with `(umask 077; openssl rand -hex 32 > token)` and pass `token_file=token`",
                )
        })?;
        let tls = match (text("tls_cert"), text("tls_key")) {
            (None, None) => None,
            (Some(certificate), Some(key)) => Some([certificate, key].map(PathBuf::from)),
            (certificate, _) => {
                let [given, missing] =
                    if certificate.is_some() { ["tls_cert", "tls_key"] } else { ["tls_key", "tls_cert"] };
                let diagnostic = Diagnostic::new(format!("`--workers` has `{given}`, but not `{missing}`"));
                bail!(diagnostic.hint("TLS needs both: `tls_cert=FILE,tls_key=FILE`"));
            }
        };
        let stall = given.get_str("stall").map_or(Some(STALL), Value::to_f64);
        let stall = stall.filter(|seconds| (1.0..=86_400.0).contains(seconds));
        let stall =
            stall.ok_or_else(|| anyhow!("`stall` of `--workers` must be a number of seconds, at least 1"))?;
        let (token_file, stall) = (PathBuf::from(token_file), Duration::from_secs_f64(stall));
        Ok(Some(Self { listen, token_file, tls, stall }))
    }
}

/// What a worker needs to create the model of a run with these settings. Secrets are left out: a worker has its own.
pub(crate) fn worker_setup(given: &Dict) -> Dict {
    let is_secret = |name: &Value| name.as_str().is_some_and(secrets::is_secret);
    let own = OF_MODEL.into_iter().chain(["plugins"]);
    let mut setup: Dict =
        own.filter_map(|name| Some((Value::str(name), given.get_str(name)?.clone()))).collect();
    if let Some(Value::Dict(args)) = setup.get_str("model_args").cloned() {
        let args: Dict = args
            .iter()
            .filter(|(name, _)| !is_secret(name))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        setup.insert("model_args", args);
    }
    setup
}
