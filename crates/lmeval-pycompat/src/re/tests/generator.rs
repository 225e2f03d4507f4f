//! Random patterns, strings and templates, generated from the grammar in the `re` documentation.
//!
//! Most patterns are valid or nearly so: the generator counts groups, so that most references name an existing one.
//! Others are recorded and library patterns with a few characters changed, or random pieces of syntax.

use lmeval_testkit::Dice;

#[rustfmt::skip]
const CHARACTERS: &[&str] = &[
    "a", "b", "c", "a", "b", "A", "B", "1", "2", "_", " ", "-", ",", "x", "é", "É", "ß", "ſ", "s", "k", "K", "İ",
    "ı", "i", "σ", "ς", "Σ", "字", "µ", "\u{10400}", "\u{10428}", "#", "\n", "{", "}", "]", "&", "~", ":", "=", "<",
    ">", "!", "P", "ǆ", "٣", "²", "\u{a0}", "\u{1c}", "/", "'", "\"", "%", "@", "`", ";",
];
#[rustfmt::skip]
const ESCAPES: &[&str] = &[
    r"\d", r"\D", r"\s", r"\S", r"\w", r"\W", r"\.", r"\$", r"\\", r"\-", r"\n", r"\t", r"\a", r"\f", r"\r", r"\v",
    r"\x41", r"\x61", r"\u00e9", r"\u0061", r"\U00010400", r"\U00000062", r"\0", r"\07", r"\012", r"\101", r"\141",
    r"\377", r"\ ", r"\#", r"\é", r"\_", r"\]", r"\[", r"\(", r"\)", r"\{", r"\|",
];
#[rustfmt::skip]
const ODD_ESCAPES: &[&str] = &[
    r"\q", r"\x", r"\x4", r"\u12", r"\U0011", r"\U00110000", r"\400", r"\777", r"\8", r"\9", r"\18", r"\81", r"\N",
    r"\N{", r"\N{}", r"\N{a", r"\N{DIGIT ONE}", r"\z", r"\G", r"\c", r"\p", r"\ud800", r"\08", r"\1", r"\2", r"\12",
    r"\123", "\\\n", "\\",
];
#[rustfmt::skip]
const ANCHORS: &[&str] = &[
    "^", "$", r"\b", r"\B", r"\A", r"\Z",
];
#[rustfmt::skip]
const QUANTIFIERS: &[&str] = &[
    "*", "+", "?", "{2}", "{1,2}", "{,2}", "{1,}", "{0}", "{,}", "{0,1}", "{3}", "{2,3}", "{0,0}", "{1}",
];
#[rustfmt::skip]
const ODD_QUANTIFIERS: &[&str] = &[
    "{", "{}", "{a}", "{1", "{1,", "{,", "{2,1}", "{ 1}", "{99999999999}", "{4294967295}", "**", "+*", "{1}{2}",
    "???",
];
#[rustfmt::skip]
const FLAGS: &[&str] = &[
    "i", "m", "s", "x", "a", "u", "im", "is", "ix", "mx", "ai", "ms",
];
#[rustfmt::skip]
const ODD_FLAGS: &[&str] = &[
    "", "au", "L", "t", "z", "ii", "i1", "é", "xL", "it", "-", "i-", "-i", "i-i", "-a", "-t", "i-s", "s-x", "u-i",
    "i-z", "-L",
];
#[rustfmt::skip]
const PIECES: &[&str] = &[
    "(", ")", "[", "]", "{", "}", "|", "*", "+", "?", ".", "^", "$", "\\", "(?", "(?P", "(?P<", "(?P<n>", "(?P=",
    "(?P=n)", "(?:", "(?=", "(?!", "(?<", "(?<=", "(?<!", "(?>", "(?(", "(?(1)", "(?(n)", "(?#", "(?#c)", "(?i)",
    "(?x)", "(?i:", "(?-i:", "(?x:", "(?a)", "(?u:", "[^", "[a-", "[]", "a-z", "\\1", "\\b", "\\d", "\\N{", "#",
    "\n", " ", "a", "b", "1", ",", "-", ":", "<", ">", "=", "é", "{2", "{2}", "{,3}",
];
#[rustfmt::skip]
const TEMPLATES: &[&str] = &[
    "", "x", "-", r"\1", r"\2", r"\3", r"\g<0>", r"\g<1>", r"\g<2>", r"\g<n1>", r"\g<n2>", r"\g<n>", r"\n", r"\t",
    r"\\", r"\.", r"\0", r"\012", r"\101", r"\377", r"\a\b\f\r\v", "é", r"\é", r"\ ", "$1", "&", r"\g< 1 >",
    r"\g<01>", r"\g<+1>", r"\g<1_0>", r"\g<٣>", r"\g<١>",
];
#[rustfmt::skip]
const ODD_TEMPLATES: &[&str] = &[
    r"\q", r"\x41", r"\400", r"\477", r"\g", r"\g<", r"\g<>", r"\g<1", r"\g<1a>", r"\g<-1>", r"\g<a b>",
    r"\g<99999999999>", r"\99", r"\18", r"\9", r"\N", r"\d", "\\", r"\g<é>", r"\g\", r"\g<0\>", r"\08", r"\1234",
];
#[rustfmt::skip]
const TEXT_PIECES: &[&str] = &[
    "a", "b", "c", "ab", "ba", "aa", "bb", "A", "B", "1", "2", "12", " ", ".", ",", "-", "_", "\n", "x", "X", "é",
    "É", "e\u{301}", "ß", "ẞ", "ſ", "s", "S", "k", "K", "\u{212a}", "İ", "ı", "i", "I", "σ", "ς", "Σ", "字", "µ",
    "μ", "\u{10400}", "\u{10428}", "ǅ", "ǆ", "٣", "²", "\u{a0}", "\u{1c}", "\t", "#", "{", "}", "(", ")", "[", "]",
    "\\", "😀", "$", "^", "*", "/", "'", "\"", "abab", "The answer is 42.", "(A)", "\r\n", "\u{2028}", "\0", "\u{7}",
];

