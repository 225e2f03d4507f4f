//! Few-shot samplers, one file each.

mod default;
mod first_n;

use std::fmt;
use std::sync::Arc;

use lmeval_pycompat::Dict;
use lmeval_pycompat::random::{Random, RandomError};

pub use self::default::DefaultSampler;
pub use self::first_n::FirstN;
use crate::host::{Host, HostError};
use crate::registry::{Code, Registry, SamplerEntry, UnknownName};
use lmeval_core::Dialect;
use lmeval_core::{DocumentError, Documents};

/// A request for the few-shot examples of one evaluated document.
#[derive(Debug)]
pub struct Draw<'a> {
    /// The documents to draw from.
    pub pool: &'a dyn Documents,
    /// The number of examples to draw, at least one.
    pub count: usize,
    /// The evaluated document, if it must not be drawn as its own example.
    pub excluded: Option<&'a Dict>,
    /// The random generator of the task, shared by all its documents.
    pub random: &'a mut Random,
    /// The rules of the run.
    pub dialect: &'a Dialect,
}

/// Selects few-shot examples.
///
/// Draws happen sequentially, in evaluation order.
pub trait Sampler: fmt::Debug + Send {
    /// The indices of the examples in the pool, in prompt order.
    fn draw(&mut self, draw: Draw<'_>) -> Result<Vec<usize>, SamplerError>;

    /// [`Sampler::draw`] for several documents in sequence, with one item of `excluded` per document. Samplers that
    /// run in another process override it to save round trips.
    fn draw_many(&mut self, draw: Draw<'_>, excluded: &[Option<&Dict>]) -> Vec<Drawn> {
        let Draw { pool, count, random, dialect, .. } = draw;
        let one = |excluded: Option<&Dict>| {
            self.draw(Draw { pool, count, excluded, random: &mut *random, dialect })
        };
        excluded.iter().copied().map(one).collect()
    }
}

/// The pool indices of a document's examples.
pub type Drawn = Result<Vec<usize>, SamplerError>;

/// The error of a failed draw.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SamplerError {
    /// The pool is empty.
    #[error("There are no documents to draw few-shot examples from")]
    Empty,
    /// The pool is too small.
    #[error("Cannot draw {wanted} few-shot examples from {available} documents")]
    TooFew {
        /// The number of documents needed.
        wanted: usize,
        /// The number of documents in the pool.
        available: usize,
    },
    /// A document of the pool could not be read.
    #[error("Cannot read document {index} of the examples")]
    Document {
        /// The index in the pool.
        index: usize,
        /// The error of the dataset.
        #[source]
        source: DocumentError,
    },
    /// No sampler has the name.
    #[error(transparent)]
    Unknown(#[from] UnknownName),
    /// The host that runs the sampler failed.
    #[error(transparent)]
    Host(HostError),
    /// Any other failure of the sampler.
    #[error("{0}")]
    Other(String),
}

impl From<RandomError> for SamplerError {
    fn from(error: RandomError) -> Self {
        match error {
            RandomError::SampleTooLarge { wanted, population } => {
                Self::TooFew { wanted, available: population }
            }
            other => Self::Other(other.to_string()),
        }
    }
}

/// Reads a document of the pool.
fn document(pool: &dyn Documents, index: usize) -> Result<Arc<Dict>, SamplerError> {
    pool.get(index).map_err(|source| SamplerError::Document { index, source })
}

/// The built-in samplers.
pub(crate) fn built_in() -> Vec<SamplerEntry> {
    [default::entry(), first_n::entry()].into_iter().map(SamplerEntry::built_in).collect()
}

impl Registry {
    /// Creates the sampler in effect for a name; the host runs it if Python code registered it.
    ///
    /// ```
    /// use lmeval_scoring::NoHost;
    /// use lmeval_scoring::registry::{Registry, SamplerEntry};
    /// use lmeval_scoring::sampler::{Draw, Sampler, SamplerError};
    ///
    /// #[derive(Debug)]
    /// struct Last;
    ///
    /// impl Sampler for Last {
    ///     fn draw(&mut self, draw: Draw<'_>) -> Result<Vec<usize>, SamplerError> {
    ///         Ok((draw.pool.len().saturating_sub(draw.count)..draw.pool.len()).collect())
    ///     }
    /// }
    ///
    /// let mut registry = Registry::default();
    /// registry.register(SamplerEntry::new("last", || Box::new(Last))).unwrap();
    /// assert!(registry.sampler("last", &NoHost, None).is_ok());
    /// assert_eq!(registry.samplers.names(), ["default", "first_n", "last"]);
    /// ```
    pub fn sampler(
        &self,
        name: &str,
        host: &dyn Host,
        seed: Option<i64>,
    ) -> Result<Box<dyn Sampler>, SamplerError> {
        match &self.samplers.find(name)?.code {
            Code::BuiltIn(make) | Code::Program(make) => Ok(make()),
            Code::Python(registered) => host.sampler(&registered.function, seed).map_err(SamplerError::Host),
            Code::TaskCode => Err(self.samplers.unknown(name).into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::NoHost;
    use crate::registry::Registered;
    use lmeval_pycompat::Function;

    #[test]
    fn unknown_names_list_similar_ones() {
        let error = Registry::default().sampler("first_m", &NoHost, None).unwrap_err();
        assert!(matches!(error, SamplerError::Unknown(unknown) if unknown.nearest == ["first_n"]));
    }

    #[test]
    fn registered_classes_need_a_host() {
        let function = Function { directory: String::new(), reference: "utils.Mine".to_owned() };
        let mut registry = Registry::default();
        for name in ["default", "mine"] {
            let (function, facts) = (Arc::new(function.clone()), Dict::new());
            registry.add_python("sampler", name, Registered { function, facts });
            let error = registry.sampler(name, &NoHost, None).unwrap_err();
            assert!(matches!(error, SamplerError::Host(HostError::NeedsPython { .. })), "{error}");
        }
    }
}
