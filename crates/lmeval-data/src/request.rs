//! What is asked for.

use std::path::PathBuf;

use lmeval_pycompat::{Dict, Value, repr};

use crate::error::Error;

/// A data set as a task names it.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// `dataset_path`: a loader (`json`, `csv`, `parquet`, `arrow`, `text`), a folder, or a data set on the hub.
    pub path: String,
    /// `dataset_name`: the configuration.
    pub name: Option<String>,
    /// The splits that are needed, perhaps sliced (`train[:100]`); none means all.
    pub splits: Vec<String>,
    /// `dataset_kwargs`.
    pub kwargs: Dict,
    /// The folder of the task's YAML, where relative paths are looked up after the working directory.
    pub base: Option<PathBuf>,
    /// The most rows of each split, from `LMEVAL_LIMIT`.
    pub limit_rows: Option<u64>,
    /// A folder with copies of data sets, from `LM_EVAL_DATASET_DIR`; one that is there replaces the path.
    pub dataset_dir: Option<PathBuf>,
}

/// `dataset_kwargs`, sorted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kwargs {
    pub(crate) data_files: Option<Value>,
    pub(crate) data_dir: Option<String>,
    pub(crate) revision: Option<String>,
    /// Options of the loader.
    pub(crate) options: Dict,
}

/// Arguments that say how to download or to cache, which changes no row.
const WITHOUT_EFFECT: [&str; 13] = [
    "trust_remote_code",
    "cache_dir",
    "download_config",
    "download_mode",
    "verification_mode",
    "ignore_verifications",
    "keep_in_memory",
    "save_infos",
    "token",
    "use_auth_token",
    "num_proc",
    "storage_options",
    "streaming",
];

impl Kwargs {
    pub(crate) fn new(kwargs: &Dict, loader: &str) -> Result<Self, Error> {
        let mut sorted = Self::default();
        for (key, value) in kwargs.iter() {
            let name = repr::str(key);
            match name.as_str() {
                name if WITHOUT_EFFECT.contains(&name) => {}
                _ if value.is_none() && name != "header" => {}
                "data_files" => sorted.data_files = Some(value.clone()),
                "data_dir" => sorted.data_dir = Some(repr::str(value)),
                "revision" => sorted.revision = Some(repr::str(value)),
                "features" | "split" | "name" | "path" => {
                    return Err(Error::option(loader, &name, "cannot be set in `dataset_kwargs`"));
                }
                _ => {
                    sorted.options.insert(key.clone(), value.clone());
                }
            }
        }
        Ok(sorted)
    }
}
