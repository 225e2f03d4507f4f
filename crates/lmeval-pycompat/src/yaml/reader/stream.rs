//! The stream: directives, document markers, and the one document between them (YAML 1.1, section 7).
//!
//! A document is directives and `---`, a block node, and any number of `...`; only directives require the `---`. A
//! second document is an error, because a task file is one value.

use super::Reader;
use crate::yaml::graph::Graph;
use crate::yaml::number::shortened;
use crate::yaml::resolve::CORE_PREFIX;
use crate::yaml::{Error, ErrorKind};

/// The maximum number of bytes of a prefix that are stored. No known tag is that long, and every tag repeats its
/// prefix: a short document could otherwise expand to terabytes.
const MAX_PREFIX_LENGTH: usize = 256;

impl<'a> Reader<'a, '_> {
    /// Reads the only document of the source; `None` if it is empty.
    pub(in crate::yaml) fn read(mut self) -> Result<Option<Graph<'a>>, Error> {
        self.skip_gap();
        if self.at.is_end() {
            return Ok(None);
        }
        self.prologue()?;
        let root = self.block_node(-1, false)?;
        self.skip_gap();
        while self.at.is_marker_of("...") {
            self.at.skip(3);
            self.fresh = false;
            self.skip_gap();
        }
        if self.at.is_end() {
            return Ok(Some(Graph { nodes: self.graph.nodes, root: root.id }));
        }
        if self.at.is_marker_of("---") {
            let message = "expected a single document, but another starts";
            let error = Error::new(ErrorKind::Composer, message, self.at.position());
            return Err(error.during("after one", root.start));
        }
        Err(self.unexpected("the end of the document"))
    }

    /// Directives and `---` (sections 7.1 and 7.2).
    fn prologue(&mut self) -> Result<(), Error> {
        let mut has_directives = false;
        let mut has_version = false;
        while self.at.byte() == b'%' && self.at.column == 0 {
            self.directive(&mut has_version)?;
            has_directives = true;
            self.skip_gap();
        }
        if self.at.is_marker_of("---") {
            self.at.skip(3);
            self.fresh = false;
            return Ok(());
        }
        if has_directives || self.at.is_marker() {
            return Err(self.unexpected("a document that starts with `---`"));
        }
        Ok(())
    }

    fn directive(&mut self, has_version: &mut bool) -> Result<(), Error> {
        let start = self.at.position();
        let error = |kind, message: &str| Err(Error::new(kind, message, start));
        let rest = &self.at.text[start.offset + 1..];
        let name = &rest[..rest.find(|character: char| !is_word(character)).unwrap_or(rest.len())];
        self.at.skip(1 + name.len());
        if !self.at.is_whitespace_at(self.at.offset) {
            return error(ErrorKind::Scanner, "expected whitespace after the name of a directive");
        }
        self.at.skip_white();
        match name {
            "YAML" => {
                let version = (self.version_number()?, self.version_dot()?, self.version_number()?);
                if std::mem::replace(has_version, true) {
                    return error(ErrorKind::Parser, "a second `%YAML` directive");
                }
                if !matches!(version, (1, (), 1 | 2)) {
                    return error(ErrorKind::Parser, "a version of YAML other than 1.1 and 1.2");
                }
            }
            "TAG" => self.tag_directive()?,
            _ => return error(ErrorKind::Scanner, "expected the directive `%YAML` or `%TAG`"),
        }
        self.at.skip_white();
        if self.at.byte() == b'#' || self.at.is_whitespace_at(self.at.offset) {
            return Ok(());
        }
        error(ErrorKind::Scanner, "expected the end of the line after a directive")
    }

    fn version_number(&mut self) -> Result<u32, Error> {
        let start = self.at.offset;
        while self.at.byte().is_ascii_digit() {
            self.at.skip(1);
        }
        // Reference: nine digits at most.
        let digits = &self.at.text[start..self.at.offset];
        let number = if digits.len() < 10 { digits.parse().ok() } else { None };
        number.ok_or_else(|| self.version_error())
    }

    fn version_dot(&mut self) -> Result<(), Error> {
        if self.at.byte() != b'.' {
            return Err(self.version_error());
        }
        self.at.skip(1);
        Ok(())
    }

    fn version_error(&self) -> Error {
        Error::new(ErrorKind::Scanner, "expected a version such as 1.1", self.at.position())
    }

    /// `%TAG handle prefix` (section 7.1.2).
    fn tag_directive(&mut self) -> Result<(), Error> {
        let start = self.at.position();
        let error = |message: &str| Err(Error::new(ErrorKind::Scanner, message, start));
        let rest = &self.at.text[start.offset..];
        let length = rest.find([' ', '\t']).unwrap_or(rest.len());
        let handle = &rest[..length];
        let is_handle = handle == "!" || {
            let name = handle.strip_prefix('!').and_then(|rest| rest.strip_suffix('!'));
            name.is_some_and(|name| name.chars().all(is_word))
        };
        if !is_handle {
            return error("expected a handle such as `!e!` and whitespace in a `%TAG` directive");
        }
        self.at.skip(length);
        self.at.skip_white();
        let mut prefix = self.uri(true)?;
        prefix.truncate(prefix.floor_char_boundary(MAX_PREFIX_LENGTH));
        if !self.at.is_whitespace_at(self.at.offset) {
            return error("expected whitespace after the prefix of a `%TAG` directive");
        }
        if self.handles.insert(handle, prefix).is_some() {
            let message = format!("a second `%TAG` directive for {}", shortened(handle));
            return Err(Error::new(ErrorKind::Parser, message, start));
        }
        Ok(())
    }

    /// The prefix that a handle abbreviates.
    pub(super) fn prefix_of(&self, handle: &str) -> Option<&str> {
        match (self.handles.get(handle), handle) {
            (Some(prefix), _) => Some(prefix),
            (None, "!") => Some("!"),
            (None, "!!") => Some(CORE_PREFIX),
            (None, _) => None,
        }
    }
}

/// Whether a character can be part of a handle, an anchor or a directive's name.
pub(super) fn is_word(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '-' | '_')
}
