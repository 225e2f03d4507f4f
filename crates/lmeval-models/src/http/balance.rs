//! Load balancing over the servers.
//!
//! Each call goes to the healthy server with the fewest calls in flight; in a pool, to the one that is expected to answer
//! first, by its calls in flight and its measured latency. A call that prefers a server goes there while that has only a
//! few more calls: prompts that share a prefix then find it in the cache of one server. A server that refuses connections,
//! or fails three times in a row, is ejected for a period that grows with every ejection. Then a
//! single probe is sent; other calls follow once the probe is answered or has run for two seconds without
//! failing, since long answers take that long. A single server is treated the same way, so that one
//! that is down is not flooded. A member of a pool that cannot be reached is examined again before it gets calls.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use tracing::debug;

use super::member::{Endpoint, Member, MemberView, Standing, Tally, Vitals};

/// Consecutive failures that eject a server.
const FAILURES_BEFORE_EJECTION: u32 = 3;
/// Longest ejection of a lone server.
const MAX_EJECTION_ALONE: Duration = Duration::from_secs(5);
/// Longest ejection of one server among several.
const MAX_EJECTION: Duration = Duration::from_secs(30);

/// How many more calls in flight a preferred server may have than the others.
const PREFERENCE: usize = 4;

/// A probe that runs longer than this without failing is taken for a slow answer.
const SLOW_ANSWER: Duration = Duration::from_secs(2);

/// The servers and their health.
pub(super) struct Balancer {
    state: Mutex<State>,
    changed: Notify,
    base_ejection: Duration,
    /// Whether servers join and leave.
    is_pool: bool,
}

struct State {
    members: Vec<Member>,
    next_id: usize,
    /// Where the search starts, so that equally loaded servers take turns.
    next: usize,
    /// Whether any member has ever got calls.
    has_served: bool,
    /// The calls of members that left, by URL for messages.
    departed: BTreeMap<String, Tally>,
}

/// Which servers may answer a call.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Preference {
    /// Used only as a last resort: it failed the previous attempt.
    pub(super) avoid: Option<usize>,
    /// The only member allowed, examined or not.
    pub(super) only: Option<usize>,
    /// Calls with the same number prefer the same server.
    pub(super) affinity: Option<u64>,
    /// The protocols that the server must have proven, as bits.
    pub(super) needs: u8,
}

/// Why no server was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Denied {
    Deadline,
    /// The only server allowed has left, or none has proven the protocol.
    Nobody,
}

/// Members that joined and left with a new list.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    pub(crate) joined: Vec<MemberView>,
    pub(crate) left: Vec<(MemberView, Tally)>,
}

/// The server chosen for a call; counts as in flight until dropped.
pub(super) struct Chosen<'a> {
    balancer: &'a Balancer,
    /// The id of the member.
    pub(super) id: usize,
    pub(super) endpoint: Arc<Endpoint>,
    pub(super) vitals: Arc<Vitals>,
    is_probe: bool,
}

/// The silence of a server.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Silence {
    /// When a call was last answered or failed.
    pub(super) last_sign: Option<Instant>,
    /// The average latency in seconds.
    pub(super) latency: Option<f64>,
    pub(super) in_flight: usize,
}

