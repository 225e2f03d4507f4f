//! Documents generated from the YAML 1.1 grammar, with occasional syntax errors, and random noise.
//!
//! Each function writes one construct of the specification. With a probability of one in [`SLIP`] it writes something
//! invalid in that position: a tab, a wrong column, a missing space.

use lmeval_testkit::Dice;

const SLIP: usize = 150;

#[rustfmt::skip]
const WORDS: &[&str] = &[
    "a", "b", "key", "text here", "a  b", "1", "0", "-1", "010", "0x1F", "0b11", "1_000", "1.5", "-.5", ".5",
    "1.", "1e5", "1.0e+5", ".inf", "-.INF", ".nan", "1:30", "190:20:30.15", "yes", "No", "TRUE", "off", "y",
    "~", "null", "Null", "", "2001-01-02", "2001-1-2", "2001-12-14t21:59:43.10-05:00", "2001-12-14 21:59:43",
    "é", "😀", "a#b", "a:b", "http://x/y?z", "-a", "a-", "a?", "--", "---a", "a'b", "a\"b", "a!", "\\n",
    "\u{feff}a", "a\u{a0}b", "0o7", "08", "+1", "1__0", "_1", "0.", "00:00", "1:60",
];

/// Plain scalars that are invalid in many contexts.
const ODD_WORDS: &[&str] =
    &["=", "<<", "2020-02-30", "{{x}}", "[a", "%a", "@a", "`a", "!a", "x{y}", "a, b", "a]", ":a", "?a"];

#[rustfmt::skip]
const NOISE: &[&str] = &[
    "a", "b", "-", "- ", "? ", "?", ": ", ":", ", ", ",", "[", "]", "{", "}", "\n", "\n", "\n", "\n  ", "\n ",
    "\n    ", " ", "  ", "\t", "# c\n", "#", "\"", "'", "\\", "\\x4", "\\u00e9", "|", ">", "|-\n", ">+2\n",
    "|\n  ", "&a ", "&a", "*a ", "*a", "! ", "!", "!!str ", "!!int ", "!!set ", "!!omap ", "!!binary ",
    "!!map\n", "!function ", "!<x", "!<tag:yaml.org,2002:int> ", "!e!", "%41", "<<: ", "<<", "=", "---",
    "--- ", "---\n", "...\n", "...", "%YAML 1.1\n", "%TAG !e! x\n", "%", "@", "\u{85}", "\u{2028}", "\u{2029}",
    "\u{feff}", "😀", "0x", "1:2", "1_0.", "2001-01-01", " 1:00:00", "\r\n", "\r", "a: b\n", "- a\n", "a: ",
    "a:\n", "  b: ", "x y",
];

#[rustfmt::skip]
const SCALAR_PARTS: &[&str] = &[
    "0", "1", "7", "8", "9", "12", "60", "59", "_", ".", "-", "+", ":", "e", "E", "x", "0x", "0b", "0o", "b",
    "a", "f", "F", "inf", "Inf", "nan", ".inf", ".nan", ".NaN", "yes", "No", "true", "null", "~", "2001-01-02",
    "2020-02-30", "-1-1", "T", "t", "Z", "12:30:45", ".123456789", "+05:30", "-3", "=", "<<", "y", "on", "Off",
    "00", "10", "é", "١", " ", "\t",
];

#[rustfmt::skip]
const SCALAR_CONTEXTS: &[&str] = &[
    "", "a: ", "- ", "[", "{a: ", "! |\n ", "!!int ", "!!float ", "!!timestamp ", "!!binary ", "!!bool ",
    "!!str ", "! \"", "'", "\"",
];

/// Directives, some of them invalid.
#[rustfmt::skip]
const DIRECTIVES: &[&str] = &[
    "%YAML 1.1\n", "%YAML 1.2\n", "%YAML 1.3\n", "%YAML 01.1 # c\n", "%TAG !e! tag:yaml.org,2002:\n",
    "%TAG ! tag:yaml.org,2002:\n", "%TAG !! tag:x,2002:\n", "%TAG !e! !\n", "%TAG !e x\n", "%OTHER x\n",
];

