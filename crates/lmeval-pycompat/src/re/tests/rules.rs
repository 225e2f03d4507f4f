//! One test per rule of Python's syntax and semantics.

use crate::re::pattern::Engine;
use crate::re::{Error, ErrorKind, Flags, Regex, escape};
use crate::{Value, repr::repr};

fn compile(pattern: &str) -> Regex {
    Regex::new(pattern, Flags::NONE).expect(pattern)
}

fn compile_error(pattern: &str) -> Error {
    Regex::new(pattern, Flags::NONE).expect_err(pattern)
}

/// The result of `findall` as Python prints it, checked to be the same from all matchers.
fn findall(pattern: &str, text: &str) -> String {
    let regex = compile(pattern);
    let shown = |engine| {
        let found = regex.clone().with_engine(engine).findall(text).expect(pattern);
        repr(&Value::list(found))
    };
    let best = shown(Engine::Best);
    assert_eq!(shown(Engine::Fast), shown(Engine::Machine), "{pattern:?} on {text:?}");
    assert_eq!(shown(Engine::Machine), best, "{pattern:?} on {text:?}");
    best
}

fn groups(pattern: &str, text: &str) -> Option<Vec<Option<String>>> {
    let regex = compile(pattern);
    let found = regex.search(text).expect(pattern)?;
    Some(found.groups().map(|group| group.map(str::to_owned)).collect())
}

fn matches(pattern: &str, text: &str) -> bool {
    compile(pattern).fullmatch(text).expect(pattern).is_some()
}

#[test]
fn findall_returns_matches_groups_or_tuples() {
    assert_eq!(findall(r"\d+", "1 22"), "['1', '22']");
    assert_eq!(findall(r"(a)?x", "xax"), "['', 'a']");
    assert_eq!(findall(r"(a?)(b?)x", "xabx"), "[('', ''), ('a', 'b')]");
    assert_eq!(findall(r"#### (\-?[0-9\.\,]+)", "#### -5 #### 7"), "['-5', '7']");
}

#[test]
fn everything_up_to_the_last_literal() {
    assert_eq!(findall("(?s).*#### ", "a #### 1\n#### 2"), r"['a #### 1\n#### ']");
    assert_eq!(findall(".*#### ", "a #### 1\n#### 2"), "['a #### ', '#### ']");
    assert_eq!(findall("(?s).*aa", "baaab"), "['baaa']");
    assert_eq!(findall("(?s).*aa", "aaé"), "['aa']");
    assert_eq!(findall("(?s).*?aa", "baaaab"), "['baa', 'aa']");
    assert_eq!(findall("(?s).*aa", "ab"), "[]");
    assert_eq!(findall("(?s).+aa", "aa"), "[]");
    assert_eq!(findall("(?s)(.*)#### ", "a #### 1"), "['a ']");
    assert_eq!(compile("(?s).*#### ").sub("<>", "a #### 1 #### 2", 0).expect("sub"), "<>2");
}

#[test]
fn empty_matches_follow_non_empty_ones() {
    assert_eq!(findall("b*", "ab"), "['', 'b', '']");
    assert_eq!(findall("|a", "a"), "['', 'a', '']");
    assert_eq!(findall(r"\d*", "a12b"), "['', '12', '', '']");
    assert_eq!(findall("x*", "é"), "['', '']");
    assert_eq!(findall(r"\b|:+", "a::bc"), "['', '', '::', '', '']");
}

#[test]
fn dollar_matches_before_a_final_line_feed() {
    assert_eq!(compile(r"\.$").sub("", "a.\n", 0).expect("sub"), "a\n");
    assert_eq!(compile("$").sub("X", "a\n", 0).expect("sub"), "aX\nX");
    assert_eq!(compile("(?m)$").sub("X", "a\r\nb\n", 0).expect("sub"), "a\rX\nbX\nX");
    assert!(!matches(r"a\Z\n", "a\n"));
    assert_eq!(findall(r"a\Z", "a\n"), "[]");
    assert_eq!(findall("a$", "a\n\n"), "[]");
}

#[test]
fn only_the_line_feed_breaks_lines() {
    assert_eq!(findall(".+", "a\rb\u{2028}c\nd"), "['a\\rb\\u2028c', 'd']");
    assert_eq!(findall("(?m)^.", "a\rb\nc"), "['a', 'c']");
    assert_eq!(findall("(?s)a.b", "a\nb"), "['a\\nb']");
}