impl Chosen<'_> {
    /// Records an answer: the server is healthy.
    pub(super) fn answered(&self, latency: Duration) {
        let mut was_ejected = false;
        self.balancer.with(self.id, |member| {
            was_ejected = member.ejected_until.is_some();
            (member.failures, member.ejections, member.ejected_until) = (0, 0, None);
            member.note_answer(latency);
        });
        if was_ejected {
            self.balancer.changed.notify_waiters();
        }
    }

    /// A part of an answer has come.
    pub(super) fn seen(&self) {
        self.balancer.with(self.id, |member| member.last_sign = Some(Instant::now()));
    }

    /// How long the server has been silent, and how long it usually is.
    pub(super) fn silence(&self) -> Silence {
        let mut found = Silence::default();
        self.balancer.with(self.id, |member| {
            let (last_sign, in_flight) = (member.last_sign, member.in_flight);
            found = Silence { last_sign, latency: member.latency(Instant::now()), in_flight };
        });
        found
    }

    /// Records a failure. The server may have been unreachable, or may have sent a `Retry-After`.
    pub(super) fn failed(&self, is_unreachable: bool, retry_after: Option<Duration>) {
        let mut state = self.balancer.lock();
        let is_alone = state.members.len() == 1;
        let Some(member) = state.members.iter_mut().find(|member| member.id == self.id) else { return };
        member.failures += 1;
        member.tally.failed += 1;
        member.last_sign = Some(Instant::now());
        if self.balancer.is_pool && is_unreachable {
            // It may come back as another one.
            if member.standing == Standing::Serving {
                debug!(url = member.endpoint.shown, "Server leaves until it has been examined again");
                member.demote();
                drop(state);
                self.balancer.changed.notify_waiters();
            }
            return;
        }
        // Calls sent together fail together; that is one failure of the server.
        if member.ejected_until.is_some() && !self.is_probe {
            return;
        }
        if self.is_probe || is_unreachable || member.failures >= FAILURES_BEFORE_EJECTION {
            let longest = if is_alone { MAX_EJECTION_ALONE } else { MAX_EJECTION };
            let grown =
                self.balancer.base_ejection.saturating_mul(2_u32.saturating_pow(member.ejections.min(16)));
            let out = retry_after.unwrap_or_default().max(grown.min(longest));
            member.ejections += 1;
            member.ejected_until = Some(Instant::now() + out);
            debug!(
                url = member.endpoint.shown,
                for_ms = out.as_millis(),
                failures = member.failures,
                "Server gets no calls"
            );
        }
    }
}

impl Drop for Chosen<'_> {
    fn drop(&mut self) {
        let mut state = self.balancer.lock();
        let Some(index) = state.members.iter().position(|member| member.id == self.id) else { return };
        let member = &mut state.members[index];
        member.in_flight -= 1;
        if self.is_probe {
            member.probed = None;
        }
        if member.is_leaving && member.in_flight == 0 {
            state.remove(index);
        }
        drop(state);
        if self.is_probe {
            self.balancer.changed.notify_waiters();
        }
    }
}

impl State {
    /// Forgets a member, but not its calls. Its connections are closed with it.
    fn remove(&mut self, index: usize) {
        let member = self.members.remove(index);
        self.departed.entry(member.endpoint.shown.clone()).or_default().add(&member.tally);
    }
}

