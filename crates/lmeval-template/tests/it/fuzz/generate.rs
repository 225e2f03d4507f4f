//! Random templates, from the grammar of statements.
//!
//! A few short names are read and assigned everywhere, so that scopes shadow each other. Delimiters get random signs.
//! Left out, with the reason:
//!
//! - assignments to `caller`, `varargs`, `kwargs` and `self`: what they hide depends on the order in which Jinja2 happens to visit
//!   its own tree, and no template does it;
//! - variables in the arguments of filters after `{% set x | … %}`: Jinja2 fails on an assertion of its own where the name
//!   occurs nowhere else;
//! - unknown filters and tests deep in expressions: Jinja2 does not look at what a constant makes superfluous;
//! - filter blocks that make something other than text: Jinja2 notices that when it joins the template's text, so whatever fails
//!   in between comes first;
//! - macros that leave the scope they are defined in, through a namespace: Jinja2 then prints its internal `missing`.

use std::fmt::Write;

use lmeval_pycompat::Value;

use super::Dice;
use super::expression::{Around, Kind, expression};

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

/// Names that templates assign; some are variables too.
const NAMES: [&str; 10] = ["s", "n", "l", "d", "x", "y", "i", "j", "k", "m"];

const BLOCKS: [&str; 4] = ["b1", "b2", "b3", "b4"];

struct Generator<'d> {
    dice: &'d mut Dice,
    out: String,
    chat: bool,
    around: Around,
    blocks: usize,
    macros: Vec<String>,
    /// Statements that may still be made.
    budget: usize,
}

/// A random template.
pub(super) fn template(dice: &mut Dice, chat: bool) -> String {
    let budget = 1 + dice.below(7);
    let around = Around::default();
    let mut generator =
        Generator { dice, out: String::new(), chat, around, blocks: 0, macros: Vec::new(), budget };
    while generator.budget > 0 {
        generator.statement(3);
    }
    generator.out
}

