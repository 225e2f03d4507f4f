//! One HTTP/1.1 exchange on a connection: writes a request and reads the complete answer.
//!
//! The task that waits for the answer reads the socket itself. A request costs one write and usually one read, no channel
//! and no second task. Header lines and chunk sizes are parsed by `httparse`; this module decides where a body ends.

use std::io::{self, IoSlice};
use std::ops::Range;

use bytes::{Buf as _, Bytes, BytesMut};
use reqwest::StatusCode;
use reqwest::header::{CONNECTION, CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue, TRANSFER_ENCODING};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use super::direct::ExchangeError;
use super::stream::Tap;

/// Longest status line and headers of an answer.
const MAX_HEAD: usize = 256 << 10;
/// The most header lines of an answer.
const MAX_HEADERS: usize = 128;
/// The most informational answers (1xx) before the final one.
const MAX_INTERIM: usize = 16;
/// Longest line of a chunk size with its extensions, and of a trailer.
const MAX_LINE: usize = 16 << 10;
/// Free bytes in the buffer before each read.
const CHUNK: usize = 16 << 10;
/// A body is allocated as a whole up to this size, and then as it arrives.
const MAX_RESERVED: usize = 16 << 20;

/// A complete answer as it was on the wire.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    /// The body may have failed although the status is known.
    pub(super) body: Result<Bytes, ExchangeError>,
    /// Whether the connection may carry another request.
    pub(super) keeps_alive: bool,
    /// Whether bytes followed the answer that nobody asked for.
    pub(super) has_surplus: bool,
}

/// Writes a request and reads its answer. A body larger than `largest` fails. `tap` gets a successful body as it arrives.
pub(super) async fn exchange<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    head: &[u8],
    body: &[u8],
    largest: usize,
    tap: Tap<'_>,
) -> Result<Answer, ExchangeError> {
    let written = write(stream, head, body).await;
    let answer = read(stream, largest, tap).await;
    match (written, answer) {
        (Ok(()), answer) => answer,
        // A server may refuse a long request before it has read all of it; its answer says why.
        (Err(_), Ok(answer)) => Ok(Answer { keeps_alive: false, ..answer }),
        (Err(error), Err(_)) => Err(ExchangeError::Closed(error.to_string())),
    }
}

async fn write(stream: &mut (impl AsyncWrite + Unpin), mut head: &[u8], mut body: &[u8]) -> io::Result<()> {
    while !head.is_empty() {
        let count = stream.write_vectored(&[IoSlice::new(head), IoSlice::new(body)]).await?;
        if count == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        let of_head = count.min(head.len());
        head = &head[of_head..];
        body = &body[count - of_head..];
    }
    stream.write_all(body).await
}

async fn read<S: AsyncRead + Unpin>(
    stream: &mut S,
    largest: usize,
    tap: Tap<'_>,
) -> Result<Answer, ExchangeError> {
    let mut input = Input { stream, buffer: BytesMut::new(), tap: None };
    let mut interim = 0;
    let Head { status, headers, is_http_1_0 } = loop {
        let head = input.head().await?;
        // 101 would hand the connection to another protocol, which no request asks for.
        if !head.status.is_informational() || head.status == StatusCode::SWITCHING_PROTOCOLS {
            break head;
        }
        interim += 1;
        if interim > MAX_INTERIM {
            return Err(malformed("too many informational answers"));
        }
    };
    let framing = framing(status, &headers)?;
    input.tap = tap.filter(|_| status.is_success());
    let body = match framing {
        Framing::Empty => Ok(Bytes::new()),
        Framing::Length(length) => input.fixed(length, largest).await,
        Framing::Chunked => input.chunked(largest).await,
        Framing::UntilClose => input.rest(largest).await,
    };
    let ends_by_close = matches!(framing, Framing::UntilClose) || status == StatusCode::SWITCHING_PROTOCOLS;
    // Two statements about the length may be read differently by a proxy on the way.
    let is_ambiguous = headers.contains_key(TRANSFER_ENCODING) && headers.contains_key(CONTENT_LENGTH);
    let keeps_alive = body.is_ok() && !ends_by_close && !is_ambiguous && stays_open(&headers, is_http_1_0);
    let has_surplus = body.is_ok() && !input.buffer.is_empty();
    Ok(Answer { status, headers, body, keeps_alive, has_surplus })
}

