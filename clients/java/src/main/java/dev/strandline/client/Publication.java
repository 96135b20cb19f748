package dev.strandline.client;

import java.util.concurrent.Flow;
import java.util.function.Function;

/** Publishes what a source gives, for each subscriber from a thread and a source of its own. */
final class Publication<T> implements Flow.Publisher<T> {
  private final Calls calls;
  private final Function<Bound, Source<T>> open;

  /** Where items come from. Its methods wait. */
  interface Source<T> {
    /** The next item; null: there are no more. */
    T next(Bound bound);

    void close();
  }

  Publication(Calls calls, Function<Bound, Source<T>> open) {
    this.calls = calls;
    this.open = open;
  }

  @Override
  public void subscribe(Flow.Subscriber<? super T> subscriber) {
    Feed feed = new Feed(subscriber);
    subscriber.onSubscribe(feed);
    try {
      calls.threads.start(feed::run);
    } catch (StrandlineException e) {
      subscriber.onError(e);
    }
  }

  private final class Feed implements Flow.Subscription {
    private final Flow.Subscriber<? super T> subscriber;
    private final Bound bound = new Bound(calls.life, null);
    private final Signal asked = new Signal();
    private volatile boolean cancelled;
    private volatile boolean wrong; // the subscriber has asked for less than one item
    private long demand; // guarded by this

    Feed(Flow.Subscriber<? super T> subscriber) {
      this.subscriber = subscriber;
    }

    @Override
    public void request(long n) {
      synchronized (this) {
        wrong |= n <= 0;
        demand = demand + n < 0 ? Long.MAX_VALUE : demand + n;
      }
      asked.fire();
    }

    @Override
    public void cancel() {
      cancelled = true;
      bound.end();
    }

    private synchronized boolean wanted() {
      return demand > 0 || wrong;
    }

    void run() {
      Source<T> source = null;
      try {
        source = open.apply(bound);
        while (bound.await(asked, this::wanted) && !wrong && !cancelled) {
          T item = source.next(bound);
          if (cancelled) {
            return;
          }
          if (item == null) {
            subscriber.onComplete();
            return;
          }
          synchronized (this) {
            demand--;
          }
          subscriber.onNext(item);
        }
        if (!cancelled) {
          subscriber.onError(
              wrong
                  ? new IllegalArgumentException("a subscriber must request at least one item")
                  : StrandlineException.closed("client"));
        }
      } catch (RuntimeException e) {
        if (!cancelled) {
          subscriber.onError(e);
        }
      } finally {
        if (source != null) {
          source.close();
        }
      }
    }
  }
}
