//! Scopes: which variable a name means, decided when the template is compiled.
//!
//! Loops, macros, `with`, block assignments and blocks open scopes; `if` does not. A name that a scope assigns is a
//! variable of that scope from the scope's start on, even where the assignment is further down, and starts with
//! the value that the enclosing scope has for it. All other names are looked up once, when the scope that
//! mentions them is entered.

mod symbols;

use std::collections::BTreeSet;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::ast::{Arguments, Block, Expr, ExprKind, For, If, Load, Loads, Macro, Slot, Statement, Target};
use crate::error::{Error, ErrorKind, nearest};
use crate::names;
use crate::parser::Parsed;
use crate::{filters, globals, predicates};

use symbols::{Origin, Place, Symbols};

/// A template with every name resolved.
#[derive(Debug)]
pub(crate) struct Resolved {
    pub(crate) body: Vec<Statement>,
    pub(crate) blocks: Vec<Block>,
    pub(crate) loads: Loads,
    pub(crate) self_slot: Option<Slot>,
    pub(crate) slots: usize,
    pub(crate) undeclared: BTreeSet<String>,
    /// Unknown filters and tests in conditional code, which only fail when they are reached.
    pub(crate) unresolved: BTreeSet<String>,
}

/// Resolves the names of a parsed template.
pub(crate) fn resolve(parsed: Parsed, chat: bool) -> Result<Resolved, Error> {
    let Parsed { mut body, mut blocks } = parsed;
    let mut resolver = Resolver {
        slots: FxHashMap::default(),
        functions: vec![0],
        scopes: 0,
        undeclared: BTreeSet::new(),
        unresolved: BTreeSet::new(),
        has_blocks: !blocks.is_empty(),
        chat,
        outer: FxHashMap::default(),
    };
    let mut root = resolver.symbols(None);
    let mut self_slot = None;
    if names::finds(&body, "self") {
        self_slot = Some(resolver.declare(&mut root, &"self".into()));
    }
    resolver.analyze_statements(&mut root, &body);
    let context = Context { toplevel: true, soft: false };
    resolver.statements(&mut body, &root, context)?;
    let self_slot = self_slot.map(|slot| resolver.address(slot));
    let loads = resolver.loads(&root);
    let slots = resolver.functions[0];
    for (index, block) in blocks.iter_mut().enumerate() {
        resolver.functions = vec![0];
        let mut symbols = resolver.symbols(None);
        let mut block_self = None;
        if names::finds(&block.body, "self") {
            block_self = Some(resolver.declare(&mut symbols, &"self".into()));
        }
        resolver.analyze_statements(&mut symbols, &block.body);
        resolver.statements(&mut block.body, &symbols, Context::default())?;
        block.self_slot = block_self.map(|slot| resolver.address(slot));
        block.loads = resolver.loads(&symbols);
        block.slots = resolver.functions[0];
        block.outer = resolver.outer.remove(&index).unwrap_or_default();
    }
    let Resolver { undeclared, unresolved, .. } = resolver;
    Ok(Resolved { body, blocks, loads, self_slot, slots, undeclared, unresolved })
}

#[derive(Clone, Copy, Default)]
struct Context {
    /// Assignments here are visible to blocks.
    toplevel: bool,
    /// Inside of a condition, where unknown filters only fail when they are reached.
    soft: bool,
}

struct Resolver {
    slots: FxHashMap<(usize, Arc<str>), Place>,
    /// Slots used so far by each function around the current place.
    functions: Vec<usize>,
    scopes: usize,
    undeclared: BTreeSet<String>,
    unresolved: BTreeSet<String>,
    has_blocks: bool,
    chat: bool,
    outer: FxHashMap<usize, Vec<(Arc<str>, Slot)>>,
}

impl Resolver {
    fn address(&self, place: Place) -> Slot {
        Slot { up: (self.functions.len() - 1) as u16 - place.function, index: place.index }
    }

    fn slot(&self, symbols: &Symbols<'_>, name: &str) -> Slot {
        symbols.find(name).map(|place| self.address(place)).unwrap_or_default()
    }

    fn loads(&mut self, symbols: &Symbols<'_>) -> Loads {
        let mut loads = Vec::new();
        for place in &symbols.order {
            let load = match &symbols.origins[place] {
                Origin::Parameter => continue,
                Origin::Resolve(name) => {
                    if globals::lookup(name, self.chat).is_none() {
                        self.undeclared.insert(name.to_string());
                    }
                    Load::Resolve(name.clone())
                }
                Origin::Alias(outer) => Load::Alias(self.address(*outer)),
                Origin::Undefined => Load::Undefined,
            };
            loads.push((place.index, load));
        }
        loads
    }

