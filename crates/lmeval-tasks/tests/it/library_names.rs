//! Every name that the scoring of the released task library uses, and the code that computes it.
//!
//! `library_names.txt` is the expected table; `UPDATE_NAMES=1 cargo test -p lmeval-tasks library_names` rewrites it. A
//! changed line is either a gap to close or a new name to accept. Slow, because it loads the entire library.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use lmeval_core::Dialect;
use lmeval_pycompat::{Dict, Function, Value};
use lmeval_scoring::filters::{Filter, FilterDocs, Noop};
use lmeval_scoring::scorers::{HostAggregation, HostMetric, HostReduction, ScoringSources, TaskCode};
use lmeval_scoring::{Host, HostError};
use lmeval_tasks::scoring::{ArgumentUse, ComputedBy, ScoringUse, prepare_scoring, scoring_uses};
use lmeval_tasks::{Group, Overrides, Severity, Spec, Task, TaskDict, TaskManager};
use lmeval_testkit::reference_library;

use crate::support::Library;

/// A Python host that has every function.
#[derive(Debug)]
pub(crate) struct AnyFunction;

impl HostMetric for AnyFunction {
    fn compute(&self, _: &Value, _: &Value, _: &Dict) -> Result<Value, HostError> {
        Ok(Value::None)
    }
}

impl HostAggregation for AnyFunction {
    fn aggregate(&self, _: &[Value]) -> Result<Value, HostError> {
        Ok(Value::None)
    }
}

impl HostReduction for AnyFunction {
    fn reduce(&self, _: &Value, _: &[Value]) -> Result<Value, HostError> {
        Ok(Value::None)
    }
}

impl TaskCode for AnyFunction {
    fn process_results(&self, _: &Arc<Dict>, _: &[Value]) -> Result<Option<Dict>, HostError> {
        Ok(None)
    }
}

impl Host for AnyFunction {
    fn call_filter(
        &self,
        _: &Function,
        responses: Vec<Value>,
        _: &FilterDocs<'_>,
    ) -> Result<Vec<Value>, HostError> {
        Ok(responses)
    }

    fn filter_of_class(&self, _: &Function, _: &Dict) -> Result<Box<dyn Filter>, HostError> {
        Ok(Box::new(Noop))
    }

    fn check_filter(&self, _: &Function) -> Result<(), HostError> {
        Ok(())
    }

    fn metric(&self, _: &Arc<Function>) -> Result<Arc<dyn HostMetric>, HostError> {
        Ok(Arc::new(Self))
    }

    fn aggregation(&self, _: &Arc<Function>) -> Result<Arc<dyn HostAggregation>, HostError> {
        Ok(Arc::new(Self))
    }

    fn reduction(&self, _: &Arc<Function>) -> Result<Arc<dyn HostReduction>, HostError> {
        Ok(Arc::new(Self))
    }

    fn process_results(&self, _: &Arc<Function>) -> Result<Arc<dyn TaskCode>, HostError> {
        Ok(Arc::new(Self))
    }
}

/// Names by heading, and inconsistencies.
#[derive(Default)]
struct Found {
    names: BTreeMap<String, BTreeSet<String>>,
    wrong: Vec<String>,
    tasks: usize,
}

/// The sources of a run without Python, and of runs with Python in both dialects.
struct Sources {
    without_python: ScoringSources,
    with_python: [(Dialect, ScoringSources); 2],
}

impl Sources {
    fn new() -> Self {
        let with_python = Dialect::ALL.map(|dialect| {
            let mut sources = ScoringSources::new(&dialect);
            sources.host = Arc::new(AnyFunction);
            (dialect, sources)
        });
        Self { without_python: ScoringSources::new(&Dialect::V05), with_python }
    }
}

impl Found {
    fn add(&mut self, heading: impl Into<String>, name: impl Into<String>) {
        self.names.entry(heading.into()).or_default().insert(name.into());
    }

    fn task(&mut self, task: &Task, sources: &Sources) {
        self.tasks += 1;
        let uses = scoring_uses(&task.config, &sources.without_python);
        for used in &uses {
            self.used(used);
        }
        // The table must match what happens when a run prepares scoring.
        let never =
            |by: &ComputedBy| matches!(by, ComputedBy::Evaluate | ComputedBy::TaskCode | ComputedBy::Nobody);
        let runs_with_python = !uses.iter().any(|used| never(&used.by));
        let runs_without =
            runs_with_python && !uses.iter().any(|used| matches!(used.by, ComputedBy::Function(_)));
        for (dialect, sources) in &sources.with_python {
            if prepare_scoring(task, sources, false).is_ok() != runs_with_python {
                self.wrong.push(format!("{} with Python, {dialect}", task.name()));
            }
        }
        match prepare_scoring(task, &sources.without_python, false) {
            Ok(_) if runs_without => {}
            Err(error)
                if !runs_without
                    && error.message().contains("needs Python")
                    && error.location().is_some()
                    && error.message().starts_with('`') => {}
            other => self.wrong.push(format!("{} without Python: {:?}", task.name(), other.err())),
        }
    }

