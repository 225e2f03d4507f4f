//! Random expressions.
//!
//! An expression is made for a kind of value, so that most of them can be evaluated; now and then the kind is ignored, to see
//! how operations fail. All operators, slices, literals, tests, most filters and many methods occur.

use super::Dice;

/// What an expression is meant to be.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Number,
    Truth,
    List,
    Dict,
    Any,
}

/// Where an expression stands.
#[derive(Clone, Copy, Default)]
pub(super) struct Around {
    pub(super) in_loop: bool,
    pub(super) in_macro: bool,
}

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
const NUMBERS: [&str; 11] = ["0", "1", "2", "3", "10", "1_0", "0x1F", "2.5", "1e2", "7", "0b11"];

/// An expression of a kind; `depth` limits how large it becomes.
pub(super) fn expression(dice: &mut Dice, kind: Kind, depth: usize, around: Around) -> String {
    let kind = match kind {
        Kind::Any => [Kind::Text, Kind::Number, Kind::Truth, Kind::List, Kind::Dict][dice.below(5)],
        _ if dice.percent(4) => return expression(dice, Kind::Any, depth, around),
        kind => kind,
    };
    if depth > 0 && dice.percent(8) {
        return general(dice, kind, depth - 1, around);
    }
    match kind {
        Kind::Text => text(dice, depth, around),
        Kind::Number => number(dice, depth, around),
        Kind::Truth => truth(dice, depth, around),
        Kind::List => list(dice, depth, around),
        Kind::Dict | Kind::Any => dictionary(dice, depth, around),
    }
}

/// Forms that have the kind of their parts.
fn general(dice: &mut Dice, kind: Kind, depth: usize, around: Around) -> String {
    let mut make = |kind| expression(dice, kind, depth, around);
    let (first, second) = (make(kind), make(kind));
    let test = make(Kind::Truth);
    match dice.below(9) {
        0 => format!("({first})"),
        1 => format!("({first} if {test} else {second})"),
        2 => format!("({first} if {test})"),
        3 => format!("({first} or {second})"),
        4 => format!("({first} and {second})"),
        5 => format!("[{first}, {second}][{}]", dice.pick(&["0", "1", "-1", "2", "n - 2"])),
        6 => format!("({first}, {second}).{}", dice.pick(&["0", "1"])),
        7 => format!("{{'k': {first}}}.k"),
        _ => format!("{}|default({first})", dice.pick(&["x", "y", "z", "d.nope", "k"])),
    }
}

fn text(dice: &mut Dice, depth: usize, around: Around) -> String {
    if depth == 0 {
        return match dice.below(3) {
            0 => dice.pick(&TEXTS).to_owned(),
            1 => dice.pick(&["s", "t", "e", "k", "x", "l[0]", "d.a", "d['b']", "s.v"]).to_owned(),
            _ => dice.pick(&["s", "t", "e"]).to_owned(),
        };
    }
    let depth = depth - 1;
    let one = expression(dice, Kind::Text, depth, around);
    match dice.below(22) {
        0 => format!("{one} ~ {}", expression(dice, Kind::Any, depth, around)),
        1 => format!("{one} + {}", expression(dice, Kind::Text, depth, around)),
        2 => format!("({one}) * {}", dice.pick(&["0", "2", "-1", "n"])),
        3 => format!("(s ~ {one})[{}]", slice(dice)),
        4 => format!("({one})[{}]", dice.pick(&["0", "-1", "1", "9"])),
        5..9 => format!(
            "{one}|{}",
            dice.pick(&[
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
                "format('v', 2)",
                "first",
                "last",
                "urlencode",
                "d('w', true)",
            ])
        ),
        9..13 => format!(
            "({one}).{}",
            dice.pick(&[
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
                "join(l)",
                "format(1, b=2)",
                "removeprefix('a')",
                "ljust(4)",
                "splitlines()|join",
                "encode().decode()",
            ])
        ),
        13 => format!(
            "{}|join({})",
            expression(dice, Kind::List, depth, around),
            dice.pick(&["", "','", "s", "n"])
        ),
        14 => format!("'%s-%s' % ({one}, {})", expression(dice, Kind::Any, depth, around)),
        15 => format!("{}|string", expression(dice, Kind::Any, depth, around)),
        16 => format!(
            "{}|{}",
            expression(dice, Kind::List, depth, around),
            dice.pick(&["first", "last", "min", "max"])
        ),
        17 => format!("{}|tojson", expression(dice, Kind::Any, depth, around)),
        18 if around.in_macro => {
            dice.pick(&["caller()", "varargs|join", "kwargs|string", "a", "a ~ b"]).to_owned()
        }
        19 if around.in_loop => format!("loop.cycle({one}, 'odd')"),
        _ => one,
    }
}

