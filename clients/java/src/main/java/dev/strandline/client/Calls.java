package dev.strandline.client;

import dev.strandline.v1.GetInfoRequest;
import dev.strandline.v1.LogInfo;
import io.grpc.CallOptions;
import io.grpc.ClientCall;
import io.grpc.MethodDescriptor;
import io.grpc.stub.ClientCalls;
import io.grpc.stub.StreamObserver;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.function.BiConsumer;
import java.util.function.Function;

/** Makes the calls of a client. Its methods wait. */
final class Calls {
  final Peers peers;
  final Threads threads;

  /** Until the client is closed. */
  final Bound life = new Bound(null, null);

  final Near near = new Near(this);

  final Set<Renewed> kept = ConcurrentHashMap.newKeySet();
  // Writer leases that this client was granted and has not released, by log and name.
  final Set<List<String>> unreleased = ConcurrentHashMap.newKeySet();

  /** How long a node may be without any answer before it is asked whether it is there. */
  Duration suspectAfter = Duration.ofSeconds(1);

  /** How long it may take to answer that. */
  Duration answerPatience = Duration.ofSeconds(1);

  /** How long calls go on looking for a node that can answer. */
  final Duration retryTime;

  private final BiConsumer<String, Optional<StrandlineException>> onTrouble;

  Calls(
      Peers peers,
      Threads threads,
      Duration retryTime,
      BiConsumer<String, Optional<StrandlineException>> onTrouble) {
    this.onTrouble = onTrouble;
    this.peers = peers;
    this.threads = threads;
    this.retryTime = retryTime;
  }

  /**
   * Tells the application that a producer or reader of a log tries again, or with null that it
   * continues. Never under a lock.
   */
  void trouble(String log, StrandlineException error) {
    if (peers.closed()) {
      return;
    }
    try {
      onTrouble.accept(log, Optional.ofNullable(error));
    } catch (RuntimeException e) {
      // A handler that fails must end neither the producer nor the reader.
      Thread thread = Thread.currentThread();
      thread.getUncaughtExceptionHandler().uncaughtException(thread, e);
    }
  }

  /** What an error means to a user. A call that ends because the client was closed says so. */
  StrandlineException failure(Throwable error) {
    StrandlineException failure = StrandlineException.of(error);
    return peers.closed() ? StrandlineException.closed("client").with(failure.outcome()) : failure;
  }

  /** Makes a call once, on one node. */
  <Q, A> A on(Peer peer, MethodDescriptor<Q, A> method, Q request, Bound bound) {
    return on(peer, method, request, bound, null);
  }

  /**
   * The same; with a silence, the node is left where another one may do better. A call whose token
   * was refused is made once more if there is another one.
   */
  private <Q, A> A on(
      Peer peer, MethodDescriptor<Q, A> method, Q request, Bound bound, Silence silence) {
    Token.Shown shown = new Token.Shown();
    try {
      return once(peer, method, request, bound, silence, shown);
    } catch (StrandlineException e) {
      if (e.outcome() != Outcome.NOT_DONE || !shown.failure(e).renewed()) {
        throw e;
      }
      return once(peer, method, request, bound, silence, shown);
    }
  }

  private <Q, A> A once(
      Peer peer,
      MethodDescriptor<Q, A> method,
      Q request,
      Bound bound,
      Silence silence,
      Token.Shown shown) {
    ClientCall<Q, A> call = peer.channel.newCall(method, shown.options());
    CompletableFuture<A> answer = new CompletableFuture<>();
    Signal answered = new Signal();
    answer.whenComplete((a, e) -> answered.fire());
    ClientCalls.asyncUnaryCall(call, request, into(answer));
    StrandlineException left = null;
    if (silence == null) {
      bound.await(answered, answer::isDone);
    } else {
      left = silence.await(bound, answered, answer::isDone);
    }
    if (!answer.isDone()) {
      call.cancel("the caller does not wait any more", null);
      throw left != null ? left : StrandlineException.cancelled(Outcome.MAYBE_DONE);
    }
    try {
      return answer.join();
    } catch (CompletionException e) {
      throw StrandlineException.of(e);
    }
  }

