//! Damaged input for parsers, the same in every run.

/// Numbers that look random and are the same in every run.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// Dice that a seed loads. `LM_EVAL_FUZZ_SEED` replaces the seed, for a longer search by hand.
    pub fn new(seed: u64) -> Self {
        Self(setting("LM_EVAL_FUZZ_SEED").unwrap_or(seed))
    }

    /// A number below a limit; 0 where the limit is 0.
    pub fn roll(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit.max(1)
    }
}

/// Calls a parser with damaged copies of samples: cut off, with bytes changed, inserted, removed or copied elsewhere.
/// It fails by panicking. `LM_EVAL_FUZZ_CASES` replaces the number of copies.
pub fn mutate(samples: &[&[u8]], copies: usize, mut parse: impl FnMut(&[u8])) {
    let mut dice = Dice::new(7);
    let copies = setting("LM_EVAL_FUZZ_CASES").map_or(copies, |cases| cases as usize);
    for copy in 0..copies {
        let mut bytes = samples[copy % samples.len()].to_vec();
        for _ in 0..=dice.roll(3) {
            damage(&mut bytes, &mut dice);
        }
        parse(&bytes);
    }
}

fn damage(bytes: &mut Vec<u8>, dice: &mut Dice) {
    // Headers are at the beginning, and decide most.
    let reach = if dice.roll(2) == 0 { bytes.len().min(256) } else { bytes.len() };
    let place = dice.roll(reach);
    match dice.roll(7) {
        0 => bytes.truncate(dice.roll(bytes.len())),
        1 => bytes.insert(place, b"{}[]\",:\\\n\r\0\xff"[dice.roll(12)]),
        _ if bytes.is_empty() => {}
        2 => bytes[place] = dice.roll(256) as u8,
        3 => bytes[place] ^= 1 << dice.roll(8),
        4 => drop(bytes.remove(place)),
        5 => bytes[place] = [0, 1, 0x7f, 0x80, 0xff][dice.roll(5)],
        _ => {
            let from = dice.roll(bytes.len());
            let length = dice.roll(16).min(bytes.len() - from).min(bytes.len() - place);
            bytes.copy_within(from..from + length, place);
        }
    }
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}