/// Builds one pattern.
pub(super) struct Writer<'a> {
    dice: &'a mut Dice,
    out: String,
    groups: usize,
    closed: Vec<usize>,
    named: Vec<usize>,
    in_lookbehind: bool,
}

/// A pattern that follows the grammar.
pub(super) fn grammatical(dice: &mut Dice) -> String {
    let depth = 1 + dice.roll(3);
    let mut writer = Writer {
        dice,
        out: String::new(),
        groups: 0,
        closed: Vec::new(),
        named: Vec::new(),
        in_lookbehind: false,
    };
    if writer.dice.percent(20) {
        let flags = if writer.dice.percent(85) { FLAGS } else { ODD_FLAGS };
        let flags = writer.dice.pick(flags);
        writer.put(&["(?"]);
        writer.put(&[flags]);
        writer.put(&[")"]);
    }
    writer.alternatives(depth);
    writer.out
}

impl Writer<'_> {
    fn put(&mut self, from: &[&str]) {
        let piece = self.dice.pick(from);
        self.out.push_str(piece);
    }

    fn alternatives(&mut self, depth: usize) {
        self.sequence(depth);
        while self.dice.percent(25) {
            self.out.push('|');
            self.sequence(depth);
        }
    }

    fn sequence(&mut self, depth: usize) {
        for _ in 0..self.dice.roll(4) {
            self.item(depth);
        }
    }

    fn item(&mut self, depth: usize) {
        match self.dice.roll(100) {
            0..=29 if depth > 0 => self.group(depth - 1),
            0..=39 => self.out_character(),
            40..=54 => self.set(),
            55..=66 => self.put(ESCAPES),
            67..=67 => self.put(ODD_ESCAPES),
            68..=75 => self.put(ANCHORS),
            76..=80 => self.out.push('.'),
            81..=86 if !self.closed.is_empty() => self.reference(),
            87..=87 => self.put(&["(?#c)", "(?#)", " ", " #c\n", "(?i)", "(?#\\))"]),
            _ => self.put(&CHARACTERS[..5]),
        }
        if self.dice.percent(35) {
            self.quantifier();
        }
    }

    fn out_character(&mut self) {
        let few = if self.dice.percent(60) { 8 } else { CHARACTERS.len() };
        self.put(&CHARACTERS[..few]);
    }

    fn quantifier(&mut self) {
        if self.dice.percent(3) {
            return self.put(ODD_QUANTIFIERS);
        }
        if self.in_lookbehind {
            return self.put(&["{2}", "{1}", "{0}", "{2}", "{1,2}"]);
        }
        self.put(QUANTIFIERS);
        if self.dice.percent(35) {
            self.put(&["?", "+"]);
        }
    }

    fn set(&mut self) {
        self.out.push('[');
        if self.dice.percent(25) {
            self.out.push('^');
        }
        if self.dice.percent(6) {
            self.put(&["]", "-", "^", "[", "]-a"]);
        }
        for _ in 0..=self.dice.roll(4) {
            match self.dice.roll(20) {
                0..=8 => self.out_character(),
                9..=12 => self.put(ESCAPES),
                13..=16 => self.put(&[
                    "a-c",
                    "A-Z",
                    "0-9",
                    "é-ſ",
                    "\\x61-\\x7a",
                    "\u{10400}-\u{10410}",
                    "α-ω",
                    "a-a",
                    "k-s",
                    "Z-a",
                    "!-~",
                ]),
                17 => self.put(&[
                    "c-a",
                    "\\d-z",
                    "a-\\w",
                    "--a",
                    "-",
                    "\\b",
                    "\\B",
                    "&&",
                    "[:alpha:]",
                    "||",
                    "~~",
                    "--",
                ]),
                18 if self.dice.percent(20) => self.put(ODD_ESCAPES),
                _ => self.put(&CHARACTERS[..8]),
            }
        }
        if !self.dice.percent(1) {
            self.out.push(']');
        }
    }

    fn reference(&mut self) {
        let group = if self.dice.percent(95) {
            self.dice.pick(&self.closed)
        } else {
            1 + self.dice.roll(self.groups + 1)
        };
        let named = self.named.contains(&group);
        let id = if named && self.dice.percent(50) { format!("n{group}") } else { group.to_string() };
        let piece = match self.dice.roll(6) {
            0 | 1 => format!("\\{group}"),
            2 if named => format!("(?P=n{group})"),
            2 => format!("\\{group}"),
            3 => format!("(?({id})a)"),
            4 => format!("(?({id})a|b)"),
            _ => {
                self.put(&["(?("]);
                self.put(&[&id]);
                self.put(&[")"]);
                self.sequence(0);
                self.out.push('|');
                self.sequence(0);
                ")".to_owned()
            }
        };
        self.out.push_str(&piece);
    }

    fn group(&mut self, depth: usize) {
        match self.dice.roll(20) {
            0..=5 => {
                self.groups += 1;
                self.capture(depth, "(");
            }
            6..=7 => {
                self.groups += 1;
                self.named.push(self.groups);
                self.capture(depth, &format!("(?P<n{}>", self.groups));
            }
            8..=11 => self.plain(depth, "(?:"),
            12 => self.plain(depth, "(?="),
            13 => self.plain(depth, "(?!"),
            14 | 15 => {
                let sign = self.dice.pick(&["(?<=", "(?<!"]);
                let outer = std::mem::replace(&mut self.in_lookbehind, true);
                self.plain(depth.min(1), sign);
                self.in_lookbehind = outer;
            }
            16 => self.plain(depth, "(?>"),
            17 | 18 => {
                let on = self.dice.pick(FLAGS);
                let off = self.dice.pick(&["", "", "-i", "-s", "-x", "-m", "-im"]);
                self.plain(depth, &format!("(?{on}{off}:"));
            }
            _ if self.dice.percent(60) => {
                let off = self.dice.pick(&["-i", "-s", "-x", "-m", "-ix"]);
                self.plain(depth, &format!("(?{off}:"));
            }
            _ if self.dice.percent(30) => {
                let flags = self.dice.pick(ODD_FLAGS);
                self.plain(depth, &format!("(?{flags}:"));
            }
            _ => self.plain(depth, "(?:"),
        }
    }

    fn plain(&mut self, depth: usize, opening: &str) {
        self.out.push_str(opening);
        self.alternatives(depth);
        self.close();
    }

    fn capture(&mut self, depth: usize, opening: &str) {
        let group = self.groups;
        self.plain(depth, opening);
        self.closed.push(group);
    }

    fn close(&mut self) {
        if !self.dice.percent(1) {
            self.out.push(')');
        }
    }
}

