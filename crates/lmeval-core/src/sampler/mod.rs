//! Samplers: which documents of a pool become examples. One file each.

mod default;
mod first_n;

use std::fmt;
use std::sync::Arc;

use lmeval_pycompat::Dict;
use lmeval_pycompat::random::{Random, RandomError};

pub use self::default::DefaultSampler;
pub use self::first_n::FirstN;
use crate::dialect::Dialect;
use crate::document::{DocumentError, Documents};
use crate::host::HostError;
use crate::near::nearest;
use crate::registry::UnknownName;

/// What a sampler is asked for: examples for one evaluated document.
#[derive(Debug)]
pub struct Draw<'a> {
    /// The documents to choose from.
    pub pool: &'a dyn Documents,
    /// How many examples are wanted, at least one.
    pub count: usize,
    /// The evaluated document, where it must not be its own example.
    pub excluded: Option<&'a Dict>,
    /// The generator of the task, which goes on from document to document.
    pub random: &'a mut Random,
    /// The rules of the run.
    pub dialect: &'a Dialect,
}

/// Chooses examples.
///
/// Draws are made one after the other, in the order in which documents are evaluated.
pub trait Sampler: fmt::Debug + Send {
    /// The positions of the examples in the pool, in the order of the prompt.
    fn draw(&mut self, draw: Draw<'_>) -> Result<Vec<usize>, SamplerError>;

    /// [`Sampler::draw`] for several documents, one after the other; `excluded` has an item for each of them.
    /// Samplers that something outside of this program runs override it.
    fn draw_many(&mut self, draw: Draw<'_>, excluded: &[Option<&Dict>]) -> Vec<Drawn> {
        let Draw { pool, count, random, dialect, .. } = draw;
        let one = |excluded: Option<&Dict>| {
            self.draw(Draw { pool, count, excluded, random: &mut *random, dialect })
        };
        excluded.iter().copied().map(one).collect()
    }
}

/// The positions of the examples of a document.
pub type Drawn = Result<Vec<usize>, SamplerError>;

/// Why there are no examples.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SamplerError {
    /// The pool is empty.
    #[error("There are no documents to take examples from")]
    Empty,
    /// The pool is too small.
    #[error("{wanted} examples are wanted, and there are {available} documents to take them from")]
    TooFew {
        /// How many documents are needed.
        wanted: usize,
        /// How many there are.
        available: usize,
    },
    /// A document of the pool cannot be read.
    #[error("Cannot read document {index} of the examples")]
    Document {
        /// The position in the pool.
        index: usize,
        /// The cause.
        #[source]
        source: DocumentError,
    },
    /// Something outside of this program that runs the sampler failed.
    #[error(transparent)]
    Host(HostError),
    /// The sampler failed in a way of its own.
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

/// A document of a pool.
fn document(pool: &dyn Documents, index: usize) -> Result<Arc<Dict>, SamplerError> {
    pool.get(index).map_err(|source| SamplerError::Document { index, source })
}

/// Makes a sampler for a task.
pub type SamplerFactory = Arc<dyn Fn() -> Box<dyn Sampler> + Send + Sync>;

/// A built-in sampler: its name and how it is made.
type BuiltIn = (&'static str, fn() -> Box<dyn Sampler>);

/// The built-in samplers.
const BUILT_IN: [BuiltIn; 2] = [("default", || Box::new(DefaultSampler)), ("first_n", || Box::new(FirstN))];

/// The samplers that tasks can name: the built-in ones and those of the program.
///
/// ```
/// use std::sync::Arc;
/// use lmeval_core::sampler::{Draw, Sampler, SamplerError, Samplers};
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
/// let mut samplers = Samplers::default();
/// samplers.register("last", Arc::new(|| Box::new(Last)));
/// assert_eq!(samplers.names(), ["default", "first_n", "last"]);
/// ```
#[derive(Clone, Default)]
pub struct Samplers {
    added: Vec<(String, SamplerFactory)>,
}

impl Samplers {
    /// Adds a sampler; the newest of a name counts.
    pub fn register(&mut self, name: impl Into<String>, factory: SamplerFactory) {
        let name = name.into();
        self.added.retain(|(known, _)| *known != name);
        self.added.push((name, factory));
    }

    /// A new sampler of a name.
    pub fn make(&self, name: &str) -> Result<Box<dyn Sampler>, UnknownName> {
        if let Some((_, factory)) = self.added.iter().find(|(known, _)| known == name) {
            return Ok(factory());
        }
        if let Some((_, factory)) = BUILT_IN.iter().find(|(known, _)| *known == name) {
            return Ok(factory());
        }
        let known = self.names();
        Err(UnknownName {
            kind: "sampler",
            name: name.to_owned(),
            nearest: nearest(name, known.iter().copied()).into_iter().map(str::to_owned).collect(),
            known: known.into_iter().map(str::to_owned).collect(),
        })
    }

    /// All names, sorted.
    pub fn names(&self) -> Vec<&str> {
        let built_in = BUILT_IN.iter().map(|(name, _)| *name);
        let mut names: Vec<&str> = built_in.chain(self.added.iter().map(|(name, _)| name.as_str())).collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}

impl fmt::Debug for Samplers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Samplers").field(&self.names()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::{Entry, SAMPLERS};

    #[test]
    fn every_listed_sampler_is_there() {
        let listed: Vec<&str> = SAMPLERS.iter().map(Entry::name).collect();
        assert_eq!(Samplers::default().names(), listed);
        let unknown = Samplers::default().make("first_m").unwrap_err();
        assert_eq!(unknown.nearest, ["first_n"]);
    }
}
