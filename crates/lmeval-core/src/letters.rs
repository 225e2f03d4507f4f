//! Probabilities of option labels, read from the list of likely next tokens that a chat server returns.

use lmeval_pycompat::Value;

/// The probability that an answer starts with the label of one option.
///
/// Servers list only the most likely tokens, so a probability has two bounds: what is listed, and what the tokens that
/// are not listed could add.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Letter {
    /// The logarithm of the summed probabilities of the label's listed tokens; `None` if none is listed.
    pub logprob: Option<f64>,
    /// The logarithm of the largest probability that the label can have.
    pub upper: f64,
    /// Whether the most likely token is the label.
    pub is_greedy: bool,
}

impl Letter {
    /// The log-probability that scoring uses: a label that is not listed has none.
    pub fn lower(&self) -> f64 {
        self.logprob.unwrap_or(f64::NEG_INFINITY)
    }

    /// The value in logs: log-probability or `None`, upper bound, greedy flag.
    pub fn to_value(&self) -> Value {
        let logprob = self.logprob.map_or(Value::None, Value::Float);
        Value::tuple([logprob, Value::Float(self.upper), Value::Bool(self.is_greedy)])
    }

    /// The inverse of [`Letter::to_value`]; also reads the strings of samples files.
    pub fn from_value(value: &Value) -> Option<Self> {
        let parts = match value {
            Value::Tuple(parts) | Value::List(parts) => parts.as_slice(),
            _ => return None,
        };
        let [logprob, upper, is_greedy] = parts else { return None };
        let logprob = match logprob {
            Value::None => None,
            Value::Str(text) if &**text == "None" => None,
            other => Some(number(other)?),
        };
        let is_greedy = match is_greedy {
            Value::Bool(flag) => *flag,
            Value::Str(text) if &**text == "True" => true,
            Value::Str(text) if &**text == "False" => false,
            _ => return None,
        };
        Some(Self { logprob, upper: number(upper)?, is_greedy })
    }

    /// The letters of an answer in the form of [`letters_value`].
    pub fn all_from_value(value: &Value) -> Option<Vec<Self>> {
        match value {
            Value::Tuple(letters) | Value::List(letters) => letters.iter().map(Self::from_value).collect(),
            _ => None,
        }
    }
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Str(text) => text.parse().ok(),
        Value::Bool(_) => None,
        other => other.to_f64(),
    }
}

/// The value of an answer in logs: one entry per option.
pub fn letters_value(letters: &[Letter]) -> Value {
    Value::tuple(letters.iter().map(Letter::to_value))
}

/// The outcome of a document whose options were compared by their labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LetterOutcome {
    /// Labels that are not listed.
    pub missing: usize,
    /// Whether no label is listed, so that there is no prediction.
    pub is_absent: bool,
    /// Whether the gold option has the largest probability whatever the unlisted tokens are.
    pub surely_right: bool,
    /// Whether the gold option can have the largest probability.
    pub possibly_right: bool,
}

impl LetterOutcome {
    /// Compares an answer with the gold index or indices.
    pub fn new(letters: &[Letter], gold: &Value) -> Self {
        let is_gold = |index: usize| match gold {
            Value::List(golds) => golds.iter().any(|gold| gold.as_i64() == Some(index as i64)),
            gold => gold.as_i64() == Some(index as i64),
        };
        let missing = letters.iter().filter(|letter| letter.logprob.is_none()).count();
        let (mut gold_low, mut gold_high) = (f64::NEG_INFINITY, f64::NEG_INFINITY);
        let (mut other_low, mut other_high) = (f64::NEG_INFINITY, f64::NEG_INFINITY);
        let mut predicted: Option<(usize, f64)> = None;
        for (index, letter) in letters.iter().enumerate() {
            let (low, high) = (letter.lower(), letter.upper.max(letter.lower()));
            if is_gold(index) {
                (gold_low, gold_high) = (gold_low.max(low), gold_high.max(high));
            } else {
                (other_low, other_high) = (other_low.max(low), other_high.max(high));
            }
            if letter.logprob.is_some() && predicted.is_none_or(|(_, best)| low > best) {
                predicted = Some((index, low));
            }
        }
        let is_right = predicted.is_some_and(|(index, _)| is_gold(index));
        let has_gold = (0..letters.len()).any(is_gold);
        Self {
            missing,
            is_absent: predicted.is_none(),
            surely_right: is_right && other_high <= gold_low,
            // A tie goes to the first option, so an equal bound may not be enough; it may be.
            possibly_right: is_right || (has_gold && gold_high >= other_low && gold_high > gold_low),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn letter(logprob: Option<f64>, upper: f64) -> Letter {
        Letter { logprob, upper, is_greedy: false }
    }

    fn outcome(letters: &[Letter], gold: i64) -> (bool, bool) {
        let outcome = LetterOutcome::new(letters, &Value::Int(gold));
        (outcome.surely_right, outcome.possibly_right)
    }

    #[test]
    fn values_round_trip_also_as_strings() {
        let letters =
            [letter(Some(-0.25), -0.125), letter(None, f64::NEG_INFINITY), letter(Some(-9999.0), -3.5)];
        let value = letters_value(&letters);
        assert_eq!(Letter::all_from_value(&value).unwrap(), letters);
        let texts = Value::list([Value::list(["None", "-inf", "True"].map(Value::str))]);
        let read = Letter::all_from_value(&texts).unwrap();
        assert_eq!(read, [Letter { logprob: None, upper: f64::NEG_INFINITY, is_greedy: true }]);
        for wrong in [Value::None, Value::list([Value::Int(1)]), Value::list([Value::list([Value::None])])] {
            assert_eq!(Letter::all_from_value(&wrong), None);
        }
    }

    #[test]
    fn complete_lists_are_certain() {
        let letters = [letter(Some(-1.0), -1.0), letter(Some(-0.5), -0.5)];
        assert_eq!(outcome(&letters, 1), (true, true));
        assert_eq!(outcome(&letters, 0), (false, false));
        let tied = [letter(Some(-1.0), -1.0), letter(Some(-1.0), -1.0)];
        assert_eq!(outcome(&tied, 0), (true, true));
        assert_eq!(outcome(&tied, 1), (false, false));
    }

    #[test]
    fn missing_letters_are_bounded() {
        // The missing letter cannot beat the listed one.
        let far = [letter(Some(-0.1), -0.1), letter(None, -4.0)];
        assert_eq!(outcome(&far, 0), (true, true));
        assert_eq!(outcome(&far, 1), (false, false));
        // It can.
        let near = [letter(Some(-3.0), -2.9), letter(None, -2.5)];
        assert_eq!(outcome(&near, 0), (false, true));
        assert_eq!(outcome(&near, 1), (false, true));
        let none = [letter(None, -1.0), letter(None, -1.0)];
        let outcome = LetterOutcome::new(&none, &Value::Int(0));
        assert_eq!((outcome.missing, outcome.is_absent), (2, true));
        assert_eq!((outcome.surely_right, outcome.possibly_right), (false, true));
        let unresolved = LetterOutcome::new(&none, &Value::None);
        assert_eq!((unresolved.surely_right, unresolved.possibly_right), (false, false));
        let several = LetterOutcome::new(&near, &Value::list([Value::Int(0), Value::Int(1)]));
        assert!(several.surely_right);
    }
}
