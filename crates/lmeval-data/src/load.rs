//! Resolves a `dataset_path` and loads it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use lmeval_core::DatasetRequest;
use lmeval_hub::{Client, Kind, Repository, fetch_address};

use crate::error::{Error, ErrorKind};
use crate::formats::{self, Format};
use crate::glob;
use crate::kwargs::Kwargs;
use crate::patterns;
use crate::plan::{self, Locate, Plan, is_absolute};
use crate::read;
use crate::saved;
use crate::settings::Settings;
use crate::split::DatasetDict;
use crate::tree::{Folder, Location, Tree};

/// The branch with the hub's Parquet conversion of a dataset.
const CONVERTED: &str = "refs/convert/parquet";

/// Loaders of the reference that are not supported.
const OTHER_LOADERS: [&str; 12] = [
    "pandas",
    "videofolder",
    "pdffolder",
    "niftifolder",
    "webdataset",
    "xml",
    "hdf5",
    "eval",
    "lance",
    "conll",
    "sql",
    "harbor",
];

/// Loads the splits of a request.
///
/// Files are scanned once, for the offsets of rows and the types of columns; rows are read on demand. Datasets on
/// the hub are downloaded into the cache shared with Python.
pub fn load(request: &DatasetRequest, settings: &Settings) -> Result<DatasetDict, Error> {
    let loader = Loader { request, settings, client: OnceLock::new() };
    let plan = loader.plan()?;
    read::read(&plan, request)
}

struct Loader<'r> {
    request: &'r DatasetRequest,
    settings: &'r Settings,
    client: OnceLock<Arc<Client>>,
}

