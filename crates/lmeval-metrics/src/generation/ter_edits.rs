//! TER's edit count between two lists of words, in which moving a run of words is one edit.
//!
//! The measure is that of Snover et al., "A Study of Translation Edit Rate with Targeted Human Annotation" (AMTA
//! 2006). Finding the best sequence of moves is too expensive, so every tool searches only part of the space, and
//! equal scores require equal choices. sacrebleu's choices are:
//!
//! 1. A missing, a superfluous and a wrong word cost 1 each, and so does a move. With an empty reference every word
//!    is superfluous and nothing is moved.
//! 2. Distances are computed in a band. Row `i` of `n` (the first `i` words) has the columns from `d - w` up to but
//!    not including `d + w`, where `d = ⌊i · r⌋` and `r` is the length of the reference over `n`. `w` is 25, or
//!    `⌈r / 2 + 25⌉` if `r / 2` is larger than 25. Row 0 is complete and the last row reaches the last column.
//! 3. If several last steps give the same distance, the alignment prefers to pair two words, then to drop a word,
//!    then to insert one.
//! 4. Moves are greedy: each round makes the best move, until none improves the distance.
//! 5. A round considers runs of 1 to 10 words that are equal in both lists and start at most 50 positions apart,
//!    ordered by start among the words, then by start in the reference, then by length.
//! 6. A run is worth moving if the alignment has an error in it on both sides, and aligns its first reference word
//!    outside the run itself.
//! 7. The first target position is where the alignment has consumed the reference up to the run, then after each of
//!    the run's words. A position equal to the previous one is skipped. A position inside the run, or at either end
//!    of it, means that many words further right.
//! 8. The best move gains most; ties go to the longest run, then the leftmost start, then the leftmost target
//!    position.
//! 9. At most about 1,000 moves are tried in all rounds together. The limit is checked after each run that was tried;
//!    the round that reaches it makes no move.

use std::collections::HashMap;
use std::ops::Range;

const LONGEST_RUN: usize = 10;
const FARTHEST_RUN: usize = 50;
const MOST_TRIALS: usize = 1000;
const HALF_BAND: usize = 25;

/// The distance of a cell outside the band: larger than any real one, without overflow on addition.
const FAR: u32 = u32::MAX / 2;

/// The number of edits that turn `words` into `reference`.
pub(super) fn edits(words: &[u32], reference: &[u32]) -> usize {
    if reference.is_empty() {
        return words.len();
    }
    let mut search = Search {
        grid: Grid::new(words.len(), reference),
        positions: positions(reference),
        words: words.to_vec(),
        trials: 0,
    };
    let mut moves = 0;
    while let Some(best) = search.round() {
        best.apply(&mut search.words);
        moves += 1;
    }
    moves + search.grid.distance() as usize
}

/// The positions of each word in the reference, from left to right.
fn positions(reference: &[u32]) -> HashMap<u32, Vec<usize>> {
    let mut positions: HashMap<u32, Vec<usize>> = HashMap::new();
    for (position, word) in reference.iter().enumerate() {
        positions.entry(*word).or_default().push(position);
    }
    positions
}

/// Distances between prefixes of the words (rows) and of the reference (columns).
struct Grid<'r> {
    reference: &'r [u32],
    last_row: usize,
    /// Columns per row of the diagonal.
    slope: f64,
    half_band: usize,
    cells: Vec<u32>,
    /// Two scratch rows for computing the distance after a move.
    spare: [Vec<u32>; 2],
}

impl<'r> Grid<'r> {
    fn new(rows: usize, reference: &'r [u32]) -> Self {
        let slope = if rows == 0 { 1.0 } else { reference.len() as f64 / rows as f64 };
        let half_band = if slope / 2.0 > HALF_BAND as f64 {
            (slope / 2.0).ceil() as usize + HALF_BAND
        } else {
            HALF_BAND
        };
        let columns = reference.len() + 1;
        let mut cells = vec![FAR; (rows + 1) * columns];
        for (column, cell) in cells[..columns].iter_mut().enumerate() {
            *cell = column as u32;
        }
        Self {
            reference,
            last_row: rows,
            slope,
            half_band,
            cells,
            spare: [vec![FAR; columns], vec![FAR; columns]],
        }
    }