/// Tags, most of them known to the loader.
#[rustfmt::skip]
const TAGS: &[&str] = &[
    "!!str", "!!str", "!", "!", "!!int", "!!map", "!!seq", "!!set", "!!omap", "!!pairs", "!!null", "!!null",
    "!!bool", "!!float", "!!binary", "!!timestamp", "!function", "!e!str", "!x", "!<tag:yaml.org,2002:str>",
    "!!%73tr", "!!value", "!!merge",
];

/// Escapes for double-quoted scalars, some of them invalid.
#[rustfmt::skip]
const ESCAPES: &[&str] = &[
    "\\n", "\\t", "\\\"", "\\\\", "\\/", "\\x41", "\\u00e9", "\\U0001F600", "\\0", "\\e", "\\_", "\\L", "\\ ",
    "\\q", "\\x4", "\\ud800", "\\\n", "\\\n\n  ",
];

pub(super) struct Generator<'r> {
    dice: &'r mut Dice,
    out: String,
    /// The number of anchors written so far: `a0`, `a1` and so on.
    anchors: usize,
}

impl<'r> Generator<'r> {
    pub(super) fn new(dice: &'r mut Dice) -> Self {
        Self { dice, out: String::new(), anchors: 0 }
    }

    /// Syntax fragments in random order.
    pub(super) fn noise(self) -> String {
        let count = self.dice.between(1, 14);
        (0..count).map(|_| self.dice.pick(NOISE)).collect()
    }

    /// A scalar that is, or nearly is, a number, a date or another typed value.
    pub(super) fn scalar_document(self) -> String {
        let context = self.dice.pick(SCALAR_CONTEXTS);
        let count = self.dice.between(1, 5);
        context.chars().chain((0..count).flat_map(|_| self.dice.pick(SCALAR_PARTS).chars())).collect()
    }

    pub(super) fn document(mut self) -> String {
        if self.dice.one_in(25) {
            self.directives();
        } else if self.dice.one_in(12) {
            self.put("---");
            let gap = self.dice.pick(&["\n", "\n", " ", " # c\n", "\t"]);
            self.put(gap);
        }
        self.block_node(0, 0, true);
        if self.dice.one_in(15) {
            let end = self.dice.pick(&["...\n", "...", "... # c\n", "...\n...\n", "---\n", "...\nb\n"]);
            self.put(end);
        }
        self.out
    }

    fn put(&mut self, text: &str) {
        self.out.push_str(text);
    }

    fn spaces(&mut self, count: usize) {
        self.out.extend(std::iter::repeat_n(' ', count));
    }

