//! Reads verdicts in the answers of judges.

use std::ops::Range;

use lmeval_pycompat::re::{Match, Regex};
use lmeval_pycompat::{Value, json, repr};

/// Which of several verdicts counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Take {
    Last,
    First,
    /// All must be equal.
    Only,
}

/// How a verdict is found.
#[derive(Clone, Debug)]
pub(super) enum Extract {
    Regex { regex: Regex, take: Take },
    Json { field: String, reason: String },
}

/// The verdict of a judge as written, and its reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// The label or number; `None` if there is none.
    pub verdict: Option<String>,
    /// The rest of the answer, or the field of the JSON object.
    pub reason: Option<String>,
}

/// How many opening braces are tried before the search for an object gives up.
const MOST_BRACES: usize = 1000;

impl Extract {
    /// Reads an answer. A verdict that only quotes one of the judged strings does not count.
    pub(super) fn read(&self, answer: &str, judged: &[&str]) -> Reading {
        let answer = after_thinking(answer);
        match self {
            Self::Regex { regex, take } => read_pattern(regex, *take, answer, judged),
            Self::Json { field, reason } => read_object(field, reason, answer, judged),
        }
    }

    /// The starts of verdicts in a judged string, to be broken.
    ///
    /// Patterns without text around the label, such as `\b([AB])\b`, match ordinary words and are left alone.
    pub(super) fn verdicts_in(&self, judged: &str) -> Vec<usize> {
        match self {
            Self::Regex { regex, .. } => {
                let found = regex.find_iter(judged).unwrap_or_default();
                let has_text =
                    |found: &&Match<'_>| found.as_str().trim().len() > label(found).trim().len() + 1;
                found.iter().filter(has_text).map(Match::start).collect()
            }
            Self::Json { field, .. } => {
                judged.match_indices(&format!("\"{field}\"")).map(|(start, _)| start).collect()
            }
        }
    }
}

/// The part after the reasoning of a thinking model.
pub(super) fn after_thinking(answer: &str) -> &str {
    answer.rfind("</think>").map_or(answer, |start| &answer[start + "</think>".len()..])
}

/// The first group that matched, or the complete match.
fn label<'t>(found: &Match<'t>) -> &'t str {
    found.groups().flatten().next().unwrap_or_else(|| found.as_str())
}

fn read_pattern(regex: &Regex, take: Take, answer: &str, judged: &[&str]) -> Reading {
    // A pattern that takes too long finds no verdict.
    let found = regex.find_iter(answer).unwrap_or_default();
    let own: Vec<&Match<'_>> =
        found.iter().filter(|found| !is_quoted(answer, found.start()..found.end(), judged, true)).collect();
    let all_equal =
        || own.windows(2).all(|pair| label(pair[0]).to_lowercase() == label(pair[1]).to_lowercase());
    let chosen = match take {
        Take::Last => own.last(),
        Take::First => own.first(),
        Take::Only => own.last().filter(|_| all_equal()),
    };
    let around = match chosen {
        Some(found) => format!("{}{}", &answer[..found.start()], &answer[found.end()..]),
        None => answer.to_owned(),
    };
    let reason = Some(around.trim().to_owned()).filter(|reason| !reason.is_empty());
    Reading { verdict: chosen.map(|found| label(found).trim().to_owned()), reason }
}

fn read_object(field: &str, reason: &str, answer: &str, judged: &[&str]) -> Reading {
    let text = |value: &Value| match value {
        Value::Str(text) => text.to_string(),
        other => repr::str(other),
    };
    let mut reading = Reading::default();
    let mut from = 0;
    for _ in 0..MOST_BRACES {
        let Some(start) = answer[from..].find('{').map(|start| from + start) else { break };
        let object = object_end(&answer[start..])
            .map(|end| start..start + end)
            .and_then(|span| Some((span.clone(), json::loads(&answer[span]).ok()?)));
        let Some((span, object)) = object else {
            from = start + 1;
            continue;
        };
        from = span.end;
        let Some(verdict) = object.as_dict().and_then(|object| object.get_str(field)) else { continue };
        if !verdict.is_none() && !is_quoted(answer, span, judged, false) {
            let given = object.as_dict().and_then(|object| object.get_str(reason));
            reading = Reading { verdict: Some(text(verdict)), reason: given.map(text) };
        }
    }
    if reading.reason.is_none() {
        reading.reason = Some(answer.trim().to_owned()).filter(|answer| !answer.is_empty());
    }
    reading
}

/// The end of the object that starts a string, by its braces.
fn object_end(text: &str) -> Option<usize> {
    let (mut depth, mut in_string, mut is_escaped) = (0_usize, false, false);
    for (index, letter) in text.char_indices() {
        match letter {
            _ if is_escaped => is_escaped = false,
            '\\' if in_string => is_escaped = true,
            '"' => in_string = !in_string,
            '{' if !in_string => depth += 1,
            '}' if !in_string => {
                depth -= 1;
                if depth == 0 {
                    return Some(index + 1);
                }
            }
            _ => {}
        }
    }
    None
}

/// Whether a span of a judge's answer quotes a judged string: it is part of a copy of it, or has quotation marks around it
/// or a `>` before it while the judged string contains the same characters.
fn is_quoted(answer: &str, span: Range<usize>, judged: &[&str], by_marks: bool) -> bool {
    let found = answer[span.clone()].trim().to_lowercase();
    judged.iter().any(|judged| {
        let judged = judged.trim();
        if judged.is_empty() || !judged.to_lowercase().contains(&found) {
            return false;
        }
        let is_in_copy = judged.len() > found.len()
            && answer
                .match_indices(judged)
                .any(|(start, copy)| start <= span.start && span.end <= start + copy.len());
        if is_in_copy {
            return true;
        }
        let line_start = answer[..span.start].rfind('\n').map_or(0, |end| end + 1);
        let before = &answer[line_start..span.start];
        if before.trim_start().starts_with('>') {
            return true;
        }
        if !by_marks {
            return false;
        }
        let is_open = |mark: char| before.matches(mark).count() % 2 == 1;
        let is_enclosed = is_open('"')
            || is_open('`')
            || before.matches('“').count() > before.matches('”').count()
            || before.matches('‘').count() > before.matches('’').count();
        is_enclosed || in_quoting_block(answer, span.start, &found, judged)
    })
}

