//! `lm-eval report`: runs as one HTML file.

use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::Args;
use fs_err as fs;
use lmeval_core::Diagnostic;
use lmeval_view::{Contents, SAMPLES, write_report};

use crate::commands::Status;
use crate::foreign;
use crate::printer::Printer;

/// Files above this size take long to open.
const LARGE: u64 = 100_000_000;

/// Arguments of `report`.
#[derive(Args, Debug)]
#[command(
    after_help = "The file opens from disk, without a server and without a network. It contains prompts, answers and documents:\nsend it only to people who may see them.\n\nExamples:\n  lm-eval report results/model -o report.html\n  lm-eval report results/base results/new -o comparison.html\n  lm-eval report results/model -o report.html --all"
)]
pub(crate) struct ReportArgs {
    /// The runs: results files, samples files or folders. A second one is compared with the first.
    #[arg(value_name = "RUN", required = true, num_args = 1..)]
    pub runs: Vec<PathBuf>,

    /// The file to write.
    #[arg(short, long = "output_path", aliases = ["output-path", "output"], value_name = "FILE", default_value = "report.html")]
    pub output: PathBuf,

    /// Samples per task and filter, wrong ones first.
    #[arg(long, value_name = "N", default_value_t = SAMPLES)]
    pub samples: usize,

    /// Include all samples.
    #[arg(long, conflicts_with = "samples")]
    pub all: bool,
}

/// Writes the report under another name first, so that a failure leaves no half of a file.
pub(crate) fn run(arguments: &ReportArgs, printer: &mut Printer) -> Result<Status> {
    let output = &arguments.output;
    let Some(name) = output.file_name() else {
        bail!(Diagnostic::new(format!("`{}` is not a file name", output.display())).hint("-o report.html"));
    };
    let runs = arguments.runs.iter().map(|path| foreign::run(path)).collect::<Result<Vec<_>>>()?;
    // Another report may be written to the same file at the same time.
    let part = output.with_file_name(format!(".{}.{}.part", name.to_string_lossy(), std::process::id()));
    let limit = (!arguments.all).then_some(arguments.samples);
    let written = write(&runs, limit, &part);
    let contents = match written.and_then(|contents| Ok(fs::rename(&part, output).map(|()| contents)?)) {
        Ok(contents) => contents,
        Err(error) => {
            // It may not exist.
            let _ = fs::remove_file(&part);
            return Err(error);
        }
    };
    for change in &contents.changes {
        printer.warn(change);
    }
    let size = fs::metadata(output)?.len();
    let path = output.display();
    printer.result(&format!(
        "{path}: {} of {} samples, {:.1} MB\n",
        contents.shown,
        contents.of,
        size as f64 / 1e6
    ))?;
    if size > LARGE {
        printer.warn("Browsers need long to open a file of this size; `--samples` makes it smaller");
    }
    Ok(Status::Success)
}

fn write(runs: &[PathBuf], limit: Option<usize>, path: &Path) -> Result<Contents> {
    let mut writer = BufWriter::with_capacity(1 << 16, fs::File::create(path)?);
    let contents = write_report(runs, limit, &mut writer)?;
    writer.flush()?;
    writer.get_ref().sync_all()?;
    Ok(contents)
}
