//! Methods of dictionaries.

use crate::arguments::Args;
use crate::error::Error;
use crate::eval::Vm;
use crate::globals::merge;
use crate::value::{DictRef, Iter, Object, OwnDict, Val, ViewKind};

pub(super) const NAMES: [&str; 11] =
    ["clear", "copy", "fromkeys", "get", "items", "keys", "pop", "popitem", "setdefault", "update", "values"];

/// Calls a method of a dictionary.
pub(super) fn call(vm: &mut Vm<'_>, dict: &DictRef, name: &str, args: Args) -> Result<Val, Error> {
    let view = |args: Args, kind: ViewKind| {
        args.none(name)?;
        Ok(Val::object(Object::View(kind, dict.clone())))
    };
    match name {
        "items" => return view(args, ViewKind::Items),
        "keys" => return view(args, ViewKind::Keys),
        "values" => return view(args, ViewKind::Values),
        "get" => {
            let [key, default] = args.bind_positional(name, 1)?;
            let key = key.unwrap_or(Val::None).to_key()?;
            return Ok(dict.get(&key).or(default).unwrap_or(Val::None));
        }
        "copy" => {
            args.none(name)?;
            return Ok(Val::dict(dict.to_own()));
        }
        "fromkeys" => {
            let [keys, value] = args.bind_positional(name, 1)?;
            let keys = Iter::over(&keys.unwrap_or(Val::None))?.collect(vm)?;
            let value = value.unwrap_or(Val::None);
            let mut result = OwnDict::default();
            for key in keys {
                result.insert(key.to_key()?, value.clone());
            }
            return Ok(Val::dict(result));
        }
        _ => {}
    }
    let DictRef::Own(own) = dict else {
        // Documents are only changed through copies, which the compiler requests.
        return Err(Error::type_error(format!("`{name}` would change the document")));
    };
    match name {
        "clear" => {
            args.none(name)?;
            own.borrow_mut().clear();
        }
        "pop" => {
            let [key, default] = args.bind_positional(name, 1)?;
            let key = key.unwrap_or(Val::None).to_key()?;
            let removed = own.borrow_mut().remove(&key);
            return removed
                .or(default)
                .ok_or_else(|| Error::value_error("The dictionary does not contain the key"));
        }
        "popitem" => {
            args.none(name)?;
            let last = own.borrow().len().checked_sub(1);
            let entry = last.and_then(|last| own.borrow().entry(last));
            let Some((key, value)) = entry else {
                return Err(Error::value_error("`popitem` needs a nonempty dictionary"));
            };
            own.borrow_mut().remove(&key);
            return Ok(Val::tuple(vec![Val::from(&key), value]));
        }
        "setdefault" => {
            let [key, default] = args.bind_positional(name, 1)?;
            let key = key.unwrap_or(Val::None).to_key()?;
            let known = own.borrow().get(&key).cloned();
            if let Some(known) = known {
                return Ok(known);
            }
            let default = default.unwrap_or(Val::None);
            own.borrow_mut().insert(key, default.clone());
            return Ok(default);
        }
        _ => {
            let Args { positional, keywords } = args;
            if positional.len() > 1 {
                return Err(Error::type_error("`update` accepts only one positional argument"));
            }
            let mut more = OwnDict::default();
            if let Some(source) = positional.first() {
                merge(vm, &mut more, source)?;
            }
            for (key, value) in keywords {
                more.insert((&*key).into(), value);
            }
            let mut own = own.borrow_mut();
            for index in 0..more.len() {
                if let Some((key, value)) = more.entry(index) {
                    own.insert(key, value);
                }
            }
        }
    }
    Ok(Val::None)
}
