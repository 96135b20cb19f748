package dev.strandline.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Flow;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(60)
class PublicationTest {
  private final Threads threads = new Threads();
  private final Calls calls = new Calls(null, threads, Duration.ZERO, (log, error) -> {});
  private final AtomicInteger given = new AtomicInteger();
  private final CompletableFuture<Void> closed = new CompletableFuture<>();

  /** Publishes 1, 2, 3, up to an end. */
  private Publication<Integer> numbers(int end) {
    return new Publication<>(
        calls,
        bound ->
            new Publication.Source<Integer>() {
              @Override
              public Integer next(Bound b) {
                return given.get() == end ? null : Integer.valueOf(given.incrementAndGet());
              }

              @Override
              public void close() {
                closed.complete(null);
              }
            });
  }

  /** Keeps what it is given. */
  private static final class Kept implements Flow.Subscriber<Integer> {
    final List<Integer> items = new ArrayList<>();
    final CompletableFuture<Flow.Subscription> subscription = new CompletableFuture<>();
    final CompletableFuture<List<Integer>> end = new CompletableFuture<>();
    final CompletableFuture<Void> two = new CompletableFuture<>();

    @Override
    public void onSubscribe(Flow.Subscription s) {
      subscription.complete(s);
    }

    @Override
    public void onNext(Integer item) {
      items.add(item);
      if (items.size() == 2) {
        two.complete(null);
      }
    }

    @Override
    public void onError(Throwable error) {
      end.completeExceptionally(error);
    }

    @Override
    public void onComplete() {
      end.complete(items);
    }
  }

  @Test
  void noMoreIsPublishedThanIsAskedFor() throws Exception {
    Kept kept = new Kept();
    numbers(5).subscribe(kept);
    kept.subscription.get().request(2);
    kept.two.get(50, TimeUnit.SECONDS);
    assertEquals(2, given.get());
    kept.subscription.get().request(Long.MAX_VALUE);
    assertEquals(List.of(1, 2, 3, 4, 5), kept.end.get(50, TimeUnit.SECONDS));
    closed.get(50, TimeUnit.SECONDS);
    threads.close();
  }

  @Test
  void aSubscriberThatCancelsIsLeft() throws Exception {
    Kept kept = new Kept();
    numbers(5).subscribe(kept);
    kept.subscription.get().request(2);
    kept.two.get(50, TimeUnit.SECONDS);
    kept.subscription.get().cancel();
    closed.get(50, TimeUnit.SECONDS);
    assertTrue(!kept.end.isDone());
    threads.close();
  }

  @Test
  void askingForLessThanOneItemIsAnError() throws Exception {
    Kept kept = new Kept();
    numbers(5).subscribe(kept);
    kept.subscription.get().request(0);
    closed.get(50, TimeUnit.SECONDS);
    assertTrue(kept.end.isCompletedExceptionally());
    threads.close();
  }
}