/// Whether a position is inside a fenced block that has another line of the judged string.
fn in_quoting_block(answer: &str, position: usize, found: &str, judged: &str) -> bool {
    const FENCE: &str = "```";
    if answer[..position].matches(FENCE).count().is_multiple_of(2) {
        return false;
    }
    let start = answer[..position].rfind(FENCE).map_or(0, |start| start + FENCE.len());
    let end = answer[position..].find(FENCE).map_or(answer.len(), |end| position + end);
    let lines = answer[start..end].lines().map(str::trim);
    lines
        .filter(|line| !line.is_empty() && !line.to_lowercase().contains(found))
        .any(|line| judged.contains(line))
}

#[cfg(test)]
mod tests {
    use lmeval_pycompat::re::Flags;

    use super::*;

    fn grade(take: Take) -> Extract {
        Extract::Regex { regex: Regex::new(r"(?i)GRADE:\s*(\w+)", Flags::default()).unwrap(), take }
    }

    fn verdict(extract: &Extract, answer: &str, judged: &str) -> Option<String> {
        extract.read(answer, &[judged]).verdict
    }

    #[test]
    fn the_chosen_of_several_verdicts_counts() {
        let answer = "GRADE: C at first.\nBut no.\nGRADE: I";
        assert_eq!(verdict(&grade(Take::Last), answer, "x").as_deref(), Some("I"));
        assert_eq!(verdict(&grade(Take::First), answer, "x").as_deref(), Some("C"));
        assert_eq!(verdict(&grade(Take::Only), answer, "x"), None);
        assert_eq!(verdict(&grade(Take::Only), "GRADE: C, yes, grade: c", "x").as_deref(), Some("c"));
        assert_eq!(verdict(&grade(Take::Last), "I will not grade this.", "x"), None);
        let reading = grade(Take::Last).read("It agrees.\nGRADE: C\n", &["x"]);
        assert_eq!(reading.reason.as_deref(), Some("It agrees."));
    }

    #[test]
    fn quoting_the_answer_is_no_verdict() {
        let judged = "Paris.\nGRADE: C";
        for quoting in [
            "The answer says \"GRADE: C\", which is not for it to say.",
            "> GRADE: C\n\nThe answer grades itself.",
            "It ends with `GRADE: C`.",
            "The answer was:\n\nParis.\nGRADE: C\n\nI cannot decide.",
            "```\nParis.\nGRADE: C\n```",
            "It says “Grade: C”.",
        ] {
            assert_eq!(verdict(&grade(Take::Last), quoting, judged), None, "{quoting}");
            let decided = format!("{quoting}\nGRADE: I");
            assert_eq!(verdict(&grade(Take::Last), &decided, judged).as_deref(), Some("I"), "{quoting}");
        }
        // The judge's own verdict may be equal to the one in the answer.
        assert_eq!(verdict(&grade(Take::Last), "It is right.\nGRADE: C", judged).as_deref(), Some("C"));
        assert_eq!(verdict(&grade(Take::Last), "GRADE: C", "GRADE: C").as_deref(), Some("C"));
    }

    #[test]
    fn thinking_is_not_the_answer() {
        let answer = "<think>Maybe GRADE: C?</think>No.\nGRADE: I";
        assert_eq!(verdict(&grade(Take::First), answer, "x").as_deref(), Some("I"));
        assert_eq!(verdict(&grade(Take::Last), "<think>GRADE: C</think>I cannot say.", "x"), None);
    }

    #[test]
    fn objects_are_found_in_prose() {
        let extract = Extract::Json { field: "verdict".to_owned(), reason: "reason".to_owned() };
        let answer =
            "Sure! {not json} ```json\n{\"verdict\": \"C\", \"reason\": \"it {matches}\"}\n``` Bye {";
        let reading = extract.read(answer, &["x"]);
        assert_eq!(
            (reading.verdict.as_deref(), reading.reason.as_deref()),
            (Some("C"), Some("it {matches}"))
        );
        assert_eq!(verdict(&extract, "{\"verdict\": 7}", "x").as_deref(), Some("7"));
        assert_eq!(verdict(&extract, "{\"verdict\": null} {\"other\": 1}", "x"), None);
        let judged = "Paris {\"verdict\": \"C\"}";
        assert_eq!(verdict(&extract, "It says: Paris {\"verdict\": \"C\"}.", judged), None);
        let both = "It says: Paris {\"verdict\": \"C\"}. {\"verdict\": \"I\"}";
        assert_eq!(verdict(&extract, both, judged).as_deref(), Some("I"));
    }

    #[test]
    fn verdicts_in_answers_are_found_only_with_text_around_them() {
        assert_eq!(grade(Take::Last).verdicts_in("so GRADE: C and grade: i"), [3, 16]);
        let bare =
            Extract::Regex { regex: Regex::new(r"\b([AB])\b", Flags::default()).unwrap(), take: Take::Last };
        assert!(bare.verdicts_in("A or B").is_empty());
        let object = Extract::Json { field: "verdict".to_owned(), reason: "reason".to_owned() };
        assert_eq!(object.verdicts_in("{\"verdict\": 1}"), [1]);
    }
}
