//! Tests: the names after `is`.

use lmeval_pycompat::strings;

use crate::arguments::Args;
use crate::ast::{BinaryOperator, CompareOperator};
use crate::error::{Error, ErrorKind};
use crate::eval::Vm;
use crate::value::{Items, Iter, Object, Val, ViewKind, equals, str_of};
use crate::{filters, operators};

/// A test of a value with arguments.
pub(crate) type TestFunction = fn(&mut Vm<'_>, &Val, Args) -> Result<bool, Error>;

const TESTS: [(&str, TestFunction); 39] = [
    ("!=", |vm, value, args| compared(vm, CompareOperator::NotEqual, value, args)),
    ("<", |vm, value, args| compared(vm, CompareOperator::Less, value, args)),
    ("<=", |vm, value, args| compared(vm, CompareOperator::LessEqual, value, args)),
    ("==", |vm, value, args| compared(vm, CompareOperator::Equal, value, args)),
    (">", |vm, value, args| compared(vm, CompareOperator::Greater, value, args)),
    (">=", |vm, value, args| compared(vm, CompareOperator::GreaterEqual, value, args)),
    ("boolean", |_, value, args| plain(args, || matches!(value, Val::Bool(_)))),
    ("callable", |_, value, args| plain(args, || is_callable(value))),
    ("defined", |_, value, args| plain(args, || !value.is_undefined())),
    ("divisibleby", |vm, value, args| {
        let [number] = args.bind("divisibleby", ["num"], 1)?;
        remainder_is(vm, value, &number.unwrap_or(Val::None), 0)
    }),
    ("eq", |vm, value, args| compared(vm, CompareOperator::Equal, value, args)),
    ("equalto", |vm, value, args| compared(vm, CompareOperator::Equal, value, args)),
    ("escaped", |_, value, args| plain(args, || matches!(value, Val::Markup(_)))),
    ("even", |vm, value, args| {
        args.none("even")?;
        remainder_is(vm, value, &Val::Int(2), 0)
    }),
    ("false", |_, value, args| plain(args, || matches!(value, Val::Bool(false)))),
    ("filter", |vm, value, args| {
        args.none("filter")?;
        let chat = vm.settings.chat;
        known(value, |name| filters::lookup(name, chat).is_some())
    }),
    ("float", |_, value, args| plain(args, || matches!(value, Val::Float(_)))),
    ("ge", |vm, value, args| compared(vm, CompareOperator::GreaterEqual, value, args)),
    ("greaterthan", |vm, value, args| compared(vm, CompareOperator::Greater, value, args)),
    ("gt", |vm, value, args| compared(vm, CompareOperator::Greater, value, args)),
    ("in", |vm, value, args| {
        let [container] = args.bind("in", ["seq"], 1)?;
        vm.compare_values(CompareOperator::In, value, &container.unwrap_or(Val::None))
    }),
    ("integer", |_, value, args| plain(args, || matches!(value, Val::Int(_) | Val::Big(_)))),
    ("iterable", |_, value, args| {
        args.none("iterable")?;
        match Iter::over(value) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::Undefined => Err(error),
            Err(_) => Ok(false),
        }
    }),
    ("le", |vm, value, args| compared(vm, CompareOperator::LessEqual, value, args)),
    ("lessthan", |vm, value, args| compared(vm, CompareOperator::Less, value, args)),
    ("lower", |_, value, args| {
        args.none("lower")?;
        Ok(strings::is_lower_text(&str_of(value)?))
    }),
    ("lt", |vm, value, args| compared(vm, CompareOperator::Less, value, args)),
    ("mapping", |_, value, args| plain(args, || matches!(value, Val::Dict(_)))),
    ("ne", |vm, value, args| compared(vm, CompareOperator::NotEqual, value, args)),
    ("none", |_, value, args| plain(args, || matches!(value, Val::None))),
    ("number", |_, value, args| {
        plain(args, || matches!(value, Val::Bool(_) | Val::Int(_) | Val::Big(_) | Val::Float(_)))
    }),
    ("odd", |vm, value, args| {
        args.none("odd")?;
        remainder_is(vm, value, &Val::Int(2), 1)
    }),
    ("sameas", |_, value, args| {
        let [other] = args.bind("sameas", ["other"], 1)?;
        Ok(is_same(value, &other.unwrap_or(Val::None)))
    }),
    ("sequence", |_, value, args| plain(args, || is_sequence(value))),
    ("string", |_, value, args| plain(args, || value.as_text().is_some())),
    ("test", |_, value, args| {
        args.none("test")?;
        known(value, |name| lookup(name).is_some())
    }),
    ("true", |_, value, args| plain(args, || matches!(value, Val::Bool(true)))),
    ("undefined", |_, value, args| plain(args, || value.is_undefined())),
    ("upper", |_, value, args| {
        args.none("upper")?;
        Ok(strings::is_upper_text(&str_of(value)?))
    }),
];

