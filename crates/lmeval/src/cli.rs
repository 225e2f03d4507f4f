//! The command line: what can be typed. What it means is decided in the commands.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use lmeval::settings::{Compat, LibraryArgs, Options, PythonArgs, truth};

use crate::printer::Color;

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
    after_help = "Examples:\n  lm-eval run                         a small model on the built-in tasks\n  lm-eval ls tasks                    every task, group and tag\n  lm-eval ls tasks arc                those whose name contains `arc`\n  lm-eval show arc_easy               what a task really is, and where each value comes from\n  lm-eval validate --tasks 'arc_*'    check tasks before a run\n  lm-eval preview arc_easy            what would be sent to a model\n  lm-eval tasks pull                  install the public task library\n\nEach command explains itself: lm-eval COMMAND --help"
)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,

    /// When to use colour.
    #[arg(long, global = true, value_enum, default_value_t, value_name = "WHEN")]
    pub color: Color,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Evaluate a model.
    Run(Box<Options>),
    /// List tasks, groups, subtasks, tags, models, metrics or filters.
    Ls(LsArgs),
    /// Check that tasks exist and that their definitions make sense.
    Validate(ValidateArgs),
    /// Show what a task, group or tag resolves to, and where each value comes from.
    Show(ShowArgs),
    /// Print the prompts and requests that a task sends to a model.
    Preview(Box<PreviewArgs>),
    /// Install, list and remove task libraries.
    Tasks(TasksArgs),
    /// Look into the answers that runs have kept.
    Journal(JournalArgs),
    /// Print a completion script for a shell.
    Completions(CompletionsArgs),
    /// Run a program that a model wrote, under limits; without one, show the limits of this machine.
    Sandbox(SandboxArgs),
    /// Do what the Python package, on the other end of standard input, asks for.
    #[command(hide = true)]
    ServePython,
    /// Compute for a run that spreads its model over several processes.
    #[command(hide = true)]
    ServeModel,
}

/// What `ls` lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Listing {
    /// Groups, tags and subtasks.
    Tasks,
    /// Groups: several tasks with a common score.
    Groups,
    /// Single tasks.
    Subtasks,
    /// Tags: names for several tasks.
    Tags,
    /// Back ends: what `--model` takes.
    Models,
    /// Metrics that a task can name.
    Metrics,
    /// Filters that a task can name.
    Filters,
}

/// Arguments of `ls`.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  lm-eval ls tasks                 groups, tags and subtasks\n  lm-eval ls subtasks mmlu         subtasks whose name contains `mmlu`\n  lm-eval ls groups 'arc_*'        groups whose name matches a pattern\n  lm-eval ls models                what --model takes\n  lm-eval ls tasks --json          one JSON object a line"
)]
pub(crate) struct LsArgs {
    /// What to list; without it, this help is printed.
    #[arg(value_enum)]
    pub what: Option<Listing>,

    /// Only names that contain this word, best matches first, or that match it if it has `*`, `?` or `[…]`.
    #[arg(value_name = "WORD")]
    pub search: Option<String>,

    /// One JSON object a line instead of tables.
    #[arg(long)]
    pub json: bool,

    /// Names alone, one a line.
    #[arg(long, conflicts_with = "json")]
    pub names: bool,

    /// Where to look.
    #[command(flatten)]
    pub library: LibraryArgs,
}

/// Arguments of `validate`.
#[derive(Args, Debug)]
#[command(
    after_help = "Exit status: 0 if everything is sound, 1 if anything is not, 2 for a wrong call.\n\nExamples:\n  lm-eval validate --tasks arc_easy,mmlu\n  lm-eval validate --tasks 'arc_*'\n  lm-eval validate --tasks my_task.yaml\n  lm-eval validate --tasks my_task.yaml --data\n  lm-eval validate --include_path my_tasks --library none"
)]
pub(crate) struct ValidateArgs {
    /// Names, patterns, `task@format`, `group::task` or YAML files, separated by commas; everything if not given.
    #[arg(short, long, value_name = "TASKS", num_args = 1.., value_delimiter = ',')]
    pub tasks: Vec<String>,

    /// Open the data of each task as well: splits, columns, and the first document as it is sent.
    #[arg(long)]
    pub data: bool,

    /// Warnings fail, too.
    #[arg(long)]
    pub strict: bool,

    /// One JSON object a finding instead of text.
    #[arg(long)]
    pub json: bool,

    /// Where to look.
    #[command(flatten)]
    pub library: LibraryArgs,

    /// What runs functions of tasks, with --data.
    #[command(flatten)]
    pub python: PythonArgs,
}

/// Arguments of `show`.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  lm-eval show arc_easy\n  lm-eval show arc_easy@cloze --yaml\n  lm-eval show mmlu --json"
)]
pub(crate) struct ShowArgs {
    /// Tasks, groups, tags, `task@format`, `group::task` or YAML files.
    #[arg(required = true, value_name = "NAME")]
    pub names: Vec<String>,

    /// One JSON object a task or group.
    #[arg(long, conflicts_with = "yaml")]
    pub json: bool,

    /// YAML that can be used as a task file of its own.
    #[arg(long)]
    pub yaml: bool,

    /// Where to look.
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

    /// How many documents of each task; below 1, which share of them. [default: 1, with --json all]
    #[arg(short = 'L', long, visible_short_alias = 'n', value_name = "N")]
    pub limit: Option<f64>,

