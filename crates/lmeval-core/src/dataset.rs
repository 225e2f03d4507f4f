//! A data set as a task names it.

use std::path::PathBuf;

use lmeval_pycompat::Dict;

/// A data set that a task, or code of a task, asks for.
#[derive(Clone, Debug, Default)]
pub struct DatasetRequest {
    /// `dataset_path`: a loader (`json`, `csv`, `parquet`, `arrow`, `text`), a folder, or a data set on the hub.
    pub path: String,
    /// `dataset_name`: the configuration.
    pub name: Option<String>,
    /// The splits that are needed, perhaps sliced (`train[:100]`); none means all.
    pub splits: Vec<String>,
    /// `dataset_kwargs`.
    pub kwargs: Dict,
    /// The folder of the task's file, where relative paths are looked up after the working directory.
    pub base: Option<PathBuf>,
    /// The most rows of each split, from `LMEVAL_LIMIT`.
    pub limit_rows: Option<u64>,
    /// A folder with copies of data sets, from `LM_EVAL_DATASET_DIR`; a copy in it replaces the path.
    pub dataset_dir: Option<PathBuf>,
}
