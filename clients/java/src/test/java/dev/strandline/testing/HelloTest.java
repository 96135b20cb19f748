package dev.strandline.testing;

import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.strandline.client.Client;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

class HelloTest {
  @RegisterExtension static final StrandlineExtension server = new StrandlineExtension();

  @Test
  void aRecordThatWasAppendedIsRead() {
    try (Client client = new Client(server.address())) {
      client.admin().createLog("orders").join();
      long offset = client.producer("orders").append("first").join();
      assertEquals("first", client.read("orders", o -> o.offset(offset)).read().text());
    }
  }
}
