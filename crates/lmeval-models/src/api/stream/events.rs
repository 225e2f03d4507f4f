//! Server-sent events, from bytes that arrive in any pieces.

/// Finds events in a stream.
#[derive(Clone, Debug, Default)]
pub(super) struct EventReader {
    /// The line that has not ended yet.
    line: Vec<u8>,
    /// The data of the event that has not ended yet, a line break after each line.
    data: Vec<u8>,
    /// Whether the last byte was a carriage return, so that a line feed belongs to it.
    after_return: bool,
    has_begun: bool,
}

impl EventReader {
    /// Reads more bytes; `found` gets the data of each event that ends in them.
    pub(super) fn feed(&mut self, bytes: &[u8], mut found: impl FnMut(&[u8])) {
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            let (line, ending) = (&rest[..end], rest[end]);
            rest = &rest[end + 1..];
            let is_second = std::mem::take(&mut self.after_return) && ending == b'\n' && line.is_empty();
            self.after_return = ending == b'\r';
            if is_second && self.line.is_empty() {
                continue;
            }
            self.line.extend_from_slice(line);
            self.end_line(&mut found);
        }
        if !rest.is_empty() {
            self.after_return = false;
            self.line.extend_from_slice(rest);
        }
    }

    /// The stream has ended. An event without the empty line after it counts, because some servers leave it out.
    pub(super) fn finish(&mut self, mut found: impl FnMut(&[u8])) {
        if !self.line.is_empty() {
            self.end_line(&mut found);
        }
        self.end_event(&mut found);
    }

    fn end_line(&mut self, found: &mut impl FnMut(&[u8])) {
        let line = std::mem::take(&mut self.line);
        let mut line = line.as_slice();
        if !std::mem::replace(&mut self.has_begun, true) {
            line = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line);
        }
        if line.is_empty() {
            return self.end_event(found);
        }
        // Other fields, and comments that keep the connection alive, say nothing about the answer.
        if let Some(data) = line.strip_prefix(b"data:") {
            self.data.extend_from_slice(data.strip_prefix(b" ").unwrap_or(data));
            self.data.push(b'\n');
        }
    }

    fn end_event(&mut self, found: &mut impl FnMut(&[u8])) {
        if let Some(data) = self.data.strip_suffix(b"\n") {
            found(data);
        }
        self.data.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(pieces: &[&[u8]]) -> Vec<String> {
        let mut reader = EventReader::default();
        let mut found = Vec::new();
        let mut keep = |data: &[u8]| found.push(String::from_utf8(data.to_vec()).unwrap());
        for piece in pieces {
            reader.feed(piece, &mut keep);
        }
        reader.finish(&mut keep);
        found
    }

    #[test]
    fn events_are_the_same_wherever_the_bytes_are_cut() {
        let text = "\u{feff}: ping\n\ndata: {\"a\": \"é€😀\"}\n\nevent: x\r\nid: 7\r\ndata:two\r\ndata: lines\r\n\r\n\
                    retry: 3\rdata: [DONE]\r\r\n\ndata:  space\n\ndata: unended";
        let expected = ["{\"a\": \"é€😀\"}", "two\nlines", "[DONE]", " space", "unended"];
        let bytes = text.as_bytes();
        assert_eq!(events(&[bytes]), expected);
        for first in 0..=bytes.len() {
            for second in first..=bytes.len().min(first + 3) {
                let pieces = [&bytes[..first], &bytes[first..second], &bytes[second..]];
                assert_eq!(events(&pieces), expected, "{first} {second}");
            }
        }
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(events(&single), expected);
    }

    #[test]
    fn streams_without_data_have_no_events() {
        assert!(events(&[b"", b"\n\n\n", b": a comment\n\nevent: x\n\n"]).is_empty());
        assert_eq!(events(&[b"data\n\ndata:\n\ndata: \n\n"]), ["", ""]);
    }
}
