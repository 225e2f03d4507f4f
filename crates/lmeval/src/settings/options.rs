//! The settings of a run: the one list of what can be given.
//!
//! A new setting is a new field of [`Options`], with the kind of its values (`kinds.rs`) as its type: it is then a flag,
//! a key of settings files and an argument of the Python package at once. An environment variable that sets its default
//! is a line in [`VARIABLES`]. What it means is decided in `resolve.rs`.

use std::path::PathBuf;

use clap::builder::{StringValueParser, TypedValueParser};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, ValueEnum};
use lmeval_pycompat::{Dict, Value};

use super::kinds::{
    BatchSize, Compat, Count, Draws, Number, Pairs, Shown, TaskNames, Truthy, choice, integer, name_of, truth,
};
use super::layer::{Layer, Refused, Setting, Wrong, layer};
use super::no_effect::CacheRequests;
use super::{samples, seed};
use crate::environment;

/// The settings that an environment variable gives where neither flags nor a file do.
pub(super) const VARIABLES: [(&str, &str); 1] = [("compat", environment::LM_EVAL_COMPAT)];

layer! {
    /// Every setting of a run, each of which may be left out: flags of `run`, keys of settings files, arguments of the
    /// Python package.
    #[derive(Args, Clone, Debug, Default)]
    #[command(
        args_override_self = true,
        after_help = "Exit status: 0 if every request was answered, 1 if something failed, 2 for a wrong call, 130 if the run was interrupted.\n\nA run that was interrupted goes on when the same command is run again, if it has an --output_path or --use_cache.\n\nExamples:\n  lm-eval run                                                    a small model on the built-in tasks: no network, no GPU\n  lm-eval run --model local-completions --model_args model=NAME,base_url=http://localhost:8000/v1/completions --tasks arc_easy --output_path results\n  lm-eval run --config run.yaml --limit 10\n  lm-eval run --tasks my_task.yaml --model uniform --log_samples --output_path results"
    )]
    pub struct Options {
        /// A YAML file of settings; flags win over it.
        #[arg(short = 'C', long, value_name = "FILE")]
        pub config: Option<String>,

        /// Tasks, groups, tags, patterns, `task@format`, `group::task`, YAML files or a folder of them, separated by commas.
        ///
        /// Without it, the built-in demonstration tasks.
        #[arg(short, long, value_name = "TASKS", num_args = 1.., action = ArgAction::Append)]
        pub tasks: Option<Vec<TaskNames>>,

        /// The back end of the model; without it, `ngram`.
        #[arg(short = 'M', long, value_name = "NAME")]
        pub model: Option<String>,

        /// Options that take `key=value` pairs or JSON.
        #[command(flatten)]
        pub dicts: DictArgs,

        /// How many documents of each task; below 1, which share of them. For trying things out.
        #[arg(short = 'L', long, visible_short_alias = 'n', value_name = "N", value_parser = Number::parse, allow_negative_numbers = true)]
        pub limit: Option<Number>,

        /// Which documents: JSON such as `{"arc_easy": [0, 5]}`, or the path of a JSON file.
        #[arg(short = 'E', long, value_name = "JSON", value_parser = samples::parse)]
        pub samples: Option<Value>,

        /// How many examples stand before each question, over what tasks say.
        #[arg(short = 'f', long = "num_fewshot", alias = "num-fewshot", value_name = "N", value_parser = Count::parse, allow_negative_numbers = true)]
        pub num_fewshot: Option<Count>,

        /// How many answers are generated per document, over what tasks say.
        #[arg(short = 'r', long, value_name = "N", value_parser = Count::parse, allow_negative_numbers = true)]
        pub repeats: Option<Count>,

        /// Requests per call: a number, or what the back end takes, such as `auto`.
        #[arg(short = 'b', long = "batch_size", alias = "batch-size", value_name = "N")]
        pub batch_size: Option<BatchSize>,

        /// The most requests per call where their number is found by trying.
        #[arg(long = "max_batch_size", alias = "max-batch-size", value_name = "N", value_parser = integer, allow_negative_numbers = true)]
        pub max_batch_size: Option<i64>,

        /// The device of a model in this process.
        #[arg(long, value_name = "DEVICE")]
        pub device: Option<Shown>,

        /// Send prompts as conversations, with the model's chat template or the one of this name.
        #[arg(long = "apply_chat_template", alias = "apply-chat-template", value_name = "NAME", num_args = 0..=1)]
        pub apply_chat_template: Option<Option<String>>,

        /// Make each example a turn of the conversation; on by default with a chat template.
        #[arg(long = "fewshot_as_multiturn", alias = "fewshot-as-multiturn", value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", value_parser = truth())]
        pub fewshot_as_multiturn: Option<bool>,

        /// Text before everything else.
        #[arg(long = "system_instruction", alias = "system-instruction", value_name = "TEXT")]
        pub system_instruction: Option<String>,

        /// Seeds: one number, or `python,numpy,torch,few-shot`; `None` for no seed. [default: 0,1234,1234,1234]
        #[arg(long, value_name = "SEEDS", value_parser = seed::parse, allow_hyphen_values = true)]
        pub seed: Option<seed::Given>,

        /// Follow the rules of this line of the reference: `0.5` or `0.4`. [default: LM_EVAL_COMPAT, else 0.5]
        #[arg(long, value_name = "VERSION")]
        pub compat: Option<Compat>,

        /// How often standard errors are drawn where there is no formula; 0 for no standard errors. [default: 100000]
        #[arg(long = "bootstrap_iters", alias = "bootstrap-iters", value_name = "N", value_parser = Draws::parse, allow_negative_numbers = true)]
        pub bootstrap_iters: Option<Draws>,

        /// Further metadata of every task, as JSON.
        #[arg(long, value_name = "JSON", value_parser = Pairs::parse_json)]
        pub metadata: Option<Pairs>,

        /// Allow code that comes with a model; none is ever run here.
        #[arg(long = "trust_remote_code", alias = "trust-remote-code", num_args = 0, default_missing_value = "true")]
        pub trust_remote_code: Option<bool>,

        /// Allow tasks that run code which the model wrote.
        #[arg(long = "confirm_run_unsafe_code", alias = "confirm-run-unsafe-code", num_args = 0, default_missing_value = "true")]
        pub confirm_run_unsafe_code: Option<bool>,

        /// Collect answers without scoring them; implies --log_samples.
        #[arg(short = 'x', long = "predict_only", alias = "predict-only", num_args = 0, default_missing_value = "true")]
        pub predict_only: Option<bool>,

        /// Run the self-tests of tasks; there are none.
        #[arg(long = "check_integrity", alias = "check-integrity", num_args = 0, default_missing_value = "true")]
        pub check_integrity: Option<bool>,

        /// Where results go: a folder, or a name that ends in `.json`.
        #[arg(
            short = 'o',
            long = "output_path",
            alias = "output-path",
            value_name = "PATH",
            help_heading = "Output"
        )]
        pub output_path: Option<String>,

        /// Write a record of every document beside the results.
        #[arg(short = 's', long = "log_samples", alias = "log-samples", help_heading = "Output", num_args = 0, default_missing_value = "true")]
        pub log_samples: Option<bool>,

        /// Show the first prompt of each task.
        #[arg(short = 'w', long = "write_out", alias = "write-out", help_heading = "Output", num_args = 0, default_missing_value = "true")]
        pub write_out: Option<bool>,

        /// Print the whole result object before the table.
        #[arg(long = "show_config", alias = "show-config", help_heading = "Output", num_args = 0, default_missing_value = "true")]
        pub show_config: Option<bool>,

        /// What is printed. [default: markdown]
        #[arg(long, value_enum, value_name = "FORMAT", help_heading = "Output")]
        pub format: Option<Format>,

        /// How progress is shown on standard error. [default: auto]
        #[arg(long, value_enum, value_name = "HOW", help_heading = "Output")]
        pub progress: Option<ProgressMode>,

        /// Print results, warnings and errors alone.
        #[arg(short, long, help_heading = "Output", num_args = 0, default_missing_value = "true")]
        pub quiet: Option<bool>,

        /// Keep answers in this file to share them among runs, instead of beside the results.
        #[arg(
            short = 'c',
            long = "use_cache",
            alias = "use-cache",
            value_name = "PATH",
            help_heading = "Going on"
        )]
        pub use_cache: Option<String>,

        /// Forget the answers of earlier runs and start over.
        #[arg(long, help_heading = "Going on", num_args = 0, default_missing_value = "true")]
        pub fresh: Option<bool>,

        /// End the run when more requests than this have failed for good. [default: any number may fail]
        #[arg(long = "max_failures", alias = "max-failures", value_name = "N", value_parser = Count::parse_natural, help_heading = "Going on")]
        pub max_failures: Option<Count>,

        /// Accepted and without effect: prompts are built faster than they could be read.
        #[arg(long = "cache_requests", alias = "cache-requests", value_name = "HOW", num_args = 0..=1, default_missing_value = "true", value_parser = CacheRequests::words(), help_heading = "Going on")]
        pub cache_requests: Option<CacheRequests>,

        /// Accepted and without effect: see --quiet and --progress.
        #[arg(short, long, value_name = "LEVEL", value_parser = upper(), help_heading = "Output")]
        pub verbosity: Option<Shown>,

        /// Where tasks are looked for.
        #[command(flatten)]
        pub library: LibraryArgs,

        /// What runs functions of tasks.
        #[command(flatten)]
        pub python: PythonArgs,

        /// Whether the default task libraries are used; a key of settings files alone.
        #[arg(skip)]
        pub include_defaults: Option<Truthy>,
    }
}