    fn columns(&self) -> usize {
        self.reference.len() + 1
    }

    fn cell(&self, row: usize, column: usize) -> u32 {
        self.cells[row * self.columns() + column]
    }

    fn distance(&self) -> u32 {
        self.cell(self.last_row, self.reference.len())
    }

    /// The columns of a row that are inside the band.
    fn band(&self, row: usize) -> Range<usize> {
        let diagonal = (row as f64 * self.slope).floor() as usize;
        let end = if row == self.last_row {
            self.columns()
        } else {
            (diagonal + self.half_band).min(self.columns())
        };
        diagonal.saturating_sub(self.half_band)..end
    }

    /// Computes all rows below `unchanged`.
    fn fill(&mut self, words: &[u32], unchanged: usize) {
        let columns = self.columns();
        for row in unchanged + 1..=self.last_row {
            let band = self.band(row);
            let (above, below) = self.cells.split_at_mut(row * columns);
            step(&above[(row - 1) * columns..], &mut below[..columns], band, words[row - 1], self.reference);
        }
    }

    /// The distance for words that differ from the grid's only below the row `unchanged`.
    fn distance_of(&mut self, words: &[u32], unchanged: usize) -> u32 {
        let columns = self.columns();
        let [mut above, mut below] = std::mem::take(&mut self.spare);
        above.copy_from_slice(&self.cells[unchanged * columns..][..columns]);
        for row in unchanged + 1..=self.last_row {
            let band = self.band(row);
            below[..band.start].fill(FAR);
            below[band.end..].fill(FAR);
            step(&above, &mut below, band, words[row - 1], self.reference);
            std::mem::swap(&mut above, &mut below);
        }
        let distance = above[columns - 1];
        self.spare = [above, below];
        distance
    }

    /// Walks back from the end, following rule 3.
    fn alignment(&self, words: &[u32]) -> Alignment {
        let (mut row, mut column) = (self.last_row, self.reference.len());
        let mut alignment = Alignment {
            consumed: vec![0; column + 1],
            wrong_words: vec![true; row],
            wrong_reference: vec![true; column],
        };
        while row > 0 || column > 0 {
            let cost = self.cell(row, column);
            let equal = row > 0 && column > 0 && words[row - 1] == self.reference[column - 1];
            if row > 0 && column > 0 && self.cell(row - 1, column - 1) + u32::from(!equal) == cost {
                alignment.consumed[column] = row;
                (row, column) = (row - 1, column - 1);
                alignment.wrong_words[row] = !equal;
                alignment.wrong_reference[column] = !equal;
            } else if row > 0 && self.cell(row - 1, column) + 1 == cost {
                row -= 1;
            } else {
                alignment.consumed[column] = row;
                column -= 1;
            }
        }
        alignment
    }
}

/// Computes the cells of a row inside the band from the row above.
fn step(above: &[u32], cells: &mut [u32], band: Range<usize>, word: u32, reference: &[u32]) {
    let mut left = FAR;
    let mut start = band.start;
    if start == 0 && band.end > 0 {
        left = above[0] + 1;
        cells[0] = left;
        start = 1;
    }
    for column in start..band.end {
        let paired = above[column - 1] + u32::from(word != reference[column - 1]);
        left = paired.min(above[column] + 1).min(left + 1);
        cells[column] = left;
    }
}

/// One way of turning the words into the reference without moves.
struct Alignment {
    /// The number of words consumed after each number of reference words.
    consumed: Vec<usize>,
    wrong_words: Vec<bool>,
    wrong_reference: Vec<bool>,
}

impl Alignment {
    /// Rule 6.
    fn is_worth_moving(&self, start: usize, reference_start: usize, length: usize) -> bool {
        let inside = start + 1..=start + length;
        self.wrong_words[start..start + length].contains(&true)
            && self.wrong_reference[reference_start..reference_start + length].contains(&true)
            && !inside.contains(&self.consumed[reference_start + 1])
    }
}

/// A run of words moved to another position, which is a rotation of everything between the two.
#[derive(Clone, Debug, PartialEq)]
struct Move {
    span: Range<usize>,
    /// The number of words in the span that change sides.
    by: usize,
}

