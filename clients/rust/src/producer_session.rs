use std::sync::Arc;

use tokio::time::Instant;

use crate::admin::Admin;
use crate::call::Deadline;
use crate::calls::{self, Calls};
use crate::errors::{Error, Outcome, Position};
use crate::logs::Session;
use crate::producer_options::Sessions;
use crate::shared::Shared;
use crate::wire;

/// The session of a producer, which places its records.
#[derive(Clone)]
pub(crate) struct ProducerSession {
    pub admin: Admin,
    calls: Arc<Calls>,
    log: String,
    shared: Arc<Shared>,
}

impl ProducerSession {
    pub fn new(calls: Arc<Calls>, log: &str, shared: Arc<Shared>) -> ProducerSession {
        ProducerSession { admin: Admin::new(calls.clone()), calls, log: log.to_string(), shared }
    }

    /// Finds the log and begins its session. The outcome of an error is always
    /// [`Outcome::NotDone`]: a session that was opened without an answer ends with its lease.
    pub async fn open(&self, deadline: Deadline) -> Result<(), Error> {
        let begun = match self.shared.options.session {
            Sessions::None => self.find(deadline).await,
            Sessions::Resume(at) if at.session != 0 => self.resume(at, deadline).await,
            Sessions::Resume(at) => self.begin(at.log_id, deadline).await,
            Sessions::New => self.begin(0, deadline).await,
        };
        begun.map_err(|e| e.with_outcome(Outcome::NotDone))
    }

    async fn find(&self, deadline: Deadline) -> Result<(), Error> {
        let info = self.admin.info(&self.log).by(deadline).await?;
        self.shared.backlog().log_id = info.id;
        self.calls.peers.prefer(&self.log, &info.leader);
        Ok(())
    }

    async fn resume(&self, at: Position, deadline: Deadline) -> Result<(), Error> {
        self.admin.keep_session(&self.log, at).by(deadline).await?;
        let Position { log_id, session: id, epoch, next } = at;
        self.take(Session { id, epoch, lease: self.shared.options.lease, log_id }, next);
        Ok(())
    }

    async fn begin(&self, log_id: u64, deadline: Deadline) -> Result<(), Error> {
        let opening = self.admin.open_session_of(&self.log, log_id, Some(self.shared.options.lease));
        self.take(opening.by(deadline).await?, 0);
        Ok(())
    }

    fn take(&self, session: Session, next: u64) {
        let mut backlog = self.shared.backlog();
        (backlog.session, backlog.log_id, backlog.next) = (Some(session), session.log_id, next);
        backlog.last_sign = Instant::now();
    }

    /// Opens a session if there is none.
    pub async fn reopen(&self) -> Result<(), Error> {
        let log_id = {
            let backlog = self.shared.backlog();
            if backlog.session.is_some() || !self.shared.options.in_session() {
                return Ok(());
            }
            backlog.log_id
        };
        self.begin(log_id, Deadline::default()).await
    }

    /// Renews the lease if a third of it has passed without an answer. An error is about the
    /// session that the producer has now.
    pub async fn keep(&self) -> Result<(), Error> {
        let lease = self.shared.options.lease;
        let (session, last_sign) = {
            let backlog = self.shared.backlog();
            (backlog.session, backlog.last_sign.max(backlog.renewed))
        };
        let now = Instant::now();
        let Some(session) = session.filter(|_| now - last_sign > lease / 3) else {
            return Ok(());
        };
        let request =
            wire::KeepSessionRequest { log: self.log.clone(), session_id: session.id, log_id: session.log_id };
        let kept = self.calls.renew(&self.log, &calls::KEEP_SESSION, request, lease).await.map(drop);
        let mut backlog = self.shared.backlog();
        if backlog.session.is_none_or(|s| s.id != session.id) {
            return Ok(());
        }
        if kept.is_ok() {
            backlog.renewed = now;
        }
        kept
    }

    pub async fn close(&self, deadline: Deadline) -> Result<(), Error> {
        let forgotten = self.shared.backlog().forget();
        match forgotten {
            Some(session) => self.admin.close_session(&self.log, session).by(deadline).await,
            None => Ok(()),
        }
    }
}
