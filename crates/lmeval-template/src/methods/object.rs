//! Methods and attributes of `loop`, macros, namespaces and other objects.

use std::sync::Arc;

use crate::arguments::Args;
use crate::error::Error;
use crate::eval::Vm;
use crate::value::{Object, Val, equals};

pub(super) fn names(object: &Object) -> &'static [&'static str] {
    match object {
        Object::Loop(_) => &["changed", "cycle"],
        Object::Cycler(_) => &["next", "reset"],
        Object::Range { .. } => &["count", "index"],
        Object::View(..) => &["isdisjoint"],
        _ => &[],
    }
}

pub(super) fn property(vm: &mut Vm<'_>, object: &Object, name: &Arc<str>) -> Result<Option<Val>, Error> {
    Ok(match object {
        Object::Loop(state) => vm.loop_property(state, name)?,
        Object::Namespace(entries) => entries.borrow().get_str(name).cloned(),
        Object::Cycler(cycler) => match &**name {
            "current" => cycler.items.get(cycler.position.get()).cloned(),
            "pos" => Some(Val::from_usize(cycler.position.get())),
            "items" => Some(Val::tuple(cycler.items.clone())),
            _ => None,
        },
        Object::Joiner(joiner) => match &**name {
            "sep" => Some(joiner.separator.clone()),
            "used" => Some(Val::Bool(joiner.used.get())),
            _ => None,
        },
        Object::Macro(macro_object) => {
            let definition = &macro_object.definition;
            match &**name {
                "name" => Some(Val::Str(definition.name.clone())),
                "arguments" => {
                    let names =
                        definition.parameters.iter().map(|parameter| Val::Str(parameter.name.clone()));
                    Some(Val::tuple(names.collect()))
                }
                "catch_kwargs" => Some(Val::Bool(definition.keywords.is_some())),
                "catch_varargs" => Some(Val::Bool(definition.variadic.is_some())),
                "caller" => Some(Val::Bool(definition.caller.is_some())),
                _ => None,
            }
        }
        Object::Range { start, stop, step } => match &**name {
            "start" => Some(Val::Int(*start)),
            "stop" => Some(Val::Int(*stop)),
            "step" => Some(Val::Int(*step)),
            _ => None,
        },
        _ => None,
    })
}

pub(super) fn call(vm: &mut Vm<'_>, object: &Object, name: &str, args: Args) -> Result<Val, Error> {
    match (object, name) {
        (Object::Loop(state), "cycle") => {
            if args.positional.is_empty() {
                return Err(Error::type_error("`loop.cycle` needs at least one item"));
            }
            let index = state.index.get().saturating_sub(1) % args.positional.len();
            Ok(args.positional[index].clone())
        }
        (Object::Loop(state), "changed") => {
            let value = Val::tuple(args.positional);
            let same = match &*state.changed.borrow() {
                Some(last) => equals(last, &value)?,
                None => false,
            };
            if !same {
                *state.changed.borrow_mut() = Some(value);
            }
            Ok(Val::Bool(!same))
        }
        (Object::Cycler(cycler), "next") => {
            args.none(name)?;
            let position = cycler.position.get();
            cycler.position.set((position + 1) % cycler.items.len().max(1));
            Ok(cycler.items.get(position).cloned().unwrap_or(Val::None))
        }
        (Object::Cycler(cycler), "reset") => {
            args.none(name)?;
            cycler.position.set(0);
            Ok(Val::None)
        }
        (Object::Range { start, step, .. }, "index" | "count") => {
            let [wanted] = args.bind_positional(name, 1)?;
            let wanted = wanted.and_then(|wanted| wanted.as_int());
            let length = object.length().unwrap_or_default() as i64;
            let position = wanted
                .and_then(|wanted| wanted.checked_sub(*start))
                .filter(|distance| distance % step == 0)
                .map(|distance| distance / step)
                .filter(|position| (0..length).contains(position));
            match (name, position) {
                ("count", found) => Ok(Val::Int(i64::from(found.is_some()))),
                (_, Some(position)) => Ok(Val::Int(position)),
                _ => Err(Error::value_error("The range does not contain the number")),
            }
        }
        (Object::View(..), "isdisjoint") => {
            let [other] = args.bind_positional(name, 1)?;
            let view = Val::object(match object {
                Object::View(kind, dict) => Object::View(*kind, dict.clone()),
                _ => return Ok(Val::Bool(false)),
            });
            let items = crate::value::Iter::over(&other.unwrap_or(Val::None))?.collect(vm)?;
            for item in items {
                if crate::value::contains(vm, &view, &item)? {
                    return Ok(Val::Bool(false));
                }
            }
            Ok(Val::Bool(true))
        }
        _ => Err(Error::type_error(format!("The object has no method `{name}`"))),
    }
}
