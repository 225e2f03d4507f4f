//! The names of scopes, and what statements make of them.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::Resolver;
use crate::ast::{Expr, Statement, Target};
use crate::names::{self, Visit};

/// A variable: the nesting of its function and its index there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Place {
    pub(super) function: u16,
    pub(super) index: u16,
}

#[derive(Clone, Debug)]
pub(super) enum Origin {
    Parameter,
    Resolve(Arc<str>),
    Alias(Place),
    Undefined,
}

/// The names of one scope.
#[derive(Clone)]
pub(super) struct Symbols<'p> {
    pub(super) parent: Option<&'p Symbols<'p>>,
    pub(super) identity: usize,
    pub(super) references: FxHashMap<Arc<str>, Place>,
    pub(super) origins: FxHashMap<Place, Origin>,
    pub(super) order: Vec<Place>,
    pub(super) stores: FxHashSet<Arc<str>>,
}

impl Symbols<'_> {
    pub(super) fn find(&self, name: &str) -> Option<Place> {
        self.references.get(name).copied().or_else(|| self.parent.and_then(|parent| parent.find(name)))
    }

    pub(super) fn set_origin(&mut self, place: Place, origin: Origin) {
        if self.origins.insert(place, origin).is_none() {
            self.order.push(place);
        }
    }
}

impl Resolver {
    pub(super) fn symbols<'p>(&mut self, parent: Option<&'p Symbols<'p>>) -> Symbols<'p> {
        self.scopes += 1;
        Symbols {
            parent,
            identity: self.scopes,
            references: FxHashMap::default(),
            origins: FxHashMap::default(),
            order: Vec::new(),
            stores: FxHashSet::default(),
        }
    }

    pub(super) fn define(&mut self, symbols: &mut Symbols<'_>, name: &Arc<str>, origin: Origin) -> Place {
        let function = self.functions.len() - 1;
        let counter = &mut self.functions[function];
        let place = *self.slots.entry((symbols.identity, name.clone())).or_insert_with(|| {
            let index = *counter as u16;
            *counter += 1;
            Place { function: function as u16, index }
        });
        symbols.references.insert(name.clone(), place);
        symbols.set_origin(place, origin);
        place
    }

    pub(super) fn declare(&mut self, symbols: &mut Symbols<'_>, name: &Arc<str>) -> Place {
        symbols.stores.insert(name.clone());
        self.define(symbols, name, Origin::Parameter)
    }

    pub(super) fn load(&mut self, symbols: &mut Symbols<'_>, name: &Arc<str>) {
        if symbols.find(name).is_none() {
            self.define(symbols, name, Origin::Resolve(name.clone()));
        }
    }

    pub(super) fn store(&mut self, symbols: &mut Symbols<'_>, name: &Arc<str>) {
        symbols.stores.insert(name.clone());
        if symbols.references.contains_key(name) {
            return;
        }
        let outer = symbols.parent.and_then(|parent| parent.find(name));
        self.define(symbols, name, outer.map_or(Origin::Undefined, Origin::Alias));
    }

    /// Joins what the branches of a condition assign into the scope around them.
    pub(super) fn join_branches(symbols: &mut Symbols<'_>, branches: [Symbols<'_>; 3]) {
        let mut counts: FxHashMap<Arc<str>, usize> = FxHashMap::default();
        for branch in &branches {
            for name in &branch.stores {
                if !symbols.stores.contains(name) {
                    *counts.entry(name.clone()).or_default() += 1;
                }
            }
        }
        for branch in branches {
            symbols.references.extend(branch.references);
            for place in branch.order {
                if let Some(origin) = branch.origins.get(&place) {
                    symbols.set_origin(place, origin.clone());
                }
            }
            symbols.stores.extend(branch.stores);
        }
        for (name, count) in counts {
            if count == 3 {
                continue;
            }
            let Some(place) = symbols.find(&name) else {
                continue;
            };
            let outer = symbols.parent.and_then(|parent| parent.find(&name));
            symbols.set_origin(place, outer.map_or_else(|| Origin::Resolve(name), Origin::Alias));
        }
    }

    pub(super) fn analyze_expression(&mut self, symbols: &mut Symbols<'_>, expression: &Expr) {
        names::visit_expression(expression, &mut |visit| {
            if let Visit::Load(name) = visit {
                self.load(symbols, name);
            }
            true
        });
    }

    pub(super) fn analyze_target(&mut self, symbols: &mut Symbols<'_>, target: &Target, parameter: bool) {
        match target {
            Target::Name { name, .. } if parameter => {
                self.declare(symbols, name);
            }
            Target::Name { name, .. } => self.store(symbols, name),
            Target::Attribute { name, .. } => self.load(symbols, name),
            Target::Tuple(items) => {
                for item in items {
                    self.analyze_target(symbols, item, parameter);
                }
            }
        }
    }

    pub(super) fn analyze_statements(&mut self, symbols: &mut Symbols<'_>, statements: &[Statement]) {
        for statement in statements {
            self.analyze_statement(symbols, statement);
        }
    }

    pub(super) fn analyze_statement(&mut self, symbols: &mut Symbols<'_>, statement: &Statement) {
        match statement {
            Statement::Output(expression) => self.analyze_expression(symbols, expression),
            Statement::For(node) => self.analyze_expression(symbols, &node.iterable),
            Statement::If(node) => self.analyze_if(symbols, &node.branches, &node.otherwise),
            Statement::Set { target, value, .. } => {
                self.analyze_expression(symbols, value);
                self.analyze_target(symbols, target, false);
            }
            Statement::SetBlock(node) => self.analyze_target(symbols, &node.target, false),
            Statement::Macro { definition, .. } => self.store(symbols, &definition.name),
            Statement::CallBlock(node) => {
                if let Some(call) = &node.call {
                    self.analyze_expression(symbols, call);
                }
            }
            Statement::FilterBlock(node) => self.analyze_expression(symbols, &node.filter),
            Statement::With(node) => {
                for (_, value) in &node.bindings {
                    self.analyze_expression(symbols, value);
                }
            }
            // The switch is evaluated in the scope around the block.
            Statement::Autoescape(node) => self.analyze_expression(symbols, &node.enabled),
            Statement::Data(_)
            | Statement::Block { .. }
            | Statement::Unsupported(..)
            | Statement::Break
            | Statement::Continue => {}
        }
    }

    pub(super) fn analyze_if(
        &mut self,
        symbols: &mut Symbols<'_>,
        branches: &[(Expr, Vec<Statement>)],
        otherwise: &[Statement],
    ) {
        let Some(((test, body), further)) = branches.split_first() else {
            return;
        };
        self.analyze_expression(symbols, test);
        let mut then = symbols.clone();
        self.analyze_statements(&mut then, body);
        let mut alternatives = symbols.clone();
        for branch in further {
            self.analyze_if(&mut alternatives, std::slice::from_ref(branch), &[]);
        }
        let mut last = symbols.clone();
        self.analyze_statements(&mut last, otherwise);
        Self::join_branches(symbols, [then, alternatives, last]);
    }
}
