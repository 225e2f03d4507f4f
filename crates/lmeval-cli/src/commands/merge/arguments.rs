//! Arguments of `merge`.

use std::path::PathBuf;

use clap::Args;

use crate::settings::{Format, LibraryArgs, Options, PythonArgs};

/// Arguments of `merge`.
#[derive(Args, Debug)]
#[command(
    after_help = "Exit status: 0 if everything was merged, 1 if shards are missing or do not belong together, if requests failed or on an error, 2 for a usage error, 3 if a score is below the --fail_under of the run.\n\nExamples:\n  lm-eval run --tasks arc_easy --output_path out --shard 1/2     on one machine\n  lm-eval run --tasks arc_easy --output_path out --shard 2/2     on another\n  lm-eval merge out -o merged\n  lm-eval merge node1/out node2/out -o merged"
)]
pub(crate) struct MergeArgs {
    /// The output paths of the shards, or folders that contain them.
    #[arg(required = true, value_name = "DIR")]
    pub shards: Vec<PathBuf>,

    /// Where to write results: a folder, or a file name that ends in `.json`.
    #[arg(short = 'o', long = "output_path", aliases = ["output-path", "output"], value_name = "PATH")]
    pub output_path: String,

    /// Merge the shards that exist if some are missing.
    #[arg(long)]
    pub partial: bool,

    /// Output format. [default: that of the shards]
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub format: Option<Format>,

    /// Where to look for tasks.
    #[command(flatten)]
    pub library: LibraryArgs,

    /// The Python that runs task functions.
    #[command(flatten)]
    pub python: PythonArgs,
}

impl MergeArgs {
    /// The arguments as those of `run`.
    pub(super) fn options(&self) -> Options {
        Options {
            output_path: Some(self.output_path.clone()),
            format: self.format,
            library: self.library.clone(),
            python: self.python.clone(),
            ..Options::default()
        }
    }
}
