//! The model of a run.

use anyhow::{Result, bail};
use lmeval::Placement;
use lmeval_pycompat::{Dict, Value};

use super::options::Options;
use super::resolve::Resolver;
use super::workers::WorkerSettings;

/// Reference: results of 0.4 record this device wherever a model runs.
const DEFAULT_DEVICE: &str = "cuda:0";

/// The model evaluated by default.
const DEFAULT_MODEL: &str = "ngram";

/// The model, and how it computes.
#[derive(Clone, Debug)]
pub(crate) struct ModelGroup {
    /// The name of the backend.
    pub name: String,
    pub args: Dict,
    pub batch_size: Value,
    pub max_batch_size: Option<i64>,
    /// The device that was named.
    pub device: Option<String>,
    /// The device reported if none was named.
    pub default_device: Option<&'static str>,
    pub trust_remote_code: bool,
    /// Workers on other machines, if they compute the model.
    pub workers: Option<WorkerSettings>,
}

impl ModelGroup {
    pub(super) fn resolve(resolver: &mut Resolver) -> Result<Self> {
        let mut args = resolver.dict("model_args");
        let name = match resolver.options.model.clone() {
            Some(model) => model,
            None if !resolver.is_command() => String::new(),
            // Reference: the default model if there are arguments for one.
            None if !args.is_empty() => "hf".to_owned(),
            None => {
                resolver.notes.push(format!(
                    "No `--model` given: using `{DEFAULT_MODEL}`, a small model for trying things out"
                ));
                DEFAULT_MODEL.to_owned()
            }
        };
        let Placement { batch_size, max_batch_size, device } = placement(resolver, &mut args)?;
        Ok(Self {
            name,
            args,
            batch_size: batch_size.unwrap_or(Value::Int(1)),
            max_batch_size,
            device,
            default_device: resolver.is_command().then_some(DEFAULT_DEVICE),
            trust_remote_code: resolver.options.trust_remote_code.unwrap_or_default(),
            workers: WorkerSettings::resolve(&resolver.dict("workers"))?,
        })
    }

    /// The named device, or else the default one.
    pub(crate) fn device(&self) -> Option<&str> {
        self.device.as_deref().or(self.default_device)
    }
}

/// Batch size and device, which the command line also accepts in `--model_args`.
fn placement(resolver: &Resolver, model_args: &mut Dict) -> Result<Placement> {
    let Options { batch_size, max_batch_size, device, .. } = resolver.options.clone();
    let given = Placement {
        batch_size: batch_size.map(|size| size.0),
        max_batch_size,
        device: device.map(|device| device.0),
    };
    if !resolver.is_command() {
        return Ok(given);
    }
    let own = Placement::take(model_args)?;
    for (name, twice) in [
        ("batch_size", given.batch_size.is_some() && own.batch_size.is_some()),
        ("max_batch_size", given.max_batch_size.is_some() && own.max_batch_size.is_some()),
        ("device", given.device.is_some() && own.device.is_some()),
    ] {
        if twice {
            bail!("`{name}` is set twice: with `--{name}` and in `--model_args`");
        }
    }
    Ok(Placement {
        batch_size: given.batch_size.or(own.batch_size),
        max_batch_size: given.max_batch_size.or(own.max_batch_size),
        device: given.device.or(own.device),
    })
}
