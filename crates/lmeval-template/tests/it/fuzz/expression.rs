//! Random expressions.
//!
//! An expression of a kind is built from parts of the kinds it needs, so that it can be evaluated. All
//! operators, slices, literals, tests, most filters and many methods occur. In a wild scope the kind is
//! sometimes ignored, and operations occur that fail on most values.

mod collections;

use lmeval_testkit::Dice;

use super::scope::{Kind, NAMES, Scope};

const TEXTS: [&str; 12] = [
    "'a'",
    "\"B c\"",
    "''",
    "'é日'",
    "'x\\ny'",
    "'it\\'s'",
    "'%s;%s'",
    "'1'",
    "' pad '",
    "'a' \"b\"",
    "'\\x41\\u00e9'",
    "'{{'",
];
const INTEGERS: [&str; 8] = ["0", "1", "2", "3", "1_0", "0x1F", "7", "0b11"];
const KINDS: [Kind; 9] = [
    Kind::Text,
    Kind::Text,
    Kind::Integer,
    Kind::Number,
    Kind::Truth,
    Kind::Texts,
    Kind::Numbers,
    Kind::Records,
    Kind::Dict,
];

/// An expression of a kind; `depth` limits its size.
pub(super) fn expression(dice: &mut Dice, kind: Kind, depth: usize, scope: &Scope) -> String {
    if scope.wild && dice.percent(6) {
        return failing(dice, depth.saturating_sub(1), scope);
    }
    let kind = match kind {
        Kind::Any => KINDS[dice.roll(KINDS.len())],
        _ if scope.wild && dice.percent(5) => KINDS[dice.roll(KINDS.len())],
        kind => kind,
    };
    if depth == 0
        && dice.percent(60)
        && let Some(name) = scope.name(dice, kind)
    {
        return name.to_owned();
    }
    if depth > 0 && dice.percent(12) {
        return general(dice, kind, depth - 1, scope);
    }
    let mut maker = Maker { dice, depth, scope };
    match kind {
        Kind::Text => maker.text(),
        Kind::Integer => maker.integer(),
        Kind::Number => maker.number(),
        Kind::Truth => maker.truth(),
        Kind::Texts => maker.texts(),
        Kind::Numbers => maker.numbers(),
        Kind::Records => maker.records(),
        Kind::List => maker.list(),
        Kind::Dict | Kind::Any => maker.dictionary(),
    }
}

/// Forms that have the kind of their parts.
fn general(dice: &mut Dice, kind: Kind, depth: usize, scope: &Scope) -> String {
    let mut make = |kind| expression(dice, kind, depth, scope);
    let (first, second) = (make(kind), make(kind));
    let test = make(Kind::Truth);
    match dice.roll(9) {
        0 => format!("({first})"),
        1 => format!("({first} if {test} else {second})"),
        2 => format!("({first} if b or {test} else {second} if b else 1)"),
        3 => format!("({first} or {second})"),
        4 => format!("({first} and {second})"),
        5 => format!("[{first}, {second}][{}]", dice.pick(&["0", "1", "-1", "3 - 2"])),
        6 => format!("({first}, {second}).{}", dice.pick(&["0", "1"])),
        7 => format!("{{'k': {first}}}.k"),
        _ => format!("{}|default({first})", dice.pick(&["u", "v", "d0", "none.q", "w"])),
    }
}

/// Operations that fail, or fail for most values.
fn failing(dice: &mut Dice, depth: usize, scope: &Scope) -> String {
    let one = expression(dice, Kind::Any, depth, scope);
    match dice.roll(9) {
        0 => dice.pick(&NAMES).to_owned(),
        // Constants are never sliced: Jinja2 folds them, and treats one that cannot be sliced as undefined.
        8 => format!("{}[{}]", dice.pick(&NAMES), dice.pick(&["::0", "1:", "n:", "s:"])),
        1 => dice
            .pick(&["d.nope", "s.v", "loop.index", "caller()", "varargs", "l[9]", "q.r", "n / 0"])
            .to_owned(),
        2 => format!("{one} {} {}", dice.pick(&["+", "*", "//", "%", "<"]), dice.pick(&NAMES)),
        3 => format!("({one})[{}]", dice.pick(&["0", "-1", "1", "9", "'a'"])),
        4 => format!("-{one}"),
        5 => format!(
            "{one}|{}",
            dice.pick(&[
                "first", "last", "min", "sum", "sort", "int", "round", "join(n)", "list", "tojson", "abs"
            ])
        ),
        6 => format!(
            "{one}|{}",
            dice.pick(&[
                "map('upper')|list",
                "map(attribute='k')|list",
                "groupby('k')|list",
                "sort(attribute='k')",
                "format('v', 2)",
                "selectattr('k')|list",
                "items|list",
                "dictsort",
            ])
        ),
        _ => format!(
            "({one}).{}",
            dice.pick(&["index('q')", "upper()", "format(1)", "items()", "nope()", "split('')"])
        ),
    }
}

