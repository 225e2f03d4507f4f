//! Pools of servers whose members come and go.
//!
//! A server that joins is examined before it gets calls: it must report the same model as the first one, and in a run with
//! log-likelihoods it must give the same numbers, then and from time to time. The protocols that it proves decide which
//! log-likelihood calls it gets. A member that cannot be reached is examined again when it returns, since it may have been
//! restarted with another model.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use lmeval_core::{ModelError, ModelErrorKind, ModelFuture};
use lmeval_pycompat::{Dict, Value};
use rustc_hash::{FxHashMap, FxHashSet};
use tokio::time::Instant;

use super::contact::{Wait, waiting};
use super::identity::{Report, member_report};
use super::model::ApiModel;
use super::scoring::{Verdict, together};
use crate::http::{Client, MemberView, Standing};

/// How often the list of members is read.
const INTERVAL: Duration = Duration::from_millis(500);
/// Between queries of a member that gets calls.
const HEALTH: Duration = Duration::from_secs(3);
/// Between examinations of a member that gets calls but has not proven a protocol.
const UNPROVEN: Duration = Duration::from_secs(5);
/// Between examinations of a member with another model: it may be restarted.
const REFUSED: Duration = Duration::from_secs(10);

/// Examines the servers that join, and watches those that leave.
pub(super) struct Keeper {
    pub(super) client: Arc<Client>,
    /// The model's name on the servers.
    model: Option<String>,
    /// Whether the user vouches for the servers with `model_id`.
    has_model_id: bool,
    state: Mutex<State>,
    is_running: Arc<AtomicBool>,
}

/// The report of the first examined member; `None` if it has no model list.
struct Reference(Option<Report>);

#[derive(Default)]
struct State {
    reference: Option<Reference>,
    /// The model that proves protocols, once a run needs log-likelihoods.
    prover: Weak<ApiModel>,
    /// Members under examination.
    examined: FxHashSet<usize>,
    /// When to examine a member again.
    due: FxHashMap<usize, Instant>,
    /// When the numbers of a member were last seen to be right.
    compared: FxHashMap<usize, Instant>,
    /// Why members are not used.
    refusals: FxHashMap<usize, String>,
    /// The members that got calls at the last look.
    serving: FxHashSet<usize>,
    is_paused: bool,
}

/// Ends the examination of a member when dropped.
struct Examination {
    keeper: Arc<Keeper>,
    id: usize,
}

impl Drop for Examination {
    fn drop(&mut self) {
        self.keeper.lock().examined.remove(&self.id);
    }
}