struct Head {
    status: StatusCode,
    headers: HeaderMap,
    is_http_1_0: bool,
}

/// Where the body ends.
enum Framing {
    Empty,
    Length(usize),
    Chunked,
    UntilClose,
}

fn framing(status: StatusCode, headers: &HeaderMap) -> Result<Framing, ExchangeError> {
    if status.is_informational() || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED) {
        return Ok(Framing::Empty);
    }
    if headers.contains_key(TRANSFER_ENCODING) {
        let last = tokens(headers, &TRANSFER_ENCODING).last();
        let is_chunked = last.is_some_and(|name| name.eq_ignore_ascii_case("chunked"));
        return Ok(if is_chunked { Framing::Chunked } else { Framing::UntilClose });
    }
    let mut length = None;
    for value in tokens(headers, &CONTENT_LENGTH) {
        let is_number = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
        let this = value.parse::<usize>().ok().filter(|_| is_number);
        let this = this.ok_or_else(|| malformed("its Content-Length is not a number"))?;
        if length.is_some_and(|length| length != this) {
            return Err(malformed("it has two different Content-Lengths"));
        }
        length = Some(this);
    }
    Ok(length.map_or(Framing::UntilClose, Framing::Length))
}

fn stays_open(headers: &HeaderMap, is_http_1_0: bool) -> bool {
    let says = |word: &str| tokens(headers, &CONNECTION).any(|token| token.eq_ignore_ascii_case(word));
    !says("close") && (!is_http_1_0 || says("keep-alive"))
}

/// The comma-separated values of all lines of a header.
fn tokens<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    let lines = headers.get_all(name).into_iter();
    lines.flat_map(|value| value.to_str().unwrap_or("unreadable").split(',')).map(str::trim)
}

/// Bytes of a connection: those received and not used yet, and those to come.
struct Input<'a, S> {
    stream: &'a mut S,
    buffer: BytesMut,
    tap: Tap<'a>,
}

impl<S: AsyncRead + Unpin> Input<'_, S> {
    /// Receives more bytes. Returns whether there were any.
    async fn receive(&mut self) -> io::Result<bool> {
        self.buffer.reserve(CHUNK);
        let has_more = self.stream.read_buf(&mut self.buffer).await? > 0;
        self.show(0..0);
        Ok(has_more)
    }

    /// Shows bytes of the body in the buffer to the tap.
    fn show(&self, bytes: Range<usize>) {
        if let Some(tap) = self.tap {
            tap(&self.buffer[bytes]);
        }
    }

    async fn head(&mut self) -> Result<Head, ExchangeError> {
        let closed = |cause: String| ExchangeError::Closed(cause);
        loop {
            if let Some((head, length)) = parse_head(&self.buffer)? {
                self.buffer.advance(length);
                return Ok(head);
            }
            if self.buffer.len() > MAX_HEAD {
                return Err(malformed("its headers are too long"));
            }
            let is_new = self.buffer.is_empty();
            match self.receive().await {
                Ok(true) => {}
                Ok(false) if is_new => {
                    return Err(closed("the connection was closed before an answer".into()));
                }
                Ok(false) => return Err(closed("the connection was closed within the headers".into())),
                Err(error) => return Err(closed(error.to_string())),
            }
        }
    }

    /// Receives more bytes of a body, which must follow.
    async fn must_receive(&mut self) -> Result<(), ExchangeError> {
        match self.receive().await {
            Ok(true) => Ok(()),
            Ok(false) => Err(ExchangeError::Truncated("the connection was closed within the body".into())),
            Err(error) => Err(ExchangeError::Truncated(error.to_string())),
        }
    }

    async fn fixed(&mut self, length: usize, largest: usize) -> Result<Bytes, ExchangeError> {
        if length > largest {
            return Err(ExchangeError::TooLarge);
        }
        self.buffer.reserve(length.min(MAX_RESERVED).saturating_sub(self.buffer.len()));
        while self.buffer.len() < length {
            self.must_receive().await?;
        }
        self.show(0..length);
        Ok(self.buffer.split_to(length).freeze())
    }

    async fn rest(&mut self, largest: usize) -> Result<Bytes, ExchangeError> {
        let mut shown = 0;
        loop {
            if self.buffer.len() > largest {
                return Err(ExchangeError::TooLarge);
            }
            self.show(shown..self.buffer.len());
            shown = self.buffer.len();
            if !self.receive().await.map_err(|error| ExchangeError::Truncated(error.to_string()))? {
                return Ok(self.buffer.split().freeze());
            }
        }
    }

    async fn chunked(&mut self, largest: usize) -> Result<Bytes, ExchangeError> {
        let mut body = BytesMut::new();
        loop {
            let size = self.chunk_size().await?;
            if size == 0 {
                break;
            }
            if size > largest - body.len() {
                return Err(ExchangeError::TooLarge);
            }
            while self.buffer.len() < size + 2 {
                self.must_receive().await?;
            }
            self.show(0..size);
            body.extend_from_slice(&self.buffer[..size]);
            if self.buffer[size..size + 2] != *b"\r\n" {
                return Err(ExchangeError::Truncated(
                    "a chunk of the body does not end where it should".into(),
                ));
            }
            self.buffer.advance(size + 2);
        }
        // Trailers end with an empty line.
        while self.line().await? > 0 {}
        Ok(body.freeze())
    }

    async fn chunk_size(&mut self) -> Result<usize, ExchangeError> {
        let invalid = || ExchangeError::Truncated("the size of a chunk of the body is invalid".into());
        loop {
            match httparse::parse_chunk_size(&self.buffer).map_err(|_| invalid())? {
                httparse::Status::Complete((length, size)) => {
                    self.buffer.advance(length);
                    return usize::try_from(size).map_err(|_| ExchangeError::TooLarge);
                }
                httparse::Status::Partial if self.buffer.len() > MAX_LINE => return Err(invalid()),
                httparse::Status::Partial => self.must_receive().await?,
            }
        }
    }

    /// Reads a line and returns its length without the line break.
    async fn line(&mut self) -> Result<usize, ExchangeError> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let is_crlf = end > 0 && self.buffer[end - 1] == b'\r';
                self.buffer.advance(end + 1);
                return Ok(end - usize::from(is_crlf));
            }
            if self.buffer.len() > MAX_LINE {
                return Err(ExchangeError::Truncated("a trailer of the body is too long".into()));
            }
            self.must_receive().await?;
        }
    }
}

