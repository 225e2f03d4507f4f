//! The interface of readers.

use std::fmt::Debug;
use std::sync::Arc;

use lmeval_pycompat::Dict;

use crate::error::Error;
use crate::types::Schema;

/// The rows of one file, read on demand.
pub(crate) trait Source: Debug + Send + Sync {
    fn len(&self) -> u64;

    /// A row with all columns of the target schema. The index must be below [`Source::len`].
    fn row(&self, index: u64, target: &Schema) -> Result<Dict, Error>;
}

/// A file after its first pass.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) source: Arc<dyn Source>,
    /// The schemas of its parts, in order; the first part of a dataset determines the types of all.
    pub(crate) schemas: Vec<Arc<Schema>>,
}
