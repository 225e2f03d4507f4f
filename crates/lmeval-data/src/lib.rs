//! Data sets: readers, split inference and slicing, and a hub client.

mod columnar;
mod csv;
mod error;
mod features;
mod file;
mod json;
mod slice;
mod source;
mod text;
mod timestamp;
mod types;
mod ujson;

pub use error::{Error, ErrorKind};
