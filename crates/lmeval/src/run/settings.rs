//! What a run is to do: flags over a file of settings over defaults, checked.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use lmeval_core::{Dialect, secrets};
use lmeval_engine::ChatTemplateChoice;
use lmeval_pycompat::{Dict, Value, repr};

use crate::cli::LibraryArgs;
use crate::environment;
use crate::run::arguments::{Format, ProgressMode, RunArgs};
use crate::run::config_file::ConfigFile;
use crate::run::given::given;
use crate::run::layers::Layers;
use crate::run::no_effect::cache_requests;
use crate::run::{dict_option, samples, seed};

/// Reference: results of 0.4 say so wherever a model runs.
pub(crate) const DEFAULT_DEVICE: &str = "cuda:0";

/// The tasks of a run that names none.
const DEMONSTRATION: &str = "demo_all";

/// The model of a run that names none.
const SMALL_MODEL: &str = "ngram";

/// Everything that a run needs to know.
#[derive(Debug)]
pub(crate) struct RunSettings {
    /// All settings by name, as the record of the run shows them.
    pub record: Dict,
    /// Whether they come from a file.
    pub from_file: bool,
    /// What the person at the terminal should know.
    pub notes: Vec<String>,
    pub model: String,
    pub model_args: Dict,
    pub tasks: Vec<String>,
    pub num_fewshot: Option<i64>,
    pub repeats: Option<usize>,
    pub batch_size: Value,
    pub max_batch_size: Option<i64>,
    /// The device that was named, and the one that counts where none is.
    pub device: Option<String>,
    pub default_device: Option<&'static str>,
    pub limit: Value,
    pub samples: Option<Dict>,
    pub use_cache: Option<String>,
    pub check_integrity: bool,
    pub write_out: bool,
    pub log_samples: bool,
    pub output_path: Option<PathBuf>,
    pub predict_only: bool,
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
    pub format: Format,
}

impl RunSettings {
    /// The device, named or not.
    pub(crate) fn device(&self) -> Option<&str> {
        self.device.as_deref().or(self.default_device)
    }

    /// Puts flags, file and defaults together, and checks them.
    pub(crate) fn resolve(arguments: &RunArgs) -> Result<Self> {
        let given = given(arguments)?;
        let file = arguments.config.as_ref().map(|path| ConfigFile::read(Path::new(path))).transpose()?;
        let mut merged = Dict::new();
        if let Some(file) = &file {
            merged.update(&file.dict);
        }
        merged.update(&given.dict);
        let mut notes = given.notes;
        if file.is_some() {
            note_overrides(&given.dict, &mut notes);
        }
        Layers { merged, given: given.dict, file }.settle(notes)
    }
}

/// Settings whose values may be part of prompts and answers: no secrets are learnt from them.
pub(crate) const DATA_SETTINGS: [&str; 2] = ["gen_kwargs", "metadata"];

fn note_overrides(given: &Dict, notes: &mut Vec<String>) {
    let names: Vec<&str> = given.keys().filter_map(Value::as_str).filter(|name| *name != "config").collect();
    if !names.is_empty() {
        notes.push(format!("Flags win over the file: `{}`", names.join("`, `")));
    }
}

