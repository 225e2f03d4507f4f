//! Scores as numbers.

/// A raw JSON value as a number, if it is one: booleans are 0 and 1, `NaN` and `Infinity` as Python writes them.
pub fn number(raw: &str) -> Option<f64> {
    match raw {
        "true" | "True" => Some(1.0),
        "false" | "False" => Some(0.0),
        "NaN" => Some(f64::NAN),
        "Infinity" => Some(f64::INFINITY),
        "-Infinity" => Some(f64::NEG_INFINITY),
        _ if raw.starts_with(|first: char| first.is_ascii_digit() || first == '-') => raw.parse().ok(),
        _ => None,
    }
}
