package dev.strandline.client;

import com.google.protobuf.Empty;
import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.ClientInterceptors;
import io.grpc.ConnectivityState;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.netty.shaded.io.netty.handler.ssl.NotSslRecordException;
import java.nio.channels.UnresolvedAddressException;
import java.security.cert.CertPathValidatorException;
import java.security.cert.CertificateException;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import javax.net.ssl.SSLException;

/** One node. */
final class Peer {
  private static final long FIRST_RECONNECT = 100_000_000; // nanoseconds
  private static final long LAST_RECONNECT = 250_000_000;

  /** The library knows by then why it has failed. */
  private static final Duration WHY_PATIENCE = Duration.ofMillis(200);

  private static final long AVOIDED = 2_000_000_000;

  /** The alerts with which a node refuses a certificate, as Java and BoringSSL write them. */
  private static final Pattern REFUSED =
      Pattern.compile(
          "(?i)alert.*(bad_certificate|unsupported_certificate|certificate_(revoked|expired"
              + "|unknown|required)|unknown_ca)");

  final String address;

  /** Makes calls, with what they all carry. */
  final Channel channel;

  private final ManagedChannel connection;
  private final ReloadedContext files; // null: it is not encrypted

  /** Why an attempt failed that was made before a file was replaced. */
  private volatile Throwable outdated;

  private final Threads threads;
  private final Signal changed = new Signal();
  private volatile long left = System.nanoTime() - AVOIDED;

  Peer(
      String address,
      ManagedChannel connection,
      ReloadedContext files,
      Token token,
      Threads threads) {
    this.address = address;
    this.connection = connection;
    this.files = files;
    this.threads = threads;
    channel = token == null ? connection : ClientInterceptors.intercept(connection, token);
    watch();
  }

  void close() {
    connection.shutdownNow();
    changed.fire();
  }

  private void watch() {
    ConnectivityState state = connection.getState(false);
    changed.fire();
    if (state == ConnectivityState.TRANSIENT_FAILURE) {
      reconnect(FIRST_RECONNECT);
    }
    if (state != ConnectivityState.SHUTDOWN) {
      connection.notifyWhenStateChanged(state, this::watch);
    }
  }

  /** Connects again in a while: left alone the library would wait for up to two minutes. */
  private void reconnect(long delay) {
    threads.later(
        () -> {
          if (failing()) {
            connection.resetConnectBackoff();
            reconnect(Math.min(2 * delay, LAST_RECONNECT));
          }
        },
        delay / 2 + ThreadLocalRandom.current().nextLong(delay / 2));
  }

  /** Whether the newest attempt to connect failed. */
  boolean failing() {
    return connection.getState(false) == ConnectivityState.TRANSIENT_FAILURE;
  }

  /** Notes that the node was left for its silence: hints to it are not followed for a while. */
  void avoid() {
    left = System.nanoTime();
  }

  boolean avoided() {
    return System.nanoTime() - left < AVOIDED;
  }

  /** Waits until the connection is up. With an error nothing has been sent. */
  void connect(Duration patience, Bound bound) {
    Bound patient = new Bound(bound, patience);
    for (; ; ) {
      ConnectivityState state = connection.getState(true);
      switch (state) {
        case READY -> {
          return;
        }
        case SHUTDOWN -> throw StrandlineException.closed("client");
        case TRANSIENT_FAILURE -> throw unconnected(why(bound));
        default -> {
          if (patient.await(changed, () -> connection.getState(false) != state)) {
            continue;
          }
          if (bound.over()) {
            throw StrandlineException.cancelled(Outcome.NOT_DONE);
          }
          throw StrandlineException.unreachable(
              Outcome.NOT_DONE, address + " accepts no connections now");
        }
      }
    }
  }

  /**
   * Why there is no connection: what a call fails with that does not wait for one. Should there be
   * one by now, the node is asked whether it is there, and nothing comes of that.
   */
  private Status why(Bound bound) {
    CompletableFuture<Status> failed = new CompletableFuture<>();
    Signal signal = new Signal();
    ClientCall<Empty, Empty> call = connection.newCall(Methods.HEALTH, CallOptions.DEFAULT);
    call.start(
        new ClientCall.Listener<>() {
          @Override
          public void onClose(Status status, Metadata trailers) {
            failed.complete(status);
            signal.fire();
          }
        },
        new Metadata());
    call.sendMessage(Empty.getDefaultInstance());
    call.halfClose();
    call.request(1);
    boolean known = new Bound(bound, WHY_PATIENCE).await(signal, failed::isDone);
    call.cancel("no longer of interest", null);
    return known ? failed.join() : Status.OK;
  }

  /** The error of a connection that failed with a status; OK: it is not known why. */
  private StrandlineException unconnected(Status status) {
    String message = "no connection to " + address;
    Throwable innermost = status.getCause();
    if (innermost == null) {
      String words = status.isOk() ? null : status.getDescription();
      return StrandlineException.unreachable(
          Outcome.NOT_DONE, words == null ? message : message + ": " + words);
    }
    boolean lasting = lasts(innermost);
    // The innermost cause: the outer ones say that there is no connection.
    while (innermost.getCause() != null) {
      innermost = innermost.getCause();
      lasting |= lasts(innermost);
    }
    if (files != null && files.replaced()) {
      outdated = innermost;
    }
    // What failed with files of before says nothing of a connection that is tried with those of
    // now.
    lasting &= innermost != outdated;
    message +=
        innermost instanceof UnresolvedAddressException
            ? ": the name is not known: " + Address.parse(address).host()
            : ": " + innermost.getMessage();
    return lasting
        ? StrandlineException.lasting(message)
        : StrandlineException.unreachable(Outcome.NOT_DONE, message);
  }

  /**
   * Whether another try cannot help: the node's certificate is not believed or does not name it,
   * the node does not encrypt, or it refuses the client's certificate or the lack of one.
   */
  private static boolean lasts(Throwable cause) {
    return cause instanceof CertificateException
        || cause instanceof CertPathValidatorException
        || cause instanceof NotSslRecordException
        || cause instanceof SSLException
            && REFUSED.matcher(String.valueOf(cause.getMessage())).find();
  }

  /** Waits so many nanoseconds at most for a connection that failed to be there. */
  void awaitRecovery(long nanos, Bound bound) {
    new Bound(bound, Duration.ofNanos(nanos)).await(changed, () -> !failing());
  }

  /** Waits a moment for all of the connection to be gone. */
  void awaitEnd() throws InterruptedException {
    connection.awaitTermination(2, TimeUnit.SECONDS);
  }

  /** Whether all of its connection is gone. */
  boolean terminated() {
    return connection.isTerminated();
  }
}
