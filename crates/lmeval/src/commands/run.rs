//! `lm-eval run`: recognised, so that a call made for the full harness gets a clear answer.

use crate::cli::RunArgs;
use crate::commands::Status;
use crate::printer::Printer;

/// Says what is not there.
pub(crate) fn run(_arguments: &RunArgs, printer: &mut Printer) -> Status {
    printer.note(
        "error: `lm-eval run` is not in this version yet\n\
         hint: `lm-eval validate --tasks …` checks the tasks of a run, `lm-eval show …` explains them",
    );
    Status::Failure
}
