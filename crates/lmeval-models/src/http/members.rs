//! The servers of a client: a fixed list, or a pool whose members come and go.

use std::collections::BTreeMap;
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use lmeval_core::{ModelError, ModelErrorKind};

use super::balance::Changes;
use super::client::Client;
use super::connect::listed_endpoint;
use super::member::{MemberView, Standing, Tally};
use super::pool::{Listing, PoolSource};

/// How often the addresses of a name are looked up.
const NAME_INTERVAL: Duration = Duration::from_secs(5);

/// The list of a pool that is in use.
#[derive(Default)]
pub(super) struct Listed {
    /// `None` before the first one was read.
    listings: Option<Vec<Listing>>,
    /// The problem with the next list, as reported.
    problem: Option<String>,
    read: Option<tokio::time::Instant>,
}

impl Client {
    /// Whether members come and go.
    pub(crate) fn is_pool(&self) -> bool {
        self.settings.pool.is_some()
    }

    /// How often the numbers of members are compared again; `None` for never.
    pub(crate) fn recheck(&self) -> Option<Duration> {
        self.settings.recheck
    }

    /// The name of the pool; `None` for a fixed list of addresses.
    pub(crate) fn pool(&self) -> Option<String> {
        self.settings.pool.as_ref().map(PoolSource::name)
    }

    /// The members that have not left, whatever their standing.
    pub(crate) fn members(&self) -> Vec<MemberView> {
        self.balancer.members()
    }

    /// The members that get calls.
    pub(crate) fn serving(&self) -> Vec<MemberView> {
        self.members().into_iter().filter(|member| member.standing == Standing::Serving).collect()
    }

    /// The members that get calls, or before the first contact all that are listed, and whether they have been examined.
    pub(crate) fn serving_or_listed(&self) -> Result<(Vec<MemberView>, bool), ModelError> {
        if self.balancer.has_served() {
            return Ok((self.serving(), true));
        }
        self.reload()?;
        Ok((self.members(), false))
    }

    /// The URL of the first member that gets calls, as given; empty if there is none.
    pub(crate) fn first_url(&self) -> String {
        self.serving().into_iter().next().map_or_else(String::new, |member| member.given)
    }

    /// The URL of the first member, for messages, or the name of the pool.
    pub(crate) fn shown_url(&self) -> String {
        let first = || self.members().into_iter().next().map_or_else(String::new, |member| member.shown);
        self.pool().unwrap_or_else(first)
    }

    /// The calls of every server so far, by its URL for messages.
    pub(crate) fn tallies(&self) -> BTreeMap<String, Tally> {
        self.balancer.tallies()
    }

    /// Records the outcome of an examination.
    pub(crate) fn set_standing(&self, id: usize, standing: Standing, proven: Option<u8>) {
        self.balancer.set_standing(id, standing, proven);
    }

    /// A member did not answer a query, so it gets no calls until it is examined; unless it has some in flight.
    pub(crate) fn suspect(&self, id: usize) {
        self.balancer.suspect(id);
    }

    /// Records the protocols that a member has proven, as bits.
    pub(crate) fn set_proven(&self, id: usize, proven: u8) {
        self.balancer.set_proven(id, proven);
    }

    /// Reads the list of the pool again. One that cannot be read is reported once, and the members stay as they were. Fails
    /// if there has been no list so far.
    pub(crate) async fn refresh(&self) -> Result<Changes, ModelError> {
        let Some(source) = self.settings.pool.clone() else { return Ok(Changes::default()) };
        let now = tokio::time::Instant::now();
        let is_name = matches!(source, PoolSource::Name { .. });
        {
            let mut listed = self.listed();
            let is_recent =
                listed.read.is_some_and(|read| now.saturating_duration_since(read) < NAME_INTERVAL);
            if is_name && is_recent && listed.problem.is_none() {
                return Ok(Changes::default());
            }
            listed.read = Some(now);
        }
        let reading = tokio::task::spawn_blocking(move || source.read()).await;
        self.apply(reading.unwrap_or_else(|_| Err("The list of servers cannot be read".to_owned())))
    }

