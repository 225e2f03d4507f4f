//! Pairs of tokens that concatenate to a token, for vocabularies that do not list their merges.

use rustc_hash::FxHashMap;

/// The longest merged token in bytes. No known vocabulary has a longer one.
pub(crate) const LONGEST: usize = 1024;
/// Memory limit for all pairs, in bytes. The largest known vocabularies need a third of it; long runs of one letter would need
/// the square of the vocabulary's size.
const MAX_BYTES: usize = 1 << 27;
/// Memory of a pair besides its text.
const PAIR_BYTES: usize = 64;

/// Finds pairs within the memory limit.
#[derive(Debug, Default)]
pub(crate) struct Pairs {
    bytes: usize,
}

impl Pairs {
    /// The pairs of known tokens that concatenate to `token`, by the length of the first one.
    pub(crate) fn of<'t>(
        &mut self,
        token: &'t str,
        ids: &FxHashMap<&str, u32>,
    ) -> Result<Vec<(&'t str, &'t str)>, String> {
        let mut pairs = Vec::new();
        for (offset, _) in token.char_indices().skip(1) {
            let (left, right) = token.split_at(offset);
            if ids.contains_key(left) && ids.contains_key(right) {
                self.bytes += token.len() + PAIR_BYTES;
                if self.bytes > MAX_BYTES {
                    return Err("its vocabulary has too many possible merges".into());
                }
                pairs.push((left, right));
            }
        }
        Ok(pairs)
    }
}

/// Refuses a token too long for [`Pairs::of`], whose time is the square of the length.
pub(crate) fn check_length(index: usize, token: &str) -> Result<(), String> {
    if token.len() > LONGEST {
        return Err(format!("its token {index} has {} bytes; the limit is {LONGEST}", token.len()));
    }
    Ok(())
}
