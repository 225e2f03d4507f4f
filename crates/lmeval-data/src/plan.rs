//! Resolves a request: loader, options, and the files of each split.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use lmeval_pycompat::Dict;

use crate::card::{Card, Config};
use crate::error::{Error, ErrorKind};
use crate::formats::{self, Format};
use crate::kwargs::Kwargs;
use crate::patterns::{self, Patterns};
use crate::tree::{Location, Tree};
use crate::types::Schema;

/// Files by split.
pub(crate) type Splits = Vec<(String, Vec<Location>)>;

/// Files by split, and how to read them.
pub(crate) struct Plan {
    /// The name of the dataset in messages.
    pub(crate) dataset: String,
    pub(crate) format: Format,
    pub(crate) options: Dict,
    pub(crate) splits: Splits,
    /// The declared column types.
    pub(crate) features: Option<Schema>,
}

/// Finds files outside the folder or repository in which a pattern is written.
pub(crate) trait Locate {
    /// The files of a path, address or pattern; `None` if it is relative to the folder.
    fn outside(&self, pattern: &str) -> Option<Result<Vec<Location>, Error>>;
}

/// Whether a pattern cannot be relative to a folder.
pub(crate) fn is_absolute(pattern: &str) -> bool {
    pattern.contains("://") || pattern.starts_with("builtin:") || Path::new(pattern).is_absolute()
}

/// Plans a folder or repository.
pub(crate) fn of_tree(
    tree: &Arc<dyn Tree>,
    name: Option<&str>,
    kwargs: &Kwargs,
    locate: &dyn Locate,
) -> Result<Plan, Error> {
    let location = tree.location().to_owned();
    let read = |path: &str| -> Result<Option<String>, Error> {
        if !tree.files().iter().any(|known| known == path) {
            return Ok(None);
        }
        Ok(Some(String::from_utf8_lossy(&tree.open(path)?.read_all()?).into_owned()))
    };
    let card = Card::new(read("README.md")?.as_deref(), read(".huggingface.yaml")?.as_deref(), &location)?;
    let config = choose(&card, name, kwargs, &location)?;
    let folder = kwargs.data_dir.clone().or_else(|| config.data_dir.clone());
    let (base, files) = below(tree.files(), folder.as_deref());
    let data_files = match (&kwargs.data_files, &kwargs.data_dir) {
        (Some(data_files), _) => Some(data_files),
        (None, Some(_)) => None,
        (None, None) => config.data_files.as_ref(),
    };
    let declared = match data_files {
        Some(data_files) => {
            let bad = |message| Error::from(ErrorKind::Metadata { file: location.clone(), message });
            patterns::declared(data_files).map_err(bad)?
        }
        None => patterns::infer(&files, &location)?,
    };
    if declared.iter().flat_map(|(_, patterns)| patterns).any(|pattern| is_absolute(pattern)) {
        return of_locations(&location, &declared, kwargs, locate);
    }
    let mut splits = patterns::resolve(&files, &declared, &location, formats::is_data)?;
    let full = |path: &str| format!("{base}{path}");
    let peek = |path: &str| members(&tree.open(&full(path))?);
    let (format, mut options) = formats::of_splits(&splits, &location, &peek)?;
    if data_files.is_none() {
        for (_, files) in &mut splits {
            files.retain(|path| formats::belongs(path, format));
        }
    }
    options.update(&config.options);
    options.update(&kwargs.options);
    let locations =
        |files: Vec<String>| files.iter().map(|path| Location::Tree(tree.clone(), full(path))).collect();
    let splits = splits.into_iter().map(|(split, files)| (split, locations(files))).collect();
    let features = config.features.clone().or_else(|| card.features(&config.name));
    Ok(Plan { dataset: location, format, options, splits, features })
}

/// The requested configuration; an empty one if the README has none.
fn choose(card: &Card, name: Option<&str>, kwargs: &Kwargs, location: &str) -> Result<Config, Error> {
    if card.configs.is_empty() {
        return match name {
            None | Some("default") => Ok(Config { name: "default".into(), ..Config::default() }),
            Some(name) => Err(ErrorKind::UnknownConfig {
                dataset: location.into(),
                name: name.into(),
                available: vec!["default".into()],
            }
            .into()),
        };
    }
    match card.choose(name, location) {
        Ok(config) => Ok(config.clone()),
        // Explicitly named files do not need a configuration.
        Err(_) if name.is_none() && (kwargs.data_files.is_some() || kwargs.data_dir.is_some()) => {
            Ok(Config { name: "default".into(), ..Config::default() })
        }
        Err(error) => Err(error),
    }
}

/// The files below a folder, relative to it, and the folder with a slash.
fn below(files: &[String], folder: Option<&str>) -> (String, Vec<String>) {
    let folder = folder.unwrap_or_default().trim_start_matches("./").trim_matches('/');
    if folder.is_empty() || folder == "." {
        return (String::new(), files.to_vec());
    }
    let base = format!("{folder}/");
    let inside = files.iter().filter_map(|path| path.strip_prefix(&base)).map(str::to_owned).collect();
    (base, inside)
}