fn number(dice: &mut Dice, depth: usize, around: Around) -> String {
    if depth == 0 {
        return match dice.below(4) {
            0 if around.in_loop => format!(
                "loop.{}",
                dice.pick(&["index", "index0", "length", "revindex", "revindex0", "depth", "depth0"])
            ),
            1 => dice.pick(&["n", "f", "m[0]", "d.n", "j", "y"]).to_owned(),
            _ => dice.pick(&NUMBERS).to_owned(),
        };
    }
    let depth = depth - 1;
    let one = expression(dice, Kind::Number, depth, around);
    match dice.below(14) {
        0..5 => {
            let operator = dice.pick(&["+", "-", "*", "/", "//", "%", "+", "-", "*"]);
            format!("{one} {operator} {}", expression(dice, Kind::Number, depth, around))
        }
        // Exponents stay small: Python computes any power.
        5 => format!(
            "{}{} ** {}",
            dice.pick(&["", "-", "+", "2 ** "]),
            dice.pick(&["2", "n", "(1 - 3)", "m[0]"]),
            dice.pick(&["2", "n", "-1", "0", "d.n"])
        ),
        6 => format!("-{one}"),
        7 => format!("(-{one})|abs"),
        8 => format!(
            "{}|{}",
            expression(dice, Kind::Any, depth, around),
            dice.pick(&["length", "count", "int", "float", "int(5)", "wordcount"])
        ),
        9 => format!(
            "{}|{}",
            expression(dice, Kind::List, depth, around),
            dice.pick(&["length", "sum", "first", "last", "max", "min"])
        ),
        10 => format!(
            "({one})|{}",
            dice.pick(&["round", "round(1)", "abs", "int", "float", "round(0, 'floor')"])
        ),
        11 => format!("+{one}"),
        12 => format!(
            "({}).{}",
            expression(dice, Kind::Text, depth, around),
            dice.pick(&["count('a')", "find('b')", "index('a')"])
        ),
        _ => format!("({one})"),
    }
}

fn truth(dice: &mut Dice, depth: usize, around: Around) -> String {
    if depth == 0 {
        return match dice.below(5) {
            0 if around.in_loop => format!("loop.{}", dice.pick(&["first", "last", "changed(n)"])),
            1 => format!(
                "{} is {}defined",
                dice.pick(&["x", "s", "i", "k", "d.a", "d.q", "caller", "loop", "ns"]),
                dice.pick(&["", "not "])
            ),
            _ => dice.pick(&["true", "false", "b", "True", "none", "n", "e", "l"]).to_owned(),
        };
    }
    let depth = depth - 1;
    match dice.below(12) {
        0..3 => {
            let kind = [Kind::Number, Kind::Text, Kind::Number][dice.below(3)];
            let mut chain = expression(dice, kind, depth, around);
            for _ in 0..=usize::from(dice.percent(20)) {
                let operator = dice.pick(&["==", "!=", "<", ">", "<=", ">="]);
                chain = format!("{chain} {operator} {}", expression(dice, kind, depth, around));
            }
            chain
        }
        3 => {
            let (item, operator) =
                (expression(dice, Kind::Text, depth, around), dice.pick(&["in", "not in"]));
            let kind = [Kind::List, Kind::Dict, Kind::Text][dice.below(3)];
            format!("{item} {operator} {}", expression(dice, kind, depth, around))
        }
        4 => format!("not {}", expression(dice, Kind::Truth, depth, around)),
        5 => {
            let operator = dice.pick(&["and", "or"]);
            format!(
                "{} {operator} {}",
                expression(dice, Kind::Truth, depth, around),
                expression(dice, Kind::Truth, depth, around)
            )
        }
        6..9 => {
            let test = dice.pick(&[
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
                "lower",
                "upper",
                "callable",
                "eq 3",
                "eq(n)",
                "in l",
                "in [1, s]",
                "sameas none",
                "ne 'a'",
                "gt(2)",
                "lessthan 5",
                "equalto s",
                "filter",
                "test",
            ]);
            format!(
                "{} is {}{test}",
                expression(dice, Kind::Any, depth, around),
                dice.pick(&["", "", "not "])
            )
        }
        9 => format!(
            "{} is {}",
            expression(dice, Kind::Number, depth, around),
            dice.pick(&["odd", "even", "divisibleby 2", "divisibleby(n)", "divisibleby n.real"])
        ),
        10 => format!(
            "({}).{}",
            expression(dice, Kind::Text, depth, around),
            dice.pick(&["startswith('a')", "endswith(s)", "isdigit()", "isupper()", "isalpha()"])
        ),
        _ => format!("({})", expression(dice, Kind::Truth, depth, around)),
    }
}

