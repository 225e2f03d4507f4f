//! Names registered by Python code: in plug-ins, and in the modules next to a task file.

use std::path::Path;

use lmeval_core::Diagnose as _;
use lmeval_scoring::filters::{FilterFunction, FilterSpec};
use lmeval_scoring::registry::{
    Kind, NameLookup, NameScope, Registered, Registry, SamplerKind, default_metrics,
};
use lmeval_scoring::scorers::{MetricSpec, Reference, ScoreError, ScorerDefaults, ScoringSources, Setting};
use lmeval_scoring::{Host, HostError};

use super::modules::{ModuleSources, has_modules};
use super::specs::metric_spec;
use super::uses::{ComputedBy, ScoringUse, UseKind, scoring_uses};
use crate::Task;
use crate::config::ConfigPath;
use crate::error::{Error, ErrorKind, Location};
use crate::source::folder_of;

/// The scoring sources of one task: the given ones, plus what Python code registers under the names that the task uses.
pub(super) struct TaskSources {
    pub(super) sources: ScoringSources,
    /// The names that Python code registers, by kind; filled if a lookup failed.
    pub(super) known: Vec<(&'static str, Vec<String>)>,
}

/// Looks up all names of a task that are not built in, and built-in ones that plug-ins or the task's folder may
/// replace.
pub(super) fn resolve(task: &Task, given: &ScoringSources) -> Result<TaskSources, Error> {
    let found = TaskSources { sources: given.clone(), known: Vec::new() };
    let mut lookups = Lookups { task, given, found, modules: ModuleSources::default() };
    if let Some(scorer) = &task.config.scorer {
        let known =
            if given.registry.scorers.get(&scorer.kind).is_some() { Known::BuiltIn } else { Known::No };
        if let Some(registered) = lookups.find("scorer", &scorer.kind, known, &scorer.path)? {
            lookups.scorer(&scorer.kind, &registered, &scorer.path)?;
        }
    }
    for used in scoring_uses(&task.config, given) {
        lookups.used(&used)?;
    }
    for pipeline in &task.config.filter_list {
        for metric in &pipeline.metric_list {
            lookups.parts(&metric_spec(metric), &metric.path)?;
        }
    }
    if task.config.scorer.is_none() {
        lookups.defaults()?;
    }
    Ok(lookups.found)
}

/// The status of a name before running Python.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Known {
    /// Registered in the binary.
    BuiltIn,
    /// Any name is valid, since the task computes values under it.
    Free,
    /// Not known.
    No,
}

struct Lookups<'a> {
    task: &'a Task,
    given: &'a ScoringSources,
    found: TaskSources,
    modules: ModuleSources,
}