fn members(archive: &crate::file::DataFile) -> Result<Vec<String>, Error> {
    Ok(archive.clone().decompress()?.iter().map(|file| file.name().to_owned()).collect())
}

/// Plans individually named files, in the format that their names indicate.
fn of_locations(
    location: &str,
    declared: &Patterns,
    kwargs: &Kwargs,
    locate: &dyn Locate,
) -> Result<Plan, Error> {
    let names: Vec<(String, Vec<String>)> = declared.clone();
    let (format, mut options) = formats::of_splits(&names, location, &|_| Ok(Vec::new()))?;
    options.update(&kwargs.options);
    let splits = located(declared, locate)?;
    Ok(Plan { dataset: location.into(), format, options, splits, features: None })
}

/// The files of patterns that do not belong to a folder.
fn located(declared: &Patterns, locate: &dyn Locate) -> Result<Vec<(String, Vec<Location>)>, Error> {
    let mut splits = Vec::with_capacity(declared.len());
    for (split, patterns) in declared {
        let mut files = Vec::new();
        for pattern in patterns {
            match locate.outside(pattern) {
                Some(found) => files.extend(found?),
                None => {
                    return Err(ErrorKind::NotFound {
                        path: pattern.clone(),
                        tried: vec![PathBuf::from(pattern)],
                    }
                    .into());
                }
            }
        }
        splits.push((split.clone(), files));
    }
    Ok(splits)
}

/// Plans a loader by name, such as `json`.
pub(crate) fn of_loader(
    format: Format,
    loader: &str,
    kwargs: &Kwargs,
    locate: &dyn Locate,
) -> Result<Plan, Error> {
    let mut options = Dict::new();
    if loader == "tsv" {
        options.insert("sep", "\t");
    }
    options.update(&kwargs.options);
    let Some(data_files) = &kwargs.data_files else {
        return Err(Error::option(loader, "data_files", "at least one data file must be named"));
    };
    let mut declared =
        patterns::declared(data_files).map_err(|message| Error::option(loader, "data_files", message))?;
    if let Some(folder) = &kwargs.data_dir {
        for (_, patterns) in &mut declared {
            for pattern in patterns.iter_mut().filter(|pattern| !is_absolute(pattern)) {
                *pattern = format!("{}/{pattern}", folder.trim_end_matches('/'));
            }
        }
    }
    let splits = located(&declared, locate)?;
    Ok(Plan { dataset: loader.into(), format, options, splits, features: None })
}

/// The sort key of splits: training, validation and test data first, then by name.
pub(crate) fn split_rank(split: &str) -> (usize, String) {
    let rank = ["train", "validation", "test"].iter().position(|known| *known == split).unwrap_or(3);
    (rank, split.to_owned())
}

/// Plans the branch with the hub's conversion: `configuration/split/0000.parquet`.
pub(crate) fn of_converted(tree: &Arc<dyn Tree>, name: Option<&str>, kwargs: &Kwargs) -> Result<Plan, Error> {
    let location = tree.location().to_owned();
    let mut configs: Vec<(String, Splits)> = Vec::new();
    for path in tree.files().iter().filter(|path| path.ends_with(".parquet")) {
        let parts: Vec<&str> = path.split('/').collect();
        let [config, split, _] = parts[..] else { continue };
        let split = split.strip_prefix("partial-").unwrap_or(split);
        let location = Location::Tree(tree.clone(), path.clone());
        let splits = entry(&mut configs, config);
        entry(splits, split).push(location);
    }
    let available = || configs.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    let wanted = match name {
        Some(name) => name,
        None if configs.iter().any(|(config, _)| config == "default") => "default",
        None => match &configs[..] {
            [(only, _)] => only,
            [] => {
                let message = "the converted branch has no Parquet files".into();
                return Err(ErrorKind::NoDataFiles { location, message }.into());
            }
            _ => {
                return Err(ErrorKind::MissingConfig { dataset: location, available: available() }.into());
            }
        },
    };
    let Some((_, splits)) = configs.iter().find(|(config, _)| config == wanted) else {
        let name = wanted.to_owned();
        return Err(ErrorKind::UnknownConfig { dataset: location, name, available: available() }.into());
    };
    let mut splits = splits.clone();
    splits.sort_by_key(|(split, _)| split_rank(split));
    Ok(Plan {
        dataset: location,
        format: Format::Parquet,
        options: kwargs.options.clone(),
        splits,
        features: None,
    })
}

/// The value of a key in a list of pairs, inserted if absent.
fn entry<'m, T: Default>(pairs: &'m mut Vec<(String, T)>, key: &str) -> &'m mut T {
    let index = pairs.iter().position(|(known, _)| known == key).unwrap_or_else(|| {
        pairs.push((key.to_owned(), T::default()));
        pairs.len() - 1
    });
    &mut pairs[index].1
}
