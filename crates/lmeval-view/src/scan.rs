//! One pass over the lines of a samples file: the columns that lists are filtered and sorted by.

use lmeval_analysis::read::{Fields, number};
use lmeval_analysis::samples::{self, Outcome, OutcomeRule};
use lmeval_scoring::results::LinesChecksum;
use memchr::memchr;

/// Answers of a generation that are empty.
pub(crate) const EMPTY: u8 = 1;
/// Answers of whitespace only.
pub(crate) const WHITESPACE: u8 = 2;
/// Answers that a filter did not match.
pub(crate) const UNEXTRACTED: u8 = 4;
/// A score that is NaN.
pub(crate) const NAN: u8 = 8;

/// The flags by name.
pub(crate) const FLAGS: [(&str, u8); 4] =
    [("empty", EMPTY), ("whitespace", WHITESPACE), ("unextracted", UNEXTRACTED), ("nan", NAN)];

/// The output of filters for an answer that they do not match.
const INVALID: &str = "\"[invalid]\"";

/// Columns of some lines, in the order of the file.
#[derive(Debug, Default)]
pub(crate) struct Columns {
    pub(crate) offsets: Vec<u64>,
    pub(crate) lengths: Vec<u32>,
    pub(crate) doc_ids: Vec<i64>,
    /// The first 8 bytes of `doc_hash`; 0 without one.
    pub(crate) hashes: Vec<u64>,
    /// Index into `filter_names`.
    pub(crate) filters: Vec<u16>,
    pub(crate) outcomes: Vec<Outcome>,
    pub(crate) flags: Vec<u8>,
    /// Characters of the first prompt and of the first answer.
    pub(crate) prompts: Vec<u32>,
    pub(crate) answers: Vec<u32>,
    pub(crate) filter_names: Vec<String>,
    /// For each filter, the metrics of its samples, as indices into `metrics`.
    pub(crate) filter_metrics: Vec<Vec<usize>>,
    /// Name and values; NaN for a sample without it.
    pub(crate) metrics: Vec<(String, Vec<f64>)>,
    /// Fields of the first documents.
    pub(crate) fields: Vec<String>,
    /// Lines that are not samples: index of the line in the block or file, and why.
    pub(crate) bad: Vec<(u64, String)>,
    /// All lines, also bad and empty ones.
    pub(crate) lines: u64,
    /// The checksum of all lines.
    pub(crate) checksum: LinesChecksum,
}

/// Bad lines that are remembered.
const BAD_LINES: usize = 20;

impl Columns {
    pub(crate) fn len(&self) -> usize {
        self.offsets.len()
    }

    /// The bytes that this takes, roughly.
    pub(crate) fn bytes(&self) -> usize {
        self.len() * (8 + 4 + 8 + 8 + 2 + 1 + 1 + 4 + 4 + 8 * self.metrics.len())
    }

    /// Adds the columns of the lines that follow.
    pub(crate) fn append(&mut self, part: Self) {
        let before = self.len();
        let metric_map: Vec<usize> = part.metrics.iter().map(|(name, _)| self.metric(name)).collect();
        let filter_map: Vec<u16> = part.filter_names.iter().map(|name| self.filter(name)).collect();
        for (local, metrics) in part.filter_metrics.iter().enumerate() {
            let known = &mut self.filter_metrics[filter_map[local] as usize];
            for metric in metrics.iter().map(|metric| metric_map[*metric]) {
                if !known.contains(&metric) {
                    known.push(metric);
                }
            }
        }
        self.filters.extend(part.filters.iter().map(|filter| filter_map[*filter as usize]));
        self.offsets.extend(part.offsets);
        self.lengths.extend(part.lengths);
        self.doc_ids.extend(part.doc_ids);
        self.hashes.extend(part.hashes);
        self.outcomes.extend(part.outcomes);
        self.flags.extend(part.flags);
        self.prompts.extend(part.prompts);
        self.answers.extend(part.answers);
        for ((_, values), target) in part.metrics.into_iter().zip(metric_map) {
            let column = &mut self.metrics[target].1;
            column.resize(before, f64::NAN);
            column.extend(values);
        }
        let total = self.len();
        for (_, column) in &mut self.metrics {
            column.resize(total, f64::NAN);
        }
        for field in part.fields {
            if !self.fields.contains(&field) {
                self.fields.push(field);
            }
        }
        let room = BAD_LINES.saturating_sub(self.bad.len());
        self.bad.extend(part.bad.into_iter().take(room).map(|(line, error)| (line + self.lines, error)));
        self.lines += part.lines;
        self.checksum.append(part.checksum);
    }

