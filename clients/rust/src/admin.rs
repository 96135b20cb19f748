use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::call::{Call, Deadline};
use crate::calls::{self, Calls};
use crate::errors::{Error, Outcome, Position};
use crate::logs::{Bounds, Hold, LogConfig, LogInfo, Resolution, Session, WriterTerm};
use crate::reason::Reason;
use crate::states::{InfoStream, WriterStream};
use crate::wire;
use crate::writers::{WriterClaim, WriterGrant, lease_request};

/// Stands for the log of logs where a call names none.
const CATALOG: &str = "";

/// How many logs of a list a call takes at once: the server divides it by bytes.
const PAGE_LIMIT: i32 = 10_000;

/// Creates, describes and trims logs, and keeps sessions, holds and writer terms. Made by
/// [`Client::admin`](crate::Client::admin).
///
/// Calls go on trying for the client's [`retry_time`](crate::ClientOptions::retry_time) while no
/// node can answer. The outcome of an error is what is known over all tries.
#[derive(Clone)]
pub struct Admin {
    calls: Arc<Calls>,
}

impl fmt::Debug for Admin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admin").finish_non_exhaustive()
    }
}

/// Where [`Admin::set_hold`] puts a hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Place {
    /// At its offset.
    #[default]
    Offset,
    /// Where the log starts by then.
    Start,
    /// Where the log ends by then.
    End,
}

pub(crate) fn set_hold_request(log: &str, log_id: u64, hold: Hold, place: Place) -> wire::SetHoldRequest {
    let position = match place {
        Place::Offset => None,
        Place::Start => Some(wire::ReadPosition::Start.into()),
        Place::End => Some(wire::ReadPosition::Tail.into()),
    };
    wire::SetHoldRequest { log: log.to_string(), hold: Some(hold.into()), position, log_id }
}

impl Admin {
    pub(crate) fn new(calls: Arc<Calls>) -> Admin {
        Admin { calls }
    }

