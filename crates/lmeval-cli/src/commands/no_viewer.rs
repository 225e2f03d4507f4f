//! `lm-eval view` and `lm-eval report` in a build without the viewer.

use anyhow::Result;
use clap::Args;

use crate::commands::Status;
use crate::printer::Printer;
use crate::run::live;

/// Any arguments are accepted: the message says what is missing.
#[derive(Args, Debug)]
pub(crate) struct NoArgs {
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<String>,
}

pub(crate) type ReportArgs = NoArgs;
pub(crate) type ViewArgs = NoArgs;

/// Says what is missing.
pub(crate) fn run(_: &NoArgs, _: &mut Printer) -> Result<Status> {
    Err(live::missing().into())
}
