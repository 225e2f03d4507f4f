//! The number of edits between two lists of words, shifts included.

use self::Operation::{Deletion, Insertion, Match, Nothing, Substitution};

const MAXIMUM_SHIFT_LENGTH: usize = 10;
const MAXIMUM_SHIFT_DISTANCE: usize = 50;
const MAXIMUM_CANDIDATES: usize = 1000;
const BEAM_WIDTH: usize = 25;
const INFINITE: u64 = 10_000_000_000_000_000;

/// The edits that turn `prediction` into `reference`, found greedily: the best shift is applied as long as it helps.
pub(super) fn edits(prediction: &[u32], reference: &[u32]) -> usize {
    if reference.is_empty() {
        return prediction.len();
    }
    let mut words = prediction.to_vec();
    let mut shifts = 0;
    let mut candidates = 0;
    loop {
        let matrix = Matrix::new(&words, reference);
        let best = best_shift(&words, reference, &matrix, &mut candidates);
        match best {
            // Reference: once too many shifts were tried, the one just found is dropped.
            Some(shift) if candidates < MAXIMUM_CANDIDATES && shift.gain > 0 => {
                shifts += 1;
                words = shift.words;
            }
            _ => return shifts + matrix.distance() as usize,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Match,
    Substitution,
    Deletion,
    Insertion,
    Nothing,
}

/// The distances of all prefixes, within a beam around the diagonal.
struct Matrix {
    rows: Vec<Vec<(u64, Operation)>>,
}

impl Matrix {
    fn new(words: &[u32], reference: &[u32]) -> Self {
        let first = (0..=reference.len()).map(|column| (column as u64, Insertion)).collect();
        let mut rows: Vec<Vec<_>> = vec![first];
        let beam = Beam::new(words.len(), reference.len());
        for row in 1..=words.len() {
            let mut next = vec![(INFINITE, Nothing); reference.len() + 1];
            beam.fill(row, words[row - 1], reference, &rows[row - 1], &mut next);
            rows.push(next);
        }
        Self { rows }
    }

    fn distance(&self) -> u64 {
        self.rows.last().and_then(|row| row.last()).map_or(0, |cell| cell.0)
    }

    /// The distance of other words of the same number, of which the first ones are the same.
    fn distance_of(&self, words: &[u32], same: usize, reference: &[u32]) -> u64 {
        let beam = Beam::new(words.len(), reference.len());
        let mut row = self.rows[same].clone();
        for position in same + 1..=words.len() {
            let mut next = vec![(INFINITE, Nothing); reference.len() + 1];
            beam.fill(position, words[position - 1], reference, &row, &mut next);
            row = next;
        }
        row.last().map_or(0, |cell| cell.0)
    }

    fn alignment(&self) -> Alignment {
        let mut operations = Vec::new();
        let (mut row, mut column) = (self.rows.len() - 1, self.rows[0].len() - 1);
        while row > 0 || column > 0 {
            let operation = self.rows[row][column].1;
            operations.push(operation);
            match operation {
                Match | Substitution if row > 0 && column > 0 => {
                    row -= 1;
                    column -= 1;
                }
                Insertion if column > 0 => column -= 1,
                _ if row > 0 => row -= 1,
                _ => column -= 1,
            }
        }
        let mut alignment = Alignment::default();
        let mut position = -1;
        for operation in operations.into_iter().rev() {
            if operation != Insertion {
                position += 1;
                alignment.word_errors.push(operation != Match);
            }
            if operation != Deletion {
                alignment.positions.push(position);
                alignment.reference_errors.push(operation != Match);
            }
        }
        alignment
    }
}

/// The part of each row that is computed.
struct Beam {
    ratio: f64,
    width: i64,
    rows: usize,
}

impl Beam {
    fn new(words: usize, reference: usize) -> Self {
        let ratio = if words == 0 { 1.0 } else { reference as f64 / words as f64 };
        // With very different lengths, neighbouring rows would not overlap.
        let width = if (BEAM_WIDTH as f64) < ratio / 2.0 {
            (ratio / 2.0 + BEAM_WIDTH as f64).ceil() as i64
        } else {
            BEAM_WIDTH as i64
        };
        Self { ratio, width, rows: words }
    }

    fn fill(
        &self,
        row: usize,
        word: u32,
        reference: &[u32],
        above: &[(u64, Operation)],
        cells: &mut [(u64, Operation)],
    ) {
        let diagonal = (row as f64 * self.ratio).floor() as i64;
        let start = (diagonal - self.width).max(0) as usize;
        let end = if row == self.rows {
            reference.len() + 1
        } else {
            ((diagonal + self.width).max(0) as usize).min(reference.len() + 1)
        };
        for column in start..end {
            if column == 0 {
                cells[0] = (above[0].0 + 1, Deletion);
                continue;
            }
            let (cost, operation) =
                if word == reference[column - 1] { (0, Match) } else { (1, Substitution) };
            for candidate in [
                (above[column - 1].0 + cost, operation),
                (above[column].0 + 1, Deletion),
                (cells[column - 1].0 + 1, Insertion),
            ] {
                if candidate.0 < cells[column].0 {
                    cells[column] = candidate;
                }
            }
        }
    }
}

/// Where each reference word stands among the words, and which words are wrong.
#[derive(Default)]
struct Alignment {
    positions: Vec<i64>,
    word_errors: Vec<bool>,
    reference_errors: Vec<bool>,
}

struct Shift {
    gain: i64,
    length: usize,
    start: usize,
    target: usize,
    words: Vec<u32>,
}

impl Shift {
    /// Better shifts gain more, are longer, start earlier and go less far; the rest is the same shift.
    fn rank(&self) -> (i64, usize, i64, i64) {
        (self.gain, self.length, -(self.start as i64), -(self.target as i64))
    }
}

fn best_shift(words: &[u32], reference: &[u32], matrix: &Matrix, candidates: &mut usize) -> Option<Shift> {
    let before = matrix.distance() as i64;
    let alignment = matrix.alignment();
    let mut best: Option<Shift> = None;
    for (start, reference_start, length) in common_runs(words, reference) {
        let wrong = |errors: &[bool], start: usize| errors[start..start + length].contains(&true);
        let aligned = alignment.positions[reference_start];
        if !wrong(&alignment.word_errors, start)
            || !wrong(&alignment.reference_errors, reference_start)
            || (start as i64..(start + length) as i64).contains(&aligned)
        {
            continue;
        }
        let mut previous = None;
        for offset in 0..=length {
            let target = match (reference_start + offset).checked_sub(1) {
                None => 0,
                Some(position) => (alignment.positions[position] + 1) as usize,
            };
            if previous == Some(target) {
                continue;
            }
            previous = Some(target);
            let shifted = shift(words, start, length, target);
            let same = words.iter().zip(&shifted).take_while(|(left, right)| left == right).count();
            let gain = before - matrix.distance_of(&shifted, same, reference) as i64;
            *candidates += 1;
            let candidate = Shift { gain, length, start, target, words: shifted };
            if best.as_ref().is_none_or(|best| candidate.rank() > best.rank()) {
                best = Some(candidate);
            }
        }
        if *candidates >= MAXIMUM_CANDIDATES {
            break;
        }
    }
    best
}

/// Every run of equal words: its start in both lists and its length, shorter ones first.
fn common_runs<'a>(
    words: &'a [u32],
    reference: &'a [u32],
) -> impl Iterator<Item = (usize, usize, usize)> + 'a {
    (0..words.len()).flat_map(move |start| {
        let near = start.saturating_sub(MAXIMUM_SHIFT_DISTANCE)
            ..(start + MAXIMUM_SHIFT_DISTANCE + 1).min(reference.len());
        near.flat_map(move |reference_start| {
            let equal = words[start..]
                .iter()
                .zip(&reference[reference_start..])
                .take(MAXIMUM_SHIFT_LENGTH)
                .take_while(|(left, right)| left == right)
                .count();
            (1..=equal).map(move |length| (start, reference_start, length))
        })
    })
}

