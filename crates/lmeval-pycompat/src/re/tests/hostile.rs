//! Patterns designed to exhaust time, memory or the stack.

use crate::re::{ErrorKind, Flags, Regex};

/// 10 MB.
const LENGTH: usize = 10_000_000;

/// Compiles a pattern in a thread with Rust's default stack size.
fn compiled(pattern: String) -> Result<(), (ErrorKind, Option<usize>)> {
    let thread = std::thread::Builder::new().stack_size(2 << 20);
    let compile = move || match Regex::new(&pattern, Flags::NONE) {
        Ok(_) => Ok(()),
        Err(error) => {
            assert!(error.to_string().len() < 10_000);
            Err((error.kind(), error.position()))
        }
    };
    thread.spawn(compile).expect("thread").join().expect("no panic and no overflow")
}

fn repeated(unit: &str) -> String {
    unit.repeat(LENGTH / unit.len())
}

#[test]
fn megabytes_of_one_construct_are_errors_with_a_position() {
    use ErrorKind::{NotSupported, Pattern};
    let mut wrong = Vec::new();
    for (unit, kind, position) in [
        ("(", NotSupported, 200),
        ("(?:", NotSupported, 600),
        ("(?=", NotSupported, 600),
        ("(?<=", NotSupported, 800),
        ("(?>(?i:", NotSupported, 700),
        ("a(b|", NotSupported, 801),
        ("[", NotSupported, 1_000_002),
        ("a|", NotSupported, 1_000_001),
        ("a", NotSupported, 1_000_001),
        ("x*", NotSupported, 2_000_001),
        ("(a)", NotSupported, 1_500_002),
        ("{", NotSupported, 1_000_001),
        ("{1,", NotSupported, 1_000_001),
        ("[a-b]", NotSupported, 2_500_002),
        ("(?P<", Pattern, 4),
        ("(?#", Pattern, 0),
        ("(?P<a>", Pattern, 10),
        (r"\1", Pattern, 1),
        ("()|", NotSupported, 1_500_002),
    ] {
        let found = compiled(repeated(unit));
        if found != Err((kind, Some(position))) {
            wrong.push((unit, found));
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn parses_megabytes_of_comments() {
    for unit in ["(?x)#", "(?#)", "(?i)"] {
        compiled(repeated(unit)).expect(unit);
    }
    compiled(format!("(?x){}", repeated(" #\n"))).expect("white space");
    let digits = format!("a{{{}", "1".repeat(900_000));
    compiled(digits.clone()).expect("ordinary characters");
    assert_eq!(compiled(digits + "}"), Err((ErrorKind::Overflow, None)));
    assert_eq!(compiled(repeated(r"\")), Err((ErrorKind::NotSupported, Some(2_000_002))));
    assert_eq!(compiled(format!("*{}", r"\".repeat(9))), Err((ErrorKind::Pattern, Some(0))));
}

#[test]
fn deepest_patterns_fit_a_small_stack() {
    for (opening, closing) in [
        ("(", ")"),
        ("(?:", ")*"),
        ("(?=", ")"),
        ("(?<!a", ")"),
        ("(?>", ")+?"),
        ("(?i:b|", ")"),
        ("(a|", "){2}"),
        ("(?:a|", "){1,2}+"),
        ("(?P<n", ")"),
    ] {
        let unit = |depth: usize| match opening {
            "(?P<n" => format!("{opening}{depth}>"),
            _ => opening.to_owned(),
        };
        let pattern: String = (0..200).map(unit).collect();
        compiled(pattern + "b" + &closing.repeat(200)).unwrap_or_else(|error| panic!("{opening}: {error:?}"));
    }
    let conditionals = format!("(x){}b{}", "(?(1)a|".repeat(200), ")".repeat(200));
    compiled(conditionals).expect("conditionals");
}

#[test]
fn looks_up_many_names_quickly() {
    let all = |before: &str, after: &str| {
        let names: Vec<String> = (0..90_000).map(|number| format!("{before}n{number}{after}")).collect();
        names.concat()
    };
    let regex = Regex::new(&(all("(?P<", ">)") + &all("(?P=", ")")), Flags::NONE).expect("many names");
    assert_eq!(regex.sub(&all(r"\g<", ">"), "", 0).expect("template"), "");
}

#[test]
fn huge_bounds_and_widths_are_errors() {
    let wide = "(?:".repeat(100) + "a" + &"){65536}".repeat(100);
    assert_eq!(compiled(format!("(?<={wide})")), Err((ErrorKind::Pattern, None)));
    compiled(wide).expect("it is never run");
}

#[test]
fn long_comparisons_count_as_steps() {
    let (text, long) = ("a".repeat(8000), "a".repeat(4000));
    for (pattern, text) in [
        ("a{8001}".to_owned(), format!("{text}{}", "b".repeat(8000))),
        ("(?:a{8001}?|z)b(?=b)".to_owned(), format!("{text}{}", "b".repeat(8000))),
        (r"^(a*)c(?:\1b|.)*$".to_owned(), format!("{long}c{text}")),
        (r"(?i)^(a*)c(?:\1b|.)*$".to_owned(), format!("{long}c{text}")),
        (format!("^c(?:(?!{long}b).)*(?=$)"), format!("c{text}")),
        (format!("^c(?:(?<={long})b|.)*$"), format!("c{text}")),
        (format!("{long}(?=b)"), text.clone()),
    ] {
        let regex = Regex::new(&pattern, Flags::NONE).expect("pattern").with_step_limit(1000);
        let found = regex.search(&text).map_err(|error| error.kind());
        assert!(matches!(found, Err(ErrorKind::Limit)), "{}: {found:?}", &pattern[..8]);
    }
}

#[test]
fn run_longer_than_the_string_is_not_tried() {
    let regex = Regex::new("(?:a{1000000}){1000000}", Flags::NONE).expect("pattern").with_step_limit(1000);
    assert!(regex.search(&"a".repeat(999_999)).expect("few steps").is_none());
}

#[test]
fn sets_of_many_members_stay_small() {
    for (set, other, member) in [
        ("\\d\\s".repeat(100_000), "\u{e9}", "1"),
        ("\\0-\\uffff".repeat(20_000), "\u{10400}", "\u{e9}"),
        ("\\U00010400-\\U00010427".repeat(20_000), "\u{e9}", "\u{10400}"),
    ] {
        let regex = Regex::new(&format!("(?i)[{set}]b"), Flags::NONE).expect("pattern");
        assert!(regex.search(&other.repeat(20_000)).expect("few steps").is_none());
        assert!(regex.search(&format!("{member}b")).expect("few steps").is_some());
    }
}
