//! A hub on loopback that records requests and fails on demand.

#![expect(clippy::unwrap_used, clippy::missing_panics_doc, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// A fault for the next request for a path.
#[derive(Clone, Debug)]
pub enum HubFault {
    /// An error status with headers.
    Status(u16, Vec<(&'static str, &'static str)>),
    /// The connection closes after some bytes of the body.
    Cut(usize),
    /// The body has no `Content-Length` and ends with the connection, after at most this many bytes.
    Unframed(usize),
    /// The connection closes without an answer.
    Close,
    /// Another body, with its own length.
    Body(&'static [u8]),
    /// The complete body, whatever range was requested.
    IgnoreRange,
    /// The usual answer with additional headers.
    Headers(Vec<(&'static str, &'static str)>),
}

/// A repository: a commit for each revision, and files for each commit.
#[derive(Debug, Default)]
struct Repository {
    revisions: HashMap<String, String>,
    commits: HashMap<String, BTreeMap<String, Vec<u8>>>,
}

#[derive(Debug, Default)]
struct State {
    repositories: HashMap<String, Repository>,
    faults: HashMap<String, VecDeque<HubFault>>,
    requests: Vec<HubRequest>,
    required_token: Option<String>,
    /// Large files that were uploaded, by their digest.
    uploads: HashMap<String, Vec<u8>>,
    /// A prefix of every path, as on some mirrors.
    below: String,
}

/// A recorded request.
#[derive(Clone, Debug)]
pub struct HubRequest {
    /// `GET`, `HEAD`, `POST` or `PUT`.
    pub method: String,
    /// The path with its query.
    pub path: String,
    /// The `Range` header.
    pub range: Option<String>,
    /// The `If-Range` header.
    pub if_range: Option<String>,
    /// The `Authorization` header.
    pub token: Option<String>,
    /// The content that was sent.
    pub body: Vec<u8>,
}

/// A stand-in for the hub. Large files redirect to another origin, like on the hub.
#[derive(Debug)]
pub struct StandInHub {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

/// Files above this size are stored elsewhere, like on the hub.
const LARGE: usize = 1000;

impl StandInHub {
    /// An empty hub.
    #[expect(clippy::new_without_default, reason = "it starts threads")]
    pub fn new() -> Self {
        let state = Arc::new(Mutex::new(State::default()));
        let storage = listen(state.clone(), None);
        Self { address: listen(state.clone(), Some(storage)), state }
    }

    /// The value for `HF_ENDPOINT`.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Adds files of a dataset under a revision and returns the commit.
    pub fn add(&self, id: &str, revision: &str, files: &[(&str, &[u8])]) -> String {
        self.add_to(format!("datasets/{id}"), revision, files)
    }

    /// Adds files of a model under a revision and returns the commit.
    pub fn add_model(&self, id: &str, revision: &str, files: &[(&str, &[u8])]) -> String {
        self.add_to(format!("models/{id}"), revision, files)
    }

    /// Adds all files of a local folder as a model and returns the commit.
    pub fn add_model_folder(&self, id: &str, revision: &str, folder: &Path) -> String {
        let entries = fs_err::read_dir(folder).unwrap().map(|entry| entry.unwrap());
        let mut files: Vec<_> = entries
            .map(|entry| (entry.file_name().into_string().unwrap(), fs_err::read(entry.path()).unwrap()))
            .collect();
        files.sort_unstable();
        let files: Vec<_> = files.iter().map(|(name, content)| (name.as_str(), content.as_slice())).collect();
        self.add_model(id, revision, &files)
    }

    fn add_to(&self, key: String, revision: &str, files: &[(&str, &[u8])]) -> String {
        let mut state = self.state.lock().unwrap();
        let repository = state.repositories.entry(key).or_default();
        let commit = hexadecimal(&Sha256::digest(format!("{revision}{files:?}")))[..40].to_owned();
        let files = files.iter().map(|(path, content)| ((*path).to_owned(), content.to_vec())).collect();
        repository.revisions.insert(revision.into(), commit.clone());
        repository.commits.insert(commit.clone(), files);
        commit
    }