/// An expression as an operand of a filter, a test or an attribute, which bind tighter than operators.
fn operand(expression: String) -> String {
    let is_plain = |character: char| character.is_alphanumeric() || character == '_' || character == '.';
    if expression.chars().all(is_plain) && !expression.starts_with(|first: char| first.is_ascii_digit()) {
        expression
    } else {
        format!("({expression})")
    }
}

/// The bounds of a slice.
fn slice(dice: &mut Dice) -> String {
    let mut bound = || dice.pick(&["", "", "0", "1", "-1", "3", "2"]);
    let (start, stop) = (bound(), bound());
    match dice.roll(3) {
        0 => format!("{start}:{stop}:{}", dice.pick(&["", "1", "2", "-1"])),
        _ => format!("{start}:{stop}"),
    }
}

struct Maker<'a> {
    dice: &'a mut Dice,
    depth: usize,
    scope: &'a Scope,
}

impl Maker<'_> {
    /// A smaller expression.
    fn make(&mut self, kind: Kind) -> String {
        expression(self.dice, kind, self.depth.saturating_sub(1), self.scope)
    }

    fn operand(&mut self, kind: Kind) -> String {
        operand(self.make(kind))
    }

    /// An operand with a filter.
    fn filtered(&mut self, kind: Kind, filters: &[&str]) -> String {
        format!("{}|{}", self.operand(kind), self.dice.pick(filters))
    }

    fn method(&mut self, methods: &[&str]) -> String {
        format!("{}.{}", self.operand(Kind::Text), self.dice.pick(methods))
    }

    fn text(&mut self) -> String {
        if self.depth == 0 {
            return self.dice.pick(&TEXTS).to_owned();
        }
        match self.dice.roll(20) {
            0 => format!("{} ~ {}", self.make(Kind::Text), self.operand(Kind::Any)),
            1 => format!("{} + {}", self.make(Kind::Text), self.make(Kind::Text)),
            2 => format!("{} * {}", self.operand(Kind::Text), self.dice.pick(&["0", "2", "-1", "3"])),
            3 => format!("(t ~ {})[{}]", self.operand(Kind::Any), slice(self.dice)),
            4 => format!("('ab' ~ {})[{}]", self.operand(Kind::Text), self.dice.pick(&["0", "-1", "1"])),
            5..8 => self.filtered(
                Kind::Text,
                &[
                    "upper",
                    "lower",
                    "capitalize",
                    "title",
                    "trim",
                    "trim('a')",
                    "replace('a', 'b')",
                    "replace('a', 'b', 1)",
                    "default('q')",
                    "string",
                    "indent",
                    "indent(2, true)",
                    "center(9)",
                    "truncate(5)",
                    "truncate(4, true, '')",
                    "reverse",
                    "list|join('-')",
                    "urlencode",
                    "d('w', true)",
                ],
            ),
            8..11 => self.method(&[
                "upper()",
                "lower()",
                "strip()",
                "title()",
                "capitalize()",
                "swapcase()",
                "zfill(5)",
                "split()|join('/')",
                "replace('a', '')",
                "lstrip('a ')",
                "rstrip()",
                "center(7, '*')",
                "partition(' ')[2]",
                "removeprefix('a')",
                "ljust(4)",
                "splitlines()|join",
                "encode().decode()",
            ]),
            11 => format!("{}.join({})", self.operand(Kind::Text), self.make(Kind::Texts)),
            12 => self.filtered(Kind::List, &["join", "join(',')", "join(t)"]),
            13 => format!("'%s-%s' % ({}, {})", self.make(Kind::Text), self.make(Kind::Any)),
            14 => self.filtered(Kind::Any, &["string", "tojson", "string|upper", "default('q')|string"]),
            15 => format!(
                "(['c'] + {})|{}",
                self.operand(Kind::Texts),
                self.dice.pick(&["first", "last", "min", "max"])
            ),
            16 => format!("'{{}}<{{b}}'.format({}, b={})", self.make(Kind::Text), self.make(Kind::Integer)),
            17 => format!("'%s;%5.1f'|format({}, {})", self.make(Kind::Any), self.make(Kind::Number)),
            18 if self.scope.in_loop => format!("loop.cycle({}, 'odd')", self.make(Kind::Text)),
            18 if self.scope.in_macro => {
                self.dice.pick(&["varargs|join", "kwargs|string", "varargs|length ~ 'v'"]).to_owned()
            }
            _ => self.call(),
        }
    }

    /// A call of `caller`, if there is one.
    fn call(&mut self) -> String {
        let Some(kinds) = self.scope.caller.clone() else { return self.make(Kind::Text) };
        let arguments: Vec<String> = kinds.into_iter().map(|kind| self.make(kind)).collect();
        format!("caller({})", arguments.join(", "))
    }

    fn integer(&mut self) -> String {
        if self.depth == 0 {
            if self.scope.in_loop && self.dice.percent(40) {
                let field = self.dice.pick(&[
                    "index",
                    "index0",
                    "length",
                    "revindex",
                    "revindex0",
                    "depth",
                    "depth0",
                ]);
                return format!("loop.{field}");
            }
            return self.dice.pick(&INTEGERS).to_owned();
        }
        match self.dice.roll(10) {
            0..3 => format!(
                "{} {} {}",
                self.make(Kind::Integer),
                self.dice.pick(&["+", "-", "*"]),
                self.make(Kind::Integer)
            ),
            3 => format!(
                "{} {} {}",
                self.make(Kind::Integer),
                self.dice.pick(&["//", "%"]),
                self.dice.pick(&["2", "3", "-2", "7"])
            ),
            4 => format!("{}{}", self.dice.pick(&["-", "+", "- -"]), self.operand(Kind::Integer)),
            5 => self.filtered(Kind::List, &["length", "count"]),
            6 => self.filtered(Kind::Text, &["length", "int", "int(5)", "wordcount", "count"]),
            7 => self.filtered(Kind::Number, &["int", "abs|int", "round|int"]),
            8 => self.method(&["count('a')", "find('b')"]),
            // Exponents stay small: Python computes any power.
            _ => format!(
                "{}{} ** {}",
                self.dice.pick(&["", "-", "+", "2 ** "]),
                self.dice.pick(&["2", "3", "(1 - 3)"]),
                self.dice.pick(&["2", "3", "0"])
            ),
        }
    }

    fn number(&mut self) -> String {
        if self.depth == 0 {
            return self.dice.pick(&["2.5", "1e2", "0.1", "7", "1_0.5", "3e-2"]).to_owned();
        }
        match self.dice.roll(8) {
            0..2 => format!(
                "{} {} {}",
                self.make(Kind::Number),
                self.dice.pick(&["+", "-", "*"]),
                self.make(Kind::Number)
            ),
            2 => format!(
                "{} {} {}",
                self.make(Kind::Number),
                self.dice.pick(&["/", "//", "%"]),
                self.dice.pick(&["2", "0.5", "-3", "7"])
            ),
            3 => self.filtered(
                Kind::Number,
                &["round", "round(1)", "abs", "int", "float", "round(0, 'floor')", "round(2, 'ceil')"],
            ),
            4 => self.filtered(Kind::Text, &["float", "float(0.5)", "int"]),
            5 => format!(
                "([1] + {})|{}",
                self.operand(Kind::Numbers),
                self.dice.pick(&["sum", "max", "min", "first", "last"])
            ),
            6 => format!("-{}", self.operand(Kind::Number)),
            _ => self.make(Kind::Integer),
        }
    }

    fn truth(&mut self) -> String {
        if self.depth == 0 {
            return match self.dice.roll(5) {
                0 if self.scope.in_loop => {
                    format!(
                        "loop.{}",
                        self.dice.pick(&[
                            "first",
                            "last",
                            "changed(t)",
                            "previtem is defined",
                            "nextitem is defined"
                        ])
                    )
                }
                1 | 2 => format!("{} is {}defined", self.dice.pick(&NAMES), self.dice.pick(&["", "not "])),
                3 => format!("{} is defined", self.dice.pick(&["d.a", "d.q", "caller", "loop", "ns", "m0"])),
                _ => self.dice.pick(&["true", "false", "b", "True", "none", "e"]).to_owned(),
            };
        }
        match self.dice.roll(11) {
            0..2 => {
                let kind = [Kind::Number, Kind::Text, Kind::Integer][self.dice.roll(3)];
                let mut chain = self.make(kind);
                for _ in 0..=usize::from(self.dice.percent(20)) {
                    let operator = self.dice.pick(&["==", "!=", "<", ">", "<=", ">="]);
                    chain = format!("{chain} {operator} {}", self.make(kind));
                }
                chain
            }
            2 => {
                let kind = [Kind::List, Kind::Dict, Kind::Text][self.dice.roll(3)];
                format!("{} {} {}", self.make(Kind::Text), self.dice.pick(&["in", "not in"]), self.make(kind))
            }
            3 => format!("not {}", self.make(Kind::Truth)),
            4..6 => format!(
                "{} {} {}",
                self.make(Kind::Truth),
                self.dice.pick(&["and", "or"]),
                self.make(Kind::Truth)
            ),
            6..8 => {
                let test = self.dice.pick(&[
                    "none",
                    "string",
                    "number",
                    "mapping",
                    "sequence",
                    "iterable",
                    "defined",
                    "undefined",
                    "boolean",
                    "integer",
                    "float",
                    "true",
                    "false",
                    "callable",
                    "eq 3",
                    "eq(t)",
                    "in [1, t]",
                    "sameas none",
                    "ne 'a'",
                    "equalto t",
                ]);
                format!("{} is {}{test}", self.operand(Kind::Any), self.dice.pick(&["", "", "not "]))
            }
            8 => format!(
                "{} is {}",
                self.operand(Kind::Integer),
                self.dice.pick(&[
                    "odd",
                    "even",
                    "divisibleby 2",
                    "divisibleby(3)",
                    "gt(2)",
                    "lessthan 5",
                    "not odd"
                ])
            ),
            9 => format!(
                "{} is {}",
                self.operand(Kind::Text),
                self.dice.pick(&["lower", "upper", "filter", "test"])
            ),
            _ => self.method(&["startswith('a')", "endswith(t)", "isdigit()", "isupper()", "isalpha()"]),
        }
    }
}
