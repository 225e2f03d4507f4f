//! Expressions that evaluate to lists and dictionaries.

use super::{Maker, slice};
use crate::fuzz::scope::Kind;

impl Maker<'_> {
    fn items(&mut self, kind: Kind) -> String {
        let count = self.dice.roll(4);
        let items: Vec<String> = (0..count).map(|_| self.make(kind)).collect();
        format!("[{}{}]", items.join(", "), if count > 0 && self.dice.percent(20) { "," } else { "" })
    }

    /// Operations that preserve the kind of a list.
    fn same_list(&mut self, kind: Kind) -> String {
        match self.dice.roll(4) {
            0 => format!("{} + {}", self.operand(kind), self.operand(kind)),
            1 => format!("({} + [])[{}]", self.operand(kind), slice(self.dice)),
            2 => self.items(kind),
            _ => self.filtered(
                kind,
                &[
                    "list",
                    "reverse|list",
                    "select|list",
                    "reject('none')|list",
                    "default([])",
                    "select('defined')|list",
                ],
            ),
        }
    }

    pub(super) fn texts(&mut self) -> String {
        if self.depth == 0 {
            return self.dice.pick(&["[]", "['a', 'B', 'a']", "['b']", "['',]"]).to_owned();
        }
        match self.dice.roll(6) {
            0 => self.same_list(Kind::Texts),
            1 => self.filtered(
                Kind::Texts,
                &[
                    "sort",
                    "sort(reverse=true)",
                    "unique|list",
                    "map('upper')|list",
                    "sort(true, true)",
                    "map('replace', 'a', 'b')|list",
                ],
            ),
            2 => self.filtered(Kind::List, &["map('string')|list", "map('string')|map('trim')|list"]),
            3 => self.method(&["split()", "split('a')", "split(' ', 1)", "splitlines()"]),
            4 => self
                .filtered(Kind::Dict, &["list", "items|map('first')|list", "dictsort|map(attribute=0)|list"]),
            _ => self.filtered(Kind::Text, &["list"]),
        }
    }

    pub(super) fn numbers(&mut self) -> String {
        if self.depth == 0 {
            return self.dice.pick(&["[]", "[3, 1, 2]", "[0.5,]", "range(3)|list"]).to_owned();
        }
        match self.dice.roll(5) {
            0 => self.same_list(Kind::Numbers),
            1 => self.filtered(
                Kind::Numbers,
                &[
                    "sort",
                    "sort(reverse=true)",
                    "unique|list",
                    "select('gt', 1)|list",
                    "map('abs')|list",
                    "map('int')|reject('odd')|list",
                ],
            ),
            2 => self.filtered(Kind::Texts, &["map('length')|list", "map('int')|list"]),
            3 => self.filtered(Kind::Records, &["map(attribute='n')|list"]),
            _ => format!("range({})|list", self.dice.pick(&["3", "2", "1, 4", "5, 0, -2", "-1", "0"])),
        }
    }

    pub(super) fn records(&mut self) -> String {
        if self.depth == 0 {
            return self.dice.pick(&["ll", "[{'n': 1, 'k': 'w'}]", "[dict(n=2)]"]).to_owned();
        }
        match self.dice.roll(3) {
            0 => self.same_list(Kind::Records),
            1 => format!("[{{'n': {}, 'k': {}}}]", self.make(Kind::Integer), self.make(Kind::Text)),
            _ => self.filtered(
                Kind::Records,
                &[
                    "selectattr('k', 'defined')|list",
                    "rejectattr('k', 'defined')|list",
                    "sort(attribute='n')",
                    "selectattr('n')|list",
                    "selectattr('n', 'eq', 2)|list",
                    "unique(attribute='n')|list",
                ],
            ),
        }
    }

    pub(super) fn list(&mut self) -> String {
        match self.dice.roll(7) {
            0 | 1 => self.texts(),
            2 => self.numbers(),
            3 => self.records(),
            4 => self.items(Kind::Any),
            5 => self.filtered(
                Kind::List,
                &["batch(2)|list", "batch(2, 'z')|list", "slice(2)|map('list')|list", "list"],
            ),
            _ => self.filtered(
                Kind::Records,
                &[
                    "groupby('n')|map(attribute='list')|list",
                    "map(attribute='k', default='?')|list",
                    "groupby('n')|list",
                ],
            ),
        }
    }

    pub(super) fn dictionary(&mut self) -> String {
        if self.depth == 0 {
            return self
                .dice
                .pick(&["{}", "{'a': 1}", "{'a': 1, 'b': [2],}", "dict(a=1)", "dict({'q': 3}, z=2)"])
                .to_owned();
        }
        match self.dice.roll(4) {
            0..2 => {
                let count = self.dice.roll(4);
                let items: Vec<String> = (0..count)
                    .map(|_| {
                        format!(
                            "{}: {}",
                            self.dice.pick(&["'a'", "'b'", "'n'", "t", "'é'"]),
                            self.make(Kind::Any)
                        )
                    })
                    .collect();
                format!("{{{}}}", items.join(", "))
            }
            2 => format!(
                "dict({}={}, **{})",
                self.dice.pick(&["a", "q"]),
                self.make(Kind::Any),
                self.dice.pick(&["{}", "{'w': 1}", "{'v': s}"])
            ),
            _ => self.filtered(Kind::Dict, &["default({})", "d({'x': 2}, true)"]),
        }
    }
}
