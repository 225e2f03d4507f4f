//! Arguments of `doctor`.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{Args, Parser as _};

use crate::cli::{Cli, Command};
use crate::settings::{LibraryArgs, RunSettings};

/// Arguments of `doctor`.
#[derive(Args, Debug)]
#[command(
    after_help = "Exit status: 0 if runs will work, 1 if a check failed or another form of the prompts is better, 2 for a usage error.\n\nExamples:\n  lm-eval doctor --model local-completions --model_args model=NAME,base_url=http://localhost:8000/v1/completions\n  lm-eval doctor --model hf --model_args pretrained=NAME --tasks gsm8k --num_fewshot 5"
)]
pub(crate) struct DoctorArgs {
    /// The model backend, as for `run`.
    #[arg(short = 'M', long, value_name = "NAME")]
    pub model: String,

    /// The arguments of the model, as for `run`.
    #[arg(short = 'a', long = "model_args", alias = "model-args", value_name = "ARGS", num_args = 1..)]
    pub model_args: Vec<String>,

    /// Also ask the first documents of these tasks with other forms of the prompts: chat template, BOS token, turns, system prompt.
    #[arg(short, long, alias = "task", value_name = "TASKS", num_args = 1..)]
    pub tasks: Vec<String>,

    /// Documents of each task that are asked in every form.
    #[arg(short = 'L', long, value_name = "N", default_value_t = super::traps::DOCUMENTS, value_parser = documents)]
    pub limit: usize,

    /// The number of few-shot examples, as for `run`.
    #[arg(short = 'f', long = "num_fewshot", alias = "num-fewshot", value_name = "N")]
    pub num_fewshot: Option<String>,

    /// Apply the chat template, as for `run`.
    #[expect(clippy::option_option, reason = "how clap tells a flag without a value from an absent one")]
    #[arg(long = "apply_chat_template", alias = "apply-chat-template", value_name = "NAME", num_args = 0..=1)]
    pub apply_chat_template: Option<Option<String>>,

    /// Make each few-shot example a turn, as for `run`.
    #[arg(long = "fewshot_as_multiturn", alias = "fewshot-as-multiturn", value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    pub fewshot_as_multiturn: Option<String>,

    /// System prompt, as for `run`.
    #[arg(long = "system_instruction", alias = "system-instruction", value_name = "TEXT")]
    pub system_instruction: Option<String>,

    /// Generation settings, as for `run`.
    #[arg(long = "gen_kwargs", alias = "gen-kwargs", value_name = "ARGS", num_args = 1..)]
    pub gen_kwargs: Vec<String>,

    /// The device, as for `run`.
    #[arg(long, value_name = "DEVICE")]
    pub device: Option<String>,

    /// The Python interpreter of servers that a run starts, such as vLLM. [default: that of the virtual environment, or of PATH]
    #[arg(long, value_name = "PATH")]
    pub python: Option<PathBuf>,

    /// Print one JSON object per check.
    #[arg(long)]
    pub json: bool,

    /// Where to look for tasks.
    #[command(flatten)]
    pub library: LibraryArgs,
}

fn documents(text: &str) -> Result<usize, String> {
    let count = text.parse().ok().filter(|count| (1..=100_000).contains(count));
    count.ok_or_else(|| format!("`{text}` is not a number of documents, such as 20"))
}

impl DoctorArgs {
    /// The settings that the same arguments give `run`.
    pub(super) fn settings(&self) -> Result<RunSettings> {
        let mut words: Vec<String> = ["lm-eval", "run", "--model", &self.model].map(str::to_owned).to_vec();
        let mut add = |flag: &str, values: &[String]| {
            if !values.is_empty() {
                words.push(flag.to_owned());
                words.extend(values.iter().cloned());
            }
        };
        let some = |value: &Option<String>| value.iter().cloned().collect::<Vec<_>>();
        let demo = ["demo_capitals".to_owned()];
        add("--tasks", if self.tasks.is_empty() { &demo } else { &self.tasks });
        add("--model_args", &self.model_args);
        add("--gen_kwargs", &self.gen_kwargs);
        add("--num_fewshot", &some(&self.num_fewshot));
        add("--fewshot_as_multiturn", &some(&self.fewshot_as_multiturn));
        add("--system_instruction", &some(&self.system_instruction));
        add("--device", &some(&self.device));
        match &self.apply_chat_template {
            None => {}
            Some(None) => words.push("--apply_chat_template".to_owned()),
            Some(Some(name)) => words.extend(["--apply_chat_template".to_owned(), name.clone()]),
        }
        match Cli::try_parse_from(words)?.command {
            Command::Run(mut options) => {
                options.python.python = options.python.python.or_else(|| self.python.clone());
                options.library = self.library.clone();
                RunSettings::from_flags(&options)
            }
            _ => bail!("The arguments are not those of a run"),
        }
    }
}
