//! PyYAML's dialect of YAML 1.1.
//!
//! [`load`] returns what `yaml.load(text, Loader=yaml.CSafeLoader)` would: the `reader` module parses nodes by the YAML
//! 1.1 specification, as far as that loader accepts it, plain scalars are typed by PyYAML's expressions (`yes` is true,
//! `010` is 8, `1e5` is a string), `<<` merges, and later duplicate keys win. A [`Loader`] with
//! [`functions`](Loader::functions) set also accepts the `!function` tag of task files.
//!
//! There are two deliberate differences. An alias inside the value that it names is an error, where PyYAML would build
//! a value that contains itself. And depth and size are limited, with aliases expanded, so that a small file cannot
//! expand to a huge value.
//!
//! ```
//! use lmeval_pycompat::{Value, yaml};
//!
//! let loaded = yaml::load("answer: 0x2A\nenabled: on\n")?;
//! let dict = loaded.value.as_dict().unwrap();
//! assert_eq!(dict.get_str("answer"), Some(&Value::Int(42)));
//! assert_eq!(dict.get_str("enabled"), Some(&Value::Bool(true)));
//! # Ok::<(), yaml::Error>(())
//! ```

mod base64;
mod construct;
mod emit;
mod error;
mod graph;
mod marks;
mod number;
mod read;
mod reader;
mod resolve;
mod timestamp;

pub use self::emit::{emit, emit_after};
pub use self::error::{Error, ErrorKind};
pub use self::marks::{Mark, Marks, Position, Segment, Span};
pub use self::read::{decode, decode_lossy};

use self::construct::{Constructor, typed_scalar};
use self::reader::Reader;
use self::resolve::{Tag, resolve};
use crate::value::Value;

/// A document's value, and the locations of its parts.
#[derive(Clone, Debug, Default)]
pub struct Loaded {
    /// The value; [`Value::None`] for an empty document.
    pub value: Value,
    /// The locations of its entries and items.
    pub marks: Marks,
}

/// Settings for loading.
///
/// ```
/// use lmeval_pycompat::{Value, yaml::Loader};
///
/// let loader = Loader { functions: true, directory: "/tasks/demo".to_owned(), ..Loader::default() };
/// let loaded = loader.load("process_docs: !function utils.process_docs")?;
/// let Some(Value::Function(function)) = loaded.value.as_dict().unwrap().get_str("process_docs") else {
///     panic!("not a function");
/// };
/// assert_eq!(function.split(), Some(("utils", "process_docs")));
/// # Ok::<(), lmeval_pycompat::yaml::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Loader {
    /// The directory that `!function` references record.
    pub directory: String,
    /// Whether to accept the `!function` tag.
    pub functions: bool,
    /// How deeply collections may be nested, with aliases expanded. Building and dropping a value takes stack in
    /// proportion. PyYAML itself fails below 1000.
    pub max_depth: usize,
    /// How many nodes a document may have, with aliases expanded.
    pub max_nodes: usize,
}

impl Default for Loader {
    /// Plain safe loading: no functions, 256 levels, a million nodes.
    fn default() -> Self {
        Self { directory: String::new(), functions: false, max_depth: 256, max_nodes: 1_000_000 }
    }
}

impl Loader {
    /// A loader for the files of a directory, with functions allowed.
    pub fn for_directory(directory: impl Into<String>) -> Self {
        Self { directory: directory.into(), functions: true, ..Self::default() }
    }

    /// Loads the only document of a string.
    pub fn load(&self, text: &str) -> Result<Loaded, Error> {
        read::check(text)?;
        match Reader::new(text, self).read()? {
            None => Ok(Loaded::default()),
            Some(graph) => {
                let (value, marks) = Constructor::construct(graph, self)?;
                Ok(Loaded { value, marks })
            }
        }
    }

    /// Loads the only document of a file's bytes: UTF-8, or UTF-16 with a byte order mark.
    pub fn load_bytes(&self, bytes: &[u8]) -> Result<Loaded, Error> {
        self.load(&decode(bytes)?)
    }
}

/// Loads the only document of a string with the default [`Loader`].
pub fn load(text: &str) -> Result<Loaded, Error> {
    Loader::default().load(text)
}

/// Loads the only document of a file's bytes with the default [`Loader`].
pub fn load_bytes(bytes: &[u8]) -> Result<Loaded, Error> {
    Loader::default().load_bytes(bytes)
}

/// Types a single plain scalar, as it would be in a document.
///
/// ```
/// use lmeval_pycompat::{Value, yaml::plain_scalar};
///
/// assert_eq!(plain_scalar("1:30")?, Value::Int(90));
/// assert_eq!(plain_scalar("1e-5")?, Value::str("1e-5"));
/// assert!(plain_scalar("2020-13-45").is_err());
/// # Ok::<(), lmeval_pycompat::yaml::Error>(())
/// ```
pub fn plain_scalar(text: &str) -> Result<Value, Error> {
    match resolve(text) {
        tag @ (Tag::Merge | Tag::Value | Tag::Other(_)) => {
            let message = format!("unknown tag or misplaced indicator: `{}`", tag.name());
            Err(Error::new(ErrorKind::Constructor, message, Position::default()))
        }
        tag => typed_scalar(&tag, text)
            .map_err(|message| Error::new(ErrorKind::Value, message, Position::default())),
    }
}