  /**
   * Asks a node something that costs it nothing, and waits without a thread, for so long at most.
   */
  <Q, A> CompletableFuture<A> ask(
      String address, MethodDescriptor<Q, A> method, Q request, Duration patience) {
    CompletableFuture<A> answer = new CompletableFuture<>();
    try {
      CallOptions options =
          CallOptions.DEFAULT.withDeadlineAfter(patience.toNanos(), TimeUnit.NANOSECONDS);
      ClientCalls.asyncUnaryCall(
          peers.at(address).channel.newCall(method, options), request, into(answer));
    } catch (StrandlineException e) {
      answer.completeExceptionally(e); // the client is closed
    }
    return answer;
  }

  /** Waits for all answers, until the bound ends: what is not there then may come later. */
  static void await(List<? extends CompletableFuture<?>> answers, Bound bound) {
    Signal answered = new Signal();
    answers.forEach(answer -> answer.whenComplete((a, e) -> answered.fire()));
    bound.await(answered, () -> answers.stream().allMatch(CompletableFuture::isDone));
  }

  private static <A> StreamObserver<A> into(CompletableFuture<A> answer) {
    return new StreamObserver<>() {
      private A value;

      @Override
      public void onNext(A a) {
        value = a;
      }

      @Override
      public void onError(Throwable error) {
        answer.completeExceptionally(error);
      }

      @Override
      public void onCompleted() {
        answer.complete(value);
      }
    };
  }

  /** Asks a node what it knows of a log, without its asking others. */
  LogInfo knownInfo(Peer peer, String log, Bound bound) {
    GetInfoRequest request = GetInfoRequest.newBuilder().setLog(log).setAllowStale(true).build();
    try {
      return on(peer, Methods.GET_INFO, request, new Bound(bound, Peers.PATIENCE)).getInfo();
    } catch (StrandlineException e) {
      if (!e.is(Reason.CANCELLED) || bound.over()) {
        throw e;
      }
      throw StrandlineException.unreachable(
          Outcome.NOT_DONE, peer.address + " does not answer for now");
    }
  }

  /**
   * Makes a call to the node that leads a log, as often as retryTime allows. The call does no harm
   * when it is made twice, or the node recognises it.
   */
  <Q, A> A toLeader(String log, MethodDescriptor<Q, A> method, Q request, Bound bound) {
    return through(new ToLeader(this, log, false), method, request, bound);
  }

  /** The same for a call that renews a lease: see {@link Silence#ofRenewal}. */
  <Q, A> A renew(
      String log, MethodDescriptor<Q, A> method, Q request, Duration lease, Bound bound) {
    Route route = new ToLeader(this, log, false);
    return by(
        route,
        bound,
        peer -> on(peer, method, request, bound, Silence.ofRenewal(this, peer, route, lease)));
  }

  /** The same on the nodes of a route. */
  <Q, A> A through(Route route, MethodDescriptor<Q, A> method, Q request, Bound bound) {
    return by(
        route, bound, peer -> on(peer, method, request, bound, Silence.ofCall(this, peer, route)));
  }

  /** The same as toLeader for a call that waits in line for its turn: that time does not count. */
  <Q, A> A inLine(String log, MethodDescriptor<Q, A> method, Q request, Bound bound) {
    Route route = new ToLeader(this, log, false);
    return by(
        route,
        bound,
        peer -> on(peer, method, request, bound, Silence.ofCall(this, peer, route)),
        true);
  }

  <T> T by(Route route, Bound bound, Function<Peer, T> act) {
    return by(route, bound, act, false);
  }

  private <T> T by(Route route, Bound bound, Function<Peer, T> act, boolean inLine) {
    long began = bound.asked();
    long time = Bound.nanos(retryTime);
    Pauses pauses = new Pauses();
    Tries tries = new Tries();
    for (int count = 1; ; count++) {
      StrandlineException failure;
      Peer peer = null;
      long called = 0;
      try {
        peer = route.connect(bound);
        called = System.nanoTime();
        return act.apply(peer);
      } catch (StrandlineException e) {
        failure = tries.failed(failure(e));
      }
      if (inLine && peer != null) {
        began += System.nanoTime() - called;
      }
      if (!failure.again()) {
        throw tries.verdict(failure);
      }
      int width = 1;
      if (failure.elsewhere()) {
        route.elsewhere(failure);
        width = route.width(failure);
      }
      boolean late = System.nanoTime() - began + pauses.next() > failure.within(time);
      if (count >= width && late) {
        throw tries.verdict(failure);
      }
      pauses.between(route.tried(), width, bound);
      if (bound.over()) {
        throw tries.failed(StrandlineException.cancelled(Outcome.NOT_DONE));
      }
    }
  }
}
