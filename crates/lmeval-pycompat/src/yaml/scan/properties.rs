//! Directives, anchors, aliases and tags.

use super::{Error, Position, Scanner, TokenKind};

/// A version number of more digits than this is refused.
const VERSION_DIGITS: usize = 9;

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

impl<'a> Scanner<'a> {
    pub(super) fn scan_directive(&mut self) -> Result<(), Error> {
        const CONTEXT: &str = "in a directive";
        let start = self.cursor.position();
        self.cursor.skip_ascii(1);
        let name = self.take_word();
        if name.is_empty() {
            return self.error(CONTEXT, start, "a directive needs a name");
        }
        if !self.cursor.is_space_or_end(0) {
            return self.error(CONTEXT, start, "a directive's name is made of letters and digits");
        }
        let kind = match name {
            "YAML" => self.scan_version(start)?,
            "TAG" => self.scan_tag_directive(start)?,
            _ => return self.error(CONTEXT, start, "only %YAML and %TAG are known"),
        };
        self.push(kind, start);
        self.cursor.skip_blanks();
        if self.cursor.byte(0) == b'#' {
            self.cursor.skip_line_rest();
        }
        if !self.cursor.is_break_or_end() {
            return self.error(CONTEXT, start, "only a comment may follow on this line");
        }
        if self.cursor.is_break() {
            self.cursor.take_break();
        }
        Ok(())
    }

