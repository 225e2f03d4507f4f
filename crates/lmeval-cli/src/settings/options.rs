//! All settings of a run.
//!
//! To add a setting, add a field to [`Options`] with a value type from `kinds.rs`: it becomes a flag, a key of
//! settings files and an argument of the Python package. To let an environment variable set it, add a line to
//! [`VARIABLES`]. `resolve.rs` decides what it means.

use std::path::PathBuf;

use clap::builder::{StringValueParser, TypedValueParser};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, ValueEnum};
use lmeval::environment::LM_EVAL_COMPAT;
use lmeval::library;
use lmeval_engine::EngineError;
use lmeval_pycompat::{Dict, Value};
use lmeval_tasks::ChoiceMethod;

use super::judges::JudgeSetting;
use super::kinds::{
    BatchSize, Budget, Compat, Count, FailUnder, Iterations, Number, Pairs, Reductions, Stringified,
    TaskNames, Truthy, choice, integer, name_of, truth,
};
use super::layer::{InvalidSetting, InvalidValue, Layer, Setting, layer};
use super::no_effect::CacheRequests;
use super::shard::ShardNumber;
use super::{samples, seed};

/// Settings that an environment variable gives. Variables win over a settings file; flags win over both.
pub(super) const VARIABLES: [(&str, &str); 1] = [("compat", LM_EVAL_COMPAT)];

