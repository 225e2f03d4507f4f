//! Random templates from the grammar of statements.
//!
//! A few short names are assigned and read everywhere, so that scopes shadow each other, and any of them may
//! be printed with a default, which shows what a scope sees without failing. Most templates respect what
//! [`Scope`] knows and render; wild ones do not. Delimiters get random signs. Omitted, with the reason:
//!
//! - assignments to `caller`, `varargs`, `kwargs` and `self`: their effect depends on the order in which
//!   Jinja2 visits its tree, and no real template does it;
//! - variables in the arguments of filters after `{% set x | … %}`: Jinja2 fails an internal assertion if the
//!   name occurs only there;
//! - unknown filters and tests deep in expressions: Jinja2 skips what constant folding makes redundant;
//! - filter blocks that produce something other than a string: Jinja2 notices only when it joins the output,
//!   so any failure in between comes first;
//! - macros that escape their scope through a namespace: Jinja2 then prints its internal `missing`.

mod macros;

use std::fmt::Write;

use lmeval_pycompat::Value;
use lmeval_testkit::Dice;

use super::expression::expression;
use super::scope::{Kind, NAMES, Scope};

/// The variables that templates read.
pub(super) fn variables() -> Vec<(&'static str, Value)> {
    let texts = |items: &[&str]| Value::list(items.iter().map(|item| Value::from(*item)));
    let entry = |key: &str| Value::dict([("k", Value::from(key)), ("n", Value::Int(1))]);
    vec![
        ("s", Value::from("a bc")),
        ("t", Value::from(" Naïve 日本\n x ")),
        ("e", Value::from("")),
        ("n", Value::Int(3)),
        ("f", Value::Float(2.5)),
        ("b", Value::Bool(true)),
        ("z", Value::None),
        ("l", texts(&["a", "B c", "a", ""])),
        ("m", Value::list([Value::Int(2), Value::Float(0.5), Value::Int(-1)])),
        ("ll", Value::list([entry("v"), entry("w"), Value::dict([("n", Value::Int(2))])])),
        (
            "d",
            Value::dict([
                ("a", Value::from("x")),
                ("b", Value::from("Y")),
                ("n", Value::Int(2)),
                ("l", texts(&["p", "q"])),
            ]),
        ),
    ]
}

const BLOCKS: [&str; 4] = ["b1", "b2", "b3", "b4"];

const MACROS: [&str; 3] = ["m0", "m1", "m2"];

/// Kinds that variables are assigned.
const ASSIGNED: [Kind; 7] =
    [Kind::Text, Kind::Text, Kind::Integer, Kind::Number, Kind::Texts, Kind::Numbers, Kind::Dict];

/// A macro that can be called.
#[derive(Clone)]
struct Macro {
    name: &'static str,
    parameters: Vec<Parameter>,
    takes_more: bool,
    caller: Option<Vec<Kind>>,
}

#[derive(Clone)]
struct Parameter {
    name: &'static str,
    kind: Kind,
    default: Option<String>,
}

struct Generator<'d> {
    dice: &'d mut Dice,
    out: String,
    chat: bool,
    scope: Scope,
    blocks: usize,
    macros: Vec<Macro>,
    /// Statements that may still be generated.
    budget: usize,
}

/// Generates a template.
pub(super) fn template(dice: &mut Dice, chat: bool) -> String {
    let budget = 1 + dice.roll(6);
    let scope = Scope::of_document(dice.percent(20));
    let mut generator =
        Generator { dice, out: String::new(), chat, scope, blocks: 0, macros: Vec::new(), budget };
    while generator.budget > 0 {
        generator.statement(3);
    }
    generator.out
}

