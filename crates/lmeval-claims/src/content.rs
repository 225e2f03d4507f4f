//! The content of a task's definition as a digest: what it says after includes, and the Python code that it names.
//!
//! Comments, the order of keys and the place of the file do not count.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use lmeval_pycompat::{Dict, Function, Value};
use lmeval_scoring::results::value_checksum;
use lmeval_tasks::{Group, Task, TaskDict};
use sha2::{Digest as _, Sha256};

/// Keys of a definition that say where it is or how it is called, not what it does.
const NAMES: [&str; 5] = ["include", "task_alias", "group_alias", "tag", "_qualified_name"];

/// Keys of the metadata that say where a definition is.
const PLACES: [&str; 1] = ["config_source"];

/// The digest of one task.
///
/// Settings of the run that tasks get as metadata, such as the model arguments, do not count.
pub fn task_digest(task: &Task) -> String {
    value_checksum(&content(task.mapping().values()))
}

/// The digest of each key of a task's definition. Metadata in `given`, which the run added, does not count, and neither does the
/// number of examples, which a run may override.
pub fn task_parts(task: &Task, given: &Dict) -> BTreeMap<String, String> {
    let values = task.mapping().values();
    let kept = values.iter().filter_map(|(key, value)| Some((key.as_str()?, value)));
    kept.filter(|(key, _)| !NAMES.contains(key) && *key != "num_fewshot")
        .map(|(key, value)| match (key, metadata(value)) {
            ("metadata", Value::Dict(all)) => {
                let own = all
                    .iter()
                    .filter(|(key, value)| key.as_str().is_none_or(|key| given.get_str(key) != Some(*value)));
                (key, Value::from(own.map(|(key, value)| (key.clone(), value.clone())).collect::<Dict>()))
            }
            _ => (key, with_code(value)),
        })
        .map(|(key, value)| (key.to_owned(), value_checksum(&value)))
        .collect()
}

/// The digest of the own settings of a group, without its members.
pub fn group_digest(group: &Group) -> String {
    let values = group.mapping().values();
    let own: Dict = values
        .iter()
        .filter(|(key, _)| key.as_str().is_some_and(|key| key != "task"))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    value_checksum(&content(&own))
}

/// The digest of everything that one name stands for.
pub fn digest(loaded: &TaskDict) -> String {
    let tasks = loaded.tasks.iter().map(|(name, task)| format!("{name} {}", task_digest(task)));
    let groups = loaded.groups.iter().map(|(name, group)| format!("{name} {}", group_digest(group)));
    let mut lines: Vec<String> = tasks.chain(groups).collect();
    lines.sort_unstable();
    value_checksum(&Value::list(lines.into_iter().map(Value::from)))
}

fn content(values: &Dict) -> Value {
    let kept = values.iter().filter(|(key, _)| key.as_str().is_some_and(|key| !NAMES.contains(&key)));
    let kept = kept.map(|(key, value)| {
        let value = if key.as_str() == Some("metadata") { metadata(value) } else { with_code(value) };
        (key.clone(), value)
    });
    Value::from(kept.collect::<Dict>())
}

/// The metadata of the file: `version`, and what tasks read from it.
fn metadata(value: &Value) -> Value {
    let Some(metadata) = value.as_dict() else { return value.clone() };
    let own = metadata.iter().filter(|(key, _)| key.as_str().is_some_and(|key| !PLACES.contains(&key)));
    Value::from(own.map(|(key, value)| (key.clone(), with_code(value))).collect::<Dict>())
}

/// Replaces functions by their names and the digest of their code.
fn with_code(value: &Value) -> Value {
    match value {
        Value::Function(function) => Value::list([
            Value::str("function"),
            Value::str(function.reference.as_str()),
            Value::from(code_digest(function)),
        ]),
        Value::List(items) => Value::list(items.iter().map(with_code)),
        Value::Tuple(items) => Value::tuple(items.iter().map(with_code)),
        Value::Dict(dict) => {
            Value::from(dict.iter().map(|(key, value)| (key.clone(), with_code(value))).collect::<Dict>())
        }
        other => other.clone(),
    }
}

/// The digest of the module with a function and of the modules beside it that it imports.
fn code_digest(function: &Function) -> String {
    let Some((module, _)) = function.split() else { return "unknown".to_owned() };
    let folder = Path::new(&function.directory);
    let mut hasher = Sha256::new();
    let (mut open, mut seen) = (vec![module_file(folder, module)], BTreeSet::new());
    while let Some(file) = open.pop() {
        if !seen.insert(file.clone()) {
            continue;
        }
        let Ok(source) = fs_err::read(&file) else { continue };
        hasher.update(file.file_name().unwrap_or_default().as_encoded_bytes());
        hasher.update((source.len() as u64).to_le_bytes());
        hasher.update(&source);
        let text = String::from_utf8_lossy(&source);
        let beside = file.parent().unwrap_or(folder);
        let mut imported: Vec<PathBuf> = imports(&text)
            .into_iter()
            .flat_map(|module| candidates(beside, &module))
            .filter(|path| path.is_file())
            .collect();
        imported.sort_unstable_by(|left, right| right.cmp(left));
        open.extend(imported);
    }
    let digest = hasher.finalize();
    format!("{:016x}", u64::from_be_bytes(std::array::from_fn(|index| digest[index])))
}

fn module_file(folder: &Path, module: &str) -> PathBuf {
    folder.join(format!("{}.py", module.replace('.', "/")))
}

/// The files that an imported module may be: beside the importing one, or in the library that contains it.
fn candidates(beside: &Path, module: &str) -> Vec<PathBuf> {
    let relative = module.trim_start_matches('.');
    let levels = module.len() - relative.len();
    let folder = (1..levels).try_fold(beside, |folder, _| folder.parent()).unwrap_or(beside);
    if let Some(below) = module.strip_prefix("lm_eval.tasks.") {
        return beside.ancestors().take(5).map(|root| module_file(root, below)).collect();
    }
    vec![module_file(folder, relative), folder.join(relative.replace('.', "/")).join("__init__.py")]
}

/// The names of modules in import statements at the beginning of a line.
fn imports(source: &str) -> Vec<String> {
    let mut modules = Vec::new();
    for line in source.lines().map(str::trim_start) {
        if let Some(rest) = line.strip_prefix("from ") {
            let mut words = rest.split_whitespace();
            let (Some(module), Some("import")) = (words.next(), words.next()) else { continue };
            if module.trim_start_matches('.').is_empty() {
                modules.extend(words.map(|name| format!("{module}{}", name.trim_end_matches(','))));
            } else {
                modules.push(module.to_owned());
            }
        } else if let Some(rest) = line.strip_prefix("import ") {
            modules
                .extend(rest.split(',').filter_map(|name| name.split_whitespace().next()).map(str::to_owned));
        }
    }
    modules
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imported_modules_are_found_in_statements() {
        let source = "import os, helper as h\nfrom .pack.inner import wrap\nfrom . import near, far\n    from lm_eval.tasks.a.b import c\nx = 'import no'\n";
        assert_eq!(imports(source), ["os", "helper", ".pack.inner", ".near", ".far", "lm_eval.tasks.a.b"]);
    }
}