impl Generator<'_> {
    fn name(&mut self) -> &'static str {
        self.dice.pick(&NAMES)
    }

    fn expression(&mut self, kind: Kind) -> String {
        let depth = self.dice.below(4);
        expression(self.dice, kind, depth, self.around)
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
        for _ in 0..=self.dice.below(3) {
            self.statement(depth);
        }
    }

    /// A body in which `loop`, `caller` and the like have this meaning.
    fn body_in(&mut self, around: Around, depth: usize) {
        let before = std::mem::replace(&mut self.around, around);
        let macros = self.macros.len();
        self.body(depth);
        self.macros.truncate(macros);
        self.around = before;
    }

    fn statement(&mut self, depth: usize) {
        self.budget = self.budget.saturating_sub(1);
        let choice = if depth == 0 { self.dice.below(40) } else { self.dice.below(100) };
        match choice {
            0..9 => self.text(),
            9..27 => {
                let kind = [Kind::Text, Kind::Number, Kind::Truth, Kind::List, Kind::Any][self.dice.below(5)];
                let content = self.expression(kind);
                self.print(&content);
            }
            27..31 => {
                let name = self.name();
                self.print(name);
            }
            31..37 => self.set(),
            37 => self.out.push_str(["{# c #}", "{#- {{ x -#}", "{# \n#}\n"][self.dice.below(3)]),
            38 => self.rare(),
            39 => self.raw(),
            40..54 => self.for_loop(depth - 1),
            54..66 => self.condition(depth - 1),
            66..75 => self.macro_and_call(depth - 1),
            75..80 => self.call_block(depth - 1),
            80..84 => {
                let name = self.name();
                let filter = self.dice.pick(&[
                    "",
                    "",
                    " | upper",
                    " | trim | length",
                    " | replace('a', 'b')",
                    " | nope",
                ]);
                self.tag(&format!("set {name}{filter}"));
                self.body_in(self.around, depth - 1);
                self.tag("endset");
            }
            84..88 => {
                let filter = self.dice.pick(&[
                    "upper",
                    "trim",
                    "replace('a', s)",
                    "replace(x, 'q')",
                    "indent(2) | title",
                    "nope",
                ]);
                self.tag(&format!("filter {filter}"));
                self.body_in(self.around, depth - 1);
                self.tag("endfilter");
            }
            88..93 => self.with(depth - 1),
            93..96 => self.block(depth - 1),
            96..98 => self.namespace(depth - 1),
            _ if self.chat => {
                self.tag("generation");
                self.body_in(self.around, depth - 1);
                self.tag("endgeneration");
            }
            _ => self.condition(depth - 1),
        }
    }

    fn set(&mut self) {
        let (name, other) = (self.name(), self.name());
        let content = match self.dice.below(6) {
            0 => format!(
                "set {name}, {other} = {}, {}",
                self.expression(Kind::Any),
                self.expression(Kind::Any)
            ),
            1 => format!("set ({name}, {other}) = {}", self.expression(Kind::List)),
            2 => format!("set {name} = {name} ~ {}", self.expression(Kind::Text)),
            _ => format!("set {name} = {}", self.expression(Kind::Any)),
        };
        self.tag(&content);
    }

    fn raw(&mut self) {
        let open = self.dice.pick(&["{% raw %}", "{%- raw -%}", "{%raw%}", "{%+ raw %}\n"]);
        let close = self.dice.pick(&["{% endraw %}", "{%- endraw -%}", "{%endraw +%}", "  {% endraw %}"]);
        let inner = self.dice.pick(&["{{ x }}", " {% if %} ", "\n {# ", ""]);
        write!(self.out, "{open}{inner}{close}").unwrap();
    }

    /// Statements that fail, at once or when they are reached.
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
        match self.dice.below(8) {
            0 => self.print("s|nope"),
            1 => self.print("s is nope"),
            2 => self.print("s if b else l|nope(1)"),
            _ => self.tag(tag),
        }
    }

    fn for_loop(&mut self, depth: usize) {
        let (name, other) = (self.name(), self.name());
        let header = match self.dice.below(5) {
            0 => format!(
                "{name}, {other} in {}",
                self.dice.pick(&["d.items()", "d|items", "d|dictsort", "[[1, 2], 'ab']", "[(1, 2), [3]]"])
            ),
            1 => format!("{name} in {}", self.expression(Kind::Dict)),
            2 => format!("{name} in {}, {}", self.expression(Kind::Number), self.expression(Kind::Any)),
            _ => format!("{name} in {}", self.expression(Kind::List)),
        };
        let test = if self.dice.percent(15) {
            format!(" if {}", self.expression(Kind::Truth))
        } else {
            String::new()
        };
        let recursive = self.dice.percent(12);
        self.tag(&format!("for {header}{test}{}", if recursive { " recursive" } else { "" }));
        let around = Around { in_loop: true, ..self.around };
        self.body_in(around, depth);
        if recursive && self.dice.percent(70) {
            let argument = self.dice.pick(&["[1, 2]", "[]", "'ab'", "l"]);
            self.print(&format!("loop({argument}) if loop.depth < 3"));
        }
        if self.chat && self.dice.percent(20) {
            let test = self.expression(Kind::Truth);
            let leave = self.dice.pick(&["break", "continue"]);
            write!(self.out, "{{% if {test} %}}{{% {leave} %}}{{% endif %}}").unwrap();
            self.body_in(around, 0);
        }
        if self.dice.percent(20) {
            self.tag("else");
            self.body_in(self.around, depth);
        }
        self.tag("endfor");
    }

    fn condition(&mut self, depth: usize) {
        let test = self.expression(Kind::Truth);
        self.tag(&format!("if {test}"));
        self.body(depth);
        while self.dice.percent(20) {
            let test = self.expression(Kind::Truth);
            self.tag(&format!("elif {test}"));
            self.body(depth);
        }
        if self.dice.percent(40) {
            self.tag("else");
            self.body(depth);
        }
        self.tag("endif");
    }

    fn macro_and_call(&mut self, depth: usize) {
        let name = format!("m{}", self.macros.len());
        let parameters =
            self.dice.pick(&["", "a", "a, b", "a, b=1", "a=s, b=a", "a=x", "s, n=n", "a=b, b=2", "a, a"]);
        self.tag(&format!("macro {name}({parameters})"));
        let around = Around { in_macro: true, ..Around::default() };
        self.body_in(around, depth);
        self.tag("endmacro");
        self.macros.push(name);
        for _ in 0..self.dice.below(3) {
            if self.dice.percent(30) {
                self.statement(0);
            }
            let call = self.macro_call();
            self.print(&call);
        }
    }

    fn macro_call(&mut self) -> String {
        let name = match self.macros.len() {
            0 => "m0".to_owned(),
            count => self.macros[self.dice.below(count)].clone(),
        };
        let arguments = match self.dice.below(8) {
            0 | 1 => String::new(),
            2 | 3 => self.expression(Kind::Any),
            4 => format!("{}, {}", self.expression(Kind::Any), self.expression(Kind::Text)),
            5 => format!("b={}", self.expression(Kind::Any)),
            6 => format!("*{}", self.expression(Kind::List)),
            _ => format!("1, **{}", self.dice.pick(&["{}", "{'b': 2}", "d", "{'q': 1}"])),
        };
        format!("{name}({arguments})")
    }

    fn call_block(&mut self, depth: usize) {
        let signature = self.dice.pick(&["", "", "(i)", "(i, j=2)", "(s)"]);
        let call = match self.dice.below(10) {
            0 => "s.upper()".to_owned(),
            _ => self.macro_call(),
        };
        self.tag(&format!("call{signature} {call}"));
        self.body_in(Around { in_macro: true, ..self.around }, depth);
        self.tag("endcall");
    }

    fn with(&mut self, depth: usize) {
        let (name, other) = (self.name(), self.name());
        let bindings = match self.dice.below(4) {
            0 => String::new(),
            1 => format!(" {name} = {}, {other} = {name}", self.expression(Kind::Any)),
            2 => format!(" ({name}, {other}) = {}", self.expression(Kind::List)),
            _ => format!(" {name} = {}", self.expression(Kind::Any)),
        };
        self.tag(&format!("with{bindings}"));
        self.body_in(self.around, depth);
        self.tag("endwith");
    }

    fn block(&mut self, depth: usize) {
        let name = BLOCKS[self.blocks % BLOCKS.len()];
        self.blocks += 1;
        let scoped = self.dice.pick(&["", "", " scoped", " required"]);
        self.tag(&format!("block {name}{scoped}"));
        self.body_in(Around::default(), depth);
        let end = self.dice.pick(&["endblock".to_owned().as_str(), &format!("endblock {name}")]).to_owned();
        self.tag(&end);
        if self.dice.percent(15) {
            self.print(&format!("self.{name}()"));
        }
    }

    fn namespace(&mut self, depth: usize) {
        let value = self.expression(Kind::Any);
        self.tag(&format!("set ns = namespace(a={value})"));
        self.tag("for i in l");
        let value = self.expression(Kind::Any);
        let target = self.dice.pick(&["ns.a", "ns.b", "x, ns.a", "ns.a, ns.b", "n.a"]);
        self.tag(&format!("set {target} = {value}"));
        self.body_in(Around { in_loop: true, ..self.around }, depth);
        self.tag("endfor");
        self.print("ns.a");
    }
}