    fn statements(
        &mut self,
        statements: &mut [Statement],
        symbols: &Symbols<'_>,
        context: Context,
    ) -> Result<(), Error> {
        for statement in statements {
            self.statement(statement, symbols, context)?;
        }
        Ok(())
    }

    fn statement(
        &mut self,
        statement: &mut Statement,
        symbols: &Symbols<'_>,
        context: Context,
    ) -> Result<(), Error> {
        let export = context.toplevel && self.has_blocks;
        let inner = Context::default();
        match statement {
            Statement::Output(expression) => self.expression(expression, symbols, context.soft)?,
            Statement::For(node) => {
                self.for_loop(Arc::get_mut(node).expect("the tree is not shared yet"), symbols, context)?;
            }
            Statement::If(node) => self.condition(node, symbols, context)?,
            Statement::Set { target, value, exported, .. } => {
                self.expression(value, symbols, context.soft)?;
                self.target(target, symbols);
                *exported = export;
            }
            Statement::SetBlock(node) => {
                let mut scope = self.symbols(Some(symbols));
                self.analyze_statements(&mut scope, &node.body);
                self.statements(&mut node.body, &scope, inner)?;
                if let Some(filter) = &mut node.filter {
                    // The filter's names belong to the scope around it.
                    self.analyze_expression(&mut scope, filter);
                    self.expression(filter, &scope, false)?;
                }
                node.loads = self.loads(&scope);
                self.target(&mut node.target, symbols);
                node.exported = export;
            }
            Statement::Macro { definition, slot, exported } => {
                let definition = Arc::get_mut(definition).expect("the tree is not shared yet");
                self.macro_body(definition, symbols)?;
                *slot = self.slot(symbols, &definition.name);
                *exported = export;
            }
            Statement::CallBlock(node) => {
                let caller = Arc::get_mut(&mut node.caller).expect("the tree is not shared yet");
                self.macro_body(caller, symbols)?;
                if let Some(call) = &mut node.call {
                    self.expression(call, symbols, context.soft)?;
                }
            }
            Statement::FilterBlock(node) => {
                let mut scope = self.symbols(Some(symbols));
                self.analyze_statements(&mut scope, &node.body);
                self.analyze_expression(&mut scope, &node.filter);
                self.statements(&mut node.body, &scope, inner)?;
                self.expression(&mut node.filter, &scope, false)?;
                node.loads = self.loads(&scope);
            }
            Statement::With(node) => {
                for (_, value) in &mut node.bindings {
                    self.expression(value, symbols, context.soft)?;
                }
                let mut scope = self.symbols(Some(symbols));
                for (target, _) in &node.bindings {
                    self.analyze_target(&mut scope, target, true);
                }
                self.analyze_statements(&mut scope, &node.body);
                for (target, _) in &mut node.bindings {
                    self.target(target, &scope);
                }
                self.statements(&mut node.body, &scope, inner)?;
                node.loads = self.loads(&scope);
            }
            Statement::Autoescape(node) => {
                self.expression(&mut node.enabled, symbols, context.soft)?;
                let mut scope = self.symbols(Some(symbols));
                self.analyze_statements(&mut scope, &node.body);
                self.statements(&mut node.body, &scope, inner)?;
                node.loads = self.loads(&scope);
            }
            Statement::Block { index, .. } => self.remember_outer(*index, symbols),
            Statement::Data(_) | Statement::Unsupported(..) | Statement::Break | Statement::Continue => {}
        }
        Ok(())
    }

    /// Notes what a `scoped` block may see of the scopes around it.
    fn remember_outer(&mut self, index: usize, symbols: &Symbols<'_>) {
        let mut outer = Vec::new();
        let mut scope = Some(symbols);
        while let Some(current) = scope {
            for name in &current.stores {
                if !outer.iter().any(|(known, _)| known == name) {
                    outer.push((name.clone(), self.slot(symbols, name)));
                }
            }
            scope = current.parent;
        }
        self.outer.insert(index, outer);
    }

    fn condition(&mut self, node: &mut If, symbols: &Symbols<'_>, context: Context) -> Result<(), Error> {
        let soft = Context { soft: true, ..context };
        for (test, body) in &mut node.branches {
            self.expression(test, symbols, true)?;
            self.statements(body, symbols, soft)?;
        }
        self.statements(&mut node.otherwise, symbols, soft)
    }