    /// The files of the last commit that was pushed to a repository, such as `models/org/name`.
    pub fn pushed(&self, key: &str) -> BTreeMap<String, Vec<u8>> {
        let state = self.state.lock().unwrap();
        state
            .repositories
            .get(key)
            .and_then(|repository| repository.commits.get("pushed"))
            .cloned()
            .unwrap_or_default()
    }

    /// Makes requests whose method and path contain a string fail, one after the other.
    pub fn fail(&self, request: &str, faults: &[HubFault]) {
        self.state.lock().unwrap().faults.insert(request.into(), faults.iter().cloned().collect());
    }

    /// Requires this token for further requests.
    pub fn require_token(&self, token: &str) {
        self.state.lock().unwrap().required_token = Some(format!("Bearer {token}"));
    }

    /// Serves every path below this one, like some mirrors.
    pub fn serve_below(&self, path: &str) {
        self.state.lock().unwrap().below = path.into();
    }

    /// The requests whose method and path contain a string.
    pub fn requests(&self, text: &str) -> Vec<HubRequest> {
        let state = self.state.lock().unwrap();
        state
            .requests
            .iter()
            .filter(|seen| format!("{} {}", seen.method, seen.path).contains(text))
            .cloned()
            .collect()
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}

/// Serves on a free port: the hub if there is a storage address, otherwise the storage.
fn listen(state: Arc<Mutex<State>>, storage: Option<SocketAddr>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            let state = state.clone();
            std::thread::spawn(move || serve(&connection, &state, storage));
        }
    });
    address
}

/// An answer before faults are applied.
struct Answer {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Answer {
    fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self { status, headers: Vec::new(), body: body.into() }
    }

    fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }
}

fn serve(connection: &TcpStream, state: &Mutex<State>, storage: Option<SocketAddr>) {
    let mut reader = BufReader::new(connection);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        let mut parts = line.split_whitespace();
        let method = parts.next().unwrap_or_default().to_owned();
        let path = parts.next().unwrap_or_default().to_owned();
        let mut headers = HashMap::new();
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            let Some((name, value)) = line.trim().split_once(':') else {
                break;
            };
            headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
        }
        let seen = HubRequest {
            method: method.clone(),
            path: path.clone(),
            range: headers.get("range").cloned(),
            if_range: headers.get("if-range").cloned(),
            token: headers.get("authorization").cloned(),
            body: {
                let length = headers.get("content-length").and_then(|length| length.parse().ok());
                let mut body = vec![0; length.unwrap_or(0)];
                if reader.read_exact(&mut body).is_err() {
                    return;
                }
                body
            },
        };
        let mut state = state.lock().unwrap();
        state.requests.push(seen.clone());
        let key = format!("{method} {path}");
        let fault = state
            .faults
            .iter_mut()
            .find(|(text, _)| key.contains(text.as_str()))
            .and_then(|(_, list)| list.pop_front());
        let mut answer = match storage {
            Some(storage) if method == "POST" => take_push(&mut state, &seen, storage),
            Some(storage) => hub_answer(&state, &seen, storage),
            None if method == "PUT" => {
                state.uploads.insert(stored_hash(&path).to_owned(), seen.body.clone());
                Answer::new(200, "")
            }
            None => storage_answer(&state, &path),
        };
        drop(state);
        let (mut cut, mut is_framed) = (None, true);
        match fault {
            Some(HubFault::Close) => return,
            Some(HubFault::Status(status, headers)) => {
                answer = Answer::new(status, "error");
                for (name, value) in headers {
                    answer = answer.with(name, value);
                }
            }
            Some(HubFault::Body(body)) => answer.body = body.to_vec(),
            Some(HubFault::Cut(bytes)) => {
                ranged(&mut answer, &seen);
                cut = Some(bytes);
            }
            Some(HubFault::Unframed(bytes)) => {
                ranged(&mut answer, &seen);
                cut = Some(bytes);
                is_framed = false;
            }
            Some(HubFault::IgnoreRange) => {}
            Some(HubFault::Headers(headers)) => {
                for (name, value) in headers {
                    answer = answer.with(name, value);
                }
            }
            None => ranged(&mut answer, &seen),
        }
        if send(connection, &answer, &method, cut, is_framed).is_err() || cut.is_some() {
            return;
        }
    }
}

