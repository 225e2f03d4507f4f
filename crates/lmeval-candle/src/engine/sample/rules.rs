//! Logit processors, applied before sampling.

/// The logit processors of a request. They are applied in the order of `transformers`, so that combinations give the same
/// result.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Rules {
    /// Sequences and the bias added to the logit of their last token if the preceding tokens match.
    pub(crate) biases: Vec<(Vec<u32>, f32)>,
    /// Multiplies positive logits of prompt tokens, and divides negative ones.
    pub(crate) prompt_penalty: f64,
    /// The length of n-grams that must not repeat; 0 is off.
    pub(crate) repeated: usize,
    /// The length of prompt n-grams that must not occur in the answer; 0 is off.
    pub(crate) repeated_prompt: usize,
    /// Forbidden sequences.
    pub(crate) forbidden: Vec<Vec<u32>>,
    /// The minimum total length of prompt and answer before an end token.
    pub(crate) fewest: usize,
    /// The minimum length of an answer before an end token.
    pub(crate) fewest_added: usize,
    /// Forces the token after a prompt of one token.
    pub(crate) forced_begin: Option<u32>,
    /// Forces one of these tokens at the maximum length.
    pub(crate) forced_end: Vec<u32>,
    /// Start and factor of an exponential increase of the end tokens' logits.
    pub(crate) decay: Option<(usize, f64)>,
    /// Tokens that are never generated.
    pub(crate) suppressed: Vec<u32>,
    /// Tokens that are never generated first.
    pub(crate) suppressed_first: Vec<u32>,
    /// The end tokens.
    pub(crate) ends: Vec<u32>,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            biases: Vec::new(),
            prompt_penalty: 1.0,
            repeated: 0,
            repeated_prompt: 0,
            forbidden: Vec::new(),
            fewest: 0,
            fewest_added: 0,
            forced_begin: None,
            forced_end: Vec::new(),
            decay: None,
            suppressed: Vec::new(),
            suppressed_first: Vec::new(),
            ends: Vec::new(),
        }
    }
}

/// The state at which a token is chosen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Position<'a> {
    /// The prompt and the answer so far, without what an encoder reads.
    pub(super) seen: &'a [u32],
    /// The length of the prompt.
    pub(super) prompt: usize,
    /// What the encoder reads; the prompt without one.
    pub(super) read: &'a [u32],
    /// The maximum total length.
    pub(super) total: usize,
}

impl Rules {
    /// Whether no processor is active.
    pub(super) fn is_empty(&self) -> bool {
        // `ends` alone has no effect.
        let Self { biases, forbidden, suppressed, suppressed_first, forced_end, .. } = self;
        [biases.len(), forbidden.len(), suppressed.len(), suppressed_first.len(), forced_end.len()] == [0; 5]
            && [self.repeated, self.repeated_prompt, self.fewest, self.fewest_added] == [0; 4]
            && self.prompt_penalty == 1.0
            && self.forced_begin.is_none()
            && self.decay.is_none()
    }

    /// Applies all processors. `repetition_penalty` is that of [`Sampling`](super::Sampling).
    pub(super) fn apply(&self, logits: &mut [f32], at: Position<'_>, repetition_penalty: f64) {
        let prompt = at.seen.get(..at.prompt).unwrap_or(at.seen);
        let added = at.seen.len() - prompt.len();
        self.add_biases(logits, at.seen);
        if self.prompt_penalty != 1.0 {
            penalise(logits, at.read, 1.0 / self.prompt_penalty);
        }
        if repetition_penalty != 1.0 {
            penalise(logits, at.seen, repetition_penalty);
        }
        self.forbid_repetitions(logits, at.seen, at.read);
        for sequence in &self.forbidden {
            if let Some(token) = completed(at.seen, sequence) {
                forbid(logits, &[token]);
            }
        }
        if at.seen.len() < self.fewest || added < self.fewest_added {
            forbid(logits, &self.ends);
        }
        if at.seen.len() == 1 {
            force(logits, self.forced_begin.as_slice());
        }
        if at.seen.len() + 1 == at.total {
            force(logits, &self.forced_end);
        }
        if let Some((start, factor)) = self.decay
            && added > start
        {
            let power = (factor.powf((added - start) as f64) - 1.0) as f32;
            for token in &self.ends {
                if let Some(logit) = logits.get_mut(*token as usize).filter(|logit| logit.is_finite()) {
                    *logit += logit.abs() * power;
                }
            }
        }
        forbid(logits, &self.suppressed);
        // Reference: a token forced after a prompt of one token is not considered the first.
        let forced = usize::from(self.forced_begin.is_some() && prompt.len() == 1);
        if added == forced {
            forbid(logits, &self.suppressed_first);
        }
    }

    fn add_biases(&self, logits: &mut [f32], seen: &[u32]) {
        if self.biases.is_empty() {
            return;
        }
        let mut sums = vec![0.0; logits.len()];
        for (sequence, bias) in &self.biases {
            let token = completed(seen, sequence);
            if let Some(sum) = token.and_then(|token| sums.get_mut(token as usize)) {
                *sum += bias;
            }
        }
        for (logit, sum) in logits.iter_mut().zip(sums) {
            *logit += sum;
        }
    }

    /// Forbids tokens that would repeat an n-gram.
    fn forbid_repetitions(&self, logits: &mut [f32], seen: &[u32], prompt: &[u32]) {
        for (length, tokens) in [(self.repeated, seen), (self.repeated_prompt, prompt)] {
            if length == 0 || seen.len() + 1 < length {
                continue;
            }
            let begun = &seen[seen.len() + 1 - length..];
            for window in tokens.windows(length) {
                if let Some((last, before)) = window.split_last()
                    && before == begun
                {
                    forbid(logits, &[*last]);
                }
            }
        }
    }
}