    fn used(&mut self, used: &ScoringUse) {
        let kind = used.kind.word();
        self.add(format!("{kind}: {}", used.by), &used.name);
        for (argument, becomes) in &used.arguments {
            let becomes = match (becomes, &used.by) {
                (ArgumentUse::PassedOn, by) => format!("{becomes}, {by}"),
                _ => becomes.to_string(),
            };
            self.add(format!("argument of a {kind}: {becomes}"), format!("{}.{argument}", used.name));
        }
    }

    fn group(&mut self, group: &Group) {
        // A group that loads averages its entries, so all of it is built in.
        let Some(list) = group.mapping().get("aggregate_metric_list") else { return };
        let entries = list.as_list().unwrap_or(std::slice::from_ref(list));
        for (entry, metric) in entries.iter().zip(&group.config.aggregate_metric_list) {
            self.add("metric of a group: built in", &metric.metric);
            for (key, value) in entry.as_dict().unwrap().iter() {
                let key = key.as_str().unwrap();
                self.add("argument of a group's metric: built in", key);
                if key == "aggregation" {
                    let heading = match value {
                        Value::Function(_) => "aggregation of a group: no effect",
                        _ => "aggregation of a group: built in",
                    };
                    self.add(heading, value.as_str().unwrap_or("!function"));
                }
            }
        }
    }

    fn merge(&mut self, other: Self) {
        for (heading, names) in other.names {
            self.names.entry(heading).or_default().extend(names);
        }
        self.wrong.extend(other.wrong);
        self.tasks += other.tasks;
    }

    fn table(&self) -> String {
        let mut table = String::new();
        for (heading, names) in &self.names {
            let _ = writeln!(table, "[{heading}]");
            for name in names {
                let _ = writeln!(table, "{name}");
            }
            table.push('\n');
        }
        table
    }
}

/// Loads names together, since they share files, or one by one if one of them is broken.
fn load(manager: &TaskManager, names: &[&str]) -> Vec<TaskDict> {
    let load = |names: &[&str]| {
        let specs: Vec<Spec> = names.iter().map(|name| Spec::from(*name)).collect();
        manager.load(&specs, Overrides::default()).ok()
    };
    match load(names) {
        Some(loaded) => vec![loaded],
        // Groups that the reference refuses as well are listed where the library is validated.
        None => names.iter().filter_map(|name| load(&[name])).collect(),
    }
}

fn find_all(manager: &TaskManager) -> Found {
    let names: Vec<&str> = manager.all_subtasks().into_iter().chain(manager.all_groups()).collect();
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let sources = &Sources::new();
    let mut all = Found::default();
    std::thread::scope(|scope| {
        let chunks = names.chunks(names.len().div_ceil(workers).max(1));
        let started: Vec<_> = chunks
            .map(|chunk| {
                scope.spawn(move || {
                    let mut found = Found::default();
                    for names in chunk.chunks(500) {
                        for loaded in load(manager, names) {
                            loaded.tasks.values().for_each(|task| found.task(task, sources));
                            loaded.groups.values().for_each(|group| found.group(group));
                        }
                    }
                    found
                })
            })
            .collect();
        for worker in started {
            all.merge(worker.join().unwrap());
        }
    });
    all
}

#[test]
fn every_name_is_computed_by_something() {
    let Some(library) = reference_library() else { return };
    let found = find_all(&TaskManager::new(&[library]));
    assert!(found.tasks > 13_000, "only {} tasks", found.tasks);
    assert!(found.wrong.is_empty(), "{} tasks, the first: {:#?}", found.wrong.len(), found.wrong.first());
    let never = |heading: &String| heading.contains("unknown") || heading.contains("refused");
    assert!(!found.names.keys().any(never), "{:?}", found.names.keys());
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/library_names.txt");
    let table = found.table();
    if std::env::var_os("UPDATE_NAMES").is_some() {
        fs_err::write(&path, table).unwrap();
        return;
    }
    let known = fs_err::read_to_string(&path).unwrap_or_default();
    let rows = |table: &str| -> BTreeSet<String> {
        let sections = table.split("\n\n").filter_map(|section| section.split_once('\n'));
        let row = |(heading, names): (&str, &str)| -> Vec<String> {
            names.lines().map(|name| format!("{heading} {name}")).collect()
        };
        sections.flat_map(row).collect()
    };
    let (ours, known) = (rows(&table), rows(&known));
    let new: Vec<&String> = ours.difference(&known).collect();
    let gone: Vec<&String> = known.difference(&ours).collect();
    assert!(new.is_empty() && gone.is_empty(), "new: {new:#?}, gone: {gone:#?}");
}