    fn metric(&mut self, name: &str) -> usize {
        match self.metrics.iter().position(|(known, _)| known == name) {
            Some(position) => position,
            None => {
                self.metrics.push((name.to_owned(), vec![f64::NAN; self.offsets.len()]));
                self.metrics.len() - 1
            }
        }
    }

    fn filter(&mut self, name: &str) -> u16 {
        match self.filter_names.iter().position(|known| known == name) {
            Some(position) => position as u16,
            None => {
                self.filter_names.push(name.to_owned());
                self.filter_metrics.push(Vec::new());
                (self.filter_names.len() - 1) as u16
            }
        }
    }
}

/// Reads whole lines. `start` is the offset of the first one; `rule` decides outcomes.
pub(crate) fn scan(block: &[u8], start: u64, is_first: bool, rule: &OutcomeRule) -> Columns {
    let mut columns = Columns::default();
    let mut offset = start;
    let mut names = MetricNames::default();
    for bytes in block.split_inclusive(|byte| *byte == b'\n') {
        let line = bytes.trim_ascii();
        if !line.is_empty() {
            columns.checksum.add(line);
            let at = offset + (bytes.len() - bytes.trim_ascii_start().len()) as u64;
            let added = add(&mut columns, line, at, is_first, rule, &mut names);
            if let Err(error) = added
                && columns.bad.len() < BAD_LINES
            {
                columns.bad.push((columns.lines, error));
            }
        }
        columns.lines += 1;
        offset += bytes.len() as u64;
    }
    columns
}

/// Whether a line is a whole sample.
pub(crate) fn is_complete(line: &[u8]) -> bool {
    std::str::from_utf8(line).is_ok_and(|line| Fields::parse(line).is_ok())
}

/// The metric names of the previous line: nearly always those of the next.
#[derive(Default)]
struct MetricNames {
    raw: String,
    /// Names, columns, and whether they may decide outcomes.
    metrics: Vec<(String, usize, bool)>,
}