#[test]
fn classes_match_as_in_python() {
    assert!(matches(r"\w+", "aé字²½Ⅷ_"));
    assert_eq!(findall(r"\w+", "e\u{301}s‿t"), "['e', 's', 't']");
    assert!(matches(r"\s+", "\x1c\x1d\u{85}\u{a0}\u{3000}"));
    assert!(!matches(r"(?a)\s", "\x1c"));
    assert!(matches(r"\d+", "1٣"));
    assert!(!matches(r"\d", "²"));
    assert_eq!(findall(r"(?a:\w+)|\d", "aé٣"), "['a', '٣']");
}

#[test]
fn word_boundaries_match_as_in_python() {
    assert_eq!(findall(r"\byes\b", "yes\u{301} yesé"), "['yes']");
    assert_eq!(findall(r"(?a)\byes\b", "yesé"), "['yes']");
    assert_eq!(findall(r"\B", ""), "[]");
    assert_eq!(findall(r"\b", ""), "[]");
    assert_eq!(findall(r"\Ba", "aa a"), "['a']");
}

#[test]
fn ignores_case_as_in_python() {
    assert!(matches("(?i)ſK", "SK"));
    assert!(matches("(?i)k", "\u{212a}"));
    assert!(matches("(?i)i+", "ıİI"));
    assert!(!matches("(?i)ß", "SS"));
    assert!(matches("(?i)ß", "ẞ"));
    assert!(matches("(?i)σ+", "Σς"));
    assert!(!matches("(?ia)k", "\u{212a}"));
    assert!(matches("(?i)(é)\\1", "éÉ"));
    assert!(matches("(?i)[^a-z]", "1") && !matches("(?i)[^a-z]", "ſ"));
    assert!(matches("(?i:a)(?-i:b)", "Ab") && !matches("(?i)a(?-i:b)", "AB"));
}

#[test]
fn sets_have_no_operators() {
    assert_eq!(findall("[]a]+", "]a["), "[']a']");
    assert_eq!(findall("[^]a]+", "]b["), "['b[']");
    assert_eq!(findall("[[a]+", "[a]"), "['[a']");
    assert_eq!(findall("[[]a]", "[a]"), "['[a]']");
    assert_eq!(findall("[a&&b]+", "a&b"), "['a&b']");
    assert_eq!(findall("[a~~b|]+", "a~|"), "['a~|']");
    assert_eq!(findall(r"[\d\-x-z]+", "1-y"), "['1-y']");
    assert_eq!(findall(r"[\b]", "\x08"), "['\\x08']");
}

#[test]
fn braces_without_bounds_are_literal() {
    for (pattern, text) in
        [("a{", "a{"), ("a{,}", "aaa"), ("a{,2}", "aa"), ("a{2", "a{2"), ("a{}", "a{}"), ("{a}", "{a}")]
    {
        assert!(matches(pattern, text), "{pattern}");
    }
    assert_eq!(compile_error("{1}").message(), "there is nothing here to repeat");
}

#[test]
fn repeats_are_greedy_lazy_or_possessive() {
    assert_eq!(findall("a+?", "aa"), "['a', 'a']");
    assert_eq!(findall("<.*?>", "<a><b>"), "['<a>', '<b>']");
    assert!(!matches("a*+a", "aa"));
    assert!(!matches("(?>a|ab)c", "abc"));
    assert!(!matches("(?:a|ab){2}+", "aba"));
    assert!(matches("(?:ab){2,3}+c", "abababc"));
    assert!(matches("(a{1,2}){2}", "aaa"));
}

#[test]
fn groups_in_loops_capture_the_last_round() {
    let some =
        |texts: &[Option<&str>]| Some(texts.iter().map(|text| text.map(str::to_owned)).collect::<Vec<_>>());
    assert_eq!(groups("(?:(a)|b)*", "ab"), some(&[Some("a")]));
    assert_eq!(groups("(?:(a)|(b))*", "aba"), some(&[Some("a"), Some("b")]));
    assert_eq!(groups("(?:a|())*", "aa"), some(&[Some("")]));
    assert_eq!(groups("(|a)*b", "aab"), some(&[Some("")]));
    assert_eq!(groups("(?:(a)b|ac)+", "abac"), some(&[Some("a")]));
    assert_eq!(groups("(a)|b", "b"), some(&[None]));
}