impl Loader<'_> {
    fn plan(&self) -> Result<Plan, Error> {
        let request = self.request;
        let name = request.name.as_deref();
        let kwargs = Kwargs::new(&request.kwargs, &request.path)?;
        let copies = request.dataset_dir.as_ref().map(|folder| self.settings.working_directory.join(folder));
        let copy = copies.map(|folder| folder.join(&request.path));
        if let Some(folder) = copy.as_ref().filter(|folder| folder.is_dir()) {
            return self.folder(folder, name, &kwargs);
        }
        let path = request.path.as_str();
        if let (Some(format @ Format::Files(_)), Some(folder), None) =
            (Format::from_loader(path), &kwargs.data_dir, &kwargs.data_files)
        {
            return self.files_folder(format, folder, &kwargs);
        }
        if let Some(format) = Format::from_loader(path) {
            return plan::of_loader(format, path, &kwargs, self);
        }
        if OTHER_LOADERS.contains(&path) {
            return Err(ErrorKind::Unsupported { what: format!("The loader `{path}`") }.into());
        }
        if Path::new(path).extension().is_some_and(|ending| ending == "py") {
            return Err(ErrorKind::Script { dataset: path.into(), script: path.into() }.into());
        }
        if let Some(id) = path.strip_prefix("hf://datasets/") {
            return self.hub(id, name, &kwargs);
        }
        if let Some(folder) = self.candidates(path).into_iter().find(|folder| folder.is_dir()) {
            return self.folder(&folder, name, &kwargs);
        }
        if formats::is_data(path)
            && let Some(plan) = self.single_file(path, &kwargs)?
        {
            return Ok(plan);
        }
        let is_id = !is_absolute(path)
            && !path.starts_with('.')
            && path.matches('/').count() <= 1
            && !path.is_empty();
        if is_id {
            let looked_in: Vec<PathBuf> = copy.into_iter().chain(self.candidates(path)).collect();
            self.settings.hub.progress.no_local_copy(path, &looked_in);
            return self.hub(path, name, &kwargs).map_err(|error| error.after_looking_in(looked_in));
        }
        Err(ErrorKind::NotFound { path: path.into(), tried: self.candidates(path) }.into())
    }

    /// The candidate locations of a relative path, in order.
    fn candidates(&self, path: &str) -> Vec<PathBuf> {
        let here = self.settings.working_directory.join(path);
        let base = self.request.base.as_ref().filter(|_| !is_absolute(path));
        let beside = base.map(|base| self.settings.working_directory.join(base).join(path));
        let mut candidates = vec![here];
        candidates.extend(beside.filter(|beside| *beside != candidates[0]));
        candidates
    }

    fn folder(&self, folder: &Path, name: Option<&str>, kwargs: &Kwargs) -> Result<Plan, Error> {
        if kwargs.data_files.is_none()
            && kwargs.data_dir.is_none()
            && let Some(plan) = saved::plan(folder, name)?
        {
            return Ok(plan);
        }
        let script = folder.file_name().map(|name| format!("{}.py", name.to_string_lossy()));
        if let Some(script) = script.filter(|script| folder.join(script).is_file()) {
            return Err(ErrorKind::Script { dataset: folder.display().to_string(), script }.into());
        }
        let tree: Arc<dyn Tree> = Arc::new(Folder::new(folder)?);
        plan::of_tree(&tree, name, kwargs, self)
    }

    /// The folder of the loaders `imagefolder` and `audiofolder`.
    fn files_folder(&self, format: Format, folder: &str, kwargs: &Kwargs) -> Result<Plan, Error> {
        let candidates = self.candidates(folder);
        let Some(found) = candidates.iter().find(|folder| folder.is_dir()) else {
            return Err(ErrorKind::NotFound { path: folder.into(), tried: candidates }.into());
        };
        let tree: Arc<dyn Tree> = Arc::new(Folder::new(found)?);
        let kwargs = Kwargs { data_dir: None, ..kwargs.clone() };
        let plan = plan::of_tree(&tree, None, &kwargs, self)?;
        if plan.format != format {
            let message = format!("it has no files for the loader `{}`", format.name());
            return Err(ErrorKind::NoDataFiles { location: folder.into(), message }.into());
        }
        Ok(plan)
    }

    /// Handles a path that is itself a data file: its rows are the split `train`.
    fn single_file(&self, path: &str, kwargs: &Kwargs) -> Result<Option<Plan>, Error> {
        let files = match self.outside(path) {
            Some(Ok(files)) if !files.is_empty() => files,
            _ => return Ok(None),
        };
        let names = [("train".to_owned(), vec![path.to_owned()])];
        let (format, mut options) = formats::of_splits(&names, path, &|_| Ok(Vec::new()))?;
        options.update(&kwargs.options);
        let splits = vec![("train".into(), files)];
        Ok(Some(Plan { dataset: path.into(), format, options, splits, features: None }))
    }

    fn client(&self) -> Result<Arc<Client>, Error> {
        if let Some(client) = self.client.get() {
            return Ok(client.clone());
        }
        let client = Arc::new(Client::new(&self.settings.hub)?);
        Ok(self.client.get_or_init(|| client).clone())
    }

    fn hub(&self, id: &str, name: Option<&str>, kwargs: &Kwargs) -> Result<Plan, Error> {
        let client = self.client()?;
        let (id, revision) =
            id.split_once('@').map_or((id, None), |(id, revision)| (id, Some(revision.to_owned())));
        let revision = kwargs.revision.clone().or(revision).unwrap_or_else(|| "main".into());
        let open = |revision: &str| -> Result<Arc<dyn Tree>, Error> {
            Ok(Arc::new(Repository::open_or_cached(&client, Kind::Dataset, id, revision)?))
        };
        if revision == CONVERTED && kwargs.data_files.is_none() {
            return plan::of_converted(&open(CONVERTED)?, name, kwargs);
        }
        let tree = open(&revision)?;
        let script = format!("{}.py", id.rsplit('/').next().unwrap_or(id));
        let problem = if tree.files().contains(&script) && kwargs.data_files.is_none() {
            ErrorKind::Script { dataset: id.into(), script }.into()
        } else {
            match plan::of_tree(&tree, name, kwargs, self) {
                Err(error) if matches!(error.kind(), ErrorKind::NoDataFiles { .. }) => error,
                other => return other,
            }
        };
        // The hub converts most datasets; its copy needs neither scripts nor guesses about files.
        if kwargs.data_files.is_some() || kwargs.data_dir.is_some() {
            return Err(problem);
        }
        match open(CONVERTED).and_then(|tree| plan::of_converted(&tree, name, kwargs)) {
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::UnknownConfig { .. } | ErrorKind::MissingConfig { .. }
                ) =>
            {
                Err(error)
            }
            Err(_) => Err(problem),
            plan => plan,
        }
    }

    /// Files in a repository: `org/name@revision/path`.
    fn repository_files(&self, address: &str) -> Result<Vec<Location>, Error> {
        let unreadable =
            || ErrorKind::NotFound { path: format!("hf://datasets/{address}"), tried: Vec::new() };
        let (organisation, rest) = address.split_once('/').ok_or_else(unreadable)?;
        let (name, pattern) = rest.split_once('/').ok_or_else(unreadable)?;
        let (name, revision) = name.split_once('@').unwrap_or((name, "main"));
        let id = format!("{organisation}/{name}");
        let revision = revision.replace("%2F", "/");
        let tree: Arc<dyn Tree> =
            Arc::new(Repository::open_or_cached(&self.client()?, Kind::Dataset, &id, &revision)?);
        let found = patterns::select(tree.files(), pattern);
        if found.is_empty() {
            let tried = vec![PathBuf::from(format!("hf://datasets/{address}"))];
            return Err(ErrorKind::NotFound { path: pattern.into(), tried }.into());
        }
        Ok(found.into_iter().map(|path| Location::Tree(tree.clone(), path)).collect())
    }

    fn virtual_file(&self, path: &Path) -> Option<Location> {
        let content = self.settings.virtual_files?(path)?;
        Some(Location::Embedded(path.display().to_string(), content))
    }
}

impl Locate for Loader<'_> {
    fn outside(&self, pattern: &str) -> Option<Result<Vec<Location>, Error>> {
        if let Some(address) = pattern.strip_prefix("hf://datasets/") {
            return Some(self.repository_files(address));
        }
        if pattern.starts_with("https://") || pattern.starts_with("http://") {
            let fetched = self.client().and_then(|client| Ok(fetch_address(&client, pattern)?));
            return Some(fetched.map(|path| vec![Location::Disk(path)]));
        }
        let mut tried = Vec::new();
        let bases = [Some(self.settings.working_directory.clone()), self.request.base.clone()];
        for base in bases.into_iter().flatten() {
            let in_program = |path: &Path| path.to_string_lossy().starts_with("builtin:");
            let path =
                if pattern.starts_with("builtin:") { PathBuf::from(pattern) } else { base.join(pattern) };
            if in_program(&path) {
                if let Some(file) = self.virtual_file(&path) {
                    return Some(Ok(vec![file]));
                }
            } else {
                match glob::local(&self.settings.working_directory.join(&base), pattern) {
                    Ok(files) if files.is_empty() => {}
                    Ok(files) => return Some(Ok(files.into_iter().map(Location::Disk).collect())),
                    Err(error) => return Some(Err(error)),
                }
            }
            if !tried.contains(&path) {
                tried.push(path);
            }
        }
        Some(Err(ErrorKind::NotFound { path: pattern.into(), tried }.into()))
    }
}
