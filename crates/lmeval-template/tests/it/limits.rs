//! Templates that must end in an error rather than in a hang or a crash.

use lmeval_pycompat::Dict;
use lmeval_template::{Environment, ErrorKind};

use crate::render;

fn limited(template: &str) {
    let environment = Environment::new().with_fuel(200_000);
    let result = environment.compile(template).and_then(|template| template.render(&Dict::new()));
    let error = result.expect_err("the template asks for too much");
    assert_eq!(error.kind(), ErrorKind::Limit, "{template:.60}: {error}");
}

#[test]
fn work_is_limited() {
    limited("{% for x in range(10**12) %}{% endfor %}");
    limited("{{ range(10**12)|list }}");
    limited("{{ range(10**12)|sum }}");
    limited("{% for x in range(10**9) if x < 0 %}{% endfor %}");
    limited("{{ 10**12 in range(10**13)|map('string') }}");
}

#[test]
fn sizes_are_limited() {
    limited("{{ 'a' * 10**12 }}");
    limited("{{ [1] * 10**12 }}");
    limited("{{ '%1000000000000d' % 1 }}");
    limited("{{ 'a'.center(10**12) }}");
    limited("{{ 9 ** 99999999 }}");
    limited("{{ 'x'.replace('', 'y' * 10**8) * 9 }}");
}

#[test]
fn depth_is_limited() {
    limited("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}");
    limited(
        "{% macro m() %}{% if 1 %}{% for x in [1] %}{{ [m()] }}{% endfor %}{% endif %}{% endmacro %}{{ m() }}",
    );
    limited("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}");
    limited("{% block x %}{{ self.x() }}{% endblock %}");
    limited(&format!("{{{{ {}1{} }}}}", "(".repeat(5000), ")".repeat(5000)));
    limited(&format!("{{{{ {}1 }}}}", "-".repeat(5000)));
    limited(&format!("{{{{ {}1 }}}}", "not ".repeat(5000)));
    limited(&format!("{{{{ 1{} }}}}", "+1".repeat(5000)));
    limited(&format!("{{{{ x{} }}}}", ".x".repeat(5000)));
    limited(&format!("{{{{ 1{} }}}}", "|abs".repeat(5000)));
    limited(&format!("{{{{ {}1{} }}}}", "[".repeat(5000), "]".repeat(5000)));
    limited(&"{% if 1 %}".repeat(5000));
    limited(&format!("{{{{ 1{} }}}}", " if 1 else 1".repeat(5000)));
}

#[test]
fn deep_values_do_no_harm() {
    let template =
        "{% set n = namespace(x=[]) %}{% for i in range(50000) %}{% set n.x = [n.x] %}{% endfor %}";
    assert_eq!(render(template, &Dict::new()).expect("building is allowed"), "");
    limited(&format!("{}{{{{ n.x }}}}", template.replace("50000", "500")));
    limited(&format!("{}{{{{ n.x == n.x[0] }}}}", template.replace("50000", "5000")));
    limited(&format!("{}{{{{ n.x|string }}}}", template.replace("50000", "500")));
    let nested =
        "{% set n = namespace(x={}) %}{% for i in range(50000) %}{% set n.x = {'a': n.x} %}{% endfor %}";
    assert_eq!(render(nested, &Dict::new()).expect("building is allowed"), "");
    let lazy = "{% set n = namespace(x=[1]) %}{% for i in range(50000) %}{% set n.x = [n.x|map('abs')] %}{% endfor %}";
    assert_eq!(render(lazy, &Dict::new()).expect("building is allowed"), "");
    let chain =
        "{% set n = namespace(x=[1]) %}{% for i in range(5000) %}{% set n.x = n.x|map('abs') %}{% endfor %}";
    limited(&format!("{chain}{{{{ n.x|list }}}}"));
    let spaces =
        "{% set n = namespace(x=1) %}{% for i in range(50000) %}{% set n.x = namespace(y=n.x) %}{% endfor %}";
    assert_eq!(render(spaces, &Dict::new()).expect("building is allowed"), "");
}

#[test]
fn any_text_is_parsed_without_a_crash() {
    let pieces = [
        "{{", "}}", "{%", "%}", "{#", "#}", " x ", "|", "-", "'", "\\", "(", "[", "if", "for", "é", "\n",
        "raw",
    ];
    let mut state = 1_u32;
    for _ in 0..20_000 {
        let mut text = String::new();
        for _ in 0..12 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            text.push_str(pieces[(state >> 16) as usize % pieces.len()]);
        }
        let _ = render(&text, &Dict::new());
    }
}
