//! Task definition files: reading, merging includes, and tracking the location of each value.

mod loader;
mod mapping;
mod path;

pub use loader::{Loader, Parsed};
pub(crate) use loader::{MAX_INCLUDE_DEPTH, include_names, unreadable};
pub use mapping::{Mapping, Origin, SourceFile, Step};
pub(crate) use path::{Identities, folder_of, read_regular};
pub use path::{MAX_FILE_SIZE, beside, identity, is_embedded, normalise, read};
