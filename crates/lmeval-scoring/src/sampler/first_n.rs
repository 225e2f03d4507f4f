//! The sampler `first_n`: examples in a fixed order.

use super::{Draw, Sampler, SamplerError, document};
use crate::registry::SamplerEntry;

/// The entry in the registry.
pub(super) fn entry() -> SamplerEntry {
    SamplerEntry::new("first_n", || Box::new(FirstN)).summary("The first examples of the pool, in order")
}

/// The first examples of the pool, in order.
#[derive(Clone, Copy, Debug, Default)]
pub struct FirstN;

impl Sampler for FirstN {
    fn draw(&mut self, draw: Draw<'_>) -> Result<Vec<usize>, SamplerError> {
        let Draw { pool, count, excluded, dialect, .. } = draw;
        let mut kept = Vec::with_capacity(count.min(pool.len()));
        let excluded = excluded.filter(|_| dialect.first_n_skips_evaluated);
        for index in 0..pool.len() {
            if kept.len() == count {
                break;
            }
            match excluded {
                Some(excluded) if *document(pool, index)? == *excluded => {}
                _ => kept.push(index),
            }
        }
        if kept.len() < count {
            return Err(SamplerError::TooFew { wanted: count, available: kept.len() });
        }
        Ok(kept)
    }
}

#[cfg(test)]
mod tests {
    use lmeval_pycompat::random::Random;
    use lmeval_pycompat::{Dict, Value};

    use super::*;
    use lmeval_core::Dialect;
    use lmeval_core::MemoryDocuments;

    #[test]
    fn skips_evaluated_document_only_in_dialect_0_4() {
        let numbered =
            |number: i64| -> Dict { [(Value::str("n"), Value::Int(number))].into_iter().collect() };
        let pool = MemoryDocuments::new((0..3).map(numbered).collect());
        let evaluated = numbered(0);
        let mut random = Random::from_seed(1);
        let mut first = |count: usize, dialect: &Dialect| {
            FirstN.draw(Draw { pool: &pool, count, excluded: Some(&evaluated), random: &mut random, dialect })
        };
        assert_eq!(first(2, &Dialect::V05).unwrap(), [0, 1]);
        assert_eq!(first(2, &Dialect::V04).unwrap(), [1, 2]);
        assert_eq!(first(3, &Dialect::V05).unwrap(), [0, 1, 2]);
        assert!(first(3, &Dialect::V04).is_err());
        assert!(first(4, &Dialect::V05).is_err());
    }
}