    /// Creates a log. Where an answer was lost, the log that an earlier try created is returned.
    pub fn create_log(&self, name: &str, config: LogConfig) -> Call<'static, LogInfo> {
        let request_id = format!("{:032x}", fastrand::u128(..));
        let request = wire::CreateLogRequest { name: name.to_string(), config: Some(config.into()), request_id };
        self.call(CATALOG, &calls::CREATE_LOG, request, |answer| info(answer.info))
    }

    /// Lists all logs by name, but for the system's own.
    pub fn list_logs(&self) -> Call<'static, Vec<LogInfo>> {
        self.list(false)
    }

    /// Lists all logs by name, with the system's own.
    pub fn list_all_logs(&self) -> Call<'static, Vec<LogInfo>> {
        self.list(true)
    }

    fn list(&self, include_internal: bool) -> Call<'static, Vec<LogInfo>> {
        let calls = self.calls.clone();
        Call::new(move |deadline| async move {
            let (mut logs, mut after) = (Vec::new(), String::new());
            loop {
                let begins = after.clone();
                let request = wire::ListLogsRequest { include_internal, after, limit: PAGE_LIMIT };
                let page = calls.to_leader(CATALOG, &calls::LIST_LOGS, request, deadline).await?;
                // A node of before lists came in parts answers with all.
                logs.extend(page.logs.into_iter().filter(|info| info.name > begins).map(LogInfo::from));
                if page.next.is_empty() {
                    return Ok(logs);
                }
                if page.next <= begins {
                    return Err(Error::new(Reason::Corrupt, "the server answered with a list that does not advance"));
                }
                after = page.next;
            }
        })
    }

    /// Gives a log a whole new configuration. To change a part of it, change that in what
    /// [`Admin::info`] returns: a change of somebody else in between is
    /// [`Reason::Precondition`] then.
    pub fn configure_log(&self, name: &str, config: LogConfig) -> Call<'static, LogInfo> {
        let request = wire::ConfigureLogRequest { name: name.to_string(), config: Some(config.into()), log_id: 0 };
        self.call(CATALOG, &calls::CONFIGURE_LOG, request, |answer| info(answer.info))
    }

    /// Removes a log with all its records. It never removes another log that got the name while
    /// an answer was lost.
    pub fn delete_log(&self, name: &str) -> Call<'static, ()> {
        let (calls, name) = (self.calls.clone(), name.to_string());
        Call::new(move |deadline| async move {
            let request = wire::GetInfoRequest { log: name.clone(), allow_stale: true, ..Default::default() };
            let known = calls.to_leader(CATALOG, &calls::GET_INFO, request, deadline).await;
            let known = known.map_err(|e| e.with_outcome(Outcome::NotDone))?;
            match remove(&calls, &name, known.info.unwrap_or_default().id, deadline).await {
                // The node that gave the id may not have heard of the newest log.
                Err(e) if *e.reason() == Reason::LogReplaced && e.outcome() == Outcome::NotDone => {
                    remove(&calls, &name, e.log_id().unwrap_or_default(), deadline).await
                }
                removed => removed,
            }
        })
    }

    /// Describes a log.
    pub fn info(&self, log: &str) -> Call<'static, LogInfo> {
        let request = wire::GetInfoRequest { log: log.to_string(), ..Default::default() };
        self.call(log, &calls::GET_INFO, request, |answer| info(answer.info))
    }

    /// The log's description now and after changes, at most once per interval; none: 1 s. It asks
    /// nobody before it is polled.
    pub fn watch_info(&self, log: &str, interval: Option<Duration>) -> InfoStream {
        InfoStream::new(self.calls.clone(), log, interval)
    }

    /// Removes every record below an offset. Beyond the end of the log it is
    /// [`Reason::OffsetBeyondEnd`].
    pub fn trim(&self, log: &str, before: i64) -> Call<'static, Bounds> {
        self.trim_to(log, before, false)
    }

    /// Removes every record below an offset, which may lie beyond the end of the log: the log
    /// continues there.
    pub fn fast_forward(&self, log: &str, to: i64) -> Call<'static, Bounds> {
        self.trim_to(log, to, true)
    }

    fn trim_to(&self, log: &str, before: i64, fast_forward: bool) -> Call<'static, Bounds> {
        let request = wire::TrimRequest { log: log.to_string(), before, fast_forward, log_id: 0 };
        self.call(log, &calls::TRIM, request, |a| Bounds { start: a.start_offset, end: a.end_offset })
    }

    /// Sets a hold, or moves the one of its name with all that belongs to it. Returns where it
    /// begins and where the log ends. [`Reason::OffsetTrimmed`]: records from the offset on are
    /// gone; once it has succeeded, all are there.
    pub fn set_hold(&self, log: &str, hold: Hold, place: Place) -> Call<'static, Bounds> {
        let request = set_hold_request(log, 0, hold, place);
        self.call(log, &calls::SET_HOLD, request, |a| Bounds { start: a.offset, end: a.end_offset })
    }

    /// Renews a hold's lease, as [`Admin::set_hold`] does. [`Reason::HoldNotFound`]: it has
    /// expired, or was released or broken.
    pub fn keep_hold(&self, log: &str, name: &str) -> Call<'static, ()> {
        let request = wire::KeepHoldRequest { log: log.to_string(), name: name.to_string(), log_id: 0 };
        self.call(log, &calls::KEEP_HOLD, request, |_| ())
    }

    /// Ends a hold, whoever has set it.
    pub fn release_hold(&self, log: &str, name: &str) -> Call<'static, ()> {
        let request = wire::ReleaseHoldRequest { log: log.to_string(), name: name.to_string(), log_id: 0 };
        let (calls, log) = (self.calls.clone(), log.to_string());
        Call::new(move |deadline| async move {
            match calls.to_leader(&log, &calls::RELEASE_HOLD, request, deadline).await {
                // An earlier try has released it.
                Err(e) if *e.reason() == Reason::HoldNotFound && e.outcome() != Outcome::NotDone => Ok(()),
                released => released.map(|_| ()),
            }
        })
    }

    /// Raises the log's writer term. Appends with an older term are refused with
    /// [`Reason::Fenced`] from then on.
    pub fn acquire_writer(&self, log: &str) -> Call<'static, WriterTerm> {
        let request = wire::AcquireWriterRequest { log: log.to_string(), log_id: 0 };
        self.call(log, &calls::ACQUIRE_WRITER, request, |a| WriterTerm { term: a.writer_term, end: a.end_offset })
    }

    /// Acquires the writer lease of a log: raises the log's writer term, as [`Admin::acquire_writer`]
    /// does, if no other program has the lease. Otherwise it waits in line for up to `wait`, at most a
    /// minute, and returns a grant without a term if that did not suffice. The lease lasts as long as
    /// [`Admin::keep_writer`] is called, or records are appended with the term.
    /// [`Client::lease_writer`](crate::Client::lease_writer) does that.
    pub fn lease_writer(&self, log: &str, claim: WriterClaim, wait: Duration) -> Call<'static, WriterGrant> {
        let request = lease_request(log, 0, claim, wait);
        let (calls, log) = (self.calls.clone(), log.to_string());
        Call::new(move |deadline| async move {
            Ok(calls.in_line(&log, &calls::LEASE_WRITER, request, deadline).await?.into())
        })
    }

    /// Renews the writer lease that was granted with a term, as appends with the term do.
    /// [`Reason::Fenced`]: it has ended.
    pub fn keep_writer(&self, log: &str, term: u64) -> Call<'static, ()> {
        let request = wire::KeepWriterRequest { log: log.to_string(), log_id: 0, writer_term: term };
        self.call(log, &calls::KEEP_WRITER, request, |_| ())
    }

    /// Ends the writer lease that was granted with a term: the first program in line gets it at once,
    /// or the one of a name. [`Reason::Precondition`]: none of that name waits, and the lease stays.
    /// [`Reason::Fenced`]: the lease had ended.
    pub fn release_writer(&self, log: &str, term: u64, to: Option<&str>) -> Call<'static, ()> {
        let to = to.unwrap_or_default().to_string();
        let request = wire::ReleaseWriterRequest { log: log.to_string(), log_id: 0, writer_term: term, to };
        let calls = self.calls.clone();
        Call::new(move |deadline| async move { release_writer(&calls, request, deadline).await })
    }

    /// Which program has the writer lease of a log: now, after each change, and every interval (none:
    /// 1 s) of at least 100 ms. It asks nobody before it is polled.
    pub fn watch_writer(&self, log: &str, interval: Option<Duration>) -> WriterStream {
        WriterStream::new(self.calls.clone(), log, interval)
    }

    /// Begins a session at epoch 0, sequence 0. No lease is one of 60 s.
    pub fn open_session(&self, log: &str, lease: Option<Duration>) -> Call<'static, Session> {
        self.open_session_of(log, 0, lease)
    }

    pub(crate) fn open_session_of(&self, log: &str, log_id: u64, lease: Option<Duration>) -> Call<'static, Session> {
        let request = wire::OpenSessionRequest { log: log.to_string(), lease: lease.map(wire::span), log_id };
        self.call(log, &calls::OPEN_SESSION, request, |a| Session {
            id: a.session_id,
            epoch: a.epoch,
            lease: a.lease.map(wire::length).unwrap_or_default(),
            log_id: a.log_id,
        })
    }

    /// Renews the lease of a session. Every append does so too.
    pub fn keep_session(&self, log: &str, session: impl Into<Position>) -> Call<'static, ()> {
        let Position { session: session_id, log_id, .. } = session.into();
        let request = wire::KeepSessionRequest { log: log.to_string(), session_id, log_id };
        self.call(log, &calls::KEEP_SESSION, request, |_| ())
    }

    /// Ends a session: its appends are refused from then on.
    pub fn close_session(&self, log: &str, session: impl Into<Position>) -> Call<'static, ()> {
        let Position { session: session_id, log_id, .. } = session.into();
        let request = wire::CloseSessionRequest { log: log.to_string(), session_id, log_id };
        self.call(log, &calls::CLOSE_SESSION, request, |_| ())
    }

    /// Returns what became of a record whose answer was lost: [`Error::position`] says where it
    /// is. With `last` a record that is not in the log never will be: the session's epoch ends.
    pub fn resolve(&self, log: &str, at: Position, last: bool) -> Call<'static, Resolution> {
        let Position { log_id, session, epoch, next } = at;
        let log_name = log.to_string();
        let request =
            wire::ResolveRequest { log: log_name, session_id: session, epoch, sequence: next, r#final: last, log_id };
        self.call(log, &calls::RESOLVE, request, |a| Resolution {
            state: a.state().into(),
            offset: a.offset,
            epoch: a.epoch,
            next: a.next_sequence,
        })
    }

    /// Ends the epoch of a position for good. `next` of the answer is how many records of it are
    /// in the log, and no other ever will be: so a program that was restarted finds out where to
    /// continue.
    pub fn end_epoch(&self, log: &str, at: Position) -> Call<'static, Resolution> {
        self.resolve(log, Position { next: u64::MAX, ..at }, true)
    }

    fn call<Q, A, T>(
        &self,
        log: &str,
        method: &'static calls::Method<Q, A>,
        request: Q,
        read: fn(A) -> T,
    ) -> Call<'static, T>
    where
        Q: prost::Message + Clone + 'static,
        A: prost::Message + Default + 'static,
        T: 'static,
    {
        let (calls, log) = (self.calls.clone(), log.to_string());
        Call::new(move |deadline| async move { Ok(read(calls.to_leader(&log, method, request, deadline).await?)) })
    }
}

fn info(wire: Option<wire::LogInfo>) -> LogInfo {
    wire.unwrap_or_default().into()
}

/// Ends a writer lease. An earlier try may have done so: then the refusal is about its own effect.
pub(crate) async fn release_writer(
    calls: &Arc<Calls>,
    request: wire::ReleaseWriterRequest,
    deadline: Deadline,
) -> Result<(), Error> {
    let log = request.log.clone();
    match calls.to_leader(&log, &calls::RELEASE_WRITER, request, deadline).await {
        Err(e) if *e.reason() == Reason::Fenced && e.outcome() != Outcome::NotDone => Ok(()),
        released => released.map(drop),
    }
}

async fn remove(calls: &Arc<Calls>, name: &str, log_id: u64, deadline: Deadline) -> Result<(), Error> {
    let request = wire::DeleteLogRequest { name: name.to_string(), log_id };
    match calls.to_leader(CATALOG, &calls::DELETE_LOG, request, deadline).await {
        // An earlier try has deleted it: the refusal is about its own effect.
        Err(e)
            if matches!(e.reason(), Reason::LogNotFound | Reason::LogReplaced) && e.outcome() != Outcome::NotDone =>
        {
            Ok(())
        }
        removed => removed.map(|_| ()),
    }
}
