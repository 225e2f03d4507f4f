//! What a template knows at a place: which names are defined, and of what kind.
//!
//! The generator keeps this while it writes statements, so that an expression can read what earlier statements have assigned
//! without guessing. A name that only one branch assigns, or that branches assign differently, is left alone afterwards,
//! except where a template may ask for it safely (`x is defined`, `x|default('-')`).

use std::collections::BTreeMap;

use super::Dice;

/// What an expression evaluates to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Integer,
    /// An integer or a float.
    Number,
    Truth,
    /// Lists by what they contain: strings, numbers, dictionaries with the key `n`, anything.
    Texts,
    Numbers,
    Records,
    List,
    /// A dictionary whose keys are strings.
    Dict,
    Any,
}

impl Kind {
    /// Whether a value of this kind can stand where `wanted` is wanted.
    fn serves(self, wanted: Self) -> bool {
        match wanted {
            Self::Any | Self::Truth => true,
            Self::Number => matches!(self, Self::Number | Self::Integer),
            Self::List => matches!(self, Self::List | Self::Texts | Self::Numbers | Self::Records),
            wanted => self == wanted,
        }
    }
}

/// The names that templates assign and read; some are variables of the document too.
pub(super) const NAMES: [&str; 10] = ["s", "n", "l", "d", "x", "y", "i", "j", "k", "m"];

/// Names with their kinds; without one where the name may be undefined.
pub(super) type Frame = BTreeMap<&'static str, Option<Kind>>;

#[derive(Clone)]
pub(super) struct Scope {
    frames: Vec<Frame>,
    pub(super) in_loop: bool,
    pub(super) in_macro: bool,
    /// The kinds of the arguments that `caller` takes, where there is one.
    pub(super) caller: Option<Vec<Kind>>,
    /// Names and kinds are ignored now and then.
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

    /// What a block sees: the document and what the top level has assigned.
    pub(super) fn of_block(&self) -> Self {
        let frames = vec![self.frames[0].clone(), Frame::new()];
        Self { frames, in_loop: false, in_macro: false, caller: None, wild: self.wild }
    }

    pub(super) fn assign(&mut self, name: &'static str, kind: Kind) {
        self.frames.last_mut().unwrap().insert(name, Some(kind));
    }

    /// Leaves a name alone from here on.
    pub(super) fn forget(&mut self, name: &'static str) {
        self.frames.last_mut().unwrap().insert(name, None);
    }

    /// Joins the scopes that the branches of a condition end with.
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

    /// A defined name of a kind; those of inner scopes are more likely.
    pub(super) fn name(&self, dice: &mut Dice, kind: Kind) -> Option<&'static str> {
        let of = |frame: &Frame| -> Vec<&'static str> {
            let serves = |name: &&'static str| self.kind(name).is_some_and(|known| known.serves(kind));
            frame.keys().copied().filter(serves).collect()
        };
        let assigned: Vec<&'static str> = self.frames[1..].iter().flat_map(of).collect();
        let names = if assigned.is_empty() || dice.percent(40) { of(&self.frames[0]) } else { assigned };
        (!names.is_empty()).then(|| names[dice.below(names.len())])
    }
}