#[test]
fn missing_code_error_names_the_key() {
    let message = |rest: &str| {
        let task = crate::prompt_support::task(&format!(
            "task: t\ntest_split: test\ndoc_to_text: q\ndoc_to_target: a\n{rest}\n"
        ));
        let sources = ScoringSources::new(&Dialect::V05);
        let error = prepare_scoring(&task, &sources, false).unwrap_err();
        (error.message().to_owned(), error.hints().to_vec())
    };
    let (text, hints) = message("metric_list: [{metric: exact_match}, {metric: rouge}]");
    assert_eq!(text, "`metric_list[1].metric`: the metric `rouge` needs Python's `evaluate` package");
    assert_eq!(hints[0], "Built in, without Python: rouge1, rouge2, rougeL, rougeLsum");
    assert!(hints[1].contains("process_results"), "{hints:?}");
    let (text, _) = message("metric_list: [{metric: f1, hf_evaluate: true}]");
    assert_eq!(text, "`metric_list[0].metric`: the metric `f1` needs Python's `evaluate` package");
    for (rest, expected) in [
        (
            "metric_list: [{metric: !function m.score}]",
            "`metric_list[0].metric`: the function `m.score` needs Python",
        ),
        (
            "metric_list: [{metric: exact_match, aggregation: !function m.mean}]",
            "`metric_list[0].aggregation`: the function `m.mean` needs Python",
        ),
        ("process_results: !function m.process", "`process_results`: the function `m.process` needs Python"),
        (
            "filter_list: [{name: a, filter: [{function: custom, filter_fn: !function m.clean}]}]",
            "`filter_list[0].filter[0].function`: the filter `custom` calls `m.clean`, which needs Python",
        ),
        (
            "filter_list: [{name: a, filter: [{function: !function m.Filter}]}]",
            "`filter_list[0].filter[0].function`: the function `m.Filter` needs Python",
        ),
        (
            "filter_list: [{name: a, filter: [{function: ACP_grammar_filter, grammar_task: act}]}]",
            "`filter_list[0].filter[0].function`: the filter `ACP_grammar_filter` needs Python, since the task library \
             implements it",
        ),
        ("metric_list: [{metric: acc_all}]", "`metric_list[0].metric`: `acc_all` is not a known metric"),
    ] {
        assert_eq!(message(rest).0, expected, "{rest}");
    }
}

#[test]
fn built_in_metrics_replace_the_evaluate_package() {
    let ready = |rest: &str| {
        let task = crate::prompt_support::task(&format!(
            "task: t\ntest_split: test\ndoc_to_text: q\ndoc_to_target: a\n{rest}\n"
        ));
        let sources = ScoringSources::new(&Dialect::V05);
        prepare_scoring(&task, &sources, false).map(|_| ()).map_err(|error| error.to_string())
    };
    for rest in [
        "metric_list: [{metric: exact_match, hf_evaluate: true, ignore_case: true}]",
        "metric_list: [{metric: rougeL, use_stemmer: true}, {metric: squad_f1, reduction: 'maj@3'}]",
        "output_type: multiple_choice\ndoc_to_choice: [a, b]\nmetric_list: [{metric: f1, hf_evaluate: true, average: macro}]",
    ] {
        assert_eq!(ready(rest), Ok(()), "{rest}");
    }
}

#[test]
fn validation_warns_about_missing_packages() {
    let findings = |rest: &str| -> Vec<(Severity, String)> {
        let library = Library::new(&[("t.yaml", &crate::support::task("t", rest))]);
        let findings = library.manager().validate(&[Spec::from("t")]);
        findings.into_iter().map(|finding| (finding.severity, finding.diagnostic.message)).collect()
    };
    let warning = |message: &str| vec![(Severity::Warning, message.to_owned())];
    assert_eq!(
        findings("metric_list: [{metric: wer}]"),
        warning("`metric_list[0].metric`: the metric `wer` needs Python's `evaluate` package")
    );
    assert_eq!(findings("metric_list: [{metric: exact_match, hf_evaluate: true}]"), []);
    assert_eq!(
        findings("output_type: loglikelihood\nmetric_list: [{metric: acc_all}]"),
        [(
            Severity::Error,
            "`metric_list[0].metric`: the values of the metric `acc_all` come from `process_results`"
                .to_owned()
        )]
    );
    assert_eq!(
        findings("metric_list: [{metric: rougel}]"),
        [(Severity::Error, "`metric_list[0].metric`: `rougel` is not a known metric".to_owned())]
    );
}
