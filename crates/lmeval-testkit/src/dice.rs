//! Reproducible random choices, and the environment variables that steer fuzz tests.

/// A pseudo-random generator (SplitMix64) that draws the same sequence on every machine.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// A generator with a fixed seed; [`fuzz_seed`] lets the environment choose another one.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number in `0..limit`, or 0 if the limit is 0.
    pub fn roll(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    /// A number in `least..=most`.
    pub fn between(&mut self, least: usize, most: usize) -> usize {
        least + self.roll(most - least + 1)
    }

    /// True with a probability of `1 / times`.
    pub fn one_in(&mut self, times: usize) -> bool {
        self.roll(times) == 0
    }

    /// True with a probability of `percent / 100`.
    pub fn percent(&mut self, percent: usize) -> bool {
        self.roll(100) < percent
    }

    /// One of `items`.
    ///
    /// # Panics
    ///
    /// If `items` is empty.
    pub fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.roll(items.len())]
    }
}

/// The seed of a fuzz test: `LM_EVAL_FUZZ_SEED`, or the default.
///
/// # Panics
///
/// If the variable is not a number.
pub fn fuzz_seed(default: u64) -> u64 {
    setting("LM_EVAL_FUZZ_SEED").unwrap_or(default)
}

/// The number of inputs of a fuzz test: `LM_EVAL_FUZZ_CASES`, or the default.
///
/// # Panics
///
/// If the variable is not a number.
pub fn fuzz_cases(default: usize) -> usize {
    setting("LM_EVAL_FUZZ_CASES").map_or(default, |cases| cases as usize)
}

/// The size of a simulation that starts many processes: small by default, and full where `LM_EVAL_FUZZ_SEED` is set, as in the weekly job.
pub fn simulated(usual: usize, full: usize) -> usize {
    if std::env::var_os("LM_EVAL_FUZZ_SEED").is_some() { full } else { usual }
}

fn setting(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("`{name}` is not a number: {value}")))
}
