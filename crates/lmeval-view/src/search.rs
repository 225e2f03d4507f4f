//! Searching whole prompts, answers and targets.

use std::borrow::Cow;

use lmeval_analysis::read::Fields;
use lmeval_core::Diagnostic;
use lmeval_pycompat::{Value, json};
use regex::{Regex, RegexBuilder};

use crate::Error;
use crate::api::Hit;
use crate::scan::string_at;

/// Characters around a hit.
const AROUND: usize = 60;

/// Memory that a compiled expression may take.
const COMPILED: usize = 10 << 20;

/// Parts of a sample that are searched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Places {
    prompt: bool,
    answer: bool,
    target: bool,
    doc: bool,
}

impl Places {
    /// Reads `prompt,answer`.
    pub(crate) fn parse(text: &str) -> Result<Self, Error> {
        let mut places = Self::default();
        for name in text.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            match name {
                "prompt" => places.prompt = true,
                "answer" => places.answer = true,
                "target" => places.target = true,
                "doc" => places.doc = true,
                other => {
                    return Err(Diagnostic::new(format!("`{other}` cannot be searched"))
                        .hint("Search in prompt, answer, target or doc")
                        .into());
                }
            }
        }
        Ok(places)
    }

    /// The fields of a line, with the name of the place.
    fn fields(self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let all = [
            (self.prompt, "prompt", "arguments"),
            (self.answer, "answer", "resps"),
            (self.answer, "answer", "filtered_resps"),
            (self.target, "target", "target"),
            (self.doc, "doc", "doc"),
        ];
        all.into_iter().filter(|(wanted, ..)| *wanted).map(|(_, place, field)| (place, field))
    }
}

/// The wanted string, as a regular expression. Matching takes time linear in the text, whatever the expression.
#[derive(Clone, Debug)]
pub(crate) struct Needle {
    regex: Regex,
    places: Places,
}

impl Needle {
    /// Plain text, or a regular expression.
    pub(crate) fn new(text: &str, is_regex: bool, is_case: bool, places: Places) -> Result<Self, Error> {
        let pattern = if is_regex { text.to_owned() } else { regex::escape(text) };
        let regex = RegexBuilder::new(&pattern)
            .case_insensitive(!is_case)
            .multi_line(true)
            .size_limit(COMPILED)
            .build()
            .map_err(|error| {
                Diagnostic::new(format!("`{text}` is not a regular expression")).caused_by(error)
            })?;
        Ok(Self { regex, places })
    }

    /// Whether a string has it.
    pub(crate) fn matches(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }

    /// Whether a line has it in one of its strings.
    pub(crate) fn is_in(&self, line: &str) -> bool {
        self.find(line, |regex, text| regex.is_match(text).then_some((0, 0))).is_some()
    }

    /// The first hit with the text around it.
    pub(crate) fn hit(&self, line: &str) -> Option<Hit> {
        let (place, text, (start, end)) =
            self.find(line, |regex, text| regex.find(text).map(|found| (found.start(), found.end())))?;
        let before: usize = text[..start].char_indices().rev().nth(AROUND - 1).map_or(0, |(at, _)| at);
        let after = text[end..].char_indices().nth(AROUND).map_or(text.len(), |(at, _)| end + at);
        // A hit may be as long as the text.
        let shown_end =
            text[start..end].char_indices().nth(crate::wire::SHORT).map_or(end, |(at, _)| start + at);
        let after = if shown_end < end { shown_end } else { after };
        let units = |text: &str| text.encode_utf16().count();
        let lead = if before > 0 { "…" } else { "" };
        let from = units(lead) + units(&text[before..start]);
        let shown = format!("{lead}{}{}", &text[before..after], if after < text.len() { "…" } else { "" });
        let masked = lmeval_core::secrets::mask_data(&shown);
        let to = from + units(&text[start..shown_end]);
        let (start, end) = if masked == shown { (from, to) } else { (0, 0) };
        Some(Hit { r#where: place, text: masked.into_owned(), start, end })
    }

    fn find(
        &self,
        line: &str,
        test: impl Fn(&Regex, &str) -> Option<(usize, usize)>,
    ) -> Option<(&'static str, String, (usize, usize))> {
        let fields = Fields::parse(line).ok()?;
        for (place, field) in self.places.fields() {
            let Some(raw) = fields.raw(field) else { continue };
            let mut found = None;
            for_each_string(raw, &mut |text: &str| {
                found = test(&self.regex, text).map(|range| (place, text.to_owned(), range));
                found.is_some()
            });
            if found.is_some() {
                return found;
            }
        }
        None
    }
}

/// Calls `visit` with each decoded string of a raw JSON value that is not a key, until it returns true.
///
/// The prompts of multiple choice repeat: a string equal to the one before the last is skipped. Settings of generations
/// are skipped, too.
fn for_each_string(raw: &str, visit: &mut impl FnMut(&str) -> bool) {
    let mut at = 0;
    let mut previous = ["", ""];
    let mut key = "";
    while let Some(found) = memchr::memchr(b'"', &raw.as_bytes()[at..]) {
        let start = at + found;
        let Some(string) = string_at(raw, start) else { return };
        let end = start + string.len() + 2;
        at = end;
        let rest = raw[end..].trim_start();
        if let Some(value) = rest.strip_prefix(':') {
            key = string;
            // `"arg_1": {"until": […], …}` ends at its brace; strings inside have no braces of interest.
            if key == "arg_1" && value.trim_start().starts_with('{') {
                at = raw.len() - value.trim_start().len() + object_length(value.trim_start());
            }
            continue;
        }
        let is_role = key == "role" || (key == "type" && string.len() < 20);
        let is_known = string == previous[0] || string == previous[1];
        previous = [previous[1], string];
        if is_role || is_known {
            continue;
        }
        if visit(&decode(string)) {
            return;
        }
    }
}

/// The length of the JSON object at the start of a string.
fn object_length(raw: &str) -> usize {
    let bytes = raw.as_bytes();
    let (mut at, mut depth) = (0, 0usize);
    while let Some(found) = memchr::memchr3(b'"', b'{', b'}', &bytes[at..]) {
        at += found;
        match bytes[at] {
            b'"' => match string_at(raw, at) {
                Some(string) => at += string.len() + 1,
                None => return raw.len(),
            },
            b'{' => depth += 1,
            _ => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return at + 1;
                }
            }
        }
        at += 1;
    }
    raw.len()
}

