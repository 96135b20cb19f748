package dev.strandline.client;

import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.function.Function;

/**
 * The ends of logs that are being asked for. Who comes while a call is under way is answered by the
 * next one, with all others who came: what was acknowledged before lies below.
 */
final class Ends {
  private final Function<String, CompletableFuture<Long>> ask;

  /** By log: who came while a call is under way; null: nobody has. */
  private final Map<String, CompletableFuture<Long>> next = new HashMap<>();

  Ends(Function<String, CompletableFuture<Long>> ask) {
    this.ask = ask;
  }

  /** The answer to a call that begins from now on. */
  CompletableFuture<Long> end(String log) {
    CompletableFuture<Long> answer;
    synchronized (this) {
      answer = next.get(log);
      if (answer != null) {
        return answer.copy();
      }
      answer = new CompletableFuture<>();
      if (next.containsKey(log)) {
        next.put(log, answer);
        return answer.copy();
      }
      next.put(log, null);
    }
    CompletableFuture<Long> own = answer.copy();
    run(log, answer);
    return own;
  }

  /** Asks, and then for those who have come meanwhile, until nobody has. */
  private void run(String log, CompletableFuture<Long> answer) {
    ask.apply(log)
        .whenComplete(
            (end, error) -> {
              CompletableFuture<Long> others;
              synchronized (this) {
                others = next.remove(log);
                if (others != null) {
                  next.put(log, null);
                }
              }
              if (error == null) {
                answer.complete(end);
              } else {
                answer.completeExceptionally(StrandlineException.of(error));
              }
              if (others != null) {
                run(log, others);
              }
            });
  }
}