#[test]
fn matches_references_and_conditionals() {
    assert!(matches(r"(a|b)\1", "bb"));
    assert!(!matches(r"(?:(a)|b)\1", "b"));
    assert!(matches(r"(?P<q>['\x22]).*(?P=q)", "'a'"));
    assert!(matches("(<)?a(?(1)>|!)", "<a>") && matches("(<)?a(?(1)>|!)", "a!"));
    assert!(matches(r"\101\x41\u0041\U00000041\0", "AAAA\0"));
    assert!(matches(r"(a)(b)(c)(d)(e)(f)(g)(h)(i)(j)\10", "abcdefghijj"));
}

#[test]
fn matches_look_around() {
    assert_eq!(findall("(?=(female|woman|man|male))", "a woman"), "['woman', 'man']");
    assert_eq!(findall("(?<=The answer is )(.*)(?=.)", "The answer is 42."), "['42']");
    assert_eq!(findall(r"(?<!\d)\d(?!\d)", "1 22 3"), "['1', '3']");
    assert_eq!(findall("(?<=é字)b", "é字b"), "['b']");
    assert_eq!(compile_error("(?<=a+)b").message(), "a lookbehind must match a fixed number of characters");
    assert_eq!(compile_error("(?<=a|bc)").message(), "a lookbehind must match a fixed number of characters");
}

#[test]
fn ignores_verbose_whitespace_and_comments() {
    assert!(matches("(?x) a b # rest\n c", "abc"));
    assert!(matches(r"(?x)a\ b[ ]c", "a b c"));
    assert!(matches("a(?#nothing)b", "ab"));
    assert!(matches("(?x:a b) c", "ab c"));
}

#[test]
fn syntax_errors_have_the_positions_of_python() {
    for (pattern, message, position) in [
        ("*a", "there is nothing here to repeat", 0),
        ("a**", "a repeat cannot be repeated; put it in a group first", 2),
        ("a{2}{3}", "a repeat cannot be repeated; put it in a group first", 4),
        ("^*", "there is nothing here to repeat", 1),
        ("(a", "the parenthesis is never closed", 0),
        ("a)", "the parenthesis was never opened", 1),
        ("[a", "the set is never closed", 0),
        ("[z-a]", "the range `z-a` is reversed or does not connect two characters", 1),
        (r"[\w-a]", r"the range `\w-a` is reversed or does not connect two characters", 1),
        (r"[\x41-!]", r"the range `\x41-!` is reversed or does not connect two characters", 3),
        (r"\q", r"the escape `\q` has no meaning here", 0),
        (r"[\Z]", r"the escape `\Z` has no meaning here", 1),
        ("a\\", "the backslash at the end has nothing to escape", 1),
        ("*\\", "the backslash at the end has nothing to escape", 1),
        (r"\x4", r"the escape `\x4` needs more hexadecimal digits", 0),
        (r"\400", r"the octal escape `\400` is larger than `\377`", 0),
        (r"\1(a)", "there is no group `1`", 1),
        (r"(a\1)", "the group referred to is not closed yet", 2),
        ("a(?i)", "flags for the entire pattern must be at its start; for a part, write `(?flags:…)`", 1),
        ("(?P<1a>b)", "`1a` cannot name a group", 4),
        ("(?P<a>b)(?P<a>c)", "the name `a` already belongs to group `1`", 12),
        ("(?P=a)", "no group is named `a`", 4),
        ("(?(2)a)(b)", "there is no group `2`", 3),
        ("a{3,2}", "the lower bound of the repeat is above its upper bound", 2),
        ("(?z)", "no kind of group starts with `(?z`", 1),
        ("(?i-i:a)", "a flag cannot be switched on and off at once", 5),
        ("(?L)", "the flag `L` is for byte patterns", 3),
    ] {
        let error = compile_error(pattern);
        assert_eq!((error.message(), error.position()), (message, Some(position)), "{pattern}");
    }
    assert_eq!(compile_error("a{99999999999}").kind(), ErrorKind::Overflow);
    assert_eq!(
        compile_error("a)").to_string(),
        "Invalid regular expression `a)`: the parenthesis was never opened at position 1"
    );
}

