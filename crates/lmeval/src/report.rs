//! How failures look: the message, the place in the file, the causes, and what to try.

use std::error::Error;
use std::fmt::Write as _;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use lmeval_core::filters::FilterError;
use lmeval_core::scorers::ScoreError;
use lmeval_core::{Diagnose, Diagnostic, HostError, Location, ModelError, downcast_error, secrets};
use lmeval_engine::EngineError;
use lmeval_report::ReportError;
use lmeval_tasks::prompt::PromptError;

use crate::commands::Status;
use crate::printer::{self, Printer, visible};

/// How serious a diagnostic is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Severity {
    /// The task cannot be used.
    Error,
    /// The task can be used, but probably not as meant.
    Warning,
}

/// Finds out whether an error is of a type.
type Cast = for<'a> fn(&'a (dyn Error + 'static)) -> Option<&'a dyn Diagnose>;

/// Every error that knows more than its message. The rest of a chain has messages alone.
fn known<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a dyn Diagnose> {
    fn is<'a, T: Diagnose + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a dyn Diagnose> {
        downcast_error::<T>(error).map(|known| known as &dyn Diagnose)
    }
    let kinds: [Cast; 11] = [
        is::<Diagnostic>,
        is::<EngineError>,
        is::<lmeval_tasks::Error>,
        is::<PromptError>,
        is::<lmeval_data::Error>,
        is::<ModelError>,
        is::<HostError>,
        is::<ScoreError>,
        is::<FilterError>,
        is::<lmeval_journal::Error>,
        is::<ReportError>,
    ];
    kinds.into_iter().find_map(|is| is(error))
}

/// Prints the failure that ends the command.
pub(crate) fn failure(printer: &mut Printer, error: &anyhow::Error) {
    if let Some(traceback) = traceback(error) {
        printer.note(traceback.trim_end());
    }
    printer.styled(&rendered(error));
}

/// A failure as text: message, excerpt of the file, causes, hints. Styled; the printer strips what cannot be shown.
pub(crate) fn rendered(error: &anyhow::Error) -> String {
    render(Severity::Error, error.as_ref())
}

/// What Python says about a failure.
pub(crate) fn traceback(error: &anyhow::Error) -> Option<&str> {
    error.chain().filter_map(known).find_map(Diagnose::traceback)
}

/// How a command that failed ends.
pub(crate) fn status(error: &anyhow::Error) -> Status {
    match error.downcast_ref::<EngineError>() {
        Some(EngineError::Interrupted { .. }) => Status::Interrupted,
        _ => Status::Failure,
    }
}

/// An error or warning as text: what is wrong, where, why, and what to try.
pub(crate) fn render(severity: Severity, error: &(dyn Error + 'static)) -> String {
    let (level, word) = match severity {
        Severity::Error => (Level::ERROR, "error"),
        Severity::Warning => (Level::WARNING, "warning"),
    };
    let told = Told::of(error);
    if told.places.is_empty() {
        let rest = visible(&told.below()).into_owned();
        // Titles of several lines would be indented.
        return if told.headline.contains('\n') {
            format!("{word}: {}{rest}", visible(&told.headline))
        } else {
            renderer().render(&[Group::with_title(level.primary_title(visible(&told.headline)))]) + &rest
        };
    }
    let places: Vec<(String, String, &Location)> = told.places.iter().map(excerpt).collect();
    let mut group = Group::with_title(level.primary_title(visible(&told.headline)));
    for (text, path, place) in &places {
        let marked = AnnotationKind::Primary.span(clamp(text, &place.range));
        group = group.element(Snippet::source(text).path(path).fold(true).annotation(marked));
    }
    for cause in &told.causes {
        group = group.element(Level::NOTE.with_name("caused by").message(visible(cause)));
    }
    for hint in &told.hints {
        group = group.element(Level::HELP.with_name("hint").message(visible(hint)));
    }
    renderer().render(&[group])
}

/// What an error and its sources tell.
struct Told {
    headline: String,
    places: Vec<Location>,
    causes: Vec<String>,
    hints: Vec<String>,
}

impl Told {
    fn of(error: &(dyn Error + 'static)) -> Self {
        let headline = |error: &(dyn Error + 'static)| {
            known(error).map_or_else(|| error.to_string(), Diagnose::headline)
        };
        let links: Vec<&(dyn Error + 'static)> =
            std::iter::successors(Some(error), |&error| error.source()).collect();
        let diagnoses = || links.iter().filter_map(|link| known(*link));
        Self {
            headline: headline(error),
            places: diagnoses()
                .map(Diagnose::locations)
                .find(|places| !places.is_empty())
                .unwrap_or_default(),
            causes: links[1..].iter().map(|link| headline(*link)).collect(),
            hints: diagnoses().flat_map(Diagnose::hints).collect(),
        }
    }

    /// Causes and hints, a line each.
    fn below(&self) -> String {
        let mut text = String::new();
        for cause in &self.causes {
            let _ = write!(text, "\n  caused by: {cause}");
        }
        text + &hint_lines(&self.hints)
    }
}

/// Advice below a message, a line each.
pub(crate) fn hint_lines(hints: &[String]) -> String {
    hints.iter().flat_map(|hint| ["\nhint: ", hint]).collect()
}

/// The text and the path of a place as they may be shown. Excerpts are cut at the width of the terminal, so the mask comes
/// first, and what is marked must stay where it is.
fn excerpt(place: &Location) -> (String, String, &Location) {
    let path = visible(&place.path().display().to_string()).into_owned();
    (secrets::mask_keeping_length(place.text()).into_owned(), path, place)
}

/// Excerpts of files are cut at the edge of the terminal.
fn renderer() -> Renderer {
    let styled = Renderer::styled();
    match printer::error_columns() {
        Some(width) => styled.term_width(width),
        None => styled,
    }
}

/// The first line of a range, within the text and on character boundaries: excerpts of whole blocks help nobody.
fn clamp(text: &str, range: &std::ops::Range<usize>) -> std::ops::Range<usize> {
    let mut start = range.start.min(text.len());
    while !text.is_char_boundary(start) {
        start -= 1;
    }
    let line_end = text[start..].find('\n').map_or(text.len(), |length| start + length);
    // An excerpt is cut around what is marked, so that must fit the terminal beside the line number.
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
    use lmeval_core::filters::EnsembleError;
    use lmeval_core::{ModelErrorKind, OutputType};

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
    fn every_link_of_a_chain_speaks_once_and_gives_its_own_advice() {
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
        };
        let scored = EngineError::Score { task: "t".to_owned(), source: Box::new(failed.into()) };
        let error = anyhow::Error::from(scored);
        assert_eq!(traceback(&error), Some("Traceback …"));
        assert_eq!(
            plain(error),
            "error: The task `t` cannot be scored\n  caused by: The function `utils.f` failed: KeyError: 'a'"
        );
    }

    #[test]
    fn an_error_that_stands_for_another_speaks_for_it() {
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
        let told = Diagnostic::new(format!("No: {cause}")).including_cause(odd);
        assert_eq!(plain(told), format!("error: No: {cause}"));
    }

    #[test]
    fn advice_and_places_are_found_below_other_messages() {
        let place = Location::new(std::path::Path::new("a.yaml"), "task: t\nlimit: x\n", 8..13, 2);
        let inner = Diagnostic::new("`limit` must be a number").at(Some(place)).hint("Write 5");
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
