//! Reports: the pages of one or two runs in one HTML file, with their data inside.

use std::io::{self, Write};
use std::path::PathBuf;

use base64::engine::general_purpose::STANDARD;
use base64::write::EncoderWriter;
use flate2::Compression;
use flate2::write::GzEncoder;
use lmeval_analysis::read::Run;
use lmeval_analysis::samples::Outcome;
use lmeval_core::Diagnostic;
use serde::Serialize;

use crate::Error;
use crate::address::encode;
use crate::api::Excerpt;
use crate::assets::{SCRIPT, STYLE, policy_hash};
use crate::catalog::{FoundRun, is_curve};
use crate::index::FileIndex;
use crate::query::Query;
use crate::samples::{Page, page};
use crate::viewer::{Opened, Viewer, to_json};

/// Samples of a task in a report unless asked otherwise.
pub const SAMPLES: usize = 200;

/// Counts of samples in a report.
#[derive(Clone, Debug, Default)]
pub struct Contents {
    /// Samples in the file.
    pub shown: usize,
    /// Samples of the runs.
    pub of: usize,
    /// Files that are not as the runs wrote them, a sentence about each.
    pub changes: Vec<String>,
}

/// Writes a report of one run, or of several and their comparison with the first. `limit` is the number of samples per
/// task and filter pipeline, wrong ones first; `None` for all.
pub fn write_report(
    paths: &[PathBuf],
    limit: Option<usize>,
    output: &mut dyn Write,
) -> Result<Contents, Error> {
    if SCRIPT.contains("</script") || SCRIPT.contains("<!--") || STYLE.contains("</style") {
        return Err(Diagnostic::new("The viewer of this build cannot be put into one file").into());
    }
    let mut files = Vec::new();
    for path in paths {
        files.push(if is_curve(path) { path.clone() } else { Run::open(path)?.path });
    }
    let viewer = Viewer::new(&files)?;
    let found = viewer.catalog.scan();
    let runs: Vec<FoundRun> = files
        .iter()
        .filter_map(|file| {
            let path = fs_err::canonicalize(file).ok()?;
            found.iter().find(|run| run.path == path).cloned()
        })
        .collect();
    let mut names: Vec<String> = runs.iter().map(|run| run.shown.clone()).collect();
    names.extend(paths.iter().filter(|path| is_curve(path)).map(|path| path.display().to_string()));
    let cannot_write = |error: io::Error| Diagnostic::new("Cannot write the report").caused_by(error);
    output.write_all(head(&names.join(", ")).as_bytes()).map_err(cannot_write)?;
    let mut encoder = GzEncoder::new(EncoderWriter::new(&mut *output, &STANDARD), Compression::best());
    encoder.write_all(b"{\"responses\":{").map_err(cannot_write)?;
    let mut writer = Responses { output: &mut encoder, is_first: true };
    let contents = fill(&viewer, &runs, limit, &mut writer)?;
    encoder.write_all(b"}}").map_err(cannot_write)?;
    let mut base64 = encoder.finish().map_err(cannot_write)?;
    base64.finish().map_err(cannot_write)?;
    drop(base64);
    output.write_all(foot().as_bytes()).map_err(cannot_write)?;
    output.flush().map_err(cannot_write)?;
    Ok(contents)
}

/// Writes answers by address.
struct Responses<'a> {
    output: &'a mut dyn Write,
    is_first: bool,
}

impl Responses<'_> {
    fn add(&mut self, path: &str, parameters: &[(&str, &str)], value: &impl Serialize) -> Result<(), Error> {
        let mut sorted = parameters.to_vec();
        sorted.sort_unstable();
        let pairs: Vec<String> =
            sorted.iter().map(|(name, value)| format!("{name}={}", encode(value))).collect();
        let key = if pairs.is_empty() { path.to_owned() } else { format!("{path}?{}", pairs.join("&")) };
        let comma = if self.is_first { "" } else { "," };
        self.is_first = false;
        write!(self.output, "{comma}{}:{}", to_json(&key), to_json(value))
            .map_err(|error| Diagnostic::new("Cannot write the report").caused_by(error).into())
    }
}

fn fill(
    viewer: &Viewer,
    runs: &[FoundRun],
    limit: Option<usize>,
    writer: &mut Responses<'_>,
) -> Result<Contents, Error> {
    let mut list = viewer.catalog.list_runs(false);
    list.runs.retain(|listed| runs.iter().any(|run| run.id == listed.head.id));
    list.paths = runs.iter().map(|run| run.shown.clone()).collect();
    list.problems.clear();
    for curve in &mut list.curves {
        curve.live = false;
    }
    writer.add("api/runs", &[], &list)?;
    for curve in &list.curves {
        let key = [("curve", curve.id.as_str())];
        let parameters = [("curve".to_owned(), curve.id.clone())];
        writer.add("api/curve", &key, &viewer.curve(&parameters).map_err(|refusal| refusal.error)?)?;
        writer.add("api/drawing", &key, &viewer.drawing(&parameters).map_err(|refusal| refusal.error)?)?;
    }
    let mut contents = Contents::default();
    for run in runs {
        let detail = viewer.describe(run).map_err(|refusal| refusal.error)?;
        writer.add("api/run", &[("run", &run.id)], &detail)?;
        let opened = viewer.open_run(run).map_err(|refusal| refusal.error)?;
        contents.changes.extend(opened.results_change());
        for file in &opened.samples {
            let task = viewer.open_task(run, &file.task).map_err(|refusal| refusal.error)?;
            let found = add_task(viewer, &task, limit, writer)?;
            contents.shown += found.shown;
            contents.of += found.of;
            contents.changes.extend(FileIndex::change(&task.index.lock()));
        }
    }
    if let [base, others @ ..] = runs
        && !others.is_empty()
    {
        let new = others.iter().map(|run| run.id.as_str()).collect::<Vec<_>>().join(",");
        let folders: Vec<String> = runs
            .iter()
            .filter_map(|run| run.path.parent())
            .map(|folder| format!("{}/", folder.display()))
            .collect();
        add_comparison(viewer, (&base.id, &new), limit.unwrap_or(usize::MAX), &folders, writer)?;
    }
    Ok(contents)
}

