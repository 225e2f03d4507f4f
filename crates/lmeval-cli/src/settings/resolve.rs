//! Resolves the combined layers into checked settings.

use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail};
use lmeval::Placement;
use lmeval_analysis::threshold::Threshold;
use lmeval_core::{Diagnostic, Dialect, secrets};
use lmeval_engine::ChatTemplateChoice;
use lmeval_pycompat::{Dict, Value, repr};

use super::config_file::ConfigFile;
use super::judges::{self, JudgeBinding};
use super::kinds::{Compat, Count, Number, TaskNames};
use super::layer::{InvalidSetting, Layer};
use super::no_effect::{self, CacheRequests};
use super::options::{Choices, DictArgs, Format, LibraryArgs, Options, ProgressMode, VARIABLES};
use super::record::given;
use super::shard::ShardNumber;
use super::trackers::TrackerSettings;
use super::workers::WorkerSettings;
use super::{dict_option, samples, seed};
use crate::environment;

/// Reference: results of 0.4 record this device wherever a model runs.
pub(super) const DEFAULT_DEVICE: &str = "cuda:0";

/// The tasks evaluated by default.
const DEFAULT_TASKS: &str = "demo_all";

/// The model evaluated by default.
const DEFAULT_MODEL: &str = "ngram";

/// The resolved settings of a run.
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
    pub model: String,
    pub model_args: Dict,
    pub tasks: Vec<String>,
    pub num_fewshot: Option<i64>,
    pub repeats: Option<usize>,
    pub batch_size: Value,
    pub max_batch_size: Option<i64>,
    /// The device that was named.
    pub device: Option<String>,
    /// The device reported if none was named.
    pub default_device: Option<&'static str>,
    pub limit: Value,
    pub samples: Option<Dict>,
    /// The part of the documents to evaluate.
    pub shard: Option<ShardNumber>,
    pub use_cache: Option<String>,
    pub check_integrity: bool,
    pub write_out: bool,
    pub log_samples: bool,
    pub output_path: Option<PathBuf>,
    pub predict_only: bool,
    /// How multiple-choice options are compared, if it was set.
    pub choices: Option<Choices>,
    pub system_instruction: Option<String>,
    pub apply_chat_template: ChatTemplateChoice,
    pub fewshot_as_multiturn: Option<bool>,
    pub show_config: bool,
    pub library: LibraryArgs,
    pub python: Option<PathBuf>,
    pub plugins: Vec<String>,
    pub gen_kwargs: Dict,
    pub seeds: seed::Seeds,
    pub trust_remote_code: bool,
    pub confirm_run_unsafe_code: bool,
    pub metadata: Dict,
    pub dialect: Dialect,
    pub bootstrap_iters: i64,
    pub fresh: bool,
    pub max_failures: Option<usize>,
    pub progress: ProgressMode,
    pub quiet: bool,
    /// Whether a log of every request is printed.
    pub log: bool,
    pub view: bool,
    pub format: Format,
    /// Thresholds that scores have to pass.
    pub fail_under: Vec<Threshold>,
    pub trackers: TrackerSettings,
    /// The models that grade answers.
    pub judges: Vec<JudgeBinding>,
    /// The stored run that pairwise judges compare with.
    pub baseline: Option<PathBuf>,
    /// The file with the prices of tokens.
    pub prices: Option<PathBuf>,
    /// Workers on other machines, if they compute the model.
    pub workers: Option<WorkerSettings>,
}

impl RunSettings {
    /// The named device, or else the default one.
    pub(crate) fn device(&self) -> Option<&str> {
        self.device.as_deref().or(self.default_device)
    }

    /// Settings of the command line: flags over the environment over a file over defaults.
    pub(crate) fn from_flags(flags: &Options) -> Result<Self> {
        let file = flags.config.as_ref().map(|path| ConfigFile::read(Path::new(path))).transpose()?;
        let Layered { options, record, notes } = layered(flags, file.as_ref(), variable)?;
        let mut resolved = Resolver { options, source: Source::CommandLine, notes }.resolve(record)?;
        resolved.from_file = file.is_some();
        Ok(resolved)
    }