layer! {
    /// Where task definitions are looked for.
    #[derive(Args, Clone, Debug, Default)]
    #[command(next_help_heading = "Task libraries")]
    pub struct LibraryArgs {
        /// A folder of further task definitions; may be given several times, later ones win.
        #[arg(long = "include_path", alias = "include-path", value_name = "DIR")]
        pub include_path: Option<Vec<PathBuf>>,

        /// Use this library alone instead of the default ones: an installed version, a folder, `builtin` or `none`.
        ///
        /// By default the small built-in library and the installed one (see `lm-eval tasks`) are both there.
        #[arg(long, value_name = "LIBRARY")]
        pub library: Option<String>,
    }
}

layer! {
    /// What runs the Python functions of tasks.
    #[derive(Args, Clone, Debug, Default)]
    #[command(next_help_heading = "Python")]
    pub struct PythonArgs {
        /// The Python that runs functions of tasks; else that of the active virtual environment, else `python3`.
        #[arg(long, value_name = "PATH")]
        pub python: Option<PathBuf>,

        /// A Python module, or a file, that registers metrics, filters, scorers or models; may be given several times.
        #[arg(long, value_name = "MODULE_OR_FILE")]
        pub plugins: Option<Vec<String>>,
    }
}

impl LibraryArgs {
    /// The same, where the default libraries are not wanted.
    pub(super) fn without_defaults(mut self, unwanted: bool) -> Self {
        if unwanted {
            self.library.get_or_insert_with(|| "none".to_owned());
        }
        self
    }
}

