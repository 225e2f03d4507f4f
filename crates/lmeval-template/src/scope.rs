//! What a name refers to.
//!
//! Names are settled without walking the tree. While the parser reads the template it keeps one [`Ledger`]: which scope is
//! open, and for every name that a scope mentions itself, one entry, made at the first mention. The tree stores the
//! entry's number. After the last tag the entries are settled in one pass, outermost scopes first, into a table of
//! places that the interpreter looks names up in.
//!
//! The rules are those of "Assignments", "Block Nesting and Scope", "For" and "Macros" in Jinja's template designer
//! documentation, made exact by observation:
//!
//! 1. Loops, `with`, macros, call blocks, captures (`filter`, block `set`) and `autoescape` open a scope. `if` does not.
//!    Blocks and the template itself open one with nothing around it.
//! 2. An assignment belongs to the scope it stands in, wherever in the scope that is. The variable starts with the
//!    value that the name has in the scopes around, each time that the scope is entered; nothing is handed back.
//! 3. A name that a scope only reads is the variable of the nearest scope around that mentions it.
//! 4. Where no scope around mentions the name, it comes from the document, unless the first thing that its scope does
//!    with it, outside of any `if`, is to assign it. Then it is undefined until that happens. This shows in nested
//!    scopes: `{% for i in l %}{{ x }}{% endfor %}{% set x = 1 %}` fails even for a document with an `x`.
//! 5. Macros, call blocks and recursive loops are functions: they run later, and see the variables around as they are
//!    then. Parameters, loop targets and the targets of `with` have no value from outside.
//!
//! A variable's slot is empty until a value is put there. Reading an empty slot falls back on the document where rule 4
//! says so, and is undefined otherwise.

use std::collections::BTreeSet;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::globals;

/// The number of a name in one scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VariableId(u32);

/// The number of a scope; scopes inside of it have higher ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ScopeId(u32);

/// The number of a function: something that runs with a frame of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FunctionId(u32);

impl FunctionId {
    /// The template itself.
    pub(crate) const TEMPLATE: Self = Self(0);
}

/// Names with a meaning of their own inside of some statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Special {
    Caller = 1,
    Keywords = 2,
    Variadic = 4,
    Loop = 8,
    Itself = 16,
    Super = 32,
}

impl Special {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "caller" => Self::Caller,
            "kwargs" => Self::Keywords,
            "varargs" => Self::Variadic,
            "loop" => Self::Loop,
            "self" => Self::Itself,
            "super" => Self::Super,
            _ => return None,
        })
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Caller => "caller",
            Self::Keywords => "kwargs",
            Self::Variadic => "varargs",
            Self::Loop => "loop",
            Self::Itself => "self",
            Self::Super => "super",
        }
    }
}

/// A name in one scope while the template is read.
#[derive(Debug)]
struct Entry {
    name: u32,
    scope: ScopeId,
    assigned: bool,
    /// Set by the statement that opens the scope, never from outside.
    parameter: bool,
    /// Whether the document is asked where nothing around knows the name: rule 4.
    given: bool,
}

#[derive(Debug)]
struct OpenScope {
    around: Option<ScopeId>,
    function: FunctionId,
    /// Whether the scope starts with the empty frame of its function.
    fresh: bool,
    /// How many `if` statements of the scope are open.
    conditions: u32,
}

/// Which special names a body reads before it assigns them.
#[derive(Clone, Copy, Debug, Default)]
struct Watch {
    found: u8,
    hidden: u8,
}

/// The names of a template while it is read.
#[derive(Debug)]
pub(crate) struct Ledger<'s> {
    names: FxHashMap<&'s str, u32>,
    texts: Vec<Arc<str>>,
    entries: Vec<Entry>,
    by_name: FxHashMap<(ScopeId, u32), VariableId>,
    scopes: Vec<OpenScope>,
    /// The function around each function.
    functions: Vec<Option<FunctionId>>,
    current: ScopeId,
    watches: Vec<Watch>,
    /// Whether a read counts in the scope around as well.
    echo: bool,
}

