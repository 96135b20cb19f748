package dev.strandline.testing;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.strandline.client.Client;
import dev.strandline.client.Reason;
import dev.strandline.client.StrandlineException;
import dev.strandline.client.WriterClaim;
import dev.strandline.client.WriterLease;
import java.time.Duration;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** The end of a block with a writer lease. Everything else is in the scenarios. */
class WriterLeaseTest {
  @RegisterExtension static final StrandlineExtension server = new StrandlineExtension();

  @Test
  void theEndOfABlockReleasesALeaseAndOneThatHasEndedIsLeft() {
    try (Client client = new Client(server.address())) {
      client.admin().createLog("leased").join();
      WriterClaim claim = new WriterClaim("first", Duration.ofHours(1)).withPayload("10.0.0.1:80");
      try (WriterLease lease = client.leaseWriter("leased", claim)) {
        assertEquals(1, lease.term());
        assertEquals(0, lease.end());
        assertFalse(lease.done().isDone());
        assertTrue(lease.left().toMinutes() > 50);
        WriterClaim second = new WriterClaim("second", Duration.ofHours(1));
        var vain = client.admin().leaseWriter("leased", second, Duration.ZERO).join();
        assertEquals(0, vain.term());
        assertEquals(Optional.of(claim), vain.state().holder());
      }
      WriterClaim second = new WriterClaim("second", Duration.ofHours(1));
      try (WriterLease lease = client.leaseWriter("leased", second)) {
        assertEquals(2, lease.term());
        client.admin().acquireWriter("leased").join();
        StrandlineException refused =
            assertThrows(StrandlineException.class, () -> lease.handOver("third"));
        assertEquals(Reason.FENCED, refused.reason());
        assertEquals(Reason.FENCED, lease.done().join().orElseThrow().reason());
      }
    }
  }
}
