//! Renders failures: the message, an excerpt of the file, the causes, and hints.

use std::error::Error;
use std::fmt::Write as _;

use annotate_snippets::{AnnotationKind, Group, Level as Title, Renderer, Snippet};
use lmeval_core::{Diagnose, Diagnostic, Level, Location, ModelError, downcast_error, secrets};
use lmeval_engine::EngineError;
use lmeval_host::TrackerError;
use lmeval_report::ReportError;
use lmeval_scoring::HostError;
use lmeval_scoring::filters::FilterError;
use lmeval_scoring::scorers::ScoreError;
use lmeval_tasks::prompt::PromptError;

use crate::commands::Status;
use crate::printer::{self, Printer, escape_controls};

/// Downcasts an error to a type with diagnostic information.
type Cast = for<'a> fn(&'a (dyn Error + 'static)) -> Option<&'a dyn Diagnose>;

/// The diagnostic information of an error; errors of other types have only their message.
fn as_diagnose<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a dyn Diagnose> {
    fn is<'a, T: Diagnose + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a dyn Diagnose> {
        downcast_error::<T>(error).map(|known| known as &dyn Diagnose)
    }
    let kinds: [Cast; 13] = [
        is::<Diagnostic>,
        is::<EngineError>,
        is::<lmeval_tasks::Error>,
        is::<PromptError>,
        is::<lmeval_data::Error>,
        is::<lmeval_hub::Error>,
        is::<ModelError>,
        is::<HostError>,
        is::<ScoreError>,
        is::<FilterError>,
        is::<lmeval_journal::Error>,
        is::<ReportError>,
        is::<TrackerError>,
    ];
    kinds.into_iter().find_map(|is| is(error))
}

/// Prints the failure that ends the command.
pub(crate) fn failure(printer: &mut Printer, error: &anyhow::Error) {
    if let Some(traceback) = traceback(error) {
        printer.note(traceback.trim_end());
    }
    printer.rendered(Level::Error, &rendered(error));
}

/// Renders a failure with ANSI styles: message, file excerpt, causes, hints.
pub(crate) fn rendered(error: &anyhow::Error) -> String {
    render(Level::Error, error.as_ref())
}

/// The Python traceback attached to a failure.
pub(crate) fn traceback(error: &anyhow::Error) -> Option<&str> {
    error.chain().filter_map(as_diagnose).find_map(Diagnose::traceback)
}

/// The exit status for a failure.
pub(crate) fn status(error: &anyhow::Error) -> Status {
    match error.downcast_ref::<EngineError>() {
        Some(EngineError::Interrupted { .. }) => Status::Interrupted,
        _ if error.downcast_ref().is_some_and(TrackerError::is_before_run) => Status::Usage,
        _ => Status::Failure,
    }
}

