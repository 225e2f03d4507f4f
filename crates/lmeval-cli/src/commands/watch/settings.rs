//! From the command line to a watcher.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, bail};
use fs_err as fs;
use lmeval_analysis::curve::{Curves, Goal, StepPattern};
use lmeval_analysis::read::has_extension;
use lmeval_core::Diagnostic;
use lmeval_pycompat::json::{self, Options as JsonOptions};
use lmeval_pycompat::{Dict, Value};

use super::arguments::WatchArgs;
use super::find::Finder;
use super::publish::Publisher;
use super::revisions::Hub;
use super::store::Store;
use super::tracking::Tracking;
use super::watcher::{Source, Until, Watcher};
use crate::printer::Printer;
use crate::settings::{Options, ProgressMode, RunSettings};
use crate::{python, roots};

/// Settings that are the watcher's own. Trackers get one run with all steps, instead of one per checkpoint.
const OWN: [&str; 5] = ["view", "wandb_args", "wandb_config_args", "trackio_args", "output_path"];

/// The model of checkpoints if none is named.
const MODEL: &str = "hf";

/// The shortest time between two requests to the hub.
const HUB_PAUSE: Duration = Duration::from_mins(1);

/// Checks everything that can be checked before there is a checkpoint, and creates the watcher.
pub(super) fn prepare(arguments: &WatchArgs, printer: &mut Printer) -> Result<Watcher> {
    let watch = &arguments.watch;
    let store = Store { out: output_folder(arguments)? };
    let options = options(arguments, &store)?;
    let settings = RunSettings::from_flags(&options)?;
    if options.progress == Some(ProgressMode::Json) {
        printer.notes().use_json();
    }
    if settings.output.quiet {
        printer.notes().be_quiet();
    }
    check(arguments, &settings)?;
    let pattern = watch.scores.step_pattern.as_deref().map(StepPattern::parse).transpose()?;
    let goals = watch.stop_when.iter().map(|text| Goal::parse(text)).collect::<Result<Vec<_>, _>>()?;
    // The form of a goal names a score; its value is not used.
    let best_by = watch.best_by.as_deref().map(|score| Goal::parse(&format!("{score}>=0"))).transpose()?;
    // A wrong name must not be found when the first checkpoint is there, which may be tomorrow.
    let folders = roots::resolve(&settings.library, printer)?;
    let manager = roots::manager(&folders, &settings.library)?;
    roots::load(&manager, &settings.documents.tasks, printer)?;
    fs::create_dir_all(&store.out)?;
    let store = Store { out: fs::canonicalize(&store.out)? };
    let name = name(arguments);
    let tracking = if settings.output.trackers.wandb.is_empty() && settings.output.trackers.trackio.is_empty()
    {
        None
    } else {
        let python = python::of_run(&settings, &folders, None, &printer.notes())?;
        let mut trackers = settings.output.trackers.to_dict();
        // Each evaluation pushes its own files.
        trackers.insert("hub", Dict::new());
        Some(Tracking::start(python, trackers, &store, &name)?)
    };
    let source = match &watch.revisions {
        Some(wanted) => Source::Hub(Hub::new(&arguments.folder, wanted, pattern)?),
        None => Source::Folder(Finder {
            root: PathBuf::from(&arguments.folder),
            out: store.out.clone(),
            pattern,
            ready: watch.ready.clone(),
            converts: watch.convert.is_some(),
            checked: HashMap::default(),
        }),
    };
    let poll = Duration::from_secs_f64(watch.poll);
    let mut stored = settings.stored();
    for name in OWN {
        stored.remove_str(name);
    }
    if let Some(recipe) = &options.recipe {
        // Its rows are computed at the end of each evaluation.
        stored.insert("recipe", recipe.as_str());
    }
    let own = store.out.join("tensorboard");
    let folder = |given: &str| if given.is_empty() { own } else { PathBuf::from(given) };
    let tensorboard = watch.tensorboard.as_deref().map(folder);
    Ok(Watcher {
        model: arguments.folder.clone(),
        settings: json::dumps(
            &Value::from(stored),
            &JsonOptions { allow_nan: false, ..JsonOptions::default() },
        )?,
        argument: watch.checkpoint_arg.clone(),
        poll: if watch.revisions.is_some() && !watch.once { poll.max(HUB_PAUSE) } else { poll },
        settle: Duration::from_secs_f64(watch.settle),
        is_latest_first: watch.latest,
        until: match (watch.once, watch.until_idle) {
            (true, _) => Until::Done,
            (false, Some(seconds)) => Until::Idle(Duration::from_secs_f64(seconds)),
            (false, None) => Until::Stopped,
        },
        convert: watch.convert.clone().map(|command| (command, watch.keep_converted)),
        attempts: watch.attempts,
        source,
        publisher: Publisher {
            name,
            selection: watch.scores.selection(),
            goals,
            best: watch.best.map(|count| (count, best_by)),
            tensorboard,
            tracking,
            curves: Curves::default(),
            broken: BTreeSet::new(),
            store,
        },
    })
}