    /// How many examples to show before the question.
    #[arg(
        short = 'f',
        long = "num_fewshot",
        alias = "num-fewshot",
        value_name = "N",
        allow_negative_numbers = true
    )]
    pub num_fewshot: Option<i64>,

    /// Which documents: JSON such as `{"arc_easy": [0, 5]}`, or the path of a JSON file.
    #[arg(short = 'E', long, value_name = "JSON")]
    pub samples: Option<String>,

    /// Show conversations; with --tokenizer, as the text that its chat template makes of them.
    #[arg(long = "apply_chat_template", alias = "apply-chat-template", value_name = "NAME", num_args = 0..=1, default_missing_value = "")]
    pub apply_chat_template: Option<String>,

    /// A tokenizer's folder, or a file with a chat template in Jinja.
    #[arg(long, value_name = "PATH")]
    pub tokenizer: Option<PathBuf>,

    /// Make each example a turn of the conversation; on by default with a chat template.
    #[arg(long = "fewshot_as_multiturn", alias = "fewshot-as-multiturn", value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", value_parser = truth())]
    pub fewshot_as_multiturn: Option<bool>,

    /// Text before everything else.
    #[arg(long = "system_instruction", alias = "system-instruction", value_name = "TEXT")]
    pub system_instruction: Option<String>,

    /// The seed of the few-shot examples.
    #[arg(long, value_name = "N", default_value_t = lmeval_tasks::prompt::DEFAULT_FEWSHOT_SEED)]
    pub seed: i64,

    /// Follow the rules of this line of the reference: `0.5` or `0.4`. [default: LM_EVAL_COMPAT, else 0.5]
    #[arg(long, value_name = "VERSION")]
    pub compat: Option<Compat>,

    /// One JSON object a request.
    #[arg(long)]
    pub json: bool,

    /// Where to look.
    #[command(flatten)]
    pub library: LibraryArgs,

    /// What runs functions of tasks.
    #[command(flatten)]
    pub python: PythonArgs,
}

/// Arguments of `tasks`.
#[derive(Args, Debug)]
pub(crate) struct TasksArgs {
    /// What to do with task libraries.
    #[command(subcommand)]
    pub action: TasksAction,
}

/// What can be done with task libraries.
#[derive(Debug, Subcommand)]
pub(crate) enum TasksAction {
    /// Fetch the task library of a released `lm_eval` package and make it the default.
    ///
    /// The package is downloaded by your `pip` without its dependencies, and nothing of it is executed: only its
    /// folder of tasks is unpacked.
    Pull(PullArgs),
    /// List installed libraries; `*` marks the default.
    List {
        /// One JSON object a line.
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
    /// The version of the package; the newest if not given.
    pub version: Option<String>,

    /// Take it from a wheel, an archive (`.tar.gz`, `.zip`) or a folder instead of the package index.
    #[arg(long, value_name = "PATH")]
    pub from: Option<PathBuf>,

    /// The Python whose `pip` is used; else that of the active virtual environment, else `python3`.
    #[arg(long, value_name = "PATH")]
    pub python: Option<PathBuf>,

    /// Replace a library of the same version.
    #[arg(long)]
    pub force: bool,
}

/// Arguments of `completions`.
#[derive(Args, Debug)]
pub(crate) struct CompletionsArgs {
    /// The shell.
    #[arg(value_enum)]
    pub shell: clap_complete::Shell,
}

/// Arguments of `sandbox`.
#[derive(Args, Debug)]
#[command(
    after_help = "Exit status: 0 if the program passed, 1 if not, 2 for a wrong call.\n\nExamples:\n  lm-eval sandbox                   which limits this machine can enforce\n  lm-eval sandbox program.py        run a program under them"
)]
pub(crate) struct SandboxArgs {
    /// The program, a file with Python code; `-` reads it from standard input.
    #[arg(value_name = "FILE")]
    pub program: Option<PathBuf>,

    /// How many seconds it may run.
    #[arg(long, value_name = "SECONDS", default_value_t = 3.0)]
    pub time: f64,

    /// How much address space it may have.
    #[arg(long, value_name = "MIB")]
    pub memory: Option<u64>,

    /// One JSON object.
    #[arg(long)]
    pub json: bool,

    /// What runs it.
    #[command(flatten)]
    pub python: SandboxPython,

    /// Limit this process and become the interpreter.
    #[arg(long, hide = true, value_name = "PLAN")]
    pub inside: Option<String>,
}

/// What runs a program of a model.
#[derive(Args, Debug)]
pub(crate) struct SandboxPython {
    /// The Python that runs it; else that of the active virtual environment, else `python3`.
    #[arg(long, value_name = "PATH")]
    pub python: Option<PathBuf>,

    /// The same with where it has its files, so that it need not be asked.
    #[arg(long, hide = true, value_name = "JSON")]
    pub interpreter: Option<String>,
}

/// Arguments of `journal`.
#[derive(Args, Debug)]
pub(crate) struct JournalArgs {
    /// What to do with a journal.
    #[command(subcommand)]
    pub action: JournalAction,
}

/// What can be done with a journal. `PATH` may be a folder that has one, such as an --output_path.
#[derive(Debug, Subcommand)]
pub(crate) enum JournalAction {
    /// Models, tasks, and how many requests were answered and failed.
    Ls {
        /// The journal, or a folder that has one.
        path: PathBuf,
        /// One JSON object a model.
        #[arg(long)]
        json: bool,
    },
    /// Check every record; exit status 1 if anything is damaged.
    Verify {
        /// The journal, or a folder that has one.
        path: PathBuf,
        /// One JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Write the journal anew without what does not count any more. No answer is lost.
    Compact {
        /// The journal, or a folder that has one.
        path: PathBuf,
    },
    /// Print one JSON object a request.
    Export {
        /// The journal, or a folder that has one.
        path: PathBuf,
    },
}
