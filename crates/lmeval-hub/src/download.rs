//! File downloads into the cache, resumable across connections and processes.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use reqwest::header::{
    CONTENT_LENGTH, CONTENT_RANGE, ETAG, HeaderMap, HeaderValue, IF_RANGE, RANGE, TRANSFER_ENCODING,
};
use reqwest::{Method, Response, Version};
use sha2::{Digest, Sha256};

use crate::cache::{RepositoryCache, is_safe, lock, share};
use crate::client::{Client, public};
use crate::error::Error;
use crate::hexadecimal;

/// A file's ETag and length, from the hub's response headers.
#[derive(Default)]
struct Description {
    etag: String,
    length: Option<u64>,
}

/// Downloads a file of a commit into the cache, unless it is already there.
pub(crate) fn fetch(
    client: &Client,
    cache: &RepositoryCache,
    url: &str,
    commit: &str,
    path: &str,
) -> Result<(), Error> {
    let description = Description::new(&client.describe(url)?, url)?;
    let lock = lock(&cache.lock_file(&description.etag), || client.settings().progress.waiting(path))?;
    let blob = cache.blob(&description.etag);
    if !blob.is_file() {
        Download { client, url, name: path, description: &description, content: Content::Fixed }.to(&blob)?;
    }
    cache.link(commit, path, &description.etag)?;
    drop(lock);
    Ok(())
}

/// Downloads a file from any URL. Files are stored next to the hub's cache, named by a hash of the URL.
pub fn fetch_address(client: &Client, url: &str) -> Result<PathBuf, Error> {
    let settings = client.settings();
    let name = public(url);
    let home = settings.cache.parent().unwrap_or(&settings.cache);
    let folder = home.join("datasets").join("downloads");
    let target = folder.join(hexadecimal(&Sha256::digest(url.as_bytes())));
    if target.is_file() {
        return Ok(target);
    }
    if settings.offline {
        return Err(Error::Offline { what: name, cache: folder });
    }
    let _lock = lock(&beside(&target, ".lock"), || settings.progress.waiting(&name))?;
    if target.is_file() {
        return Ok(target);
    }
    // A partial file of an earlier run may be of another version, which cannot be detected: discard it.
    match fs_err::remove_file(beside(&target, ".incomplete")) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(Error::io(&target, error)),
        _ => {}
    }
    let description = Description::default();
    Download { client, url, name: &name, description: &description, content: Content::Changing(None) }
        .to(&target)?;
    Ok(target)
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

impl Description {
    fn new(headers: &HeaderMap, url: &str) -> Result<Self, Error> {
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let etag = header("x-linked-etag")
            .or_else(|| header(ETAG.as_str()))
            .map(|etag| etag.strip_prefix("W/").unwrap_or(etag).trim_matches('"').to_owned());
        let etag = etag.filter(|etag| is_safe(etag) && !etag.contains('/'));
        let length = header("x-linked-size").or_else(|| header(CONTENT_LENGTH.as_str()));
        Ok(Self {
            etag: etag.ok_or_else(|| Error::Status {
                url: public(url),
                status: 200,
                message: "the response has no ETag".into(),
            })?,
            length: length.and_then(|length| length.parse().ok()),
        })
    }

    /// The SHA-256 of the content, which is the ETag of all large files.
    fn checksum(&self) -> Option<&str> {
        let is_checksum = self.etag.len() == 64 && self.etag.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_checksum.then_some(&self.etag)
    }
}

/// One download, over as many connections as needed.
struct Download<'d> {
    client: &'d Client,
    url: &'d str,
    name: &'d str,
    description: &'d Description,
    content: Content,
}

/// Whether the content can change between requests.
enum Content {
    /// Pinned by a commit.
    Fixed,
    /// Not pinned. Holds the strong ETag of the partial file, if the server sent one.
    Changing(Option<HeaderValue>),
}

