//! Judges: models that grade answers, bound to the roles that tasks name.

use anyhow::{Result, anyhow, bail};
use lmeval_core::secrets;
use lmeval_engine::JudgeModel;
use lmeval_pycompat::{Dict, Value, repr};

use super::dict_option;
use super::kinds::Item;
use super::layer::InvalidValue;

/// Arguments that are keys, which no setting may contain.
const KEYS: [&str; 3] = ["api_key", "auth_token", "token"];

/// A role and the model bound to it: `ROLE=BACKEND,key=value,…`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct JudgeBinding {
    /// The role that tasks name.
    pub role: String,
    /// The name of the backend.
    pub backend: String,
    /// The arguments of the backend.
    pub args: Dict,
}

/// A judge as given: unparsed words of the command line, which messages must not quote, or a binding.
#[derive(Clone, Debug)]
pub(crate) enum JudgeSetting {
    /// `ROLE=BACKEND,key=value,…`.
    Words(String),
    /// A parsed entry of a mapping.
    Binding(JudgeBinding),
}

impl From<String> for JudgeSetting {
    fn from(words: String) -> Self {
        Self::Words(words)
    }
}

impl JudgeBinding {
    /// Parses `ROLE=BACKEND,key=value,…`.
    fn parse(text: &str) -> Result<Self, String> {
        let wrong = || {
            "write `ROLE=BACKEND,key=value,…`, as in `grader=local-chat-completions,model=NAME`".to_owned()
        };
        let (role, rest) = text.split_once('=').ok_or_else(wrong)?;
        let (backend, pairs) = rest.split_once(',').unwrap_or((rest, ""));
        if role.trim().is_empty() || backend.trim().is_empty() || backend.contains('=') {
            return Err(wrong());
        }
        let words = if pairs.is_empty() { Vec::new() } else { vec![vec![pairs.to_owned()]] };
        let args = dict_option::parse("judge", &words).map_err(|error| error.to_string())?.dict;
        Self::new(role.trim(), backend.trim(), args)
    }

    fn new(role: &str, backend: &str, args: Dict) -> Result<Self, String> {
        if let Some(key) = KEYS.into_iter().find(|key| args.contains_str(key)) {
            return Err(format!(
                "`{key}` of the judge `{role}`: keys are read from the environment, such as `OPENAI_API_KEY`"
            ));
        }
        secrets::learn(&Value::from(args.clone()));
        Ok(Self { role: role.to_owned(), backend: backend.to_owned(), args })
    }

    /// The value of the judge's role in a settings file.
    pub(crate) fn to_value(&self) -> Value {
        let mut value = Dict::from_iter([(Value::str("backend"), Value::str(self.backend.as_str()))]);
        value.update(&self.args);
        Value::from(value)
    }

    /// The backend and its arguments without secrets, for the results.
    pub(crate) fn shown(&self) -> Dict {
        JudgeModel::settings_of(&self.backend, &self.args)
    }
}

impl Item for JudgeSetting {
    const LIST: &'static str = "a judge, a list of judges, or a mapping of roles";

    fn read_item(text: &str) -> Result<Self, InvalidValue> {
        Ok(Self::Words(text.to_owned()))
    }

    /// Reads `{role: "BACKEND,key=value"}` or `{role: {backend: BACKEND, key: value}}`.
    fn read_mapping(roles: &Dict) -> Option<Result<Vec<Self>, InvalidValue>> {
        let read = |(role, value): (&Value, &Value)| {
            let role = repr::str(role);
            match value {
                Value::Str(text) => Ok(Self::Words(format!("{role}={text}"))),
                Value::Dict(given) => {
                    let mut args = Dict::clone(given);
                    let Some(Value::Str(backend)) = args.remove_str("backend") else {
                        let message = format!("`judge`: the judge `{role}` has no `backend`");
                        return Err(InvalidValue::Message(message));
                    };
                    JudgeBinding::new(&role, &backend, args)
                        .map(Self::Binding)
                        .map_err(|message| InvalidValue::Message(format!("`judge`: {message}")))
                }
                _ => InvalidValue::expected(Self::LIST),
            }
        };
        Some(roles.iter().map(read).collect())
    }

    fn shown(&self) -> Value {
        match self {
            Self::Words(words) => secrets::mask_secrets(&Value::str(words.as_str())),
            Self::Binding(binding) => {
                let mut shown = binding.shown();
                shown.insert("role", binding.role.as_str());
                Value::from(shown)
            }
        }
    }
}

/// Parses the judges and checks that each role is bound once.
pub(super) fn resolve(given: &[JudgeSetting]) -> Result<Vec<JudgeBinding>> {
    let mut judges: Vec<JudgeBinding> = Vec::new();
    for setting in given {
        let judge = match setting {
            JudgeSetting::Words(words) => {
                JudgeBinding::parse(words).map_err(|message| anyhow!("`--judge`: {message}"))?
            }
            JudgeSetting::Binding(binding) => binding.clone(),
        };
        if judges.iter().any(|other| other.role == judge.role) {
            bail!("`--judge` binds the role `{}` twice", judge.role);
        }
        judges.push(judge);
    }
    Ok(judges)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_roles_back_ends_and_arguments() {
        let judge = JudgeBinding::parse("grader=local-chat-completions,model=m,num_concurrent=4").unwrap();
        assert_eq!((judge.role.as_str(), judge.backend.as_str()), ("grader", "local-chat-completions"));
        assert_eq!(judge.args.get_str("num_concurrent"), Some(&Value::Int(4)));
        assert_eq!(JudgeBinding::parse("g=dummy").unwrap().args, Dict::new());
        for wrong in ["grader", "=dummy", "grader=", "grader=model=x", "grader=dummy,x"] {
            assert!(JudgeBinding::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn refuses_keys() {
        let error = JudgeBinding::parse("grader=dummy,api_key=sk-123").unwrap_err();
        assert!(error.contains("environment") && !error.contains("sk-123"), "{error}");
    }

    #[test]
    fn reads_mappings() {
        let given = Value::dict([
            ("a", Value::str("dummy,x=1")),
            ("b", Value::dict([("backend", Value::str("hf")), ("pretrained", Value::str("p"))])),
        ]);
        let judges = JudgeSetting::read_mapping(given.as_dict().unwrap()).unwrap().unwrap();
        let judges = resolve(&judges).unwrap();
        assert_eq!(judges[0], JudgeBinding::parse("a=dummy,x=1").unwrap());
        assert_eq!(judges[1], JudgeBinding::parse("b=hf,pretrained=p").unwrap());
        let expected = Value::dict([
            ("model", Value::str("hf")),
            ("model_args", Value::dict([("pretrained", Value::str("p"))])),
        ]);
        assert_eq!(Some(&judges[1].shown()), expected.as_dict());
        let missing = Value::dict([("b", Value::dict([("pretrained", Value::str("p"))]))]);
        assert!(JudgeSetting::read_mapping(missing.as_dict().unwrap()).unwrap().is_err());
        let twice = [JudgeSetting::from("a=dummy".to_owned()), JudgeSetting::from("a=hf".to_owned())];
        assert!(resolve(&twice).unwrap_err().to_string().contains("`a` twice"));
    }
}
