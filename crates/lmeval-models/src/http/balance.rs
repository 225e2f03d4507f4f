//! Which of several addresses gets a call.
//!
//! The one with the fewest calls among those that work. An address that refuses connections, or fails three times in a
//! row, is left out for a while that grows with every time; then one call is sent to it, and the others follow once
//! that call is answered, or has not failed for two seconds, as long answers take. One address alone is treated the same, so that a server that is away is not flooded.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use reqwest::Url;
use reqwest::header::HeaderMap;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::connect::Road;

/// How many failures in a row take an address out.
const STRIKES: u32 = 3;
/// The longest while that the only address is left out.
const LONGEST_ALONE: Duration = Duration::from_secs(5);
/// The longest while that one of several addresses is left out.
const LONGEST_AMONG: Duration = Duration::from_secs(30);

/// How long a call to an address that was left out may take before it is taken for a slow answer.
const SLOW_ANSWER: Duration = Duration::from_secs(2);

/// An address and how it is called.
pub(super) struct Endpoint {
    /// Where calls go.
    pub(super) url: Url,
    /// The address in messages.
    pub(super) shown: String,
    /// What is sent with every call.
    pub(super) headers: HeaderMap,
    /// The connections.
    pub(super) road: Road,
}

/// The addresses and how they fare.
pub(super) struct Balancer {
    endpoints: Vec<Endpoint>,
    health: Mutex<Health>,
    changed: Notify,
    first_out: Duration,
}

struct Health {
    states: Vec<EndpointHealth>,
    /// Where the search begins, so that equals take turns.
    next: usize,
}

#[derive(Clone, Default)]
struct EndpointHealth {
    in_flight: usize,
    /// Failures since the last answer.
    strikes: u32,
    /// How often in a row the address was taken out.
    outs: u32,
    out_until: Option<Instant>,
    /// Since when a call tries whether the address is back.
    probed: Option<Instant>,
}

/// An address that was chosen for a call, until the call is over.
pub(super) struct Chosen<'a> {
    balancer: &'a Balancer,
    /// The place of the address.
    pub(super) index: usize,
    is_probe: bool,
}

