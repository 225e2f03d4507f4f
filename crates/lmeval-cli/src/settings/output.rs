//! The output of a run.

use std::path::PathBuf;

use anyhow::{Result, bail};
use lmeval_core::Diagnostic;
use lmeval_pycompat::repr;

use super::options::{Format, ProgressMode};
use super::resolve::Resolver;
use super::trackers::TrackerSettings;
use crate::environment;

/// What is written and shown.
#[derive(Clone, Debug)]
pub(crate) struct OutputGroup {
    /// Where results go.
    pub path: Option<PathBuf>,
    pub log_samples: bool,
    /// Whether the files are deleted when the command ends, so that nobody has to know where they are.
    pub is_temporary: bool,
    pub write_out: bool,
    pub show_config: bool,
    pub format: Format,
    pub progress: ProgressMode,
    pub quiet: bool,
    /// Whether a log of every request is printed.
    pub log: bool,
    pub view: bool,
    /// Whether scores are printed; not by commands that print something else about them.
    pub prints_scores: bool,
    pub trackers: TrackerSettings,
}

impl OutputGroup {
    pub(super) fn resolve(resolver: &mut Resolver) -> Result<Self> {
        let is_command = resolver.is_command();
        let options = &resolver.options;
        let predict_only = options.predict_only.unwrap_or_default();
        let log_samples = options.log_samples.unwrap_or_default() || predict_only;
        let path = options.output_path.clone().filter(|path| !path.is_empty()).map(PathBuf::from);
        if is_command && log_samples && path.is_none() {
            let flag = if predict_only { "predict_only" } else { "log_samples" };
            let diagnostic = Diagnostic::new(format!("`--{flag}` needs a folder for the sample records"));
            bail!(diagnostic.hint("Set it with `--output_path`"));
        }
        let of_hub = resolver.dict("hf_hub_log_args");
        let of_hub = of_hub.get_str("output_path").map(|path| PathBuf::from(repr::str(path)));
        let mut path = path.or(of_hub);
        let shard = options.shard;
        if is_command && let Some(shard) = shard {
            path = Some(shard.output_path(path)?);
        }
        let trackers = TrackerSettings::resolve(resolver, log_samples)?;
        if shard.is_some() && !trackers.is_empty() {
            let diagnostic = Diagnostic::new("A shard cannot be logged to an experiment tracker");
            bail!(
                diagnostic
                    .hint("Its scores cover only a part of the documents; log the merged results instead")
            );
        }
        let options = &resolver.options;
        Ok(Self {
            path,
            log_samples,
            is_temporary: false,
            write_out: options.write_out.unwrap_or_default(),
            show_config: options.show_config.unwrap_or_default(),
            format: options.format.unwrap_or_default(),
            progress: options.progress.unwrap_or_default(),
            // The variable is equivalent to the flag.
            quiet: options.quiet.unwrap_or_default() || environment::only_warnings(),
            log: match &options.verbosity {
                Some(level) => level.0.eq_ignore_ascii_case("DEBUG"),
                None => environment::wants_log(),
            },
            view: options.view.unwrap_or_default(),
            prints_scores: true,
            trackers,
        })
    }
}