layer! {
    /// Every setting of a run, all optional: flags of `run`, keys of settings files, arguments of the Python
    /// package.
    #[derive(Args, Clone, Debug, Default)]
    #[command(
        args_override_self = true,
        after_help = "Exit status: 0 if every request was answered, 1 if something failed, 2 for a usage error, 3 if a score is below --fail_under or fails --expect, 4 if there are too few documents to decide --expect, 130 if interrupted.\n\nAn interrupted run with --output_path or --use_cache resumes when the same command is run again.\n\nExamples:\n  lm-eval run                                                    a small model on the built-in tasks: no network, no GPU\n  lm-eval run --model local-completions --model_args model=NAME,base_url=http://localhost:8000/v1/completions --tasks arc_easy --output_path results\n  lm-eval run --config run.yaml --limit 10\n  lm-eval run --tasks my_task.yaml --model uniform --log_samples --output_path results"
    )]
    pub(crate) struct Options {
        /// A YAML settings file; flags and environment variables override it.
        #[arg(short = 'C', long, value_name = "FILE")]
        pub config: Option<String>,

        /// A recipe: tasks and settings that reproduce published scores; flags override it. `lm-eval ls recipes` lists them.
        ///
        /// With --tasks, only these tasks of the recipe.
        #[arg(short = 'R', long, value_name = "NAME|FILE", help_heading = "Tasks and documents")]
        pub recipe: Option<String>,

        /// Refuse to differ from an earlier run: its lock, results file or folder. Unset settings come from the lock.
        #[arg(long, value_name = "LOCK", help_heading = "Tasks and documents")]
        pub locked: Option<PathBuf>,

        /// Tasks, groups, tags, patterns, `task@format`, `group::task`, YAML files or a folder of them, separated by commas.
        ///
        /// A number behind a name is the number of few-shot examples of this task: `arc_challenge:25,hellaswag:10`. Without the flag,
        /// the built-in demo tasks.
        #[arg(short, long, alias = "task", value_name = "TASKS", num_args = 1.., action = ArgAction::Append, help_heading = "Tasks and documents")]
        pub tasks: Option<Vec<TaskNames>>,

        /// The model backend. [default: ngram]
        #[arg(short = 'M', long, value_name = "NAME", help_heading = "Model")]
        pub model: Option<String>,

        /// Options that take `key=value` pairs or JSON.
        #[command(flatten)]
        pub dicts: DictArgs,

        /// Number of documents per task, or a fraction below 1. For testing.
        #[arg(short = 'L', long, visible_short_alias = 'n', value_name = "N", value_parser = Number::parse, allow_negative_numbers = true, help_heading = "Tasks and documents")]
        pub limit: Option<Number>,

        /// Document indices per task: JSON such as `{"arc_easy": [0, 5]}`, or the path of a JSON file.
        #[arg(short = 'E', long, value_name = "JSON", value_parser = samples::parse, help_heading = "Tasks and documents")]
        pub samples: Option<Value>,

        /// Evaluate one of N equal parts of each task's documents, such as `2/8`; `lm-eval merge` joins the parts.
        #[arg(long, value_name = "I/N", help_heading = "Tasks and documents")]
        pub shard: Option<ShardNumber>,

        /// Number of few-shot examples in each prompt; overrides the tasks.
        #[arg(short = 'f', long = "num_fewshot", alias = "num-fewshot", value_name = "N", value_parser = Count::parse, allow_negative_numbers = true, help_heading = "Tasks and documents")]
        pub num_fewshot: Option<Count>,

        /// Number of answers generated per document; overrides the tasks.
        #[arg(short = 'r', long, value_name = "N", value_parser = Count::parse, allow_negative_numbers = true, help_heading = "Tasks and documents")]
        pub repeats: Option<Count>,

        /// Requests per batch: a number, or what the backend accepts, such as `auto`.
        #[arg(short = 'b', long = "batch_size", alias = "batch-size", value_name = "N", help_heading = "Model")]
        pub batch_size: Option<BatchSize>,

        /// Upper limit for an automatic batch size.
        #[arg(long = "max_batch_size", alias = "max-batch-size", value_name = "N", value_parser = integer, allow_negative_numbers = true, help_heading = "Model")]
        pub max_batch_size: Option<i64>,

        /// Device for in-process models, such as `cpu` or `cuda:0`.
        #[arg(long, value_name = "DEVICE", help_heading = "Model")]
        pub device: Option<Stringified>,

        /// How multiple-choice options are compared: `letters` by probability, or `generate` an answer and extract its letter.
        ///
        /// Without it, by the log-likelihood of each option, where the backend returns it. Chat APIs do not: there the default is
        /// `letters`, or `generate` for models that return no log-probabilities or reason first.
        #[arg(long, value_enum, value_name = "METHOD", help_heading = "Prompts")]
        pub choices: Option<Choices>,

        /// Send prompts as chat messages, using the model's chat template or the one with this name.
        #[arg(long = "apply_chat_template", alias = "apply-chat-template", value_name = "NAME", num_args = 0..=1, help_heading = "Prompts")]
        pub apply_chat_template: Option<Option<String>>,

        /// Make each few-shot example a turn of the conversation; on by default with a chat template.
        #[arg(long = "fewshot_as_multiturn", alias = "fewshot-as-multiturn", value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", value_parser = truth(), help_heading = "Prompts")]
        pub fewshot_as_multiturn: Option<bool>,

        /// System prompt, placed before everything else.
        #[arg(long = "system_instruction", alias = "system-instruction", value_name = "TEXT", help_heading = "Prompts")]
        pub system_instruction: Option<String>,

        /// Seeds: one integer, or `python,numpy,torch,few-shot`; `None` for no seed. [default: 0,1234,1234,1234]
        #[arg(long, value_name = "SEEDS", value_parser = seed::parse, allow_hyphen_values = true, help_heading = "Prompts")]
        pub seed: Option<seed::ParsedSeeds>,

        /// Follow the rules of this lm-eval release line: `0.5` or `0.4`. [default: LM_EVAL_COMPAT, else 0.5]
        #[arg(long, value_name = "VERSION", help_heading = "Prompts")]
        pub compat: Option<Compat>,

        /// How the answers to each document become one value: `avg@16,pass@1,maj@16`; overrides the tasks.
        ///
        /// Filters that keep one answer are left out, so that all are scored. `maj@k` scores the answer that most of k agree on.
        #[arg(long, value_name = "NAMES", num_args = 1.., help_heading = "Scoring")]
        pub reductions: Option<Vec<Reductions>>,

        /// Also score the answers at lower token limits: `1k,2k,4k`. The largest one is the limit of the run.
        ///
        /// Each answer is generated once and cut at the lower limits; the same as `lm-eval budget` afterwards.
        #[arg(long, value_name = "TOKENS", num_args = 1.., value_delimiter = ',', value_parser = Budget::parse, help_heading = "Scoring")]
        pub budgets: Option<Vec<Budget>>,

        /// Bootstrap iterations for standard errors without a formula; 0 disables standard errors. [default: 100000]
        #[arg(long = "bootstrap_iters", alias = "bootstrap-iters", value_name = "N", value_parser = Iterations::parse, allow_negative_numbers = true, help_heading = "Scoring")]
        pub bootstrap_iters: Option<Iterations>,

        /// Let a Python model run code that comes with it; built-in backends never do, and refuse checkpoints that need it.
        #[arg(long = "trust_remote_code", alias = "trust-remote-code", num_args = 0, default_missing_value = "true", help_heading = "Model")]
        pub trust_remote_code: Option<bool>,

        /// Allow tasks that execute model-written code.
        #[arg(long = "confirm_run_unsafe_code", alias = "confirm-run-unsafe-code", num_args = 0, default_missing_value = "true", help_heading = "Scoring")]
        pub confirm_run_unsafe_code: Option<bool>,

        /// Collect answers without scoring them; implies --log_samples.
        #[arg(short = 'x', long = "predict_only", alias = "predict-only", num_args = 0, default_missing_value = "true", help_heading = "Scoring")]
        pub predict_only: Option<bool>,

        /// Not supported: tasks have no self-tests. Use `lm-eval validate`.
        #[arg(long = "check_integrity", alias = "check-integrity", num_args = 0, default_missing_value = "true", help_heading = "Scoring")]
        pub check_integrity: Option<bool>,

        /// Fail if a score is below a threshold: `TASK:METRIC=VALUE`; repeatable.
        ///
        /// The metric may name its filter, as in `gsm8k:exact_match,strict-match=0.5`; without one, all filters must pass.
        /// Write `TASK:METRIC<=VALUE` where lower is better. Results are written first; the exit status is then 3.
        #[arg(long = "fail_under", alias = "fail-under", value_name = "THRESHOLD", value_parser = FailUnder::parse, help_heading = "Scoring")]
        pub fail_under: Option<Vec<FailUnder>>,

        /// A YAML file with the scores that are expected: our own format, or the format of vLLM's and SGLang's suites. Its settings are used where none
        /// are given.
        ///
        /// Each score passes, fails or is inconclusive by its sampling error, which the exit status says: 3 if one fails, 4 if one is
        /// inconclusive.
        #[arg(long, value_name = "FILE", help_heading = "Scoring")]
        pub expect: Option<PathBuf>,

        /// A model that grades answers: `ROLE=BACKEND,key=value,…`; repeatable. Tasks with the scorer `judge` name the role.
        ///
        /// Any backend can be a judge. Keys are read from the environment.
        #[arg(long, value_name = "JUDGE", help_heading = "Scoring")]
        pub judge: Option<Vec<JudgeSetting>>,

        /// The stored run whose answers pairwise judges compare with; it needs samples files.
        #[arg(long, value_name = "RUN", help_heading = "Scoring")]
        pub baseline: Option<PathBuf>,

        /// A YAML or JSON file with the prices of a million tokens by model, to compute costs.
        #[arg(long, value_name = "FILE", help_heading = "Scoring")]
        pub prices: Option<PathBuf>,

        /// Where to write results: a folder, or a file name that ends in `.json`.
        #[arg(
            short = 'o',
            long = "output_path",
            aliases = ["output-path", "output"],
            value_name = "PATH",
            help_heading = "Output"
        )]
        pub output_path: Option<String>,

        /// Write one record per document next to the results.
        #[arg(short = 's', long = "log_samples", alias = "log-samples", help_heading = "Output", num_args = 0, default_missing_value = "true")]
        pub log_samples: Option<bool>,

        /// Print the first prompt of each task.
        #[arg(short = 'w', long = "write_out", alias = "write-out", help_heading = "Output", num_args = 0, default_missing_value = "true")]
        pub write_out: Option<bool>,

        /// Print the full result object before the table.
        #[arg(long = "show_config", alias = "show-config", help_heading = "Output", num_args = 0, default_missing_value = "true")]
        pub show_config: Option<bool>,

        /// Output format. [default: table]
        #[arg(long, value_enum, value_name = "FORMAT", help_heading = "Output")]
        pub format: Option<Format>,

        /// How to show progress on standard error. [default: auto]
        #[arg(long, value_enum, value_name = "HOW", help_heading = "Output")]
        pub progress: Option<ProgressMode>,

        /// Print only results, warnings and errors.
        #[arg(short, long, help_heading = "Output", num_args = 0, default_missing_value = "true")]
        pub quiet: Option<bool>,

        /// Follow the run in a browser; the address is printed at the start.
        #[arg(long, help_heading = "Output", num_args = 0, default_missing_value = "true")]
        pub view: Option<bool>,

        /// Save answers in this file, shared between runs, instead of next to the results.
        #[arg(
            short = 'c',
            long = "use_cache",
            alias = "use-cache",
            value_name = "PATH",
            help_heading = "Resuming and caching"
        )]
        pub use_cache: Option<String>,

        /// Discard saved answers and start over.
        #[arg(long, help_heading = "Resuming and caching", num_args = 0, default_missing_value = "true")]
        pub fresh: Option<bool>,

        /// Stop when more than this many requests have failed permanently. [default: unlimited]
        #[arg(long = "max_failures", alias = "max-failures", value_name = "N", value_parser = Count::parse_natural, help_heading = "Resuming and caching")]
        pub max_failures: Option<Count>,

        /// Accepted and ignored: building prompts is faster than reading them from a cache.
        #[arg(long = "cache_requests", alias = "cache-requests", value_name = "HOW", num_args = 0..=1, default_missing_value = "true", value_parser = CacheRequests::words(), help_heading = "Resuming and caching")]
        pub cache_requests: Option<CacheRequests>,

        /// DEBUG prints a log of every request; other levels are accepted and ignored, see --quiet and --progress.
        #[arg(short, long, value_name = "LEVEL", value_parser = upper(), help_heading = "Output")]
        pub verbosity: Option<Stringified>,

        /// Where to look for tasks.
        #[command(flatten)]
        pub library: LibraryArgs,

        /// The Python that runs task functions.
        #[command(flatten)]
        pub python: PythonArgs,

        /// Whether the default task libraries are used. Only in settings files.
        #[arg(skip)]
        pub include_defaults: Option<Truthy>,
    }
}