/// Prints a warning with its location, causes and hints.
pub(crate) fn warn(printer: &mut Printer, warning: &(dyn Error + 'static)) {
    printer.rendered(Level::Warning, &render(Level::Warning, warning));
}

/// Renders an error or warning: message, location, causes and hints.
pub(crate) fn render(level: Level, error: &(dyn Error + 'static)) -> String {
    let title = match level {
        Level::Error => Title::ERROR,
        Level::Warning => Title::WARNING,
        Level::Info => Title::INFO,
    };
    let parts = ErrorParts::of(error);
    if parts.locations.is_empty() {
        let rest = escape_controls(&parts.causes_and_hints()).into_owned();
        // Titles of several lines would be indented.
        return if parts.headline.contains('\n') {
            format!("{}: {}{rest}", level.name(), escape_controls(&parts.headline))
        } else {
            renderer()
                .render(&[Group::with_title(title.clone().primary_title(escape_controls(&parts.headline)))])
                + &rest
        };
    }
    let excerpts: Vec<(String, String, &Location)> = parts.locations.iter().map(excerpt).collect();
    let mut group = Group::with_title(title.clone().primary_title(escape_controls(&parts.headline)));
    for (text, path, location) in &excerpts {
        let marked = AnnotationKind::Primary.span(clamp(text, &location.range));
        group = group.element(Snippet::source(text).path(path).fold(true).annotation(marked));
    }
    for cause in &parts.causes {
        group = group.element(Title::NOTE.with_name("caused by").message(escape_controls(cause)));
    }
    for hint in &parts.hints {
        group = group.element(Title::HELP.with_name("hint").message(escape_controls(hint)));
    }
    renderer().render(&[group])
}

/// The parts of an error message, collected from the error and its sources.
struct ErrorParts {
    headline: String,
    locations: Vec<Location>,
    causes: Vec<String>,
    hints: Vec<String>,
}

impl ErrorParts {
    fn of(error: &(dyn Error + 'static)) -> Self {
        let headline = |error: &(dyn Error + 'static)| {
            as_diagnose(error).map_or_else(|| error.to_string(), Diagnose::headline)
        };
        let links: Vec<&(dyn Error + 'static)> =
            std::iter::successors(Some(error), |&error| error.source()).collect();
        let diagnoses = || links.iter().filter_map(|link| as_diagnose(*link));
        Self {
            headline: headline(error),
            locations: diagnoses()
                .map(Diagnose::locations)
                .find(|found| !found.is_empty())
                .unwrap_or_default(),
            causes: links[1..].iter().map(|link| headline(*link)).collect(),
            hints: diagnoses().flat_map(Diagnose::hints).collect(),
        }
    }

    /// Causes and hints, one per line.
    fn causes_and_hints(&self) -> String {
        let mut text = String::new();
        for cause in &self.causes {
            let _ = write!(text, "\n  caused by: {cause}");
        }
        text + &hint_lines(&self.hints)
    }
}

/// Hints, one per line.
pub(crate) fn hint_lines(hints: &[String]) -> String {
    hints.iter().flat_map(|hint| ["\nhint: ", hint]).collect()
}

/// The masked text and path of a location. The excerpt is cut at the terminal's width, so secrets are masked first,
/// and masking keeps offsets valid.
fn excerpt(location: &Location) -> (String, String, &Location) {
    let path = escape_controls(&location.path().display().to_string()).into_owned();
    (secrets::mask_keeping_length(location.text()).into_owned(), path, location)
}

/// A renderer that cuts file excerpts at the terminal's edge.
fn renderer() -> Renderer {
    let styled = Renderer::styled();
    match printer::error_columns() {
        Some(width) => styled.term_width(width),
        None => styled,
    }
}

/// The first line of a range, clamped to the text and to character boundaries: longer excerpts are not useful.
fn clamp(text: &str, range: &std::ops::Range<usize>) -> std::ops::Range<usize> {
    let mut start = range.start.min(text.len());
    while !text.is_char_boundary(start) {
        start -= 1;
    }
    let line_end = text[start..].find('\n').map_or(text.len(), |length| start + length);
    // The excerpt is cut around the marked range, which must fit beside the line number.
    let most = printer::error_columns().map_or(usize::MAX, |width| width.saturating_sub(20).max(8));
    let mut end = range.end.clamp(start, line_end).min(start.saturating_add(most));
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    start..end
}

#[cfg(test)]
mod tests {
    use lmeval_core::DocId;
    use lmeval_core::{ModelErrorKind, OutputType};
    use lmeval_scoring::filters::EnsembleError;

    use super::*;

    fn plain(error: impl Into<anyhow::Error>) -> String {
        anstream::adapter::strip_str(&rendered(&error.into())).to_string()
    }

    fn too_few() -> ScoreError {
        let source = FilterError::TooFewResponses {
            filter: "take_first_k".to_owned(),
            document: DocId(0),
            wanted: 3,
            found: 1,
        };
        let (pipeline, filter) = ("f".to_owned(), "take_first_k".to_owned());
        EnsembleError { pipeline, step: 0, filter, source: Box::new(source) }.into()
    }

    #[test]
    fn prints_each_cause_once_with_its_hints() {
        let scored = EngineError::Score { task: "t".to_owned(), source: Box::new(too_few()) };
        assert_eq!(
            plain(scored),
            "error: The task `t` cannot be scored\n  caused by: Step 1 of the filter pipeline `f`, `take_first_k`, \
             failed\n  caused by: The filter `take_first_k` needs 3 answers for each document, but document 0 has \
             1\nhint: Set `repeats: 3` in the task"
        );
        let failed = HostError::Failed {
            function: "utils.f".to_owned(),
            message: "KeyError: 'a'".to_owned(),
            traceback: Some("Traceback …".to_owned()),
            hint: Some("Install it".to_owned()),
        };
        let scored = EngineError::Score { task: "t".to_owned(), source: Box::new(failed.into()) };
        let error = anyhow::Error::from(scored);
        assert_eq!(traceback(&error), Some("Traceback …"));
        assert_eq!(
            plain(error),
            "error: The task `t` cannot be scored\n  caused by: The function `utils.f` failed: KeyError: 'a'\n\
             hint: Install it"
        );
    }

    #[test]
    fn transparent_errors_print_their_cause() {
        let refused =
            || ModelError::new(ModelErrorKind::Unsupported, "No likelihoods").hint("Use another model");
        assert_eq!(plain(EngineError::Model(refused())), "error: No likelihoods\nhint: Use another model");
        let unsupported = EngineError::Unsupported { task: "t".to_owned(), source: refused() };
        assert_eq!(
            plain(unsupported),
            "error: The task `t` cannot be evaluated with this model\n  caused by: No likelihoods\nhint: Use another model"
        );
        let output_type = OutputType::GenerateUntil;
        let made_for = vec!["multiple_choice".to_owned()];
        let odd = ScoreError::OutputType { metric: "acc".to_owned(), made_for, output_type };
        let cause = odd.to_string();
        let diagnostic = Diagnostic::new(format!("No: {cause}")).including_cause(odd);
        assert_eq!(plain(diagnostic), format!("error: No: {cause}"));
    }

    #[test]
    fn finds_hints_and_locations_in_sources() {
        let location = Location::new(std::path::Path::new("a.yaml"), "task: t\nlimit: x\n", 8..13, 2);
        let inner = Diagnostic::new("`limit` must be a number").at(Some(location)).hint("Write 5");
        let error = anyhow::Error::from(inner).context("Nothing was run");
        assert_eq!(
            plain(error),
            "error: Nothing was run\n --> a.yaml:2:1\n  |\n2 | limit: x\n  | ^^^^^\n  |\n  = caused by: `limit` must be a \
             number\n  = hint: Write 5"
        );
        let inner = Diagnostic::new("`9.9` is not installed").hint("`lm-eval tasks pull` installs it");
        assert_eq!(
            plain(anyhow::Error::from(inner).context("It cannot be used")),
            "error: It cannot be used\n  caused by: `9.9` is not installed\nhint: `lm-eval tasks pull` installs it"
        );
    }
}