fn add(
    columns: &mut Columns,
    line: &[u8],
    offset: u64,
    is_first: bool,
    rule: &OutcomeRule,
    names: &mut MetricNames,
) -> Result<(), String> {
    let line = std::str::from_utf8(line).map_err(|_| "not UTF-8".to_owned())?;
    let length = u32::try_from(line.len()).map_err(|_| "longer than 4 GB".to_owned())?;
    let fields = Fields::parse(line).map_err(|malformed| {
        if malformed.offset == line.len() {
            "ends in the middle of a sample".to_owned()
        } else {
            format!("not a JSON object: unexpected input at column {}", malformed.offset + 1)
        }
    })?;
    let doc_id = fields.raw("doc_id").and_then(|raw| raw.parse().ok());
    let hash = fields.raw("doc_hash").and_then(|raw| u64::from_str_radix(raw.get(1..17)?, 16).ok());
    if doc_id.is_none() && hash.is_none() {
        return Err("neither `doc_hash` nor `doc_id`".to_owned());
    }
    let raw_names = fields.raw("metrics").unwrap_or_default();
    if raw_names.is_empty() || names.raw != raw_names {
        let found = metric_names(&fields).into_iter();
        names.metrics = found
            .map(|name| {
                let column = columns.metric(&name);
                let may_decide = rule.may_decide(&name);
                (name, column, may_decide)
            })
            .collect();
        raw_names.clone_into(&mut names.raw);
    }
    let filter = fields.text("filter");
    let filter = columns.filter(filter.as_deref().unwrap_or("none"));
    let mut flags = 0;
    for (name, column, _) in &names.metrics {
        let value = fields.raw(name).and_then(number);
        if value.is_some_and(f64::is_nan) {
            flags |= NAN;
        }
        columns.metrics[*column].1.push(value.unwrap_or(f64::NAN));
        let known = &mut columns.filter_metrics[filter as usize];
        if !known.contains(column) {
            known.push(*column);
        }
    }
    let total = columns.offsets.len() + 1;
    for (_, values) in &mut columns.metrics {
        values.resize(total, f64::NAN);
    }
    let (prompt, answer) = lengths(&fields, &mut flags);
    if fields.raw("filtered_resps").is_some_and(|raw| raw.len() < 4096 && raw.contains(INVALID)) {
        flags |= UNEXTRACTED;
    }
    if is_first
        && columns.offsets.len() < 20
        && let Some(Ok(doc)) = fields.raw("doc").map(Fields::parse)
    {
        for (name, _) in doc.iter() {
            if columns.fields.len() < 200 && !columns.fields.iter().any(|known| known == name) {
                columns.fields.push(name.to_owned());
            }
        }
    }
    columns.offsets.push(offset);
    columns.lengths.push(length);
    columns.doc_ids.push(doc_id.unwrap_or(-1));
    columns.hashes.push(hash.unwrap_or(0));
    columns.filters.push(filter);
    let deciding = names.metrics.iter().filter(|(.., may_decide)| *may_decide);
    columns.outcomes.push(Outcome::decide(deciding.map(|(name, ..)| fields.raw(name).and_then(number))));
    columns.flags.push(flags);
    columns.prompts.push(prompt);
    columns.answers.push(answer);
    Ok(())
}

/// The names of a sample's metrics, in order. Files of old releases do not list them: their metrics are all numbers.
pub(crate) fn metric_names(fields: &Fields<'_>) -> Vec<String> {
    let mut names = samples::metric_names(fields);
    if !fields.raw("metrics").is_some_and(|raw| raw.starts_with('[')) {
        names.retain(|name| fields.raw(name).and_then(number).is_some());
    }
    names
}

/// Characters of the first prompt and of the first answer, without decoding them. Sets the flags of the answer.
fn lengths(fields: &Fields<'_>, flags: &mut u8) -> (u32, u32) {
    // The first string of the arguments is the prompt, whatever is around it.
    let prompt = fields.raw("arguments").and_then(|raw| first_value_string(raw)).map_or(0, char_count);
    let Some(answers) = fields.raw("resps") else { return (prompt, 0) };
    // `[["answer", …], …]` for generation, `[[["-1.5", "False"]], …]` for log-likelihoods.
    let trimmed = answers.trim_start_matches(['[', ' ']);
    let depth = answers.len() - trimmed.len();
    if depth != 2 || !trimmed.starts_with('"') {
        return (prompt, 0);
    }
    let Some(answer) = string_at(trimmed, 0) else { return (prompt, 0) };
    if answer.is_empty() {
        *flags |= EMPTY;
    } else if is_whitespace(answer) {
        *flags |= WHITESPACE;
    }
    (prompt, char_count(answer))
}

fn is_whitespace(raw: &str) -> bool {
    raw.replace("\\n", " ").replace("\\t", " ").replace("\\r", " ").trim().is_empty()
}

