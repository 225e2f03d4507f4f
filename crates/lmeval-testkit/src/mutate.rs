//! Damaged input for parsers, the same in every run.

use crate::dice::{Dice, fuzz_cases, fuzz_seed};

/// Calls `parse` with damaged copies of the samples: truncated, or with bytes changed, inserted, removed or moved.
///
/// The test fails if the parser panics. `LM_EVAL_FUZZ_CASES` replaces the number of copies.
pub fn mutate(samples: &[&[u8]], copies: usize, mut parse: impl FnMut(&[u8])) {
    let mut dice = Dice::new(fuzz_seed(7));
    for copy in 0..fuzz_cases(copies) {
        let mut bytes = samples[copy % samples.len()].to_vec();
        for _ in 0..=dice.roll(3) {
            damage(&mut bytes, &mut dice);
        }
        parse(&bytes);
    }
}

fn damage(bytes: &mut Vec<u8>, dice: &mut Dice) {
    // Half of the damage goes into the header, where it matters most.
    let reach = if dice.roll(2) == 0 { bytes.len().min(256) } else { bytes.len() };
    let position = dice.roll(reach);
    match dice.roll(7) {
        0 => bytes.truncate(dice.roll(bytes.len())),
        1 => bytes.insert(position, b"{}[]\",:\\\n\r\0\xff"[dice.roll(12)]),
        _ if bytes.is_empty() => {}
        2 => bytes[position] = dice.roll(256) as u8,
        3 => bytes[position] ^= 1 << dice.roll(8),
        4 => drop(bytes.remove(position)),
        5 => bytes[position] = [0, 1, 0x7f, 0x80, 0xff][dice.roll(5)],
        _ => {
            let from = dice.roll(bytes.len());
            let length = dice.roll(16).min(bytes.len() - from).min(bytes.len() - position);
            bytes.copy_within(from..from + length, position);
        }
    }
}
