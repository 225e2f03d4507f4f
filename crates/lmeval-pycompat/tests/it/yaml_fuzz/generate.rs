//! Documents made from the grammar of YAML 1.1, with slips, and documents that are noise.
//!
//! Each function writes one construct of the specification. A slip (one in [`SLIP`]) writes something that the
//! construct must not have at that place: a tab, a wrong column, a missing space.

use super::random::Random;

const SLIP: usize = 150;

#[rustfmt::skip]
const WORDS: &[&str] = &[
    "a", "b", "key", "text here", "a  b", "1", "0", "-1", "010", "0x1F", "0b11", "1_000", "1.5", "-.5", ".5",
    "1.", "1e5", "1.0e+5", ".inf", "-.INF", ".nan", "1:30", "190:20:30.15", "yes", "No", "TRUE", "off", "y",
    "~", "null", "Null", "", "2001-01-02", "2001-1-2", "2001-12-14t21:59:43.10-05:00", "2001-12-14 21:59:43",
    "é", "😀", "a#b", "a:b", "http://x/y?z", "-a", "a-", "a?", "--", "---a", "a'b", "a\"b", "a!", "\\n",
    "\u{feff}a", "a\u{a0}b", "0o7", "08", "+1", "1__0", "_1", "0.", "00:00", "1:60",
];

/// Plain text that is an error in many places.
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
const SCALAR_PLACES: &[&str] = &[
    "", "a: ", "- ", "[", "{a: ", "! |\n ", "!!int ", "!!float ", "!!timestamp ", "!!binary ", "!!bool ",
    "!!str ", "! \"", "'", "\"",
];

/// Directives, some of them wrong.
#[rustfmt::skip]
const DIRECTIVES: &[&str] = &[
    "%YAML 1.1\n", "%YAML 1.2\n", "%YAML 1.3\n", "%YAML 01.1 # c\n", "%TAG !e! tag:yaml.org,2002:\n",
    "%TAG ! tag:yaml.org,2002:\n", "%TAG !! tag:x,2002:\n", "%TAG !e! !\n", "%TAG !e x\n", "%OTHER x\n",
];

/// Tags, most of which the loader knows.
#[rustfmt::skip]
const TAGS: &[&str] = &[
    "!!str", "!!str", "!", "!", "!!int", "!!map", "!!seq", "!!set", "!!omap", "!!pairs", "!!null", "!!null",
    "!!bool", "!!float", "!!binary", "!!timestamp", "!function", "!e!str", "!x", "!<tag:yaml.org,2002:str>",
    "!!%73tr", "!!value", "!!merge",
];

/// Escapes in double quotes, some of them wrong.
#[rustfmt::skip]
const ESCAPES: &[&str] = &[
    "\\n", "\\t", "\\\"", "\\\\", "\\/", "\\x41", "\\u00e9", "\\U0001F600", "\\0", "\\e", "\\_", "\\L", "\\ ",
    "\\q", "\\x4", "\\ud800", "\\\n", "\\\n\n  ",
];

pub(super) struct Generator<'r> {
    random: &'r mut Random,
    out: String,
    /// How many anchors have been written: `a0`, `a1` and so on.
    anchors: usize,
}

impl<'r> Generator<'r> {
    pub(super) fn new(random: &'r mut Random) -> Self {
        Self { random, out: String::new(), anchors: 0 }
    }

    /// Pieces that the rules are about, in any order.
    pub(super) fn noise(self) -> String {
        let count = self.random.between(1, 14);
        (0..count).map(|_| self.random.pick(NOISE)).collect()
    }

    /// A scalar that almost has a type.
    pub(super) fn scalar_document(self) -> String {
        let place = self.random.pick(SCALAR_PLACES);
        let count = self.random.between(1, 5);
        place.chars().chain((0..count).flat_map(|_| self.random.pick(SCALAR_PARTS).chars())).collect()
    }