/// The first string in a raw JSON value that is not a key, without quotes and not decoded.
fn first_value_string(raw: &str) -> Option<&str> {
    let mut at = 0;
    let mut key = "";
    while let Some(found) = memchr(b'"', &raw.as_bytes()[at..]) {
        let start = at + found;
        let string = string_at(raw, start)?;
        at = start + string.len() + 2;
        if raw[at..].trim_start().starts_with(':') {
            key = string;
        } else if key != "role" {
            return Some(string);
        }
    }
    None
}

/// The string that starts with the quote at `start`.
pub(crate) fn string_at(raw: &str, start: usize) -> Option<&str> {
    let bytes = raw.as_bytes();
    let mut at = start + 1;
    loop {
        let found = memchr::memchr2(b'"', b'\\', bytes.get(at..)?)?;
        at += found;
        if bytes[at] == b'"' {
            return raw.get(start + 1..at);
        }
        at += 2;
    }
}

/// Characters of a JSON string that is not decoded.
pub(crate) fn char_count(raw: &str) -> u32 {
    let bytes = raw.as_bytes();
    let mut count = 0;
    let mut rest = bytes;
    while let Some(found) = memchr(b'\\', rest) {
        count += starts(&rest[..found]);
        // `\uD83D\uDE00` is one character; its second half is not counted.
        let (width, is_character) = match rest.get(found + 1) {
            Some(b'u') => {
                (6, !matches!(rest.get(found + 2..found + 4), Some([b'd' | b'D', b'c'..=b'f' | b'C'..=b'F'])))
            }
            _ => (2, true),
        };
        count += usize::from(is_character);
        rest = rest.get(found + width..).unwrap_or_default();
    }
    count += starts(rest);
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// Bytes that start a character.
fn starts(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| (**byte & 0xC0) != 0x80).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(lines: &str) -> Columns {
        scan(lines.as_bytes(), 0, true, &OutcomeRule::default())
    }

    #[test]
    fn counts_characters_of_undecoded_strings() {
        for text in ["", "plain", "tab\tand\nline", "quote\"", "äöü", "😀", "back\\slash"] {
            let encoded = serde_json::to_string(text).unwrap();
            assert_eq!(char_count(&encoded[1..encoded.len() - 1]), text.chars().count() as u32, "{text}");
        }
        assert_eq!(char_count(r"\ud83d\ude00!\u00e9"), 3);
    }

    #[test]
    fn reads_outcomes_flags_and_lengths() {
        let lines = concat!(
            r#"{"doc_id": 0, "doc": {"q": "a"}, "arguments": {"gen_args_0": {"arg_0": "Hi\n", "arg_1": {}}}, "resps": [["abc"]], "#,
            r#""filtered_resps": ["[invalid]"], "filter": "strict", "metrics": ["acc", "f1"], "acc": 0, "f1": NaN}"#,
            "\n\nnot json\n",
            r#"{"doc_id": 1, "resps": [[" \n"]], "filter": "loose", "metrics": ["acc"], "acc": 0.5}"#,
            "\n",
            r#"{"doc_id": 2, "resps": [[["-1.5", "False"]]], "filter": "loose", "acc": true}"#,
        );
        let found = columns(lines);
        assert_eq!(found.doc_ids, [0, 1, 2]);
        assert_eq!(found.outcomes, [Outcome::Wrong, Outcome::Partial, Outcome::Right]);
        assert_eq!(found.flags, [UNEXTRACTED | NAN, WHITESPACE, 0]);
        assert_eq!((found.prompts[0], found.answers[0]), (3, 3));
        assert_eq!(found.filter_names, ["strict", "loose"]);
        assert_eq!(found.filter_metrics, [vec![0, 1], vec![0]]);
        assert_eq!(found.bad.len(), 1);
        assert_eq!(found.bad[0].0, 2);
        assert_eq!(found.fields, ["q"]);
        let mut all = columns(lines);
        all.append(columns(lines));
        assert_eq!(all.len(), 6);
        assert_eq!(all.metrics[1].1.len(), 6);
        assert_eq!(all.bad[1].0, 2 + found.lines);
    }
}
