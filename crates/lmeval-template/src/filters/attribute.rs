//! Attribute paths, as accepted by many filters.

use lmeval_pycompat::strings;

use crate::arguments::{Args, text};
use crate::error::Error;
use crate::eval::Vm;
use crate::value::{UndefinedCause, Val};

/// A path such as `a.0.b`, with a default for missing values.
#[derive(Clone, Debug, Default)]
pub(super) struct Path {
    parts: Vec<Val>,
    default: Option<Val>,
}

impl Path {
    /// Parses a path; `none` is the item itself.
    pub(super) fn new(attribute: Option<&Val>, default: Option<Val>) -> Self {
        let parts = match attribute {
            None | Some(Val::None) => Vec::new(),
            Some(Val::Str(path) | Val::Markup(path)) => path.split('.').map(part).collect(),
            Some(other) => vec![other.clone()],
        };
        Self { parts, default: default.filter(|default| !matches!(default, Val::None)) }
    }

    /// Parses comma-separated paths.
    pub(super) fn several(attribute: Option<&Val>) -> Vec<Self> {
        match attribute {
            Some(Val::Str(paths) | Val::Markup(paths)) => {
                paths.split(',').map(|path| Self::new(Some(&Val::str(path)), None)).collect()
            }
            other => vec![Self::new(other, None)],
        }
    }

    /// Follows the path from an item.
    pub(super) fn get(&self, vm: &mut Vm<'_>, item: &Val) -> Result<Val, Error> {
        let mut value = item.clone();
        for part in &self.parts {
            value = vm.item(&value, part)?;
            if let (true, Some(default)) = (value.is_undefined(), &self.default) {
                value = default.clone();
            }
        }
        Ok(value)
    }
}

fn part(part: &str) -> Val {
    let is_number = !part.is_empty() && part.chars().all(strings::is_digit);
    let number = is_number.then(|| lmeval_pycompat::float::parse_int(part, 10)).flatten();
    number.map_or_else(|| Val::str(part), |number| Val::from(&number))
}

/// Lowercases strings and leaves other values unchanged.
pub(super) fn ignore_case(value: Val) -> Val {
    match &value {
        Val::Str(text) | Val::Markup(text) => Val::text_like(&value, strings::lower(text)),
        _ => value,
    }
}

/// `attr(name)`: an attribute, never an item.
pub(super) fn attr(vm: &mut Vm<'_>, value: &Val, args: Args) -> Result<Val, Error> {
    let [name] = args.bind("attr", ["name"], 1)?;
    let name = name.unwrap_or(Val::None);
    let name = text(&name)?;
    if let Val::Undefined(undefined) = value {
        return Err(undefined.error());
    }
    match vm.plain_attribute(value, name)? {
        Some(found) => Ok(found),
        None => {
            Ok(vm.undefined(UndefinedCause::Attribute {
                type_name: value.type_name(),
                name: name.to_string(),
            }))
        }
    }
}
