//! Name resolution.
//!
//! Names are resolved without walking the tree. While parsing, a [`ScopeBuilder`] tracks the open scope and
//! one entry per name that a scope itself mentions, created at the first mention. The tree stores the entry's
//! index. After the last tag the entries are resolved in one pass, outermost scopes first, into a table of
//! variable slots for the interpreter.
//!
//! The rules are those of "Assignments", "Block Nesting and Scope", "For" and "Macros" in Jinja's template
//! designer documentation, made precise by observation:
//!
//! 1. Loops, `with`, macros, call blocks, captures (`filter`, block `set`) and `autoescape` open a scope.
//!    `if` does not. Blocks and the template itself open a root scope.
//! 2. An assignment belongs to the scope that contains it, wherever in the scope it is. Each time the scope
//!    is entered, the variable starts with the value of the same name in the enclosing scopes; nothing is
//!    written back.
//! 3. A name that a scope only reads is the variable of the nearest enclosing scope that mentions it.
//! 4. If no enclosing scope mentions the name, it comes from the document, unless its scope first assigns it,
//!    outside of any `if`. Then it is undefined until assigned. This shows in nested scopes:
//!    `{% for i in l %}{{ x }}{% endfor %}{% set x = 1 %}` fails even for a document with an `x`.
//! 5. Macros, call blocks and recursive loops are functions: they run later, and see the enclosing variables
//!    as they are at that time. Parameters, loop targets and the targets of `with` never start with an outer
//!    value.
//!
//! A variable's slot is empty until it is assigned. Reading an empty slot falls back to the document under
//! rule 4, and is undefined otherwise.

use std::collections::BTreeSet;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::globals;

/// Identifies a name within one scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VariableId(u32);

/// Identifies a scope; inner scopes have higher ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ScopeId(u32);

/// Identifies a function: anything that runs in its own frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FunctionId(u32);

impl FunctionId {
    pub(crate) const TEMPLATE: Self = Self(0);
}

/// Names with a special meaning inside of some statements.
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

/// A name in one scope, while parsing.
#[derive(Debug)]
struct Entry {
    name: u32,
    scope: ScopeId,
    assigned: bool,
    /// Set by the statement that opens the scope, never from outside.
    parameter: bool,
    /// Whether rule 4 makes the document the source if no enclosing scope knows the name.
    from_document: bool,
}

#[derive(Debug)]
struct OpenScope {
    around: Option<ScopeId>,
    function: FunctionId,
    /// Whether the scope starts with its function's empty frame.
    fresh: bool,
    /// The number of open `if` statements in the scope.
    conditions: u32,
}

/// The special names that a body reads before assigning them.
#[derive(Clone, Copy, Debug, Default)]
struct Watch {
    found: u8,
    hidden: u8,
}

/// Collects the names of a template while it is parsed.
#[derive(Debug)]
pub(crate) struct ScopeBuilder<'s> {
    names: FxHashMap<&'s str, u32>,
    strings: Vec<Arc<str>>,
    entries: Vec<Entry>,
    by_name: FxHashMap<(ScopeId, u32), VariableId>,
    scopes: Vec<OpenScope>,
    /// The enclosing function of each function.
    functions: Vec<Option<FunctionId>>,
    current: ScopeId,
    watches: Vec<Watch>,
    /// Whether reads are recorded in the enclosing scope as well.
    echo: bool,
}

/// The state saved by [`ScopeBuilder::open_root`].
#[derive(Debug)]
pub(crate) struct Suspended {
    scope: ScopeId,
    watches: Vec<Watch>,
}