layer! {
    /// Where to look for task definitions.
    #[derive(Args, Clone, Debug, Default)]
    #[command(next_help_heading = "Task libraries")]
    pub(crate) struct LibraryArgs {
        /// A folder with additional task definitions; repeatable, later ones win.
        #[arg(long = "include_path", alias = "include-path", value_name = "DIR")]
        pub include_path: Option<Vec<PathBuf>>,

        /// Use only this library: an installed version, a folder, `builtin` or `none`.
        ///
        /// By default, the small built-in library and the installed one (see `lm-eval tasks`) are both used.
        #[arg(long, value_name = "LIBRARY")]
        pub library: Option<String>,
    }
}

layer! {
    /// The Python that runs task functions.
    #[derive(Args, Clone, Debug, Default)]
    #[command(next_help_heading = "Python")]
    pub(crate) struct PythonArgs {
        /// The Python that runs task functions. [default: the active virtual environment's, else `python3`]
        #[arg(long, value_name = "PATH")]
        pub python: Option<PathBuf>,

        /// A Python module or file that registers metrics, filters, scorers or models; repeatable.
        #[arg(long, value_name = "MODULE_OR_FILE")]
        pub plugins: Option<Vec<String>>,
    }
}

impl LibraryArgs {
    /// The task folders in order of precedence: later ones win.
    pub(crate) fn roots(&self) -> Result<Vec<PathBuf>, EngineError> {
        library::roots(self.library.as_deref(), self.include_path.as_deref().unwrap_or_default())
    }