/// Adds the distributions and the excerpt of one task, for each of its filter pipelines.
fn add_task(
    viewer: &Viewer,
    task: &Opened,
    limit: Option<usize>,
    writer: &mut Responses<'_>,
) -> Result<Contents, Error> {
    let (run, name) = (task.found.id.as_str(), task.file.task.as_str());
    let filters = {
        let state = task.index.wait(std::time::Duration::from_hours(1), |_| false);
        state.columns.filter_names.clone()
    };
    let mut contents = Contents::default();
    for (position, filter) in filters.iter().enumerate() {
        let mut keys = vec![vec![("run", run), ("task", name), ("filter", filter.as_str())]];
        if position == 0 {
            // The first pipeline is what an address without one means.
            keys.push(vec![("run", run), ("task", name)]);
        }
        let stats = crate::stats::describe(&task.index.lock(), position);
        let query = Query::parse(&[("filter".to_owned(), filter.clone())])?;
        let all = viewer.select(task, &query, usize::MAX).map_err(|refusal| refusal.error)?;
        let excerpt = {
            let state = task.index.lock();
            let mut rows = all.rows.clone();
            // Wrong ones first, then those that nothing is known of.
            let rank = |row: &u32| match state.columns.outcomes[*row as usize] {
                Outcome::Wrong => 0,
                Outcome::Unscored => 1,
                Outcome::Partial => 2,
                Outcome::Right => 3,
            };
            rows.sort_by_key(rank);
            rows.truncate(limit.unwrap_or(usize::MAX));
            all.with_rows(rows)
        };
        let whole = Page { offset: 0, limit: usize::MAX };
        let mut listed = page(&task.index, &excerpt, &query, &whole)?;
        listed.total = all.rows.len();
        listed.excerpt = Some(Excerpt { shown: excerpt.rows.len(), of: all.rows.len() });
        for key in &keys {
            writer.add("api/task", key, &stats)?;
            writer.add("api/samples", key, &listed)?;
        }
        for row in &excerpt.rows {
            let mut sample = Viewer::render(task, &excerpt, *row, false).map_err(|refusal| refusal.error)?;
            if limit.is_some() {
                // Other pipelines have other excerpts.
                sample.other_filters.clear();
            }
            let row = row.to_string();
            writer.add("api/sample", &[("run", run), ("task", name), ("row", &row)], &sample)?;
        }
        contents.shown += excerpt.rows.len();
        contents.of += all.rows.len();
    }
    Ok(contents)
}

/// Adds the comparison, or the reason why there is none.
fn add_comparison(
    viewer: &Viewer,
    (base, new): (&str, &str),
    limit: usize,
    folders: &[String],
    writer: &mut Responses<'_>,
) -> Result<(), Error> {
    let owned = |parameters: &[(&str, &str)]| -> Vec<(String, String)> {
        parameters.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    };
    let key = [("base", base), ("new", new)];
    let compared = match viewer.compare(&owned(&key)) {
        Ok(compared) => compared,
        Err(refusal) => {
            let mut problem = refusal.to_answer();
            // A report says nothing about the machine that it was made on.
            problem.error = folders.iter().fold(problem.error, |text, folder| text.replace(folder, ""));
            problem.status = Some(refusal.status);
            return writer.add("api/compare", &key, &problem);
        }
    };
    writer.add("api/compare", &key, &compared)?;
    let limit = limit.min(1000).to_string();
    for comparison in &compared.comparisons {
        for score in comparison.scores.iter().filter(|score| !score.is_group && score.flips > 0) {
            let key = [
                ("base", base),
                ("new", comparison.new.head.id.as_str()),
                ("task", &score.task),
                ("filter", &score.filter),
                ("metric", &score.metric),
            ];
            let mut parameters = owned(&key);
            parameters.extend(owned(&[("limit", &limit)]));
            if let Ok(flips) = viewer.flips(&parameters) {
                writer.add("api/flips", &key, &flips)?;
            }
        }
    }
    Ok(())
}

fn head(title: &str) -> String {
    let title = title.replace('&', "&amp;").replace('<', "&lt;");
    let (script, style) = (policy_hash(SCRIPT), policy_hash(STYLE));
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src {script}; style-src {style}; \
         img-src data:; media-src data:; base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<meta name=\"referrer\" content=\"no-referrer\">\n\
         <title>{title} · lm-eval report</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<div id=\"app\"></div>\n\
         <noscript>This report needs JavaScript to show its data.</noscript>\n\
         <script id=\"data\" type=\"text/plain\">"
    )
}

fn foot() -> String {
    format!("</script>\n<script type=\"module\">{SCRIPT}</script>\n</body>\n</html>\n")
}