/// A pattern with some characters removed, doubled or replaced by pieces of syntax.
pub(super) fn mutated(dice: &mut Dice, pattern: &str) -> String {
    let mut characters: Vec<String> = pattern.chars().map(String::from).collect();
    for _ in 0..=dice.roll(3) {
        let at = dice.roll(characters.len() + 1);
        match dice.roll(10) {
            0..=3 if at < characters.len() => {
                characters.remove(at);
            }
            4 if at < characters.len() => characters.insert(at, characters[at].clone()),
            5 => characters.truncate(at.max(1)),
            6 => characters.insert(at, dice.pick(QUANTIFIERS).to_owned()),
            7 => characters.insert(at, dice.pick(ESCAPES).to_owned()),
            _ => characters.insert(at, dice.pick(PIECES).to_owned()),
        }
    }
    characters.concat()
}

/// Pieces of syntax in random order.
pub(super) fn loose(dice: &mut Dice) -> String {
    (0..=dice.roll(7)).map(|_| dice.pick(PIECES)).collect()
}

/// A short string to search; some share characters with the pattern.
pub(super) fn text(dice: &mut Dice, pattern: &str) -> String {
    let own: Vec<char> = pattern.chars().filter(|character| !"()[]{}?*+|\\".contains(*character)).collect();
    let from_pattern = !own.is_empty() && dice.percent(40);
    let mut text = String::new();
    for _ in 0..dice.roll(9) {
        match from_pattern && dice.percent(60) {
            true => text.push(dice.pick(&own)),
            false if dice.percent(60) => text.push_str(dice.pick(&TEXT_PIECES[..18])),
            false => text.push_str(dice.pick(TEXT_PIECES)),
        }
    }
    text
}

/// A replacement template.
pub(super) fn template(dice: &mut Dice) -> String {
    let mut template = String::new();
    for _ in 0..=dice.roll(3) {
        let from = if dice.percent(90) { TEMPLATES } else { ODD_TEMPLATES };
        template.push_str(dice.pick(from));
    }
    template
}
