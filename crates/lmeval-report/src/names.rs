//! Names of models and tasks in files.

use lmeval_pycompat::random::Random;
use lmeval_pycompat::{Value, repr};

/// The arguments that may name a model, the first one that is there wins.
const NAMING: [&str; 6] = ["peft", "delta", "pretrained", "model", "path", "engine"];

/// The name of a model and the name of its folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelName {
    /// The name, as results state it.
    pub name: String,
    /// The name in which characters that folders cannot have are replaced.
    pub sanitized: String,
}

impl ModelName {
    /// The name that the arguments of a model give, or one of eight characters that the seed of the run decides.
    ///
    /// Without a seed the name is random. Reference: the random name also depends on how often the program has drawn
    /// before, so there it changes with the number of tasks.
    ///
    /// ```
    /// use lmeval_pycompat::Value;
    /// use lmeval_report::ModelName;
    ///
    /// let name = ModelName::new(&Value::str("pretrained=org/My-Model:v1,dtype=float"), Some(0));
    /// assert_eq!(name.sanitized, "org__My-Model__v1");
    /// assert_eq!(ModelName::new(&Value::None, Some(0)).name, "41pjso2k");
    /// ```
    pub fn new(model_args: &Value, seed: Option<i64>) -> Self {
        let given = given_name(model_args).filter(|name| !name.is_empty());
        let name = given
            .unwrap_or_else(|| drawn_name(&mut seed.map_or_else(Random::from_entropy, Random::from_seed)));
        Self { sanitized: sanitize_model_name(&name), name }
    }
}

fn given_name(model_args: &Value) -> Option<String> {
    match model_args {
        Value::Dict(arguments) => NAMING.into_iter().find_map(|key| arguments.get_str(key)).map(repr::str),
        Value::Str(arguments) => NAMING.into_iter().find_map(|key| {
            // Reference: the key may also be the end of a longer one.
            let (_, behind) = arguments.split_once(&format!("{key}="))?;
            let next = behind.find(&format!("{key}=")).unwrap_or(behind.len());
            Some(behind[..next].split(',').next().unwrap_or_default().to_owned())
        }),
        _ => None,
    }
}

fn drawn_name(random: &mut Random) -> String {
    const ALPHABET: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
    let drawn = random.choices_indices(ALPHABET.len(), 8).unwrap_or_default();
    drawn.into_iter().map(|index| char::from(ALPHABET[index])).collect()
}

/// A name of a model as a folder can have it: every run of characters that some system forbids becomes `__`.
///
/// ```
/// assert_eq!(lmeval_report::sanitize_model_name("a//b c"), "a__b c");
/// ```
pub fn sanitize_model_name(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let mut in_run = false;
    for character in name.chars() {
        let forbidden = "\"<>:/|\\?*[]".contains(character);
        if !forbidden {
            out.push(character);
        } else if !in_run {
            out.push_str("__");
        }
        in_run = forbidden;
    }
    out
}

/// A key of results as part of a file name: only what would lead into another folder is replaced, by `_`.
pub(crate) fn task_file_name(task: &str) -> String {
    task.replace(['/', '\\', '\0'], "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(arguments: &str) -> String {
        ModelName::new(&Value::str(arguments), Some(0)).name
    }

    #[test]
    fn text_arguments_name_by_the_first_key() {
        assert_eq!(named("pretrained=base,peft=adapter"), "adapter");
        assert_eq!(named("dtype=x,model=org/m,path=p"), "org/m");
        assert_eq!(named("base_model=inside,x=1"), "inside");
        assert_eq!(named("model=amodel=b"), "a");
        assert_eq!(named("model=,path=p"), "41pjso2k");
    }

    #[test]
    fn mappings_name_by_key() {
        let arguments = Value::dict([("path", Value::str("p")), ("pretrained", Value::Int(7))]);
        assert_eq!(ModelName::new(&arguments, None).name, "7");
        assert_eq!(ModelName::new(&Value::dict::<&str>([]), None).name.len(), 8);
    }

    #[test]
    fn task_keys_stay_in_their_folder() {
        assert_eq!(task_file_name("g1::a/../b"), "g1::a_.._b");
    }
}