/// The last token of a sequence if `seen` ends with the preceding ones.
fn completed(seen: &[u32], sequence: &[u32]) -> Option<u32> {
    let (last, before) = sequence.split_last()?;
    seen.ends_with(before).then_some(*last)
}

fn forbid(logits: &mut [f32], tokens: &[u32]) {
    for token in tokens {
        if let Some(logit) = logits.get_mut(*token as usize) {
            *logit = f32::NEG_INFINITY;
        }
    }
}

/// Allows only some tokens, if the vocabulary has any of them.
fn force(logits: &mut [f32], tokens: &[u32]) {
    if tokens.iter().all(|token| *token as usize >= logits.len()) {
        return;
    }
    logits.fill(f32::NEG_INFINITY);
    for token in tokens {
        if let Some(logit) = logits.get_mut(*token as usize) {
            *logit = 0.0;
        }
    }
}

/// Applies a repetition penalty.
fn penalise(logits: &mut [f32], seen: &[u32], penalty: f64) {
    let mut seen = seen.to_vec();
    seen.sort_unstable();
    seen.dedup();
    let penalty = penalty as f32;
    for token in seen {
        if let Some(logit) = logits.get_mut(token as usize) {
            *logit = if *logit < 0.0 { *logit * penalty } else { *logit / penalty };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The logits of four tokens after `seen`, whose first two tokens are the prompt.
    fn after(rules: &Rules, seen: &[u32]) -> [f32; 4] {
        let mut logits = [1.0, 2.0, -1.0, 4.0];
        rules.apply(
            &mut logits,
            Position { seen, prompt: 2, read: &seen[..2.min(seen.len())], total: 6 },
            1.0,
        );
        logits
    }

    const NEVER: f32 = f32::NEG_INFINITY;

    #[test]
    fn biases_and_forbids_sequences() {
        let none = Rules::default();
        assert!(none.is_empty() && Rules { ends: vec![3], ..Rules::default() }.is_empty());
        assert_eq!(after(&none, &[0, 1]), [1.0, 2.0, -1.0, 4.0]);
        let biases = vec![(vec![3], -1.0), (vec![1, 3], -2.0), (vec![0, 3], -8.0), (vec![9], 1.0)];
        let biased = Rules { biases, ..Rules::default() };
        assert_eq!(after(&biased, &[0, 1]), [1.0, 2.0, -1.0, 1.0]);
        let pairs = Rules { repeated: 2, ..Rules::default() };
        assert_eq!(after(&pairs, &[0, 1, 0]), [1.0, NEVER, -1.0, 4.0]);
        assert_eq!(after(&pairs, &[0]), [1.0, 2.0, -1.0, 4.0]);
        // 1-grams: all seen tokens.
        let singles = Rules { repeated: 1, ..Rules::default() };
        assert_eq!(after(&singles, &[0, 1, 0]), [NEVER, NEVER, -1.0, 4.0]);
        let of_prompt = Rules { repeated_prompt: 2, ..Rules::default() };
        assert_eq!(after(&of_prompt, &[0, 1, 3, 2, 3]), [1.0, 2.0, -1.0, 4.0]);
        assert_eq!(after(&of_prompt, &[0, 1, 3, 0]), [1.0, NEVER, -1.0, 4.0]);
        let forbidden = Rules { forbidden: vec![vec![1], vec![0, 0], vec![1, 0]], ..Rules::default() };
        assert_eq!(after(&forbidden, &[0, 1]), [NEVER, NEVER, -1.0, 4.0]);
        let penalised = Rules { prompt_penalty: 2.0, ..Rules::default() };
        assert_eq!(after(&penalised, &[1, 2, 0]), [1.0, 4.0, -0.5, 4.0]);
    }

    #[test]
    fn applies_length_rules() {
        let ends = vec![3];
        let fewest = Rules { fewest: 4, ends: ends.clone(), ..Rules::default() };
        assert_eq!(after(&fewest, &[0, 1, 0])[3], NEVER);
        assert_eq!(after(&fewest, &[0, 1, 0, 0])[3], 4.0);
        let fewest = Rules { fewest_added: 2, ends: ends.clone(), ..Rules::default() };
        assert_eq!(after(&fewest, &[0, 1, 0])[3], NEVER);
        assert_eq!(after(&fewest, &[0, 1, 0, 0])[3], 4.0);
        let forced = Rules { forced_end: vec![2], ..Rules::default() };
        assert_eq!(after(&forced, &[0; 5]), [NEVER, NEVER, 0.0, NEVER]);
        assert_eq!(after(&forced, &[0; 4]), [1.0, 2.0, -1.0, 4.0]);
        let decay = Rules { decay: Some((1, 1.5)), ends: vec![2, 3], ..Rules::default() };
        assert_eq!(after(&decay, &[0; 3]), [1.0, 2.0, -1.0, 4.0]);
        assert_eq!(after(&decay, &[0; 4]), [1.0, 2.0, -0.5, 6.0]);
        let first = Rules { suppressed: vec![0], suppressed_first: vec![3], ..Rules::default() };
        assert_eq!(after(&first, &[0; 2]), [NEVER, 2.0, -1.0, NEVER]);
        assert_eq!(after(&first, &[0; 3]), [NEVER, 2.0, -1.0, 4.0]);
        let begin = Rules { forced_begin: Some(1), ..Rules::default() };
        assert_eq!(after(&begin, &[0]), [NEVER, 0.0, NEVER, NEVER]);
        let unknown = Rules { forced_begin: Some(9), suppressed: vec![9], ..Rules::default() };
        assert_eq!(after(&unknown, &[0]), [1.0, 2.0, -1.0, 4.0]);
    }
}
