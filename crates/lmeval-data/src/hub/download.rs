//! Downloads of files into the cache, which go on where an earlier one broke off.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use reqwest::Method;
use reqwest::header::{CONTENT_LENGTH, CONTENT_RANGE, ETAG, HeaderMap, HeaderValue, RANGE};
use sha2::{Digest, Sha256};

use crate::error::{Error, ErrorKind};
use crate::hash::hexadecimal;

use super::cache::{RepositoryCache, is_safe, share};
use super::client::{Client, encode, encode_path, public};

/// A file as the hub describes it.
struct Description {
    etag: String,
    length: Option<u64>,
}

/// Brings a file of a commit into the cache.
pub(super) fn fetch(
    client: &Client,
    cache: &RepositoryCache,
    id: &str,
    commit: &str,
    path: &str,
) -> Result<(), Error> {
    let endpoint = &client.settings().endpoint;
    let url =
        format!("{endpoint}/datasets/{}/resolve/{}/{}", encode_path(id), encode(commit), encode_path(path));
    let description = Description::new(&client.describe(&url)?, &url)?;
    let lock = cache.lock(&description.etag)?;
    let blob = cache.blob(&description.etag);
    if !blob.is_file() {
        download(client, &url, path, &description, &blob)?;
    }
    cache.link(commit, path, &description.etag)?;
    drop(lock);
    Ok(())
}

/// Brings a file from any address to a place on disk, unless it is there.
pub(crate) fn fetch_address(client: &Client, url: &str, target: &Path) -> Result<(), Error> {
    if target.is_file() {
        return Ok(());
    }
    download(client, url, &public(url), &Description { etag: String::new(), length: None }, target)
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
            etag: etag.ok_or_else(|| ErrorKind::Status {
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

fn download(
    client: &Client,
    url: &str,
    name: &str,
    description: &Description,
    target: &Path,
) -> Result<(), Error> {
    let mut part = target.as_os_str().to_owned();
    part.push(".incomplete");
    let part = Path::new(&part);
    let fail = |error: io::Error| Error::io(part, error);
    fs_err::create_dir_all(part.parent().unwrap_or(part)).map_err(fail)?;
    let mut file =
        File::options().create(true).truncate(false).read(true).write(true).open(part).map_err(fail)?;
    let settings = client.settings();
    let mut damaged = false;
    let mut attempt = 1;
    loop {
        let before = file.seek(SeekFrom::End(0)).map_err(fail)?;
        let result = receive(client, url, name, description, &mut file);
        let problem = match result {
            Ok(None) => match verify(&mut file, description).map_err(fail)? {
                None => break,
                Some(message) => {
                    // What is there is wrong: begin anew, once.
                    file.set_len(0).map_err(fail)?;
                    if damaged {
                        drop(file);
                        fs_err::remove_file(part).map_err(fail)?;
                        return Err(ErrorKind::Damaged { file: name.into(), message }.into());
                    }
                    damaged = true;
                    message
                }
            },
            Ok(Some(reason)) => reason,
            Err(error) => return Err(error),
        };
        if file.metadata().map_err(fail)?.len() > before {
            attempt = 1;
        } else if attempt >= settings.attempts {
            let source = problem.into();
            return Err(ErrorKind::Connection { url: public(url), source }.into());
        }
        client.pause(attempt, None, name, &problem);
        attempt += 1;
    }
    share(&file).map_err(fail)?;
    file.sync_all().map_err(fail)?;
    drop(file);
    fs_err::rename(part, target).map_err(fail)?;
    settings.progress.finish(name);
    Ok(())
}

/// Receives what is missing. A text says why the connection broke off before the end.
fn receive(
    client: &Client,
    url: &str,
    name: &str,
    description: &Description,
    file: &mut File,
) -> Result<Option<String>, Error> {
    let fail = |error: io::Error| Error::io(name, error);
    let mut done = file.seek(SeekFrom::End(0)).map_err(fail)?;
    if description.length.is_some_and(|length| done > length) {
        file.set_len(0).map_err(fail)?;
        done = file.seek(SeekFrom::Start(0)).map_err(fail)?;
    }
    if description.length == Some(done) && done > 0 {
        return Ok(None);
    }
    let mut headers = HeaderMap::new();
    if done > 0
        && let Ok(range) = HeaderValue::from_str(&format!("bytes={done}-"))
    {
        headers.insert(RANGE, range);
    }
    let mut answer = match client.send(&Method::GET, url, &headers, true) {
        Err(error) if matches!(error.kind(), ErrorKind::Status { status: 416, .. }) && done > 0 => {
            file.set_len(0).map_err(fail)?;
            return Ok(Some("the hub does not know the rest of the file".into()));
        }
        answer => answer?,
    };
    let resumed = answer.status() == 206 && range_start(answer.headers()) == Some(done);
    if !resumed {
        file.set_len(0).map_err(fail)?;
        done = file.seek(SeekFrom::Start(0)).map_err(fail)?;
    }
    let progress = &client.settings().progress;
    let expected = description.length.or_else(|| answer.content_length().map(|rest| done + rest));
    progress.start(name, done, expected);
    loop {
        let (chunk, rest) = match client.wait(async move { (answer.chunk().await, answer) }) {
            Some((Ok(chunk), rest)) => (chunk, rest),
            Some((Err(error), _)) => return Ok(Some(error.without_url().to_string())),
            None => return Ok(Some("the client has stopped".into())),
        };
        answer = rest;
        let Some(chunk) = chunk else { break };
        file.write_all(&chunk).map_err(fail)?;
        done += chunk.len() as u64;
        progress.advance(name, chunk.len() as u64);
    }
    match expected {
        Some(length) if done < length => {
            Ok(Some(format!("the connection ended after {done} of {length} bytes")))
        }
        _ => Ok(None),
    }
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
