//! Datasets: readers, split inference and slicing.
//!
//! ```
//! use lmeval_core::DatasetRequest;
//! use lmeval_data::{Settings, load};
//! use lmeval_pycompat::Value;
//!
//! let folder = tempfile::tempdir().unwrap();
//! std::fs::write(folder.path().join("test.jsonl"), "{\"question\": \"1+1\", \"answer\": 2}\n").unwrap();
//!
//! let settings = Settings::isolated("https://hub.invalid", folder.path(), folder.path());
//! let mut request =
//!     DatasetRequest { path: "json".into(), splits: vec!["test".into()], ..DatasetRequest::default() };
//! request.kwargs.insert("data_files", Value::dict([("test", "test.jsonl".into())]));
//!
//! let data = load(&request, &settings).unwrap();
//! let split = data.get("test").unwrap();
//! let row = split.get(0).unwrap().unwrap();
//! assert_eq!(row.get_str("answer"), Some(&Value::Int(2)));
//! ```

mod card;
mod cell;
mod columnar;
mod csv;
mod documents;
mod error;
mod features;
mod file;
mod folder;
mod formats;
mod glob;
mod json;
mod kwargs;
mod load;
mod media;
mod patterns;
mod plan;
mod read;
mod saved;
mod settings;
mod slice;
mod source;
mod split;
mod text;
mod timestamp;
mod tree;
mod types;
mod ujson;

pub use error::{Error, ErrorKind};
pub use load::load;
pub use settings::{Settings, VirtualFiles};
pub use split::{DatasetDict, Rows, Split};
