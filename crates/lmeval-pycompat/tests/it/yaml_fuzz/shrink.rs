//! Reduces a document to a smaller one on which the two loaders still differ.

use lmeval_testkit::Oracle;

use super::{ours, question, theirs};

/// Shrinks a document and formats both results for it.
pub(super) fn shrink(text: &str, oracle: &mut Oracle) -> String {
    let mut text: Vec<char> = text.chars().collect();
    while let Some(smaller) = first_failing(&candidates(&text), oracle) {
        text = smaller;
    }
    let text: String = text.into_iter().collect();
    let theirs = theirs(&oracle.ask(&question(std::slice::from_ref(&text)))).remove(0);
    format!("{text:?}\n    PyYAML: {theirs:?}\n    ours:   {:?}", ours(&text))
}

/// The document without one substring, longest first, or with one character replaced by a plainer one.
fn candidates(text: &[char]) -> Vec<Vec<char>> {
    let mut candidates = Vec::new();
    let mut length = text.len();
    while length > 0 {
        for start in (0..text.len()).step_by(length.div_ceil(2)) {
            let end = (start + length).min(text.len());
            candidates.push([&text[..start], &text[end..]].concat());
        }
        length /= 2;
    }
    for (index, character) in text.iter().enumerate() {
        let plainer = match character {
            'a' | ' ' | '\n' => continue,
            '\r' | '\u{85}' | '\u{2028}' | '\u{2029}' => '\n',
            '\t' => ' ',
            _ => 'a',
        };
        let mut changed = text.to_vec();
        changed[index] = plainer;
        candidates.push(changed);
    }
    candidates
}

fn first_failing(candidates: &[Vec<char>], oracle: &mut Oracle) -> Option<Vec<char>> {
    for group in candidates.chunks(50) {
        let texts: Vec<String> = group.iter().map(|text| text.iter().collect()).collect();
        let answers = theirs(&oracle.ask(&question(&texts)));
        let differs = texts.iter().zip(answers).position(|(text, theirs)| ours(text) != theirs);
        if let Some(index) = differs {
            return Some(group[index].clone());
        }
    }
    None
}
