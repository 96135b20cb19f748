package dev.strandline.testing;

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.extension.AfterAllCallback;
import org.junit.jupiter.api.extension.BeforeAllCallback;
import org.junit.jupiter.api.extension.ExtensionContext;

/**
 * A cluster of one node on free ports of this machine, in a process of its own, for the tests of a
 * class:
 *
 * <pre>{@code
 * @RegisterExtension static final StrandlineExtension server = new StrandlineExtension();
 * }</pre>
 *
 * Its data are in a temporary folder, and are removed at the end. Its program is that of the
 * variable {@code STRANDLINE}, or else {@code strandline} in {@code PATH}. Other variables {@code
 * STRANDLINE_*} do not apply to it.
 */
public final class StrandlineExtension implements BeforeAllCallback, AfterAllCallback {
  private static final long STARTS_WITHIN_SECONDS = 30;
  private static final long STOPS_WITHIN_SECONDS = 10;

  private final Map<String, String> environment;
  private final List<String> flags;
  private Path folder;
  private Process process;
  private String address;
  private String http;

  /**
   * Has a server, once the tests of the class begin.
   *
   * @param flags more flags of {@code strandline serve}
   */
  public StrandlineExtension(String... flags) {
    this(System.getenv(), flags);
  }

  StrandlineExtension(Map<String, String> environment, String... flags) {
    this.environment = environment;
    this.flags = List.of(flags);
  }

  /**
   * Where clients connect to.
   *
   * @return HOST:PORT
   */
  public String address() {
    return address;
  }

  /**
   * Where JSON over HTTP, metrics and health are.
   *
   * @return HOST:PORT
   */
  public String http() {
    return http;
  }

  /**
   * Starts the server and waits until it serves.
   *
   * @throws IOException if there is no program
   * @throws IllegalStateException with what the server has written, if it does not start
   */
  @Override
  public void beforeAll(ExtensionContext context) throws IOException, InterruptedException {
    start();
  }

  /** Ends the server and removes its data. */
  @Override
  public void afterAll(ExtensionContext context) throws IOException, InterruptedException {
    stop();
  }

  void start() throws IOException, InterruptedException {
    folder = Files.createTempDirectory("strandline-test-");
    try {
      File said = folder.resolve("stderr").toFile();
      process = launch(said);
      CompletableFuture<Void> overdue =
          CompletableFuture.runAsync(
              process::destroyForcibly,
              CompletableFuture.delayedExecutor(STARTS_WITHIN_SECONDS, TimeUnit.SECONDS));
      String line = firstLine(process.getInputStream());
      overdue.cancel(false);
      if (line == null) {
        String text = Files.readString(said.toPath());
        throw new IllegalStateException(
            "the server did not start: " + text.substring(Math.max(0, text.length() - 4000)));
      }
      address = member(line, "grpc");
      http = member(line, "http");
    } catch (IOException | RuntimeException e) {
      stop();
      throw e;
    }
  }

  void stop() throws IOException, InterruptedException {
    if (process != null) {
      process.destroy();
      if (!process.waitFor(STOPS_WITHIN_SECONDS, TimeUnit.SECONDS)) {
        process.destroyForcibly().waitFor();
      }
    }
    if (Files.exists(folder)) {
      try (Stream<Path> files = Files.walk(folder)) {
        files.sorted(Comparator.reverseOrder()).forEach(StrandlineExtension::delete);
      }
    }
  }

  private Process launch(File stderr) throws IOException {
    String program = environment.getOrDefault("STRANDLINE", "");
    List<String> command = new ArrayList<>();
    command.addAll(List.of(program.isEmpty() ? "strandline" : program, "serve", "--json"));
    command.addAll(List.of("--data", folder.resolve("data").toString()));
    command.addAll(List.of("--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--kafka", "none"));
    command.addAll(flags);
    ProcessBuilder builder = new ProcessBuilder(command).redirectError(stderr);
    builder.environment().keySet().removeIf(name -> name.startsWith("STRANDLINE"));
    try {
      return builder.start();
    } catch (IOException e) {
      throw new IOException(
          "there is no server to start: set STRANDLINE to the path of the program strandline, or"
              + " have strandline in PATH",
          e);
    }
  }

  private static String firstLine(InputStream output) throws IOException {
    BufferedReader reader =
        new BufferedReader(new InputStreamReader(output, StandardCharsets.UTF_8));
    return reader.readLine();
  }

  /** The value of a member of a JSON object, a text without escapes. */
  private static String member(String object, String name) {
    Matcher found = Pattern.compile("\"" + name + "\":\"([^\"\\\\]*)\"").matcher(object);
    if (!found.find()) {
      throw new IllegalStateException("the output of the server lacks " + name + ": " + object);
    }
    return found.group(1);
  }

  private static void delete(Path path) {
    try {
      Files.delete(path);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
