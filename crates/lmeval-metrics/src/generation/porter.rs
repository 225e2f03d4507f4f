//! The Porter stemmer, with the extensions of ROUGE's implementation.

/// Exceptions to the rules.
const IRREGULAR: &[(&str, &str)] = &[
    ("sky", "sky"),
    ("skies", "sky"),
    ("dying", "die"),
    ("lying", "lie"),
    ("tying", "tie"),
    ("news", "news"),
    ("innings", "inning"),
    ("inning", "inning"),
    ("outings", "outing"),
    ("outing", "outing"),
    ("cannings", "canning"),
    ("canning", "canning"),
    ("howe", "howe"),
    ("proceed", "proceed"),
    ("exceed", "exceed"),
    ("succeed", "succeed"),
];

const STEP_2: &[(&str, &str)] = &[
    ("ational", "ate"),
    ("tional", "tion"),
    ("enci", "ence"),
    ("anci", "ance"),
    ("izer", "ize"),
    ("bli", "ble"),
    ("alli", "al"),
    ("entli", "ent"),
    ("eli", "e"),
    ("ousli", "ous"),
    ("ization", "ize"),
    ("ation", "ate"),
    ("ator", "ate"),
    ("alism", "al"),
    ("iveness", "ive"),
    ("fulness", "ful"),
    ("ousness", "ous"),
    ("aliti", "al"),
    ("iviti", "ive"),
    ("biliti", "ble"),
    ("fulli", "ful"),
];

const STEP_3: &[(&str, &str)] = &[
    ("icate", "ic"),
    ("ative", ""),
    ("alize", "al"),
    ("iciti", "ic"),
    ("ical", "ic"),
    ("ful", ""),
    ("ness", ""),
];

const STEP_4: &[&str] = &[
    "al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ion", "ou", "ism",
    "ate", "iti", "ous", "ive", "ize",
];

/// The stem of a lower-case ASCII word.
///
/// ```
/// use lmeval_metrics::generation::stem;
///
/// assert_eq!(stem("relational"), "relat");
/// ```
pub fn stem(word: &str) -> String {
    if let Some((_, stem)) = IRREGULAR.iter().find(|(irregular, _)| *irregular == word) {
        return (*stem).to_owned();
    }
    if word.len() <= 2 || !word.is_ascii() {
        return word.to_owned();
    }
    let mut word = word.to_owned();
    plural(&mut word);
    past_and_participle(&mut word);
    final_y(&mut word);
    double_suffix(&mut word);
    replace_first(&mut word, STEP_3, |stem| measure(stem) > 0);
    long_suffix(&mut word);
    final_e(&mut word);
    if word.ends_with("ll") && measure(&word[..word.len() - 1]) > 1 {
        word.pop();
    }
    word
}

fn plural(word: &mut String) {
    if word.ends_with("ies") && word.len() == 4 {
        word.pop();
        return;
    }
    replace_first(word, &[("sses", "ss"), ("ies", "i"), ("ss", "ss"), ("s", "")], |_| true);
}

fn past_and_participle(word: &mut String) {
    if word.ends_with("ied") {
        let kept = if word.len() == 4 { 1 } else { 2 };
        word.truncate(word.len() - kept);
        return;
    }
    if word.ends_with("eed") {
        if measure(&word[..word.len() - 3]) > 0 {
            word.pop();
        }
        return;
    }
    let stem =
        ["ed", "ing"].into_iter().find_map(|suffix| word.strip_suffix(suffix).filter(|stem| has_vowel(stem)));
    let Some(stem) = stem else { return };
    let length = stem.len();
    word.truncate(length);
    let bytes = word.as_bytes();
    if ["at", "bl", "iz"].iter().any(|end| word.ends_with(end)) {
        word.push('e');
    } else if length >= 2 && bytes[length - 1] == bytes[length - 2] && is_consonant(bytes, length - 1) {
        if !matches!(bytes[length - 1], b'l' | b's' | b'z') {
            word.pop();
        }
    } else if measure(word) == 1 && ends_cvc(word) {
        word.push('e');
    }
}