impl Balancer {
    /// `base_ejection` is the length of a first ejection.
    pub(super) fn new(endpoints: Vec<Endpoint>, base_ejection: Duration, is_pool: bool) -> Self {
        let members = endpoints.into_iter().enumerate();
        let members: Vec<Member> =
            members.map(|(id, endpoint)| Member::new(id, endpoint, 1.0, Standing::Serving)).collect();
        let (next_id, has_served) = (members.len(), !members.is_empty());
        let state = Mutex::new(State { members, next_id, next: 0, has_served, departed: BTreeMap::new() });
        Self { state, changed: Notify::new(), base_ejection, is_pool }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes a member, if it is still there.
    fn with(&self, id: usize, change: impl FnOnce(&mut Member)) {
        if let Some(member) = self.lock().members.iter_mut().find(|member| member.id == id) {
            change(member);
        }
    }

    /// The members that have not left.
    pub(super) fn members(&self) -> Vec<MemberView> {
        self.lock().members.iter().filter(|member| !member.is_leaving).map(Member::view).collect()
    }

    /// The endpoint of the first member that gets calls.
    pub(super) fn first(&self) -> Option<Arc<Endpoint>> {
        let state = self.lock();
        state.members.iter().find(|member| member.serves(0)).map(|member| Arc::clone(&member.endpoint))
    }

    /// A member's endpoint by the origin of its URL.
    pub(super) fn at_origin(&self, origin: &reqwest::Url) -> Option<Arc<Endpoint>> {
        let state = self.lock();
        let mut members = state.members.iter();
        let found = members.find(|member| member.endpoint.url.origin() == origin.origin());
        found.map(|member| Arc::clone(&member.endpoint))
    }

    /// The calls of every server, by its URL for messages.
    pub(super) fn tallies(&self) -> BTreeMap<String, Tally> {
        let state = self.lock();
        let mut all = state.departed.clone();
        for member in &state.members {
            all.entry(member.endpoint.shown.clone()).or_default().add(&member.tally);
        }
        all
    }

    /// Replaces the list of members: new ones join as candidates, and those not listed leave once their calls in flight
    /// are answered.
    pub(super) fn replace(&self, listed: Vec<(Endpoint, f64)>) -> Changes {
        let mut state = self.lock();
        let mut changes = Changes::default();
        let is_listed =
            |member: &Member| listed.iter().any(|(endpoint, _)| endpoint.given == member.endpoint.given);
        for member in state.members.iter_mut().filter(|member| !member.is_leaving && !is_listed(member)) {
            member.is_leaving = true;
            changes.left.push((member.view(), member.tally));
        }
        while let Some(index) =
            state.members.iter().position(|member| member.is_leaving && member.in_flight == 0)
        {
            state.remove(index);
        }
        for (endpoint, weight) in listed {
            let known = state
                .members
                .iter_mut()
                .find(|member| !member.is_leaving && member.endpoint.given == endpoint.given);
            if let Some(member) = known {
                member.weight = weight;
                continue;
            }
            let id = state.next_id;
            state.next_id += 1;
            let member = Member::new(id, endpoint, weight, Standing::Candidate);
            changes.joined.push(member.view());
            state.members.push(member);
        }
        drop(state);
        self.changed.notify_waiters();
        changes
    }

    /// Records the outcome of an examination.
    pub(super) fn set_standing(&self, id: usize, standing: Standing, proven: Option<u8>) {
        self.with(id, |member| (member.standing, member.proven) = (standing, proven));
        self.lock().has_served |= standing == Standing::Serving;
        self.changed.notify_waiters();
    }

    /// A member of a pool did not answer a query. It becomes a candidate, unless it has calls in flight: some servers answer
    /// one request at a time.
    pub(super) fn suspect(&self, id: usize) {
        self.with(id, |member| {
            if member.standing == Standing::Serving && member.in_flight == 0 {
                member.demote();
            }
        });
    }

    /// Whether any member has ever got calls.
    pub(super) fn has_served(&self) -> bool {
        self.lock().has_served
    }

    /// Records the protocols that a member has proven, unless it has become a candidate again.
    pub(super) fn set_proven(&self, id: usize, proven: u8) {
        self.with(id, |member| {
            if member.standing == Standing::Serving {
                member.proven = Some(proven);
            }
        });
        self.changed.notify_waiters();
    }

    /// Lets waiting calls look at their deadline again.
    pub(super) fn wake(&self) {
        self.changed.notify_waiters();
    }

    /// Waits for an available server until the deadline, which is queried again after each change.
    pub(super) async fn choose(
        &self,
        preference: Preference,
        deadline: impl Fn() -> Option<Instant>,
    ) -> Result<Chosen<'_>, Denied> {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let again = match self.try_choose(preference) {
                Ok(chosen) => return Ok(chosen),
                Err(None) => return Err(Denied::Nobody),
                Err(Some(again)) => again,
            };
            let (now, deadline) = (Instant::now(), deadline());
            if deadline.is_some_and(|deadline| deadline <= now) {
                return Err(Denied::Deadline);
            }
            let again = deadline.map_or(again, |deadline| deadline.min(again));
            tokio::select! {
                () = changed => {}
                () = tokio::time::sleep_until(again) => {}
            }
        }
    }

    /// A server, or the time to try again; `None` if waiting is pointless.
    fn try_choose(&self, preference: Preference) -> Result<Chosen<'_>, Option<Instant>> {
        let now = Instant::now();
        let mut state = self.lock();
        let is_allowed = |member: &Member| match preference.only {
            Some(only) => member.id == only && !member.is_leaving,
            None => member.serves(preference.needs),
        };
        let count = state.members.len();
        if !state.members.iter().any(is_allowed) {
            let is_pointless = preference.only.is_some() || preference.needs != 0;
            return Err((!is_pointless).then_some(now + MAX_EJECTION));
        }
        for member in &mut state.members {
            if member.probed.is_some_and(|since| since + SLOW_ANSWER <= now) {
                member.ejected_until = None;
            }
        }
        let usual = self.usual_latency(&state, now);
        let preferred = preference.affinity.and_then(|affinity| {
            let ranked =
                state.members.iter().filter(|member| is_allowed(member) && member.ejected_until.is_none());
            let ranked = ranked.map(|member| (member.rank(affinity), member.id));
            ranked.max_by(|one, other| one.0.total_cmp(&other.0)).map(|(_, id)| id)
        });
        let start = state.next;
        let (mut best, mut again) = (None::<((bool, f64, bool), usize, bool)>, None::<Instant>);
        for index in (0..count).map(|step| (start + step) % count) {
            let member = &state.members[index];
            if !is_allowed(member) {
                continue;
            }
            match (member.ejected_until, member.probed) {
                (None, _) => {
                    let is_preferred = preferred == Some(member.id);
                    let ahead = member.in_flight.saturating_sub(if is_preferred { PREFERENCE } else { 0 });
                    let slowness = usual.map_or(1.0, |usual| member.latency(now).unwrap_or(usual));
                    let mut time = (ahead + 1) as f64 * slowness / member.weight;
                    if is_preferred && self.is_pool {
                        // It need not compute the prefix that it has cached.
                        time /= 2.0;
                    }
                    let load = (Some(member.id) == preference.avoid, time, !is_preferred);
                    if best.is_none_or(|(least, ..)| is_less(load, least)) {
                        best = Some((load, index, false));
                    }
                }
                (Some(until), None) if until <= now => {
                    best = Some(((false, 0.0, false), index, true));
                    break;
                }
                (Some(until), probed) => {
                    let until = probed.map_or(until, |since| since + SLOW_ANSWER);
                    again = Some(again.map_or(until, |again| again.min(until)));
                }
            }
        }
        let Some((_, index, is_probe)) = best else {
            return Err(Some(again.unwrap_or(now + MAX_EJECTION)));
        };
        state.next = (index + 1) % count;
        let member = &mut state.members[index];
        member.in_flight += 1;
        if is_probe {
            member.probed = Some(now);
        }
        let (endpoint, vitals) = (Arc::clone(&member.endpoint), Arc::clone(&member.vitals));
        Ok(Chosen { balancer: self, id: member.id, endpoint, vitals, is_probe })
    }

    /// The average latency of the members of a pool, for those without a measured one.
    fn usual_latency(&self, state: &State, now: Instant) -> Option<f64> {
        if !self.is_pool {
            return None;
        }
        let known = state.members.iter().filter(|member| member.serves(0));
        let (count, sum) = known
            .filter_map(|member| member.latency(now))
            .fold((0_u32, 0.0), |(count, sum), latency| (count + 1, sum + latency));
        Some(if count == 0 { 1.0 } else { sum / f64::from(count) })
    }
}

/// Whether a load is less than another one.
fn is_less(one: (bool, f64, bool), other: (bool, f64, bool)) -> bool {
    let order = one.0.cmp(&other.0).then(one.1.total_cmp(&other.1)).then(one.2.cmp(&other.2));
    order.is_lt()
}

#[cfg(test)]
mod tests;
