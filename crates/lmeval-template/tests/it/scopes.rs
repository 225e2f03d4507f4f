//! Name resolution in cases that the recordings do not cover. The expected outputs are Jinja2's.

use lmeval_template::chat::ChatTemplate;

use crate::{document, render};

#[test]
fn defaults_read_what_the_body_assigns() {
    let document = document(r#"{"n": 3, "b": true}"#);
    let check = |template: &str, expected: &str| {
        assert_eq!(render(template, &document).expect(template), expected, "{template}");
    };
    check("{% macro m(q=n) %}{% set n = 5 %}{{ q }}{{ n }}{% endmacro %}{{ m() }}", "35");
    // With an outer variable of the same name, as of the call.
    check(
        "{% set n = 1 %}{% macro m(q=n) %}{% if b %}{% set n = 5 %}{% endif %}{{ q }}{{ n }}{% endmacro %}{% set n = 2 %}{{ m() }}",
        "25",
    );
    check(
        "{{ n }}{% macro m(q=n) %}{% if not b %}{% set n = 5 %}{% endif %}{{ q }}{% endmacro %}{{ m() }}",
        "33",
    );
    check(
        "{{ n }}{% macro m() %}{{ caller() }}{% endmacro %}{% call(q=n) m() %}{% set n = 5 %}{{ q }}{{ n }}{% endcall %}",
        "335",
    );
}

#[test]
fn unique_treats_undefined_attributes_as_equal() {
    let template =
        ChatTemplate::compile("{{ l|unique(attribute='k')|map(attribute='n')|join }}").expect("it compiles");
    let document = document(r#"{"l": [{"n": 1}, {"n": 2, "k": "v"}, {"n": 3}, {"n": 4, "k": "v"}]}"#);
    assert_eq!(template.render(&document).expect("it renders"), "12");
}
