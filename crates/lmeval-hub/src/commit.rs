//! Commits of local files to a repository of the hub.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use fs_err as fs;
use lmeval_pycompat::{Dict, Value, json};
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Url};
use sha2::{Digest as _, Sha256};

use crate::client::{Client, encode, public};
use crate::error::Error;
use crate::hexadecimal;
use crate::repository::{Kind, parse};

const GIT_LFS: &str = "application/vnd.git-lfs+json";
/// Bytes of a file by which the hub decides how it is stored.
const SAMPLE: usize = 512;

/// Files to add to a repository, in one commit.
#[derive(Clone, Debug)]
pub struct Commit<'a> {
    /// The type of the repository.
    pub kind: Kind,
    /// The repository, as `ORG/NAME`.
    pub id: &'a str,
    /// The branch.
    pub revision: &'a str,
    /// The first line of the message.
    pub title: &'a str,
    /// Whether to open a pull request instead of changing the branch.
    pub pull_request: bool,
    /// The path of each file in the repository, and where it is.
    pub files: &'a [(String, PathBuf)],
}

impl Commit<'_> {
    /// Uploads the files; returns the address of the commit or the pull request.
    ///
    /// Large files are stored first, by their digest, so that a commit that fails can be sent again without them.
    pub fn push(&self, client: &Client) -> Result<String, Error> {
        if client.settings().offline {
            return Err(Error::Offline { what: self.id.to_owned(), cache: client.settings().cache.clone() });
        }
        let mut lines =
            vec![line("header", [("summary", Value::str(self.title)), ("description", "".into())])];
        for (file, is_large) in self.files.iter().zip(self.large_files(client)?) {
            lines.push(if is_large { self.store(client, file)? } else { inline(file)? });
        }
        let mut address = self.address(client, "commit");
        if self.pull_request {
            address += "?create_pr=1";
        }
        // Sent once: an answer that is lost may belong to a commit that was made.
        let (headers, body) = (typed("application/x-ndjson"), lines.concat().into());
        let answer = client.submit((&Method::POST, &address), &headers, &body, 1)?;
        let answer = parse_dict(&address, &answer)?;
        let link = ["pullRequestUrl", "commitUrl"].iter().find_map(|key| answer.get_str(key)?.as_str());
        Ok(link.map_or_else(|| public(&address), str::to_owned))
    }

    fn address(&self, client: &Client, what: &str) -> String {
        let (endpoint, kind) = (&client.settings().endpoint, self.kind.plural());
        format!("{endpoint}/api/{kind}/{}/{what}/{}", self.id, encode(self.revision))
    }

    /// Asks the hub which files are stored by their digest.
    fn large_files(&self, client: &Client) -> Result<Vec<bool>, Error> {
        let files = self.files.iter().map(|(name, path)| {
            let mut sample = Vec::new();
            let file = fs::File::open(path).and_then(|file| {
                let size = file.metadata()?.len();
                file.take(SAMPLE as u64).read_to_end(&mut sample).map(|_| size)
            });
            Ok(Value::dict([
                ("path", Value::str(name.as_str())),
                ("sample", Value::str(STANDARD.encode(&sample))),
                ("size", Value::Int(file.map_err(unreadable(path))? as i64)),
            ]))
        });
        let files = files.collect::<Result<Vec<_>, Error>>()?;
        let body = encode_json(&Value::dict([("files", Value::list(files))]));
        let address = self.address(client, "preupload");
        let answer = ask(client, &address, &typed("application/json"), &body)?;
        let modes = answer.get_str("files").and_then(Value::as_list).unwrap_or_default();
        let is_large = |name: &str| {
            modes.iter().filter_map(Value::as_dict).any(|file| {
                let is = |key: &str, value: &str| file.get_str(key).and_then(Value::as_str) == Some(value);
                is("path", name) && is("uploadMode", "lfs")
            })
        };
        Ok(self.files.iter().map(|(name, _)| is_large(name)).collect())
    }

    /// Uploads a file to the store of large files, unless it is there; returns its line of the commit.
    fn store(&self, client: &Client, (name, path): &(String, PathBuf)) -> Result<String, Error> {
        let content = fs::read(path).map_err(unreadable(path))?;
        let digest = hexadecimal(&Sha256::digest(&content));
        let object = [("oid", Value::str(digest)), ("size", Value::Int(content.len() as i64))];
        let body = Value::dict([
            ("operation", Value::str("upload")),
            ("transfers", Value::list([Value::str("basic")])),
            ("objects", Value::list([Value::dict(object.clone())])),
            ("hash_algo", Value::str("sha256")),
        ]);
        let address = format!(
            "{}{}/{}.git/info/lfs/objects/batch",
            client.settings().endpoint,
            self.kind.prefix(),
            self.id
        );
        let mut headers = typed(GIT_LFS);
        headers.insert(ACCEPT, HeaderValue::from_static(GIT_LFS));
        let answer = ask(client, &address, &headers, &encode_json(&body))?;
        let objects = answer.get_str("objects").and_then(Value::as_list).unwrap_or_default();
        let actions = objects.first().and_then(|object| object.as_dict()?.get_str("actions")?.as_dict());
        // Without actions the store has the file.
        let action = |name: &str| actions.and_then(|actions| actions.get_str(name)?.as_dict());
        if let Some(upload) = action("upload") {
            follow(client, &Method::PUT, upload, HeaderMap::new(), &content.into())?;
        }
        if let Some(verify) = action("verify") {
            let body = encode_json(&Value::dict(object.clone()));
            follow(client, &Method::POST, verify, typed("application/json"), &body.into())?;
        }
        let [oid, size] = object;
        let file = [("path", Value::str(name.as_str())), ("algo", Value::str("sha256")), oid, size];
        Ok(line("lfsFile", file))
    }
}

