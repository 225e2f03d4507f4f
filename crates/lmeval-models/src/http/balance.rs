//! Load balancing over the configured base URLs.
//!
//! Each call goes to the healthy endpoint with the fewest calls in flight, or to its preferred one while that has
//! only a few more: prompts that share a prefix then find it in the cache of one server. An endpoint that refuses
//! connections, or fails three times in a row, is ejected for a period that grows with every ejection. Then a
//! single probe is sent; other calls follow once the probe is answered or has run for two seconds without
//! failing, since long answers take that long. A single endpoint is treated the same way, so that a server
//! that is down is not flooded.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use reqwest::Url;
use reqwest::header::HeaderMap;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::connect::Transport;

/// Consecutive failures that eject an endpoint.
const FAILURES_BEFORE_EJECTION: u32 = 3;
/// Longest ejection of a lone endpoint.
const MAX_EJECTION_ALONE: Duration = Duration::from_secs(5);
/// Longest ejection of one endpoint among several.
const MAX_EJECTION: Duration = Duration::from_secs(30);

/// How many more calls in flight a preferred endpoint may have than the others.
const PREFERENCE: usize = 4;

/// A probe that runs longer than this without failing is taken for a slow answer.
const SLOW_ANSWER: Duration = Duration::from_secs(2);

/// A base URL with everything needed to call it.
pub(super) struct Endpoint {
    pub(super) url: Url,
    /// The URL without credentials, for messages.
    pub(super) shown: String,
    /// Sent with every call.
    pub(super) headers: HeaderMap,
    pub(super) transport: Transport,
}

/// The endpoints and their health.
pub(super) struct Balancer {
    endpoints: Vec<Endpoint>,
    health: Mutex<Health>,
    changed: Notify,
    base_ejection: Duration,
}

struct Health {
    states: Vec<EndpointHealth>,
    /// Where the search starts, so that equally loaded endpoints take turns.
    next: usize,
}

#[derive(Clone, Default)]
struct EndpointHealth {
    in_flight: usize,
    /// Failures since the last answer.
    failures: u32,
    /// Consecutive ejections.
    ejections: u32,
    ejected_until: Option<Instant>,
    /// When the probe in flight was sent.
    probed: Option<Instant>,
}

/// Which endpoints may answer a call.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Preference {
    /// Used only as a last resort: it failed the previous attempt.
    pub(super) avoid: Option<usize>,
    /// The only endpoint allowed.
    pub(super) only: Option<usize>,
    /// Calls with the same number prefer the same endpoint.
    pub(super) affinity: Option<u64>,
}

/// The endpoint chosen for a call; counts as in flight until dropped.
pub(super) struct Chosen<'a> {
    balancer: &'a Balancer,
    /// Index into the endpoints.
    pub(super) index: usize,
    is_probe: bool,
}

impl Chosen<'_> {
    pub(super) fn endpoint(&self) -> &Endpoint {
        &self.balancer.endpoints[self.index]
    }

    /// Records an answer: the endpoint is healthy.
    pub(super) fn answered(&self) {
        let mut health = self.balancer.lock();
        let state = &mut health.states[self.index];
        let was_ejected = state.ejected_until.is_some();
        (state.failures, state.ejections, state.ejected_until) = (0, 0, None);
        drop(health);
        if was_ejected {
            self.balancer.changed.notify_waiters();
        }
    }

    /// Records a failure. The endpoint may have been unreachable, or may have sent a `Retry-After`.
    pub(super) fn failed(&self, is_unreachable: bool, retry_after: Option<Duration>) {
        let mut health = self.balancer.lock();
        let is_alone = health.states.len() == 1;
        let state = &mut health.states[self.index];
        state.failures += 1;
        // Calls sent together fail together; that is one failure of the endpoint.
        if state.ejected_until.is_some() && !self.is_probe {
            return;
        }
        if self.is_probe || is_unreachable || state.failures >= FAILURES_BEFORE_EJECTION {
            let longest = if is_alone { MAX_EJECTION_ALONE } else { MAX_EJECTION };
            let grown =
                self.balancer.base_ejection.saturating_mul(2_u32.saturating_pow(state.ejections.min(16)));
            let out = retry_after.unwrap_or_default().max(grown.min(longest));
            state.ejections += 1;
            state.ejected_until = Some(Instant::now() + out);
        }
    }
}

impl Drop for Chosen<'_> {
    fn drop(&mut self) {
        let mut health = self.balancer.lock();
        let state = &mut health.states[self.index];
        state.in_flight -= 1;
        if self.is_probe {
            state.probed = None;
            drop(health);
            self.balancer.changed.notify_waiters();
        }
    }
}

impl Balancer {
    /// `base_ejection` is the length of a first ejection.
    pub(super) fn new(endpoints: Vec<Endpoint>, base_ejection: Duration) -> Self {
        let states = vec![EndpointHealth::default(); endpoints.len()];
        let health = Mutex::new(Health { states, next: 0 });
        Self { endpoints, health, changed: Notify::new(), base_ejection }
    }

    pub(super) fn endpoints(&self) -> &[Endpoint] {
        &self.endpoints
    }