/// The bounds of a slice.
///
/// What is sliced is never a constant: Jinja2 evaluates those early, and then takes a value that cannot be sliced for an
/// undefined one.
fn slice(dice: &mut Dice) -> String {
    let mut bound = || dice.pick(&["", "", "0", "1", "-1", "n", "2"]);
    let (start, stop) = (bound(), bound());
    match dice.below(3) {
        0 => format!("{start}:{stop}:{}", dice.pick(&["", "1", "2", "-1", "0"])),
        _ => format!("{start}:{stop}"),
    }
}

fn list(dice: &mut Dice, depth: usize, around: Around) -> String {
    if depth == 0 {
        return dice
            .pick(&[
                "l",
                "m",
                "ll",
                "[]",
                "['a', 'B', 'a']",
                "[3, 1, 2]",
                "(1, 'a')",
                "()",
                "range(3)",
                "d.l",
                "[1,]",
                "(n,)",
                "range(1, 9, 3)",
            ])
            .to_owned();
    }
    let depth = depth - 1;
    let one = expression(dice, Kind::List, depth, around);
    match dice.below(14) {
        0 => {
            let count = dice.below(4);
            let items: Vec<String> = (0..count).map(|_| expression(dice, Kind::Any, depth, around)).collect();
            format!("[{}{}]", items.join(", "), if count > 0 && dice.percent(20) { "," } else { "" })
        }
        1 => format!("(l + {one})[{}]", slice(dice)),
        2 => format!("{one} + {}", expression(dice, Kind::List, depth, around)),
        3..9 => format!(
            "{one}|{}",
            dice.pick(&[
                "list",
                "sort",
                "sort(reverse=true)",
                "reverse|list",
                "unique|list",
                "map('upper')|list",
                "map('string')|list",
                "map('length')|list",
                "select|list",
                "select('string')|list",
                "reject('none')|list",
                "reject('odd')|list",
                "batch(2)|list",
                "batch(2, 'z')|list",
                "slice(2)|list",
                "map(attribute='k')|list",
                "selectattr('k')|list",
                "map(attribute='k', default='?')|list",
                "selectattr('k', 'eq', 'v')|list",
                "rejectattr('k', 'defined')|list",
                "groupby('k')|list",
                "sort(attribute='k')",
                "select('gt', 1)|list",
                "map('default', 'q')|list",
                "default([])",
                "map('nope')|list",
                "sum(start=[])",
                "list|tojson",
            ])
        ),
        9 => format!(
            "({}).{}",
            expression(dice, Kind::Text, depth, around),
            dice.pick(&["split()", "split('a')", "split(' ', 1)", "partition('a')", "splitlines()"])
        ),
        10 => format!(
            "{}|{}",
            expression(dice, Kind::Dict, depth, around),
            dice.pick(&["items|list", "dictsort", "list", "dictsort(true)", "dictsort(false, 'value')"])
        ),
        11 => format!("range({})|list", dice.pick(&["n", "2", "1, 4", "5, 0, -2", "-1", "e"])),
        12 => format!("({})|list", expression(dice, Kind::Text, depth, around)),
        _ => format!("({one})"),
    }
}

fn dictionary(dice: &mut Dice, depth: usize, around: Around) -> String {
    if depth == 0 {
        return dice
            .pick(&[
                "d",
                "{}",
                "{'a': 1}",
                "{'a': 1, 'b': [2], 3: none}",
                "ll[0]",
                "dict(a=1)",
                "dict(d, z=2)",
            ])
            .to_owned();
    }
    let depth = depth - 1;
    match dice.below(5) {
        0 => {
            let keys = ["'a'", "'b'", "1", "s", "(1, 2)", "none", "2.5"];
            let count = dice.below(4);
            let items: Vec<String> = (0..count)
                .map(|_| format!("{}: {}", dice.pick(&keys), expression(dice, Kind::Any, depth, around)))
                .collect();
            format!("{{{}}}", items.join(", "))
        }
        1 => format!(
            "dict({}={}, **{})",
            dice.pick(&["a", "q"]),
            expression(dice, Kind::Any, depth, around),
            dice.pick(&["{}", "{'w': 1}", "d"])
        ),
        2 => format!("({})", expression(dice, Kind::Dict, depth, around)),
        _ => expression(dice, Kind::Dict, 0, around),
    }
}