/// A raw JSON string without its quotes, decoded. The escapes of ordinary text are decoded here, others by the parser.
fn decode(raw: &str) -> Cow<'_, str> {
    let Some(first) = memchr::memchr(b'\\', raw.as_bytes()) else { return Cow::Borrowed(raw) };
    let mut text = String::with_capacity(raw.len());
    text.push_str(&raw[..first]);
    let mut rest = &raw[first..];
    loop {
        let plain = match rest.as_bytes().get(1) {
            Some(b'n') => '\n',
            Some(b't') => '\t',
            Some(b'r') => '\r',
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            _ => {
                let decoded = json::loads(&format!("\"{raw}\"")).ok();
                return match decoded {
                    Some(Value::Str(text)) => Cow::Owned(text.to_string()),
                    _ => Cow::Borrowed(raw),
                };
            }
        };
        text.push(plain);
        rest = &rest[2..];
        match memchr::memchr(b'\\', rest.as_bytes()) {
            Some(next) => {
                text.push_str(&rest[..next]);
                rest = &rest[next..];
            }
            None => {
                text.push_str(rest);
                return Cow::Owned(text);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = concat!(
        r#"{"doc_id": 0, "doc": {"question": "Ä?"}, "target": "B", "arguments": {"gen_args_0": {"arg_0": "Q: \"why\"\nA:", "#,
        r#""arg_1": {"until": ["stop {here}"], "n": {}}}, "gen_args_1": {"arg_0": "Second", "arg_1": "cont"}}, "#,
        r#""resps": [["Because \u00e9"]], "filtered_resps": ["Because"]}"#
    );

    fn has(text: &str, is_regex: bool, is_case: bool, places: &str) -> bool {
        Needle::new(text, is_regex, is_case, Places::parse(places).unwrap()).unwrap().is_in(LINE)
    }

    #[test]
    fn searches_decoded_texts_and_nothing_else() {
        assert!(has("\"why\"\nA", false, true, "prompt"));
        assert!(has("^A:$", true, true, "prompt"));
        assert!(has("second", false, false, "prompt"));
        assert!(!has("second", false, true, "prompt"));
        assert!(has("cont", false, true, "prompt"));
        assert!(has("because é", false, false, "answer"));
        assert!(!has("stop", false, false, "prompt"));
        assert!(!has("gen_args", false, false, "prompt,answer,target,doc"));
        assert!(has("Ä", false, true, "doc"));
        assert!(!has("Ä", false, true, "prompt,answer,target"));
        assert!(has("B", false, true, "target"));
    }

    #[test]
    fn hits_have_utf16_offsets() {
        let needle = Needle::new("why", false, true, Places::parse("prompt").unwrap()).unwrap();
        let hit = needle.hit(LINE).unwrap();
        assert_eq!((hit.r#where, hit.start, hit.end), ("prompt", 4, 7));
    }

    #[test]
    fn wrong_expressions_are_errors() {
        assert!(Needle::new("(", true, true, Places::default()).is_err());
        assert!(Needle::new("a{1000000}{1000}", true, true, Places::default()).is_err());
        assert!(Places::parse("elsewhere").is_err());
    }
}
