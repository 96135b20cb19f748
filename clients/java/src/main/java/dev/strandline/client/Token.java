package dev.strandline.client;

import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.ClientInterceptor;
import io.grpc.ForwardingClientCall.SimpleForwardingClientCall;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;

/** Shows a token with every call and stream. */
final class Token implements ClientInterceptor {
  private static final Metadata.Key<String> AUTHORIZATION =
      Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER);

  private static final CallOptions.Key<Shown> SHOWN = CallOptions.Key.create("token");

  private final Supplier<String> give;

  Token(Supplier<String> give) {
    this.give = give;
  }

  /** Refuses what no header can carry. The error does not show it. */
  static String check(String token) {
    if (token == null || token.isEmpty() || !token.chars().allMatch(c -> c > ' ' && c <= '~')) {
      throw StrandlineException.invalid(
          "the token is empty, or has a character that no header can carry, such as a line break at"
              + " its end");
    }
    return token;
  }

  /** The token to show; anew: past what is kept of it. */
  private String token(boolean anew) {
    try {
      return check(anew && give instanceof OfFile file ? file.anew() : give.get());
    } catch (StrandlineException e) {
      throw e;
    } catch (RuntimeException e) {
      throw StrandlineException.unreachable(
          Outcome.NOT_DONE,
          "the function that gives the token failed: " + e.getClass().getSimpleName());
    }
  }

  @Override
  public <Q, A> ClientCall<Q, A> interceptCall(
      MethodDescriptor<Q, A> method, CallOptions options, Channel next) {
    String token = token(false);
    Shown shown = options.getOption(SHOWN);
    if (shown != null) {
      shown.show(this, token);
    }
    return new SimpleForwardingClientCall<>(next.newCall(method, options)) {
      @Override
      public void start(Listener<A> listener, Metadata headers) {
        headers.put(AUTHORIZATION, "Bearer " + token);
        super.start(listener, headers);
      }
    };
  }

  /** Whether there is another token than the one that was shown, and has been refused. */
  private boolean another(String shown) {
    try {
      return !token(true).equals(shown);
    } catch (StrandlineException e) {
      return false;
    }
  }

  /** The token of a call that may be made again, or of a stream that may be opened again. */
  static final class Shown {
    private Token by; // null: no token is shown
    private String token;
    // It was made again for another token, and no node has said since that it knows that one.
    private volatile boolean renewed;

    /** Has a call that is made with them note its token here. */
    CallOptions options() {
      return CallOptions.DEFAULT.withOption(SHOWN, this);
    }

    private synchronized void show(Token by, String token) {
      this.by = by;
      this.token = token;
    }

    /** Notes that the token is good. */
    void progressed() {
      renewed = false;
    }

    /**
     * What a failure means: a token that was refused is one to try again after if there is another,
     * but not twice in a row. What is final reaches the application, and what it does next may be
     * tried with another token again.
     */
    synchronized StrandlineException failure(StrandlineException failure) {
      if (failure.is(Reason.UNREACHABLE)) {
        return failure;
      }
      boolean twice = renewed;
      renewed = false;
      if (!failure.is(Reason.UNAUTHENTICATED) || by == null || twice || !by.another(token)) {
        return failure;
      }
      renewed = true;
      return failure.withRetry();
    }
  }

  /** Gives what a file holds, which is read again once a second at most, and when it is refused. */
  static final class OfFile implements Supplier<String> {
    private static final long AGAIN = TimeUnit.SECONDS.toNanos(1);

    private final Path path;
    private String shown; // null: it could not be read yet
    private long read;

    OfFile(Path path) {
      this.path = path;
    }

    @Override
    public synchronized String get() {
      return shown != null && System.nanoTime() - read < AGAIN ? shown : anew();
    }

    /** Reads the file. */
    synchronized String anew() {
      try {
        String found = Files.readString(path).trim();
        if (!found.isEmpty() || shown == null) { // empty: it is being written
          shown = found;
        }
      } catch (IOException e) {
        if (shown == null) {
          throw StrandlineException.invalid("the token cannot be read: " + e);
        }
      }
      read = System.nanoTime();
      return shown;
    }
  }
}
