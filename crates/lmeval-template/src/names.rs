//! Walks over the names of a tree.

use std::sync::Arc;

use crate::ast::{Arguments, Expr, ExprKind, Statement, Target};

/// A name on the way through a tree.
pub(crate) enum Visit<'a> {
    Load(&'a Arc<str>),
    Store(&'a Arc<str>),
}

type Visitor<'v> = dyn FnMut(Visit<'_>) -> bool + 'v;

/// Calls the visitor for every name that an expression reads, until it returns false.
pub(crate) fn visit_expression(expression: &Expr, visitor: &mut Visitor<'_>) -> bool {
    match &expression.kind {
        ExprKind::Const(_) => true,
        ExprKind::Name { name, .. } => visitor(Visit::Load(name)),
        ExprKind::Tuple(items) | ExprKind::List(items) | ExprKind::Concat(items) => {
            items.iter().all(|item| visit_expression(item, visitor))
        }
        ExprKind::Dict(items) => items
            .iter()
            .all(|(key, value)| visit_expression(key, visitor) && visit_expression(value, visitor)),
        ExprKind::Conditional { test, then, otherwise } => {
            visit_expression(test, visitor)
                && visit_expression(then, visitor)
                && otherwise.as_ref().is_none_or(|otherwise| visit_expression(otherwise, visitor))
        }
        ExprKind::Unary(_, operand) => visit_expression(operand, visitor),
        ExprKind::Binary(_, left, right) | ExprKind::And(left, right) | ExprKind::Or(left, right) => {
            visit_expression(left, visitor) && visit_expression(right, visitor)
        }
        ExprKind::Compare { first, rest } => {
            visit_expression(first, visitor)
                && rest.iter().all(|(_, operand)| visit_expression(operand, visitor))
        }
        ExprKind::Attribute { object, .. } => visit_expression(object, visitor),
        ExprKind::Item { object, key } => visit_expression(object, visitor) && visit_expression(key, visitor),
        ExprKind::Slice(parts) => parts.iter().flatten().all(|part| visit_expression(part, visitor)),
        ExprKind::Call { callee, arguments } => {
            visit_expression(callee, visitor) && visit_arguments(arguments, visitor)
        }
        ExprKind::Filter(call) => {
            call.input.as_ref().is_none_or(|input| visit_expression(input, visitor))
                && visit_arguments(&call.arguments, visitor)
        }
        ExprKind::Test(call) => {
            visit_expression(&call.input, visitor) && visit_arguments(&call.arguments, visitor)
        }
    }
}

fn visit_arguments(arguments: &Arguments, visitor: &mut Visitor<'_>) -> bool {
    arguments.positional.iter().all(|item| visit_expression(item, visitor))
        && arguments.keywords.iter().all(|(_, item)| visit_expression(item, visitor))
        && arguments.star.as_ref().is_none_or(|item| visit_expression(item, visitor))
        && arguments.star_star.as_ref().is_none_or(|item| visit_expression(item, visitor))
}

fn visit_target(target: &Target, visitor: &mut Visitor<'_>) -> bool {
    match target {
        Target::Name { name, .. } => visitor(Visit::Store(name)),
        Target::Attribute { .. } => true,
        Target::Tuple(items) => items.iter().all(|item| visit_target(item, visitor)),
    }
}

/// Calls the visitor for the names of statements at any depth, but not inside of blocks.
fn visit_statements(statements: &[Statement], visitor: &mut Visitor<'_>) -> bool {
    statements.iter().all(|statement| visit_statement(statement, visitor))
}

fn visit_statement(statement: &Statement, visitor: &mut Visitor<'_>) -> bool {
    match statement {
        Statement::Output(expression) => visit_expression(expression, visitor),
        Statement::For(node) => {
            visit_target(&node.target, visitor)
                && visit_expression(&node.iterable, visitor)
                && visit_statements(&node.body, visitor)
                && visit_statements(&node.otherwise, visitor)
                && node.test.as_ref().is_none_or(|test| visit_expression(test, visitor))
        }
        Statement::If(node) => {
            node.branches
                .iter()
                .all(|(test, body)| visit_expression(test, visitor) && visit_statements(body, visitor))
                && visit_statements(&node.otherwise, visitor)
        }
        Statement::Set { target, value, .. } => {
            visit_target(target, visitor) && visit_expression(value, visitor)
        }
        Statement::SetBlock(node) => {
            visit_target(&node.target, visitor)
                && node.filter.as_ref().is_none_or(|filter| visit_expression(filter, visitor))
                && visit_statements(&node.body, visitor)
        }
        Statement::Macro { definition, .. } => visit_macro(definition, visitor),
        Statement::CallBlock(node) => {
            node.call.as_ref().is_none_or(|call| visit_expression(call, visitor))
                && visit_macro(&node.caller, visitor)
        }
        Statement::FilterBlock(node) => {
            visit_statements(&node.body, visitor) && visit_expression(&node.filter, visitor)
        }
        Statement::With(node) => {
            node.bindings.iter().all(|(target, _)| visit_target(target, visitor))
                && node.bindings.iter().all(|(_, value)| visit_expression(value, visitor))
                && visit_statements(&node.body, visitor)
        }
        Statement::Autoescape(node) => {
            visit_expression(&node.enabled, visitor) && visit_statements(&node.body, visitor)
        }
        Statement::Data(_)
        | Statement::Block { .. }
        | Statement::Unsupported(..)
        | Statement::Break
        | Statement::Continue => true,
    }
}

fn visit_macro(node: &crate::ast::Macro, visitor: &mut Visitor<'_>) -> bool {
    node.parameters.iter().all(|parameter| visitor(Visit::Store(&parameter.name)))
        && node
            .parameters
            .iter()
            .filter_map(|parameter| parameter.default.as_ref())
            .all(|default| visit_expression(default, visitor))
        && visit_statements(&node.body, visitor)
}

/// Whether the statements read a name before they assign it.
pub(crate) fn finds(statements: &[Statement], wanted: &str) -> bool {
    let mut found = false;
    visit_statements(statements, &mut |visit| match visit {
        Visit::Load(name) if **name == *wanted => {
            found = true;
            false
        }
        Visit::Store(name) => **name != *wanted,
        Visit::Load(_) => true,
    });
    found
}

/// Whether statements assign to `loop` at any depth.
pub(crate) fn assigns_loop(statements: &[Statement]) -> bool {
    !visit_statements(statements, &mut |visit| !matches!(visit, Visit::Store(name) if **name == *"loop"))
}

/// Whether a target is or contains `loop`.
pub(crate) fn stores_loop(target: &Target) -> bool {
    !visit_target(target, &mut |visit| !matches!(visit, Visit::Store(name) if **name == *"loop"))
}

/// Whether there is a block at any depth.
pub(crate) fn has_block(statements: &[Statement]) -> bool {
    statements.iter().any(|statement| match statement {
        Statement::Block { .. } => true,
        Statement::For(node) => has_block(&node.body) || has_block(&node.otherwise),
        Statement::If(node) => {
            node.branches.iter().any(|(_, body)| has_block(body)) || has_block(&node.otherwise)
        }
        Statement::With(node) => has_block(&node.body),
        Statement::FilterBlock(node) => has_block(&node.body),
        Statement::SetBlock(node) => has_block(&node.body),
        Statement::Autoescape(node) => has_block(&node.body),
        _ => false,
    })
}
