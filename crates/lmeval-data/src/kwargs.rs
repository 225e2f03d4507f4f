//! Parsing of `dataset_kwargs`.

use lmeval_pycompat::{Dict, Value, repr};

use crate::error::Error;

/// `dataset_kwargs`, split into selections of files and loader options.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kwargs {
    pub(crate) data_files: Option<Value>,
    pub(crate) data_dir: Option<String>,
    pub(crate) revision: Option<String>,
    /// Options of the loader.
    pub(crate) options: Dict,
}

/// Arguments about downloading and caching that do not affect rows.
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
