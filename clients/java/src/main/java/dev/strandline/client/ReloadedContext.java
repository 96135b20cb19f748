package dev.strandline.client;

import io.grpc.netty.shaded.io.netty.buffer.ByteBufAllocator;
import io.grpc.netty.shaded.io.netty.handler.ssl.ApplicationProtocolNegotiator;
import io.grpc.netty.shaded.io.netty.handler.ssl.SslContext;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Objects;
import java.util.stream.Stream;
import javax.net.ssl.SSLEngine;
import javax.net.ssl.SSLSessionContext;

/**
 * Encrypts each connection to one node with what the files of a {@link Tls} hold when it is made.
 * Files that cannot be used then are passed over for those read before.
 */
final class ReloadedContext extends SslContext {
  private final Tls tls;
  private String seen = ""; // of the files in newest
  private String tried; // of the files when a handshake began last
  private SslContext newest;

  /** Uses first until a file is found that is there and can be used. */
  ReloadedContext(Tls tls, SslContext first) {
    this.tls = tls;
    newest = first;
    tried = stamp();
  }

  /** Whether a file has been replaced since a handshake began. */
  synchronized boolean replaced() {
    return !stamp().equals(tried);
  }

  private synchronized SslContext trying() {
    tried = stamp();
    return newest();
  }

  /** Differs when a file has been replaced. */
  private String stamp() {
    StringBuilder all = new StringBuilder();
    List<Path> files =
        Stream.of(tls.authorities(), tls.certificate(), tls.key())
            .filter(Objects::nonNull)
            .toList();
    for (Path file : files) {
      try {
        all.append(Files.getLastModifiedTime(file)).append(' ').append(Files.size(file));
        all.append(' ').append(Files.readAttributes(file, "*").get("fileKey")).append('\n');
      } catch (IOException e) {
        all.append("none\n");
      }
    }
    return all.toString();
  }

  private synchronized SslContext newest() {
    String now = stamp();
    if (!now.equals(seen)) {
      try {
        newest = tls.context();
        seen = now;
      } catch (StrandlineException e) {
        // They may be under way: the next connection looks again.
      }
    }
    return newest;
  }

  @Override
  public boolean isClient() {
    return true;
  }

  @Override
  public List<String> cipherSuites() {
    return newest().cipherSuites();
  }

  @Override
  public ApplicationProtocolNegotiator applicationProtocolNegotiator() {
    return newest().applicationProtocolNegotiator();
  }

  @Override
  public SSLEngine newEngine(ByteBufAllocator allocator) {
    return trying().newEngine(allocator);
  }

  @Override
  public SSLEngine newEngine(ByteBufAllocator allocator, String host, int port) {
    return trying().newEngine(allocator, host, port);
  }

  @Override
  public SSLSessionContext sessionContext() {
    return newest().sessionContext();
  }
}