impl Download<'_> {
    fn to(mut self, target: &Path) -> Result<(), Error> {
        let part = &beside(target, ".incomplete");
        let fail = |error: io::Error| Error::io(part, error);
        fs_err::create_dir_all(part.parent().unwrap_or(part)).map_err(fail)?;
        let mut file =
            File::options().create(true).truncate(false).read(true).write(true).open(part).map_err(fail)?;
        let settings = self.client.settings();
        let mut damaged = false;
        let mut attempt = 1;
        loop {
            let before = file.seek(SeekFrom::End(0)).map_err(fail)?;
            let problem = match self.receive(&mut file)? {
                Some(problem) => problem,
                None => match verify(&mut file, self.description).map_err(fail)? {
                    None => break,
                    Some(message) => {
                        // Start over once; fail if the content is wrong again.
                        file.set_len(0).map_err(fail)?;
                        if damaged {
                            drop(file);
                            fs_err::remove_file(part).map_err(fail)?;
                            return Err(Error::Damaged { file: self.name.into(), message });
                        }
                        damaged = true;
                        message
                    }
                },
            };
            if file.metadata().map_err(fail)?.len() > before {
                attempt = 1;
            } else if attempt >= settings.attempts {
                return Err(Error::connection(self.url, problem));
            }
            self.client.pause(attempt, None, self.name, &problem);
            attempt += 1;
        }
        share(&file).map_err(fail)?;
        file.sync_all().map_err(fail)?;
        drop(file);
        fs_err::rename(part, target).map_err(fail)?;
        settings.progress.finish(self.name);
        Ok(())
    }

    /// Downloads the rest of the file over one connection. Returns the reason if the connection ended early.
    fn receive(&mut self, file: &mut File) -> Result<Option<String>, Error> {
        let fail = |error: io::Error| Error::io(self.name, error);
        let length = self.description.length;
        let mut done = file.seek(SeekFrom::End(0)).map_err(fail)?;
        if length.is_some_and(|length| done > length) || matches!(self.content, Content::Changing(None)) {
            done = restart(file).map_err(fail)?;
        }
        if length == Some(done) && done > 0 {
            return Ok(None);
        }
        let mut headers = HeaderMap::new();
        if done > 0
            && let Ok(range) = HeaderValue::from_str(&format!("bytes={done}-"))
        {
            headers.insert(RANGE, range);
            if let Content::Changing(Some(etag)) = &self.content {
                headers.insert(IF_RANGE, etag.clone());
            }
        }
        let mut answer = match self.client.send(&Method::GET, self.url, &headers, true) {
            Err(Error::Status { status: 416, .. }) if done > 0 => {
                restart(file).map_err(fail)?;
                return Ok(Some("the server rejected the requested range".into()));
            }
            answer => answer?,
        };
        if answer.status() != 206 || range_start(answer.headers()) != Some(done) {
            done = restart(file).map_err(fail)?;
        }
        if length.is_none() && self.description.checksum().is_none() && !marks_its_end(&answer) {
            let message = "the response has no length, so a lost connection would go unnoticed".into();
            return Err(Error::Status { url: public(self.url), status: answer.status().as_u16(), message });
        }
        if let Content::Changing(etag) = &mut self.content {
            let strong = |etag: &&HeaderValue| !etag.as_bytes().starts_with(b"W/");
            *etag = answer.headers().get(ETAG).filter(strong).cloned();
        }
        let progress = &self.client.settings().progress;
        let expected = length.or_else(|| answer.content_length().map(|rest| done + rest));
        progress.start(self.name, done, expected);
        loop {
            let (chunk, rest) = match self.client.wait(async move { (answer.chunk().await, answer) }) {
                Some((Ok(chunk), rest)) => (chunk, rest),
                Some((Err(error), _)) => return Ok(Some(error.without_url().to_string())),
                None => return Ok(Some("the client has stopped".into())),
            };
            answer = rest;
            let Some(chunk) = chunk else { break };
            file.write_all(&chunk).map_err(fail)?;
            done += chunk.len() as u64;
            progress.advance(self.name, chunk.len() as u64);
        }
        match expected {
            Some(length) if done < length => {
                Ok(Some(format!("the connection ended after {done} of {length} bytes")))
            }
            _ => Ok(None),
        }
    }
}

/// Whether the end of a body can be told from a lost connection. A body with neither a length nor chunks ends when the
/// connection does.
fn marks_its_end(answer: &Response) -> bool {
    answer.version() >= Version::HTTP_2
        || [CONTENT_LENGTH, TRANSFER_ENCODING].iter().any(|name| answer.headers().contains_key(name))
}

/// Truncates a file and seeks to its start.
fn restart(file: &mut File) -> io::Result<u64> {
    file.set_len(0)?;
    file.seek(SeekFrom::Start(0))
}

/// The offset of the first byte of a partial response.
fn range_start(headers: &HeaderMap) -> Option<u64> {
    let range = headers.get(CONTENT_RANGE)?.to_str().ok()?;
    range.strip_prefix("bytes ")?.split('-').next()?.parse().ok()
}

/// Compares a file with its description. Returns the mismatch, if any.
fn verify(file: &mut File, description: &Description) -> io::Result<Option<String>> {
    let length = file.seek(SeekFrom::End(0))?;
    if let Some(expected) = description.length
        && expected != length
    {
        return Ok(Some(format!("got {length} bytes, expected {expected}")));
    }
    let Some(checksum) = description.checksum() else {
        return Ok(None);
    };
    file.rewind()?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        let count = file.read(&mut buffer)?;
        if count == 0 {
            break;
        }
        hash.update(&buffer[..count]);
    }
    let found = hexadecimal(&hash.finalize());
    Ok((found != checksum.to_ascii_lowercase()).then(|| "the SHA-256 checksum does not match".into()))
}