impl Layers {
    fn settle(mut self, mut notes: Vec<String>) -> Result<RunSettings> {
        for name in [
            "model_args",
            "gen_kwargs",
            "metadata",
            "wandb_args",
            "wandb_config_args",
            "hf_hub_log_args",
            "trackio_args",
        ] {
            let dict = Value::from(self.dict(name)?);
            // What prompts and generations are made of is data, whatever its names end in.
            if !DATA_SETTINGS.contains(&name) {
                secrets::learn(&dict);
            }
            self.merged.insert(name, dict);
        }
        let (model, tasks) = self.model_and_tasks(&mut notes)?;
        let limit = self.limit(&mut notes)?;
        let predict_only = self.flag("predict_only")?;
        let log_samples = self.flag("log_samples")? || predict_only;
        let output_path = self.text("output_path")?.filter(|path| !path.is_empty()).map(PathBuf::from);
        if log_samples && output_path.is_none() {
            let flag = if predict_only { "predict_only" } else { "log_samples" };
            bail!("`--{flag}` needs a place for the records\nhint: Give one with `--output_path`");
        }
        let of_hub =
            self.dict("hf_hub_log_args")?.get_str("output_path").map(|path| PathBuf::from(repr::str(path)));
        let output_path = output_path.or(of_hub);
        let apply_chat_template = self.chat_template(&mut notes)?;
        let fewshot_as_multiturn = self.multiturn(apply_chat_template.is_on())?;
        let chosen = self.value("samples");
        if chosen.is_truthy() && !limit.is_none() {
            bail!("`--samples` and `--limit` exclude each other");
        }
        let samples = samples::resolve(&chosen)?;
        let mut model_args = self.dict("model_args")?;
        let (batch_size, max_batch_size, device) = self.batches(&mut model_args)?;
        let mut metadata = model_args.clone();
        metadata.update(&self.dict("metadata")?);
        let trust_remote_code = self.flag("trust_remote_code")?;
        if trust_remote_code {
            model_args.insert("trust_remote_code", true);
        }
        let seeds = self.seeds(&mut notes)?;
        let gen_kwargs = self.dict("gen_kwargs")?;
        if !gen_kwargs.is_empty() {
            notes.push(format!(
                "`--gen_kwargs` replaces settings of tasks: {}",
                dict_option::shown(&gen_kwargs)
            ));
        }
        self.note_no_effect(&mut notes)?;
        let settings = RunSettings {
            record: Dict::new(),
            from_file: self.file.is_some(),
            notes,
            model,
            tasks,
            num_fewshot: self.count("num_fewshot")?.and_then(|count| i64::try_from(count).ok()),
            repeats: self.count("repeats")?,
            batch_size,
            max_batch_size,
            device,
            default_device: Some(DEFAULT_DEVICE),
            limit,
            use_cache: self.text("use_cache")?,
            check_integrity: self.flag("check_integrity")?,
            write_out: self.flag("write_out")?,
            log_samples,
            output_path,
            predict_only,
            system_instruction: self.text("system_instruction")?,
            apply_chat_template,
            fewshot_as_multiturn,
            show_config: self.flag("show_config")?,
            library: self.library()?,
            python: self.text("python")?.map(PathBuf::from),
            plugins: self.plugins()?,
            gen_kwargs,
            seeds,
            trust_remote_code,
            confirm_run_unsafe_code: self.flag("confirm_run_unsafe_code")?,
            dialect: self.dialect()?,
            bootstrap_iters: self.bootstrap_iters()?,
            fresh: self.flag("fresh")?,
            max_failures: self.count("max_failures")?,
            progress: self.choice("progress")?,
            quiet: self.flag("quiet")?,
            format: self.choice("format")?,
            samples,
            model_args,
            metadata,
        };
        Ok(RunSettings { record: self.record(&settings), ..settings })
    }

