//! Scales: the values of verdicts.

use lmeval_pycompat::float::parse_float;

/// The labels that a judge of two answers may choose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PairLabels {
    /// The answer shown first is better.
    pub(super) first: String,
    /// The answer shown second is better.
    pub(super) second: String,
    /// Neither is better.
    pub(super) tie: String,
}

impl Default for PairLabels {
    fn default() -> Self {
        Self { first: "A".to_owned(), second: "B".to_owned(), tie: "TIE".to_owned() }
    }
}

/// The other answer of a pairwise comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Against {
    /// The answers of a stored run.
    Baseline,
    /// A column of the document.
    Column(String),
}

/// How verdicts become numbers.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Scale {
    /// Labels with their values.
    Verdicts(Vec<(String, f64)>),
    /// A number between two ends.
    Range(f64, f64),
    /// The better of two answers: 1 if the evaluated one is, 0 if the other is, 0.5 for a tie.
    Pairwise { against: Against, labels: PairLabels },
}

impl Scale {
    /// The worst and the best value.
    pub(super) fn ends(&self) -> (f64, f64) {
        match self {
            Self::Verdicts(verdicts) => {
                verdicts.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), (_, value)| {
                    (low.min(*value), high.max(*value))
                })
            }
            Self::Range(low, high) => (*low, *high),
            Self::Pairwise { .. } => (0.0, 1.0),
        }
    }

    /// Whether two answers are compared.
    pub(super) fn is_pairwise(&self) -> bool {
        matches!(self, Self::Pairwise { .. })
    }

    /// The label as the configuration spells it and its value; `None` if it is none of the labels, or outside the range.
    ///
    /// `swapped` says that the evaluated answer was shown second.
    pub(super) fn value(&self, found: &str, swapped: bool) -> Option<(String, f64)> {
        let label = clean(found);
        match self {
            Self::Verdicts(verdicts) => {
                let names: Vec<&str> = verdicts.iter().map(|(name, _)| name.as_str()).collect();
                let index = position(label, &names)?;
                let (name, value) = &verdicts[index];
                Some((name.clone(), *value))
            }
            Self::Range(low, high) => {
                let label = clean_number(found);
                let number = parse_float(label)?;
                (*low..=*high).contains(&number).then(|| (label.to_owned(), number))
            }
            Self::Pairwise { labels, .. } => {
                let names = [&labels.first, &labels.second, &labels.tie].map(String::as_str);
                let index = position(label, &names)?;
                let value = match index {
                    2 => 0.5,
                    shown => f64::from(u8::from((shown == 0) != swapped)),
                };
                Some((names[index].to_owned(), value))
            }
        }
    }
}

/// The index of a label: spelled exactly so, or else in another case.
fn position(label: &str, names: &[&str]) -> Option<usize> {
    let exact = names.iter().position(|name| *name == label);
    exact.or_else(|| names.iter().position(|name| name.to_lowercase() == label.to_lowercase()))
}

/// Drops whitespace, emphasis and punctuation around a label.
fn clean(found: &str) -> &str {
    let around = |letter: char| letter.is_whitespace() || "*_`\"'“”‘’()[]{}<>.,;:!".contains(letter);
    found.trim_matches(around)
}

/// Drops whitespace, emphasis, quotes and brackets around a number, and punctuation after it. Punctuation before a number
/// belongs to it: `.5` is not 5, and neither is `<5`.
fn clean_number(found: &str) -> &str {
    let around = |letter: char| letter.is_whitespace() || "*_`\"'“”‘’()[]{}".contains(letter);
    found.trim_start_matches(around).trim_end_matches(|letter| around(letter) || ".,;:!".contains(letter))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_matched_exactly_before_ignoring_case() {
        let scale = Scale::Verdicts(vec![("c".to_owned(), 0.25), ("C".to_owned(), 1.0)]);
        assert_eq!(scale.value("C", false), Some(("C".to_owned(), 1.0)));
        assert_eq!(scale.value(" **c**. ", false), Some(("c".to_owned(), 0.25)));
        assert_eq!(scale.value("D", false), None);
        assert_eq!(scale.ends(), (0.25, 1.0));
    }

    #[test]
    fn numbers_outside_the_range_have_no_value() {
        let scale = Scale::Range(1.0, 10.0);
        assert_eq!(scale.value("7.5", false), Some(("7.5".to_owned(), 7.5)));
        assert_eq!(scale.value("11", false), None);
        assert_eq!(scale.value("nan", false), None);
        assert_eq!(scale.value("seven", false), None);
        for (found, expected) in [
            (" **7**. ", Some(7.0)),
            ("(7)", Some(7.0)),
            ("\"7\"", Some(7.0)),
            ("7:", Some(7.0)),
            ("1e0", Some(1.0)),
            (".5", None),
            ("-.5", None),
            ("<5", None),
            (">5", None),
            (",5", None),
            ("!5", None),
            ("inf", None),
            ("1e3", None),
            ("10 out of 10", None),
            ("5-6", None),
        ] {
            assert_eq!(scale.value(found, false).map(|(_, value)| value), expected, "{found}");
        }
        let unit = Scale::Range(0.0, 10.0);
        assert_eq!(unit.value(".5", false).map(|(_, value)| value), Some(0.5));
    }

    #[test]
    fn the_order_shown_decides_who_won() {
        let scale = Scale::Pairwise { against: Against::Baseline, labels: PairLabels::default() };
        let value = |label: &str, swapped| scale.value(label, swapped).map(|(_, value)| value);
        assert_eq!((value("A", false), value("A", true)), (Some(1.0), Some(0.0)));
        assert_eq!((value("b", false), value("B", true)), (Some(0.0), Some(1.0)));
        assert_eq!((value("tie", false), value("Tie", true)), (Some(0.5), Some(0.5)));
        assert_eq!(value("neither", false), None);
    }
}
