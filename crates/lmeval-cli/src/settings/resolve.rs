//! Resolves the combined layers into checked settings.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, anyhow};
use lmeval_claims::expect::Expectations;
use lmeval_claims::recipe::Recipe;
use lmeval_core::{Dialect, secrets};
use lmeval_pycompat::{Dict, Value};

use super::answers::AnswerGroup;
use super::config_file::ConfigFile;
use super::documents::DocumentGroup;
use super::expect;
use super::kinds::{Compat, Count};
use super::layer::{InvalidSetting, Layer};
use super::locked::{self, Locked};
use super::model::ModelGroup;
use super::no_effect::{self, CacheRequests};
use super::options::{DictArgs, LibraryArgs, Options, PythonArgs, VARIABLES};
use super::output::OutputGroup;
use super::prompts::PromptGroup;
use super::record::given;
use super::scoring::ScoringGroup;
use super::{recipe, seed};
use crate::run::verdicts::Reproduction;

/// The resolved settings of a run. Each group resolves its own fields.
#[derive(Clone, Debug)]
pub(crate) struct RunSettings {
    /// All settings by name, as in the record of the run.
    pub record: Dict,
    /// The combined layers, in the form of a settings file.
    pub given: Dict,
    /// Whether a settings file was read.
    pub from_file: bool,
    /// Notes and warnings for the user.
    pub notes: Vec<String>,
    pub dialect: Dialect,
    pub model: ModelGroup,
    pub documents: DocumentGroup,
    pub prompts: PromptGroup,
    pub scoring: ScoringGroup,
    pub output: OutputGroup,
    pub answers: AnswerGroup,
    /// Values for every task: the arguments of the model, and those given.
    pub metadata: Dict,
    pub library: LibraryArgs,
    pub python: PythonArgs,
    /// The recipe that the settings come from.
    pub recipe: Option<Arc<Recipe>>,
    /// The lock from which the run must not differ.
    pub locked: Option<Arc<Locked>>,
    /// The scores that are expected.
    pub expect: Option<Arc<Expectations>>,
    /// The claims that the run reproduces.
    pub claims: Option<Arc<Reproduction>>,
}

impl RunSettings {
    /// Settings of the command line: flags over the environment over a file over defaults.
    pub(crate) fn from_flags(flags: &Options) -> Result<Self> {
        let file = flags.config.as_ref().map(|path| ConfigFile::read(Path::new(path))).transpose()?;
        let Layered { options, record, notes } = layered(flags, file.as_ref(), variable)?;
        let mut resolved = Resolver::new(options, Source::CommandLine, notes)?.resolve(record)?;
        resolved.from_file = file.is_some();
        Ok(resolved)
    }

    /// The settings in the form that [`RunSettings::from_stored`] reads, with secrets.
    pub(crate) fn stored(&self) -> Dict {
        let mut stored = self.given.clone();
        if !self.scoring.judges.is_empty() {
            let judges =
                self.scoring.judges.iter().map(|judge| (Value::str(judge.role.as_str()), judge.to_value()));
            stored.insert("judge", Value::from(judges.collect::<Dict>()));
        }
        stored
    }

    /// Settings that [`RunSettings::given`] recorded, below flags. The environment does not apply.
    pub(crate) fn from_stored(stored: &Dict, flags: &Options) -> Result<Self> {
        let invalid = |(name, wrong): InvalidSetting| {
            anyhow!(wrong.message(name, stored.get_str(name).unwrap_or(&Value::None)))
        };
        let options = flags.clone().combine(Options::read("", stored).map_err(invalid)?);
        Resolver::new(options, Source::CommandLine, Vec::new())?.resolve(Dict::new())
    }

    /// Settings of a Python caller, which has filled in the defaults of its functions and warns its user
    /// itself.
    pub(crate) fn from_python(given: &Dict) -> Result<Self> {
        let invalid = |(name, wrong): InvalidSetting| {
            anyhow!(wrong.message(name, given.get_str(name).unwrap_or(&Value::None)))
        };
        let options = over_environment(Options::read("", given).map_err(invalid)?, variable)?;
        let resolved = Resolver::new(options, Source::Python, Vec::new())?.resolve(Dict::new())?;
        Ok(Self { notes: Vec::new(), record: Dict::new(), given: Dict::new(), ..resolved })
    }
}