impl Chosen<'_> {
    /// The address.
    pub(super) fn endpoint(&self) -> &Endpoint {
        &self.balancer.endpoints[self.index]
    }

    /// The address answered.
    pub(super) fn answered(&self) {
        let mut health = self.balancer.lock();
        let state = &mut health.states[self.index];
        let was_out = state.out_until.is_some();
        (state.strikes, state.outs, state.out_until) = (0, 0, None);
        drop(health);
        if was_out {
            self.balancer.changed.notify_waiters();
        }
    }

    /// The address did not; nobody was there, or it asked to be left alone.
    pub(super) fn failed(&self, nobody_there: bool, asked: Option<Duration>) {
        let mut health = self.balancer.lock();
        let is_alone = health.states.len() == 1;
        let state = &mut health.states[self.index];
        state.strikes += 1;
        // Calls that were sent together fail together, which is one failure of the address.
        if state.out_until.is_some() && !self.is_probe {
            return;
        }
        if self.is_probe || nobody_there || state.strikes >= STRIKES {
            let longest = if is_alone { LONGEST_ALONE } else { LONGEST_AMONG };
            let grown = self.balancer.first_out.saturating_mul(2_u32.saturating_pow(state.outs.min(16)));
            let out = asked.unwrap_or_default().max(grown.min(longest));
            state.outs += 1;
            state.out_until = Some(Instant::now() + out);
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
    /// Addresses, and the first while that one is left out.
    pub(super) fn new(endpoints: Vec<Endpoint>, first_out: Duration) -> Self {
        let states = vec![EndpointHealth::default(); endpoints.len()];
        let health = Mutex::new(Health { states, next: 0 });
        Self { endpoints, health, changed: Notify::new(), first_out }
    }

    /// The addresses.
    pub(super) fn endpoints(&self) -> &[Endpoint] {
        &self.endpoints
    }

    fn lock(&self) -> MutexGuard<'_, Health> {
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for an address, if need be until the time that the deadline says; `avoid` is the last choice.
    pub(super) async fn choose(
        &self,
        avoid: Option<usize>,
        deadline: impl Fn() -> Option<Instant>,
    ) -> Option<Chosen<'_>> {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let again = match self.try_choose(avoid) {
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

    /// An address, or when to ask again.
    fn try_choose(&self, avoid: Option<usize>) -> Result<Chosen<'_>, Instant> {
        let now = Instant::now();
        let mut health = self.lock();
        let count = health.states.len();
        let (start, mut best, mut again) = (health.next, None, None::<Instant>);
        for place in 0..count {
            let index = (start + place) % count;
            let state = &mut health.states[index];
            if state.probed.is_some_and(|since| since + SLOW_ANSWER <= now) {
                state.out_until = None;
            }
            match (state.out_until, state.probed) {
                (None, _) => {
                    let load = (Some(index) == avoid, state.in_flight);
                    if best.is_none_or(|(least, _, _)| load < least) {
                        best = Some((load, index, false));
                    }
                }
                (Some(until), None) if until <= now => {
                    best = Some(((false, 0), index, true));
                    break;
                }
                (Some(until), probed) => {
                    let until = probed.map_or(until, |since| since + SLOW_ANSWER);
                    again = Some(again.map_or(until, |again| again.min(until)));
                }
            }
        }
        let Some((_, index, is_probe)) = best else { return Err(again.unwrap_or(now + LONGEST_AMONG)) };
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
            road: Road::Library(reqwest::Client::builder().no_proxy().build().unwrap()),
        };
        Balancer::new((0..count).map(endpoint).collect(), Duration::from_millis(20))
    }

    #[test]
    fn the_least_loaded_address_is_chosen() {
        let balancer = balancer(3);
        let mut held: Vec<Chosen> = (0..6).map(|_| balancer.try_choose(None).ok().unwrap()).collect();
        let places: Vec<usize> = held.iter().map(|chosen| chosen.index).collect();
        assert_eq!(places, [0, 1, 2, 0, 1, 2]);
        held.remove(4);
        assert_eq!(balancer.try_choose(None).ok().unwrap().index, 1);
        assert_ne!(balancer.try_choose(Some(1)).ok().unwrap().index, 1);
    }

    #[tokio::test]
    async fn an_address_that_fails_is_left_out_and_probed_by_one_call() {
        let balancer = balancer(2);
        balancer.try_choose(Some(1)).ok().unwrap().failed(true, None);
        for _ in 0..4 {
            assert_eq!(balancer.try_choose(None).ok().unwrap().index, 1);
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
        let probe = balancer.try_choose(None).ok().unwrap();
        assert_eq!((probe.index, probe.is_probe), (0, true));
        assert_eq!(balancer.try_choose(None).ok().unwrap().index, 1, "one probe at a time");
        drop(probe);
        let probe = balancer.try_choose(None).ok().unwrap();
        assert!(probe.is_probe, "a probe that was dropped does not block the next one");
        probe.answered();
        drop(probe);
        assert!(!balancer.try_choose(Some(1)).ok().unwrap().is_probe);
    }

    #[test]
    fn a_probe_that_takes_long_is_taken_for_a_slow_answer() {
        let balancer = balancer(1);
        balancer.try_choose(None).ok().unwrap().failed(true, None);
        balancer.lock().states[0].out_until = Some(Instant::now());
        let probe = balancer.try_choose(None).ok().unwrap();
        assert!(probe.is_probe && balancer.try_choose(None).is_err());
        balancer.lock().states[0].probed = Instant::now().checked_sub(SLOW_ANSWER);
        assert!(!balancer.try_choose(None).ok().unwrap().is_probe);
        probe.failed(false, None);
        drop(probe);
        assert!(balancer.try_choose(None).is_err(), "it failed after all");
    }

    #[tokio::test]
    async fn waiting_ends_at_the_deadline() {
        let balancer = balancer(1);
        balancer.try_choose(None).ok().unwrap().failed(true, Some(Duration::from_mins(1)));
        let deadline = Instant::now() + Duration::from_millis(10);
        assert!(balancer.choose(None, || Some(deadline)).await.is_none());
    }
}
