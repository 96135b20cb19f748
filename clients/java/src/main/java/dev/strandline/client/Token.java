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

  private String header() {
    try {
      return "Bearer " + check(give.get());
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
    String shown = header();
    return new SimpleForwardingClientCall<>(next.newCall(method, options)) {
      @Override
      public void start(Listener<A> listener, Metadata headers) {
        headers.put(AUTHORIZATION, shown);
        super.start(listener, headers);
      }
    };
  }

  /** Gives what a file holds, which is read again once a second at most. */
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
      long now = System.nanoTime();
      if (shown != null && now - read < AGAIN) {
        return shown;
      }
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
      read = now;
      return shown;
    }
  }
}