/// What is printed on standard output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Tables in Markdown.
    #[default]
    Markdown,
    /// Tables in LaTeX.
    Latex,
    /// The result object.
    Json,
}

/// How progress is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ProgressMode {
    /// A line that changes on a terminal, otherwise a line now and then.
    #[default]
    Auto,
    /// A line now and then.
    Plain,
    /// One JSON object a line, for programs; notes are objects, too.
    Json,
    /// Not at all.
    None,
}

impl Setting for Format {
    fn read(value: &Value) -> Result<Option<Self>, Wrong> {
        choice(value)
    }

    fn to_value(&self) -> Value {
        Value::from(name_of(self))
    }
}

impl Setting for ProgressMode {
    fn read(value: &Value) -> Result<Option<Self>, Wrong> {
        choice(value)
    }

    fn to_value(&self) -> Value {
        Value::from(name_of(self))
    }
}

/// An option that takes a dictionary.
#[derive(Clone, Copy, Debug)]
pub(super) struct DictOption {
    /// Its name.
    pub name: &'static str,
    dashed: &'static str,
    short: Option<char>,
    heading: Option<&'static str>,
    help: &'static str,
}

impl DictOption {
    const fn later(name: &'static str, dashed: &'static str, help: &'static str) -> Self {
        Self { name, dashed, short: None, heading: Some("Logging elsewhere"), help }
    }
}

