//! Layers of settings, in each of which every setting is optional.

use lmeval_pycompat::{Dict, Value};

/// Why a value is not valid for a setting.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum InvalidValue {
    /// The value has the wrong type; the description of the expected one.
    Expected(String),
    /// The expected value, and the actual one.
    Found(&'static str, String),
    /// A complete message.
    Message(String),
}

impl InvalidValue {
    pub(crate) fn expected<T>(what: impl Into<String>) -> Result<T, Self> {
        Err(Self::Expected(what.into()))
    }

    /// The error message for a setting. It does not show the value, which may be a secret.
    pub(crate) fn message(&self, name: &str, value: &Value) -> String {
        match self {
            Self::Expected(what) => format!("`{name}` must be {what}, not {}", value.type_name()),
            Self::Found(what, found) => format!("`{name}` must be {what}, not {found}"),
            Self::Message(message) => message.clone(),
        }
    }
}

/// The value of one setting.
pub(super) trait Setting: Sized {
    /// Reads a value of a settings file or a Python caller; `None` if it is equivalent to omitting the setting.
    fn read(value: &Value) -> Result<Option<Self>, InvalidValue>;

    /// The value as shown in the record of a run.
    fn to_value(&self) -> Value;
}

/// The name of a setting and the problem with its value.
pub(super) type InvalidSetting = (&'static str, InvalidValue);

/// An optional setting, or a group of them.
pub(super) trait Layer: Sized {
    /// The names of the settings; `own` is the field's name.
    fn names(own: &'static str) -> Vec<&'static str>;

    /// Reads settings from a mapping, ignoring other names.
    fn read(own: &'static str, values: &Dict) -> Result<Self, InvalidSetting>;

    /// Fills settings that this layer omits from the lower one.
    fn combine(self, lower: Self) -> Self;

    /// Writes the settings that are given into a mapping.
    fn put(&self, own: &'static str, values: &mut Dict);
}

impl<T: Setting> Layer for Option<T> {
    fn names(own: &'static str) -> Vec<&'static str> {
        vec![own]
    }

    fn read(own: &'static str, values: &Dict) -> Result<Self, InvalidSetting> {
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

/// Declares a struct whose fields are layers and implements [`Layer`] for it.
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
            ) -> Result<Self, $crate::settings::layer::InvalidSetting> {
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