fn shift(words: &[u32], start: usize, length: usize, target: usize) -> Vec<u32> {
    let end = start + length;
    let run = &words[start..end];
    if target < start {
        [&words[..target], run, &words[target..start], &words[end..]].concat()
    } else {
        // Within the run, the target counts the words that follow it.
        let target = if target > end { target } else { (length + target).min(words.len()) };
        [&words[..start], &words[end..target], run, &words[target..]].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shifts_count_once() {
        assert_eq!(edits(&[4, 5, 6, 1, 2, 3], &[1, 2, 3, 4, 5, 6]), 1);
        assert_eq!(edits(&[1, 2, 3], &[1, 2, 3]), 0);
        assert_eq!(edits(&[1, 9, 3], &[1, 2, 3]), 1);
        assert_eq!(edits(&[], &[1, 2]), 2);
        assert_eq!(edits(&[1, 2], &[]), 2);
    }

    #[test]
    fn runs_move_before_and_behind() {
        assert_eq!(shift(&[0, 1, 2, 3, 4], 3, 2, 1), [0, 3, 4, 1, 2]);
        assert_eq!(shift(&[0, 1, 2, 3, 4], 0, 2, 4), [2, 3, 0, 1, 4]);
        assert_eq!(shift(&[0, 1, 2, 3, 4], 0, 2, 1), [2, 0, 1, 3, 4]);
    }

    #[test]
    fn very_different_lengths_end() {
        let long: Vec<u32> = (0..400).collect();
        // The only match is outside the beam.
        assert_eq!(edits(&[7], &long), 400);
        assert_eq!(edits(&long, &[7]), 399);
    }
}
