//! How failures look: the message, the place in the file, the causes, and what to try.

use std::fmt::Write;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use lmeval_core::{HostError, ModelError, secrets};
use lmeval_engine::EngineError;
use lmeval_report::ReportError;
use lmeval_tasks::prompt::PromptError;
use lmeval_tasks::{Diagnostic, Error, Location};

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

/// Prints the failure that ends the command.
pub(crate) fn failure(printer: &mut Printer, error: &anyhow::Error) {
    if let Some(traceback) = traceback(error) {
        printer.note(traceback.trim_end());
    }
    printer.styled(&rendered(error));
}

/// A failure as text: message, excerpt of the file, causes, hints. Styled; the printer strips what cannot be shown.
pub(crate) fn rendered(error: &anyhow::Error) -> String {
    if let Some(task_error) = error.downcast_ref::<Error>() {
        return render(Severity::Error, task_error.diagnostic());
    }
    if let Some(prompt_error) = error.downcast_ref::<PromptError>() {
        return render_prompt_error(prompt_error);
    }
    if let Some(engine_error) = error.downcast_ref::<EngineError>() {
        return match engine_error {
            EngineError::Task(error) => render(Severity::Error, error.diagnostic()),
            EngineError::Prompt(error) => render_prompt_error(error),
            other => render_engine_error(error, other),
        };
    }
    let mut text = format!("error: {error}");
    for cause in error.chain().skip(1) {
        let _ = write!(text, "\n  caused by: {cause}");
    }
    for hint in hints(error) {
        let _ = write!(text, "\nhint: {hint}");
    }
    visible(&text).into_owned()
}

/// What Python says about a failure.
pub(crate) fn traceback(error: &anyhow::Error) -> Option<&str> {
    let of_model = match error.downcast_ref::<EngineError>() {
        Some(
            EngineError::Model(source)
            | EngineError::Unsupported { source, .. }
            | EngineError::TooManyFailures { source, .. }
            | EngineError::NothingAnswered { source, .. },
        ) => Some(source),
        _ => error.chain().find_map(|cause| cause.downcast_ref::<ModelError>()),
    };
    if let Some(traceback) = of_model.and_then(ModelError::traceback) {
        return Some(traceback);
    }
    error.chain().find_map(|cause| match cause.downcast_ref::<HostError>() {
        Some(HostError::Failed { traceback, .. }) => traceback.as_deref(),
        _ => None,
    })
}

/// What to try, where the failure knows.
fn hints(error: &anyhow::Error) -> Vec<String> {
    if let Some(error) = error.downcast_ref::<ModelError>() {
        return error.hints().to_vec();
    }
    if let Some(error) = error.downcast_ref::<ReportError>() {
        return error.hints();
    }
    let of_journal = error.downcast_ref::<lmeval_journal::Error>().map(lmeval_journal::Error::hints);
    of_journal.unwrap_or_default().into_iter().map(str::to_owned).collect()
}

/// How a command that failed ends.
pub(crate) fn status(error: &anyhow::Error) -> Status {
    match error.downcast_ref::<EngineError>() {
        Some(EngineError::Interrupted { .. }) => Status::Interrupted,
        _ => Status::Failure,
    }
}

/// A failure of a run: what happened, the causes that the message does not have, what to try.
fn render_engine_error(error: &anyhow::Error, engine_error: &EngineError) -> String {
    let mut text = format!("error: {error}");
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.contains(&cause) {
            let _ = write!(text, "\n  caused by: {cause}");
        }
    }
    let mut hints = engine_error.hints();
    match engine_error {
        EngineError::Journal(error) => hints.extend(error.hints().into_iter().map(str::to_owned)),
        EngineError::Score { source, .. } => hints.extend(source.hints()),
        EngineError::Records { source, .. } => {
            hints.extend(source.downcast_ref::<ReportError>().map(ReportError::hints).unwrap_or_default());
        }
        _ => {}
    }
    for hint in hints {
        let _ = write!(text, "\nhint: {hint}");
    }
    visible(&text).into_owned()
}

/// A diagnostic as text: message, excerpt of the file, hints. Styled; the printer strips what cannot be shown.
pub(crate) fn render(severity: Severity, diagnostic: &Diagnostic) -> String {
    let level = match severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let title = level.primary_title(visible(&diagnostic.message));
    // Excerpts are cut at the width of the terminal, so the mask comes first, and places must stay.
    let excerpt = diagnostic.location.as_ref().map(|location| {
        let path = visible(&location.path().display().to_string()).into_owned();
        (secrets::mask_keeping_length(location.file.text()), path, &location.range)
    });
    let mut group = match &excerpt {
        Some((text, path, range)) => title.element(
            Snippet::source(&**text)
                .path(path)
                .fold(true)
                .annotation(AnnotationKind::Primary.span(clamp(text, range))),
        ),
        None => Group::with_title(title),
    };
    for hint in &diagnostic.hints {
        group = group.element(Level::HELP.with_name("hint").message(visible(hint)));
    }
    renderer().render(&[group])
}

/// Excerpts of files are cut at the edge of the terminal.
fn renderer() -> Renderer {
    let styled = Renderer::styled();
    match printer::error_columns() {
        Some(width) => styled.term_width(width),
        None => styled,
    }
}

/// A failure on the way to a request: where it happened, the place in the task file or in the template, hints.
fn render_prompt_error(error: &PromptError) -> String {
    let headline = visible(&error.headline()).into_owned();
    let title = Level::ERROR.primary_title(&headline);
    let source =
        std::error::Error::source(error).and_then(|source| source.downcast_ref::<lmeval_template::Error>());
    let marked = source.and_then(|source| Some((source.template()?, source.range()?)));
    let path = error.location().map(|location| location.path().display().to_string());
    // As in `render`: masked before anything is cut, and without moving what is marked.
    let file_text = error.location().map(|location| secrets::mask_keeping_length(location.file.text()));
    let template_text = marked.as_ref().map(|(template, _)| secrets::mask_keeping_length(template));
    let mut group = Group::with_title(title);
    let mut is_marked = false;
    if let (Some(location), Some(path), Some(file_text)) = (error.location(), &path, &file_text) {
        let text = &**file_text;
        let exact = marked.as_ref().and_then(|(template, range)| place_in_file(location, template, range));
        is_marked = exact.is_some();
        let range = exact.unwrap_or_else(|| location.range.clone());
        let snippet = Snippet::source(text).path(path).fold(true);
        group = group.element(snippet.annotation(AnnotationKind::Primary.span(clamp(text, &range))));
    }
    if let (false, Some((_, range)), Some(template)) = (is_marked, &marked, &template_text) {
        group = group.element(
            Snippet::source(&**template)
                .path(error.field().unwrap_or("template"))
                .annotation(AnnotationKind::Primary.span(clamp(template, range))),
        );
    }
    for hint in error.hints() {
        group = group.element(Level::HELP.with_name("hint").message(visible(hint).into_owned()));
    }
    renderer().render(&[group])
}

/// A range of a template as one of the task file, where the file has the template as it is: without escapes, and not over
/// several lines that YAML puts together.
fn place_in_file(
    location: &Location,
    template: &str,
    range: &std::ops::Range<usize>,
) -> Option<std::ops::Range<usize>> {
    let value = location.file.text().get(location.range.clone())?;
    let start = location.range.start + value.find(template)?;
    Some(start + range.start..start + range.end)
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
