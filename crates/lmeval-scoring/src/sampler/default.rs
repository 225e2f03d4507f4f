//! The sampler `default`: random examples.

use super::{Draw, Sampler, SamplerError, document};
use crate::registry::SamplerEntry;

/// The entry in the registry.
pub(super) fn entry() -> SamplerEntry {
    SamplerEntry::new("default", || Box::new(DefaultSampler))
        .summary("Random examples, drawn with the few-shot seed")
}

/// Random examples, drawn with the few-shot seed.
#[derive(Clone, Copy, Debug, Default)]
pub struct DefaultSampler;

impl Sampler for DefaultSampler {
    fn draw(&mut self, draw: Draw<'_>) -> Result<Vec<usize>, SamplerError> {
        let Draw { pool, count, excluded, random, .. } = draw;
        if pool.is_empty() {
            return Err(SamplerError::Empty);
        }
        let Some(excluded) = excluded.filter(|document| !document.is_empty()) else {
            return Ok(random.sample_indices(pool.len(), count)?);
        };
        // Reference: always draws one more than needed, whether or not the evaluated document is in the pool.
        let mut kept = Vec::with_capacity(count.min(pool.len()));
        for index in random.sample_indices(pool.len(), count.saturating_add(1))? {
            if kept.len() < count && *document(pool, index)? != *excluded {
                kept.push(index);
            }
        }
        if kept.len() == count {
            return Ok(kept);
        }
        // Reference: several copies of the document were drawn, so all of them are removed from the pool.
        let mut others = Vec::with_capacity(pool.len());
        for index in 0..pool.len() {
            if *document(pool, index)? != *excluded {
                others.push(index);
            }
        }
        Ok(random.sample(&others, count)?)
    }
}

#[cfg(test)]
mod tests {
    use lmeval_pycompat::random::Random;
    use lmeval_pycompat::{Dict, Value};

    use super::*;
    use lmeval_core::Dialect;
    use lmeval_core::MemoryDocuments;

    fn numbered(number: i64) -> Dict {
        [(Value::str("n"), Value::Int(number))].into_iter().collect()
    }

    fn draws(pool: &MemoryDocuments, excluded: &[Option<Dict>], count: usize) -> Vec<Vec<usize>> {
        let mut random = Random::from_seed(1234);
        let mut one = |excluded: &Option<Dict>| {
            let excluded = excluded.as_ref();
            let draw = Draw { pool, count, excluded, random: &mut random, dialect: &Dialect::V05 };
            DefaultSampler.draw(draw).unwrap()
        };
        excluded.iter().map(&mut one).collect()
    }

    #[test]
    fn random_stream_continues_across_documents() {
        let ten = MemoryDocuments::new((0..10).map(numbered).collect());
        let forty = MemoryDocuments::new((0..40).map(numbered).collect());
        assert_eq!(draws(&ten, &[None, None, None], 3), [[7, 1, 0], [1, 0, 9], [1, 5, 3]]);
        // Draws of four are 7 1 0 9, 9 0 1 8 and 5 3 0 7.
        let other = || Some(numbered(99));
        assert_eq!(draws(&ten, &[other(), other(), other()], 3), [[7, 1, 0], [9, 0, 1], [5, 3, 0]]);
        let evaluated = [Some(numbered(1)), Some(numbered(8)), Some(numbered(5))];
        assert_eq!(draws(&ten, &evaluated, 3), [[7, 0, 9], [9, 0, 1], [3, 0, 7]]);
        assert_eq!(draws(&ten, &[Some(Dict::new())], 3), [[7, 1, 0]]);
        assert_eq!(draws(&forty, &[None, None], 3), [[28, 7, 0], [5, 37, 2]]);
    }

    #[test]
    fn excludes_copies_of_the_document() {
        let pool = MemoryDocuments::new([1, 1, 1, 1, 2, 3].map(numbered).to_vec());
        for drawn in draws(&pool, &[Some(numbered(1)), Some(numbered(1)), Some(numbered(1))], 2) {
            let mut sorted = drawn.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, [4, 5]);
        }
    }

    #[test]
    fn rejects_a_pool_that_is_too_small() {
        let pool = MemoryDocuments::new((0..3).map(numbered).collect());
        let mut random = Random::from_seed(1);
        let evaluated = numbered(1);
        let excluded = Some(&evaluated);
        let draw = Draw { pool: &pool, count: 3, excluded, random: &mut random, dialect: &Dialect::V05 };
        let error = DefaultSampler.draw(draw).unwrap_err();
        assert_eq!(error.to_string(), "Cannot draw 4 few-shot examples from 3 documents");
        let empty = MemoryDocuments::default();
        let draw =
            Draw { pool: &empty, count: 1, excluded: None, random: &mut random, dialect: &Dialect::V05 };
        assert!(matches!(DefaultSampler.draw(draw), Err(SamplerError::Empty)));
    }
}