    fn for_loop(&mut self, node: &mut For, symbols: &Symbols<'_>, context: Context) -> Result<(), Error> {
        self.expression(&mut node.iterable, symbols, context.soft)?;
        if names::stores_loop(&node.target)
            || names::assigns_loop(&node.body)
            || names::assigns_loop(&node.otherwise)
        {
            let error = Error::new(ErrorKind::Syntax, "`loop` cannot be assigned to inside of a loop");
            return Err(error.or_at(node.span.start as usize, node.span.end as usize));
        }
        if node.recursive {
            self.functions.push(0);
        }
        let mut body = self.symbols(Some(symbols));
        let mut loop_place = None;
        if node.recursive || names::finds(&node.body, "loop") || names::has_block(&node.body) {
            loop_place = Some(self.declare(&mut body, &"loop".into()));
        }
        self.analyze_target(&mut body, &node.target, true);
        self.analyze_statements(&mut body, &node.body);
        self.target(&mut node.target, &body);
        self.statements(&mut node.body, &body, Context::default())?;
        node.body_loads = self.loads(&body);
        node.loop_slot = loop_place.map(|place| self.address(place));

        let mut otherwise = self.symbols(Some(symbols));
        self.analyze_statements(&mut otherwise, &node.otherwise);
        self.statements(&mut node.otherwise, &otherwise, Context::default())?;
        node.otherwise_loads = self.loads(&otherwise);

        if let (Some(test), Some(target)) = (&mut node.test, &mut node.test_target) {
            let mut scope = self.symbols(Some(symbols));
            self.analyze_target(&mut scope, target, true);
            self.analyze_expression(&mut scope, test);
            self.target(target, &scope);
            self.expression(test, &scope, false)?;
            node.test_loads = self.loads(&scope);
        }
        if node.recursive {
            node.slots = self.functions.pop().unwrap_or_default();
        }
        Ok(())
    }

    fn macro_body(&mut self, node: &mut Macro, symbols: &Symbols<'_>) -> Result<(), Error> {
        self.functions.push(0);
        let mut scope = self.symbols(Some(symbols));
        for parameter in &node.parameters {
            self.declare(&mut scope, &parameter.name);
        }
        for parameter in &node.parameters {
            if let Some(default) = &parameter.default {
                self.analyze_expression(&mut scope, default);
            }
        }
        let is_parameter = |name: &str| node.parameters.iter().any(|parameter| *parameter.name == *name);
        let caller = self.special(&mut scope, node, "caller", &is_parameter);
        if is_parameter("caller") && names::finds(&node.body, "caller") {
            let explicit = node.parameters.iter().find(|parameter| *parameter.name == *"caller");
            if explicit.is_some_and(|parameter| parameter.default.is_none()) {
                let message = "The parameter `caller` must be omitted or given a default";
                let error = Error::new(ErrorKind::Syntax, message);
                return Err(error.or_at(node.span.start as usize, node.span.end as usize));
            }
        }
        let keywords = self.special(&mut scope, node, "kwargs", &is_parameter);
        let variadic = self.special(&mut scope, node, "varargs", &is_parameter);
        self.analyze_statements(&mut scope, &node.body);
        node.caller = caller.map(|place| self.address(place));
        node.keywords = keywords.map(|place| self.address(place));
        node.variadic = variadic.map(|place| self.address(place));
        for parameter in &mut node.parameters {
            parameter.slot = self.slot(&scope, &parameter.name);
            if let Some(default) = &mut parameter.default {
                self.expression(default, &scope, false)?;
            }
        }
        self.statements(&mut node.body, &scope, Context::default())?;
        node.loads = self.loads(&scope);
        node.slots = self.functions.pop().unwrap_or_default();
        Ok(())
    }

    /// Declares one of the names that every macro may use.
    fn special(
        &mut self,
        scope: &mut Symbols<'_>,
        node: &Macro,
        name: &str,
        is_parameter: &dyn Fn(&str) -> bool,
    ) -> Option<Place> {
        if is_parameter(name) {
            return scope.find(name).filter(|_| name == "caller" && names::finds(&node.body, name));
        }
        names::finds(&node.body, name).then(|| self.declare(scope, &name.into()))
    }

