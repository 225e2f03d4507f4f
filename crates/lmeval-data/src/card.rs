//! The front matter of a dataset's README: configurations and column types.

use lmeval_pycompat::{Dict, Value, repr, yaml};

use crate::error::{Error, ErrorKind};
use crate::features;
use crate::types::Schema;

/// The metadata of a dataset.
#[derive(Debug, Default)]
pub(crate) struct Card {
    pub(crate) configs: Vec<Config>,
    infos: Vec<(String, Option<Schema>)>,
}

/// A configuration: a named selection of files.
#[derive(Clone, Debug, Default)]
pub(crate) struct Config {
    pub(crate) name: String,
    pub(crate) data_files: Option<Value>,
    pub(crate) data_dir: Option<String>,
    pub(crate) is_default: bool,
    pub(crate) options: Dict,
    pub(crate) features: Option<Schema>,
}

/// The YAML between the first two lines of three dashes.
fn front_matter(readme: &str) -> Option<String> {
    let mut lines = readme.trim_start_matches('\u{feff}').lines();
    if lines.next()?.trim_end() != "---" {
        return None;
    }
    let mut block = String::new();
    for line in lines {
        if line.trim_end() == "---" {
            return Some(block);
        }
        block.push_str(line);
        block.push('\n');
    }
    None
}

impl Card {
    /// Parses a README and an optional standalone YAML file, whose keys take precedence.
    pub(crate) fn new(readme: Option<&str>, standalone: Option<&str>, location: &str) -> Result<Self, Error> {
        let bad = |file: &str, message: String| -> Error {
            ErrorKind::Metadata { file: format!("{location}/{file}"), message }.into()
        };
        let mut data = Dict::new();
        let front = readme.and_then(front_matter);
        for (file, text) in [("README.md", front.as_deref()), (".huggingface.yaml", standalone)] {
            let Some(text) = text else { continue };
            match yaml::load(text).map_err(|error| bad(file, error.to_string()))?.value {
                Value::Dict(dict) => data.update(&dict),
                Value::None => {}
                _ => return Err(bad(file, "expected a mapping".into())),
            }
        }
        let configs = match data.get_str("configs") {
            None | Some(Value::None) => Vec::new(),
            Some(Value::List(items)) => {
                let configs =
                    items.iter().map(|item| Config::new(item).map_err(|message| bad("README.md", message)));
                configs.collect::<Result<_, _>>()?
            }
            Some(_) => return Err(bad("README.md", "expected `configs` to be a list".into())),
        };
        let infos = match data.get_str("dataset_info") {
            Some(Value::List(items)) => items.iter().filter_map(info).collect(),
            Some(value) => info(value).into_iter().collect(),
            None => Vec::new(),
        };
        Ok(Self { configs, infos })
    }

    /// The configuration with a name, or the default one.
    pub(crate) fn choose(&self, name: Option<&str>, dataset: &str) -> Result<&Config, Error> {
        let available = || self.configs.iter().map(|config| config.name.clone()).collect();
        if let Some(name) = name {
            return self.configs.iter().find(|config| config.name == name).ok_or_else(|| {
                ErrorKind::UnknownConfig {
                    dataset: dataset.into(),
                    name: name.into(),
                    available: available(),
                }
                .into()
            });
        }
        let is_default =
            |config: &&Config| self.configs.len() == 1 || config.name == "default" || config.is_default;
        let mut defaults = self.configs.iter().filter(is_default);
        match (defaults.next(), defaults.next()) {
            (Some(config), None) => Ok(config),
            (Some(first), Some(second)) => Err(ErrorKind::Metadata {
                file: format!("{dataset}/README.md"),
                message: format!("several default configurations: `{}` and `{}`", first.name, second.name),
            }
            .into()),
            _ => Err(ErrorKind::MissingConfig { dataset: dataset.into(), available: available() }.into()),
        }
    }

    /// The declared column types of a configuration.
    pub(crate) fn features(&self, config: &str) -> Option<Schema> {
        match &self.infos[..] {
            // An entry without a name describes the only configuration.
            [(name, features)] if name == config || self.configs.len() < 2 => features.clone(),
            infos => infos.iter().find(|(name, _)| name == config).and_then(|(_, features)| features.clone()),
        }
    }
}

fn info(value: &Value) -> Option<(String, Option<Schema>)> {
    let dict = value.as_dict()?;
    let name = dict.get_str("config_name").map_or_else(|| "default".into(), repr::str);
    Some((name, dict.get_str("features").and_then(features::schema)))
}

impl Config {
    fn new(item: &Value) -> Result<Self, String> {
        let dict = item.as_dict().ok_or("each configuration must be a mapping")?;
        let mut config = Self::default();
        for (key, value) in dict.iter() {
            match key.as_str() {
                Some("config_name") => config.name = repr::str(value),
                Some("data_files") if !value.is_none() => config.data_files = Some(value.clone()),
                Some("data_dir") if !value.is_none() => config.data_dir = Some(repr::str(value)),
                Some("default") => config.is_default = value.is_truthy(),
                Some("features") => config.features = features::schema(value),
                Some("data_files" | "data_dir" | "version" | "description") => {}
                _ => {
                    config.options.insert(key.clone(), value.clone());
                }
            }
        }
        if dict.contains_str("config_name") {
            Ok(config)
        } else {
            Err("each configuration needs a `config_name`".into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chooses_configuration() {
        let readme = "---\nlicense: mit\nconfigs:\n- config_name: a\n  data_files: a.csv\n- config_name: b\n  \
                      data_files:\n  - split: test\n    path: b/*\n  sep: ';'\ndataset_info:\n- config_name: b\n  features:\n  \
                      - name: x\n    dtype: string\n---\n# Title\n";
        let card = Card::new(Some(readme), None, "p").unwrap();
        assert_eq!(card.choose(Some("b"), "p").unwrap().options.get_str("sep"), Some(&Value::str(";")));
        assert!(card.features("b").is_some() && card.features("a").is_none());
        let missing = card.choose(None, "p").unwrap_err();
        assert_eq!(missing.to_string(), "Configuration name of `p` is missing. Pick one of `a`, `b`");
        let unknown = card.choose(Some("c"), "p").unwrap_err();
        assert_eq!(unknown.to_string(), "Configuration `c` of `p` not found. Available: `a`, `b`");
        let marked = "---\nconfigs:\n- config_name: a\n- config_name: b\n  default: true\n---\n";
        assert_eq!(Card::new(Some(marked), None, "p").unwrap().choose(None, "p").unwrap().name, "b");
        let ambiguous = "---\nconfigs:\n- config_name: default\n- config_name: b\n  default: true\n---\n";
        let ambiguous =
            Card::new(Some(ambiguous), None, "p").unwrap().choose(None, "p").unwrap_err().to_string();
        assert!(ambiguous.ends_with("several default configurations: `default` and `b`"), "{ambiguous}");
        assert!(Card::new(Some("no front matter"), None, "p").unwrap().configs.is_empty());
        assert!(Card::new(Some("---\nconfigs: 1\n---\n"), None, "p").is_err());
        assert!(
            Card::new(Some("---\na: [\n---\n"), None, "p").unwrap_err().to_string().contains("p/README.md")
        );
    }
}
