//! References from tasks to datasets.

use std::path::PathBuf;

use lmeval_pycompat::Dict;

/// A dataset requested by a task file or by a task's code.
#[derive(Clone, Debug, Default)]
pub struct DatasetRequest {
    /// `dataset_path`: a loader (`json`, `csv`, `parquet`, `arrow`, `text`), a folder, or a dataset on the hub.
    pub path: String,
    /// `dataset_name`: the configuration.
    pub name: Option<String>,
    /// The splits to load, possibly sliced (`train[:100]`); empty loads all of them.
    pub splits: Vec<String>,
    /// `dataset_kwargs`, passed on to the loader.
    pub kwargs: Dict,
    /// The folder of the task file; relative paths are resolved against the working directory, then against this.
    pub base: Option<PathBuf>,
    /// The maximum number of rows per split, from `LMEVAL_LIMIT`.
    pub limit_rows: Option<u64>,
    /// A folder of local copies, from `LM_EVAL_DATASET_DIR`; a copy found there is used instead of `path`.
    pub dataset_dir: Option<PathBuf>,
}
