//! `tojson`.

use lmeval_pycompat::json::{Options, dumps};

use crate::arguments::{Args, integer, text};
use crate::error::Error;
use crate::eval::Vm;
use crate::value::{Iter, Val};

/// `tojson(indent)`; in chat templates, plain JSON with the keywords of `json.dumps`.
pub(super) fn tojson(vm: &mut Vm<'_>, value: &Val, args: Args) -> Result<Val, Error> {
    if vm.settings.chat { plain(vm, value, args) } else { html_safe(value, args) }
}

fn indentation(indent: Option<Val>) -> Result<Option<usize>, Error> {
    match indent {
        None | Some(Val::None) => Ok(None),
        Some(indent) => Ok(Some(Vm::check_size(usize::try_from(integer(&indent)?.max(0)).ok())?)),
    }
}

fn write(value: &Val, options: &Options<'_>) -> Result<String, Error> {
    let plain = match value {
        Val::Undefined(undefined) if undefined.strict => return Err(undefined.error()),
        other => other.to_value(),
    };
    let plain = plain.ok_or_else(|| {
        Error::type_error(format!("A value of type `{}` cannot be serialized as JSON", value.type_name()))
    })?;
    dumps(&plain, options).map_err(|error| Error::type_error(error.to_string()))
}

/// JSON with sorted keys that is safe inside of HTML.
fn html_safe(value: &Val, args: Args) -> Result<Val, Error> {
    let [indent] = args.bind("tojson", ["indent"], 0)?;
    let options = Options { indent: indentation(indent)?, sort_keys: true, ..Options::default() };
    let text = write(value, &options)?;
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '<' => out.push_str("\\u003c"),
            '>' => out.push_str("\\u003e"),
            '&' => out.push_str("\\u0026"),
            '\'' => out.push_str("\\u0027"),
            other => out.push(other),
        }
    }
    Ok(Val::Markup(out.into()))
}

fn plain(vm: &mut Vm<'_>, value: &Val, args: Args) -> Result<Val, Error> {
    let names = ["ensure_ascii", "indent", "separators", "sort_keys"];
    let [ascii, indent, separators, sort_keys] = args.bind("tojson", names, 0)?;
    let truth = |value: Option<Val>| value.map_or(Ok(false), |value| value.truth());
    let separators = match separators {
        None | Some(Val::None) => None,
        Some(separators) => {
            let parts = Iter::over(&separators)?.collect(vm)?;
            let [item, key] = parts.as_slice() else {
                return Err(Error::value_error("`separators` must be a pair"));
            };
            Some((text(item)?.clone(), text(key)?.clone()))
        }
    };
    let options = Options {
        ensure_ascii: truth(ascii)?,
        indent: indentation(indent)?,
        separators: separators.as_ref().map(|(item, key)| (&**item, &**key)),
        sort_keys: truth(sort_keys)?,
        ..Options::default()
    };
    write(value, &options).map(Val::str)
}
