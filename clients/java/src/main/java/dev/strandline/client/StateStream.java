package dev.strandline.client;

import io.grpc.MethodDescriptor;
import java.util.function.Function;

/**
 * What a node shows of a log as it changes. A lasting stream is opened again when it breaks, or its
 * node is silent or leads the log no longer; another one only where a token is replaced.
 */
final class StateStream<Q, A, T> implements Publication.Source<T> {
  /**
   * How long, in nanoseconds, a stream lasts that is opened again after a pause: a node that ends
   * each after its first state would be called as fast as it answers.
   */
  private static final long BRIEF = 1_000_000_000;

  private final Calls calls;
  private final String log;
  private final MethodDescriptor<Q, A> method;
  private final Q request;
  private final Function<A, T> read;
  private final boolean lasting;
  private final Bound bound; // of the opening
  private final Token.Shown shown = new Token.Shown();
  private final Route route;
  private Peer peer;
  private ServerStream<Q, A> stream;
  private long opened; // by the clock of nanoTime
  private Pauses pauses = new Pauses();

  /** Finds a node that answers. */
  StateStream(
      Calls calls,
      String log,
      MethodDescriptor<Q, A> method,
      Q request,
      Function<A, T> read,
      boolean lasting,
      Bound bound) {
    this.calls = calls;
    this.log = log;
    this.method = method;
    this.request = request;
    this.read = read;
    this.lasting = lasting;
    this.bound = bound;
    route = new ToLeader(calls, log, false);
    open();
  }

  /** The first answer is a part of finding a node, and is there to be taken afterwards. */
  private void open() {
    opened = System.nanoTime();
    calls.by(
        route,
        bound,
        found -> {
          peer = found;
          stream = new ServerStream<>(found, method, request, shown);
          try {
            await(bound, Silence.ofCall(calls, found, route));
            stream.check();
          } catch (StrandlineException e) {
            stream.close();
            throw shown.failure(e);
          }
          return found;
        });
  }

  private void await(Bound b, Silence silence) {
    StrandlineException left = stream.await(b, silence);
    if (left != null) {
      throw left;
    }
    if (b.over()) {
      throw StrandlineException.cancelled(Outcome.NOT_DONE);
    }
  }

  @Override
  public T next(Bound b) {
    for (boolean first = true; ; first = false) {
      try {
        await(b, lasting ? Silence.ofLasting(calls, peer, route) : Silence.ofWatch(calls, peer));
        A answer = stream.take();
        shown.progressed();
        if (answer != null) {
          return read.apply(answer);
        }
        if (!lasting || !first) {
          return null;
        }
      } catch (StrandlineException e) {
        StrandlineException failure = shown.failure(e);
        if (!failure.renewed() && !(lasting && failure.again())) {
          throw failure;
        }
        if (failure.elsewhere()) {
          calls.peers.lookElsewhere(log, peer.address, failure.leader());
        }
      }
      stream.close();
      rest(b);
      open();
    }
  }

  /** Pauses before the stream is opened again, if it has not lasted. */
  private void rest(Bound b) {
    if (System.nanoTime() - opened >= BRIEF) {
      pauses = new Pauses();
      return;
    }
    pauses.pause(peer, b);
    if (b.over()) {
      throw StrandlineException.cancelled(Outcome.NOT_DONE);
    }
  }

  @Override
  public void close() {
    stream.close();
  }
}