impl Lookups<'_> {
    fn used(&mut self, used: &ScoringUse) -> Result<(), Error> {
        let kind = match used.kind {
            UseKind::Filter => "filter",
            UseKind::Metric => "metric",
            UseKind::Aggregation => "aggregation",
            UseKind::Reduction => "reduction",
            UseKind::ProcessResults | UseKind::TaskClass => return Ok(()),
        };
        let known = match &used.by {
            ComputedBy::Function(_) => return Ok(()),
            ComputedBy::Native => Known::BuiltIn,
            ComputedBy::ProcessResults | ComputedBy::Scorer if self.is_metric(&used.name) => Known::BuiltIn,
            ComputedBy::ProcessResults | ComputedBy::Scorer => Known::Free,
            ComputedBy::TaskCode | ComputedBy::Evaluate | ComputedBy::Nobody => Known::No,
        };
        if self.find(kind, &used.name, known, &used.path)?.is_none() && used.by == ComputedBy::Evaluate {
            self.evaluate(&used.name, &used.path)?;
        }
        Ok(())
    }

    /// Looks up a metric of Python's `evaluate` package. If the package or the metric's files are missing, the metric
    /// stays unknown, which is an error with a hint.
    fn evaluate(&mut self, name: &str, path: &ConfigPath) -> Result<(), Error> {
        let scope = NameScope { folders: Vec::new(), import_utils: false };
        match self.given.host.find_registered("evaluate", name, &scope) {
            Ok(NameLookup::Found(registered)) => {
                self.found.sources.registry.add_python("metric", name, registered);
                Ok(())
            }
            Ok(NameLookup::Unknown(_)) | Err(HostError::NeedsPython { .. }) => Ok(()),
            Err(error) => Err(self.failed("metric", name, path, error)),
        }
    }

    /// Looks up the filter and the metrics of pipelines that name none: plug-ins and the calling program may have replaced them.
    fn defaults(&mut self) -> Result<(), Error> {
        let pipelines = &self.task.config.filter_list;
        if self.given.dialect.scoring.default_filter_takes_first
            && pipelines.iter().any(|pipeline| pipeline.filter.is_empty())
        {
            self.find_in(
                Vec::new(),
                "filter",
                "take_first",
                Known::BuiltIn,
                &ConfigPath::key("filter_list"),
            )?;
        }
        if pipelines.iter().any(|pipeline| pipeline.metric_list.is_empty()) {
            let path = ConfigPath::key("metric_list");
            for name in default_metrics(self.task.config.output_type) {
                self.find_in(Vec::new(), "metric", name, Known::BuiltIn, &path)?;
                self.parts(&MetricSpec::named(name), &path)?;
            }
        }
        Ok(())
    }

    fn failed(&self, kind: &str, name: &str, path: &ConfigPath, error: HostError) -> Error {
        let message = format!("The {kind} `{name}` cannot be looked up: {}", what_failed(&error));
        let failure = Error::new(ErrorKind::Value, message).at(path.locate(self.task.mapping()));
        let needs_python = matches!(error, HostError::NeedsPython { .. });
        let select = needs_python.then(|| "Select an interpreter with `--python`".to_owned());
        error.hints().into_iter().chain(select).fold(failure, Error::hint).including_cause(error)
    }

    fn is_metric(&self, name: &str) -> bool {
        self.given.registry.metric(name).is_some()
    }

    /// Looks up the aggregation and the reduction that a metric was registered with.
    fn parts(&mut self, spec: &MetricSpec, path: &ConfigPath) -> Result<(), Error> {
        let Reference::Name(name) = &spec.metric else { return Ok(()) };
        let Some(registered) = self.found.sources.registry.metrics.python(name).cloned() else {
            return Ok(());
        };
        for (kind, given) in [("aggregation", &spec.aggregation), ("reduction", &spec.reduction)] {
            if let (Setting::Inherited, Some(part)) = (given, registered.text(kind)) {
                self.part(kind, part, path)?;
            }
        }
        Ok(())
    }

    fn part(&mut self, kind: &'static str, name: &str, path: &ConfigPath) -> Result<(), Error> {
        let is_known = match kind {
            "aggregation" => self.given.registry.aggregations.get(name).is_some(),
            _ => self.given.registry.reductions.get(name).is_some(),
        };
        let known = if is_known { Known::BuiltIn } else { Known::No };
        self.find(kind, name, known, path).map(drop)
    }

    /// Looks up the scorer's own filters and metrics.
    fn scorer(&mut self, name: &str, registered: &Registered, path: &ConfigPath) -> Result<(), Error> {
        let defaults =
            ScorerDefaults::of(name, registered).map_err(|error| located(error, self.task, path))?;
        for (name, record) in defaults.records {
            self.found.sources.registry.add_python("metric", &name, record);
        }
        for FilterSpec { function, .. } in defaults.filters.iter().flatten() {
            if let FilterFunction::Name(name) = function {
                let is_known = self.given.registry.filters.get_rust(name).is_some();
                self.find("filter", name, if is_known { Known::BuiltIn } else { Known::No }, path)?;
            }
        }
        for spec in defaults.metrics.iter().flatten() {
            if let Reference::Name(name) = &spec.metric
                && self.found.sources.registry.metrics.python(name).is_none()
            {
                let known = if self.is_metric(name) { Known::BuiltIn } else { Known::Free };
                self.find("metric", name, known, path)?;
            }
            for (kind, given) in [("aggregation", &spec.aggregation), ("reduction", &spec.reduction)] {
                if let Setting::Given(Reference::Name(name)) = given {
                    self.part(kind, name, path)?;
                }
            }
            self.parts(spec, path)?;
        }
        Ok(())
    }

    /// Looks up what Python code registers under a name; a result takes precedence over a built-in.
    fn find(
        &mut self,
        kind: &'static str,
        name: &str,
        known: Known,
        path: &ConfigPath,
    ) -> Result<Option<Registered>, Error> {
        self.find_in(folders(self.task, path), kind, name, known, path)
    }

    fn find_in(
        &mut self,
        folders: Vec<String>,
        kind: &'static str,
        name: &str,
        known: Known,
        path: &ConfigPath,
    ) -> Result<Option<Registered>, Error> {
        match look_up(&*self.given.host, &mut self.modules, kind, name, known, folders) {
            Ok(NameLookup::Found(registered)) => {
                self.found.sources.registry.add_python(kind, name, registered.clone());
                Ok(Some(registered))
            }
            Ok(NameLookup::Unknown(names)) => {
                if known == Known::No && !names.is_empty() {
                    self.found.known.push((kind, names));
                }
                Ok(None)
            }
            Err(error) => Err(self.failed(kind, name, path, error)),
        }
    }
}

