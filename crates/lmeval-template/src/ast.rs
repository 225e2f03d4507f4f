//! The parsed template. Names carry the slot that [`crate::scope`] assigned to them.

use std::sync::Arc;

use lmeval_pycompat::Value;

use crate::filters::FilterFunction;
use crate::predicates::TestFunction;

/// A range of bytes in the template.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Span {
    pub(crate) start: u32,
    pub(crate) end: u32,
}

/// Where a variable lives: so many functions up, at this index.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Slot {
    pub(crate) up: u16,
    pub(crate) index: u16,
}

#[derive(Debug)]
pub(crate) struct Expr {
    pub(crate) kind: ExprKind,
    pub(crate) span: Span,
    /// How deep the tree is from here.
    pub(crate) depth: u16,
}

#[derive(Debug)]
pub(crate) enum ExprKind {
    Const(Value),
    Name { name: Arc<str>, slot: Slot },
    Tuple(Vec<Expr>),
    List(Vec<Expr>),
    Dict(Vec<(Expr, Expr)>),
    Conditional { test: Box<Expr>, then: Box<Expr>, otherwise: Option<Box<Expr>> },
    Unary(UnaryOperator, Box<Expr>),
    Binary(BinaryOperator, Box<Expr>, Box<Expr>),
    And(Box<Expr>, Box<Expr>),
    Or(Box<Expr>, Box<Expr>),
    Concat(Vec<Expr>),
    Compare { first: Box<Expr>, rest: Vec<(CompareOperator, Expr)> },
    Attribute { object: Box<Expr>, name: Arc<str> },
    Item { object: Box<Expr>, key: Box<Expr> },
    Slice(Box<[Option<Expr>; 3]>),
    Call { callee: Box<Expr>, arguments: Arguments },
    Filter(Box<FilterCall>),
    Test(Box<TestCall>),
}

/// `input | name(arguments)`; filter blocks have no input expression.
#[derive(Debug)]
pub(crate) struct FilterCall {
    pub(crate) input: Option<Expr>,
    pub(crate) name: Arc<str>,
    pub(crate) arguments: Arguments,
    pub(crate) function: Option<FilterFunction>,
    pub(crate) span: Span,
}

/// `input is name(arguments)`.
#[derive(Debug)]
pub(crate) struct TestCall {
    pub(crate) input: Expr,
    pub(crate) name: Arc<str>,
    pub(crate) arguments: Arguments,
    pub(crate) function: Option<TestFunction>,
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

/// What an assignment writes to.
#[derive(Debug)]
pub(crate) enum Target {
    Name {
        name: Arc<str>,
        slot: Slot,
    },
    /// `namespace.attribute`.
    Attribute {
        name: Arc<str>,
        slot: Slot,
        attribute: Arc<str>,
        span: Span,
    },
    Tuple(Vec<Target>),
}

/// What a variable of a scope is set to when the scope is entered.
#[derive(Debug)]
pub(crate) enum Load {
    Resolve(Arc<str>),
    Alias(Slot),
    Undefined,
}

/// Slots to fill when a scope is entered.
pub(crate) type Loads = Vec<(u16, Load)>;

#[derive(Debug)]
pub(crate) enum Statement {
    Data(Box<str>),
    Output(Expr),
    For(Arc<For>),
    If(Box<If>),
    /// The flag says that the names become visible to blocks.
    Set {
        target: Target,
        value: Expr,
        exported: bool,
        span: Span,
    },
    SetBlock(Box<SetBlock>),
    Macro {
        definition: Arc<Macro>,
        slot: Slot,
        exported: bool,
    },
    CallBlock(Box<CallBlock>),
    FilterBlock(Box<FilterBlock>),
    With(Box<With>),
    Block {
        index: usize,
        span: Span,
    },
    Autoescape(Box<Autoescape>),
    /// A statement that needs other templates; the text is its tag.
    Unsupported(&'static str, Span),
    Break,
    Continue,
}

#[derive(Debug)]
pub(crate) struct For {
    pub(crate) target: Target,
    pub(crate) iterable: Expr,
    pub(crate) test: Option<Expr>,
    pub(crate) recursive: bool,
    pub(crate) body: Vec<Statement>,
    pub(crate) otherwise: Vec<Statement>,
    /// The test has variables of its own; its target is separate from the body's.
    pub(crate) test_target: Option<Target>,
    pub(crate) test_loads: Loads,
    pub(crate) body_loads: Loads,
    pub(crate) otherwise_loads: Loads,
    /// The slot of `loop`, where the body looks at it.
    pub(crate) loop_slot: Option<Slot>,
    /// Size of the frame where the loop is a function of its own, that is, recursive.
    pub(crate) slots: usize,
    pub(crate) span: Span,
}

#[derive(Debug)]
pub(crate) struct If {
    pub(crate) branches: Vec<(Expr, Vec<Statement>)>,
    pub(crate) otherwise: Vec<Statement>,
}

#[derive(Debug)]
pub(crate) struct SetBlock {
    pub(crate) target: Target,
    pub(crate) filter: Option<Expr>,
    pub(crate) body: Vec<Statement>,
    pub(crate) loads: Loads,
    pub(crate) exported: bool,
    pub(crate) span: Span,
}

#[derive(Debug)]
pub(crate) struct Macro {
    pub(crate) name: Arc<str>,
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) body: Vec<Statement>,
    pub(crate) loads: Loads,
    pub(crate) caller: Option<Slot>,
    pub(crate) keywords: Option<Slot>,
    pub(crate) variadic: Option<Slot>,
    pub(crate) slots: usize,
    pub(crate) span: Span,
}

#[derive(Debug)]
pub(crate) struct Parameter {
    pub(crate) name: Arc<str>,
    pub(crate) slot: Slot,
    pub(crate) default: Option<Expr>,
}

#[derive(Debug)]
pub(crate) struct CallBlock {
    /// None for a block that only stands for its own text.
    pub(crate) call: Option<Expr>,
    pub(crate) caller: Arc<Macro>,
}

#[derive(Debug)]
pub(crate) struct FilterBlock {
    pub(crate) filter: Expr,
    pub(crate) body: Vec<Statement>,
    pub(crate) loads: Loads,
}

#[derive(Debug)]
pub(crate) struct With {
    pub(crate) bindings: Vec<(Target, Expr)>,
    pub(crate) body: Vec<Statement>,
    pub(crate) loads: Loads,
}

#[derive(Debug)]
pub(crate) struct Autoescape {
    pub(crate) enabled: Expr,
    pub(crate) body: Vec<Statement>,
    pub(crate) loads: Loads,
}

#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) name: Arc<str>,
    pub(crate) scoped: bool,
    pub(crate) required: bool,
    pub(crate) body: Vec<Statement>,
    pub(crate) loads: Loads,
    pub(crate) self_slot: Option<Slot>,
    pub(crate) slots: usize,
    /// Variables in reach where a `scoped` block stands.
    pub(crate) outer: Vec<(Arc<str>, Slot)>,
}