/// Sends content to the address that the store of large files named.
fn follow(
    client: &Client,
    method: &Method,
    action: &Dict,
    mut headers: HeaderMap,
    body: &Bytes,
) -> Result<(), Error> {
    let address = action.get_str("href").and_then(Value::as_str).unwrap_or_default();
    headers.extend(given_headers(action, address)?);
    client.submit((method, address), &headers, body, client.settings().attempts).map(drop)
}

/// The headers that the store wants. One with parts wants the file in pieces, which this does not do.
fn given_headers(action: &Dict, href: &str) -> Result<HeaderMap, Error> {
    let mut headers = HeaderMap::new();
    for (name, value) in action.get_str("header").and_then(Value::as_dict).into_iter().flat_map(Dict::iter) {
        let (Some(name), Some(value)) = (name.as_str(), value.as_str()) else { continue };
        if name == "chunk_size" {
            let message =
                "the file is too large to be sent in one piece; upload it with `hf upload`".to_owned();
            return Err(Error::Status { url: public(href), status: 413, message });
        }
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::from_str(value)) {
            headers.insert(name, value);
        }
    }
    if Url::parse(href).is_err() {
        return Err(Error::connection(href, "the store of large files named no address"));
    }
    Ok(headers)
}

/// A small file as a line of a commit.
fn inline((name, path): &(String, PathBuf)) -> Result<String, Error> {
    let content = fs::read(path).map_err(unreadable(path))?;
    Ok(line(
        "file",
        [
            ("path", Value::str(name.as_str())),
            ("content", Value::str(STANDARD.encode(content))),
            ("encoding", Value::str("base64")),
        ],
    ))
}

fn line<const N: usize>(key: &str, value: [(&str, Value); N]) -> String {
    encode_json(&Value::dict([("key", Value::str(key)), ("value", Value::dict(value))])) + "\n"
}

fn encode_json(value: &Value) -> String {
    json::dumps(value, &json::Options::default()).expect("strings and numbers are JSON")
}

/// Posts JSON and returns the JSON object that the hub answers with.
fn ask(client: &Client, address: &str, headers: &HeaderMap, body: &str) -> Result<Dict, Error> {
    let body = Bytes::copy_from_slice(body.as_bytes());
    let answer = client.submit((&Method::POST, address), headers, &body, client.settings().attempts)?;
    parse_dict(address, &answer)
}

fn parse_dict(address: &str, body: &[u8]) -> Result<Dict, Error> {
    match parse(address, body)? {
        Value::Dict(answer) => Ok((*answer).clone()),
        _ => Err(Error::connection(address, "the answer is not a JSON object")),
    }
}

fn typed(content: &'static str) -> HeaderMap {
    HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(content))])
}

fn unreadable(path: &Path) -> impl Fn(std::io::Error) -> Error + '_ {
    move |source| Error::Unreadable { path: path.display().to_string(), source }
}