    fn word(&mut self) -> &'static str {
        if self.dice.one_in(25) { self.dice.pick(ODD_WORDS) } else { self.dice.pick(WORDS) }
    }

    fn slip(&mut self) -> bool {
        self.dice.one_in(SLIP)
    }

    fn directives(&mut self) {
        for _ in 0..self.dice.between(1, 2) {
            let directive = self.dice.pick(DIRECTIVES);
            self.put(directive);
        }
        let marker = self.dice.pick(&["---\n", "--- ", ""]);
        self.put(marker);
    }

    /// The indentation of a line, occasionally a wrong one.
    fn indent(&mut self, indent: usize) {
        if self.slip() {
            let wrong = self.dice.between(0, 5);
            self.spaces(wrong);
        } else {
            self.spaces(indent);
        }
        if self.slip() {
            self.put("\t");
        }
    }

    fn line_end(&mut self) {
        let end = match self.dice.roll(30) {
            0 => " # comment\n",
            1 => "\n\n",
            2 => "\n# comment\n",
            3 => "\r\n",
            4 => " \n",
            5 => self.dice.pick(&["\r", "\u{85}", "\u{2028}", "\n\t\n", "#c\n", "\n    # c\n", ""]),
            _ => "\n",
        };
        self.put(end);
    }

    /// Occasionally a tag and an anchor; the tag need not suit the node.
    fn properties(&mut self) {
        if self.dice.one_in(20) {
            let tag = self.dice.pick(TAGS);
            self.put(tag);
            let gap = if self.slip() { self.dice.pick(&["", "\t", "\n"]) } else { " " };
            self.put(gap);
        }
        if self.dice.one_in(8) {
            let name = format!("&a{} ", if self.slip() { 0 } else { self.anchors });
            self.anchors += 1;
            self.put(&name);
        }
    }

    /// An alias, usually of an anchor already written.
    fn alias(&mut self) {
        let bound = if self.slip() { self.anchors + 1 } else { self.anchors };
        if bound == 0 {
            return self.put("a");
        }
        let name = format!("*a{}", self.dice.roll(bound));
        self.put(&name);
    }

    /// A node indented by `indent`; the output ends with an indicator or a line break.
    fn block_node(&mut self, indent: usize, depth: usize, is_fresh: bool) {
        self.properties();
        match self.dice.roll(if depth > 3 { 5 } else { 12 }) {
            0 | 1 => {
                self.line_scalar(indent);
                self.line_end();
            }
            2 => self.block_scalar(indent),
            3 => {
                self.flow_node(depth, indent);
                self.line_end();
            }
            4 if self.dice.one_in(2) => {
                self.alias();
                self.line_end();
            }
            4 => self.line_end(),
            kind => {
                // A compact collection starts on the line of its indicator.
                let is_compact = is_fresh && !self.out.ends_with('\n') && !self.slip();
                let at_line = self.out.is_empty() || self.out.ends_with('\n');
                if !at_line && !is_compact {
                    self.line_end();
                    self.indent(indent);
                } else if at_line {
                    self.indent(indent);
                }
                if kind < 8 { self.block_sequence(indent, depth) } else { self.block_mapping(indent, depth) }
            }
        }
    }

    fn block_sequence(&mut self, indent: usize, depth: usize) {
        for index in 0..self.dice.between(1, 3) {
            if index > 0 {
                self.indent(indent);
            }
            self.put("-");
            let gap = if self.slip() { self.dice.pick(&["", "\t"]) } else { " " };
            self.put(gap);
            self.block_node(indent + 2, depth + 1, true);
        }
    }

    fn block_mapping(&mut self, indent: usize, depth: usize) {
        for index in 0..self.dice.between(1, 4) {
            if index > 0 {
                self.indent(indent);
            }
            if self.dice.one_in(12) {
                self.put("? ");
                self.block_node(indent + 2, depth + 2, true);
                if !self.dice.one_in(4) {
                    self.indent(indent);
                    self.put(": ");
                    self.block_node(indent + 2, depth + 1, true);
                }
                continue;
            }
            self.properties();
            self.key(indent);
            let colon = if self.slip() { self.dice.pick(&[":", " : ", "", ":\t", "\n: "]) } else { ": " };
            self.put(colon);
            let inner = match self.dice.roll(4) {
                0 => indent,
                1 => indent + 1,
                _ => indent + 2,
            };
            self.block_node(inner, depth + 1, false);
        }
    }

    fn key(&mut self, indent: usize) {
        match self.dice.roll(40) {
            0..3 if self.anchors > 0 => {
                self.put("<<: ");
                self.alias();
                self.line_end();
                self.indent(indent);
                self.put("m");
            }
            3..7 => self.quoted(indent, false),
            7 => {
                self.alias();
                self.put(" ");
            }
            8 => self.flow_node(3, indent),
            // Around the maximum length of a simple key.
            9 if self.dice.one_in(20) => {
                let length = self.dice.between(1020, 1027);
                self.out.extend(std::iter::repeat_n('k', length));
            }
            10 => self.put("<<"),
            11..14 => {
                let word = self.word();
                self.put(word);
            }
            _ => {
                let word =
                    self.dice.pick(&["a", "b", "c", "1", "yes", "1.0", "=", "true", "null", "key word"]);
                self.put(word);
            }
        }
    }

    /// A scalar in a flow style, occasionally over several lines.
    fn line_scalar(&mut self, indent: usize) {
        if self.dice.one_in(3) {
            let is_long = self.dice.one_in(3);
            return self.quoted(indent, is_long);
        }
        let word = self.word();
        self.put(word);
        if self.dice.one_in(5) {
            for _ in 0..self.dice.between(1, 2) {
                self.fold(indent);
                let word = self.word();
                self.put(word);
            }
        }
    }

    fn fold(&mut self, indent: usize) {
        let line_break = self.dice.pick(&[
            "\n",
            "\n",
            "\n\n",
            " \n",
            "\t\n \n",
            "\r\n",
            "\u{85}",
            "\u{2028}",
            "\n\u{2029}",
        ]);
        self.put(line_break);
        self.indent(indent);
    }

    fn quoted(&mut self, indent: usize, is_long: bool) {
        let quote = self.dice.pick(&["'", "\""]);
        self.put(quote);
        for index in 0..self.dice.between(0, 3) {
            if index > 0 && is_long {
                self.fold(indent);
            }
            let part = match (quote, self.dice.roll(4)) {
                ("'", 0) => "''",
                ("'", 1) => "\\",
                ("\"", 0) => self.dice.pick(ESCAPES),
                _ => self.dice.pick(&["a", " ", "  b", "# c", ": ", "é", "---", "\n--- ", "{", "- ", "\t"]),
            };
            self.put(part);
        }
        if !self.slip() {
            self.put(quote);
        }
    }

    fn block_scalar(&mut self, indent: usize) {
        let style = self.dice.pick(&["|", ">"]);
        self.put(style);
        let header = if self.slip() {
            self.dice.pick(&["0", "-+", "x", "11"])
        } else {
            self.dice.pick(&["", "", "", "", "-", "+", "1", "1-", "+1", "2+", " # c"])
        };
        self.put(header);
        self.put("\n");
        for _ in 0..self.dice.between(0, 4) {
            let more = self.dice.pick(&["", "", "", " ", "  ", "\t"]);
            let line = self.dice.pick(&["text", "- x", "a: b", "# no", "", "", "---", "'q", "é", "t "]);
            if !(line.is_empty() && self.dice.one_in(2)) {
                self.indent(indent.max(1));
            }
            self.put(more);
            self.put(line);
            let line_break = if self.dice.one_in(12) {
                self.dice.pick(&["\r\n", "\u{85}", "\u{2028}", "", "\r"])
            } else {
                "\n"
            };
            self.put(line_break);
        }
    }

    fn flow_gap(&mut self, indent: usize) {
        match self.dice.roll(12) {
            0 => {
                self.put("\n");
                self.indent(indent);
            }
            1 => self.put(" # c\n "),
            2 => {}
            _ => self.put(" "),
        }
    }

    fn flow_node(&mut self, depth: usize, indent: usize) {
        self.properties();
        match self.dice.roll(if depth > 3 { 4 } else { 8 }) {
            0 | 1 => self.line_scalar(indent),
            2 => self.alias(),
            3 => {
                let word = self.dice.pick(&["a", "b", "1", "-", "a b", "x:y", "yes", "2", "c", "a?"]);
                self.put(word);
            }
            4 | 5 => {
                self.put("[");
                self.flow_entries(depth, indent, false);
                self.close("]");
            }
            _ => {
                self.put("{");
                self.flow_entries(depth, indent, true);
                self.close("}");
            }
        }
    }

    fn close(&mut self, bracket: &str) {
        let bracket = if self.slip() { self.dice.pick(&["", "]", "}", ",", "]]"]) } else { bracket };
        self.put(bracket);
    }

    fn flow_entries(&mut self, depth: usize, indent: usize, is_mapping: bool) {
        let count = self.dice.between(0, 3);
        for index in 0..count {
            self.entry(depth, indent, is_mapping);
            if index + 1 < count || self.dice.one_in(6) {
                let comma = if self.slip() { self.dice.pick(&["", ",,", ";"]) } else { "," };
                self.put(comma);
                self.flow_gap(indent);
            }
        }
    }

    fn entry(&mut self, depth: usize, indent: usize, is_mapping: bool) {
        let is_pair = if is_mapping { !self.dice.one_in(6) } else { self.dice.one_in(6) };
        if self.dice.one_in(12) {
            self.put("?");
            self.flow_gap(indent);
        }
        if !is_pair {
            return self.flow_node(depth + 1, indent);
        }
        if !self.slip() {
            let deep = if self.dice.one_in(8) { depth + 1 } else { 4 };
            self.flow_node(deep, indent);
        }
        let colon = match self.dice.roll(10) {
            0 => ":",
            1 => " :",
            2 => "\n:",
            _ => ": ",
        };
        self.put(colon);
        if !self.dice.one_in(10) {
            self.flow_node(depth + 1, indent);
        }
    }
}