/// Looks up a name that Python code may register, without starting Python if nothing could replace or explain it.
fn look_up(
    host: &dyn Host,
    modules: &mut ModuleSources,
    kind: &str,
    name: &str,
    known: Known,
    mut folders: Vec<String>,
) -> Result<NameLookup, HostError> {
    if known == Known::BuiltIn {
        folders.retain(|folder| modules.register(folder, kind, name));
    }
    let has_modules = folders.iter().any(|folder| has_modules(Path::new(folder)));
    let is_settled = match known {
        Known::BuiltIn => folders.is_empty(),
        Known::Free => !has_modules,
        Known::No => false,
    };
    if is_settled && !host.has_plugins() {
        return Ok(NameLookup::Unknown(Vec::new()));
    }
    match host.find_registered(kind, name, &NameScope { folders, import_utils: known == Known::No }) {
        // The values come from elsewhere, or no module could register the name.
        Err(HostError::NeedsPython { .. }) if known == Known::Free || !has_modules => {
            Ok(NameLookup::Unknown(Vec::new()))
        }
        found => found,
    }
}

/// The registry with the sampler that Python code registers under a name, if any, which then takes precedence.
pub(crate) fn with_sampler(
    task: &Task,
    name: &str,
    registry: &Registry,
    host: &dyn Host,
) -> Result<Registry, HostError> {
    let known = if registry.samplers.get_rust(name).is_some() { Known::BuiltIn } else { Known::No };
    let folders = folders(task, &ConfigPath::key("fewshot_config").then("sampler"));
    let mut registry = registry.clone();
    match look_up(host, &mut ModuleSources::default(), SamplerKind::NAME, name, known, folders)? {
        NameLookup::Found(registered) => registry.add_python(SamplerKind::NAME, name, registered),
        NameLookup::Unknown(_) => {}
    }
    Ok(registry)
}

/// The folders whose modules may register a name: that of the file with the name, then that of the task.
pub(crate) fn folders(task: &Task, path: &ConfigPath) -> Vec<String> {
    let location = path.locate(task.mapping());
    let files = location.as_ref().map(Location::path).into_iter().chain(task.source());
    let mut folders: Vec<String> = Vec::new();
    for folder in files.filter_map(folder_of) {
        let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
        let folder = folder.to_string_lossy().into_owned();
        if !folders.contains(&folder) {
            folders.push(folder);
        }
    }
    folders
}

/// The folders whose modules may register names that the scoring of a task uses.
pub fn module_folders(task: &Task) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for key in ["metric_list", "filter_list", "scorer"] {
        for folder in folders(task, &ConfigPath::key(key)) {
            if !found.contains(&folder) && has_modules(Path::new(&folder)) {
                found.push(folder);
            }
        }
    }
    found
}

fn located(error: ScoreError, task: &Task, path: &ConfigPath) -> Error {
    let located = Error::new(ErrorKind::Value, error.to_string()).at(path.locate(task.mapping()));
    error.hints().into_iter().fold(located, Error::hint).including_cause(error)
}

/// The Python error, without the reference that was being looked up.
fn what_failed(error: &HostError) -> String {
    match error {
        HostError::Failed { message, .. } => message.clone(),
        HostError::NeedsPython { .. } => "Python 3.10 or newer was not found".to_owned(),
        other => other.to_string(),
    }
}

/// A hint that lists the names that Python code registers.
pub(super) fn hint(known: &[(&'static str, Vec<String>)], kind: &str) -> Option<String> {
    let names = known.iter().filter(|(of, _)| *of == kind).flat_map(|(_, names)| names);
    let mut names: Vec<&str> = names.map(String::as_str).collect();
    names.sort_unstable();
    names.dedup();
    (!names.is_empty()).then(|| format!("Python code registers `{}`", names.join("`, `")))
}
