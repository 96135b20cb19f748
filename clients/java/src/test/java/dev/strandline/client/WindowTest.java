package dev.strandline.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(60)
class WindowTest {
  private static Request request(long size, long first) {
    Request r = new Request();
    r.size = size;
    r.first = first;
    return r;
  }

  @Test
  void theWindowHasRoomForFewSmallRequestsAndForManyLargeOnes() {
    Window window = new Window(0, 0);
    for (int n = 0; n < 4; n++) {
      assertTrue(window.admits(100));
      window.push(request(100, n));
    }
    assertFalse(window.admits(100));
    assertTrue(window.admits(64 << 10));
    assertFalse(window.admits(16 << 20));
  }

  @Test
  void whatHasFailedIsNotSentAgainAndItsAnswersAreWaitedFor() {
    Window window = new Window(3, 0);
    for (int n = 0; n < 3; n++) {
      window.push(request(1, n));
    }
    window.send();
    Request sent = window.send();
    assertEquals(3, window.fail().size());
    assertEquals(2, window.onStream().size());
    assertEquals(Request.State.FAILED, sent.state);
    window.push(request(1, 7));
    assertEquals(7, window.lowWater());
    window.reset();
    assertEquals(1, window.waiting().size());
    assertEquals(7, window.send().first);
    assertNull(window.send());
  }

  @Test
  void anAppendWaitsForRoomAndIsAcceptedInItsTurn() throws Exception {
    ProducerOptions options = new ProducerOptions().bufferBytes(100);
    Backlog backlog = new Backlog(options);
    Bound bound = new Bound(null, null);
    backlog.add(new NewRecord(new byte[60]).toWire(), new CompletableFuture<>(), bound);
    StrandlineException late =
        StrandlineException.of(
            org.junit.jupiter.api.Assertions.assertThrows(
                StrandlineException.class,
                () ->
                    backlog.add(
                        new NewRecord("late").toWire(),
                        new CompletableFuture<>(),
                        new Bound(null, Duration.ofMillis(20)))));
    assertEquals(Reason.CANCELLED, late.reason());
    assertEquals(Outcome.NOT_DONE, late.outcome());
    CompletableFuture<Backlog.Place> waiting =
        CompletableFuture.supplyAsync(
            () -> backlog.add(new NewRecord("b").toWire(), new CompletableFuture<>(), bound));
    backlog.closeBatch();
    backlog.leave();
    Backlog.Place place = waiting.get(50, TimeUnit.SECONDS);
    assertEquals(
        List.of("b"),
        place.request().records.stream().map(r -> r.getValue().toStringUtf8()).toList());
    assertEquals(1, backlog.position(null).next() - backlog.next);
  }

  @Test
  void aFlushDoesNotWaitForTheAnswersOfWhatHasFailed() {
    Backlog backlog = new Backlog(new ProducerOptions());
    List<CompletableFuture<Long>> appended = new ArrayList<>();
    for (int n = 0; n < 3; n++) {
      appended.add(new CompletableFuture<>());
      backlog.add(new NewRecord("a").toWire(), appended.get(n), new Bound(null, null));
      backlog.closeBatch();
      backlog.window.send();
    }
    StrandlineException refused = StrandlineException.invalid("no");
    backlog.fail(new Interruption(refused, backlog.window.oldest()));
    backlog.leave();
    CompletableFuture<Void> first = backlog.flush();
    CompletableFuture<Void> second = first.thenCompose(done -> backlog.flush());
    assertFalse(first.isDone());
    backlog.deliver();
    assertTrue(appended.stream().allMatch(CompletableFuture::isCompletedExceptionally));
    assertEquals(2, backlog.window.onStream().size());
    assertTrue(first.isDone());
    assertTrue(second.isDone());
  }

  @Test
  void anAppendThatDoesNotWaitIsRefusedWhereThereIsNoRoom() {
    ProducerOptions options = new ProducerOptions();
    options.bufferBytes(100);
    Backlog backlog = new Backlog(options);
    Bound never = null;
    backlog.add(new NewRecord("a".repeat(80)).toWire(), new CompletableFuture<>(), never);
    StrandlineException full =
        assertThrows(
            StrandlineException.class,
            () -> backlog.add(new NewRecord("b").toWire(), new CompletableFuture<>(), never));
    assertEquals(Reason.BUSY, full.reason());
    assertEquals(Outcome.NOT_DONE, full.outcome());
  }

  /**
   * The queries of a thousand clients that all wait would otherwise take the processors that nodes
   * need to find each other.
   */
  @Test
  void pausesGrowWithTheTimeWaitedToABound() {
    Pauses pauses = new Pauses();
    int asked = 0;
    for (long waited = 0; waited < 60_000_000_000L; ) {
      long pause = pauses.draw(5 + waited);
      long longest = Math.min(Math.max(100_000_000, waited / 10), 1_000_000_000);
      assertTrue(pause > 0 && pause <= longest);
      waited += pause;
      if (++asked == 12) {
        assertTrue(waited < 1_200_000_000, "at first it asks often");
      }
    }
    assertTrue(asked < 150);
  }

  @Test
  void nothingIsPutOnAStreamThatIsHeld() {
    Window window = new Window(0, 0);
    window.hold();
    assertFalse(window.admits(1));
    window.reset();
    assertTrue(window.admits(1));
  }
}