fn final_y(word: &mut String) {
    let length = word.len();
    if word.ends_with('y') && length > 2 && is_consonant(word.as_bytes(), length - 2) {
        word.truncate(length - 1);
        word.push('i');
    }
}

fn double_suffix(word: &mut String) {
    while word.strip_suffix("alli").is_some_and(|stem| measure(stem) > 0) {
        word.truncate(word.len() - 2);
    }
    if STEP_2.iter().any(|(suffix, _)| word.ends_with(suffix)) {
        replace_first(word, STEP_2, |stem| measure(stem) > 0);
    } else if word.ends_with("logi") && measure(&word[..word.len() - 3]) > 0 {
        word.pop();
    }
}

fn long_suffix(word: &mut String) {
    let Some(stem) = STEP_4.iter().find_map(|suffix| Some((word.strip_suffix(suffix)?, *suffix))) else {
        return;
    };
    let fits = stem.1 != "ion" || stem.0.ends_with(['s', 't']);
    if measure(stem.0) > 1 && fits {
        word.truncate(word.len() - stem.1.len());
    }
}

fn final_e(word: &mut String) {
    if let Some(stem) = word.strip_suffix('e') {
        let measure = measure(stem);
        if measure > 1 || (measure == 1 && !ends_cvc(stem)) {
            word.pop();
        }
    }
}

/// Applies the first rule whose suffix the word has, if the condition holds for the remainder.
fn replace_first(word: &mut String, rules: &[(&str, &str)], condition: impl Fn(&str) -> bool) {
    for (suffix, replacement) in rules {
        if let Some(stem) = word.strip_suffix(suffix) {
            if condition(stem) {
                word.truncate(word.len() - suffix.len());
                word.push_str(replacement);
            }
            return;
        }
    }
}

/// Whether a letter is a consonant; `y` is one at the start and after a vowel.
fn is_consonant(word: &[u8], position: usize) -> bool {
    match word[position] {
        b'a' | b'e' | b'i' | b'o' | b'u' => false,
        b'y' => {
            let before = word[..position].iter().rev().take_while(|letter| **letter == b'y').count();
            let first = position - before;
            // The first `y` of a run depends on the preceding letter, and each further one alternates.
            let first_is_consonant = first == 0 || !is_consonant(word, first - 1);
            first_is_consonant == before.is_multiple_of(2)
        }
        _ => true,
    }
}

/// The number of transitions from vowels to consonants.
fn measure(stem: &str) -> usize {
    consonants(stem).windows(2).filter(|pair| !pair[0] && pair[1]).count()
}

fn has_vowel(stem: &str) -> bool {
    consonants(stem).contains(&false)
}

fn consonants(stem: &str) -> Vec<bool> {
    let mut flags: Vec<bool> = Vec::with_capacity(stem.len());
    for letter in stem.bytes() {
        flags.push(match letter {
            b'a' | b'e' | b'i' | b'o' | b'u' => false,
            b'y' => flags.last().is_none_or(|before| !before),
            _ => true,
        });
    }
    flags
}

/// Whether a word ends in consonant, vowel and consonant other than w, x and y, or consists of a vowel and a
/// consonant.
fn ends_cvc(word: &str) -> bool {
    match consonants(word)[..] {
        [false, true] => true,
        [.., true, false, true] => !word.ends_with(['w', 'x', 'y']),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_stems() {
        for (word, expected) in [
            ("caresses", "caress"),
            ("ponies", "poni"),
            ("dies", "die"),
            ("died", "die"),
            ("spied", "spi"),
            ("agreed", "agre"),
            ("feed", "feed"),
            ("hopping", "hop"),
            ("falling", "fall"),
            ("filing", "file"),
            ("happy", "happi"),
            ("enjoy", "enjoy"),
            ("skies", "sky"),
            ("rational", "ration"),
            ("radically", "radic"),
            ("adoption", "adopt"),
            ("controlling", "control"),
            ("rate", "rate"),
            ("yyyy", "yyyi"),
            ("123", "123"),
        ] {
            assert_eq!(stem(word), expected, "{word}");
        }
    }
}