#[test]
fn unsupported_patterns_are_errors() {
    let deep = format!("{}{}", "(".repeat(300), ")".repeat(300));
    for pattern in [r"\N{DIGIT ONE}", "(?:(a)|b)*+", "((?(1)a|b))*", &deep] {
        assert_eq!(compile_error(pattern).kind(), ErrorKind::NotSupported, "{pattern}");
    }
    let nested = format!("{}a{}", "(?:(?=".repeat(90), "))*".repeat(90));
    assert!(compile(&nested).search("ba").is_ok());
}

#[test]
fn substitutes_templates() {
    let regex = compile(r"(?P<w>\w)(x)?");
    let sub = |template: &str| regex.sub(template, "a-b", 0);
    assert_eq!(sub(r"<\1\2\g<0>\g<w>\g<1>>").expect("sub"), "<aaaa>-<bbbb>");
    assert_eq!(sub(r"\n\\\.\101\0").expect("sub"), "\n\\\\.A\0-\n\\\\.A\0");
    for (template, message) in [
        (r"\q", r"the escape `\q` has no meaning here"),
        (r"\3", "there is no group `3`"),
        (r"\g<x>", "no group is named `x`"),
        (r"\g", r"`\g` takes a group in angle brackets"),
        (r"\g<>", "the name is empty"),
        (r"\g<1", "the name is never closed"),
        (r"\400", r"the octal escape `\400` is larger than `\377`"),
        ("\\", "the backslash at the end has nothing to escape"),
    ] {
        assert_eq!(sub(template).expect_err(template).message(), message);
    }
    assert_eq!(regex.sub("X", "a-b", 1).expect("sub"), "X-b");
    let upper = regex.sub_with("a-b", 0, |found| found.as_str().to_uppercase());
    assert_eq!(upper.expect("sub"), "A-B");
}

#[test]
fn split_keeps_groups_and_splits_at_empty_matches() {
    let split = |pattern: &str, text: &str, limit: usize| -> Vec<Option<String>> {
        compile(pattern).split(text, limit).expect(pattern)
    };
    let some = |parts: &[&str]| parts.iter().map(|part| Some((*part).to_owned())).collect::<Vec<_>>();
    assert_eq!(split(r"\s*", "a b", 0), some(&["", "a", "", "b", ""]));
    assert_eq!(split("(,)", "a,b,c", 1), some(&["a", ",", "b,c"]));
    assert_eq!(split("(x)|,", "a,b", 0), vec![Some("a".into()), None, Some("b".into())]);
}

#[test]
fn matches_have_byte_offsets() {
    let regex = compile(r"(?P<first>é)(b)?");
    let found = regex.search("xé").expect("no limit").expect("there is a match");
    assert_eq!((found.start(), found.end()), (1, 3));
    assert_eq!(found.name("first"), Some("é"));
    assert_eq!(found.name("second"), None);
    assert_eq!(found.group(2), None);
    assert_eq!(regex.groups(), 2);
    assert_eq!(regex.group_names().collect::<Vec<_>>(), [("first", 1)]);
    assert!(regex.match_start("xé").expect("no limit").is_none());
}

#[test]
fn escape_puts_backslashes_before_special_characters() {
    assert_eq!(escape("a.b-c d#é_/:'\n"), "a\\.b\\-c\\ d\\#é_/:'\\\n");
}

#[test]
fn runaway_matches_hit_the_step_limit() {
    let text = format!("{}é", "a".repeat(60));
    for pattern in ["(a+)+b", "(?:a|a)*b", r"(a*)*\1b", "(?:(?:a?)*)*b"] {
        let regex = compile(pattern).with_step_limit(200_000);
        let error = regex.fullmatch(&text).expect_err(pattern);
        assert_eq!(error.kind(), ErrorKind::Limit);
        assert!(error.to_string().contains(pattern));
    }
}

#[test]
fn mutually_exclusive_flags_are_an_error() {
    let error = Regex::new("a", Flags::ASCII | Flags::UNICODE).expect_err("flags");
    assert_eq!(error.message(), "the flags ASCII and UNICODE exclude each other");
    assert!(Regex::new("(?u)a", Flags::ASCII).is_err());
}

#[test]
fn patterns_are_shared_between_threads() {
    fn check<T: Send + Sync + Clone>(_: &T) {}
    check(&compile("a"));
}