/// The settings of evaluations.
fn options(arguments: &WatchArgs, store: &Store) -> Result<Options> {
    let mut options = arguments.settings.clone();
    // Documents are paired by their samples.
    options.log_samples = Some(true);
    options.output_path = Some(store.out.display().to_string());
    options.model.get_or_insert_with(|| MODEL.to_owned());
    if options.tasks.is_none() && options.recipe.is_none() && options.config.is_none() {
        let diagnostic = Diagnostic::new("`watch` does not know what to evaluate");
        bail!(diagnostic.hint("Add `--tasks NAMES` or `--recipe NAME`"));
    }
    Ok(options)
}

fn check(arguments: &WatchArgs, settings: &RunSettings) -> Result<()> {
    let (watch, given) = (&arguments.watch, &arguments.settings);
    if watch.revisions.is_none() {
        let folder = Path::new(&arguments.folder);
        if !folder.is_dir() {
            let missing = Diagnostic::new(format!("The folder `{}` does not exist", arguments.folder));
            bail!(missing.hint("Create it before training starts; `--revisions` watches a model of the hub"));
        }
    }
    for (flag, is_given) in [
        ("--shard", settings.documents.shard.is_some()),
        ("--locked", settings.locked.is_some()),
        ("--fresh", given.fresh == Some(true)),
        ("--workers", settings.model.workers.is_some()),
        ("--predict_only", settings.scoring.predict_only),
    ] {
        if is_given {
            bail!(
                Diagnostic::new(format!("`watch` has no `{flag}`"))
                    .hint("`lm-eval run` evaluates one checkpoint with it")
            );
        }
    }
    for name in [watch.checkpoint_arg.as_str(), if watch.revisions.is_some() { "revision" } else { "" }] {
        if settings.model.args.contains_str(name) {
            bail!(
                Diagnostic::new(format!(
                    "`watch` sets `{name}` itself, so it cannot be among `--model_args`"
                ))
                .hint("FOLDER says where checkpoints are; `--checkpoint-arg` names another argument")
            );
        }
    }
    if watch.best.is_some() && watch.best_by.is_none() && settings.documents.tasks.len() > 1 {
        let diagnostic = Diagnostic::new("`--best` does not say which of several tasks decides");
        bail!(diagnostic.hint("For example: `--best-by arc_easy.acc`"));
    }
    Ok(())
}

/// Where results go: beside the checkpoints, so that watchers of one folder share them.
fn output_folder(arguments: &WatchArgs) -> Result<PathBuf> {
    let given = arguments.settings.output_path.as_deref().filter(|path| !path.is_empty());
    Ok(match given {
        Some(path) if has_extension(Path::new(path), "json") => {
            bail!(
                Diagnostic::new("`watch` needs a folder for its results, not a file")
                    .hint("For example: `--output_path results`")
            )
        }
        Some(path) => PathBuf::from(path),
        None if arguments.watch.revisions.is_some() => {
            PathBuf::from("lm-eval").join(arguments.folder.replace('/', "__"))
        }
        None => PathBuf::from(&arguments.folder).join("lm-eval"),
    })
}

/// What is trained, for headings.
fn name(arguments: &WatchArgs) -> String {
    if arguments.watch.revisions.is_some() {
        return arguments.folder.clone();
    }
    let path = fs::canonicalize(&arguments.folder).unwrap_or_else(|_| PathBuf::from(&arguments.folder));
    path.file_name().map_or_else(|| arguments.folder.clone(), |name| name.to_string_lossy().into_owned())
}