    /// The settings in the form that [`RunSettings::from_stored`] reads, with secrets.
    pub(crate) fn stored(&self) -> Dict {
        let mut stored = self.given.clone();
        if !self.judges.is_empty() {
            let judges = self.judges.iter().map(|judge| (Value::str(judge.role.as_str()), judge.to_value()));
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
        Resolver { options, source: Source::CommandLine, notes: Vec::new() }.resolve(Dict::new())
    }

    /// Settings of a Python caller, which has filled in the defaults of its functions and warns its user
    /// itself.
    pub(crate) fn from_python(given: &Dict) -> Result<Self> {
        let invalid = |(name, wrong): InvalidSetting| {
            anyhow!(wrong.message(name, given.get_str(name).unwrap_or(&Value::None)))
        };
        let options = over_environment(Options::read("", given).map_err(invalid)?, variable)?;
        let resolved = Resolver { options, source: Source::Python, notes: Vec::new() }.resolve(Dict::new())?;
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

/// Resolves combined layers.
struct Resolver {
    options: Options,
    source: Source,
    notes: Vec<String>,
}

impl Resolver {
    fn resolve(mut self, record: Dict) -> Result<RunSettings> {
        let is_command = self.source == Source::CommandLine;
        let dicts = self.dicts()?;
        let dict = |name: &str| dicts.get_str(name).and_then(Value::as_dict).cloned().unwrap_or_default();
        let given = given(&self.options, &dicts);
        let (model, tasks) = self.model_and_tasks(!dict("model_args").is_empty())?;
        let limit = self.limit()?;
        let options = &self.options;
        let predict_only = options.predict_only.unwrap_or_default();
        let log_samples = options.log_samples.unwrap_or_default() || predict_only;
        let output_path = options.output_path.clone().filter(|path| !path.is_empty()).map(PathBuf::from);
        if is_command && log_samples && output_path.is_none() {
            let flag = if predict_only { "predict_only" } else { "log_samples" };
            let diagnostic = Diagnostic::new(format!("`--{flag}` needs a folder for the sample records"));
            bail!(diagnostic.hint("Set it with `--output_path`"));
        }
        let of_hub =
            dict("hf_hub_log_args").get_str("output_path").map(|path| PathBuf::from(repr::str(path)));
        let mut output_path = output_path.or(of_hub);
        let shard = options.shard;
        if is_command && let Some(shard) = shard {
            output_path = Some(shard.output_path(output_path)?);
        }
        let apply_chat_template = self.chat_template();
        let fewshot_as_multiturn = self.multiturn(apply_chat_template.is_on())?;
        let options = &self.options;
        let chosen = options.samples.clone().unwrap_or_default();
        if chosen.is_truthy() && !limit.is_none() {
            bail!("`--samples` and `--limit` are mutually exclusive");
        }
        let samples = samples::resolve(&chosen)?;
        let mut model_args = dict("model_args");
        let Placement { batch_size, max_batch_size, device } = self.placement(&mut model_args)?;
        let batch_size = batch_size.unwrap_or(Value::Int(1));
        let mut metadata = model_args.clone();
        metadata.update(&dict("metadata"));
        let trust_remote_code = options.trust_remote_code.unwrap_or_default();
        if trust_remote_code {
            model_args.insert("trust_remote_code", true);
        }
        let seeds = self.seeds();
        let gen_kwargs = dict("gen_kwargs");
        if !gen_kwargs.is_empty() {
            self.notes.push(format!(
                "`--gen_kwargs` overrides generation settings of the tasks: {}",
                dict_option::shown(&gen_kwargs)
            ));
        }
        let trackers = TrackerSettings::resolve(dict, log_samples, is_command, &mut self.notes)?;
        let workers = WorkerSettings::resolve(&dict("workers"))?;
        if shard.is_some() && !trackers.is_empty() {
            let diagnostic = Diagnostic::new("A shard cannot be logged to an experiment tracker");
            bail!(
                diagnostic
                    .hint("Its scores are those of a part of the documents; log the merged results instead")
            );
        }
        let judges = judges::resolve(self.options.judge.as_deref().unwrap_or_default())?;
        no_effect::note(&self.options, &mut self.notes);
        let dialect = dialect_of(&self.options)?;
        if self.options.choices.is_some() && !dialect.choices_on_chat {
            let diagnostic = Diagnostic::new(
                "`--choices` does not exist in the 0.4 line, which refuses these tasks on chat APIs",
            );
            bail!(diagnostic.hint("Drop `--compat 0.4`, or drop `--choices`"));
        }
        let num_fewshot = count("num_fewshot", self.options.num_fewshot)?;
        let repeats = count("repeats", self.options.repeats)?;
        let max_failures = count("max_failures", self.options.max_failures)?;
        let draws = if self.source == Source::Python { 0 } else { 100_000 };
        let bootstrap_iters = self.options.bootstrap_iters.map_or(draws, |draws| draws.0);
        let Options { library, python, include_defaults, .. } = self.options.clone();
        let options = self.options;
        let mut settings = RunSettings {
            record: Dict::new(),
            given,
            from_file: false,
            notes: self.notes,
            model,
            tasks,
            num_fewshot: num_fewshot.and_then(|count| i64::try_from(count).ok()),
            repeats,
            batch_size,
            max_batch_size,
            device,
            default_device: is_command.then_some(DEFAULT_DEVICE),
            limit,
            shard,
            use_cache: options.use_cache,
            check_integrity: options.check_integrity.unwrap_or_default(),
            write_out: options.write_out.unwrap_or_default(),
            log_samples,
            output_path,
            predict_only,
            choices: options.choices,
            system_instruction: options.system_instruction,
            apply_chat_template,
            fewshot_as_multiturn,
            show_config: options.show_config.unwrap_or_default(),
            library: library.without_defaults(include_defaults.is_some_and(|defaults| !defaults.0)),
            python: python.python,
            plugins: python.plugins.unwrap_or_default(),
            gen_kwargs,
            seeds,
            trust_remote_code,
            confirm_run_unsafe_code: options.confirm_run_unsafe_code.unwrap_or_default(),
            dialect,
            bootstrap_iters,
            fresh: options.fresh.unwrap_or_default(),
            max_failures,
            progress: options.progress.unwrap_or_default(),
            view: options.view.unwrap_or_default(),
            // The variable is equivalent to the flag.
            quiet: options.quiet.unwrap_or_default() || environment::only_warnings(),
            log: match &options.verbosity {
                Some(level) => level.0.eq_ignore_ascii_case("DEBUG"),
                None => environment::wants_log(),
            },
            format: options.format.unwrap_or_default(),
            fail_under: options.fail_under.into_iter().flatten().map(|given| given.0).collect(),
            trackers,
            judges,
            baseline: options.baseline,
            prices: options.prices,
            workers,
            samples,
            model_args,
            metadata,
        };
        settings.record = recorded(record, &dicts, &settings, options.cache_requests.as_ref());
        Ok(settings)
    }

    /// Parses the options that take a dictionary.
    fn dicts(&mut self) -> Result<Dict> {
        let mut dicts = Dict::new();
        for name in DictArgs::names("") {
            let given = self.options.dicts.get(name);
            let parsed = given.map(|pairs| pairs.dict(name)).transpose()?.unwrap_or_default();
            self.notes.extend(parsed.notes);
            let dict = Value::from(parsed.dict);
            // These values are data for prompts and generations, or paths, whatever their names end in.
            if !DATA_SETTINGS.contains(&name) {
                secrets::learn(&dict);
            }
            dicts.insert(name, dict);
        }
        Ok(dicts)
    }

    fn model_and_tasks(&mut self, has_arguments: bool) -> Result<(String, Vec<String>)> {
        let model = self.options.model.clone();
        let tasks =
            self.options.tasks.as_ref().map(|words| words.iter().flat_map(TaskNames::split).collect());
        if self.source != Source::CommandLine {
            return Ok((model.unwrap_or_default(), tasks.unwrap_or_default()));
        }
        let model = match model {
            Some(model) => model,
            // Reference: the default model if there are arguments for one.
            None if has_arguments => "hf".to_owned(),
            None => {
                self.notes.push(format!(
                    "No `--model` given: using `{DEFAULT_MODEL}`, a small model for trying things out"
                ));
                DEFAULT_MODEL.to_owned()
            }
        };
        let tasks: Vec<String> = tasks.unwrap_or_else(|| {
            self.notes.push(format!("No `--tasks` given: using `{DEFAULT_TASKS}`, the built-in demo"));
            vec![DEFAULT_TASKS.to_owned()]
        });
        if tasks.is_empty() {
            let diagnostic = Diagnostic::new("No tasks to evaluate");
            bail!(diagnostic.hint("Choose tasks with `--tasks`; `lm-eval ls tasks` lists them"));
        }
        Ok((model, tasks))
    }

    fn limit(&mut self) -> Result<Value> {
        let Some(Number(limit)) = self.options.limit.clone() else { return Ok(Value::None) };
        if limit.to_f64().is_none_or(|number| number <= 0.0 || number.is_nan()) {
            let name = if self.source == Source::CommandLine { "--limit" } else { "limit" };
            let diagnostic = Diagnostic::new(format!("`{name}` must be greater than 0"));
            bail!(diagnostic.hint("Give a number of documents, or a fraction below 1"));
        }
        self.notes.push(
            "`--limit` is for testing. Scores on a subset are not comparable with full runs.".to_owned(),
        );
        Ok(limit)
    }

    fn chat_template(&mut self) -> ChatTemplateChoice {
        let is_word =
            |name: &str, word: &str| self.source == Source::CommandLine && name.eq_ignore_ascii_case(word);
        match &self.options.apply_chat_template {
            None => ChatTemplateChoice::Off,
            Some(None) => ChatTemplateChoice::Default,
            Some(Some(name)) if name.is_empty() => ChatTemplateChoice::Off,
            Some(Some(name)) if is_word(name, "true") => ChatTemplateChoice::Default,
            Some(Some(name)) if is_word(name, "false") => {
                self.notes.push(format!(
                    "`--apply_chat_template {name}` turns the chat template on, as in other releases; omit the flag to turn it off"
                ));
                ChatTemplateChoice::Default
            }
            Some(Some(name)) => ChatTemplateChoice::Named(name.clone()),
        }
    }

    /// Whether few-shot examples are turns; only applies to chat prompts.
    fn multiturn(&self, chat: bool) -> Result<Option<bool>> {
        let given = self.options.fewshot_as_multiturn;
        if self.source == Source::Python {
            return Ok(Some(given.unwrap_or_default()));
        }
        if given == Some(true) && !chat {
            bail!("`--fewshot_as_multiturn` needs `--apply_chat_template`");
        }
        Ok(given.or(chat.then_some(true)))
    }

    /// Batch size and device, which the command line also accepts in `--model_args`.
    fn placement(&self, model_args: &mut Dict) -> Result<Placement> {
        let Options { batch_size, max_batch_size, device, .. } = self.options.clone();
        let given = Placement {
            batch_size: batch_size.map(|size| size.0),
            max_batch_size,
            device: device.map(|device| device.0),
        };
        if self.source == Source::Python {
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

    fn seeds(&mut self) -> seed::Seeds {
        let Some(given) = self.options.seed else {
            return if self.source == Source::Python { [None; 4] } else { seed::DEFAULT };
        };
        if given.filled {
            self.notes.push("`--seed` has three values; the few-shot seed stays 1234".to_owned());
        }
        given.seeds
    }
}

fn count(name: &str, given: Option<Count>) -> Result<Option<usize>> {
    given.map(Count::get).transpose().map_err(|wrong| anyhow!(wrong.message(name, &Value::None)))
}

/// The record: settings as given, with resolved values where they differ.
fn recorded(mut record: Dict, dicts: &Dict, settings: &RunSettings, cache: Option<&CacheRequests>) -> Dict {
    record.update(dicts);
    record.insert("model", settings.model.as_str());
    record.insert("model_args", settings.model_args.clone());
    record.insert("tasks", Value::list(settings.tasks.iter().map(|task| Value::str(task.as_str()))));
    record.insert("batch_size", settings.batch_size.clone());
    record.insert("samples", settings.samples.clone().map_or(Value::None, Value::from));
    record.insert("cache_requests", cache.map_or_else(|| Dict::new().into(), CacheRequests::flags));
    record.insert("log_samples", settings.log_samples);
    record.insert("fewshot_as_multiturn", settings.fewshot_as_multiturn.map_or(Value::None, Value::Bool));
    record.insert("seed", seed::to_value(&settings.seeds));
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
