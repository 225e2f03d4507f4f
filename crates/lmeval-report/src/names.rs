//! Names of models and tasks in file names.

use lmeval_pycompat::random::Random;
use lmeval_pycompat::{Value, repr};

/// The arguments that may name a model; the first one present wins.
const NAMING: [&str; 6] = ["peft", "delta", "pretrained", "model", "path", "engine"];

/// The name of a model and of its folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelName {
    /// The name as recorded in results.
    pub name: String,
    /// The name with characters replaced that folder names cannot have.
    pub sanitized: String,
}

impl ModelName {
    /// The name from the model arguments, or else eight characters derived from the seed.
    ///
    /// Without a seed the name is random. Reference: there the random name also depends on previous random draws, so it
    /// changes with the number of tasks.
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
        Self::named(
            given.unwrap_or_else(|| {
                drawn_name(&mut seed.map_or_else(Random::from_entropy, Random::from_seed))
            }),
        )
    }

    /// Like [`ModelName::new`] for a backend: one that the reference does not have and that needs no arguments is named
    /// after itself.
    ///
    /// ```
    /// use lmeval_pycompat::Value;
    /// use lmeval_report::ModelName;
    ///
    /// assert_eq!(ModelName::of("ngram", &Value::None, Some(0)).sanitized, "ngram");
    /// assert_eq!(ModelName::of("dummy", &Value::None, Some(0)).name, "41pjso2k");
    /// ```
    pub fn of(back_end: &str, model_args: &Value, seed: Option<i64>) -> Self {
        let has_name = given_name(model_args).is_some_and(|name| !name.is_empty());
        if SELF_NAMED.contains(&back_end) && !has_name {
            return Self::named(back_end.to_owned());
        }
        Self::new(model_args, seed)
    }

    fn named(name: String) -> Self {
        Self { sanitized: folder_name(&name), name }
    }
}

/// Backends that are not in the reference and have no other name.
const SELF_NAMED: [&str; 3] = ["ngram", "uniform", "replay"];

/// The folder of a model: [`sanitize_model_name`] without leading path components, so that it is never hidden.
fn folder_name(name: &str) -> String {
    let mut rest = name;
    while let Some(below) = rest.strip_prefix("./").or_else(|| rest.strip_prefix("../")) {
        rest = below.trim_start_matches('/');
    }
    let folder = sanitize_model_name(rest);
    match folder.trim_start_matches('.') {
        "" => "model".to_owned(),
        visible => visible.to_owned(),
    }
}

fn given_name(model_args: &Value) -> Option<String> {
    match model_args {
        Value::Dict(arguments) => NAMING.into_iter().find_map(|key| arguments.get_str(key)).map(repr::str),
        Value::Str(arguments) => NAMING.into_iter().find_map(|key| {
            // Reference: the key may also be the end of a longer one.
            let (_, rest) = arguments.split_once(&format!("{key}="))?;
            let next = rest.find(&format!("{key}=")).unwrap_or(rest.len());
            Some(rest[..next].split(',').next().unwrap_or_default().to_owned())
        }),
        _ => None,
    }
}

fn drawn_name(random: &mut Random) -> String {
    const ALPHABET: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
    let drawn = random.choices_indices(ALPHABET.len(), 8).unwrap_or_default();
    drawn.into_iter().map(|index| char::from(ALPHABET[index])).collect()
}

/// Makes a model name safe for folders: every run of characters forbidden on some system becomes `__`.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn named(arguments: &str) -> String {
        ModelName::new(&Value::str(arguments), Some(0)).name
    }

    #[test]
    fn string_arguments_use_the_first_key() {
        assert_eq!(named("pretrained=base,peft=adapter"), "adapter");
        assert_eq!(named("dtype=x,model=org/m,path=p"), "org/m");
        assert_eq!(named("base_model=inside,x=1"), "inside");
        assert_eq!(named("model=amodel=b"), "a");
        assert_eq!(named("model=,path=p"), "41pjso2k");
    }

    #[test]
    fn mapping_arguments_use_their_key() {
        let arguments = Value::dict([("path", Value::str("p")), ("pretrained", Value::Int(7))]);
        assert_eq!(ModelName::new(&arguments, None).name, "7");
        assert_eq!(ModelName::new(&Value::dict::<&str>([]), None).name.len(), 8);
    }

    #[test]
    fn folders_are_never_hidden() {
        for (name, folder) in [
            ("./x", "x"),
            ("../x/y", "x__y"),
            (".//x", "x"),
            (".hidden", "hidden"),
            (".", "model"),
            ("..", "model"),
            ("./", "model"),
            ("/a/b", "__a__b"),
        ] {
            assert_eq!(
                ModelName::new(&Value::dict([("pretrained", Value::str(name))]), None).sanitized,
                folder
            );
        }
    }
}
