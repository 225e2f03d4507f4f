//! One file per subcommand.

mod budget;
mod compare;
mod completions;
mod curve;
mod doctor;
mod fidelity;
mod journal;
mod lock;
mod ls;
mod merge;
#[cfg(not(feature = "view"))]
mod no_viewer;
mod preview;
mod publish;
mod ray;
#[cfg(feature = "view")]
mod report;
mod reproduce;
mod rescore;
mod run;
mod samples;
mod sandbox;
mod serve;
mod show;
mod table;
mod tasks;
mod validate;
mod verify;
#[cfg(feature = "view")]
mod view;
mod watch;
mod worker;

use anyhow::Result;

#[cfg(not(feature = "view"))]
use self::{no_viewer as report, no_viewer as view};

pub(crate) use self::budget::BudgetArgs;
pub(crate) use self::compare::CompareArgs;
pub(crate) use self::curve::CurveArgs;
pub(crate) use self::doctor::DoctorArgs;
pub(crate) use self::fidelity::FidelityArgs;
pub(crate) use self::lock::LockArgs;
pub(crate) use self::merge::MergeArgs;
pub(crate) use self::publish::PublishArgs;
pub(crate) use self::ray::RayArgs;
pub(crate) use self::report::ReportArgs;
pub(crate) use self::reproduce::ReproduceArgs;
pub(crate) use self::rescore::RescoreArgs;
pub(crate) use self::samples::SamplesArgs;
pub(crate) use self::table::TableArgs;
pub(crate) use self::verify::VerifyArgs;
pub(crate) use self::view::ViewArgs;
pub(crate) use self::watch::WatchArgs;
pub(crate) use self::worker::WorkerArgs;
use crate::cli::{Cli, Command};
use crate::printer::Printer;
use crate::run::interrupt;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// The command succeeded.
    Success,
    /// The command failed, or found a problem.
    Failure,
    /// The command line asks for something that is not possible on this machine.
    Usage,
    /// The command was interrupted.
    Interrupted,
    /// A gate of a comparison failed, or a score is below its threshold.
    GateFailed,
    /// The documents do not decide a gate.
    GateInconclusive,
}

impl Status {
    /// The exit status of the process.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Failure => 1,
            Self::Usage => 2,
            Self::GateFailed => 3,
            Self::GateInconclusive => 4,
            Self::Interrupted => interrupt::EXIT_STATUS,
        }
    }
}

/// Runs the command.
pub(crate) fn dispatch(cli: Cli, printer: &mut Printer) -> Result<Status> {
    let status = match cli.command {
        Command::Ls(arguments) => ls::run(&arguments, printer)?,
        Command::Validate(arguments) => validate::run(&arguments, printer)?,
        Command::Show(arguments) => show::run(&arguments, printer)?,
        Command::Preview(arguments) => preview::run(&arguments, printer)?,
        Command::Tasks(arguments) => tasks::run(arguments, printer)?,
        Command::Compare(arguments) => compare::run(&arguments, printer)?,
        Command::View(arguments) => view::run(&arguments, printer)?,
        Command::Report(arguments) => report::run(&arguments, printer)?,
        Command::Samples(arguments) => samples::run(&arguments, printer)?,
        Command::Table(arguments) => table::run(&arguments, printer)?,
        Command::Publish(arguments) => publish::run(&arguments, printer)?,
        Command::Rescore(arguments) => rescore::run(&arguments, printer)?,
        Command::Budget(arguments) => budget::run(&arguments, printer)?,
        Command::Watch(arguments) => watch::run(&arguments, printer)?,
        Command::Curve(arguments) => curve::run(&arguments, printer)?,
        Command::WatchCheckpoint => watch::evaluate(printer)?,
        Command::Fidelity(arguments) => fidelity::run(&arguments, printer)?,
        Command::Doctor(arguments) => doctor::run(&arguments, printer)?,
        Command::Completions(arguments) => completions::run(&arguments, printer)?,
        Command::Run(arguments) => run::run(&arguments, printer, None)?,
        Command::Reproduce(arguments) => reproduce::run(&arguments, printer)?,
        Command::Verify(arguments) => verify::run(&arguments, printer)?,
        Command::Lock(arguments) => lock::run(&arguments, printer)?,
        Command::Merge(arguments) => merge::run(&arguments, printer)?,
        Command::Ray(arguments) => ray::run(&arguments, printer)?,
        Command::Worker(arguments) => worker::run(&arguments, printer)?,
        Command::Journal(arguments) => journal::run(&arguments, printer)?,
        Command::Sandbox(arguments) => sandbox::run(&arguments, printer)?,
        Command::ServePython => serve::run(printer)?,
        #[cfg(feature = "local-models")]
        Command::ServeModel => {
            lmeval_candle::serve(std::io::stdout())?;
            Status::Success
        }
        #[cfg(not(feature = "local-models"))]
        Command::ServeModel => anyhow::bail!("This build has no models that compute in its process"),
    };
    let flushed = printer.flush();
    // A reader that went away must not turn a failure into a success.
    if status == Status::Success {
        flushed?;
    }
    Ok(status)
}