    fn take_word(&mut self) -> &'a str {
        let start = self.cursor.offset();
        while is_word(self.cursor.byte(0)) {
            self.cursor.skip_ascii(1);
        }
        self.cursor.slice(start, self.cursor.offset())
    }

    fn scan_version(&mut self, start: Position) -> Result<TokenKind<'a>, Error> {
        self.cursor.skip_blanks();
        let major = self.scan_version_number(start)?;
        if self.cursor.byte(0) != b'.' {
            let message = "a version is two numbers with a dot";
            return self.error("in a %YAML directive", start, message);
        }
        self.cursor.skip_ascii(1);
        let minor = self.scan_version_number(start)?;
        Ok(TokenKind::VersionDirective { major, minor })
    }

    fn scan_version_number(&mut self, start: Position) -> Result<u32, Error> {
        const CONTEXT: &str = "in a %YAML directive";
        let mut number = 0;
        let mut digits = 0;
        while self.cursor.byte(0).is_ascii_digit() {
            digits += 1;
            if digits > VERSION_DIGITS {
                return self.error(CONTEXT, start, "the version number is too long");
            }
            number = number * 10 + u32::from(self.cursor.byte(0) - b'0');
            self.cursor.skip_ascii(1);
        }
        if digits == 0 {
            return self.error(CONTEXT, start, "a version number is missing");
        }
        Ok(number)
    }

    fn scan_tag_directive(&mut self, start: Position) -> Result<TokenKind<'a>, Error> {
        const CONTEXT: &str = "in a %TAG directive";
        self.cursor.skip_blanks();
        let handle = self.scan_tag_handle(CONTEXT, start)?;
        if handle != "!" && !(handle.len() > 1 && handle.ends_with('!')) {
            return self.error(CONTEXT, start, "a tag handle begins and ends with `!`");
        }
        let handle = handle.to_owned();
        if !self.cursor.is_blank() {
            return self.error(CONTEXT, start, "a blank must follow the handle");
        }
        self.cursor.skip_blanks();
        let prefix = self.scan_uri(true, CONTEXT, start)?;
        if prefix.is_empty() {
            return self.error(CONTEXT, start, "the tag has no name");
        }
        if !self.cursor.is_space_or_end(0) {
            return self.error(CONTEXT, start, "a blank must follow a tag");
        }
        Ok(TokenKind::TagDirective { handle, prefix })
    }

    pub(super) fn scan_anchor(&mut self, alias: bool) -> Result<(), Error> {
        let start = self.cursor.position();
        self.cursor.skip_ascii(1);
        let name = self.take_word();
        let ends = self.cursor.is_space_or_end(0)
            || matches!(self.cursor.byte(0), b'?' | b':' | b',' | b']' | b'}' | b'%' | b'@' | b'`');
        if name.is_empty() || !ends {
            let context = if alias { "in an alias" } else { "in an anchor" };
            return self.error(context, start, "a name is made of letters, digits, `-` and `_`");
        }
        self.push(if alias { TokenKind::Alias(name) } else { TokenKind::Anchor(name) }, start);
        Ok(())
    }

    pub(super) fn scan_tag(&mut self) -> Result<(), Error> {
        const CONTEXT: &str = "in a tag";
        let start = self.cursor.position();
        let (handle, suffix) = if self.cursor.byte(1) == b'<' {
            self.cursor.skip_ascii(2);
            let suffix = self.scan_uri(true, CONTEXT, start)?;
            if suffix.is_empty() {
                return self.error(CONTEXT, start, "the tag has no name");
            }
            if self.cursor.byte(0) != b'>' {
                return self.error(CONTEXT, start, "`>` is missing");
            }
            self.cursor.skip_ascii(1);
            (String::new(), suffix)
        } else {
            let handle = self.scan_tag_handle(CONTEXT, start)?;
            if handle.len() > 1 && handle.ends_with('!') {
                let suffix = self.scan_uri(false, CONTEXT, start)?;
                if suffix.is_empty() {
                    return self.error(CONTEXT, start, "the tag has no name");
                }
                (handle.to_owned(), suffix)
            } else {
                let suffix = handle[1..].to_owned() + &self.scan_uri(false, CONTEXT, start)?;
                // A lone `!` is a whole tag rather than a handle.
                if suffix.is_empty() { (suffix, "!".to_owned()) } else { ("!".to_owned(), suffix) }
            }
        };
        let ends = self.cursor.is_space_or_end(0) || (self.in_flow() && self.cursor.byte(0) == b',');
        if !ends {
            return self.error(CONTEXT, start, "a blank must follow a tag");
        }
        self.push(TokenKind::Tag { handle, suffix }, start);
        Ok(())
    }

    /// `!`, `!!` or `!word!`; also `!word`, which is the beginning of a local tag.
    fn scan_tag_handle(&mut self, context: &'static str, start: Position) -> Result<&'a str, Error> {
        if self.cursor.byte(0) != b'!' {
            return self.error(context, start, "a tag handle begins and ends with `!`");
        }
        let offset = self.cursor.offset();
        self.cursor.skip_ascii(1);
        self.take_word();
        if self.cursor.byte(0) == b'!' {
            self.cursor.skip_ascii(1);
        }
        Ok(self.cursor.slice(offset, self.cursor.offset()))
    }

    /// Takes the characters of a URI with escapes decoded; `,`, `[` and `]` only where they cannot end a tag.
    fn scan_uri(
        &mut self,
        flow_indicators: bool,
        context: &'static str,
        start: Position,
    ) -> Result<String, Error> {
        let mut octets = Vec::new();
        loop {
            let byte = self.cursor.byte(0);
            let plain = is_word(byte)
                || matches!(byte, b';' | b'/' | b'?' | b':' | b'@' | b'&' | b'=' | b'+' | b'$')
                || matches!(byte, b'.' | b'!' | b'~' | b'*' | b'\'' | b'(' | b')')
                || (flow_indicators && matches!(byte, b',' | b'[' | b']'));
            if plain {
                octets.push(byte);
                self.cursor.skip_ascii(1);
            } else if byte == b'%' {
                let digit = |ahead| char::from(self.cursor.byte(ahead)).to_digit(16);
                let (Some(high), Some(low)) = (digit(1), digit(2)) else {
                    return self.error(context, start, "`%` needs two hexadecimal digits");
                };
                octets.push((high * 16 + low) as u8);
                self.cursor.skip_ascii(3);
            } else {
                break;
            }
        }
        match String::from_utf8(octets) {
            Ok(uri) => Ok(uri),
            Err(_) => self.error(context, start, "the escapes are not UTF-8"),
        }
    }
}
