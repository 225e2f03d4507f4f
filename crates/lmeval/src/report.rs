//! How failures look: the message, the place in the file, the causes, and what to try.

use std::fmt::Write;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use lmeval_core::{HostError, ModelError, secrets};
use lmeval_engine::EngineError;
use lmeval_report::ReportError;
use lmeval_tasks::prompt::PromptError;
use lmeval_tasks::{Diagnostic, Error};

use crate::commands::Status;
use crate::printer::{Printer, visible};

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

/// A failure as plain text: the message, the causes that it does not have, and what to try.
pub(crate) fn plain(error: &anyhow::Error) -> String {
    let text = anstream::adapter::strip_str(&rendered(error)).to_string();
    text.strip_prefix("error: ").map(str::to_owned).unwrap_or(text)
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
    Renderer::styled().render(&[group])
}

/// A failure on the way to a request: where it happened, the template with the place marked, hints.
fn render_prompt_error(error: &PromptError) -> String {
    let headline = visible(&error.headline()).into_owned();
    let title = Level::ERROR.primary_title(&headline);
    let source =
        std::error::Error::source(error).and_then(|source| source.downcast_ref::<lmeval_template::Error>());
    let marked = source.and_then(|source| Some((source.template()?, source.range()?)));
    let mut group = match marked {
        Some((template, range)) => title.element(
            Snippet::source(template)
                .path(error.field().unwrap_or("template"))
                .annotation(AnnotationKind::Primary.span(clamp(template, &range))),
        ),
        None => Group::with_title(title),
    };
    for hint in error.hints() {
        group = group.element(Level::HELP.with_name("hint").message(visible(hint).into_owned()));
    }
    Renderer::styled().render(&[group])
}

/// The first line of a range, within the text and on character boundaries: excerpts of whole blocks help nobody.
fn clamp(text: &str, range: &std::ops::Range<usize>) -> std::ops::Range<usize> {
    let mut start = range.start.min(text.len());
    while !text.is_char_boundary(start) {
        start -= 1;
    }
    let line_end = text[start..].find('\n').map_or(text.len(), |length| start + length);
    let mut end = range.end.clamp(start, line_end);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    start..end
}