impl Generator<'_> {
    fn name(&mut self) -> &'static str {
        self.dice.pick(&NAMES)
    }

    fn kind(&mut self) -> Kind {
        ASSIGNED[self.dice.roll(ASSIGNED.len())]
    }

    fn expression(&mut self, kind: Kind) -> String {
        let depth = [0, 1, 1, 2, 2, 3][self.dice.roll(6)];
        expression(self.dice, kind, depth, &self.scope)
    }

    fn tag(&mut self, content: &str) {
        let open = self.dice.pick(&["{%", "{%", "{%", "{%", "{%-", "{%+"]);
        let close = self.dice.pick(&["%}", "%}", "%}", "%}", "-%}", "+%}"]);
        let colon = if self.dice.percent(1) { ":" } else { "" };
        write!(self.out, "{open} {content}{colon} {close}").unwrap();
    }

    fn print(&mut self, content: &str) {
        let open = self.dice.pick(&["{{", "{{", "{{", "{{-", "{{+"]);
        let close = self.dice.pick(&["}}", "}}", "}}", "-}}"]);
        write!(self.out, "{open} {content} {close}").unwrap();
    }

    fn text(&mut self) {
        let text = self
            .dice
            .pick(&["a", " ", "\n", " b\n", "\n  ", "{", "}", "é ", "# c", "% ", "\t\n\n", "}}", "\r\n"]);
        self.out.push_str(text);
    }

    fn body(&mut self, depth: usize) {
        for _ in 0..=self.dice.roll(3) {
            if self.budget > 0 || self.dice.percent(50) {
                self.statement(depth);
            }
        }
    }

    /// Generates a body in its own scope; returns the scope at its end.
    fn body_in(&mut self, scope: Scope, depth: usize) -> Scope {
        let before = std::mem::replace(&mut self.scope, scope);
        let macros = self.macros.len();
        self.body(depth);
        self.macros.truncate(macros);
        std::mem::replace(&mut self.scope, before)
    }

    fn statement(&mut self, depth: usize) {
        self.budget = self.budget.saturating_sub(1);
        let choice = if depth == 0 { self.dice.roll(40) } else { self.dice.roll(100) };
        match choice {
            0..7 => self.text(),
            7..19 => {
                let kind = [Kind::Text, Kind::Number, Kind::Truth, Kind::List, Kind::Any][self.dice.roll(5)];
                let content = self.expression(kind);
                self.print(&content);
            }
            19..30 => self.look(),
            30..38 => self.set(),
            38 => match self.dice.roll(3) {
                0 if self.scope.wild || self.dice.percent(15) => self.rare(),
                _ => self.out.push_str(["{# c #}", "{#- {{ x -#}", "{# \n#}\n"][self.dice.roll(3)]),
            },
            39 => self.raw(),
            40..54 => self.for_loop(depth - 1),
            54..66 => self.condition(depth - 1),
            66..75 => self.macro_and_call(depth - 1),
            75..79 => self.call_block(depth - 1),
            79..84 => self.set_block(depth - 1),
            84..88 => {
                let filter = self.dice.pick(&[
                    "upper",
                    "trim",
                    "replace('a', t)",
                    "replace('x', 'q')",
                    "indent(2) | title",
                ]);
                let filter = if self.scope.wild && self.dice.percent(15) { "nope" } else { filter };
                self.tag(&format!("filter {filter}"));
                self.body_in(self.scope.inner(), depth - 1);
                self.tag("endfilter");
            }
            88..93 => self.with(depth - 1),
            93..96 => self.block(depth - 1),
            96..98 => self.namespace(depth - 1),
            _ if self.chat => {
                self.tag("generation");
                self.body_in(self.scope.inner(), depth - 1);
                self.tag("endgeneration");
            }
            _ => self.condition(depth - 1),
        }
    }

    /// Prints the state of a name, defined or not.
    fn look(&mut self) {
        let name = self.name();
        let content = match self.dice.roll(4) {
            0 => format!("{name} is defined"),
            1 => format!("{name}|default"),
            2 => format!("[{name}|default('-'), {}]|string", self.expression(Kind::Any)),
            _ if self.scope.wild => name.to_owned(),
            _ => format!("{name}|default('-')"),
        };
        self.print(&content);
    }

    fn set(&mut self) {
        let (name, other) = (self.name(), self.name());
        let (kind, second) = (self.kind(), self.kind());
        match self.dice.roll(6) {
            0 => {
                let values = format!("{}, {}", self.expression(kind), self.expression(second));
                self.tag(&format!("set {name}, {other} = {values}"));
                self.scope.assign(name, kind);
                self.scope.assign(other, second);
            }
            1 if self.scope.wild => {
                let value = self.expression(Kind::List);
                self.tag(&format!("set ({name}, {other}) = {value}"));
                self.scope.forget(name);
                self.scope.forget(other);
            }
            1 => {
                let values = format!("[{}, {}]", self.expression(kind), self.expression(kind));
                self.tag(&format!("set ({name}, {other}) = {values}"));
                self.scope.assign(name, kind);
                self.scope.assign(other, kind);
            }
            2 => {
                let value = self.expression(Kind::Text);
                self.tag(&format!("set {name} = {name}|default('0') ~ {value}"));
                self.scope.assign(name, Kind::Text);
            }
            _ => {
                let value = self.expression(kind);
                self.tag(&format!("set {name} = {value}"));
                self.scope.assign(name, kind);
            }
        }
    }

    fn set_block(&mut self, depth: usize) {
        let name = self.name();
        let (filter, kind) = [
            ("", Kind::Text),
            ("", Kind::Text),
            (" | upper", Kind::Text),
            (" | trim | length", Kind::Integer),
            (" | replace('a', 'b')", Kind::Text),
            (" | list", Kind::Texts),
        ][self.dice.roll(6)];
        let filter = if self.scope.wild && self.dice.percent(15) { " | nope" } else { filter };
        self.tag(&format!("set {name}{filter}"));
        self.body_in(self.scope.inner(), depth);
        self.tag("endset");
        self.scope.assign(name, kind);
    }

    fn raw(&mut self) {
        let open = self.dice.pick(&["{% raw %}", "{%- raw -%}", "{%raw%}", "{%+ raw %}\n"]);
        let close = self.dice.pick(&["{% endraw %}", "{%- endraw -%}", "{%endraw +%}", "  {% endraw %}"]);
        let inner = self.dice.pick(&["{{ x }}", " {% if %} ", "\n {# ", ""]);
        write!(self.out, "{open}{inner}{close}").unwrap();
    }

    /// Statements that fail, at compile time or when reached.
    fn rare(&mut self) {
        let tag = self.dice.pick(&[
            "include 'a'",
            "import 'a' as x",
            "from 'a' import x, y as j",
            "extends s",
            "include s ignore missing",
            "print s, n",
            "print",
            "nope",
            "endif",
            "else",
            "set x",
            "if",
            "for i in",
            "break",
            "continue",
            "set loop = 1",
            "set none = 1",
            "with x",
            "macro m",
            "call n",
            "set x = ",
            "from 'a' import _x",
            "import 'a' as x with context",
        ]);
        match self.dice.roll(8) {
            0 => self.print("s|nope"),
            1 => self.print("s is nope"),
            2 => self.print("s if b else l|nope(1)"),
            _ => self.tag(tag),
        }
    }

    fn for_loop(&mut self, depth: usize) {
        let (name, other) = (self.name(), self.name());
        let mut inner = self.scope.inner();
        let recursive = self.dice.percent(12);
        let header = match self.dice.roll(7) {
            _ if recursive => {
                inner.assign(name, Kind::Text);
                format!("{name} in {}", self.expression(Kind::Texts))
            }
            0 | 1 => {
                let (pairs, first, second) = [
                    ("d0.items()", Kind::Text, Kind::Integer),
                    ("d0|items", Kind::Text, Kind::Integer),
                    ("d0|dictsort", Kind::Text, Kind::Integer),
                    ("[[1, 2], (3, 4)]", Kind::Integer, Kind::Integer),
                    ("['ab', ('c', 'd')]", Kind::Text, Kind::Text),
                ][self.dice.roll(5)];
                inner.assign(name, first);
                inner.assign(other, second);
                format!("{name}, {other} in {}", pairs.replace("d0", "{'a': 1, 'b': 3}"))
            }
            2 => {
                inner.assign(name, Kind::Text);
                format!("{name} in {}", self.expression(Kind::Dict))
            }
            3 => {
                inner.assign(name, Kind::Number);
                format!("{name} in {}, {}", self.expression(Kind::Number), self.expression(Kind::Integer))
            }
            4 if self.scope.wild => {
                inner.forget(name);
                inner.forget(other);
                format!("{name}, {other} in {}", self.expression(Kind::Any))
            }
            4 => {
                inner.assign(name, Kind::Integer);
                format!("{name} in range({})", self.dice.pick(&["2", "0", "1, 4", "6, 0, -3"]))
            }
            _ => {
                let (kind, item) =
                    [(Kind::Texts, Kind::Text), (Kind::Numbers, Kind::Number), (Kind::List, Kind::Any)]
                        [self.dice.roll(3)];
                inner.assign(name, item);
                format!("{name} in {}", self.expression(kind))
            }
        };
        let mut test = String::new();
        if self.dice.percent(15) {
            let outer = std::mem::replace(&mut self.scope, inner.clone());
            self.scope.in_loop = false;
            test = format!(" if {}", self.expression(Kind::Truth));
            self.scope = outer;
        }
        self.tag(&format!("for {header}{test}{}", if recursive { " recursive" } else { "" }));
        inner.in_loop = true;
        self.body_in(inner.clone(), depth);
        if recursive && self.dice.percent(70) {
            let argument = self.dice.pick(&["['p', 'q']", "[]", "'ab'", "('',)"]);
            self.print(&format!("loop({argument}) if loop.depth < 3"));
        }
        if self.chat && self.dice.percent(20) {
            let test = self.expression(Kind::Truth);
            let leave = self.dice.pick(&["break", "continue"]);
            write!(self.out, "{{% if {test} %}}{{% {leave} %}}{{% endif %}}").unwrap();
            self.body_in(inner, 0);
        }
        if self.dice.percent(20) {
            self.tag("else");
            self.body_in(self.scope.inner(), depth);
        }
        self.tag("endfor");
    }

    fn condition(&mut self, depth: usize) {
        let test = self.expression(Kind::Truth);
        self.tag(&format!("if {test}"));
        let mut branches = vec![self.body_in(self.scope.inner(), depth)];
        while self.dice.percent(20) {
            let test = self.expression(Kind::Truth);
            self.tag(&format!("elif {test}"));
            branches.push(self.body_in(self.scope.inner(), depth));
        }
        if self.dice.percent(40) {
            self.tag("else");
            branches.push(self.body_in(self.scope.inner(), depth));
        } else {
            branches.push(self.scope.inner());
        }
        self.tag("endif");
        self.scope.join(&branches);
    }

    fn with(&mut self, depth: usize) {
        let (name, other, kind) = (self.name(), self.name(), self.kind());
        let mut inner = self.scope.inner();
        let bindings = match self.dice.roll(4) {
            0 => String::new(),
            1 => {
                inner.assign(name, kind);
                inner.forget(other);
                format!(" {name} = {}, {other} = {name}|default(1)", self.expression(kind))
            }
            2 => {
                inner.assign(name, kind);
                inner.assign(other, kind);
                format!(" ({name}, {other}) = [{}, {}]", self.expression(kind), self.expression(kind))
            }
            _ => {
                inner.assign(name, kind);
                format!(" {name} = {}", self.expression(kind))
            }
        };
        self.tag(&format!("with{bindings}"));
        self.body_in(inner, depth);
        self.tag("endwith");
    }

    fn block(&mut self, depth: usize) {
        let name = BLOCKS[self.blocks % BLOCKS.len()];
        self.blocks += 1;
        let scoped = self.dice.pick(&["", "", "", " scoped", " scoped"]);
        let scoped = if self.scope.wild && self.dice.percent(20) { " required" } else { scoped };
        self.tag(&format!("block {name}{scoped}"));
        let macros = std::mem::take(&mut self.macros);
        self.body_in(self.scope.of_block(), depth);
        self.macros = macros;
        let end = if self.dice.percent(50) { "endblock".to_owned() } else { format!("endblock {name}") };
        self.tag(&end);
        if self.dice.percent(15) {
            self.print(&format!("self.{name}()"));
        }
    }

    fn namespace(&mut self, depth: usize) {
        let value = self.expression(Kind::Any);
        self.tag(&format!("set ns = namespace(a={value})"));
        self.tag("for i in ['u', 'v']");
        let mut inner = self.scope.inner();
        inner.in_loop = true;
        inner.assign("i", Kind::Text);
        let target = if self.scope.wild { self.dice.pick(&["x, ns.a", "n.a", "ns.b"]) } else { "ns.a" };
        let value = match self.dice.roll(3) {
            0 => "ns.a|string ~ i".to_owned(),
            _ => expression(self.dice, Kind::Any, 1, &inner),
        };
        if self.dice.percent(25) {
            let name = self.name();
            self.tag(&format!("set {name}, ns.b = i, {value}"));
            inner.assign(name, Kind::Text);
        } else {
            self.tag(&format!("set {target} = {value}"));
        }
        self.body_in(inner, depth);
        self.tag("endfor");
        self.print("ns.a");
    }
}