impl Move {
    fn new(start: usize, length: usize, position: usize, words: usize) -> Self {
        let end = start + length;
        if position < start {
            return Self { span: position..end, by: start - position };
        }
        let position = if position > end { position } else { (position + length).min(words) };
        Self { span: start..position, by: length }
    }

    fn apply(&self, words: &mut [u32]) {
        words[self.span.clone()].rotate_left(self.by);
    }

    fn undo(&self, words: &mut [u32]) {
        words[self.span.clone()].rotate_right(self.by);
    }
}

struct Search<'r> {
    grid: Grid<'r>,
    positions: HashMap<u32, Vec<usize>>,
    words: Vec<u32>,
    trials: usize,
}

impl Search<'_> {
    /// The best move for the current words, if any improves the distance.
    fn round(&mut self) -> Option<Move> {
        self.grid.fill(&self.words, 0);
        let alignment = self.grid.alignment(&self.words);
        let before = i64::from(self.grid.distance());
        let mut best = None;
        for (start, reference_start, length) in self.runs() {
            if !alignment.is_worth_moving(start, reference_start, length) {
                continue;
            }
            let mut tried = None;
            for position in &alignment.consumed[reference_start..=reference_start + length] {
                if tried.replace(position) == Some(position) {
                    continue;
                }
                let candidate = Move::new(start, length, *position, self.words.len());
                let gain = before - i64::from(self.distance_after(&candidate));
                self.trials += 1;
                let rank = (gain, length, std::cmp::Reverse((start, *position)));
                if best.as_ref().is_none_or(|(best, _)| rank > *best) {
                    best = Some((rank, candidate));
                }
            }
            if self.trials >= MOST_TRIALS {
                return None;
            }
        }
        best.filter(|(rank, _)| rank.0 > 0).map(|(_, best)| best)
    }

    fn distance_after(&mut self, candidate: &Move) -> u32 {
        candidate.apply(&mut self.words);
        let distance = self.grid.distance_of(&self.words, candidate.span.start);
        candidate.undo(&mut self.words);
        distance
    }

    /// The runs of rule 5, in its order: start among the words, start in the reference, length.
    fn runs(&self) -> Vec<(usize, usize, usize)> {
        let mut runs = Vec::new();
        for (start, word) in self.words.iter().enumerate() {
            let positions = self.positions.get(word).map_or(&[][..], Vec::as_slice);
            let first = positions.partition_point(|position| position + FARTHEST_RUN < start);
            for &position in
                positions[first..].iter().take_while(|position| **position <= start + FARTHEST_RUN)
            {
                let equal = self.words[start..]
                    .iter()
                    .zip(&self.grid.reference[position..])
                    .take(LONGEST_RUN)
                    .take_while(|(word, wanted)| word == wanted)
                    .count();
                runs.extend((1..=equal).map(|length| (start, position, length)));
            }
        }
        runs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_a_shift_once() {
        assert_eq!(edits(&[4, 5, 6, 1, 2, 3], &[1, 2, 3, 4, 5, 6]), 1);
        assert_eq!(edits(&[1, 2, 3], &[1, 2, 3]), 0);
        assert_eq!(edits(&[1, 9, 3], &[1, 2, 3]), 1);
        assert_eq!(edits(&[], &[1, 2]), 2);
        assert_eq!(edits(&[1, 2], &[]), 2);
    }

    #[test]
    fn moves_runs_left_and_right() {
        let moved = |start, length, position| {
            let mut words = [0, 1, 2, 3, 4];
            let candidate = Move::new(start, length, position, words.len());
            candidate.apply(&mut words);
            let after = words;
            candidate.undo(&mut words);
            assert_eq!(words, [0, 1, 2, 3, 4]);
            after
        };
        assert_eq!(moved(3, 2, 1), [0, 3, 4, 1, 2]);
        assert_eq!(moved(0, 2, 4), [2, 3, 0, 1, 4]);
        assert_eq!(moved(0, 2, 1), [2, 0, 1, 3, 4]);
        assert_eq!(moved(3, 2, 4), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn handles_very_different_lengths() {
        let long: Vec<u32> = (0..400).collect();
        // The only match is outside the band.
        assert_eq!(edits(&[7], &long), 400);
        assert_eq!(edits(&long, &[7]), 399);
    }
}
