package dev.strandline.client;

import io.grpc.netty.shaded.io.netty.channel.EventLoop;
import io.grpc.netty.shaded.io.netty.channel.nio.NioEventLoopGroup;
import io.grpc.netty.shaded.io.netty.util.concurrent.FastThreadLocalThread;
import java.util.Map;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Future;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/**
 * The threads of a client. One does all that has to do with connections: it sends, receives,
 * completes the futures of records and keeps time, and never waits. What waits has a thread for as
 * long as it does: each producer, each subscriber, and so many calls of Admin at once; others wait
 * for their turn.
 */
final class Threads {
  private static final long IDLE_SECONDS = 1;

  final NioEventLoopGroup group = new NioEventLoopGroup(1, (ThreadFactory) Loop::new);
  final EventLoop loop = group.next();
  private final ThreadPoolExecutor pool =
      new ThreadPoolExecutor(
          0,
          Integer.MAX_VALUE,
          IDLE_SECONDS,
          TimeUnit.SECONDS,
          new SynchronousQueue<>(),
          Work::new);

  /** Calls of Admin at once. */
  static final int CALLS = 64;

  /** Calls of Admin that wait for their turn; with one more it is refused. */
  static final int WAITING = 10_000;

  private final ThreadPoolExecutor calls =
      new ThreadPoolExecutor(
          CALLS,
          CALLS,
          IDLE_SECONDS,
          TimeUnit.SECONDS,
          new ArrayBlockingQueue<>(WAITING),
          Work::new);

  Threads() {
    calls.allowCoreThreadTimeOut(true);
  }

  private static final class Loop extends FastThreadLocalThread {
    Loop(Runnable work) {
      super(work, "strandline-loop");
      setDaemon(true);
    }
  }

  private static final class Work extends Thread {
    Work(Runnable work) {
      super(work, "strandline-work");
      setDaemon(true);
    }
  }

  /** Whether this thread is one of those that may not wait. */
  static boolean inLoop() {
    return Thread.currentThread() instanceof Loop;
  }

  /** Fails where waiting would be for ever: what is waited for is done by this thread. */
  static void mayWait() {
    if (inLoop()) {
      throw new IllegalStateException(
          "this waits, and so may not be called where a future of the client is completed: use the"
              + " Async methods of CompletableFuture, such as thenAcceptAsync");
    }
  }

  /** Has the thread of the client do something; false: it has ended with the client. */
  boolean onLoop(Runnable work) {
    try {
      loop.execute(work);
      return true;
    } catch (RejectedExecutionException e) {
      return false;
    }
  }

  /** Has the thread of the client do something in so many nanoseconds, unless it is cancelled. */
  Future<?> later(Runnable work, long nanos) {
    try {
      return loop.schedule(work, nanos, TimeUnit.NANOSECONDS);
    } catch (RejectedExecutionException e) {
      return CompletableFuture.completedFuture(null);
    }
  }

  /** Has the thread of the client do something again and again, until it is cancelled. */
  Future<?> every(long nanos, Runnable work) {
    try {
      return loop.scheduleWithFixedDelay(work, nanos, nanos, TimeUnit.NANOSECONDS);
    } catch (RejectedExecutionException e) {
      return CompletableFuture.completedFuture(null);
    }
  }

  /** Has a thread of the pool do something. */
  void start(Runnable work) {
    try {
      pool.execute(work);
    } catch (RejectedExecutionException e) {
      throw StrandlineException.closed("client");
    }
  }

  /** Has a thread make a call of Admin when it is its turn. */
  void call(Runnable work) {
    try {
      calls.execute(work);
    } catch (RejectedExecutionException e) {
      throw calls.isShutdown()
          ? StrandlineException.closed("client")
          : StrandlineException.again(
              Reason.BUSY,
              WAITING + " calls of the client wait already",
              Outcome.NOT_DONE,
              Map.of());
    }
  }

  /** Ends all threads once they are done, and waits for that unless it is one of them. */
  void close() {
    calls.shutdown();
    pool.shutdown();
    group.shutdownGracefully(0, 1, TimeUnit.SECONDS);
    if (inLoop() || Thread.currentThread() instanceof Work) {
      return;
    }
    try {
      calls.awaitTermination(5, TimeUnit.SECONDS);
      pool.awaitTermination(5, TimeUnit.SECONDS);
      group.awaitTermination(5, TimeUnit.SECONDS);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }
}
