//! Rules that change what is likely before a token is chosen.

/// What may follow a text, beside what the model says. The rules work in the order of `transformers`, so that several of
/// them together give the same texts.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Rules {
    /// What is added to the logit of the last token of a sequence where the text ends in those before it.
    pub(crate) biases: Vec<(Vec<u32>, f32)>,
    /// Logits of tokens of the prompt are multiplied by it where they are positive, and divided otherwise.
    pub(crate) prompt_penalty: f64,
    /// How many tokens in a row may not come twice; 0 for no rule.
    pub(crate) repeated: usize,
    /// How many tokens in a row may not come where the prompt has them; 0 for no rule.
    pub(crate) repeated_prompt: usize,
    /// Sequences that may not come.
    pub(crate) forbidden: Vec<Vec<u32>>,
    /// The fewest tokens of prompt and answer before an end.
    pub(crate) fewest: usize,
    /// The fewest tokens of an answer before an end.
    pub(crate) fewest_added: usize,
    /// The token that follows a prompt of one token.
    pub(crate) forced_begin: Option<u32>,
    /// What the last token is where the limit ends the text, one of these.
    pub(crate) forced_end: Vec<u32>,
    /// After how many tokens ends become more likely, and by which factor for each token from there.
    pub(crate) decay: Option<(usize, f64)>,
    /// Tokens that never come.
    pub(crate) suppressed: Vec<u32>,
    /// Tokens that are not the first of an answer.
    pub(crate) suppressed_first: Vec<u32>,
    /// Tokens that end a text.
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

/// Where in a text a token is chosen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Position<'a> {
    /// All tokens so far.
    pub(super) seen: &'a [u32],
    /// How many of them are the prompt.
    pub(super) prompt: usize,
    /// How many tokens prompt and answer have at most.
    pub(super) total: usize,
}

impl Rules {
    /// Whether no rule changes anything.
    pub(super) fn is_empty(&self) -> bool {
        // The ends alone do nothing.
        let Self { biases, forbidden, suppressed, suppressed_first, forced_end, .. } = self;
        [biases.len(), forbidden.len(), suppressed.len(), suppressed_first.len(), forced_end.len()] == [0; 5]
            && [self.repeated, self.repeated_prompt, self.fewest, self.fewest_added] == [0; 4]
            && self.prompt_penalty == 1.0
            && self.forced_begin.is_none()
            && self.decay.is_none()
    }

    /// Changes logits as the rules say. `repetition_penalty` is that of [`Sampling`](super::Sampling).
    pub(super) fn apply(&self, logits: &mut [f32], at: Position<'_>, repetition_penalty: f64) {
        let prompt = at.seen.get(..at.prompt).unwrap_or(at.seen);
        let added = at.seen.len() - prompt.len();
        self.add_biases(logits, at.seen);
        if self.prompt_penalty != 1.0 {
            penalise(logits, prompt, 1.0 / self.prompt_penalty);
        }
        if repetition_penalty != 1.0 {
            penalise(logits, at.seen, repetition_penalty);
        }
        self.forbid_repetitions(logits, at.seen, prompt);
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
        // Reference: a token that is forced after a prompt of one token does not count as the first one.
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

    /// Forbids tokens that would complete a sequence which was there.
    fn forbid_repetitions(&self, logits: &mut [f32], seen: &[u32], prompt: &[u32]) {
        for (length, place) in [(self.repeated, seen), (self.repeated_prompt, prompt)] {
            if length == 0 || seen.len() + 1 < length {
                continue;
            }
            let begun = &seen[seen.len() + 1 - length..];
            for window in place.windows(length) {
                if let Some((last, before)) = window.split_last()
                    && before == begun
                {
                    forbid(logits, &[*last]);
                }
            }
        }
    }
}

/// The last token of a sequence, where the text ends in those before it.
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

/// Leaves nothing but some tokens, where there are any.
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

/// Makes tokens less likely that were there, by a penalty above 1.
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

    /// Logits of four tokens after a text whose first two tokens are its prompt.
    fn after(rules: &Rules, seen: &[u32]) -> [f32; 4] {
        let mut logits = [1.0, 2.0, -1.0, 4.0];
        rules.apply(&mut logits, Position { seen, prompt: 2, total: 6 }, 1.0);
        logits
    }

    const NEVER: f32 = f32::NEG_INFINITY;

    #[test]
    fn sequences() {
        let none = Rules::default();
        assert!(none.is_empty() && Rules { ends: vec![3], ..Rules::default() }.is_empty());
        assert_eq!(after(&none, &[0, 1]), [1.0, 2.0, -1.0, 4.0]);
        let biases = vec![(vec![3], -1.0), (vec![1, 3], -2.0), (vec![0, 3], -8.0), (vec![9], 1.0)];
        let biased = Rules { biases, ..Rules::default() };
        assert_eq!(after(&biased, &[0, 1]), [1.0, 2.0, -1.0, 1.0]);
        let pairs = Rules { repeated: 2, ..Rules::default() };
        assert_eq!(after(&pairs, &[0, 1, 0]), [1.0, NEVER, -1.0, 4.0]);
        assert_eq!(after(&pairs, &[0]), [1.0, 2.0, -1.0, 4.0]);
        // Single tokens: all that were there.
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
    fn ends_and_places() {
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
