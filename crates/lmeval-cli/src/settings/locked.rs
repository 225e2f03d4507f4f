//! The lock of an earlier run as a layer of settings, below all others.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Result, anyhow};
use lmeval_claims::lock::Lock;
use lmeval_pycompat::Value;

use super::layer::Layer as _;
use super::options::Options;
use crate::run::lock::open;

/// The lock from which a run must not differ.
#[derive(Debug)]
pub(crate) struct Locked {
    /// The path of the lock, for messages.
    pub(crate) path: PathBuf,
    /// Its settings and digests.
    pub(crate) lock: Lock,
}

/// Fills settings that are not given from the lock.
pub(super) fn below(options: Options) -> Result<(Options, Option<Arc<Locked>>)> {
    let Some(path) = &options.locked else { return Ok((options, None)) };
    let (path, lock) = open(path)?;
    let layer = Options::read("", &lock.run).map_err(|(name, wrong)| {
        let message = wrong.message(name, lock.run.get_str(name).unwrap_or(&Value::None));
        anyhow!("`{}`: {message}", path.display())
    })?;
    Ok((options.combine(layer), Some(Arc::new(Locked { path, lock }))))
}
