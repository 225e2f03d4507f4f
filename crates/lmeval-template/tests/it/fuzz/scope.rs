//! The names defined at a point of a template, and their kinds.
//!
//! The generator tracks this while it writes statements, so that expressions can read what earlier statements
//! assigned. A name that only one branch assigns, or that branches assign differently, is not used
//! afterwards, except in ways that tolerate undefined values (`x is defined`, `x|default('-')`).

use std::collections::BTreeMap;

use lmeval_testkit::Dice;

/// The kind of value of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Integer,
    /// An integer or a float.
    Number,
    Truth,
    /// Lists by element: strings, numbers, dictionaries with the key `n`, anything.
    Texts,
    Numbers,
    Records,
    List,
    /// A dictionary with string keys.
    Dict,
    Any,
}

impl Kind {
    /// Whether a value of this kind is acceptable as `wanted`.
    fn serves(self, wanted: Self) -> bool {
        match wanted {
            Self::Any | Self::Truth => true,
            Self::Number => matches!(self, Self::Number | Self::Integer),
            Self::List => matches!(self, Self::List | Self::Texts | Self::Numbers | Self::Records),
            wanted => self == wanted,
        }
    }
}

/// The names that templates assign and read; some are document variables too.
pub(super) const NAMES: [&str; 10] = ["s", "n", "l", "d", "x", "y", "i", "j", "k", "m"];

/// Names with their kinds; `None` if the name may be undefined.
pub(super) type Frame = BTreeMap<&'static str, Option<Kind>>;

#[derive(Clone)]
pub(super) struct Scope {
    frames: Vec<Frame>,
    pub(super) in_loop: bool,
    pub(super) in_macro: bool,
    /// The argument kinds of `caller`, if there is one.
    pub(super) caller: Option<Vec<Kind>>,
    /// Whether names and kinds are sometimes ignored.
    pub(super) wild: bool,
}

impl Scope {
    pub(super) fn of_document(wild: bool) -> Self {
        let document = [
            ("s", Kind::Text),
            ("t", Kind::Text),
            ("e", Kind::Text),
            ("n", Kind::Integer),
            ("f", Kind::Number),
            ("b", Kind::Truth),
            ("z", Kind::Any),
            ("l", Kind::Texts),
            ("m", Kind::Numbers),
            ("ll", Kind::Records),
            ("d", Kind::Dict),
        ];
        let frame = document.into_iter().map(|(name, kind)| (name, Some(kind))).collect();
        Self { frames: vec![frame], in_loop: false, in_macro: false, caller: None, wild }
    }

    /// The scope of a body inside this one.
    pub(super) fn inner(&self) -> Self {
        let mut inner = self.clone();
        inner.frames.push(Frame::new());
        inner
    }

    /// The scope of a block: the document and the top-level assignments.
    pub(super) fn of_block(&self) -> Self {
        let frames = vec![self.frames[0].clone(), Frame::new()];
        Self { frames, in_loop: false, in_macro: false, caller: None, wild: self.wild }
    }

    pub(super) fn assign(&mut self, name: &'static str, kind: Kind) {
        self.frames.last_mut().unwrap().insert(name, Some(kind));
    }

    /// Stops using a name.
    pub(super) fn forget(&mut self, name: &'static str) {
        self.frames.last_mut().unwrap().insert(name, None);
    }

    /// Joins the scopes at the ends of a condition's branches.
    pub(super) fn join(&mut self, branches: &[Self]) {
        let mut changed: Vec<&'static str> = Vec::new();
        for branch in branches {
            changed.extend(branch.frames.last().unwrap().keys());
        }
        for name in changed {
            let kind = branches[0].kind(name);
            let agreed = branches.iter().all(|branch| branch.kind(name) == kind);
            self.frames.last_mut().unwrap().insert(name, kind.filter(|_| agreed));
        }
    }

    fn kind(&self, name: &str) -> Option<Kind> {
        self.frames.iter().rev().find_map(|frame| frame.get(name)).copied().flatten()
    }

    /// A defined name of a kind; inner scopes are more likely.
    pub(super) fn name(&self, dice: &mut Dice, kind: Kind) -> Option<&'static str> {
        let of = |frame: &Frame| -> Vec<&'static str> {
            let serves = |name: &&'static str| self.kind(name).is_some_and(|known| known.serves(kind));
            frame.keys().copied().filter(serves).collect()
        };
        let assigned: Vec<&'static str> = self.frames[1..].iter().flat_map(of).collect();
        let names = if assigned.is_empty() || dice.percent(40) { of(&self.frames[0]) } else { assigned };
        (!names.is_empty()).then(|| names[dice.roll(names.len())])
    }
}
