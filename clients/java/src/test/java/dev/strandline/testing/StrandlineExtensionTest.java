package dev.strandline.testing;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The server for tests, where it does not start or ends twice. HelloTest is its use. */
class StrandlineExtensionTest {
  @TempDir Path directory;

  private StrandlineExtension running(String script, String... flags) throws IOException {
    Path program = Files.writeString(directory.resolve("strandline"), "#!/bin/sh\n" + script);
    assertTrue(program.toFile().setExecutable(true));
    return new StrandlineExtension(Map.of("STRANDLINE", program.toString()), flags);
  }

  @Test
  void aServerThatDoesNotStartSaysWhyAndLeavesNothing() throws IOException {
    StrandlineExtension server = running("dirname \"$4\" >&2; echo no room >&2; exit 1");
    String said = assertThrows(IllegalStateException.class, server::start).getMessage();
    assertTrue(said.contains("no room"), said);
    String folder = said.substring(said.indexOf('/')).lines().findFirst().orElseThrow();
    assertFalse(Files.exists(Path.of(folder)), folder);
  }

  @Test
  void aMachineWithoutAProgramSaysHowToHaveOne() {
    StrandlineExtension server =
        new StrandlineExtension(Map.of("STRANDLINE", directory.resolve("none").toString()));
    String said = assertThrows(IOException.class, server::start).getMessage();
    assertTrue(said.contains("set STRANDLINE"), said);
  }

  @Test
  void flagsReachTheServerAndItsDataAreRemoved() throws Exception {
    StrandlineExtension server =
        running(
            "echo \"{\\\"grpc\\\":\\\"$4\\\",\\\"http\\\":\\\"$*\\\"}\"; exec sleep 60",
            "--memory",
            "64MiB");
    server.start();
    Path folder = Path.of(server.address()).getParent();
    assertTrue(Files.exists(folder));
    assertEquals("--memory 64MiB", server.http().substring(server.http().indexOf("--memory")));
    server.stop();
    server.stop();
    assertFalse(Files.exists(folder));
  }
}