/// Cuts the body to the requested range.
fn ranged(answer: &mut Answer, seen: &HubRequest) {
    let start = seen
        .range
        .as_ref()
        .and_then(|range| range.strip_prefix("bytes=")?.strip_suffix('-')?.parse::<usize>().ok());
    if let Some(start) = start.filter(|_| answer.status == 200) {
        if start >= answer.body.len() {
            *answer = Answer::new(416, "");
            return;
        }
        let total = answer.body.len();
        answer.status = 206;
        answer.body.drain(..start);
        answer.headers.push(("Content-Range".into(), format!("bytes {start}-{}/{total}", total - 1)));
    }
}

fn send(
    mut connection: &TcpStream,
    answer: &Answer,
    method: &str,
    cut: Option<usize>,
    is_framed: bool,
) -> std::io::Result<()> {
    let mut head = Vec::new();
    write!(head, "HTTP/1.1 {} X\r\n", answer.status)?;
    for (name, value) in &answer.headers {
        write!(head, "{name}: {value}\r\n")?;
    }
    if is_framed {
        write!(head, "Content-Length: {}\r\n", answer.body.len())?;
    }
    head.extend(b"\r\n");
    connection.write_all(&head)?;
    if method != "HEAD" {
        connection.write_all(&answer.body[..cut.unwrap_or(usize::MAX).min(answer.body.len())])?;
    }
    connection.flush()
}

fn missing(code: &str) -> Answer {
    Answer::new(404, "").with("X-Error-Code", code).with("X-Error-Message", "not found")
}

fn hub_answer(state: &State, seen: &HubRequest, storage: SocketAddr) -> Answer {
    if state.required_token.is_some() && seen.token != state.required_token {
        return Answer::new(401, "").with("X-Error-Message", "Invalid credentials");
    }
    let (path, query) = seen.path.split_once('?').unwrap_or((&seen.path, ""));
    let Some(local) = path.strip_prefix(&state.below) else { return missing("NotFound") };
    let decoded = local.replace("%2F", "/").replace("%20", " ");
    for (key, repository) in &state.repositories {
        let commit_of = |revision: &str| {
            let known = repository.commits.contains_key(revision).then(|| revision.to_owned());
            repository.revisions.get(revision).cloned().or(known)
        };
        if let Some(revision) = decoded.strip_prefix(&format!("/api/{key}/revision/")) {
            return match commit_of(revision) {
                Some(commit) => Answer::new(200, format!("{{\"sha\": \"{commit}\"}}")),
                None => missing("RevisionNotFound"),
            };
        }
        if decoded == format!("/api/{key}/refs") {
            let branches = repository.revisions.iter().map(|(name, commit)| {
                format!(
                    "{{\"name\": \"{name}\", \"ref\": \"refs/heads/{name}\", \"targetCommit\": \"{commit}\"}}"
                )
            });
            let branches: Vec<String> = branches.collect();
            return Answer::new(200, format!("{{\"branches\": [{}], \"tags\": []}}", branches.join(", ")));
        }
        if let Some(commit) = decoded.strip_prefix(&format!("/api/{key}/tree/")) {
            return tree(repository, commit, query, path);
        }
        let files = key.strip_prefix("models/").unwrap_or(key);
        if let Some(rest) = decoded.strip_prefix(&format!("/{files}/resolve/")) {
            let (revision, file) = rest.split_once('/').unwrap_or((rest, ""));
            let Some(commit) = commit_of(revision) else { return missing("RevisionNotFound") };
            let Some(content) = repository.commits[&commit].get(file) else {
                return missing("EntryNotFound").with("X-Repo-Commit", commit);
            };
            let hash = hexadecimal(&Sha256::digest(content));
            if content.len() > LARGE {
                return Answer::new(302, "")
                    .with("X-Repo-Commit", commit)
                    .with("X-Linked-Etag", format!("\"{hash}\""))
                    .with("X-Linked-Size", content.len().to_string())
                    .with("ETag", "\"pointer\"")
                    .with("Location", format!("http://{storage}/storage/{hash}?signature=hidden"));
            }
            return Answer::new(200, content.clone())
                .with("X-Repo-Commit", commit)
                .with("ETag", format!("\"{}\"", &hash[..40]));
        }
    }
    missing("RepoNotFound")
}

