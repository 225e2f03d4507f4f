//! A smaller document on which the two loaders still differ.

use super::oracle::Oracle;
use super::ours;

/// Shrinks a document and describes it.
pub(super) fn shrink(text: &str, oracle: &mut Oracle) -> String {
    let mut text: Vec<char> = text.chars().collect();
    while let Some(smaller) = first_failing(&candidates(&text), oracle) {
        text = smaller;
    }
    let text: String = text.into_iter().collect();
    oracle.ask(std::slice::from_ref(&text));
    let theirs = oracle.answer().remove(0);
    format!("{text:?}\n    PyYAML: {theirs:?}\n    ours:   {:?}", ours(&text))
}

/// The document without a stretch, longest stretches first, and with plainer characters.
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
        oracle.ask(&texts);
        let answers = oracle.answer();
        let differs = texts.iter().zip(answers).position(|(text, theirs)| ours(text) != theirs);
        if let Some(index) = differs {
            return Some(group[index].clone());
        }
    }
    None
}
