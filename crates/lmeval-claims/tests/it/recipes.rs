//! The recipes in the binary, against the installed library.

use std::path::{Path, PathBuf};

use lmeval_claims::content;
use lmeval_claims::document::Document;
use lmeval_claims::recipe::{Grade, Recipe, Row, Scored, built_in, names};
use lmeval_core::OutputType;
use lmeval_tasks::{BUILTIN_LIBRARY, Overrides, TaskDict, TaskManager};

fn recipe(text: &str) -> Result<Recipe, lmeval_claims::Error> {
    Recipe::from_document(&Document::parse(Path::new("r.yaml"), text.as_bytes())?)
}

fn load(manager: &TaskManager, word: &str) -> TaskDict {
    let specs = manager.select(&[word]).unwrap();
    manager.load(&specs, Overrides::default()).unwrap_or_else(|error| panic!("{word}: {error}"))
}

/// Whether one of the tasks, or their group, reports a metric.
fn reports(loaded: &TaskDict, metric: &str) -> bool {
    let of_tasks = loaded.tasks.values().flat_map(|task| &task.config.metric_list);
    let by_default = |task: &lmeval_tasks::Task| {
        task.config.metric_list.is_empty() && task.config.output_type == OutputType::MultipleChoice
    };
    of_tasks.into_iter().any(|own| own.metric.to_string() == metric)
        || loaded.tasks.values().any(by_default) && ["acc", "acc_norm"].contains(&metric)
}

/// Writes the digests of the installed definitions into the files of the recipes.
fn update_pins(name: &str, manager: &TaskManager) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("recipes/{name}.yaml"));
    let text = fs_err::read_to_string(&path).unwrap();
    let lines = text.lines().map(|line| {
        let Some((before, _)) = line.split_once("pin: ") else { return line.to_owned() };
        let task = before.split_once("{task: ").unwrap().1.split([',', '}']).next().unwrap();
        format!("{before}pin: {}}}", content::digest(&load(manager, task)))
    });
    fs_err::write(&path, lines.collect::<Vec<_>>().join("\n") + "\n").unwrap();
}

#[test]
fn every_recipe_is_valid_for_the_installed_library() {
    let library = lmeval_testkit::reference_library();
    let roots = [Some(PathBuf::from(BUILTIN_LIBRARY)), library.clone()];
    let manager = TaskManager::new(&roots.into_iter().flatten().collect::<Vec<_>>());
    for name in names() {
        let recipe = Recipe::open(name).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(recipe.name, name);
        assert!(!recipe.description.is_empty());
        if library.is_none() && name != "demo" {
            continue;
        }
        if std::env::var_os("UPDATE_PINS").is_some() {
            update_pins(name, &manager);
            continue;
        }
        for task in &recipe.tasks {
            let loaded = load(&manager, &task.word);
            let metric = task.metric.as_deref().unwrap();
            assert!(reports(&loaded, metric), "{name}: {} has no metric {metric}", task.word);
            let pin = task.pin.as_deref().unwrap();
            let found = content::digest(&load(&manager, task.name()));
            assert_eq!(found, pin, "{name}: {} has changed; `UPDATE_PINS=1` writes the new one", task.name());
        }
        for (task, metric) in recipe.rows.all().flat_map(Row::tasks) {
            assert!(reports(&load(&manager, task), metric), "{name}: {task} has no metric {metric}");
        }
        for score in recipe.expected.iter().flat_map(|expected| &expected.scores) {
            let Scored::Task(task) = &score.of else { continue };
            let metric = score.metric.as_deref().unwrap();
            assert!(reports(&load(&manager, task), metric), "{name}: {task} has no metric {metric}");
        }
    }
}

