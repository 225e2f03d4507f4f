//! Split instructions: `train[:100]`, `test[10%:20%]`, `train+validation[-5:]`.

use crate::error::{Error, ErrorKind};

/// One summand of a split instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SliceTerm {
    pub(crate) split: String,
    from: Option<i64>,
    to: Option<i64>,
    percent: bool,
    drop_remainder: bool,
}

fn bad(spec: &str, message: impl Into<String>) -> Error {
    ErrorKind::BadSplit { spec: spec.into(), message: message.into() }.into()
}

/// Parses a split instruction into its summands.
pub(crate) fn parse(spec: &str) -> Result<Vec<SliceTerm>, Error> {
    let parts = spec.split('+').map(|part| parse_part(part.trim(), spec)).collect::<Result<Vec<_>, _>>()?;
    let mut roundings = parts.iter().filter(|part| part.percent).map(|part| part.drop_remainder);
    if let Some(first) = roundings.next()
        && roundings.any(|other| other != first)
    {
        return Err(bad(spec, "parts with different rounding cannot be summed"));
    }
    Ok(parts)
}

/// Whether a name is a valid split name: words joined by dots.
pub(crate) fn is_split_name(name: &str) -> bool {
    name.split('.').all(|word| !word.is_empty() && word.chars().all(|c| c.is_alphanumeric() || c == '_'))
}

fn parse_part(part: &str, spec: &str) -> Result<SliceTerm, Error> {
    let unreadable = || bad(spec, "expected `split`, `split[from:to]` or `split[from%:to%]`");
    let (rest, rounding) = match part.strip_suffix(')').and_then(|rest| rest.split_once('(')) {
        Some((rest, rounding)) => (rest, Some(rounding)),
        None => (part, None),
    };
    let (name, range) = match rest.split_once('[') {
        Some((name, range)) => (name, Some(range.strip_suffix(']').ok_or_else(unreadable)?)),
        None => (rest, None),
    };
    if !is_split_name(name) {
        return Err(unreadable());
    }
    let (from, to) = match range {
        Some(range) => {
            let (from, to) = range.split_once(':').ok_or_else(unreadable)?;
            (boundary(from).ok_or_else(unreadable)?, boundary(to).ok_or_else(unreadable)?)
        }
        None => (None, None),
    };
    let percent = [from, to].into_iter().flatten().any(|(_, percent)| percent);
    let drop_remainder = match rounding {
        None | Some("closest") => false,
        Some("pct1_dropremainder") => true,
        Some(_) => return Err(bad(spec, "rounding must be `closest` or `pct1_dropremainder`")),
    };
    if rounding.is_some() && !percent {
        return Err(bad(spec, "rounding is only for percent slices"));
    }
    let (from, to) = (from.map(|(number, _)| number), to.map(|(number, _)| number));
    if percent && [from, to].into_iter().flatten().any(|number| number.abs() > 100) {
        return Err(bad(spec, "percent boundaries must lie between -100 and 100"));
    }
    Ok(SliceTerm { split: name.into(), from, to, percent, drop_remainder })
}

/// Parses a boundary: empty, an integer, or an integer with `%`. The outer `None` means that it is invalid.
#[expect(clippy::option_option, reason = "absent and invalid are different results")]
fn boundary(text: &str) -> Option<Option<(i64, bool)>> {
    if text.is_empty() {
        return Some(None);
    }
    let (number, percent) = match text.strip_suffix('%') {
        Some(number) => (number, true),
        None => (text, false),
    };
    let digits = number.strip_prefix('-').unwrap_or(number);
    let fits = digits.starts_with(|c: char| c.is_ascii_digit())
        && digits.ends_with(|c: char| c.is_ascii_digit())
        && !digits.contains("__")
        && digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_');
    if !fits {
        return None;
    }
    number.replace('_', "").parse().ok().map(|number| Some((number, percent)))
}

impl SliceTerm {
    /// A complete split.
    pub(crate) fn whole(split: &str) -> Self {
        Self { split: split.into(), from: None, to: None, percent: false, drop_remainder: false }
    }

    /// Limits a part without a slice to its first `rows` rows.
    pub(crate) fn limit(mut self, rows: u64) -> Self {
        if self.from.is_none() && self.to.is_none() {
            self.to = Some(i64::try_from(rows).unwrap_or(i64::MAX));
        }
        self
    }

    /// The range of rows in a split of `length` rows.
    pub(crate) fn resolve(&self, length: u64) -> Result<(u64, u64), Error> {
        let length = i64::try_from(length).unwrap_or(i64::MAX);
        if self.drop_remainder && length < 100 {
            return Err(bad(&self.split, "`pct1_dropremainder` needs a split with at least 100 rows"));
        }
        let absolute = |boundary: i64| match (self.percent, self.drop_remainder) {
            (false, _) => boundary,
            (true, true) => boundary * (length / 100),
            (true, false) => (boundary as f64 * length as f64 / 100.0).round_ties_even() as i64,
        };
        let clamped = |boundary: Option<i64>, absent: i64| {
            let boundary = boundary.map_or(absent, absolute);
            let boundary = if boundary < 0 { (length + boundary).max(0) } else { boundary };
            boundary.min(length)
        };
        let from = clamped(self.from, 0);
        let to = clamped(self.to, length).max(from);
        Ok((from as u64, to as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(spec: &str, length: u64) -> (u64, u64) {
        parse(spec).unwrap()[0].resolve(length).unwrap()
    }

    #[test]
    fn resolves_slices() {
        assert_eq!(range("train", 7), (0, 7));
        assert_eq!(range("train[:]", 7), (0, 7));
        assert_eq!(range("train[:100]", 7), (0, 7));
        assert_eq!(range("train[2:5]", 7), (2, 5));
        assert_eq!(range("train[-2:]", 7), (5, 7));
        assert_eq!(range("train[5:2]", 7), (5, 5));
        assert_eq!(range("train[:50%]", 7), (0, 4));
        assert_eq!(range("train[:50%]", 5), (0, 2));
        assert_eq!(range("train[10%:-10%]", 50), (5, 45));
        assert_eq!(range("train[:1%](pct1_dropremainder)", 199), (0, 1));
        assert_eq!(range("a.b_1[1_0:]", 20), (10, 20));
    }

    #[test]
    fn parses_sums_and_rejects_errors() {
        let parts = parse("train[:2] + test").unwrap();
        assert_eq!((parts.len(), parts[1].split.as_str()), (2, "test"));
        for spec in ["", "train[", "train[1]", "train[:x]", "train[:101%]", "tr ain", "train[:1](closest)"] {
            assert!(parse(spec).is_err(), "{spec}");
        }
        assert!(parse("a[:1%]+b[:1%](pct1_dropremainder)").is_err());
        assert!(parse("a[:1%](pct1_dropremainder)").unwrap()[0].resolve(99).is_err());
    }
}
