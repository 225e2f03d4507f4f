//! Downloads of files into the cache, resumed where an earlier one stopped.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use reqwest::Method;
use reqwest::header::{CONTENT_LENGTH, CONTENT_RANGE, ETAG, HeaderMap, HeaderValue, IF_RANGE, RANGE};
use sha2::{Digest, Sha256};

use crate::cache::{RepositoryCache, is_safe, lock, share};
use crate::client::{Client, public};
use crate::error::Error;
use crate::hexadecimal;

/// A file as the hub describes it.
#[derive(Default)]
struct Description {
    etag: String,
    length: Option<u64>,
}

/// Brings a file of a commit into the cache.
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

/// The file of any address, kept beside the hub's cache under a hash of the address.
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
    // What an earlier run left may be of another version of the file, which nothing here can tell.
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
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let etag = text("x-linked-etag")
            .or_else(|| text(ETAG.as_str()))
            .map(|etag| etag.strip_prefix("W/").unwrap_or(etag).trim_matches('"').to_owned());
        let etag = etag.filter(|etag| is_safe(etag) && !etag.contains('/'));
        let length = text("x-linked-size").or_else(|| text(CONTENT_LENGTH.as_str()));
        Ok(Self {
            etag: etag.ok_or_else(|| Error::Status {
                url: public(url),
                status: 200,
                message: "the file has no ETag".into(),
            })?,
            length: length.and_then(|length| length.parse().ok()),
        })
    }

    /// Whether the ETag is the SHA-256 of the content, as for all large files.
    fn checksum(&self) -> Option<&str> {
        let is_checksum = self.etag.len() == 64 && self.etag.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_checksum.then_some(&self.etag)
    }
}

/// One download, over as many connections as it takes.
struct Download<'d> {
    client: &'d Client,
    url: &'d str,
    name: &'d str,
    description: &'d Description,
    content: Content,
}

/// Whether the content may change between requests.
enum Content {
    /// It is pinned by a commit.
    Fixed,
    /// It may change; the strong ETag of what has arrived so far, if there is one.
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
                        // The content is wrong: start over, once.
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

    /// Receives what is missing. A text says why the connection ended early.
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
                return Ok(Some("the hub does not know the rest of the file".into()));
            }
            answer => answer?,
        };
        if answer.status() != 206 || range_start(answer.headers()) != Some(done) {
            done = restart(file).map_err(fail)?;
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

/// Empties a file; the place to write at is its start.
fn restart(file: &mut File) -> io::Result<u64> {
    file.set_len(0)?;
    file.seek(SeekFrom::Start(0))
}

/// The first byte that a partial answer holds.
fn range_start(headers: &HeaderMap) -> Option<u64> {
    let text = headers.get(CONTENT_RANGE)?.to_str().ok()?;
    text.strip_prefix("bytes ")?.split('-').next()?.parse().ok()
}

/// What differs between a file and its description.
fn verify(file: &mut File, description: &Description) -> io::Result<Option<String>> {
    let length = file.seek(SeekFrom::End(0))?;
    if let Some(expected) = description.length
        && expected != length
    {
        return Ok(Some(format!("it has {length} bytes instead of {expected}")));
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
    Ok((found != checksum.to_ascii_lowercase()).then(|| "its checksum is wrong".into()))
}
