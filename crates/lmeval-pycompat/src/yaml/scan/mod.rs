//! Text to tokens, with the rules and the quirks of libyaml 0.2.5.
//!
//! Indentation and simple keys (`key: value` without `? `) make YAML's tokens depend on what follows: a scalar
//! may turn out to be a key, and then a `Key` token, and perhaps the start of a mapping, is put in front of it.
//! So tokens wait in a queue for as long as their first may still become a key: one line, 1024 characters.

mod cursor;
mod properties;
mod scalar;
mod token;

use std::collections::VecDeque;

use self::cursor::Cursor;
pub(super) use self::token::{Style, Token, TokenKind};
use super::{Error, ErrorKind, Position};

/// A simple key may not be longer than this many characters.
const SIMPLE_KEY_LENGTH: usize = 1024;

/// The refusal of a tab in front of a key, an item or a line of text.
const TAB_INDENT: &str = "a tab cannot indent";

/// A place where a key may have begun.
#[derive(Clone, Copy)]
struct SimpleKey {
    possible: bool,
    required: bool,
    token_number: usize,
    position: Position,
    index: usize,
}

/// The tokens of one text.
pub(super) struct Scanner<'a> {
    cursor: Cursor<'a>,
    tokens: VecDeque<Token<'a>>,
    tokens_taken: usize,
    indent: i64,
    indents: Vec<i64>,
    /// One for the block context and one for each open flow collection.
    simple_keys: Vec<SimpleKey>,
    /// How many leading entries of `simple_keys` are known not to be possible.
    impossible: usize,
    simple_key_allowed: bool,
}

