//! Where output goes: results to standard output, everything else to standard error.

use std::io::{self, Write};

use anstream::{AutoStream, ColorChoice};
use clap::ValueEnum;

/// When to use colour.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal that shows it, unless `NO_COLOR` is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl From<Color> for ColorChoice {
    fn from(color: Color) -> Self {
        match color {
            Color::Auto => Self::Auto,
            Color::Always => Self::Always,
            Color::Never => Self::Never,
        }
    }
}

/// The two streams of the command.
pub(crate) struct Printer {
    /// Results carry no styles, so nothing need look for them.
    out: io::BufWriter<io::Stdout>,
    err: AutoStream<io::Stderr>,
}

impl Printer {
    /// The streams of this process.
    pub(crate) fn new(color: Color) -> Self {
        Self {
            out: io::BufWriter::with_capacity(1 << 16, io::stdout()),
            err: AutoStream::new(io::stderr(), color.into()),
        }
    }

    /// Writes a result.
    pub(crate) fn result(&mut self, text: &str) -> io::Result<()> {
        self.out.write_all(text.as_bytes())
    }

    /// Where results are written.
    pub(crate) fn results(&mut self) -> &mut impl Write {
        &mut self.out
    }

    /// Hands all results to the reader.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Writes a line for the person at the terminal. There is nobody to tell if that fails.
    pub(crate) fn note(&mut self, text: &str) {
        let _ = self.out.flush();
        let _ = writeln!(self.err, "{text}");
    }
}

/// Whether an error means that the reader of our output has gone.
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    })
}
