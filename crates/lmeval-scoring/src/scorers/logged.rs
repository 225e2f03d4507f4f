//! Per-document values as the 0.4 line logs them.

use lmeval_pycompat::Value;
use lmeval_pycompat::float::sum;

use super::answered::AnsweredDocument;
use super::ll_scorer::UNRESOLVED;
use super::scored::ScoredDoc;
use lmeval_core::OutputType;

/// Converts 0 and 1 to floats where the 0.4 line computes with floats; the difference shows in records and medians.
pub(super) fn bools_to_floats(scored: &mut ScoredDoc, output_type: OutputType) {
    let metrics: &[&str] = match output_type {
        OutputType::MultipleChoice => &["acc", "acc_norm", "acc_bytes", "acc_mutual_info"],
        OutputType::GenerateUntil => &["exact_match"],
        OutputType::Loglikelihood | OutputType::LoglikelihoodRolling => &[],
    };
    for metric in metrics {
        for value in scored.scores.get_mut(metric).into_iter().flatten() {
            if let Value::Int(truth) = value {
                *value = Value::Float(*truth as f64);
            }
        }
    }
}

/// The per-document value as the 0.4 line logs it.
pub(super) fn legacy_logged_value(
    metric: &str,
    value: &Value,
    output_type: OutputType,
    document: &AnsweredDocument,
    filtered: &[Vec<Value>],
) -> Value {
    match (output_type, metric, value) {
        (_, "bypass", Value::Int(-1)) => Value::None,
        (OutputType::MultipleChoice, "brier_score", Value::Float(_)) => {
            let gold = document.answers.first().map(|first| first.instance.gold.clone()).unwrap_or_default();
            let gold = if gold.is_none() { Value::Int(UNRESOLVED) } else { gold };
            Value::list([gold, Value::from(array_text(&probabilities(document, filtered)))])
        }
        (OutputType::GenerateUntil, "bleu" | "chrf" | "chrf++" | "ter", Value::Tuple(pair)) => {
            let bare = |part: &Value| match part {
                Value::List(items) => match items.as_slice() {
                    [only] => only.clone(),
                    _ => part.clone(),
                },
                _ => part.clone(),
            };
            Value::list(pair.iter().map(bare))
        }
        _ => value.clone(),
    }
}

/// The probabilities of the options, normalised to sum to 1.
fn probabilities(document: &AnsweredDocument, filtered: &[Vec<Value>]) -> Vec<f64> {
    let conditional = document.answers.iter().zip(filtered);
    let lls: Vec<f64> = conditional
        .filter(|(answer, _)| !answer.instance.metadata.unconditional)
        .filter_map(|(_, kept)| match kept.first()? {
            Value::Tuple(pair) => pair.first()?.to_f64(),
            _ => None,
        })
        .collect();
    let largest = lls.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let powers: Vec<f64> = lls.iter().map(|ll| (ll - largest).exp()).collect();
    let total = sum(powers.iter().copied());
    powers.iter().map(|power| power / total).collect()
}

/// numpy's limit on digits after the decimal point.
const PRECISION: usize = 8;
/// numpy's line width.
const LINE: usize = 75;

/// An array formatted like numpy's `str`.
fn array_text(numbers: &[f64]) -> String {
    let sizes = numbers.iter().map(|number| number.abs()).filter(|size| *size > 0.0 && size.is_finite());
    let (least, most) =
        sizes.fold((f64::INFINITY, 0.0_f64), |(least, most), size| (least.min(size), most.max(size)));
    let scientific = most > 0.0 && (most >= 1e8 || least < 1e-4 || most / least > 1000.0);
    let words = if scientific { scientific_words(numbers) } else { positional_words(numbers) };
    let mut lines = Vec::new();
    let mut line = String::from("[");
    for word in words {
        // Leave room for the closing bracket.
        if line.len() + word.len() > LINE - 1 && line.len() > 1 {
            lines.push(line.trim_end().to_owned());
            line = String::from(" ");
        }
        line.push_str(&word);
        line.push(' ');
    }
    lines.push(format!("{}]", line.strip_suffix(' ').unwrap_or(&line)));
    lines.join("\n")
}

/// The shortest digits after the decimal point that identify the number, up to the precision.
fn fraction(text: &str) -> &str {
    text.split_once('.').map_or("", |(_, fraction)| fraction)
}

fn positional(number: f64) -> String {
    let shortest = format!("{number}");
    if fraction(&shortest).len() <= PRECISION {
        return shortest;
    }
    let rounded = format!("{number:.PRECISION$}");
    rounded.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Fixed-point notation, aligned at the decimal point.
fn positional_words(numbers: &[f64]) -> Vec<String> {
    let texts: Vec<String> = numbers.iter().copied().map(positional).collect();
    let whole = |text: &str| text.split_once('.').map_or(text.len(), |(whole, _)| whole.len());
    let left = texts.iter().map(|text| whole(text)).max().unwrap_or_default();
    let right = texts.iter().map(|text| fraction(text).len()).max().unwrap_or_default();
    let word = |text: &String| {
        let point = if text.contains('.') || text.contains('n') { "" } else { "." };
        let padded = format!("{}{text}{point}", " ".repeat(left - whole(text)));
        format!("{padded:<width$}", width = left + 1 + right)
    };
    texts.iter().map(word).collect()
}

/// Scientific notation with a uniform number of digits.
fn scientific_words(numbers: &[f64]) -> Vec<String> {
    let digits = |number: &f64| {
        let shortest = format!("{number:e}");
        let mantissa = shortest.split_once('e').map_or(shortest.as_str(), |(mantissa, _)| mantissa);
        let longest = fraction(mantissa).len().min(PRECISION);
        let rounded = format!("{number:.longest$e}");
        let mantissa = rounded.split_once('e').map_or(rounded.as_str(), |(mantissa, _)| mantissa);
        fraction(mantissa.trim_end_matches('0')).len()
    };
    let width = numbers.iter().map(digits).max().unwrap_or_default();
    let word = |number: &f64| {
        let text = format!("{number:.width$e}");
        let Some((mantissa, exponent)) = text.split_once('e') else { return text };
        let point = if mantissa.contains('.') { "" } else { "." };
        let (sign, size) = exponent.strip_prefix('-').map_or(('+', exponent), |size| ('-', size));
        format!("{mantissa}{point}e{sign}{size:0>2}")
    };
    numbers.iter().map(word).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_arrays_like_numpy() {
        for (numbers, text) in [
            (vec![0.97811873, 0.02188127], "[0.97811873 0.02188127]"),
            (vec![0.5, 0.25], "[0.5  0.25]"),
            (vec![1.0], "[1.]"),
            (vec![6.822275547e-05, 0.9999317772445], "[6.82227555e-05 9.99931777e-01]"),
            (vec![0.0, 1.0], "[0. 1.]"),
            (vec![1.0 / 3.0; 3], "[0.33333333 0.33333333 0.33333333]"),
            (vec![0.125; 12], "[0.125 0.125 0.125 0.125 0.125 0.125 0.125 0.125 0.125 0.125 0.125 0.125]"),
            (
                vec![0.0625; 16],
                "[0.0625 0.0625 0.0625 0.0625 0.0625 0.0625 0.0625 0.0625 0.0625 0.0625\n 0.0625 0.0625 0.0625 0.0625 0.0625 0.0625]",
            ),
            (vec![1e-10, 1.0], "[1.e-10 1.e+00]"),
        ] {
            assert_eq!(array_text(&numbers), text);
        }
    }
}
