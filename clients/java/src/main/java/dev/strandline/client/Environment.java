package dev.strandline.client;

import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.stream.Stream;

/** How to connect, by the variables of the environment that the command line takes too. */
final class Environment {
  private static final String DEFAULT = "127.0.0.1:7171";
  private static final List<String> YES = List.of("1", "t", "true", "yes");
  private static final List<String> NO = List.of("", "0", "f", "false", "no");

  private final Map<String, String> variables;

  Environment(Map<String, String> variables) {
    this.variables = variables;
  }

  private String value(String name) {
    return variables.getOrDefault("STRANDLINE_" + name, "");
  }

  private Path path(String name) {
    String path = value(name);
    return path.isEmpty() ? null : Path.of(path);
  }

  List<String> addresses() {
    String all = value("SERVER");
    return Stream.of((all.isEmpty() ? DEFAULT : all).split(",")).map(String::trim).toList();
  }

  void configure(ClientOptions options) {
    String insecure = value("INSECURE").toLowerCase(Locale.ROOT);
    if (YES.contains(insecure)) {
      options.insecure();
    } else if (!NO.contains(insecure)) {
      throw StrandlineException.invalid(
          "STRANDLINE_INSECURE is \"" + insecure + "\", and has to be true or false");
    }
    Tls tls = new Tls(path("TLS_CA"), path("TLS_CERT"), path("TLS_KEY"));
    if (!tls.equals(new Tls(null))) {
      options.tls(tls);
    }
    Path file = path("TOKEN_FILE");
    if (file != null) {
      options.tokenFile(file);
    } else if (!value("TOKEN").isEmpty()) {
      options.token(value("TOKEN").trim());
    }
  }
}