/// Parses status line and headers. Returns them with their length, or `None` if they are incomplete.
fn parse_head(bytes: &[u8]) -> Result<Option<(Head, usize)>, ExchangeError> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let mut lines = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut response = httparse::Response::new(&mut lines);
    let length = match response.parse(bytes).map_err(|error| malformed(&error.to_string()))? {
        httparse::Status::Partial => return Ok(None),
        httparse::Status::Complete(length) => length,
    };
    let status = response.code.and_then(|code| StatusCode::from_u16(code).ok());
    let status = status.ok_or_else(|| malformed("its status is not a number from 100 to 999"))?;
    let mut headers = HeaderMap::with_capacity(response.headers.len());
    for line in response.headers.iter() {
        let name = HeaderName::from_bytes(line.name.as_bytes());
        let value = HeaderValue::from_bytes(line.value);
        let (Ok(name), Ok(value)) = (name, value) else { return Err(malformed("a header is invalid")) };
        headers.append(name, value);
    }
    Ok(Some((Head { status, headers, is_http_1_0: response.version == Some(0) }, length)))
}

fn malformed(cause: &str) -> ExchangeError {
    ExchangeError::Closed(format!("the answer is not valid HTTP: {cause}"))
}

#[cfg(test)]
mod tests {
    use tokio::io::duplex;

    use super::*;

    /// The answer that the client reads from these pieces, each received by itself, after which the server closes the connection.
    async fn answer_to(pieces: &[&str]) -> Result<Answer, ExchangeError> {
        let (mut client, mut server) = duplex(1 << 20);
        for piece in pieces {
            server.write_all(piece.as_bytes()).await.unwrap();
        }
        drop(server);
        read(&mut client, 100, None).await
    }

