//! Pairing the documents of two runs.

use crate::read::{DocKey, Pipeline, Row};

/// Documents of one task and pipeline that both runs scored.
#[derive(Clone, Debug, Default)]
pub struct Alignment {
    /// Indices of rows, base and new, sorted by the ids of the base run: tests draw random numbers for one after the other, and the
    /// order of lines must not change their outcome.
    pub pairs: Vec<(u32, u32)>,
    /// Whether documents were paired by their hashes and not by their ids.
    pub by_hash: bool,
    /// Documents that only the base run has.
    pub only_base: usize,
    /// Documents that only the new run has.
    pub only_new: usize,
}

/// Pairs documents by their hash, or by their id where one of the files has no hashes. Several equal documents of a task
/// are paired in the order of their ids.
pub fn align(base: &Pipeline, new: &Pipeline) -> Alignment {
    let by_hash = |rows: &[Row]| rows.iter().all(|row| matches!(row.key, DocKey::Hash(_)));
    let use_hashes = by_hash(&base.rows) && by_hash(&new.rows);
    let key = |row: &Row| if use_hashes { row.key } else { DocKey::Id(row.doc_id) };
    let (left, right) = (sorted(&base.rows, key), sorted(&new.rows, key));
    let mut alignment = Alignment { by_hash: use_hashes, ..Alignment::default() };
    let (mut i, mut j) = (0, 0);
    while i < left.len() && j < right.len() {
        let (a, b) = (left[i], right[j]);
        match key(&base.rows[a as usize]).cmp(&key(&new.rows[b as usize])) {
            std::cmp::Ordering::Less => i += 1,
            std::cmp::Ordering::Greater => j += 1,
            std::cmp::Ordering::Equal => {
                alignment.pairs.push((a, b));
                (i, j) = (i + 1, j + 1);
            }
        }
    }
    alignment.only_base = left.len() - alignment.pairs.len();
    alignment.only_new = right.len() - alignment.pairs.len();
    alignment.pairs.sort_unstable_by_key(|&(left, right)| (base.rows[left as usize].doc_id, left, right));
    alignment
}

fn sorted(rows: &[Row], key: impl Fn(&Row) -> DocKey) -> Vec<u32> {
    let mut order: Vec<u32> = (0..rows.len() as u32).collect();
    order.sort_unstable_by_key(|&index| {
        let row = &rows[index as usize];
        (key(row), row.doc_id, index)
    });
    order
}