/// Lists two entries per page.
fn tree(repository: &Repository, commit: &str, query: &str, path: &str) -> Answer {
    let Some(files) = repository.commits.get(commit) else {
        return missing("RevisionNotFound");
    };
    let from: usize = query.split("cursor=").nth(1).and_then(|text| text.parse().ok()).unwrap_or(0);
    let entry = |(name, content): (&String, &Vec<u8>)| {
        format!("{{\"type\": \"file\", \"path\": \"{name}\", \"size\": {}}}", content.len())
    };
    let page: Vec<String> = files.iter().skip(from).take(2).map(entry).collect();
    let answer = Answer::new(
        200,
        format!(
            "[{{\"type\": \"directory\", \"path\": \"data\"}}{}{}]",
            if page.is_empty() { "" } else { ", " },
            page.join(", ")
        ),
    );
    if from + 2 < files.len() {
        answer.with("Link", format!("<{path}?recursive=true&cursor={}>; rel=\"next\"", from + 2))
    } else {
        answer
    }
}

/// Answers the three requests of a push: how files are stored, where large ones go, and the commit.
fn take_push(state: &mut State, seen: &HubRequest, storage: SocketAddr) -> Answer {
    if state.required_token.is_some() && seen.token != state.required_token {
        return Answer::new(403, "").with("X-Error-Message", "You have no write access");
    }
    let body: Vec<Value> =
        serde_json::Deserializer::from_slice(&seen.body).into_iter().map_while(Result::ok).collect();
    let first = &body[0];
    let path = seen.path.replace("%2F", "/");
    let json = |value: Value| Answer::new(200, value.to_string());
    if path.contains("/preupload/") {
        let mode = |file: &Value| {
            let mode = if file["size"].as_u64() > Some(LARGE as u64) { "lfs" } else { "regular" };
            json!({"path": file["path"], "uploadMode": mode})
        };
        let files: Vec<Value> = first["files"].as_array().unwrap().iter().map(mode).collect();
        return json(json!({"files": files}));
    }
    if path.ends_with(".git/info/lfs/objects/batch") {
        let oid = first["objects"][0]["oid"].as_str().unwrap();
        let href = format!("http://{storage}/storage/{oid}?signature=hidden");
        let actions = json!({"upload": {"href": href, "header": {"x-part": "whole"}}});
        let is_known = state.uploads.contains_key(oid);
        let actions = if is_known { Value::Null } else { actions };
        return json(json!({"objects": [{"oid": oid, "actions": actions}]}));
    }
    let (key, revision) = path.trim_start_matches("/api/").split_once("/commit/").unwrap();
    let revision = revision.split('?').next().unwrap();
    let mut files = BTreeMap::new();
    for line in &body[1..] {
        let value = &line["value"];
        let content = match line["key"].as_str() {
            Some("file") => STANDARD.decode(value["content"].as_str().unwrap()).unwrap(),
            _ => state.uploads[value["oid"].as_str().unwrap()].clone(),
        };
        files.insert(value["path"].as_str().unwrap().to_owned(), content);
    }
    let repository = state.repositories.entry(key.to_owned()).or_default();
    repository.revisions.insert(revision.to_owned(), "pushed".to_owned());
    repository.commits.insert("pushed".to_owned(), files);
    let mut answer = json!({"commitUrl": format!("https://hub.example/{key}/commit/pushed")});
    if path.ends_with("create_pr=1") {
        answer["pullRequestUrl"] = format!("https://hub.example/{key}/discussions/1").into();
    }
    json(answer)
}

fn stored_hash(path: &str) -> &str {
    path.trim_start_matches("/storage/").split('?').next().unwrap_or_default()
}

fn storage_answer(state: &State, path: &str) -> Answer {
    let hash = stored_hash(path);
    let contents = state
        .repositories
        .values()
        .flat_map(|repository| repository.commits.values())
        .flat_map(BTreeMap::values);
    match contents.into_iter().find(|content| hexadecimal(&Sha256::digest(content)) == hash) {
        Some(content) => Answer::new(200, content.clone()).with("ETag", "\"other\""),
        None => Answer::new(404, ""),
    }
}
