//! Python semantics as a library.
//!
//! Everything that must behave exactly like CPython is implemented here: values and their string forms, `json.dumps`,
//! `ast.literal_eval`, `random.Random`, `re`, string methods, and PyYAML's dialect of YAML 1.1. One module each.
//!
//! ```
//! use lmeval_pycompat::{Value, repr::repr, yaml};
//!
//! let loaded = yaml::load("a: yes\nb: [1, 2.50, ~]\n").unwrap();
//! assert_eq!(repr(&loaded.value), "{'a': True, 'b': [1, 2.5, None]}");
//! ```

pub mod datetime;
mod dict;
pub mod draws;
pub mod float;
pub mod fnmatch;
pub mod json;
pub mod literal;
mod media;
pub mod random;
pub mod re;
pub mod repr;
pub mod strings;
mod value;
pub mod yaml;

pub use dict::Dict;
pub use media::{Media, MediaKind, StoredBytes};
pub use value::{Function, Value};
