package dev.strandline.client;

import io.grpc.netty.shaded.io.grpc.netty.GrpcSslContexts;
import io.grpc.netty.shaded.io.netty.handler.ssl.SslContext;
import io.grpc.netty.shaded.io.netty.handler.ssl.SslContextBuilder;
import java.nio.file.Path;
import javax.net.ssl.SSLException;

/**
 * Encrypts every connection. The files are PEM; when they change they are read again for the next
 * connections, and passed over while they cannot be used.
 *
 * @param authorities by whose certificates nodes are believed; null: those of Java
 * @param certificate with key: shows who the client is; null: it does not
 * @param key of the certificate
 */
public record Tls(Path authorities, Path certificate, Path key) {
  /** Believes the nodes of an authority, and does not show who the client is. */
  public Tls(Path authorities) {
    this(authorities, null, null);
  }

  SslContext context() {
    if ((certificate == null) != (key == null)) {
      throw StrandlineException.invalid("a certificate needs its key: both files are needed");
    }
    SslContextBuilder builder = GrpcSslContexts.forClient();
    try {
      if (authorities != null) {
        builder.trustManager(authorities.toFile());
      }
      if (certificate != null) {
        builder.keyManager(certificate.toFile(), key.toFile());
      }
      return builder.build();
    } catch (SSLException | IllegalArgumentException e) { // the latter: not PEM, or no file
      throw StrandlineException.invalid("certificates: " + e.getMessage());
    }
  }
}
