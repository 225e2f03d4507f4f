//! Properties of all patterns and strings.

use proptest::prelude::*;

use crate::re::pattern::Engine;
use crate::re::{Flags, Regex, escape};

/// Strings of characters that occur in patterns.
fn pattern_like() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        "a",
        "b",
        "é",
        "1",
        "_",
        " ",
        "\n",
        ".",
        "*",
        "+",
        "?",
        "{",
        "}",
        "2",
        ",",
        "(",
        ")",
        "(?:",
        "(?=",
        "(?!",
        "(?<=",
        "(?<!",
        "(?>",
        "(?i)",
        "(?P<n>",
        "(?P=n)",
        "(?(1)",
        "|",
        "[",
        "]",
        "^",
        "$",
        "\\",
        "\\1",
        "\\b",
        "\\w",
        "\\Z",
        "-",
        "#",
        "\u{10400}",
        "(?#",
        "(?x:",
        "\\x",
        "\\u00e9",
    ]);
    prop::collection::vec(pieces, 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn never_panics(pattern in pattern_like(), text in pattern_like(), template in pattern_like()) {
        if let Ok(regex) = Regex::new(&pattern, Flags::NONE) {
            let regex = regex.with_step_limit(20_000);
            let _ = regex.search(&text);
            let _ = regex.match_start(&text);
            let _ = regex.fullmatch(&text);
            let _ = regex.findall(&text);
            let _ = regex.sub(&template, &text, 0);
            let _ = regex.split(&text, 2);
        }
    }

    #[test]
    fn never_panics_on_any_string(pattern in ".{0,12}", text in ".{0,20}") {
        if let Ok(regex) = Regex::new(&pattern, Flags::IGNORECASE | Flags::MULTILINE) {
            let _ = regex.with_step_limit(20_000).findall(&text);
        }
    }

    #[test]
    fn all_matchers_agree(pattern in pattern_like(), text in pattern_like()) {
        if let Ok(regex) = Regex::new(&pattern, Flags::NONE) {
            let best = regex.split(&text, 0);
            let fast = regex.clone().with_engine(Engine::Fast);
            let machine = regex.with_engine(Engine::Machine);
            prop_assert_eq!(&best, &machine.split(&text, 0));
            prop_assert_eq!(fast.split(&text, 0), best);
        }
    }

    #[test]
    fn escaped_string_matches_itself(text in ".{0,20}") {
        let regex = Regex::new(&escape(&text), Flags::NONE).expect("escaped text is a pattern");
        prop_assert_eq!(regex.fullmatch(&text).expect("no limit").map(|found| found.as_str()), Some(text.as_str()));
    }

    #[test]
    fn parts_and_matches_add_up_to_the_string(pattern in pattern_like(), text in pattern_like()) {
        if let Ok(regex) = Regex::new(&pattern, Flags::NONE) {
            let kept = regex.sub_with(&text, 0, |found| found.as_str().to_owned());
            if let Ok(kept) = kept {
                prop_assert_eq!(kept, text);
            }
        }
    }
}
