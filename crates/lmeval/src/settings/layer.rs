//! Layers of settings, each of which may leave anything out.

use lmeval_pycompat::{Dict, Value};

/// Why a value cannot be a setting.
#[derive(Debug, PartialEq, Eq)]
pub enum Wrong {
    /// It is not this, but of another type.
    Expected(String),
    /// It is not this, but that.
    Found(&'static str, String),
    /// All that there is to say.
    Message(String),
}

impl Wrong {
    pub fn expected<T>(what: impl Into<String>) -> Result<T, Self> {
        Err(Self::Expected(what.into()))
    }

    /// The message about a setting. The value is not shown: it may be a secret.
    pub fn message(&self, name: &str, value: &Value) -> String {
        match self {
            Self::Expected(what) => format!("`{name}` must be {what}, not {}", value.type_name()),
            Self::Found(what, found) => format!("`{name}` must be {what}, not {found}"),
            Self::Message(message) => message.clone(),
        }
    }
}

/// The value of one setting.
pub(super) trait Setting: Sized {
    /// Reads a value of a settings file or of a Python program; `None` where it amounts to not giving the setting.
    fn read(value: &Value) -> Result<Option<Self>, Wrong>;

    /// The value as records of runs show it.
    fn to_value(&self) -> Value;
}

/// The name of a setting, and what is wrong with its value.
pub(super) type Refused = (&'static str, Wrong);

/// A setting that may be left out, or several of them.
pub(super) trait Layer: Sized {
    /// The names of the settings; `own` is the name of the field.
    fn names(own: &'static str) -> Vec<&'static str>;

    /// What a mapping says. Names that are not settings are ignored.
    fn read(own: &'static str, values: &Dict) -> Result<Self, Refused>;

    /// This layer, and the lower one where this one says nothing.
    fn combine(self, lower: Self) -> Self;

    /// What this layer says, by name.
    fn put(&self, own: &'static str, values: &mut Dict);
}

impl<T: Setting> Layer for Option<T> {
    fn names(own: &'static str) -> Vec<&'static str> {
        vec![own]
    }

    fn read(own: &'static str, values: &Dict) -> Result<Self, Refused> {
        match values.get_str(own) {
            None => Ok(None),
            Some(value) => T::read(value).map_err(|wrong| (own, wrong)),
        }
    }

    fn combine(self, lower: Self) -> Self {
        self.or(lower)
    }

    fn put(&self, own: &'static str, values: &mut Dict) {
        if let Some(setting) = self {
            values.insert(own, setting.to_value());
        }
    }
}

/// Declares a struct whose fields are layers, and makes it one.
macro_rules! layer {
    ($(#[$meta:meta])* $vis:vis struct $name:ident { $($(#[$attribute:meta])* pub $field:ident: $type:ty,)* }) => {
        $(#[$meta])*
        $vis struct $name { $($(#[$attribute])* pub $field: $type,)* }

        impl $crate::settings::layer::Layer for $name {
            fn names(_: &'static str) -> Vec<&'static str> {
                [$(<$type as $crate::settings::layer::Layer>::names(stringify!($field))),*].concat()
            }

            fn read(
                _: &'static str,
                values: &lmeval_pycompat::Dict,
            ) -> Result<Self, $crate::settings::layer::Refused> {
                Ok(Self { $($field: $crate::settings::layer::Layer::read(stringify!($field), values)?),* })
            }

            fn combine(self, lower: Self) -> Self {
                Self { $($field: $crate::settings::layer::Layer::combine(self.$field, lower.$field)),* }
            }

            fn put(&self, _: &'static str, values: &mut lmeval_pycompat::Dict) {
                $($crate::settings::layer::Layer::put(&self.$field, stringify!($field), values);)*
            }
        }
    };
}
pub(super) use layer;