    /// Turns off the default libraries if `unwanted`, unless a library was chosen.
    pub(super) fn without_defaults(mut self, unwanted: bool) -> Self {
        if unwanted {
            self.library.get_or_insert_with(|| "none".to_owned());
        }
        self
    }
}

impl PythonArgs {
    /// The modules and files that register extensions.
    pub(crate) fn plugins(&self) -> &[String] {
        self.plugins.as_deref().unwrap_or_default()
    }
}

/// The output format on standard output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Markdown tables, folded if the terminal is narrower.
    #[default]
    Table,
    /// Markdown tables, never folded.
    Markdown,
    /// LaTeX tables.
    Latex,
    /// Comma-separated values: one line per score, with all digits.
    Csv,
    /// The result object as JSON.
    Json,
}

/// How multiple-choice options are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Choices {
    /// By the probabilities of their letters.
    Letters,
    /// By the letter that the model writes.
    Generate,
}

impl Choices {
    /// The method as the engine names it.
    pub(crate) fn method(self) -> ChoiceMethod {
        match self {
            Self::Letters => ChoiceMethod::Letters,
            Self::Generate => ChoiceMethod::Generate,
        }
    }
}

impl Setting for Choices {
    fn read(value: &Value) -> Result<Option<Self>, InvalidValue> {
        choice(value)
    }

    fn to_value(&self) -> Value {
        Value::from(name_of(self))
    }
}

/// How progress is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProgressMode {
    /// A status line on a terminal, otherwise one line every 10 seconds.
    #[default]
    Auto,
    /// One line every 10 seconds.
    Plain,
    /// One JSON object per line, for programs; notes are objects too.
    Json,
    /// No progress.
    None,
}