impl<'a> Scanner<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let cursor = Cursor::new(text);
        let none = SimpleKey {
            possible: false,
            required: false,
            token_number: 0,
            position: cursor.position(),
            index: 0,
        };
        Self {
            cursor,
            tokens: VecDeque::new(),
            tokens_taken: 0,
            indent: -1,
            indents: Vec::new(),
            simple_keys: vec![none],
            impossible: 0,
            simple_key_allowed: true,
        }
    }

    /// The next token, which stays in the queue.
    pub(super) fn peek(&mut self) -> Result<&mut Token<'a>, Error> {
        while self.tokens.is_empty() || self.first_may_become_key()? {
            self.fetch()?;
        }
        Ok(self.tokens.front_mut().expect("the loop ends with a token in the queue"))
    }

    /// Drops the token that was peeked.
    pub(super) fn skip(&mut self) {
        if self.tokens.pop_front().is_some() {
            self.tokens_taken += 1;
        }
    }

    fn in_flow(&self) -> bool {
        self.simple_keys.len() > 1
    }

    fn error<T>(&self, context: &'static str, start: Position, message: &'static str) -> Result<T, Error> {
        Err(Error::new(ErrorKind::Scanner, message, self.cursor.position()).during(context, start))
    }

    fn push(&mut self, kind: TokenKind<'a>, start: Position) {
        self.tokens.push_back(Token { kind, start, end: self.cursor.position() });
    }

    /// Pushes a token for an indicator of `width` bytes, and skips it.
    fn push_indicator(&mut self, kind: TokenKind<'a>, width: usize) {
        let start = self.cursor.position();
        self.cursor.skip_ascii(width);
        self.push(kind, start);
    }

    fn fetch(&mut self) -> Result<(), Error> {
        self.skip_to_next_token()?;
        self.drop_stale_keys()?;
        self.unroll_indent(self.cursor.column());
        if self.cursor.is_end() {
            return self.fetch_stream_end();
        }
        let byte = self.cursor.byte(0);
        if byte == b'%' && self.cursor.column() == 0 {
            self.end_blocks()?;
            return self.scan_directive();
        }
        if matches!(byte, b'-' | b'.') && self.cursor.is_document_indicator() {
            self.end_blocks()?;
            let kind = if byte == b'-' { TokenKind::DocumentStart } else { TokenKind::DocumentEnd };
            self.push_indicator(kind, 3);
            return Ok(());
        }
        let before_space = self.cursor.is_space_or_end(1);
        match byte {
            b'[' => self.fetch_flow_start(TokenKind::FlowSequenceStart),
            b'{' => self.fetch_flow_start(TokenKind::FlowMappingStart),
            b']' => self.fetch_flow_end(TokenKind::FlowSequenceEnd),
            b'}' => self.fetch_flow_end(TokenKind::FlowMappingEnd),
            b',' => {
                self.remove_simple_key()?;
                self.simple_key_allowed = true;
                self.push_indicator(TokenKind::FlowEntry, 1);
                Ok(())
            }
            b'-' if before_space => self.fetch_block_entry(),
            b'?' if self.in_flow() || before_space => self.fetch_key(),
            b':' if self.in_flow() || before_space => self.fetch_value(),
            b'*' | b'&' => {
                self.save_simple_key()?;
                self.simple_key_allowed = false;
                self.scan_anchor(byte == b'*')
            }
            b'!' => {
                self.save_simple_key()?;
                self.simple_key_allowed = false;
                self.scan_tag()
            }
            b'|' | b'>' if !self.in_flow() => {
                self.remove_simple_key()?;
                self.simple_key_allowed = true;
                self.scan_block_scalar(byte == b'|')
            }
            b'\'' | b'"' => {
                self.save_simple_key()?;
                self.simple_key_allowed = false;
                self.scan_quoted_scalar(byte)
            }
            b'\t' => Err(Error::new(ErrorKind::Scanner, TAB_INDENT, self.cursor.position())),
            b'|' | b'>' | b'#' | b'%' | b'@' | b'`' => {
                let message = "no value can begin with this character; quote it";
                Err(Error::new(ErrorKind::Scanner, message, self.cursor.position()))
            }
            _ => {
                self.save_simple_key()?;
                self.simple_key_allowed = false;
                self.scan_plain_scalar()
            }
        }
    }

    fn skip_to_next_token(&mut self) -> Result<(), Error> {
        loop {
            if self.cursor.column() == 0 && self.cursor.rest().starts_with("\u{feff}".as_bytes()) {
                self.cursor.skip_character();
            }
            // A tab may separate tokens, but not indent what could be a key.
            while self.cursor.byte(0) == b' '
                || (self.cursor.byte(0) == b'\t' && (self.in_flow() || !self.simple_key_allowed))
            {
                self.cursor.skip_ascii(1);
            }
            if self.cursor.byte(0) == b'#' {
                self.cursor.skip_line_rest();
            }
            if !self.cursor.is_break() {
                return Ok(());
            }
            self.cursor.take_break();
            if !self.in_flow() {
                self.simple_key_allowed = true;
            }
        }
    }

    /// Marks keys that have become too old as impossible. Positions grow with depth, so the old ones come first
    /// and each is looked at once.
    fn drop_stale_keys(&mut self) -> Result<(), Error> {
        let position = self.cursor.position();
        while let Some(key) = self.simple_keys.get_mut(self.impossible) {
            if key.possible {
                if key.position.line == position.line && self.cursor.index() <= key.index + SIMPLE_KEY_LENGTH
                {
                    break;
                }
                if key.required {
                    let start = key.position;
                    return self.error("in a key", start, "could not find expected ':'");
                }
                key.possible = false;
            }
            self.impossible += 1;
        }
        Ok(())
    }

    fn first_may_become_key(&mut self) -> Result<bool, Error> {
        self.drop_stale_keys()?;
        let first = self.simple_keys.get(self.impossible);
        Ok(first.is_some_and(|key| key.token_number == self.tokens_taken))
    }

    /// The key of the innermost context, which is about to change.
    fn current_key(&mut self) -> &mut SimpleKey {
        self.impossible = self.impossible.min(self.simple_keys.len() - 1);
        self.simple_keys.last_mut().expect("the block context is never popped")
    }

    fn save_simple_key(&mut self) -> Result<(), Error> {
        if self.simple_key_allowed {
            let key = SimpleKey {
                possible: true,
                required: !self.in_flow() && self.indent == self.cursor.column(),
                token_number: self.tokens_taken + self.tokens.len(),
                position: self.cursor.position(),
                index: self.cursor.index(),
            };
            self.remove_simple_key()?;
            *self.current_key() = key;
        }
        Ok(())
    }

    fn remove_simple_key(&mut self) -> Result<(), Error> {
        let key = self.current_key();
        if key.possible && key.required {
            let start = key.position;
            return self.error("in a key", start, "could not find expected ':'");
        }
        key.possible = false;
        Ok(())
    }

    /// Opens a block collection where the column is further right than the open ones.
    fn roll_indent(&mut self, column: i64, at: Option<usize>, kind: TokenKind<'a>, start: Position) {
        if self.in_flow() || self.indent >= column {
            return;
        }
        self.indents.push(self.indent);
        self.indent = column;
        let token = Token { kind, start, end: start };
        match at {
            Some(number) => self.tokens.insert(number - self.tokens_taken, token),
            None => self.tokens.push_back(token),
        }
    }

    /// Closes the block collections that stand further right than the column.
    fn unroll_indent(&mut self, column: i64) {
        if self.in_flow() {
            return;
        }
        while self.indent > column {
            let position = self.cursor.position();
            self.push(TokenKind::BlockEnd, position);
            self.indent = self.indents.pop().unwrap_or(-1);
        }
    }

    /// Closes all blocks, before what can only stand between documents.
    fn end_blocks(&mut self) -> Result<(), Error> {
        self.unroll_indent(-1);
        self.remove_simple_key()?;
        self.simple_key_allowed = false;
        Ok(())
    }

    fn fetch_stream_end(&mut self) -> Result<(), Error> {
        self.cursor.force_line();
        self.end_blocks()?;
        let position = self.cursor.position();
        self.push(TokenKind::StreamEnd, position);
        Ok(())
    }

    fn fetch_flow_start(&mut self, kind: TokenKind<'a>) -> Result<(), Error> {
        self.save_simple_key()?;
        let key = SimpleKey {
            possible: false,
            required: false,
            token_number: 0,
            position: self.cursor.position(),
            index: 0,
        };
        self.simple_keys.push(key);
        self.simple_key_allowed = true;
        self.push_indicator(kind, 1);
        Ok(())
    }

    fn fetch_flow_end(&mut self, kind: TokenKind<'a>) -> Result<(), Error> {
        self.remove_simple_key()?;
        if self.in_flow() {
            self.simple_keys.pop();
            self.impossible = self.impossible.min(self.simple_keys.len() - 1);
        }
        self.simple_key_allowed = false;
        self.push_indicator(kind, 1);
        Ok(())
    }

    /// In block context, opens a collection at the current column where a new line allows it.
    fn open_block(&mut self, kind: TokenKind<'a>, refusal: &'static str) -> Result<(), Error> {
        let position = self.cursor.position();
        if self.in_flow() {
            return Ok(());
        }
        if !self.simple_key_allowed {
            return Err(Error::new(ErrorKind::Scanner, refusal, position));
        }
        self.roll_indent(self.cursor.column(), None, kind, position);
        Ok(())
    }

    fn fetch_block_entry(&mut self) -> Result<(), Error> {
        let refusal = "a list item cannot begin here";
        self.open_block(TokenKind::BlockSequenceStart, refusal)?;
        self.remove_simple_key()?;
        self.simple_key_allowed = true;
        self.push_indicator(TokenKind::BlockEntry, 1);
        Ok(())
    }

    fn fetch_key(&mut self) -> Result<(), Error> {
        self.open_block(TokenKind::BlockMappingStart, "a key cannot begin here")?;
        self.remove_simple_key()?;
        self.simple_key_allowed = !self.in_flow();
        self.push_indicator(TokenKind::Key, 1);
        Ok(())
    }

    fn fetch_value(&mut self) -> Result<(), Error> {
        let key = *self.current_key();
        if key.possible {
            let token = Token { kind: TokenKind::Key, start: key.position, end: key.position };
            self.tokens.insert(key.token_number - self.tokens_taken, token);
            let column = i64::from(key.position.column);
            self.roll_indent(column, Some(key.token_number), TokenKind::BlockMappingStart, key.position);
            self.current_key().possible = false;
            self.simple_key_allowed = false;
        } else {
            // Behind a tab the line goes on with the text of the line before.
            let refused = !self.in_flow() && !self.simple_key_allowed;
            let refusal = if refused && self.cursor.line_begins_with_tab() {
                TAB_INDENT
            } else {
                "a second `:` cannot follow here; quote the text"
            };
            self.open_block(TokenKind::BlockMappingStart, refusal)?;
            self.simple_key_allowed = !self.in_flow();
        }
        self.push_indicator(TokenKind::Value, 1);
        Ok(())
    }
}