    fn target(&mut self, target: &mut Target, symbols: &Symbols<'_>) {
        match target {
            Target::Name { name, slot } | Target::Attribute { name, slot, .. } => {
                *slot = self.slot(symbols, name);
            }
            Target::Tuple(items) => {
                for item in items {
                    self.target(item, symbols);
                }
            }
        }
    }

    fn expression(&mut self, expression: &mut Expr, symbols: &Symbols<'_>, soft: bool) -> Result<(), Error> {
        let span = expression.span;
        match &mut expression.kind {
            ExprKind::Const(_) => {}
            ExprKind::Name { name, slot } => *slot = self.slot(symbols, name),
            ExprKind::Tuple(items) | ExprKind::List(items) | ExprKind::Concat(items) => {
                for item in items {
                    self.expression(item, symbols, soft)?;
                }
            }
            ExprKind::Dict(items) => {
                for (key, value) in items {
                    self.expression(key, symbols, soft)?;
                    self.expression(value, symbols, soft)?;
                }
            }
            ExprKind::Conditional { test, then, otherwise } => {
                self.expression(test, symbols, true)?;
                self.expression(then, symbols, true)?;
                if let Some(otherwise) = otherwise {
                    self.expression(otherwise, symbols, true)?;
                }
            }
            ExprKind::Unary(_, operand) => self.expression(operand, symbols, soft)?,
            ExprKind::Binary(_, left, right) | ExprKind::And(left, right) | ExprKind::Or(left, right) => {
                self.expression(left, symbols, soft)?;
                self.expression(right, symbols, soft)?;
            }
            ExprKind::Compare { first, rest } => {
                self.expression(first, symbols, soft)?;
                for (_, operand) in rest {
                    self.expression(operand, symbols, soft)?;
                }
            }
            ExprKind::Attribute { object, .. } => self.expression(object, symbols, soft)?,
            ExprKind::Item { object, key } => {
                self.expression(object, symbols, soft)?;
                self.expression(key, symbols, soft)?;
            }
            ExprKind::Slice(parts) => {
                for part in parts.iter_mut().flatten() {
                    self.expression(part, symbols, soft)?;
                }
            }
            ExprKind::Call { callee, arguments } => {
                self.expression(callee, symbols, soft)?;
                self.arguments(arguments, symbols, soft)?;
            }
            ExprKind::Filter(call) => {
                if let Some(input) = &mut call.input {
                    self.expression(input, symbols, soft)?;
                }
                self.arguments(&mut call.arguments, symbols, soft)?;
                call.function = filters::lookup(&call.name, self.chat);
                if call.function.is_none() {
                    let error = unknown(ErrorKind::UnknownFilter, &call.name, self.chat);
                    self.unknown(
                        &call.name,
                        error.or_at(call.span.start as usize, call.span.end as usize),
                        soft,
                    )?;
                }
            }
            ExprKind::Test(call) => {
                self.expression(&mut call.input, symbols, soft)?;
                self.arguments(&mut call.arguments, symbols, soft)?;
                call.function = predicates::lookup(&call.name);
                if call.function.is_none() {
                    let error = unknown(ErrorKind::UnknownTest, &call.name, self.chat);
                    self.unknown(&call.name, error.or_at(span.start as usize, span.end as usize), soft)?;
                }
            }
        }
        Ok(())
    }

    fn unknown(&mut self, name: &str, error: Error, soft: bool) -> Result<(), Error> {
        if !soft {
            return Err(error);
        }
        self.unresolved.insert(name.to_owned());
        Ok(())
    }

    fn arguments(
        &mut self,
        arguments: &mut Arguments,
        symbols: &Symbols<'_>,
        soft: bool,
    ) -> Result<(), Error> {
        let Arguments { positional, keywords, star, star_star } = arguments;
        for expression in positional {
            self.expression(expression, symbols, soft)?;
        }
        for (_, expression) in keywords {
            self.expression(expression, symbols, soft)?;
        }
        for expression in [star, star_star].into_iter().flatten() {
            self.expression(expression, symbols, soft)?;
        }
        Ok(())
    }
}

/// The error for a filter or test that does not exist, with the nearest names there are.
pub(crate) fn unknown(kind: ErrorKind, name: &str, chat: bool) -> Error {
    let (what, hint) = match kind {
        ErrorKind::UnknownFilter => ("filter", nearest(name, filters::names(chat))),
        _ => ("test", nearest(name, predicates::names())),
    };
    let error = Error::new(kind, format!("There is no {what} named `{name}`"));
    match hint {
        Some(hint) => error.with_hint(hint),
        None => error,
    }
}
