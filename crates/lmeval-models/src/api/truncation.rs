//! Which part of a prompt that is too long is dropped.

use lmeval_core::{ModelError, ModelSettings};
use lmeval_pycompat::Value;

/// The side on which prompts are truncated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Side {
    #[default]
    Left,
    Middle,
    Right,
}

impl Side {
    /// Reads `truncation_side`.
    pub(super) fn read(settings: &ModelSettings) -> Result<Self, ModelError> {
        match settings.text("truncation_side").as_deref() {
            None | Some("left") => Ok(Self::Left),
            Some("middle") => Ok(Self::Middle),
            Some("right") => Ok(Self::Right),
            Some(other) => Err(ModelSettings::wrong(
                "truncation_side",
                "`left`, `middle` or `right`",
                &Value::str(other),
            )),
        }
    }

    /// Drops `surplus` tokens, at most all of them. In the middle, the end keeps a token more than the beginning if the number of
    /// the rest is odd.
    pub(super) fn drop_from(self, tokens: &mut Vec<u32>, surplus: usize) {
        let surplus = surplus.min(tokens.len());
        let first = match self {
            Self::Left => 0,
            Self::Middle => (tokens.len() - surplus) / 2,
            Self::Right => tokens.len() - surplus,
        };
        tokens.drain(first..first + surplus);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_tokens_of_a_side() {
        let rest = |side: Side, keep: usize| {
            let mut tokens: Vec<u32> = (0..11).collect();
            side.drop_from(&mut tokens, 11 - keep);
            tokens
        };
        assert_eq!(rest(Side::Left, 4), [7, 8, 9, 10]);
        assert_eq!(rest(Side::Right, 4), [0, 1, 2, 3]);
        assert_eq!(rest(Side::Middle, 4), [0, 1, 9, 10]);
        assert_eq!(rest(Side::Middle, 5), [0, 1, 8, 9, 10]);
        assert_eq!(rest(Side::Middle, 1), [10]);
        for side in [Side::Left, Side::Middle, Side::Right] {
            assert_eq!(rest(side, 11), (0..11).collect::<Vec<u32>>());
            let mut few = vec![1, 2];
            side.drop_from(&mut few, 5);
            assert!(few.is_empty());
        }
    }
}