    /// The settings as the record shows them: what was given, and in its place what it came to.
    fn record(&self, settings: &RunSettings) -> Dict {
        let mut record = self.merged.clone();
        let text = |text: &str| Value::str(text);
        record.insert("model", settings.model.as_str());
        record.insert("model_args", settings.model_args.clone());
        record.insert("tasks", Value::list(settings.tasks.iter().map(|task| text(task))));
        record.insert("batch_size", settings.batch_size.clone());
        record.insert("samples", settings.samples.clone().map_or(Value::None, Value::from));
        record.insert("cache_requests", cache_requests(&self.value("cache_requests")));
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

    fn model_and_tasks(&self, notes: &mut Vec<String>) -> Result<(String, Vec<String>)> {
        let model = match self.text("model")? {
            Some(model) => model,
            // Arguments without a name are meant for the model that other releases take then.
            None if !self.dict("model_args")?.is_empty() => "hf".to_owned(),
            None => {
                notes.push(format!(
                    "No `--model` is given: `{SMALL_MODEL}`, a small model for trying things out"
                ));
                SMALL_MODEL.to_owned()
            }
        };
        let tasks: Vec<String> = match self.merged.get_str("tasks") {
            None => {
                notes.push(format!("No `--tasks` are given: `{DEMONSTRATION}`, the built-in demonstration"));
                vec![DEMONSTRATION.to_owned()]
            }
            Some(Value::Str(words)) => split(words),
            Some(Value::List(items)) => {
                let words = items.iter().map(|item| item.as_str().map(split));
                let words: Option<Vec<Vec<String>>> = words.collect();
                words.ok_or_else(|| self.wrong("tasks", "a list of names"))?.concat()
            }
            Some(_) => return Err(self.wrong("tasks", "a list of names")),
        };
        if tasks.is_empty() {
            bail!(
                "There are no tasks to evaluate\nhint: Name some with `--tasks`; `lm-eval ls tasks` shows them"
            );
        }
        Ok((model, tasks))
    }

    fn limit(&self, notes: &mut Vec<String>) -> Result<Value> {
        let limit = self.value("limit");
        let Some(number) = self.number("limit")? else { return Ok(Value::None) };
        if number <= 0.0 || number.is_nan() {
            bail!(
                "`--limit` leaves no documents\nhint: Give a number of documents, or a share of them below 1"
            );
        }
        notes.push(
            "`--limit` is for trying things out: scores of a part of the documents are no results".to_owned(),
        );
        Ok(if limit.as_str().is_some() { Value::Float(number) } else { limit })
    }

    fn chat_template(&self, notes: &mut Vec<String>) -> Result<ChatTemplateChoice> {
        Ok(match self.value("apply_chat_template") {
            Value::None | Value::Bool(false) => ChatTemplateChoice::Off,
            Value::Bool(true) => ChatTemplateChoice::Default,
            Value::Str(name) if name.is_empty() => ChatTemplateChoice::Off,
            Value::Str(name) if name.eq_ignore_ascii_case("true") => ChatTemplateChoice::Default,
            Value::Str(name) if name.eq_ignore_ascii_case("false") => {
                notes.push(format!(
                    "`--apply_chat_template {name}` turns the chat template on, as in other releases; leave it out to turn it off"
                ));
                ChatTemplateChoice::Default
            }
            Value::Str(name) => ChatTemplateChoice::Named(name.to_string()),
            _ => return Err(self.wrong("apply_chat_template", "true, false or the name of a template")),
        })
    }

    /// Whether examples are turns; in plain text, nobody has to say.
    fn multiturn(&self, chat: bool) -> Result<Option<bool>> {
        let given = match self.value("fewshot_as_multiturn") {
            Value::None => None,
            _ => Some(self.flag("fewshot_as_multiturn")?),
        };
        if given == Some(true) && !chat {
            bail!("`--fewshot_as_multiturn` needs `--apply_chat_template`");
        }
        Ok(given.or(chat.then_some(true)))
    }

    /// Batch size and device, which may also stand among the arguments of the model.
    fn batches(&self, model_args: &mut Dict) -> Result<(Value, Option<i64>, Option<String>)> {
        let mut take = |name: &str| -> Result<Value> {
            let given = self.value(name);
            match model_args.remove_str(name) {
                Some(_) if !given.is_none() => {
                    bail!("`{name}` is given twice: as `--{name}` and in `--model_args`")
                }
                Some(value) => Ok(value),
                None => Ok(given),
            }
        };
        let batch_size = take("batch_size")?;
        let max_batch_size = take("max_batch_size")?;
        let device = take("device")?;
        let batch_size = match batch_size {
            Value::None => Value::Int(1),
            size @ (Value::Int(_) | Value::Str(_)) => size,
            _ => return Err(self.wrong("batch_size", "a number or a text such as `auto`")),
        };
        let max_batch_size = match max_batch_size {
            Value::None => None,
            Value::Int(most) => Some(most),
            _ => return Err(self.wrong("max_batch_size", "a whole number")),
        };
        let device = if device.is_none() { None } else { Some(repr::str(&device)) };
        Ok((batch_size, max_batch_size, device))
    }

    fn seeds(&self, notes: &mut Vec<String>) -> Result<seed::Seeds> {
        let Some(value) = self.merged.get_str("seed") else { return Ok(seed::DEFAULT) };
        let given =
            seed::from_value(value).map_err(|message| self.located("seed", format!("`seed`: {message}")))?;
        if given.filled {
            notes.push("`seed` gives three seeds; that of the few-shot examples stays 1234".to_owned());
        }
        Ok(given.seeds)
    }

    fn library(&self) -> Result<LibraryArgs> {
        let include_path = match self.value("include_path") {
            Value::None => Vec::new(),
            Value::Str(folder) => vec![PathBuf::from(&*folder)],
            Value::List(folders) => {
                let folders: Option<Vec<PathBuf>> =
                    folders.iter().map(|folder| folder.as_str().map(PathBuf::from)).collect();
                folders.ok_or_else(|| self.wrong("include_path", "a folder or a list of folders"))?
            }
            _ => return Err(self.wrong("include_path", "a folder or a list of folders")),
        };
        let mut library = self.text("library")?;
        let defaults = self.merged.get_str("include_defaults").is_none_or(Value::is_truthy);
        if library.is_none() && !defaults {
            library = Some("none".to_owned());
        }
        Ok(LibraryArgs { include_path, library })
    }

    fn plugins(&self) -> Result<Vec<String>> {
        match self.value("plugins") {
            Value::None => Ok(Vec::new()),
            Value::Str(plugin) => Ok(vec![plugin.to_string()]),
            Value::List(plugins) => {
                let plugins = plugins.iter().map(|plugin| plugin.as_str().map(str::to_owned));
                plugins
                    .collect::<Option<_>>()
                    .ok_or_else(|| self.wrong("plugins", "a module or a list of modules"))
            }
            _ => Err(self.wrong("plugins", "a module or a list of modules")),
        }
    }

    fn dialect(&self) -> Result<Dialect> {
        let name = match self.value("compat") {
            Value::None => return environment::dialect(),
            // `compat: 0.4` in a file is a number.
            other => repr::str(&other),
        };
        name.parse().map_err(|error| self.located("compat", format!("{error}")))
    }

    fn bootstrap_iters(&self) -> Result<i64> {
        match self.merged.get_str("bootstrap_iters") {
            None => Ok(100_000),
            // Reference: null draws none.
            Some(_) => Ok(self.integer("bootstrap_iters")?.unwrap_or(0)),
        }
    }
}

/// The names between commas, without blanks around them.
fn split(words: &str) -> Vec<String> {
    let names = words.split(',').map(lmeval_pycompat::strings::strip);
    names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
}