/// What [`Ledger::open_root`] has set aside.
#[derive(Debug)]
pub(crate) struct Suspended {
    scope: ScopeId,
    watches: Vec<Watch>,
}

impl<'s> Ledger<'s> {
    /// An empty ledger with the scope of the template open.
    pub(crate) fn new() -> Self {
        let root = OpenScope { around: None, function: FunctionId(0), fresh: true, conditions: 0 };
        Self {
            names: FxHashMap::default(),
            texts: Vec::new(),
            entries: Vec::new(),
            by_name: FxHashMap::default(),
            scopes: vec![root],
            functions: vec![None],
            current: ScopeId(0),
            watches: Vec::new(),
            echo: false,
        }
    }

    pub(crate) fn current(&self) -> ScopeId {
        self.current
    }

    fn scope(&self, scope: ScopeId) -> &OpenScope {
        &self.scopes[scope.0 as usize]
    }

    /// Whether assignments are visible to blocks: at the template's top level and in its `if` statements.
    pub(crate) fn exports(&self) -> bool {
        self.current == ScopeId(0)
    }

    /// Whether an `if` of the current scope is open.
    pub(crate) fn is_conditional(&self) -> bool {
        self.scope(self.current).conditions > 0
    }

    fn push(&mut self, around: Option<ScopeId>, function: FunctionId, fresh: bool) -> ScopeId {
        let id = ScopeId(u32::try_from(self.scopes.len()).unwrap_or(u32::MAX));
        self.scopes.push(OpenScope { around, function, fresh, conditions: 0 });
        self.current = id;
        id
    }

    fn new_function(&mut self, around: Option<FunctionId>) -> FunctionId {
        let id = FunctionId(u32::try_from(self.functions.len()).unwrap_or(u32::MAX));
        self.functions.push(around);
        id
    }

    /// Opens a scope in the current one.
    pub(crate) fn open(&mut self) -> ScopeId {
        let function = self.scope(self.current).function;
        self.push(Some(self.current), function, false)
    }

    /// Opens the scope of a function that is entered once per call.
    pub(crate) fn open_function(&mut self) -> (ScopeId, FunctionId) {
        let function = self.make_function(None);
        (self.push(Some(self.current), function, true), function)
    }

    /// Makes a function in the current one; a scope without functions that has been closed can move into it.
    pub(crate) fn make_function(&mut self, scope: Option<ScopeId>) -> FunctionId {
        let function = self.new_function(Some(self.scope(self.current).function));
        if let Some(scope) = scope {
            self.scopes[scope.0 as usize].function = function;
        }
        function
    }

    /// Opens a scope in the current one that belongs to this function.
    pub(crate) fn open_in(&mut self, function: FunctionId) -> ScopeId {
        self.push(Some(self.current), function, false)
    }

    /// Opens a scope with nothing around it, as a block has.
    pub(crate) fn open_root(&mut self) -> (ScopeId, FunctionId, Suspended) {
        let suspended = Suspended { scope: self.current, watches: std::mem::take(&mut self.watches) };
        let function = self.new_function(None);
        (self.push(None, function, true), function, suspended)
    }

    /// Goes back into a scope that stands in the current one.
    pub(crate) fn reopen(&mut self, scope: ScopeId) {
        self.current = scope;
    }

    /// Closes the current scope.
    pub(crate) fn close(&mut self) {
        if let Some(around) = self.scope(self.current).around {
            self.current = around;
        }
    }

    /// Closes a scope that [`Ledger::open_root`] has opened.
    pub(crate) fn close_root(&mut self, suspended: Suspended) {
        self.current = suspended.scope;
        self.watches = suspended.watches;
    }

    /// Enters or leaves an `if` of the current scope.
    pub(crate) fn condition(&mut self, enters: bool) {
        let conditions = &mut self.scopes[self.current.0 as usize].conditions;
        *conditions = if enters { *conditions + 1 } else { conditions.saturating_sub(1) };
    }