    pub(super) fn document(mut self) -> String {
        if self.random.one_in(25) {
            self.directives();
        } else if self.random.one_in(12) {
            self.put("---");
            let gap = self.random.pick(&["\n", "\n", " ", " # c\n", "\t"]);
            self.put(gap);
        }
        self.block_node(0, 0, true);
        if self.random.one_in(15) {
            let end = self.random.pick(&["...\n", "...", "... # c\n", "...\n...\n", "---\n", "...\nb\n"]);
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
        if self.random.one_in(25) { self.random.pick(ODD_WORDS) } else { self.random.pick(WORDS) }
    }

    fn slip(&mut self) -> bool {
        self.random.one_in(SLIP)
    }

    fn directives(&mut self) {
        for _ in 0..self.random.between(1, 2) {
            let directive = self.random.pick(DIRECTIVES);
            self.put(directive);
        }
        let marker = self.random.pick(&["---\n", "--- ", ""]);
        self.put(marker);
    }

    /// The indentation of a line, at times a wrong one.
    fn indent(&mut self, indent: usize) {
        if self.slip() {
            let wrong = self.random.between(0, 5);
            self.spaces(wrong);
        } else {
            self.spaces(indent);
        }
        if self.slip() {
            self.put("\t");
        }
    }

    fn line_end(&mut self) {
        let end = match self.random.below(30) {
            0 => " # comment\n",
            1 => "\n\n",
            2 => "\n# comment\n",
            3 => "\r\n",
            4 => " \n",
            5 => self.random.pick(&["\r", "\u{85}", "\u{2028}", "\n\t\n", "#c\n", "\n    # c\n", ""]),
            _ => "\n",
        };
        self.put(end);
    }

    /// A tag and an anchor, each seldom; the tag may suit the node or not.
    fn properties(&mut self) {
        if self.random.one_in(20) {
            let tag = self.random.pick(TAGS);
            self.put(tag);
            let gap = if self.slip() { self.random.pick(&["", "\t", "\n"]) } else { " " };
            self.put(gap);
        }
        if self.random.one_in(8) {
            let name = format!("&a{} ", if self.slip() { 0 } else { self.anchors });
            self.anchors += 1;
            self.put(&name);
        }
    }

    /// An alias, most often to an anchor that has been written.
    fn alias(&mut self) {
        let bound = if self.slip() { self.anchors + 1 } else { self.anchors };
        if bound == 0 {
            return self.put("a");
        }
        let name = format!("*a{}", self.random.below(bound));
        self.put(&name);
    }

    /// A node whose lines are indented by `indent`; the cursor stands behind an indicator, or at a line's beginning.
    fn block_node(&mut self, indent: usize, depth: usize, is_fresh: bool) {
        self.properties();
        match self.random.below(if depth > 3 { 5 } else { 12 }) {
            0 | 1 => {
                self.line_scalar(indent);
                self.line_end();
            }
            2 => self.block_scalar(indent),
            3 => {
                self.flow_node(depth, indent);
                self.line_end();
            }
            4 if self.random.one_in(2) => {
                self.alias();
                self.line_end();
            }
            4 => self.line_end(),
            kind => {
                // A compact collection begins on the line of its indicator.
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
        for index in 0..self.random.between(1, 3) {
            if index > 0 {
                self.indent(indent);
            }
            self.put("-");
            let gap = if self.slip() { self.random.pick(&["", "\t"]) } else { " " };
            self.put(gap);
            self.block_node(indent + 2, depth + 1, true);
        }
    }

    fn block_mapping(&mut self, indent: usize, depth: usize) {
        for index in 0..self.random.between(1, 4) {
            if index > 0 {
                self.indent(indent);
            }
            if self.random.one_in(12) {
                self.put("? ");
                self.block_node(indent + 2, depth + 2, true);
                if !self.random.one_in(4) {
                    self.indent(indent);
                    self.put(": ");
                    self.block_node(indent + 2, depth + 1, true);
                }
                continue;
            }
            self.properties();
            self.key(indent);
            let colon = if self.slip() { self.random.pick(&[":", " : ", "", ":\t", "\n: "]) } else { ": " };
            self.put(colon);
            let inner = match self.random.below(4) {
                0 => indent,
                1 => indent + 1,
                _ => indent + 2,
            };
            self.block_node(inner, depth + 1, false);
        }
    }

    fn key(&mut self, indent: usize) {
        match self.random.below(40) {
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
            // Around the length that a key may have.
            9 if self.random.one_in(20) => {
                let length = self.random.between(1020, 1027);
                self.out.extend(std::iter::repeat_n('k', length));
            }
            10 => self.put("<<"),
            11..14 => {
                let word = self.word();
                self.put(word);
            }
            _ => {
                let word =
                    self.random.pick(&["a", "b", "c", "1", "yes", "1.0", "=", "true", "null", "key word"]);
                self.put(word);
            }
        }
    }

    /// A scalar in a flow style, at times of several lines.
    fn line_scalar(&mut self, indent: usize) {
        if self.random.one_in(3) {
            let is_long = self.random.one_in(3);
            return self.quoted(indent, is_long);
        }
        let word = self.word();
        self.put(word);
        if self.random.one_in(5) {
            for _ in 0..self.random.between(1, 2) {
                self.fold(indent);
                let word = self.word();
                self.put(word);
            }
        }
    }

    fn fold(&mut self, indent: usize) {
        let line_break = self.random.pick(&[
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
        let quote = self.random.pick(&["'", "\""]);
        self.put(quote);
        for index in 0..self.random.between(0, 3) {
            if index > 0 && is_long {
                self.fold(indent);
            }
            let part = match (quote, self.random.below(4)) {
                ("'", 0) => "''",
                ("'", 1) => "\\",
                ("\"", 0) => self.random.pick(ESCAPES),
                _ => self.random.pick(&["a", " ", "  b", "# c", ": ", "é", "---", "\n--- ", "{", "- ", "\t"]),
            };
            self.put(part);
        }
        if !self.slip() {
            self.put(quote);
        }
    }

    fn block_scalar(&mut self, indent: usize) {
        let style = self.random.pick(&["|", ">"]);
        self.put(style);
        let header = if self.slip() {
            self.random.pick(&["0", "-+", "x", "11"])
        } else {
            self.random.pick(&["", "", "", "", "-", "+", "1", "1-", "+1", "2+", " # c"])
        };
        self.put(header);
        self.put("\n");
        for _ in 0..self.random.between(0, 4) {
            let more = self.random.pick(&["", "", "", " ", "  ", "\t"]);
            let line = self.random.pick(&["text", "- x", "a: b", "# no", "", "", "---", "'q", "é", "t "]);
            if !(line.is_empty() && self.random.one_in(2)) {
                self.indent(indent.max(1));
            }
            self.put(more);
            self.put(line);
            let line_break = if self.random.one_in(12) {
                self.random.pick(&["\r\n", "\u{85}", "\u{2028}", "", "\r"])
            } else {
                "\n"
            };
            self.put(line_break);
        }
    }

    fn flow_gap(&mut self, indent: usize) {
        match self.random.below(12) {
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
        match self.random.below(if depth > 3 { 4 } else { 8 }) {
            0 | 1 => self.line_scalar(indent),
            2 => self.alias(),
            3 => {
                let word = self.random.pick(&["a", "b", "1", "-", "a b", "x:y", "yes", "2", "c", "a?"]);
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
        let bracket = if self.slip() { self.random.pick(&["", "]", "}", ",", "]]"]) } else { bracket };
        self.put(bracket);
    }

    fn flow_entries(&mut self, depth: usize, indent: usize, is_mapping: bool) {
        let count = self.random.between(0, 3);
        for index in 0..count {
            self.entry(depth, indent, is_mapping);
            if index + 1 < count || self.random.one_in(6) {
                let comma = if self.slip() { self.random.pick(&["", ",,", ";"]) } else { "," };
                self.put(comma);
                self.flow_gap(indent);
            }
        }
    }

    fn entry(&mut self, depth: usize, indent: usize, is_mapping: bool) {
        let is_pair = if is_mapping { !self.random.one_in(6) } else { self.random.one_in(6) };
        if self.random.one_in(12) {
            self.put("?");
            self.flow_gap(indent);
        }
        if !is_pair {
            return self.flow_node(depth + 1, indent);
        }
        if !self.slip() {
            let deep = if self.random.one_in(8) { depth + 1 } else { 4 };
            self.flow_node(deep, indent);
        }
        let colon = match self.random.below(10) {
            0 => ":",
            1 => " :",
            2 => "\n:",
            _ => ": ",
        };
        self.put(colon);
        if !self.random.one_in(10) {
            self.flow_node(depth + 1, indent);
        }
    }
}
