//! Messages, positions and hints of errors.

use lmeval_template::chat::ChatTemplate;
use lmeval_template::{Environment, ErrorKind};

use crate::{document, render};

#[test]
fn undefined_variables_list_the_columns() {
    let document = document(r#"{"question": "Why?", "choices": ["a"]}"#);
    let error = render("Q: {{ n }}\n{{ qestion }}", &document).expect_err("the variable is missing");
    assert_eq!(error.kind(), ErrorKind::Undefined);
    assert_eq!(error.variable(), Some("n"));
    assert_eq!(error.line(), Some(1));

    let error = render("Q:\n{{ qestion }}", &document).expect_err("the variable is missing");
    assert_eq!(error.message(), "The variable `qestion` is not defined");
    assert_eq!(error.line(), Some(2));
    let range = error.range().expect("the position is known");
    assert_eq!(error.template().map(|template| &template[range]), Some("qestion"));
    assert_eq!(error.hints(), ["Did you mean `question`?", "The columns are `question`, `choices`"]);
}

#[test]
fn unknown_filters_fail_at_compile_time() {
    let environment = Environment::new();
    let error = environment.compile("{{ x|uper }}").expect_err("there is no such filter");
    assert_eq!(error.kind(), ErrorKind::UnknownFilter);
    assert_eq!(error.hints(), ["Did you mean `upper`?"]);
    assert_eq!(error.range(), Some(5..9));
    let error = environment.compile("a\n{{ x is definde }}").expect_err("there is no such test");
    assert_eq!(error.kind(), ErrorKind::UnknownTest);
    assert_eq!(error.line(), Some(2));
    assert_eq!(error.hints(), ["Did you mean `defined`?"]);
}

#[test]
fn unknown_filters_in_conditions_fail_when_reached() {
    let template =
        Environment::new().compile("{% if x %}{{ x|uper }}{% endif %}ok").expect("it may never be reached");
    assert_eq!(template.unresolved_names().iter().collect::<Vec<_>>(), ["uper"]);
    assert_eq!(template.render(&document(r#"{"x": ""}"#)).expect("not reached"), "ok");
    let error = template.render(&document(r#"{"x": "a"}"#)).expect_err("reached");
    assert_eq!(error.kind(), ErrorKind::UnknownFilter);
}

#[test]
fn unsupported_filters_fail_at_compile_time() {
    for source in [
        "a\n{{ x|pprint }}",
        "a\n{% if x %}{{ x |  pprint }}{% endif %}",
        "a\n{% filter pprint %}x{% endfilter %}",
        "a\n{{ x|pprint if y else x }}",
        "a\n{% macro m() %}{% if y %}{{ x|upper|pprint|lower }}{% endif %}{% endmacro %}",
    ] {
        let error = Environment::new().compile(source).expect_err(source);
        assert_eq!(error.kind(), ErrorKind::UnknownFilter, "{source}");
        assert_eq!(error.message(), "The filter `pprint` is not supported", "{source}");
        assert_eq!(error.line(), Some(2), "{source}");
        assert_eq!(&source[error.range().expect(source)], "pprint", "{source}");
        let hints = error.hints();
        assert!(hints[0].contains("!function"), "{hints:?}");
        assert!(hints[1].contains("`tojson`") && !hints[1].contains("`pprint`"), "{hints:?}");
    }
    let error = ChatTemplate::compile("{% if tools %}{{ tools|pprint }}{% endif %}").expect_err("refused");
    assert_eq!(error.message(), "The filter `pprint` is not supported");
    assert!(!error.hints().join("\n").contains("letter_choices"), "{:?}", error.hints());
    for name in ["filesizeformat", "striptags", "urlize", "wordwrap", "xmlattr"] {
        let error = Environment::new().compile(&format!("{{{{ x|{name}(1) }}}}")).expect_err(name);
        assert_eq!(error.message(), format!("The filter `{name}` is not supported"));
    }
    let error = render("{{ [1]|map('pprint')|list }}", &document("{}")).expect_err("refused when reached");
    assert_eq!(error.message(), "The filter `pprint` is not supported");
}

#[test]
fn unsupported_filter_names_are_otherwise_usable() {
    let document = document(r#"{"pprint": 1, "wordwrap": {"urlize": 2}}"#);
    let source = "x |pprint{{ pprint }}{{ wordwrap.urlize }}{{ 'pprint' is filter }}";
    assert_eq!(render(source, &document).expect("no filter is applied"), "x |pprint12False");
}

#[test]
fn syntax_errors_have_a_position() {
    let error = Environment::new().compile("a\r\n{% if x %}\r\nb").expect_err("the block is open");
    assert_eq!(error.kind(), ErrorKind::Syntax);
    assert_eq!(error.line(), Some(2));
    assert_eq!(error.template(), Some("a\n{% if x %}\nb"));
}

#[test]
fn lists_undeclared_variables() {
    let source = "{% set a = b %}{% for c in d %}{{ c }}{{ e }}{{ loop.index }}{% endfor %}{{ a }}{{ range(f) }}{{ self }}";
    let template = Environment::new().compile(source).expect("it compiles");
    let names: Vec<String> = template.undeclared_variables().into_iter().collect();
    assert_eq!(names, ["b", "d", "e", "f"]);
}

#[test]
fn templates_can_be_shared_between_threads() {
    fn check<T: Send + Sync + Clone>(_: &T) {}
    let environment = Environment::new();
    let template = environment.compile("{{ x }}{{ x.append(1) }}{{ x }}").expect("it compiles");
    check(&environment);
    check(&template);
    let document = document(r#"{"x": []}"#);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                // The document itself is never modified.
                assert_eq!(template.render(&document).expect("it renders"), "[]None[1]");
            });
        }
    });
}

#[test]
fn zip_combines_columns() {
    let columns = document(r#"{"letters": ["A", "B", "C"], "choices": ["x", "y"], "zip": "8001"}"#);
    let rest = document(r#"{"letters": ["A", "B", "C"], "choices": ["x", "y"]}"#);
    let lines = "{% for letter, choice in zip(letters, choices) %}{{ letter }}. {{ choice }}\n{% endfor %}";
    assert_eq!(render(lines, &rest).expect("it renders"), "A. x\nB. y\n");
    assert_eq!(
        render("{{ zip(letters)|list }}{{ zip()|length }}", &rest).expect("it renders"),
        "[('A',), ('B',), ('C',)]0"
    );
    // A column named `zip` takes precedence.
    assert_eq!(render("{{ zip }}", &columns).expect("it renders"), "8001");
    let error = render("{{ zip(letters, strict=True) }}", &rest).expect_err("it has no such argument");
    assert_eq!(error.message(), "`zip` has no parameter `strict`");
}