    fn lock(&self) -> MutexGuard<'_, Health> {
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for an available endpoint until the deadline, which is queried again after each change.
    pub(super) async fn choose(
        &self,
        preference: Preference,
        deadline: impl Fn() -> Option<Instant>,
    ) -> Option<Chosen<'_>> {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let again = match self.try_choose(preference) {
                Ok(chosen) => return Some(chosen),
                Err(again) => again,
            };
            let (now, deadline) = (Instant::now(), deadline());
            if deadline.is_some_and(|deadline| deadline <= now) {
                return None;
            }
            let again = deadline.map_or(again, |deadline| deadline.min(again));
            tokio::select! {
                () = changed => {}
                () = tokio::time::sleep_until(again) => {}
            }
        }
    }

    /// An endpoint, or the time to try again.
    fn try_choose(&self, preference: Preference) -> Result<Chosen<'_>, Instant> {
        let now = Instant::now();
        let mut health = self.lock();
        let count = health.states.len();
        let preferred = preference.affinity.map(|affinity| (affinity % count as u64) as usize);
        let (start, mut best, mut again) = (health.next, None, None::<Instant>);
        for step in 0..count {
            let index = (start + step) % count;
            if preference.only.is_some_and(|only| only != index) {
                continue;
            }
            let state = &mut health.states[index];
            if state.probed.is_some_and(|since| since + SLOW_ANSWER <= now) {
                state.ejected_until = None;
            }
            match (state.ejected_until, state.probed) {
                (None, _) => {
                    let is_preferred = preferred == Some(index);
                    let in_flight = state.in_flight.saturating_sub(if is_preferred { PREFERENCE } else { 0 });
                    let load = (Some(index) == preference.avoid, in_flight, !is_preferred);
                    if best.is_none_or(|(least, _, _)| load < least) {
                        best = Some((load, index, false));
                    }
                }
                (Some(until), None) if until <= now => {
                    best = Some(((false, 0, false), index, true));
                    break;
                }
                (Some(until), probed) => {
                    let until = probed.map_or(until, |since| since + SLOW_ANSWER);
                    again = Some(again.map_or(until, |again| again.min(until)));
                }
            }
        }
        let Some((_, index, is_probe)) = best else { return Err(again.unwrap_or(now + MAX_EJECTION)) };
        health.next = (index + 1) % count;
        let state = &mut health.states[index];
        state.in_flight += 1;
        if is_probe {
            state.probed = Some(now);
        }
        Ok(Chosen { balancer: self, index, is_probe })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn balancer(count: usize) -> Balancer {
        let endpoint = |index: usize| Endpoint {
            url: Url::parse(&format!("http://host{index}/")).unwrap(),
            shown: format!("host{index}"),
            headers: HeaderMap::new(),
            transport: Transport::Reqwest(lmeval_hub::http_client().no_proxy().build().unwrap()),
        };
        Balancer::new((0..count).map(endpoint).collect(), Duration::from_millis(20))
    }

    fn avoiding(index: usize) -> Preference {
        Preference { avoid: Some(index), ..Preference::default() }
    }

    #[test]
    fn prefers_an_endpoint_until_it_has_many_more_calls() {
        let balancer = balancer(3);
        let preference = Preference { affinity: Some(7), ..Preference::default() };
        let held: Vec<Chosen> = (0..6).map(|_| balancer.try_choose(preference).ok().unwrap()).collect();
        let indices: Vec<usize> = held.iter().map(|chosen| chosen.index).collect();
        assert_eq!(indices[..5], [1, 1, 1, 1, 1]);
        assert_ne!(indices[5], 1);
        let only = Preference { only: Some(1), ..Preference::default() };
        assert_eq!(balancer.try_choose(only).ok().unwrap().index, 1);
    }

    #[test]
    fn chooses_the_least_loaded_endpoint() {
        let balancer = balancer(3);
        let mut held: Vec<Chosen> =
            (0..6).map(|_| balancer.try_choose(Preference::default()).ok().unwrap()).collect();
        let indices: Vec<usize> = held.iter().map(|chosen| chosen.index).collect();
        assert_eq!(indices, [0, 1, 2, 0, 1, 2]);
        held.remove(4);
        assert_eq!(balancer.try_choose(Preference::default()).ok().unwrap().index, 1);
        assert_ne!(balancer.try_choose(avoiding(1)).ok().unwrap().index, 1);
    }

    #[tokio::test]
    async fn ejects_a_failed_endpoint_and_probes_it_once() {
        let balancer = balancer(2);
        balancer.try_choose(avoiding(1)).ok().unwrap().failed(true, None);
        for _ in 0..4 {
            assert_eq!(balancer.try_choose(Preference::default()).ok().unwrap().index, 1);
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
        let probe = balancer.try_choose(Preference::default()).ok().unwrap();
        assert_eq!((probe.index, probe.is_probe), (0, true));
        assert_eq!(balancer.try_choose(Preference::default()).ok().unwrap().index, 1, "one probe at a time");
        drop(probe);
        let probe = balancer.try_choose(Preference::default()).ok().unwrap();
        assert!(probe.is_probe, "a dropped probe does not block the next one");
        probe.answered();
        drop(probe);
        assert!(!balancer.try_choose(avoiding(1)).ok().unwrap().is_probe);
    }

    #[test]
    fn treats_a_long_probe_as_a_slow_answer() {
        let balancer = balancer(1);
        balancer.try_choose(Preference::default()).ok().unwrap().failed(true, None);
        balancer.lock().states[0].ejected_until = Some(Instant::now());
        let probe = balancer.try_choose(Preference::default()).ok().unwrap();
        assert!(probe.is_probe && balancer.try_choose(Preference::default()).is_err());
        balancer.lock().states[0].probed = Instant::now().checked_sub(SLOW_ANSWER);
        assert!(!balancer.try_choose(Preference::default()).ok().unwrap().is_probe);
        probe.failed(false, None);
        drop(probe);
        assert!(balancer.try_choose(Preference::default()).is_err(), "it failed after all");
    }

    #[tokio::test]
    async fn stops_waiting_at_the_deadline() {
        let balancer = balancer(1);
        balancer.try_choose(Preference::default()).ok().unwrap().failed(true, Some(Duration::from_mins(1)));
        let deadline = Instant::now() + Duration::from_millis(10);
        assert!(balancer.choose(Preference::default(), || Some(deadline)).await.is_none());
    }
}