impl Setting for Format {
    fn read(value: &Value) -> Result<Option<Self>, InvalidValue> {
        choice(value)
    }

    fn to_value(&self) -> Value {
        Value::from(name_of(self))
    }
}

impl Setting for ProgressMode {
    fn read(value: &Value) -> Result<Option<Self>, InvalidValue> {
        choice(value)
    }

    fn to_value(&self) -> Value {
        Value::from(name_of(self))
    }
}

/// An option that takes a dictionary.
#[derive(Clone, Copy, Debug)]
pub(super) struct DictOption {
    /// The name of the flag and of the key in settings files.
    pub name: &'static str,
    dashed: &'static str,
    short: Option<char>,
    heading: Option<&'static str>,
    help: &'static str,
}

impl DictOption {
    const fn tracker(name: &'static str, dashed: &'static str, help: &'static str) -> Self {
        Self { name, dashed, short: None, heading: Some("External logging"), help }
    }
}

/// All options that take a dictionary.
pub(super) const DICT_OPTIONS: [DictOption; 8] = [
    DictOption {
        name: "model_args",
        dashed: "model-args",
        short: Some('a'),
        heading: Some("Model"),
        help: "Arguments for the backend: `key=value,…` or JSON",
    },
    DictOption {
        name: "gen_kwargs",
        dashed: "gen-kwargs",
        short: None,
        heading: Some("Model"),
        help: "Generation settings, overriding the tasks: `key=value,…` or JSON",
    },
    DictOption {
        name: "workers",
        dashed: "workers",
        short: None,
        heading: Some("Model"),
        help: "Let workers on other machines compute the model: `listen=HOST:PORT,token_file=FILE`; with TLS also `tls_cert=FILE,tls_key=FILE`",
    },
    DictOption {
        name: "metadata",
        dashed: "metadata",
        short: None,
        heading: Some("Tasks and documents"),
        help: "Extra metadata for every task: `key=value …` or JSON",
    },
    DictOption::tracker(
        "hf_hub_log_args",
        "hf-hub-log-args",
        "Push results and samples to dataset repositories of the hub: `push_results_to_hub=True`, `hub_results_org=ORG`, …",
    ),
    DictOption::tracker(
        "wandb_args",
        "wandb-args",
        "Log to Weights & Biases; arguments of `wandb.init`, such as `project=NAME`",
    ),
    DictOption::tracker(
        "wandb_config_args",
        "wandb-config-args",
        "Further values for the configuration of the Weights & Biases run",
    ),
    DictOption::tracker(
        "trackio_args",
        "trackio-args",
        "Log to Trackio; arguments of `trackio.init`, such as `project=NAME`",
    ),
];

impl Options {
    /// The same settings for another model.
    pub(crate) fn with_model(mut self, name: Option<String>, args: Vec<String>) -> Self {
        self.model = name.or(self.model);
        self.dicts.0.retain(|(known, _)| *known != MODEL_ARGS);
        self.dicts.0.push((MODEL_ARGS, Pairs::Words(vec![args])));
        self
    }
}

/// The name of the option with the arguments of the model.
const MODEL_ARGS: &str = "model_args";

/// The dictionary options that are given.
#[derive(Clone, Debug, Default)]
pub(crate) struct DictArgs(Vec<(&'static str, Pairs)>);

impl DictArgs {
    pub(super) fn get(&self, name: &str) -> Option<&Pairs> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, pairs)| pairs)
    }

    /// Replaces the value of an option.
    pub(super) fn set(&mut self, name: &'static str, value: Value) {
        self.0.retain(|(known, _)| *known != name);
        self.0.push((name, Pairs::Value(value)));
    }

    fn collect(
        make: impl Fn(&'static str) -> Result<Option<Pairs>, InvalidSetting>,
    ) -> Result<Self, InvalidSetting> {
        let given =
            DICT_OPTIONS.iter().map(|option| Ok(make(option.name)?.map(|pairs| (option.name, pairs))));
        Ok(Self(given.filter_map(Result::transpose).collect::<Result<_, _>>()?))
    }
}

impl Layer for DictArgs {
    fn names(_: &'static str) -> Vec<&'static str> {
        DICT_OPTIONS.iter().map(|option| option.name).collect()
    }

    fn read(_: &'static str, values: &Dict) -> Result<Self, InvalidSetting> {
        Self::collect(|name| Layer::read(name, values))
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

fn upper() -> impl TypedValueParser<Value = Stringified> {
    StringValueParser::new().map(|level| Stringified(level.to_uppercase()))
}