    /// Lets reads count in the scope around too.
    pub(crate) fn set_echo(&mut self, echo: bool) {
        self.echo = echo;
    }

    /// The shared text of a name.
    pub(crate) fn text(&mut self, name: &'s str) -> Arc<str> {
        let number = self.number(name);
        self.texts[number as usize].clone()
    }

    fn number(&mut self, name: &'s str) -> u32 {
        if let Some(number) = self.names.get(name) {
            return *number;
        }
        let number = u32::try_from(self.texts.len()).unwrap_or(u32::MAX);
        self.names.insert(name, number);
        self.texts.push(name.into());
        number
    }

    /// The entry of a name in a scope, made with this `given` where there is none.
    fn entry(&mut self, scope: ScopeId, name: &'s str, given: bool) -> (VariableId, &mut Entry) {
        let name = self.number(name);
        let entries = &mut self.entries;
        let id = *self.by_name.entry((scope, name)).or_insert_with(|| {
            entries.push(Entry { name, scope, assigned: false, parameter: false, given });
            VariableId(u32::try_from(entries.len() - 1).unwrap_or(u32::MAX))
        });
        (id, &mut self.entries[id.0 as usize])
    }

    /// Notes that the current scope reads a name.
    pub(crate) fn read(&mut self, name: &'s str) -> VariableId {
        if let Some(special) = Special::named(name) {
            self.notice(special);
        }
        if self.echo
            && let Some(around) = self.scope(self.current).around
        {
            self.entry(around, name, true);
        }
        self.entry(self.current, name, true).0
    }

    /// Notes that the current scope assigns a name.
    pub(crate) fn assign(&mut self, name: &'s str) -> VariableId {
        let given = self.is_conditional();
        let (id, entry) = self.entry(self.current, name, given);
        entry.assigned = true;
        id
    }

    /// Notes that the current scope starts with a value for a name.
    pub(crate) fn parameter(&mut self, name: &'s str) -> VariableId {
        let (id, entry) = self.entry(self.current, name, false);
        entry.assigned = true;
        entry.parameter = true;
        id
    }

    /// Starts to watch for special names.
    pub(crate) fn watch(&mut self) {
        self.watches.push(Watch::default());
    }

    /// Ends the innermost watch.
    pub(crate) fn end_watch(&mut self) -> Watched {
        Watched(self.watches.pop().unwrap_or_default().found)
    }

    /// Notes a use of a special name for everything around.
    pub(crate) fn notice(&mut self, special: Special) {
        for watch in &mut self.watches {
            watch.found |= special as u8 & !watch.hidden;
        }
    }

    /// Notes that a name is now an ordinary variable: later reads of it are not uses of the special name.
    pub(crate) fn hide(&mut self, name: &str) {
        if let Some(special) = Special::named(name) {
            for watch in &mut self.watches {
                watch.hidden |= special as u8;
            }
        }
    }

    /// Declares a special name in the current scope where it was seen.
    pub(crate) fn declare(&mut self, watched: Watched, special: Special) -> Option<VariableId> {
        watched.saw(special).then(|| self.parameter(special.name()))
    }

