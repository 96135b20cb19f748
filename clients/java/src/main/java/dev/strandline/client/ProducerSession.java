package dev.strandline.client;

/** The session of a producer, which places its records. Its methods wait. */
final class ProducerSession {
  private final Calls calls;
  private final Verbs verbs;
  private final String log;
  private final Backlog backlog;

  /**
   * When a node last renewed the lease, perhaps another one than that which has the requests;
   * guarded by the backlog.
   */
  private long renewed = System.nanoTime();

  ProducerSession(Calls calls, String log, Backlog backlog) {
    this.calls = calls;
    this.log = log;
    this.backlog = backlog;
    verbs = new Verbs(calls);
  }

  /**
   * Finds the log and begins its session. The outcome of an error is always NOT_DONE: a session
   * that was opened without an answer ends with its lease.
   */
  void open(Bound bound) {
    ProducerOptions o = backlog.options;
    Position resume = o.resume;
    try {
      if (!o.session) {
        LogInfo info = verbs.info(log, bound);
        backlog.logId = info.id();
        calls.peers.prefer(log, info.leader());
      } else if (resume != null && resume.session() != 0) {
        verbs.keepSession(log, resume.session(), resume.logId(), bound);
        begin(
            new Session(resume.session(), resume.epoch(), o.lease, resume.logId()), resume.next());
      } else {
        begin(verbs.openSession(log, resume == null ? 0 : resume.logId(), o.lease, bound), 0);
      }
    } catch (StrandlineException e) {
      throw e.with(Outcome.NOT_DONE);
    }
  }

  private void begin(Session session, long next) {
    synchronized (backlog) {
      backlog.session = session;
      backlog.logId = session.logId();
      backlog.next = next;
      backlog.lastSign = System.nanoTime();
    }
  }

  /** Opens a session if there is none. */
  void reopen(Bound bound) {
    synchronized (backlog) {
      if (backlog.session != null || !backlog.options.session) {
        return;
      }
    }
    begin(verbs.openSession(log, backlog.logId, backlog.options.lease, bound), 0);
  }

  /** Whether a third of the lease has passed without an answer. */
  boolean fades() {
    synchronized (backlog) {
      long third = Bound.nanos(backlog.options.lease) / 3;
      long now = System.nanoTime();
      return backlog.session != null && now - backlog.lastSign > third && now - renewed > third;
    }
  }

  /** Renews the lease. An error is about the session that the producer has now; null: none. */
  StrandlineException keep(Bound bound) {
    Session session;
    synchronized (backlog) {
      session = backlog.session;
    }
    if (session == null) {
      return null;
    }
    long now = System.nanoTime();
    try {
      verbs.renewSession(log, session, backlog.options.lease, bound);
    } catch (StrandlineException e) {
      synchronized (backlog) {
        return backlog.session != null && backlog.session.id() == session.id() ? e : null;
      }
    }
    synchronized (backlog) {
      renewed = now;
    }
    return null;
  }

  /** Ends the producer's part in its session: the next round opens a new one. */
  Session forget() {
    synchronized (backlog) {
      Session session = backlog.session;
      backlog.session = null;
      backlog.next = 0;
      return session;
    }
  }

  void close(Bound bound) {
    Session session = forget();
    if (session != null) {
      verbs.closeSession(log, session.id(), session.logId(), bound);
    }
  }
}