#[test]
fn published_scores_are_those_of_their_source() {
    let pythia = Recipe::open("pythia").unwrap();
    assert_eq!(pythia.expected.len(), 7);
    let of = |model: &str| pythia.expected_of(model).next().unwrap();
    let found = of("EleutherAI/pythia-160m").scores.iter().find(|score| {
        score.of == Scored::Task("sciq:0".to_owned()) && score.metric.as_deref() == Some("acc")
    });
    let found = found.unwrap();
    assert_eq!((found.value, found.stderr, found.documents), (0.741, Some(0.0139), Some(1000)));
    assert_eq!(of("/models/pythia-160m/").model, "EleutherAI/pythia-160m");
    assert_eq!(of("eleutherai/PYTHIA-v1.1-160m").grade, Grade::A);
    assert!(pythia.expected_of("pythia-160m-deduped").all(|expected| expected.model.ends_with("deduped")));
    assert!(pythia.expected_of("gpt2").next().is_none());
}

#[test]
fn wrong_recipes_are_refused_with_the_line() {
    let base = "recipe: r\ntasks: [a]\n";
    for (text, problem, line) in [
        ("tasks: [a]\n", "not a recipe", "r.yaml:1"),
        ("recipe: r\ntask: [a]\n", "Unknown key `task`", "r.yaml:2"),
        ("recipe: r\ntasks: []\n", "at least one task", "r.yaml:2"),
        ("recipe: r\ntasks: [a, a]\n", "`a` is listed twice", "r.yaml:2"),
        ("recipe: r\ntasks:\n- a\n- folder/x.yaml\n", "not the name of a task", "r.yaml:4"),
        ("recipe: r\ntasks:\n- {task: a, shots: 5}\n", "Unknown key `shots`", "r.yaml:3"),
        ("recipe: r\ntasks:\n- a:repeats=x\n", "`repeats` must be", "r.yaml:3"),
        (&format!("{base}settings:\n  model: hf\n"), "Unknown key `model`", "r.yaml:4"),
        (
            &format!("{base}rows:\n- {{name: x, of: {{task: a, metric: acc, chance: 1}}}}\n"),
            "`chance` must be",
            "r.yaml:4",
        ),
        (&format!("{base}rows:\n- {{name: x, of: {{row: y}}}}\n"), "not a row above", "r.yaml:4"),
        (
            &format!("{base}rows:\n- {{name: x, of: {{task: \"a:5\", metric: acc}}}}\n"),
            "does not evaluate",
            "r.yaml:4",
        ),
        (
            &format!("{base}rows:\n- {{name: x, combine: best, of: {{task: a, metric: acc}}}}\n"),
            "`combine` must be",
            "r.yaml:4",
        ),
        (
            &format!("{base}expected:\n- {{model: m, grade: F, source: s, scores: []}}\n"),
            "`grade` must be",
            "r.yaml:4",
        ),
        (
            &format!(
                "{base}expected:\n- model: m\n  grade: A\n  source: s\n  scores:\n  - {{task: b, metric: acc, value: 1}}\n"
            ),
            "does not evaluate `b`",
            "r.yaml:8",
        ),
        (
            &format!(
                "{base}expected:\n- model: m\n  grade: A\n  source: s\n  scores:\n  - {{task: a, value: 1}}\n"
            ),
            "needs `metric`",
            "r.yaml:8",
        ),
    ] {
        let error = recipe(text).unwrap_err();
        assert!(error.message.contains(problem), "{text}: {}", error.message);
        assert_eq!(error.location.as_ref().map(ToString::to_string).as_deref(), Some(line), "{text}");
    }
    let error = Recipe::open("pithia").unwrap_err();
    assert!(error.hints.iter().any(|hint| hint.contains("`pythia`")), "{:?}", error.hints);
}

#[test]
fn comments_do_not_change_what_a_recipe_is() {
    let with = |text: &str| recipe(text).unwrap().digest();
    let plain = with("recipe: r\ntasks: [a]\n");
    assert_eq!(with("# note\nrecipe: r   # name\n\ntasks:\n- a\n"), plain);
    assert_ne!(with("recipe: r\ntasks: [a, b]\n"), plain);
    assert!(built_in("none").unwrap().is_none());
}