    /// Settles every name.
    pub(crate) fn settle(self, chat: bool) -> Variables {
        let mut order: Vec<u32> = (0..u32::try_from(self.entries.len()).unwrap_or(u32::MAX)).collect();
        order.sort_by_key(|id| self.entries[*id as usize].scope.0);
        let depths = self.function_depths();
        let mut frames = vec![0; self.functions.len()];
        let mut scopes: Vec<Scope> = self
            .scopes
            .iter()
            .map(|scope| Scope {
                around: scope.around,
                depth: depths[scope.function.0 as usize],
                starts: Vec::new(),
                assigned: Vec::new(),
            })
            .collect();
        let unset = Place { up: 0, given: false, index: 0 };
        let mut places = vec![unset; self.entries.len()];
        let mut undeclared = BTreeSet::new();
        for id in order {
            let entry = &self.entries[id as usize];
            let scope = self.scope(entry.scope);
            let outer = self.mentioned_around(scope.around, entry.name);
            // Outer scopes are settled already.
            let outer: Option<Place> = outer.map(|(outer, outer_scope)| {
                let place = places[outer.0 as usize];
                let up = depths[scope.function.0 as usize] - scopes[outer_scope.0 as usize].depth;
                Place { up: place.up + up, ..place }
            });
            if let (Some(outer), false) = (outer, entry.assigned) {
                places[id as usize] = outer;
                continue;
            }
            let given = outer.is_none() && entry.given && !entry.parameter;
            let frame = &mut frames[scope.function.0 as usize];
            let place = Place { up: 0, given, index: *frame };
            *frame += 1;
            places[id as usize] = place;
            if given {
                let name = &self.texts[entry.name as usize];
                if globals::lookup(name, chat).is_none() {
                    undeclared.insert(name.to_string());
                }
            }
            if !entry.assigned {
                continue;
            }
            let settled = &mut scopes[entry.scope.0 as usize];
            settled.assigned.push(VariableId(id));
            let starts_empty = outer.is_none() && scope.fresh;
            if !entry.parameter && !starts_empty {
                settled.starts.push(Start { variable: VariableId(id), from: outer });
            }
        }
        let texts = &self.texts;
        let variables = self.entries.iter().zip(places);
        let variables =
            variables.map(|(entry, place)| Variable { name: texts[entry.name as usize].clone(), place });
        Variables { by_id: variables.collect(), scopes, frames, undeclared }
    }

    fn mentioned_around(&self, mut scope: Option<ScopeId>, name: u32) -> Option<(VariableId, ScopeId)> {
        while let Some(id) = scope {
            if let Some(variable) = self.by_name.get(&(id, name)) {
                return Some((*variable, id));
            }
            scope = self.scope(id).around;
        }
        None
    }

    /// How many functions are around each function.
    fn function_depths(&self) -> Vec<u32> {
        let mut depths: Vec<u32> = Vec::with_capacity(self.functions.len());
        for around in &self.functions {
            depths.push(around.map_or(0, |around| depths[around.0 as usize] + 1));
        }
        depths
    }
}

/// The special names that a body reads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Watched(u8);

impl Watched {
    pub(crate) fn saw(self, special: Special) -> bool {
        self.0 & special as u8 != 0
    }
}

/// Where a variable lives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// How many functions further out than the one that uses it.
    pub(crate) up: u32,
    /// The slot in that function's frame.
    pub(crate) index: u32,
    /// Whether the document is asked where the slot is empty.
    pub(crate) given: bool,
}

#[derive(Debug)]
pub(crate) struct Variable {
    pub(crate) name: Arc<str>,
    pub(crate) place: Place,
}

/// What happens to a slot when its scope is entered: it becomes a copy of a variable around, or empty.
#[derive(Debug)]
pub(crate) struct Start {
    pub(crate) variable: VariableId,
    pub(crate) from: Option<Place>,
}

#[derive(Debug)]
pub(crate) struct Scope {
    pub(crate) around: Option<ScopeId>,
    /// How many functions are around the scope's own.
    pub(crate) depth: u32,
    pub(crate) starts: Vec<Start>,
    /// The variables that belong to the scope.
    pub(crate) assigned: Vec<VariableId>,
}

/// The settled names of a template.
#[derive(Debug)]
pub(crate) struct Variables {
    by_id: Vec<Variable>,
    scopes: Vec<Scope>,
    frames: Vec<u32>,
    /// The names that the document is expected to have.
    pub(crate) undeclared: BTreeSet<String>,
}

impl Variables {
    pub(crate) fn get(&self, id: VariableId) -> &Variable {
        &self.by_id[id.0 as usize]
    }

    pub(crate) fn scope(&self, id: ScopeId) -> &Scope {
        &self.scopes[id.0 as usize]
    }

    /// The number of slots in a function's frame.
    pub(crate) fn frame_size(&self, id: FunctionId) -> usize {
        self.frames[id.0 as usize] as usize
    }
}