/// Notes that no task watches the members any more, as when its runtime is shut down.
struct Watch(Arc<AtomicBool>);

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl Keeper {
    pub(super) fn new(client: Arc<Client>, model: Option<String>, has_model_id: bool) -> Self {
        let (state, is_running) = (Mutex::default(), Arc::default());
        Self { client, model, has_model_id, state, is_running }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a member that can be used, then watches the pool. Does nothing for a fixed list of addresses.
    pub(super) async fn first_contact(self: &Arc<Self>) -> Result<(), ModelError> {
        let Some(pool) = self.client.pool() else { return Ok(()) };
        if self.is_running.load(Ordering::Acquire) {
            return Ok(());
        }
        let wait = Wait::new(&self.client);
        loop {
            let failure = match self.client.refresh().await {
                Err(error) if error.kind() == ModelErrorKind::Unreachable => error,
                Err(error) => return Err(error),
                Ok(_) => match wait.report_silence(&pool, self.meet_all(&pool)).await {
                    Ok(()) => break,
                    Err(error) => error,
                },
            };
            wait.again(failure).await?;
        }
        wait.done();
        self.lock().serving = self.client.serving().iter().map(|member| member.id).collect();
        self.watch();
        Ok(())
    }

    /// Examines all members at once. Fails if none can be used.
    async fn meet_all(&self, pool: &str) -> Result<(), ModelError> {
        let members = self.client.members();
        let model = self.model.as_deref();
        let reports = members
            .iter()
            .map(|member| Box::pin(member_report(&self.client, &member.given, model)) as ModelFuture<'_, _>);
        let reports: Vec<Result<Option<Report>, ModelError>> = together(reports.collect()).await;
        {
            let mut state = self.lock();
            if state.reference.is_none() {
                // A server without a model list is the reference only if no other has one.
                let first = reports.iter().flatten().flatten().next();
                state.reference = reports.iter().any(Result::is_ok).then(|| Reference(first.cloned()));
            }
        }
        let mut failure = None;
        for (member, report) in members.iter().zip(reports) {
            match report {
                Err(error) => failure = Some(error),
                Ok(report) => match self.judge(report.as_ref()) {
                    Err(reason) => self.refuse(member, &reason),
                    Ok(()) if member.standing == Standing::Serving => {}
                    Ok(()) => self.client.set_standing(member.id, Standing::Serving, None),
                },
            }
        }
        if !self.client.serving().is_empty() {
            return Ok(());
        }
        let none = || match self.refusals().into_iter().next() {
            Some(refusal) => refusal,
            None => format!("The pool `{pool}` lists no servers"),
        };
        Err(failure.unwrap_or_else(|| ModelError::new(ModelErrorKind::Unreachable, none())))
    }

    /// The report of the servers about their model; `None` without a model list.
    pub(super) async fn report(&self) -> Result<Option<Report>, ModelError> {
        if let Some(Reference(report)) = &self.lock().reference {
            return Ok(report.clone());
        }
        // With a `model_id` nobody asks; otherwise the first contact came before.
        let Some(first) = self.client.serving().into_iter().next() else { return Ok(None) };
        member_report(&self.client, &first.given, self.model.as_deref()).await
    }

    /// From now on, members must give the numbers of this model, and may prove its protocols.
    pub(super) fn prove_with(&self, model: &Weak<ApiModel>) {
        self.lock().prover = Weak::clone(model);
    }

    /// Watches the members on a task of its own, unless one does so already: those of a pool, and addresses that could not be
    /// reached when the others proved their protocols.
    pub(super) fn watch(self: &Arc<Self>) {
        if self.is_running.swap(true, Ordering::AcqRel) {
            return;
        }
        let watch = Watch(Arc::clone(&self.is_running));
        let keeper = Arc::downgrade(self);
        tokio::spawn(async move {
            let _watch = watch;
            loop {
                tokio::time::sleep(INTERVAL).await;
                let Some(keeper) = keeper.upgrade() else { return };
                if !keeper.look().await {
                    return;
                }
            }
        });
    }

    /// Reads the list and starts examinations. Returns whether there will be more to do.
    async fn look(self: &Arc<Self>) -> bool {
        let is_pool = self.client.is_pool();
        // A list that cannot be read has been reported.
        let changes = self.client.refresh().await.unwrap_or_default();
        let (prover, now) = (self.lock().prover.upgrade(), Instant::now());
        let members = self.client.members();
        for member in &members {
            let is_settled =
                member.standing == Standing::Serving && (member.proven.is_some() || prover.is_none());
            if is_settled && !is_pool {
                continue;
            }
            let mut state = self.lock();
            let is_due = match state.due.get(&member.id) {
                None if is_settled => {
                    state.due.insert(member.id, now + HEALTH);
                    false
                }
                due => due.is_none_or(|due| *due <= now),
            };
            if is_due && state.examined.insert(member.id) {
                drop(state);
                let examination = Examination { keeper: Arc::clone(self), id: member.id };
                let member = member.clone();
                tokio::spawn(async move {
                    let keeper = &examination.keeper;
                    if is_settled {
                        keeper.check_health(&member).await;
                    } else {
                        keeper.examine(&member).await;
                    }
                });
            }
        }
        if !is_pool {
            return members.iter().any(|member| member.proven.is_none());
        }
        self.report_changes(&members);
        for (member, tally) in &changes.left {
            let requests = tally.answered;
            self.note(&format!("The server `{}` left after {requests} requests", member.shown));
        }
        self.report_pause(&members);
        true
    }

    /// Checks whether a member that gets calls still answers, and for the same model: it may get few calls.
    async fn check_health(&self, member: &MemberView) {
        self.lock().due.insert(member.id, Instant::now() + HEALTH);
        match member_report(&self.client, &member.given, self.model.as_deref()).await {
            Err(_) => {
                self.lock().due.remove(&member.id);
                return self.client.suspect(member.id);
            }
            // A list that is missing for once proves nothing.
            Ok(None) => {}
            Ok(report) => {
                if let Err(reason) = self.judge(report.as_ref()) {
                    return self.refuse(member, &reason);
                }
            }
        }
        self.check_numbers(member).await;
    }

    /// Checks from time to time whether a member that gets calls still gives the numbers that it gave when it joined.
    async fn check_numbers(&self, member: &MemberView) {
        let Some(interval) = self.client.recheck() else { return };
        let (now, prover) = (Instant::now(), self.lock().prover.upgrade());
        // Without a model that computes log-likelihoods, there is nothing to compare.
        let Some(model) = prover else { return };
        let since = *self.lock().compared.entry(member.id).or_insert(now);
        if now.saturating_duration_since(since) < interval {
            return;
        }
        match model.recheck_member(member).await {
            Ok(()) => drop(self.lock().compared.insert(member.id, now)),
            Err(Verdict::Other(reason)) => {
                self.lock().compared.remove(&member.id);
                let (shown, seconds) = (&member.shown, since.elapsed().as_secs());
                self.client.stats().warn(format!(
                    "The server `{shown}` gives other numbers than when it joined; its answers of the last {seconds} s may be \
                     wrong and are in the journal, so rerun with `--fresh`"
                ));
                self.refuse(member, &reason);
            }
            // It could not be asked.
            Err(_) => {}
        }
    }

    /// Examines a member.
    async fn examine(&self, member: &MemberView) {
        if member.standing != Standing::Serving {
            match member_report(&self.client, &member.given, self.model.as_deref()).await {
                Err(_) => return,
                Ok(report) => {
                    if let Err(reason) = self.judge(report.as_ref()) {
                        return self.refuse(member, &reason);
                    }
                }
            }
        }
        let prover = self.lock().prover.upgrade();
        let verdict = match prover {
            Some(model) => model.prove_member(member).await,
            None => Verdict::Unexamined,
        };
        match verdict {
            Verdict::Unexamined => self.admit(member, None),
            Verdict::Proven(protocols) => self.admit(member, Some(protocols)),
            Verdict::Other(reason) => self.refuse(member, &reason),
            Verdict::Later => {
                let wait = if member.standing == Standing::Serving { UNPROVEN } else { INTERVAL };
                self.lock().due.insert(member.id, Instant::now() + wait);
            }
        }
    }

    /// Compares the report of a member with that of the first one. The error says how they differ.
    fn judge(&self, report: Option<&Report>) -> Result<(), String> {
        if self.has_model_id {
            return Ok(());
        }
        let mut state = self.lock();
        let Reference(known) = state.reference.get_or_insert_with(|| Reference(report.cloned()));
        let reason = match (report, &*known) {
            (Some(one), Some(other)) if one.name != other.name => {
                format!("it serves `{}`, but the others serve `{}`", one.name, other.name)
            }
            (Some(one), Some(other)) if one.details != other.details => {
                let shown = |details: &str| if details.is_empty() { "nothing" } else { details }.to_owned();
                let (one, other) = (shown(&one.details), shown(&other.details));
                format!("it reports {one} for its model, but the others report {other}")
            }
            (Some(_), None) => "it lists its models, but the others do not".to_owned(),
            (None, Some(_)) => "it does not list its models, but the others do".to_owned(),
            _ => return Ok(()),
        };
        Err(format!("{reason}; `model_id=NAME` states that they are equal"))
    }

    fn admit(&self, member: &MemberView, proven: Option<u8>) {
        let mut state = self.lock();
        state.refusals.remove(&member.id);
        state.due.remove(&member.id);
        drop(state);
        match proven.filter(|_| member.standing == Standing::Serving) {
            Some(proven) => self.client.set_proven(member.id, proven),
            None => self.client.set_standing(member.id, Standing::Serving, proven),
        }
    }

    /// Keeps a member from getting calls, and says so once.
    pub(super) fn refuse(&self, member: &MemberView, reason: &str) {
        if !self.client.is_pool() {
            // Fixed addresses are the user's choice; only the protocols are not used on this one.
            let shown = &member.shown;
            self.client.stats().warn(format!("The server `{shown}` gives other numbers: {reason}"));
            return self.admit(member, Some(0));
        }
        let warning = format!("The server `{}` is not used: {reason}", member.shown);
        let mut state = self.lock();
        state.due.insert(member.id, Instant::now() + REFUSED);
        let is_news = state.refusals.insert(member.id, warning.clone()).as_ref() != Some(&warning);
        drop(state);
        self.client.set_standing(member.id, Standing::Refused, None);
        if is_news {
            self.client.stats().warn(warning);
        }
    }

    /// Why members are not used.
    pub(super) fn refusals(&self) -> Vec<String> {
        let state = self.lock();
        let mut refusals: Vec<(&usize, &String)> = state.refusals.iter().collect();
        refusals.sort();
        refusals.into_iter().map(|(_, refusal)| refusal.clone()).collect()
    }

    /// Reports members that joined, or that cannot be reached any more.
    fn report_changes(&self, members: &[MemberView]) {
        let mut lines = Vec::new();
        let mut state = self.lock();
        for member in members {
            let is_serving = member.standing == Standing::Serving;
            if is_serving && state.serving.insert(member.id) {
                lines.push(format!("The server `{}` joined", member.shown));
            } else if !is_serving && state.serving.remove(&member.id) {
                lines.push(format!(
                    "The server `{}` cannot be used and is checked until it returns",
                    member.shown
                ));
            }
        }
        let is_member = |id: &usize| members.iter().any(|member| member.id == *id);
        state.serving.retain(is_member);
        state.due.retain(|id, _| is_member(id));
        state.refusals.retain(|id, _| is_member(id));
        drop(state);
        for line in lines {
            self.note(&line);
        }
    }

    fn note(&self, line: &str) {
        self.client.stats().note(&format!("{line}; servers: {}", self.client.serving().len()));
    }

    /// Reports that the run waits for servers, and lets its calls give up after a while.
    fn report_pause(&self, members: &[MemberView]) {
        let is_paused = !members.iter().any(|member| member.standing == Standing::Serving);
        let was_paused = std::mem::replace(&mut self.lock().is_paused, is_paused);
        if is_paused {
            let pool = self.client.pool().unwrap_or_default();
            let reason = match members.len() {
                0 => format!("The pool `{pool}` lists no servers"),
                1 => format!("The only server of the pool `{pool}` cannot be used"),
                all => format!("None of the {all} servers of the pool `{pool}` can be used"),
            };
            self.client.note_pause(&reason);
            self.client.stats().wait_for(Some(waiting(&self.client, &reason)));
        } else if was_paused {
            self.client.stats().wait_for(None);
        }
    }

    /// The calls of each member for the results; `None` for a fixed list of addresses, and without any contact.
    pub(super) fn record(&self) -> Option<Value> {
        let record = |(url, tally): (String, crate::http::Tally)| {
            let mut record = Dict::new();
            record.insert("url", url);
            record.insert("requests", tally.answered as i64);
            record.insert("failed_attempts", tally.failed as i64);
            let mean = (tally.answered > 0).then(|| tally.seconds / tally.answered as f64);
            record.insert("mean_seconds", mean.map_or(Value::None, Value::Float));
            let seconds = tally.busy.map(|(first, last)| (last - first).as_secs_f64());
            let rate =
                seconds.filter(|seconds| *seconds > 0.0).map(|seconds| tally.answered as f64 / seconds);
            record.insert("requests_per_second", rate.map_or(Value::None, Value::Float));
            Value::from(record)
        };
        let tallies = self.client.tallies();
        (self.client.is_pool() && !tallies.is_empty()).then(|| Value::list(tallies.into_iter().map(record)))
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::net::{IpAddr, SocketAddr};

    use axum::Router;
    use axum::http::{HeaderMap, Uri};
    use lmeval_core::ModelSettings;
    use reqwest::Url;

    use super::super::completions::LOCAL_COMPLETIONS;
    use super::*;
    use crate::http::{ClientSettings, PoolSource};

    /// Serves completions on an address, if they name the right host.
    async fn serve(address: SocketAddr) -> SocketAddr {
        let listener = tokio::net::TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().fallback(async |uri: Uri, headers: HeaderMap| {
            assert!(headers["host"].to_str().unwrap().starts_with("models.test:"), "{headers:?}");
            if uri.path() == "/v1/models" {
                return r#"{"data": [{"id": "m"}]}"#;
            }
            r#"{"choices": [{"index": 0, "text": "yes", "finish_reason": "stop"}]}"#
        });
        tokio::spawn(async move { axum::serve(listener, router).await });
        address
    }

    #[tokio::test]
    async fn addresses_of_a_name_join_and_leave() {
        let one = serve("127.0.0.1:0".parse().unwrap()).await;
        let two = serve(SocketAddr::new("127.0.0.2".parse().unwrap(), one.port())).await;
        let addresses: Arc<Mutex<Vec<IpAddr>>> = Arc::new(Mutex::new(vec![one.ip()]));
        let known = Arc::clone(&addresses);
        let url = Url::parse(&format!("http://models.test:{}/v1/completions", one.port())).unwrap();
        let mut settings = ClientSettings::new("");
        settings.base_urls.clear();
        settings.pool = Some(PoolSource::Name {
            url,
            resolve: Arc::new(move |name| {
                assert_eq!(name, "models.test");
                Ok(known.lock().unwrap().clone())
            }),
        });
        let client = Arc::new(Client::new(settings).unwrap());
        let keeper = Arc::new(Keeper::new(Arc::clone(&client), Some("m".to_owned()), false));
        let mut args = Dict::new();
        args.insert("tokenized_requests", false);
        let settings = ModelSettings::from_args(args);
        let model =
            LOCAL_COMPLETIONS.assemble(&settings, &keeper, Some("m".to_owned()), None, false).unwrap();
        model.meet().await.unwrap();
        let requests = |address: SocketAddr| {
            let tallies = client.tallies();
            tallies.get(&format!("http://{address}/v1/completions")).map_or(0, |tally| tally.answered)
        };
        let serving = async |count: usize| {
            client.reload().unwrap();
            while client.serving().len() != count {
                keeper.look().await;
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        model.try_once().await.unwrap();
        assert_eq!((requests(one), requests(two)), (1, 0));
        addresses.lock().unwrap().push(two.ip());
        serving(2).await;
        for _ in 0..20 {
            model.try_once().await.unwrap();
        }
        assert!(requests(two) > 0);
        addresses.lock().unwrap().remove(0);
        serving(1).await;
        let before = requests(one);
        model.try_once().await.unwrap();
        assert_eq!((requests(one), requests(one) + requests(two)), (before, 22));
    }
}
