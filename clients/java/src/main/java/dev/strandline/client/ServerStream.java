package dev.strandline.client;

import io.grpc.ClientCall;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import java.util.ArrayDeque;
import java.util.Deque;

/** Answers that a node sends one after the other, fetched a little ahead of who takes them. */
final class ServerStream<Q, A> {
  private static final int AHEAD = 3;

  private final ClientCall<Q, A> call;
  private final Signal arrived = new Signal();
  private final Deque<A> answers = new ArrayDeque<>(); // guarded by this, as the rest is
  private boolean ended;
  private StrandlineException failure; // why it ended; null: as it has to

  ServerStream(Peer peer, MethodDescriptor<Q, A> method, Q request, Token.Shown shown) {
    call = peer.channel.newCall(method, shown.options());
    call.start(
        new ClientCall.Listener<A>() {
          @Override
          public void onMessage(A answer) {
            put(answer);
          }

          @Override
          public void onClose(Status status, Metadata trailers) {
            end(status.isOk() ? null : StrandlineException.of(status, trailers));
          }
        },
        new Metadata());
    call.request(AHEAD);
    call.sendMessage(request);
    call.halfClose();
  }

  private void put(A answer) {
    synchronized (this) {
      answers.add(answer);
    }
    arrived.fire();
  }

  private void end(StrandlineException error) {
    synchronized (this) {
      ended = true;
      failure = error;
    }
    arrived.fire();
  }

  private synchronized boolean any() {
    return ended || !answers.isEmpty();
  }

  /** Waits until there is something to take; false: the bound has ended before. */
  boolean await(Bound bound) {
    return any() || bound.await(arrived, this::any);
  }

  /** The same, until the node is to be left for its silence: the error says why; else null. */
  StrandlineException await(Bound bound, Silence silence) {
    return any() ? null : silence.await(bound, arrived, this::any);
  }

  /** Fails if it has ended with an error and there is no answer to take. */
  synchronized void check() {
    if (answers.isEmpty() && failure != null) {
      throw failure;
    }
  }

  /** Takes the next answer; null: there are no more. */
  A take() {
    synchronized (this) {
      A answer = answers.poll();
      if (answer == null && failure != null) {
        throw failure;
      }
      if (answer == null || ended) {
        return answer;
      }
      call.request(1);
      return answer;
    }
  }

  void close() {
    call.cancel("read no further", null);
  }
}
