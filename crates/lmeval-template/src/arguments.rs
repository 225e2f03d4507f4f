//! Arguments of a call, and how they meet parameters.

use std::sync::Arc;

use crate::error::Error;
use crate::value::Val;

/// Evaluated arguments of a call.
#[derive(Clone, Debug, Default)]
pub(crate) struct Args {
    pub(crate) positional: Vec<Val>,
    pub(crate) keywords: Vec<(Arc<str>, Val)>,
}

impl Args {
    pub(crate) fn positional(positional: Vec<Val>) -> Self {
        Self { positional, keywords: Vec::new() }
    }

    /// Distributes the arguments over named parameters, of which the first `required` must be given.
    pub(crate) fn bind<const N: usize>(
        self,
        function: &str,
        names: [&str; N],
        required: usize,
    ) -> Result<[Option<Val>; N], Error> {
        let mut bound = [const { None }; N];
        let given = self.positional.len();
        if given > N {
            return Err(Error::type_error(format!(
                "`{function}` takes at most {N} arguments, {given} were given"
            )));
        }
        for (slot, value) in bound.iter_mut().zip(self.positional) {
            *slot = Some(value);
        }
        for (name, value) in self.keywords {
            let Some(index) = names.iter().position(|known| **known == *name) else {
                return Err(Error::type_error(format!("`{function}` has no parameter `{name}`")));
            };
            if bound[index].is_some() {
                return Err(Error::type_error(format!("`{function}` got two values for `{name}`")));
            }
            bound[index] = Some(value);
        }
        for (name, value) in names.iter().zip(&bound).take(required) {
            if value.is_none() {
                return Err(Error::type_error(format!("`{function}` needs a value for `{name}`")));
            }
        }
        Ok(bound)
    }

    /// Like [`Args::bind`] for a function that takes no keywords.
    pub(crate) fn bind_positional<const N: usize>(
        self,
        function: &str,
        required: usize,
    ) -> Result<[Option<Val>; N], Error> {
        if let Some((name, _)) = self.keywords.first() {
            return Err(Error::type_error(format!("`{function}` takes no keyword arguments, not `{name}`")));
        }
        if self.positional.len() < required {
            return Err(Error::type_error(format!("`{function}` needs {required} arguments")));
        }
        self.bind(function, [""; N], 0)
    }

    /// Fails unless there are no arguments.
    pub(crate) fn none(self, function: &str) -> Result<(), Error> {
        self.bind_positional::<0>(function, 0).map(|_| ())
    }
}

/// The integer in an argument; `bool` counts.
pub(crate) fn integer(value: &Val) -> Result<i64, Error> {
    match value {
        Val::Big(_) => Err(Error::value_error("The integer is too large")),
        Val::Undefined(undefined) => Err(undefined.error()),
        _ => value
            .as_int()
            .ok_or_else(|| Error::type_error(format!("Expected an integer, not `{}`", value.type_name()))),
    }
}

/// The text in an argument.
pub(crate) fn text(value: &Val) -> Result<&Arc<str>, Error> {
    match value {
        Val::Undefined(undefined) => Err(undefined.error()),
        _ => value
            .as_text()
            .ok_or_else(|| Error::type_error(format!("Expected text, not `{}`", value.type_name()))),
    }
}
