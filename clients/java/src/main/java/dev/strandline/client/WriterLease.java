package dev.strandline.client;

import dev.strandline.v1.LeaseWriterResponse;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;

/**
 * The writer lease of a log, which this program has and renews three times in each lease. Any
 * thread may use it. Made by {@link Client#leaseWriter}.
 *
 * <p>The error of {@link #done} is FENCED if the lease has ended and another program may have it;
 * PERMISSION_DENIED or UNAUTHENTICATED if this program may no longer renew it.
 */
public final class WriterLease extends Renewed implements AutoCloseable {
  /**
   * How long one call waits in line. Whoever has left the line for longer than it takes to call
   * again has lost its place.
   */
  private static final Duration WAIT = Duration.ofSeconds(10);

  private static final long LEAST_PAUSE = 100_000_000; // nanoseconds
  private static final long MOST_PAUSE = 1_000_000_000;

  private final String log;
  private final WriterClaim claim;
  private LeaseWriterResponse grant;
  private volatile long until; // by the clock of nanoTime
  // Handovers that are under way, which say how the lease ends.
  private final AtomicInteger handing = new AtomicInteger();

  WriterLease(Calls calls, String log, WriterClaim claim) {
    super(calls, Reason.FENCED);
    this.log = log;
    this.claim = claim;
  }

  WriterLease open(Bound bound) {
    long began;
    if (calls.unreleased.contains(name())) {
      pause(bound); // another program of the name may have taken the lease
    }
    for (long id = 0; ; id = grant.getLogId()) {
      began = System.nanoTime();
      grant = verbs.leaseWriter(log, id, claim, WAIT, bound);
      if (grant.getWriterTerm() != 0) {
        break;
      }
      if (System.nanoTime() - began < WAIT.toNanos() / 2) {
        pause(bound); // another program of the name has taken the place in line
      }
      if (bound.over()) {
        throw StrandlineException.cancelled(Outcome.NOT_DONE);
      }
    }
    until = began + Bound.nanos(claim.lease());
    calls.unreleased.add(name());
    Consumer<Bound> keep = this::keep;
    begin(Optional.of(claim.lease()), keep);
    renewInThread(keep); // at once: the time in line does not count against left
    return this;
  }

  /**
   * Pauses between calls for one name: two programs that have it would take the lease, or the place
   * in line, from each other as fast as they can call.
   */
  private static void pause(Bound bound) {
    bound.sleep(ThreadLocalRandom.current().nextLong(LEAST_PAUSE, MOST_PAUSE));
  }

  /** The lease among those that were not released. */
  private List<String> name() {
    return List.of(log, claim.name());
  }

  private void keep(Bound life) {
    long sent = System.nanoTime();
    verbs.renewWriter(log, grant.getLogId(), term(), claim.lease(), life);
    until = sent + Bound.nanos(claim.lease());
  }

  @Override
  void lost(StrandlineException error) {
    // What a renewal, or another handover, finds during a handover is the effect of that, or the
    // next renewal finds it again.
    if (!(handing.get() > 0 && error.is(Reason.FENCED))) {
      end(error);
    }
  }

  /** The claim with which the lease was acquired. */
  public WriterClaim claim() {
    return claim;
  }

  /**
   * The writer term that was granted with the lease, for {@link ProducerOptions#writerTerm}:
   * whatever this program believes, no record with it follows a record of a newer one.
   */
  public long term() {
    return grant.getWriterTerm();
  }

  /** The end of the log when the term began: all records of older writers are below it. */
  public long end() {
    return grant.getEndOffset();
  }

  /**
   * How long the lease lasts at least: one lease after the newest renewal that succeeded was sent,
   * or before this program waited in line.
   */
  public Duration left() {
    return Duration.ofNanos(Math.max(0, until - System.nanoTime()));
  }

  /**
   * Ends the lease, and waits for that: the next program in line gets it at once. If it fails, it
   * may be called again; the lease is no longer renewed.
   */
  public void release() {
    release(null);
  }

  /** The same for so long at most; null: as long as it takes. */
  public void release(Duration timeout) {
    end(null);
    try {
      release("", timeout);
    } catch (StrandlineException e) {
      if (!e.is(Reason.FENCED)) {
        throw e;
      }
    }
  }

  /**
   * Ends the lease in favor of the program in line that has a name. PRECONDITION: none has it, and
   * this program keeps the lease. FENCED: the lease had ended.
   */
  public void handOver(String to) {
    handOver(to, null);
  }

  /** The same for so long at most; null: as long as it takes. */
  public void handOver(String to, Duration timeout) {
    if (to.isEmpty()) {
      throw StrandlineException.invalid(
          "a handover must name the next holder; release ends the lease without one");
    }
    try {
      hand(to, timeout);
    } catch (StrandlineException e) {
      if (e.is(Reason.FENCED)) {
        lost(e);
      }
      throw e;
    }
  }

  private void hand(String to, Duration timeout) {
    handing.incrementAndGet();
    try {
      release(to, timeout);
      end(null);
    } finally {
      handing.decrementAndGet();
    }
  }

  private void release(String to, Duration timeout) {
    verbs.releaseWriter(log, grant.getLogId(), term(), to, new Bound(calls.life, timeout));
    calls.unreleased.remove(name());
  }

  /**
   * Releases the lease, and waits for that for as long as the lease lasts. If it fails, the lease
   * ends when it runs out.
   */
  @Override
  public void close() {
    if (ended()) {
      return;
    }
    try {
      release(claim.lease());
    } catch (StrandlineException e) {
      // nobody renews it
    }
  }
}