    async fn body_of(text: &str) -> Result<String, ExchangeError> {
        let whole = answer_to(&[text]).await;
        // Whatever the cut, the outcome is the same.
        for cut in 1..text.len() {
            let (mut client, mut server) = duplex(1 << 20);
            let (first, second) = (text[..cut].to_owned(), text[cut..].to_owned());
            let server = tokio::spawn(async move {
                server.write_all(first.as_bytes()).await.unwrap();
                tokio::task::yield_now().await;
                server.write_all(second.as_bytes()).await.unwrap();
            });
            let again = read(&mut client, 100, None).await;
            server.await.unwrap();
            match (&whole, &again) {
                (Ok(whole), Ok(again)) => {
                    assert_eq!(whole.status, again.status);
                    assert_eq!(whole.keeps_alive, again.keeps_alive);
                    assert_eq!(format!("{:?}", whole.body), format!("{:?}", again.body), "{cut}");
                }
                _ => assert_eq!(whole.is_err(), again.is_err(), "{cut}"),
            }
        }
        whole?.body.map(|body| String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn ends_bodies_where_the_headers_say() {
        for (text, body) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", "abc"),
            ("HTTP/1.1 200 OK\r\nContent-Length: 3, 3\r\nContent-Length: 3\r\n\r\nabc", "abc"),
            ("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", ""),
            ("HTTP/1.1 204 No Content\r\ncontent-length: 3\r\n\r\n", ""),
            ("HTTP/1.1 200 OK\r\n\r\nuntil the end", "until the end"),
            ("HTTP/1.0 200 OK\r\nTransfer-Encoding: identity\r\n\r\nplain", "plain"),
            ("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na", "a"),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\n\r\n",
                "abc0123456789",
            ),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nTrailer: 1\r\nOther: 2\r\n\r\n", ""),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 99\r\n\r\n1\r\na\r\n0\r\n\r\n",
                "a",
            ),
        ] {
            assert_eq!(body_of(text).await.unwrap(), body, "{text}");
        }
    }

    #[tokio::test]
    async fn refuses_malformed_answers() {
        for text in [
            "",
            "HTTP/1.1 200 OK\r\nContent-Le",
            "SSH-2.0-OpenSSH_9.2\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\na",
            "HTTP/1.1 200 OK\r\nContent-Length: 1, 2\r\n\r\nab",
            "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n\r\n",
        ] {
            assert!(matches!(answer_to(&[text]).await, Err(ExchangeError::Closed(_))), "{text}");
        }
        for text in [
            "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabc",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nab",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n",
        ] {
            let body = answer_to(&[text]).await.map(|answer| answer.body);
            assert!(matches!(body, Ok(Err(ExchangeError::Truncated(_)))), "{text}");
        }
        let long = "x".repeat(101);
        for text in [
            format!("HTTP/1.1 200 OK\r\nContent-Length: 101\r\n\r\n{long}"),
            format!("HTTP/1.1 200 OK\r\n\r\n{long}"),
            format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n65\r\n{long}\r\n0\r\n\r\n"),
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffff\r\n".to_owned(),
        ] {
            let body = answer_to(&[&text]).await.map(|answer| answer.body);
            assert!(matches!(body, Ok(Err(ExchangeError::TooLarge))), "{text}");
        }
        let endless = format!("HTTP/1.1 200 OK\r\n{}", "a: b\r\n".repeat(200));
        assert!(answer_to(&[&endless]).await.is_err());
    }

    #[tokio::test]
    async fn keeps_connections_only_when_both_ends_agree() {
        for (text, keeps) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", true),
            ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: Close\r\n\r\n", false),
            ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: x, close\r\n\r\n", false),
            ("HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", false),
            ("HTTP/1.0 200 OK\r\nContent-Length: 0\r\nConnection: keep-alive\r\n\r\n", true),
            ("HTTP/1.1 200 OK\r\n\r\n", false),
            ("HTTP/1.1 101 Switching Protocols\r\n\r\n", false),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n", false),
        ] {
            let answer = answer_to(&[text]).await.unwrap();
            assert_eq!(answer.keeps_alive, keeps, "{text}");
            assert!(!answer.has_surplus);
        }
        let two = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na";
        assert!(answer_to(&[two, two]).await.unwrap().has_surplus);
    }

    #[tokio::test]
    async fn an_early_refusal_explains_a_failed_write() {
        let (mut client, mut server) = duplex(64);
        let refusal = "HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\n\r\n";
        server.write_all(refusal.as_bytes()).await.unwrap();
        drop(server);
        let answer =
            exchange(&mut client, b"POST / HTTP/1.1\r\n\r\n", &[b'x'; 1000], 100, None).await.unwrap();
        assert_eq!((answer.status, answer.keeps_alive), (StatusCode::PAYLOAD_TOO_LARGE, false));
    }
}