/// Settings whose values may be part of prompts, answers and messages, so they are not searched for secrets: `tls_key` of
/// `workers` is the name of a file.
pub(super) const DATA_SETTINGS: [&str; 3] = ["gen_kwargs", "metadata", "workers"];

/// The combined layers of a command line.
pub(super) struct Layered {
    pub(super) options: Options,
    record: Dict,
    pub(super) notes: Vec<String>,
}

/// Combines flags over environment variables over a settings file.
pub(super) fn layered(
    flags: &Options,
    file: Option<&ConfigFile>,
    look_up: impl Fn(&str) -> Option<String>,
) -> Result<Layered> {
    let options = over_environment(flags.clone(), look_up)?;
    let (mut of_flags, mut given) = (Dict::new(), Dict::new());
    flags.put("", &mut of_flags);
    options.put("", &mut given);
    let Some(file) = file else { return Ok(Layered { options, record: given, notes: Vec::new() }) };
    let mut notes = Vec::new();
    note_overrides(&of_flags, &mut notes);
    for (name, variable) in VARIABLES {
        if file.dict.contains_str(name) && given.contains_str(name) && !of_flags.contains_str(name) {
            notes.push(format!("`{variable}` overrides `{name}` in the settings file"));
        }
    }
    let mut record = file.dict.clone();
    record.update(&given);
    Ok(Layered { options: options.combine(file.layer(&given)?), record, notes })
}

/// Fills settings that a layer omits from environment variables.
pub(super) fn over_environment(
    mut layer: Options,
    look_up: impl Fn(&str) -> Option<String>,
) -> Result<Options> {
    let mut given = Dict::new();
    layer.put("", &mut given);
    for (name, variable) in VARIABLES.into_iter().filter(|(name, _)| !given.contains_str(name)) {
        let Some(text) = look_up(variable).filter(|text| !text.is_empty()) else { continue };
        let value = Value::from(text);
        let one = Options::read("", &Dict::from_iter([(Value::str(name), value.clone())]));
        let one = one.map_err(|(_, wrong)| anyhow!("`{variable}`: {}", wrong.message(name, &value)))?;
        layer = layer.combine(one);
    }
    Ok(layer)
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The rules named by a flag or else by the environment.
pub(crate) fn dialect(given: Option<&Compat>) -> Result<Dialect> {
    let flags = Options { compat: given.cloned(), ..Options::default() };
    dialect_of(&over_environment(flags, variable)?)
}

fn dialect_of(options: &Options) -> Result<Dialect> {
    let dialect = options.compat.as_ref().map(Compat::dialect).transpose();
    Ok(dialect.map_err(|wrong| anyhow!(wrong.message("compat", &Value::None)))?.unwrap_or_default())
}

fn note_overrides(flags: &Dict, notes: &mut Vec<String>) {
    let names: Vec<&str> = flags.keys().filter_map(Value::as_str).filter(|name| *name != "config").collect();
    if !names.is_empty() {
        notes.push(format!("Flags override the settings file: `{}`", names.join("`, `")));
    }
}

/// Where settings come from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    /// A person at a terminal, who may omit any setting.
    CommandLine,
    /// A Python program, which gives every setting.
    Python,
}

/// The combined layers, from which the groups resolve their settings.
pub(super) struct Resolver {
    pub(super) options: Options,
    pub(super) notes: Vec<String>,
    source: Source,
    /// The options that take a dictionary, by name.
    dicts: Dict,
    recipe: Option<Arc<Recipe>>,
    locked: Option<Arc<Locked>>,
    expect: Option<Arc<Expectations>>,
}

