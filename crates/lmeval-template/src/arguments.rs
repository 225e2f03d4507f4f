//! Call arguments and parameter binding.

use std::sync::Arc;

use crate::error::Error;
use crate::value::Val;

/// Evaluated call arguments.
#[derive(Clone, Debug, Default)]
pub(crate) struct Args {
    pub(crate) positional: Vec<Val>,
    pub(crate) keywords: Vec<(Arc<str>, Val)>,
}

impl Args {
    pub(crate) fn positional(positional: Vec<Val>) -> Self {
        Self { positional, keywords: Vec::new() }
    }

    /// Binds the arguments to named parameters, the first `required` of which are mandatory.
    pub(crate) fn bind<const N: usize>(
        self,
        function: &str,
        names: [&str; N],
        required: usize,
    ) -> Result<[Option<Val>; N], Error> {
        let mut bound = [const { None }; N];
        let given = self.positional.len();
        if given > N {
            return Err(Error::type_error(format!("`{function}` accepts up to {N} arguments, not {given}")));
        }
        for (slot, value) in bound.iter_mut().zip(self.positional) {
            *slot = Some(value);
        }
        for (name, value) in self.keywords {
            let Some(index) = names.iter().position(|known| **known == *name) else {
                return Err(Error::type_error(format!("`{function}` has no parameter `{name}`")));
            };
            if bound[index].is_some() {
                return Err(Error::type_error(format!("`{name}` is passed to `{function}` twice")));
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

    /// Like [`Args::bind`], for functions without keyword arguments.
    pub(crate) fn bind_positional<const N: usize>(
        self,
        function: &str,
        required: usize,
    ) -> Result<[Option<Val>; N], Error> {
        if let Some((name, _)) = self.keywords.first() {
            return Err(Error::type_error(format!(
                "`{function}` accepts no keyword arguments, such as `{name}`"
            )));
        }
        if self.positional.len() < required {
            return Err(Error::type_error(format!("`{function}` needs {required} arguments")));
        }
        self.bind(function, [""; N], 0)
    }

    /// Fails if there are any arguments.
    pub(crate) fn none(self, function: &str) -> Result<(), Error> {
        self.bind_positional::<0>(function, 0).map(|_| ())
    }
}

/// The integer in an argument; `bool` is accepted.
pub(crate) fn integer(value: &Val) -> Result<i64, Error> {
    match value {
        Val::Big(_) => Err(Error::value_error("The integer is too large")),
        Val::Undefined(undefined) => Err(undefined.error()),
        _ => value
            .as_int()
            .ok_or_else(|| Error::type_error(format!("Expected an integer, not `{}`", value.type_name()))),
    }
}

/// The string in an argument.
pub(crate) fn text(value: &Val) -> Result<&Arc<str>, Error> {
    match value {
        Val::Undefined(undefined) => Err(undefined.error()),
        _ => value
            .as_text()
            .ok_or_else(|| Error::type_error(format!("Expected a string, not `{}`", value.type_name()))),
    }
}