/// The options that take a dictionary.
pub(super) const DICT_OPTIONS: [DictOption; 6] = [
    DictOption {
        name: "model_args",
        dashed: "model-args",
        short: Some('a'),
        heading: None,
        help: "Arguments of the back end: `key=value,…` or JSON",
    },
    DictOption {
        name: "gen_kwargs",
        dashed: "gen-kwargs",
        short: None,
        heading: None,
        help: "Generation settings, over those of tasks: `key=value,…` or JSON",
    },
    DictOption::later(
        "hf_hub_log_args",
        "hf-hub-log-args",
        "Accepted; pushing results to the hub is not in this version yet",
    ),
    DictOption::later(
        "wandb_args",
        "wandb-args",
        "Accepted; logging to Weights & Biases is not in this version yet",
    ),
    DictOption::later("wandb_config_args", "wandb-config-args", "Accepted; see --wandb_args"),
    DictOption::later(
        "trackio_args",
        "trackio-args",
        "Accepted; logging to Trackio is not in this version yet",
    ),
];

/// The options that take a dictionary, as far as they are given.
#[derive(Clone, Debug, Default)]
pub struct DictArgs(Vec<(&'static str, Pairs)>);

impl DictArgs {
    /// The value of an option.
    pub(super) fn get(&self, name: &str) -> Option<&Pairs> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, pairs)| pairs)
    }

    /// Sets the value of an option.
    pub fn set(&mut self, name: &'static str, dict: Dict) {
        self.0.retain(|(known, _)| *known != name);
        self.0.push((name, Pairs::Value(dict.into())));
    }

    fn made(make: impl Fn(&'static str) -> Result<Option<Pairs>, Refused>) -> Result<Self, Refused> {
        let given =
            DICT_OPTIONS.iter().map(|option| Ok(make(option.name)?.map(|pairs| (option.name, pairs))));
        Ok(Self(given.filter_map(Result::transpose).collect::<Result<_, _>>()?))
    }
}

impl Layer for DictArgs {
    fn names(_: &'static str) -> Vec<&'static str> {
        DICT_OPTIONS.iter().map(|option| option.name).collect()
    }

    fn read(_: &'static str, values: &Dict) -> Result<Self, Refused> {
        Self::made(|name| Layer::read(name, values))
    }

    fn combine(mut self, lower: Self) -> Self {
        let missing = lower.0.into_iter().filter(|(name, _)| self.get(name).is_none());
        let missing: Vec<_> = missing.collect();
        self.0.extend(missing);
        self
    }

    fn put(&self, _: &'static str, values: &mut Dict) {
        for (name, pairs) in &self.0 {
            values.insert(*name, pairs.to_value());
        }
    }
}

impl FromArgMatches for DictArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = DICT_OPTIONS.iter().filter_map(|option| {
            let occurrences = matches.get_occurrences::<String>(option.name)?;
            let words = occurrences.map(|words| words.cloned().collect()).collect();
            Some((option.name, Pairs::Words(words)))
        });
        Ok(Self(given.collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for DictArgs {
    fn augment_args(command: Command) -> Command {
        DICT_OPTIONS.into_iter().fold(command, |command, option| {
            let mut argument = Arg::new(option.name)
                .long(option.name)
                .alias(option.dashed)
                .value_name("ARGS")
                .num_args(1..)
                .action(ArgAction::Append)
                .help(option.help);
            if let Some(heading) = option.heading {
                argument = argument.help_heading(heading);
            }
            if let Some(short) = option.short {
                argument = argument.short(short);
            }
            command.arg(argument)
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

fn upper() -> impl TypedValueParser<Value = Shown> {
    StringValueParser::new().map(|level| Shown(level.to_uppercase()))
}