    /// [`refresh`](Self::refresh) outside of a runtime.
    pub(crate) fn reload(&self) -> Result<Changes, ModelError> {
        self.settings.pool.as_ref().map_or_else(|| Ok(Changes::default()), |source| self.apply(source.read()))
    }

    /// Makes a list the current one.
    fn apply(&self, reading: Result<Vec<Listing>, String>) -> Result<Changes, ModelError> {
        let listings = match reading {
            Ok(listings) => listings,
            Err(problem) => return self.keep_list(problem),
        };
        {
            let mut listed = self.listed();
            listed.problem = None;
            if listed.listings.as_ref() == Some(&listings) {
                return Ok(Changes::default());
            }
            listed.listings = Some(listings.clone());
        }
        let urls: Vec<String> = listings.iter().map(|listing| listing.url.clone()).collect();
        self.secrets.add(&urls);
        let endpoint = |listing: &Listing| {
            Ok((listed_endpoint(listing, &self.settings, &self.connections)?, listing.weight))
        };
        let endpoints = listings.iter().map(endpoint).collect::<Result<Vec<_>, ModelError>>()?;
        let changes = self.balancer.replace(endpoints);
        for (member, _) in &changes.left {
            self.connections.forget(&member.url);
        }
        Ok(changes)
    }

    /// Keeps the members of the last list that could be read.
    fn keep_list(&self, problem: String) -> Result<Changes, ModelError> {
        let is_name = matches!(self.settings.pool, Some(PoolSource::Name { .. }));
        let mut listed = self.listed();
        if listed.listings.is_none() {
            let (kind, hint) = if is_name {
                (ModelErrorKind::Unreachable, "Check the name after `dns+`")
            } else {
                let hint = "The file has the form `{\"servers\": [{\"url\": \"http://host:8000/v1/completions\"}]}`, or is a list \
                            of URLs; `[]` waits for servers";
                (ModelErrorKind::Configuration, hint)
            };
            return Err(ModelError::new(kind, problem).hint(hint));
        }
        if listed.problem.as_ref() != Some(&problem) {
            listed.problem = Some(problem.clone());
            drop(listed);
            self.stats.warn(format!("{problem}; the servers of the last valid list stay in use"));
        }
        Ok(Changes::default())
    }

    fn listed(&self) -> MutexGuard<'_, Listed> {
        self.listed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that no member gets calls, so that waiting calls give up after `patience`.
    pub(crate) fn note_pause(&self, reason: &str) {
        self.outage.record_failure(None, reason);
        self.balancer.wake();
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;
    use std::sync::mpsc;

    use bytes::Bytes;

    use super::super::client::Call;
    use super::super::settings::ClientSettings;
    use super::*;

    #[tokio::test]
    async fn connections_are_closed_after_the_last_answer() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/v1/completions", listener.local_addr().unwrap());
        let (sender, closed) = mpsc::channel();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut buffer = [0; 4096];
            let mut received = Vec::new();
            while !received.ends_with(b"{}") {
                let count = stream.read(&mut buffer).unwrap();
                received.extend_from_slice(&buffer[..count]);
            }
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n1").unwrap();
            sender.send(stream.read(&mut buffer).unwrap_or(0)).unwrap();
        });
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pool.json");
        fs_err::write(&path, format!("[\"{url}\"]")).unwrap();
        let mut settings = ClientSettings::new("");
        settings.base_urls.clear();
        settings.pool = Some(PoolSource::File(path.clone()));
        let client = Client::new(settings).unwrap();
        let joined = client.reload().unwrap().joined;
        assert!(joined.len() == 1 && client.serving().is_empty(), "a member must be examined first");
        client.set_standing(joined[0].id, Standing::Serving, None);
        let call =
            Call { path: "", body: Bytes::from_static(b"{}"), about: "a test", tokens: 1, scores: false };
        client.post(call, |_| Ok(())).await.unwrap();
        assert!(closed.try_recv().is_err());
        fs_err::write(&path, "[]").unwrap();
        let left = client.reload().unwrap().left;
        assert_eq!((left.len(), left[0].1.answered), (1, 1));
        let closed = tokio::task::spawn_blocking(move || closed.recv_timeout(Duration::from_mins(1)));
        assert_eq!(closed.await.unwrap(), Ok(0), "the connection stays open");
    }
}
