//! The syntax tree.
//!
//! A name is a [`VariableId`], an index into the table of [`crate::scope`]. The tree knows nothing else about
//! scopes than the id of the one that each [`Body`] opens. It is therefore final once parsed, although names
//! are resolved only after the last tag.

use std::sync::Arc;

use lmeval_pycompat::Value;

use crate::filters::FilterFunction;
use crate::predicates::TestFunction;
use crate::scope::{FunctionId, ScopeId, VariableId};

/// A byte range of the template.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Span {
    pub(crate) start: u32,
    pub(crate) end: u32,
}

impl Span {
    pub(crate) fn new(start: usize, end: usize) -> Self {
        let clamp = |offset: usize| u32::try_from(offset).unwrap_or(u32::MAX);
        Self { start: clamp(start), end: clamp(end) }
    }

    /// From the start of this range to the end of another.
    pub(crate) fn to(self, end: Self) -> Self {
        Self { start: self.start, end: end.end }
    }
}

#[derive(Debug)]
pub(crate) struct Expr {
    pub(crate) kind: ExprKind,
    pub(crate) span: Span,
    /// The height of the tree, which the parser limits.
    pub(crate) height: u16,
}

#[derive(Debug)]
pub(crate) enum ExprKind {
    Literal(Value),
    Variable(VariableId),
    Tuple(Vec<Expr>),
    List(Vec<Expr>),
    Dict(Vec<(Expr, Expr)>),
    Conditional {
        test: Box<Expr>,
        then: Box<Expr>,
        otherwise: Option<Box<Expr>>,
    },
    Unary(UnaryOperator, Box<Expr>),
    Binary(BinaryOperator, Box<Expr>, Box<Expr>),
    /// `constant ** variable`: a sign of the constant applies after the power.
    ConstantPower(Box<Expr>, Box<Expr>),
    /// `and` if the flag is set, else `or`.
    Logical(bool, Box<Expr>, Box<Expr>),
    Concat(Vec<Expr>),
    Compare {
        first: Box<Expr>,
        rest: Vec<(CompareOperator, Expr)>,
    },
    Attribute {
        object: Box<Expr>,
        name: Arc<str>,
    },
    Item {
        object: Box<Expr>,
        key: Box<Expr>,
    },
    Slice {
        object: Box<Expr>,
        bounds: Box<[Option<Expr>; 3]>,
    },
    Call {
        callee: Box<Expr>,
        arguments: Arguments,
    },
    Filter(Box<(Expr, Applied<FilterFunction>)>),
    Test(Box<(Expr, Applied<TestFunction>)>),
}

/// A filter or test with its arguments; the function is missing if no such filter or test exists.
#[derive(Debug)]
pub(crate) struct Applied<F> {
    pub(crate) name: Arc<str>,
    pub(crate) arguments: Arguments,
    pub(crate) function: Option<F>,
    pub(crate) span: Span,
}