/// Looks up a test.
pub(crate) fn lookup(name: &str) -> Option<TestFunction> {
    TESTS.binary_search_by(|(known, _)| (*known).cmp(name)).ok().map(|index| TESTS[index].1)
}

/// The names of all tests.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    TESTS.iter().map(|(name, _)| *name)
}

fn plain(args: Args, test: impl FnOnce() -> bool) -> Result<bool, Error> {
    args.none("The test")?;
    Ok(test())
}

fn compared(vm: &mut Vm<'_>, operator: CompareOperator, value: &Val, args: Args) -> Result<bool, Error> {
    let [other] = args.bind_positional("The test", 1)?;
    vm.compare_values(operator, value, &other.unwrap_or(Val::None))
}

fn remainder_is(vm: &mut Vm<'_>, value: &Val, divisor: &Val, expected: i64) -> Result<bool, Error> {
    let remainder = operators::binary(vm, BinaryOperator::Modulo, value, divisor)?;
    equals(&remainder, &Val::Int(expected))
}

fn known(value: &Val, test: impl FnOnce(&str) -> bool) -> Result<bool, Error> {
    match value {
        Val::Str(name) | Val::Markup(name) => Ok(test(name)),
        Val::Undefined(undefined) if !undefined.strict => Ok(false),
        Val::Object(object) if !matches!(&**object, Object::View(ViewKind::Keys | ViewKind::Items, _)) => {
            Ok(false)
        }
        other => other.to_key().map(|_| false),
    }
}

fn is_callable(value: &Val) -> bool {
    match value {
        Val::Undefined(_) | Val::Function(_) => true,
        Val::Object(object) => object.is_callable(),
        _ => false,
    }
}

fn is_sequence(value: &Val) -> bool {
    match value {
        Val::Undefined(undefined) => !undefined.strict,
        Val::Str(_) | Val::Markup(_) | Val::Bytes(_) | Val::List(_) | Val::Tuple(_) | Val::Dict(_) => true,
        Val::Object(object) => matches!(&**object, Object::Range { .. }),
        _ => false,
    }
}

/// Python's `is`, as far as it can be emulated: constants and small integers are singletons.
fn is_same(left: &Val, right: &Val) -> bool {
    match (left, right) {
        (Val::None, Val::None) => true,
        (Val::Bool(left), Val::Bool(right)) => left == right,
        (Val::Int(left), Val::Int(right)) => left == right,
        (Val::Float(left), Val::Float(right)) => left.to_bits() == right.to_bits(),
        (Val::Str(left), Val::Str(right)) | (Val::Markup(left), Val::Markup(right)) => left == right,
        (Val::List(left), Val::List(right)) => left.is_same(right),
        (Val::Tuple(left), Val::Tuple(right)) => same_tuple(left, right),
        (Val::Dict(left), Val::Dict(right)) => left.is_same(right),
        (Val::Object(left), Val::Object(right)) => std::rc::Rc::ptr_eq(left, right),
        (Val::Undefined(left), Val::Undefined(right)) => std::rc::Rc::ptr_eq(left, right),
        _ => false,
    }
}

fn same_tuple(left: &Items, right: &Items) -> bool {
    left.is_same(right) || (left.len() == 0 && right.len() == 0)
}