impl<'s> ScopeBuilder<'s> {
    /// Starts with the template's own scope open.
    pub(crate) fn new() -> Self {
        let root = OpenScope { around: None, function: FunctionId(0), fresh: true, conditions: 0 };
        Self {
            names: FxHashMap::default(),
            strings: Vec::new(),
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

    /// Opens a scope inside the current one.
    pub(crate) fn open(&mut self) -> ScopeId {
        let function = self.scope(self.current).function;
        self.push(Some(self.current), function, false)
    }

    /// Opens the scope of a function that is entered once per call.
    pub(crate) fn open_function(&mut self) -> (ScopeId, FunctionId) {
        let function = self.make_function(None);
        (self.push(Some(self.current), function, true), function)
    }

    /// Creates a function inside the current one; a closed scope without functions can be moved into it.
    pub(crate) fn make_function(&mut self, scope: Option<ScopeId>) -> FunctionId {
        let function = self.new_function(Some(self.scope(self.current).function));
        if let Some(scope) = scope {
            self.scopes[scope.0 as usize].function = function;
        }
        function
    }

    /// Opens a scope of a function inside the current scope.
    pub(crate) fn open_in(&mut self, function: FunctionId) -> ScopeId {
        self.push(Some(self.current), function, false)
    }

    /// Opens a root scope, as for a block.
    pub(crate) fn open_root(&mut self) -> (ScopeId, FunctionId, Suspended) {
        let suspended = Suspended { scope: self.current, watches: std::mem::take(&mut self.watches) };
        let function = self.new_function(None);
        (self.push(None, function, true), function, suspended)
    }

    /// Reopens a scope inside the current one.
    pub(crate) fn reopen(&mut self, scope: ScopeId) {
        self.current = scope;
    }

    pub(crate) fn close(&mut self) {
        if let Some(around) = self.scope(self.current).around {
            self.current = around;
        }
    }

    /// Closes a scope opened by [`ScopeBuilder::open_root`].
    pub(crate) fn close_root(&mut self, suspended: Suspended) {
        self.current = suspended.scope;
        self.watches = suspended.watches;
    }

    /// Enters or leaves an `if` of the current scope.
    pub(crate) fn condition(&mut self, enters: bool) {
        let conditions = &mut self.scopes[self.current.0 as usize].conditions;
        *conditions = if enters { *conditions + 1 } else { conditions.saturating_sub(1) };
    }

    /// Records reads in the enclosing scope too.
    pub(crate) fn set_echo(&mut self, echo: bool) {
        self.echo = echo;
    }

    /// Interns a name.
    pub(crate) fn intern(&mut self, name: &'s str) -> Arc<str> {
        let number = self.name_index(name);
        self.strings[number as usize].clone()
    }

    fn name_index(&mut self, name: &'s str) -> u32 {
        if let Some(number) = self.names.get(name) {
            return *number;
        }
        let number = u32::try_from(self.strings.len()).unwrap_or(u32::MAX);
        self.names.insert(name, number);
        self.strings.push(name.into());
        number
    }

    /// The entry of a name in a scope, created with this `from_document` flag if missing.
    fn entry(&mut self, scope: ScopeId, name: &'s str, from_document: bool) -> (VariableId, &mut Entry) {
        let name = self.name_index(name);
        let entries = &mut self.entries;
        let id = *self.by_name.entry((scope, name)).or_insert_with(|| {
            entries.push(Entry { name, scope, assigned: false, parameter: false, from_document });
            VariableId(u32::try_from(entries.len() - 1).unwrap_or(u32::MAX))
        });
        (id, &mut self.entries[id.0 as usize])
    }

    /// Records that the current scope reads a name.
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

    /// Records that the current scope assigns a name.
    pub(crate) fn assign(&mut self, name: &'s str) -> VariableId {
        let from_document = self.is_conditional();
        let (id, entry) = self.entry(self.current, name, from_document);
        entry.assigned = true;
        id
    }

    /// Records that the current scope starts with a value for a name.
    pub(crate) fn parameter(&mut self, name: &'s str) -> VariableId {
        let (id, entry) = self.entry(self.current, name, false);
        entry.assigned = true;
        entry.parameter = true;
        id
    }

    /// Starts watching for special names.
    pub(crate) fn watch(&mut self) {
        self.watches.push(Watch::default());
    }

    /// Ends the innermost watch.
    pub(crate) fn end_watch(&mut self) -> Watched {
        Watched(self.watches.pop().unwrap_or_default().found)
    }

    /// Records a use of a special name in all enclosing bodies.
    pub(crate) fn notice(&mut self, special: Special) {
        for watch in &mut self.watches {
            watch.found |= special as u8 & !watch.hidden;
        }
    }

    /// Records that a name is now an ordinary variable: later reads are not uses of the special name.
    pub(crate) fn hide(&mut self, name: &str) {
        if let Some(special) = Special::named(name) {
            for watch in &mut self.watches {
                watch.hidden |= special as u8;
            }
        }
    }

    /// Declares a special name in the current scope if it was used.
    pub(crate) fn declare(&mut self, watched: Watched, special: Special) -> Option<VariableId> {
        watched.saw(special).then(|| self.parameter(special.name()))
    }

    /// Resolves all names.
    pub(crate) fn resolve(self, chat: bool) -> Variables {
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
        let unset = VariableSlot { up: 0, from_document: false, index: 0 };
        let mut slots = vec![unset; self.entries.len()];
        let mut undeclared = BTreeSet::new();
        for id in order {
            let entry = &self.entries[id as usize];
            let scope = self.scope(entry.scope);
            let outer = self.mentioned_around(scope.around, entry.name);
            // Outer scopes are already resolved.
            let outer: Option<VariableSlot> = outer.map(|(outer, outer_scope)| {
                let slot = slots[outer.0 as usize];
                let up = depths[scope.function.0 as usize] - scopes[outer_scope.0 as usize].depth;
                VariableSlot { up: slot.up + up, ..slot }
            });
            if let (Some(outer), false) = (outer, entry.assigned) {
                slots[id as usize] = outer;
                continue;
            }
            let from_document = outer.is_none() && entry.from_document && !entry.parameter;
            let frame = &mut frames[scope.function.0 as usize];
            let slot = VariableSlot { up: 0, from_document, index: *frame };
            *frame += 1;
            slots[id as usize] = slot;
            if from_document {
                let name = &self.strings[entry.name as usize];
                if globals::lookup(name, chat).is_none() {
                    undeclared.insert(name.to_string());
                }
            }
            if !entry.assigned {
                continue;
            }
            let resolved = &mut scopes[entry.scope.0 as usize];
            resolved.assigned.push(VariableId(id));
            let starts_empty = outer.is_none() && scope.fresh;
            if !entry.parameter && !starts_empty {
                resolved.starts.push(Start { variable: VariableId(id), from: outer });
            }
        }
        let strings = &self.strings;
        let variables = self.entries.iter().zip(slots);
        let variables =
            variables.map(|(entry, slot)| Variable { name: strings[entry.name as usize].clone(), slot });
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

    /// The nesting depth of each function.
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

/// Where a variable is stored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VariableSlot {
    /// How many frames outward from the function that uses it.
    pub(crate) up: u32,
    /// The slot in that frame.
    pub(crate) index: u32,
    /// Whether an empty slot falls back to the document.
    pub(crate) from_document: bool,
}

#[derive(Debug)]
pub(crate) struct Variable {
    pub(crate) name: Arc<str>,
    pub(crate) slot: VariableSlot,
}

/// Initializes a slot when its scope is entered: with a copy of an outer variable, or as empty.
#[derive(Debug)]
pub(crate) struct Start {
    pub(crate) variable: VariableId,
    pub(crate) from: Option<VariableSlot>,
}

#[derive(Debug)]
pub(crate) struct Scope {
    pub(crate) around: Option<ScopeId>,
    /// The number of functions enclosing the scope's own.
    pub(crate) depth: u32,
    pub(crate) starts: Vec<Start>,
    /// The variables owned by the scope.
    pub(crate) assigned: Vec<VariableId>,
}

/// The resolved names of a template.
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

    pub(crate) fn frame_size(&self, id: FunctionId) -> usize {
        self.frames[id.0 as usize] as usize
    }
}