#[derive(Debug, Default)]
pub(crate) struct Arguments {
    pub(crate) positional: Vec<Expr>,
    pub(crate) keywords: Vec<(Arc<str>, Expr)>,
    pub(crate) star: Option<Box<Expr>>,
    pub(crate) star_star: Option<Box<Expr>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnaryOperator {
    Not,
    Negative,
    Positive,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BinaryOperator {
    Add,
    Subtract,
    Multiply,
    Divide,
    FloorDivide,
    Modulo,
    Power,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CompareOperator {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    In,
    NotIn,
}

/// The target of an assignment.
#[derive(Debug)]
pub(crate) enum Target {
    Name(VariableId),
    /// `namespace.attribute`.
    Attribute {
        namespace: VariableId,
        attribute: Arc<str>,
        span: Span,
    },
    Tuple(Vec<Target>),
}

/// Statements with their own scope.
#[derive(Debug)]
pub(crate) struct Body {
    pub(crate) scope: ScopeId,
    pub(crate) statements: Vec<Statement>,
}

#[derive(Debug)]
pub(crate) enum Statement {
    Text(Box<str>),
    Print(Expr),
    For(Arc<For>),
    /// The branches in order, and the `else` branch.
    If(Vec<(Expr, Vec<Statement>)>, Vec<Statement>),
    /// The flag makes the names visible to blocks.
    Set {
        target: Target,
        value: Expr,
        exported: bool,
        span: Span,
    },
    Capture(Box<Capture>),
    Macro {
        definition: Arc<Macro>,
        variable: VariableId,
        exported: bool,
    },
    CallBlock(Box<CallBlock>),
    With(Box<With>),
    Block {
        index: usize,
        span: Span,
    },
    Autoescape {
        enabled: Expr,
        body: Body,
    },
    /// A statement that needs other templates, such as `include`; the string is its tag.
    Unsupported(&'static str, Span),
    Break,
    Continue,
}

#[derive(Debug)]
pub(crate) struct For {
    pub(crate) target: Target,
    pub(crate) iterable: Expr,
    /// The condition after `if`, which has its own variables, and its target.
    pub(crate) test: Option<(Target, Expr)>,
    pub(crate) body: Body,
    pub(crate) otherwise: Option<Body>,
    /// The variable `loop`, if the body uses it.
    pub(crate) loop_variable: Option<VariableId>,
    /// A recursive loop is a function, called by `loop(…)`.
    pub(crate) recursive: Option<FunctionId>,
}

/// A body whose output is filtered, then printed or, for `{% set %}`, assigned.
#[derive(Debug)]
pub(crate) struct Capture {
    pub(crate) body: Body,
    pub(crate) filters: Vec<Applied<FilterFunction>>,
    pub(crate) target: Option<Target>,
    pub(crate) exported: bool,
    pub(crate) span: Span,
}

#[derive(Debug)]
pub(crate) struct Macro {
    pub(crate) name: Arc<str>,
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) body: Body,
    pub(crate) function: FunctionId,
    /// The variables `caller`, `kwargs` and `varargs`, if the body uses them and no parameter has that name.
    pub(crate) caller: Option<VariableId>,
    pub(crate) keywords: Option<VariableId>,
    pub(crate) variadic: Option<VariableId>,
}

#[derive(Debug)]
pub(crate) struct Parameter {
    pub(crate) name: Arc<str>,
    pub(crate) variable: VariableId,
    pub(crate) default: Option<Expr>,
}

#[derive(Debug)]
pub(crate) struct CallBlock {
    /// `None` for a block that just prints its body.
    pub(crate) call: Option<Expr>,
    pub(crate) caller: Arc<Macro>,
}

#[derive(Debug)]
pub(crate) struct With {
    pub(crate) bindings: Vec<(Target, Expr)>,
    pub(crate) body: Body,
}

#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) name: Arc<str>,
    pub(crate) required: bool,
    pub(crate) body: Body,
    pub(crate) function: FunctionId,
    /// The variable `self`, if the body uses it.
    pub(crate) self_variable: Option<VariableId>,
    /// The scope around a `scoped` block, whose variables it sees.
    pub(crate) around: Option<ScopeId>,
}

impl Expr {
    /// Whether the value does not depend on the document.
    pub(crate) fn is_constant(&self) -> bool {
        let all = |items: &[Self]| items.iter().all(Self::is_constant);
        match &self.kind {
            ExprKind::Literal(_) => true,
            ExprKind::Variable(_) | ExprKind::Call { .. } | ExprKind::Dict(_) | ExprKind::Slice { .. } => {
                false
            }
            ExprKind::Tuple(items) | ExprKind::List(items) | ExprKind::Concat(items) => all(items),
            ExprKind::Conditional { test, then, otherwise } => {
                test.is_constant()
                    && then.is_constant()
                    && otherwise.as_ref().is_none_or(|otherwise| otherwise.is_constant())
            }
            ExprKind::Unary(_, operand) | ExprKind::Attribute { object: operand, .. } => {
                operand.is_constant()
            }
            ExprKind::Binary(_, left, right)
            | ExprKind::ConstantPower(left, right)
            | ExprKind::Logical(_, left, right)
            | ExprKind::Item { object: left, key: right } => left.is_constant() && right.is_constant(),
            ExprKind::Compare { first, rest } => {
                first.is_constant() && rest.iter().all(|(_, operand)| operand.is_constant())
            }
            ExprKind::Filter(applied) => applied.0.is_constant() && all(&applied.1.arguments.positional),
            ExprKind::Test(applied) => applied.0.is_constant() && all(&applied.1.arguments.positional),
        }
    }
}

impl ExprKind {
    /// The height of a tree with this root.
    pub(crate) fn height(&self) -> u16 {
        let tallest = |items: &[Expr]| items.iter().map(|item| item.height).max().unwrap_or(0);
        let inner = match self {
            Self::Literal(_) | Self::Variable(_) => 0,
            Self::Tuple(items) | Self::List(items) | Self::Concat(items) => tallest(items),
            Self::Dict(items) => {
                items.iter().map(|(key, value)| key.height.max(value.height)).max().unwrap_or(0)
            }
            Self::Conditional { test, then, otherwise } => {
                test.height.max(then.height).max(otherwise.as_ref().map_or(0, |otherwise| otherwise.height))
            }
            Self::Unary(_, operand) | Self::Attribute { object: operand, .. } => operand.height,
            Self::Binary(_, left, right)
            | Self::ConstantPower(left, right)
            | Self::Logical(_, left, right)
            | Self::Item { object: left, key: right } => left.height.max(right.height),
            Self::Compare { first, rest } => {
                rest.iter().map(|(_, operand)| operand.height).max().unwrap_or(0).max(first.height)
            }
            Self::Slice { object, bounds } => {
                bounds.iter().flatten().map(|bound| bound.height).max().unwrap_or(0).max(object.height)
            }
            Self::Call { callee, arguments } => callee.height.max(arguments.height()),
            Self::Filter(applied) => applied.0.height.max(applied.1.arguments.height()),
            Self::Test(applied) => applied.0.height.max(applied.1.arguments.height()),
        };
        inner.saturating_add(1)
    }
}

impl Arguments {
    fn height(&self) -> u16 {
        let keywords = self.keywords.iter().map(|(_, value)| value);
        let stars = self.star.iter().chain(&self.star_star).map(|value| &**value);
        self.positional.iter().chain(keywords).chain(stars).map(|value| value.height).max().unwrap_or(0)
    }
}
