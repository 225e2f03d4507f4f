//! Templates that must fail with an error instead of hanging or crashing.

use lmeval_pycompat::Dict;
use lmeval_template::{Environment, Error, ErrorKind, Template};

use crate::render;

fn limited(template: &str) {
    let environment = Environment::new().with_fuel(200_000);
    let result = environment.compile(template).and_then(|template| template.render(&Dict::new()));
    let error = result.expect_err("the template asks for too much");
    assert_eq!(error.kind(), ErrorKind::Limit, "{template:.60}: {error}");
}

#[test]
fn limits_steps() {
    limited("{% for x in range(10**12) %}{% endfor %}");
    limited("{{ range(10**12)|list }}");
    limited("{{ range(10**12)|sum }}");
    limited("{% for x in range(10**9) if x < 0 %}{% endfor %}");
    limited("{{ 10**12 in range(10**13)|map('string') }}");
}

#[test]
fn limits_sizes() {
    limited("{{ 'a' * 10**12 }}");
    limited("{{ [1] * 10**12 }}");
    limited("{{ '%1000000000000d' % 1 }}");
    limited("{{ 'a'.center(10**12) }}");
    limited("{{ 9 ** 99999999 }}");
    limited("{{ 'x'.replace('', 'y' * 10**8) * 9 }}");
}

#[test]
fn limits_depth() {
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
fn tolerates_deeply_nested_values() {
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
fn parses_any_input_without_panicking() {
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

/// A string of about 10 MB.
fn long(piece: &str) -> String {
    piece.repeat(10_000_000 / piece.len())
}

/// Compiles on a thread with the default stack size.
fn compile(source: String) -> Result<Template, Error> {
    let thread = std::thread::Builder::new().stack_size(2 << 20);
    thread.spawn(move || Environment::new().compile(&source)).unwrap().join().expect("no panic")
}

#[test]
fn long_garbage_fails_fast_with_a_position() {
    let openings = [
        "{{",
        "{{ (",
        "{{ [",
        "{{ {",
        "{{ -",
        "{{ not ",
        "{{ a",
        "{% if x %}",
        "{% for a in b %}",
        "{#",
        "{% raw %}",
        "{{ '",
        "{%",
        "{% with %}",
        "{% macro m() %}",
        "{% set x %}",
        "{% filter upper %}",
        "{{ 1 if ",
        "{{ f(",
        "{{ x[",
        "{% set (",
        "{% call",
    ];
    let pieces = [
        "{{",
        "{%",
        "(",
        "[",
        "{",
        "not ",
        "-",
        "a.",
        ".a",
        "a|b",
        "|b",
        "+1",
        "**2",
        " if a else b",
        "{% if x %}",
        "{% for a in b %}",
        "{#",
        "{% raw %}",
        "\\'",
        "{% with %}",
        "{% macro m() %}",
        "{% set x %}",
        "f(",
        "x[",
        "{'a': ",
        " ",
        "\n",
        "1",
        "é",
        "~ a ",
        "a, ",
    ];
    for opening in openings {
        for piece in pieces {
            // Testing each piece after one operand, and each opening with its own piece, keeps the test
            // short.
            if opening != "{{ a" && opening.trim_start_matches("{{ ") != piece {
                continue;
            }
            let error = compile(format!("{opening}{}", long(piece))).expect_err("it is not a template");
            let range = error.range().expect("the position is known");
            assert!(
                error.line().is_some() && range.end <= 10_000_100,
                "{opening}{piece}: {error} at {range:?}"
            );
        }
    }
}

#[test]
fn long_templates_compile_in_linear_time() {
    let count = 20_000;
    let numbered = |make: fn(usize) -> String| (0..count).map(make).collect::<String>();
    let templates = [
        numbered(|number| format!("{{{{ a{number} }}}}")),
        numbered(|number| format!("{{% set a{number} = {number} %}}")),
        numbered(|number| format!("{{% block b{number} scoped %}}{{% endblock %}}")),
        numbered(|number| format!("{{% macro m{number}(a) %}}{{{{ a{number} }}}}{{% endmacro %}}")),
        numbered(|number| format!("{{# {number} #}} {{% raw %}}{{{{{{% endraw %}}")),
        format!("{{{{ f({}) }}}}", numbered(|number| format!("a{number}=1,"))),
        format!(
            "{{% macro m({}) %}}{{% endmacro %}}",
            numbered(|number| format!("a{number},")).trim_end_matches(',')
        ),
        format!("{{{{ [{}] }}}}", numbered(|number| format!("{number},"))),
        format!("{{{{ {} }}}}", numbered(|number| format!("'{number}' "))),
        format!("{{{{ 0{} }}}}", numbered(|number| format!(" ~ a{number}"))),
        format!("{{{{ 0{} }}}}", numbered(|number| format!(" < {number}"))),
        format!("{{% if x %}}{}{{% endif %}}", numbered(|number| format!("{{% elif a{number} %}}{number}"))),
    ];
    for template in templates {
        compile(template).expect("it compiles");
    }
}

/// Templates at the nesting limits either fail or render within a thread's stack.
#[test]
fn survives_nesting_up_to_the_limits() {
    let wrap = |open: &str, inner: &str, close: &str, depth: usize| {
        format!("{}{inner}{}", open.repeat(depth), close.repeat(depth))
    };
    let expressions = [
        ("(", ")"),
        ("[", "]"),
        ("{'a': ", "}"),
        ("-", ""),
        ("not ", ""),
        ("x|default(", ")"),
        ("range(", ")"),
        ("1 + (", ")"),
        ("1 if 0 else ", ""),
    ];
    let statements = [
        ("{% if 1 %}", "{% endif %}"),
        ("{% for i in [1] %}", "{% endfor %}"),
        ("{% with a = 1 %}", "{% endwith %}"),
        ("{% filter upper %}", "{% endfilter %}"),
        ("{% set x %}", "{% endset %}"),
        ("{% macro m() %}", "{% endmacro %}{{ m() }}"),
        ("{% for i in [1] recursive %}", "{% endfor %}"),
    ];
    let mut rendered = 0;
    for depth in [20, 60, 95, 150, 195, 240] {
        let mut templates = Vec::new();
        for (open, close) in expressions {
            let expression = wrap(open, "1", close, depth);
            templates.push(format!("{{{{ {expression} }}}}"));
            templates.push(wrap("{% if 1 %}", &format!("{{{{ {expression} }}}}"), "{% endif %}", 60));
        }
        templates.extend(statements.map(|(open, close)| wrap(open, "a", close, depth)));
        for (index, template) in templates.into_iter().enumerate() {
            let thread = std::thread::Builder::new().stack_size(2 << 20);
            let run = move || Environment::new().compile(&template)?.render(&Dict::new());
            match thread.spawn(run).unwrap().join().expect("no panic") {
                Ok(_) => rendered += 1,
                Err(error) if depth < 60 => {
                    assert_ne!(error.kind(), ErrorKind::Limit, "template {index}: {error}");
                }
                Err(_) => {}
            }
        }
    }
    assert!(rendered > 60, "only {rendered} render");
}