impl Resolver {
    /// Parses the options that take a dictionary.
    fn new(options: Options, source: Source, mut notes: Vec<String>) -> Result<Self> {
        let (options, locked) = locked::below(options)?;
        let (options, recipe) = recipe::below(options)?;
        let (options, expect) = expect::below(options)?;
        let mut dicts = Dict::new();
        for name in DictArgs::names("") {
            let given = options.dicts.get(name);
            let parsed = given.map(|pairs| pairs.dict(name)).transpose()?.unwrap_or_default();
            notes.extend(parsed.notes);
            let dict = Value::from(parsed.dict);
            // These values are data for prompts and generations, or paths, whatever their names end in.
            if !DATA_SETTINGS.contains(&name) {
                secrets::learn(&dict);
            }
            dicts.insert(name, dict);
        }
        Ok(Self { options, notes, source, dicts, recipe, locked, expect })
    }

    /// Whether a person gives the settings, who may omit any.
    pub(super) fn is_command(&self) -> bool {
        self.source == Source::CommandLine
    }

    /// The value of an option that takes a dictionary.
    pub(super) fn dict(&self, name: &str) -> Dict {
        self.dicts.get_str(name).and_then(Value::as_dict).cloned().unwrap_or_default()
    }

    fn resolve(mut self, record: Dict) -> Result<RunSettings> {
        let mut given = given(&self.options, &self.dicts);
        // Its tasks and settings are among those given, and other machines may not have its file.
        given.remove_str("recipe");
        given.remove_str("locked");
        given.remove_str("expect");
        let dialect = dialect_of(&self.options)?;
        let mut model = ModelGroup::resolve(&mut self)?;
        let documents = DocumentGroup::resolve(&mut self)?;
        let prompts = PromptGroup::resolve(&mut self, dialect)?;
        let output = OutputGroup::resolve(&mut self)?;
        let mut metadata = model.args.clone();
        metadata.update(&self.dict("metadata"));
        if model.trust_remote_code {
            model.args.insert("trust_remote_code", true);
        }
        no_effect::note(&self.options, &mut self.notes);
        let without_defaults = self.options.include_defaults.is_some_and(|defaults| !defaults.0);
        let mut settings = RunSettings {
            record: Dict::new(),
            given,
            from_file: false,
            dialect,
            model,
            documents,
            prompts,
            scoring: ScoringGroup::resolve(&self)?,
            output,
            answers: AnswerGroup::resolve(&self)?,
            metadata,
            library: self.options.library.clone().without_defaults(without_defaults),
            python: self.options.python.clone(),
            recipe: self.recipe,
            locked: self.locked,
            expect: self.expect,
            claims: None,
            notes: self.notes,
        };
        settings.record = recorded(record, &self.dicts, &settings, self.options.cache_requests.as_ref());
        Ok(settings)
    }
}

pub(super) fn count(name: &str, given: Option<Count>) -> Result<Option<usize>> {
    given.map(Count::get).transpose().map_err(|wrong| anyhow!(wrong.message(name, &Value::None)))
}

/// The record: settings as given, with resolved values where they differ.
fn recorded(mut record: Dict, dicts: &Dict, settings: &RunSettings, cache: Option<&CacheRequests>) -> Dict {
    record.update(dicts);
    record.insert("model", settings.model.name.as_str());
    record.insert("model_args", settings.model.args.clone());
    record
        .insert("tasks", Value::list(settings.documents.tasks.iter().map(|task| Value::str(task.as_str()))));
    record.insert("batch_size", settings.model.batch_size.clone());
    record.insert("samples", settings.documents.samples.clone().map_or(Value::None, Value::from));
    record.insert("cache_requests", cache.map_or_else(|| Dict::new().into(), CacheRequests::flags));
    record.insert("log_samples", settings.output.log_samples);
    record.insert(
        "fewshot_as_multiturn",
        settings.prompts.fewshot_as_multiturn.map_or(Value::None, Value::Bool),
    );
    record.insert("seed", seed::to_value(&settings.prompts.seeds));
    record.insert("metadata", settings.metadata.clone());
    for (name, default) in [
        ("apply_chat_template", false),
        ("include_defaults", true),
        ("check_integrity", false),
        ("write_out", false),
        ("predict_only", false),
        ("show_config", false),
        ("trust_remote_code", false),
        ("confirm_run_unsafe_code", false),
    ] {
        if !record.contains_str(name) {
            record.insert(name, default);
        }
    }
    record
}
