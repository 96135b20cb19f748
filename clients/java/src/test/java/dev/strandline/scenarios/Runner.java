package dev.strandline.scenarios;

import static java.nio.charset.StandardCharsets.UTF_8;

import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import dev.strandline.client.Admin;
import dev.strandline.client.Check;
import dev.strandline.client.Client;
import dev.strandline.client.ClientOptions;
import dev.strandline.client.Digest;
import dev.strandline.client.Extent;
import dev.strandline.client.Hold;
import dev.strandline.client.KeptHold;
import dev.strandline.client.LogConfig;
import dev.strandline.client.LogInfo;
import dev.strandline.client.LogRecord;
import dev.strandline.client.NewRecord;
import dev.strandline.client.Outcome;
import dev.strandline.client.PlacementRule;
import dev.strandline.client.Position;
import dev.strandline.client.Producer;
import dev.strandline.client.Projection;
import dev.strandline.client.Reader;
import dev.strandline.client.ReaderOptions;
import dev.strandline.client.Resolution;
import dev.strandline.client.Session;
import dev.strandline.client.Stats;
import dev.strandline.client.StrandlineException;
import dev.strandline.client.Tls;
import dev.strandline.client.WriterClaim;
import dev.strandline.client.WriterGrant;
import dev.strandline.client.WriterLease;
import dev.strandline.client.WriterState;
import dev.strandline.client.WriterTerm;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.math.BigInteger;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Flow;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.BiConsumer;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.stream.Collectors;
import java.util.stream.LongStream;
import java.util.stream.Stream;

/**
 * Drives the Java client as the scenarios say: one JSON object in each line, as the page
 * clients/scenarios/README.md describes.
 */
public final class Runner {
  private static final Gson GSON = new GsonBuilder().serializeNulls().create();

  private final Map<String, Client> clients = new ConcurrentHashMap<>();
  private final Map<String, Producer> producers = new ConcurrentHashMap<>();
  private final Map<String, Reading> readers = new ConcurrentHashMap<>();
  private final Map<String, KeptHold> holds = new ConcurrentHashMap<>(); // by log
  private final Map<String, WriterLease> leases = new ConcurrentHashMap<>(); // by log and name
  private final Map<String, WriterWatch> watches = new ConcurrentHashMap<>(); // by log
  private final AtomicInteger numbered = new AtomicInteger(); // tokens
  private final Map<String, String> tokens = new ConcurrentHashMap<>(); // that functions give
  private final Map<String, List<Optional<StrandlineException>>> troubles =
      new ConcurrentHashMap<>();
  private final ExecutorService threads = Executors.newCachedThreadPool();
  private final PrintStream out = new PrintStream(System.out, false, UTF_8);

  private Runner() {}

  /** Carries out the commands of standard input, and ends with it. */
  public static void main(String[] arguments) throws Exception {
    Runner runner = new Runner();
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, UTF_8));
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      runner.begin(new Command(GSON.fromJson(line, JsonObject.class)));
    }
    runner.threads.shutdown();
  }

  /** Begins a command. Records are accepted in the order of the commands. */
  private void begin(Command c) {
    Callable<Object> work = c.is("append") ? append(c) : () -> carryOut(c);
    threads.execute(
        () -> {
          JsonObject answer = new JsonObject();
          answer.add("id", c.json.get("id"));
          try {
            answer.add("value", GSON.toJsonTree(work.call()));
          } catch (Throwable e) {
            answer.add("error", GSON.toJsonTree(failed(e)));
          }
          synchronized (out) {
            out.println(GSON.toJson(answer));
            out.flush();
          }
        });
  }

  /** What is said of an error. */
  private static Map<String, Object> failed(Throwable thrown) {
    StrandlineException e = StrandlineException.of(thrown);
    Map<String, Object> said = new LinkedHashMap<>();
    said.put("reason", e.reasonName());
    said.put("message", e.getMessage());
    if (e.getCause() != null && !(e.getCause() instanceof StrandlineException)) {
      said.put("reason", "NOT_AN_ERROR_OF_THE_CLIENT");
      thrown.printStackTrace();
    }
    Position p = e.position().orElse(new Position(e.logId(), 0, e.epoch(), 0));
    said.put("retryable", e.retryable());
    said.put("outcome", word(e.outcome()));
    said.put("start", e.startOffset());
    said.put("end", e.endOffset());
    said.put("epoch", p.epoch());
    said.put("session", unsigned(p.session()));
    said.put("sequence", p.next());
    said.put("log_id", p.logId());
    said.put("writer_term", e.writerTerm());
    said.put("leader", e.leader());
    said.put("offset", e.offset());
    said.put("key", e.key().map(key -> new String(key, UTF_8)).orElse(null));
    said.put("line", e.line());
    said.put("column", e.column());
    said.put("hold", e.hold().map(Runner::holding).orElse(null));
    return said;
  }

  private static String word(Outcome outcome) {
    return outcome.name().toLowerCase(Locale.ROOT);
  }

  private static Map<String, Object> holding(Hold h) {
    return Map.of(
        "name", h.name(),
        "offset", h.offset(),
        "owner", h.owner(),
        "lease_ms", h.lease().map(Duration::toMillis).orElse(0L),
        "max_bytes", h.maxBytes(),
        "max_age_ms", h.maxAge().map(Duration::toMillis).orElse(0L),
        "pointer", new String(h.pointer(), UTF_8),
        "pointer_hex", HexFormat.of().formatHex(h.pointer()),
        "principal", h.principal());
  }

  private static Map<String, Object> shown(Position p) {
    return Map.of(
        "log_id",
        p.logId(),
        "session",
        unsigned(p.session()),
        "epoch",
        p.epoch(),
        "next",
        p.next());
  }

  private static Map<String, Object> described(LogInfo i) {
    Map<String, Object> holds = new LinkedHashMap<>();
    i.holds().forEach(h -> holds.put(h.name(), holding(h)));
    Map<String, Object> said = new LinkedHashMap<>();
    said.put("name", i.name());
    said.put("id", i.id());
    said.put("start", i.start());
    said.put("end", i.end());
    said.put("writer_term", i.writerTerm());
    said.put("leader", i.leader());
    said.put("sessions", i.openSessions());
    said.put("replicas", i.replicas().size());
    said.put("retention_ms", i.config().retention().map(Duration::toMillis).orElse(0L));
    said.put("retention_bytes", i.config().retentionBytes());
    said.put("fenced", i.config().fenced());
    said.put("revision", i.config().revision());
    said.put("rule", i.config().rule().map(Runner::shown).orElse(null));
    said.put("holds", holds);
    return said;
  }

  private Object carryOut(Command c) throws Exception {
    if (c.is("leaks")) {
      return leaks();
    }
    if (c.is("dial")) {
      clients.put(c.text("client"), dial(c));
      return null;
    }
    if (c.is("show-token")) {
      tokens.put(c.text("client"), c.text("token"));
      return null;
    }
    if (c.is("await-trouble")) {
      return awaitTrouble(troubles.get(c.text("client")));
    }
    Client client = clients.get(c.text("client"));
    Producer producer = producers.get(c.text("producer", ""));
    Reading reading = readers.get(c.text("reader", ""));
    switch (c.text("do")) {
      case "hang-up" -> client.close();
      case "producer" -> {
        Producer made = client.producer(c.text("log"), o -> configure(c, o));
        producers.put(c.text("producer"), made);
        return shown(made.position());
      }
      case "batch" -> {
        return Map.of("offset", batch(producer, c).get(0));
      }
      case "flush" -> {
        return producer.flush().get();
      }
      case "close" -> producer.close(c.timeout());
      case "position" -> {
        return shown(producer.position());
      }
      case "reader" -> {
        Reading made = new Reading();
        made.reader =
            client.read(
                c.text("log"),
                o -> {
                  configure(c, o);
                  select(c, o, made);
                });
        readers.put(c.text("reader"), made);
        made.reader.open(c.timeout());
      }
      case "read" -> {
        return read(reading, c);
      }
      case "await-progress" -> {
        return reading.await(c.json.get("offset").getAsLong());
      }
      case "close-reader" -> reading.reader.close();
      case "leave-loop" -> {
        try (Reader loop = client.read(c.text("log"), o -> configure(c, o))) {
          for (LogRecord record : loop) {
            return Map.of("value", text(record.value()));
          }
        }
      }
      case "hold" -> {
        KeptHold made = client.hold(c.text("log"), hold(c), c.timeout());
        holds.put(c.text("log"), made);
        return Map.of("offset", made.hold().offset());
      }
      case "move-hold" -> {
        KeptHold kept = holds.get(c.text("log"));
        kept.move(c.json.get("offset").getAsLong(), pointer(c), c.timeout());
        return Map.of("offset", kept.hold().offset());
      }
      case "release-kept" -> holds.get(c.text("log")).release(c.timeout());
      case "close-hold" -> holds.get(c.text("log")).close();
      case "await-hold" -> {
        Optional<StrandlineException> error = holds.get(c.text("log")).done().get();
        return Map.of("reason", error.map(StrandlineException::reasonName).orElse(""));
      }
      case "elect" -> {
        long began = System.nanoTime();
        WriterLease made = client.leaseWriter(c.text("log"), claim(c), c.timeout());
        leases.put(c.text("log") + " " + c.text("name"), made);
        long waited = (System.nanoTime() - began) / 1_000_000;
        return Map.of("writer_term", made.term(), "end", made.end(), "waited_ms", waited);
      }
      case "release-lease" -> lease(c).release(c.timeout());
      case "hand-over" -> lease(c).handOver(c.text("to"), c.timeout());
      case "await-lease" -> {
        Optional<StrandlineException> error = lease(c).done().get();
        return Map.of("reason", error.map(StrandlineException::reasonName).orElse(""));
      }
      case "watch-writer" -> {
        return watches
            .computeIfAbsent(c.text("log"), log -> new WriterWatch(client.admin(), c))
            .await(c);
      }
      case "close-watch" -> watches.remove(c.text("log")).subscription.cancel();
      case "digest" -> {
        return digest(within(client, c), c);
      }
      case "prove" -> {
        return prove(within(client, c), c);
      }
      case "stats" -> {
        return counted(producer.stats());
      }
      case "end" -> {
        AtomicReference<Long> callers = new AtomicReference<>(1L);
        c.number("callers", callers::set);
        List<CompletableFuture<Long>> asked =
            LongStream.range(0, callers.get())
                .mapToObj(n -> client.end(c.text("log", "")))
                .toList();
        return Map.of("end", asked.stream().mapToLong(CompletableFuture::join).min().orElseThrow());
      }
      default -> {
        return administer(within(client, c), c);
      }
    }
    return null;
  }

  private WriterLease lease(Command c) {
    return leases.get(c.text("log") + " " + c.text("name"));
  }

  private static WriterClaim claim(Command c) {
    Duration lease = Duration.ofMillis(c.json.get("lease_ms").getAsLong());
    return new WriterClaim(c.text("name"), lease).withPayload(c.text("payload", ""));
  }

  private static Map<String, Object> shown(WriterState s) {
    Map<String, Object> said = new LinkedHashMap<>();
    said.put("writer_term", s.term());
    said.put("waiting", s.waiting());
    said.put("holder", s.holder().map(WriterClaim::name).orElse(null));
    s.holder().ifPresent(h -> said.put("payload", new String(h.payload(), UTF_8)));
    s.holder().ifPresent(h -> said.put("lease_ms", h.lease().toMillis()));
    s.since().ifPresent(since -> said.put("since_ms", since.toEpochMilli()));
    s.left().ifPresent(left -> said.put("left_ms", left.toMillis()));
    return said;
  }

  /** Who is seen to be the writer of a log. */
  private static final class WriterWatch implements Flow.Subscriber<WriterState> {
    private final BlockingQueue<Optional<WriterState>> states = new LinkedBlockingQueue<>();
    private final List<String> seen = new ArrayList<>(); // holders by term, in order
    private volatile Throwable error; // behind the last state
    private Flow.Subscription subscription;

    WriterWatch(Admin admin, Command c) {
      AtomicReference<Duration> interval = new AtomicReference<>(Duration.ofSeconds(1));
      c.number("interval_ms", n -> interval.set(Duration.ofMillis(n)));
      admin.watchWriter(c.text("log"), interval.get()).subscribe(this);
    }

    @Override
    public void onSubscribe(Flow.Subscription s) {
      subscription = s;
      s.request(Long.MAX_VALUE);
    }

    @Override
    public void onNext(WriterState state) {
      states.add(Optional.of(state));
    }

    @Override
    public void onError(Throwable e) {
      error = e;
      states.add(Optional.empty());
    }

    @Override
    public void onComplete() {
      onError(new IllegalStateException("the watch has ended"));
    }

    /** Continues until the state is as it is to be. */
    Object await(Command c) throws Exception {
      for (; ; ) {
        Optional<WriterState> next = states.take();
        if (next.isEmpty()) {
          throw new ExecutionException(error);
        }
        WriterState state = next.get();
        String now = state.term() + ":" + state.holder().map(WriterClaim::name).orElse("-");
        if (seen.isEmpty() || !seen.get(seen.size() - 1).equals(now)) {
          seen.add(now);
        }
        boolean there =
            (!c.any("until_term") || state.term() >= c.json.get("until_term").getAsLong())
                && (!c.any("until_held") || c.yes("until_held") == state.holder().isPresent())
                && (!c.any("until_waiting")
                    || c.json.get("until_waiting").getAsInt() == state.waiting());
        if (there) {
          Map<String, Object> said = shown(state);
          said.put("seen", List.copyOf(seen));
          return said;
        }
      }
    }
  }

  private static Admin within(Client client, Command c) {
    return c.timeout() == null ? client.admin() : client.admin().within(c.timeout());
  }

  private static Object digest(Admin admin, Command c) throws Exception {
    String log = c.text("log");
    AtomicReference<OptionalLong> at = new AtomicReference<>(OptionalLong.empty());
    c.number("until_offset", n -> at.set(OptionalLong.of(n)));
    Digest d;
    if (c.yes("known")) {
      d = admin.knownDigest(log, at.get()).get();
    } else if (at.get().isPresent()) {
      d = admin.digest(log, at.get().getAsLong()).get();
    } else {
      d = admin.digest(log).get();
    }
    Map<String, Object> said = new LinkedHashMap<>();
    said.put("hash", d.hash());
    said.put("at", d.at());
    said.put("from", d.from());
    said.put("covered", d.covered());
    said.put("batches", d.batches());
    said.put("start", d.start());
    said.put("end", d.end());
    return said;
  }

  private static Object prove(Admin admin, Command c) throws Exception {
    Digest trusted = Digest.trusted(c.text("hash"), c.json.get("until_offset").getAsLong());
    long offset = c.json.get("offset").getAsLong();
    String log = c.text("log");
    LogRecord r =
        c.yes("known")
            ? admin.proveKnown(log, offset, trusted).get()
            : admin.prove(log, offset, trusted).get();
    Map<String, Object> said = new LinkedHashMap<>();
    said.put("offset", r.offset());
    said.put("value", text(r.value()));
    said.put("key", text(r.key()));
    said.put("headers", named(r));
    said.put("time", r.timestamp().toEpochMilli());
    return said;
  }

  private static Object counted(Stats s) {
    Map<String, Object> said = new LinkedHashMap<>();
    said.put("in_flight_requests", s.inFlightRequests());
    said.put("in_flight_records", s.inFlightRecords());
    said.put("in_flight_bytes", s.inFlightBytes());
    said.put("buffered_bytes", s.bufferedBytes());
    said.put("requests", s.requestRecords().count());
    said.put("records", s.requestRecords().sum());
    said.put("bytes", s.requestBytes().sum());
    said.put("failed", s.failed());
    said.put("resent", s.resent());
    said.put("streams", s.streams());
    said.put("request_records", s.requestRecords().quantile(1));
    said.put("request_bytes", s.requestBytes().quantile(1));
    said.put("latency_us", s.latencyMicros().quantile(1));
    return said;
  }

  private Client dial(Command c) {
    String name = c.text("client");
    List<Optional<StrandlineException>> heard = new CopyOnWriteArrayList<>();
    troubles.put(name, heard);
    Consumer<ClientOptions> always =
        o -> {
          c.number("retry_ms", n -> o.retryTime(Duration.ofMillis(n)));
          o.onTrouble((log, error) -> heard.add(error));
        };
    if (c.json.has("environment")) {
      Map<String, String> variables = new LinkedHashMap<>();
      c.json
          .getAsJsonObject("environment")
          .entrySet()
          .forEach(e -> variables.put(e.getKey(), e.getValue().getAsString()));
      return Client.fromEnvironment(variables, always);
    }
    return new Client(
        c.texts("addresses").toList(),
        o -> {
          always.accept(o);
          if (c.json.has("token_function")) {
            tokens.put(name, c.text("token_function"));
            o.token(() -> given(name));
          }
          if (c.json.has("authority")) {
            Path authority = Path.of(c.text("authority"));
            o.tls(new Tls(authority, path(c, "certificate"), path(c, "key")));
          }
          if (c.json.has("token")) {
            o.token(c.text("token"));
          }
        });
  }

  /** The token that the function of a client gives. */
  private String given(String name) {
    String token = tokens.get(name);
    return token.endsWith("#")
        ? token.substring(0, token.length() - 1) + numbered.incrementAndGet()
        : token;
  }

  /** Waits until a client has told of trouble and of its end. */
  private static Object awaitTrouble(List<Optional<StrandlineException>> heard) throws Exception {
    while (heard.isEmpty() || heard.get(heard.size() - 1).isPresent()) {
      Thread.sleep(5);
    }
    StrandlineException first = heard.get(0).orElseThrow();
    return Map.of("reason", first.reasonName(), "retryable", first.retryable());
  }

  private static Path path(Command c, String name) {
    return c.json.has(name) ? Path.of(c.text(name)) : null;
  }

  private static void configure(Command c, dev.strandline.client.ProducerOptions o) {
    c.number("in_flight", n -> o.maxInFlight(n.intValue()));
    c.number("in_flight_bytes", o::maxInFlightBytes);
    c.number("request_bytes", o::maxRequestBytes);
    c.number("buffer_bytes", o::bufferBytes);
    c.number("linger_ms", n -> o.linger(Duration.ofMillis(n)));
    c.number("lease_ms", n -> o.lease(Duration.ofMillis(n)));
    c.number("record_timeout_ms", n -> o.recordTimeout(Duration.ofMillis(n)));
    c.number("writer_term", o::writerTerm);
    c.number("timeout_ms", n -> o.openTimeout(Duration.ofMillis(n)));
    if (c.yes("no_session")) {
      o.withoutSession();
    }
    if (c.yes("end_on_failure")) {
      o.endOnFailure();
    }
    if (c.json.has("resume")) {
      o.resume(c.position("resume"));
    }
  }

  private static void configure(Command c, ReaderOptions o) {
    c.number("offset", o::offset);
    c.number("time_ms", n -> o.time(Instant.ofEpochMilli(n)));
    c.number("log_id", o::logId);
    c.number("max_records", o::maxRecords);
    c.number("max_bytes", o::maxBytes);
    c.number("until_offset", o::untilOffset);
    c.number("until_time_ms", n -> o.untilTime(Instant.ofEpochMilli(n)));
    c.number("at_least", o::atLeast);
    c.number("max_staleness_ms", n -> o.maxStaleness(Duration.ofMillis(n)));
    c.number("heartbeat_ms", n -> o.heartbeat(Duration.ofMillis(n)));
    if (c.yes("tail")) {
      o.tail();
    }
    if (c.yes("follow")) {
      o.follow();
    }
    if (c.yes("any_replica")) {
      o.anyReplica();
    }
    if (c.yes("prefer_follower")) {
      o.preferFollower();
    }
    if (c.json.has("near")) {
      o.nearest(c.texts("near").toArray(String[]::new));
    }
  }

  /** Accepts the records of a command, and returns what waits for them. */
  private Callable<Object> append(Command c) {
    Producer producer = producers.get(c.text("producer"));
    List<CompletableFuture<Map<String, Object>>> results = new ArrayList<>();
    c.texts("values")
        .forEach(
            value -> {
              byte[] bytes = value.getBytes(UTF_8);
              NewRecord record = new NewRecord(bytes);
              CompletableFuture<Long> future =
                  c.timeout() == null
                      ? producer.append(record)
                      : producer.append(record, c.timeout());
              if (c.yes("overwrite")) {
                Arrays.fill(bytes, (byte) 0);
              }
              results.add(
                  future.handle(
                      (offset, error) ->
                          error == null
                              ? Map.of("offset", offset)
                              : Map.of("error", failed(error))));
            });
    return () -> Map.of("records", results.stream().map(CompletableFuture::join).toList());
  }

  private static NewRecord record(Command c, String value) {
    NewRecord made = new NewRecord(value);
    if (c.json.has("key")) {
      made.key(c.text("key"));
    }
    c.headers(made::header);
    c.number("record_time_ms", ms -> made.timestamp(Instant.ofEpochMilli(ms)));
    return made;
  }

  private static void configure(Command c, Check check) {
    c.number("since", check::since);
    c.texts("keys").forEach(check::key);
    c.texts("prefixes").forEach(check::keyPrefix);
    c.headers(check::header);
  }

  private static List<Long> batch(Producer producer, Command c) throws Exception {
    return producer
        .appendBatch(
            c.texts("values").map(value -> record(c, value)).toList(),
            o -> {
              if (c.json.has("check")) {
                o.check(check -> configure(new Command(c.json.getAsJsonObject("check")), check));
              }
              c.number("expected_end", o::expectedEnd);
              if (c.yes("atomic")) {
                o.atomic();
              }
              if (c.timeout() != null) {
                o.timeout(c.timeout());
              }
            })
        .get();
  }

  private static Map<String, Object> read(Reading reading, Command c) {
    Reader reader = reading.reader;
    List<LogRecord> got = new ArrayList<>();
    boolean ended = false;
    Map<String, Object> then = null;
    AtomicReference<Long> count = new AtomicReference<>(0L);
    c.number("count", count::set);
    while (got.size() < count.get() && !ended && then == null) {
      try {
        LogRecord record = c.timeout() == null ? reader.read() : reader.read(c.timeout());
        ended = record == null;
        if (!ended) {
          got.add(record);
        }
      } catch (StrandlineException e) {
        if (got.isEmpty()) {
          throw e;
        }
        then = failed(e);
      }
    }
    Map<String, Object> said = new LinkedHashMap<>();
    said.put("ended", ended);
    said.put("offsets", got.stream().map(LogRecord::offset).toList());
    said.put("values", got.stream().map(r -> text(r.value())).toList());
    said.put("keys", got.stream().map(r -> text(r.key())).toList());
    said.put("headers", got.stream().map(Runner::named).toList());
    said.put("times", got.stream().map(r -> r.timestamp().toEpochMilli()).toList());
    said.put("log_id", reader.logId());
    said.put("next", reader.offset().orElse(-1));
    said.put("end", reader.end());
    said.put("age_ms", reader.age().map(Duration::toMillis).orElse(null));
    said.put("failed", reading.failed);
    if (then != null) {
      said.put("then", then);
    }
    return said;
  }

  private static void select(Command c, ReaderOptions o, Reading reading) {
    o.onProgress(reading::progress);
    if (c.any("keys", "prefixes", "headers", "where")) {
      o.filter(
          f -> {
            c.texts("keys").forEach(f::key);
            c.texts("prefixes").forEach(f::keyPrefix);
            c.headers(f::header);
            if (c.json.has("where")) {
              f.where(c.text("where"));
            }
            if (c.yes("skip_failed")) {
              f.skipFailed((offset, why) -> reading.failed.add(offset));
            }
          });
    }
    if (c.any("drop", "value_bytes", "json_fields")) {
      o.projection(
          p -> {
            c.texts("drop").forEach(part -> drop(p, part));
            c.number("value_bytes", p::valueBytes);
            p.jsonFields(c.texts("json_fields").toArray(String[]::new));
          });
    }
  }

  private static void drop(Projection p, String part) {
    switch (part) {
      case "key" -> p.withoutKey();
      case "value" -> p.withoutValue();
      default -> p.withoutHeaders();
    }
  }

  private static String text(byte[] bytes) {
    return bytes == null ? null : new String(bytes, UTF_8);
  }

  private static String named(LogRecord r) {
    return r.headers().isEmpty()
        ? null
        : r.headers().stream()
            .map(h -> h.key() + "=" + new String(h.value(), UTF_8))
            .collect(Collectors.joining(","));
  }

  /** The id of a session is an unsigned number. */
  private static BigInteger unsigned(long id) {
    return new BigInteger(Long.toUnsignedString(id));
  }

  /** A reader, and what it has reported. */
  private static final class Reading {
    final List<Long> failed = new CopyOnWriteArrayList<>();
    volatile Reader reader;
    private long offset; // of the newest progress; guarded by this, as the rest is
    private long end;

    synchronized void progress(long at, long known) {
      offset = at;
      end = known;
      notifyAll();
    }

    synchronized Map<String, Object> await(long wanted) throws Exception {
      long until = System.currentTimeMillis() + 30_000;
      while (offset < wanted) {
        long left = until - System.currentTimeMillis();
        if (left <= 0) {
          throw new IllegalStateException("no progress to " + wanted + ", only to " + offset);
        }
        wait(left);
      }
      return Map.of("offset", offset, "end", end);
    }
  }

  /** The placement rule of a command; null: it has none. */
  private static PlacementRule rule(Command c) {
    if (!c.any("rule")) {
      return null;
    }
    Command r = new Command(c.json.getAsJsonObject("rule"));
    List<PlacementRule.ReadReplicas> readers = new ArrayList<>();
    if (r.any("read_replicas")) {
      for (JsonElement one : r.json.getAsJsonArray("read_replicas")) {
        JsonObject of = one.getAsJsonObject();
        readers.add(
            new PlacementRule.ReadReplicas(
                of.get("label").getAsString(), of.get("count").getAsInt()));
      }
    }
    return new PlacementRule(
        r.text("spread", ""),
        r.texts("voters_in").toList(),
        r.texts("voters_not_in").toList(),
        r.texts("leader_homes").toList(),
        readers);
  }

  private static Map<String, Object> shown(PlacementRule r) {
    return Map.of(
        "spread", r.spread(),
        "voters_in", r.votersIn(),
        "voters_not_in", r.votersNotIn(),
        "leader_homes", r.leaderHomes(),
        "read_replicas",
            r.readReplicas().stream()
                .map(one -> Map.of("label", one.label(), "count", one.count()))
                .toList());
  }

  private static Object administer(Admin admin, Command c) throws Exception {
    String log = c.text("log", "");
    AtomicReference<LogConfig> config = new AtomicReference<>(LogConfig.DEFAULT);
    c.number("retention_ms", n -> config.set(config.get().withRetention(Duration.ofMillis(n))));
    c.number("retention_bytes", n -> config.set(config.get().withRetentionBytes(n)));
    c.number("replicas", n -> config.set(config.get().withReplicas(n.intValue())));
    c.number("revision", n -> config.set(config.get().withRevision(n)));
    config.set(config.get().withFenced(c.yes("fenced")).withRule(rule(c)));
    AtomicReference<Long> before = new AtomicReference<>(0L);
    c.number("before", before::set);
    return switch (c.text("do")) {
      case "create" -> described(admin.createLog(log, config.get()).get());
      case "configure" -> described(admin.configureLog(log, config.get()).get());
      case "info" -> described(admin.info(log).get());
      case "watch" -> watch(admin, c);
      case "list" -> {
        Map<String, Object> logs = new LinkedHashMap<>();
        admin.listLogs().get().forEach(i -> logs.put(i.name(), described(i)));
        yield Map.of("logs", logs);
      }
      case "delete" -> admin.deleteLog(log).get();
      case "trim" -> {
        Extent left =
            c.yes("fast_forward")
                ? admin.fastForward(log, before.get()).get()
                : admin.trim(log, before.get()).get();
        yield Map.of("start", left.start(), "end", left.end());
      }
      case "set-hold" -> {
        Extent kept = admin.setHold(log, hold(c)).get();
        yield Map.of("offset", kept.start(), "end", kept.end());
      }
      case "keep-hold" -> admin.keepHold(log, c.text("hold")).get();
      case "release-hold" -> admin.releaseHold(log, c.text("hold")).get();
      case "acquire-writer" -> {
        WriterTerm term = admin.acquireWriter(log).get();
        yield Map.of("writer_term", term.term(), "end", term.end());
      }
      case "lease-writer" -> {
        AtomicReference<Duration> wait = new AtomicReference<>(Duration.ZERO);
        c.number("wait_ms", n -> wait.set(Duration.ofMillis(n)));
        WriterGrant grant = admin.leaseWriter(log, claim(c), wait.get()).get();
        Map<String, Object> said = shown(grant.state());
        said.put("writer_term", grant.term());
        said.put("end", grant.end());
        yield said;
      }
      case "keep-writer" -> admin.keepWriter(log, c.json.get("writer_term").getAsLong()).get();
      case "release-writer" -> {
        long term = c.json.get("writer_term").getAsLong();
        yield c.any("to")
            ? admin.handWriterOver(log, term, c.text("to")).get()
            : admin.releaseWriter(log, term).get();
      }
      case "resolve" ->
          resolved(
              c.yes("final")
                  ? admin.resolveFinally(log, c.position("at")).get()
                  : admin.resolve(log, c.position("at")).get());
      case "end-epoch" -> resolved(admin.endEpoch(log, c.position("at")).get());
      case "open-session" -> {
        AtomicReference<Duration> lease = new AtomicReference<>();
        c.number("lease_ms", n -> lease.set(Duration.ofMillis(n)));
        Session s = admin.openSession(log, lease.get()).get();
        yield Map.of(
            "session", unsigned(s.id()),
            "epoch", s.epoch(),
            "log_id", s.logId(),
            "lease_ms", s.lease().toMillis());
      }
      case "keep-session" -> admin.keepSession(log, session(c)).get();
      case "close-session" -> admin.closeSession(log, session(c)).get();
      default -> throw new IllegalArgumentException("unknown command " + c.text("do"));
    };
  }

  /** Watches a log until it ends where it is to. */
  private static Object watch(Admin admin, Command c) throws Exception {
    CompletableFuture<Object> seen = new CompletableFuture<>();
    Duration interval = Duration.ofMillis(c.json.get("interval_ms").getAsLong());
    admin
        .watchInfo(c.text("log"), interval)
        .subscribe(
            new Flow.Subscriber<LogInfo>() {
              private Flow.Subscription subscription;

              @Override
              public void onSubscribe(Flow.Subscription s) {
                subscription = s;
                s.request(Long.MAX_VALUE);
              }

              @Override
              public void onNext(LogInfo info) {
                if (info.end() >= c.json.get("until_end").getAsLong()) {
                  subscription.cancel();
                  seen.complete(described(info));
                }
              }

              @Override
              public void onError(Throwable e) {
                seen.completeExceptionally(e);
              }

              @Override
              public void onComplete() {
                seen.complete(null);
              }
            });
    return seen.get();
  }

  private static Session session(Command c) {
    Position at = c.position("at");
    return new Session(at.session(), at.epoch(), Duration.ZERO, at.logId());
  }

  private static Hold hold(Command c) {
    AtomicReference<Hold> hold = new AtomicReference<>(Hold.at(c.text("hold"), 0));
    c.number("offset", n -> hold.set(Hold.at(c.text("hold"), n)));
    if (c.yes("from_start") || c.yes("tail")) {
      long place = c.yes("tail") ? Hold.FROM_END : Hold.FROM_START;
      hold.set(Hold.at(c.text("hold"), place));
    }
    c.number("lease_ms", n -> hold.set(hold.get().withLease(Duration.ofMillis(n))));
    c.number("max_bytes", n -> hold.set(hold.get().withMaxBytes(n)));
    c.number("max_age_ms", n -> hold.set(hold.get().withMaxAge(Duration.ofMillis(n))));
    return hold.get().withOwner(c.text("owner", "")).withPointer(pointer(c));
  }

  private static byte[] pointer(Command c) {
    return c.json.has("pointer_hex")
        ? HexFormat.of().parseHex(c.text("pointer_hex"))
        : c.text("pointer", "").getBytes(UTF_8);
  }

  private static Map<String, Object> resolved(Resolution r) {
    return Map.of(
        "state", r.state().name().toLowerCase(Locale.ROOT).replace('_', ' '),
        "offset", r.offset(),
        "epoch", r.epoch(),
        "next", r.next().orElse(0),
        "known", r.next().isPresent());
  }

  /** The threads that clients have left; they may take a moment to end. */
  private static Map<String, Object> leaks() throws InterruptedException {
    List<String> left = List.of();
    long began = System.nanoTime();
    while (System.nanoTime() - began < 30_000_000_000L) {
      left =
          Thread.getAllStackTraces().keySet().stream()
              .map(Thread::getName)
              .filter(name -> name.startsWith("strandline") || name.startsWith("grpc"))
              .toList();
      if (left.isEmpty()) {
        break;
      }
      Thread.sleep(20);
    }
    return Map.of("leaks", left.size(), "where", left);
  }

  /** One line to the runner. */
  private static final class Command {
    final JsonObject json;
    private final long began = System.nanoTime();

    Command(JsonObject json) {
      this.json = json;
    }

    boolean is(String verb) {
      return text("do").equals(verb);
    }

    String text(String name) {
      return json.get(name).getAsString();
    }

    String text(String name, String otherwise) {
      return json.has(name) ? text(name) : otherwise;
    }

    boolean any(String... names) {
      return Stream.of(names).anyMatch(json::has);
    }

    Stream<String> texts(String name) {
      return !json.has(name)
          ? Stream.of()
          : json.getAsJsonArray(name).asList().stream().map(JsonElement::getAsString);
    }

    void headers(BiConsumer<String, byte[]> use) {
      if (json.has("headers")) {
        json.getAsJsonObject("headers")
            .asMap()
            .forEach((name, value) -> use.accept(name, value.getAsString().getBytes(UTF_8)));
      }
    }

    boolean yes(String name) {
      return json.has(name) && json.get(name).getAsBoolean();
    }

    void number(String name, Consumer<Long> use) {
      if (json.has(name)) {
        use.accept(json.get(name).getAsLong());
      }
    }

    Position position(String name) {
      JsonObject at = json.getAsJsonObject(name);
      Function<String, Long> number =
          key -> at.has(key) ? at.get(key).getAsBigDecimal().longValue() : 0;
      return new Position(
          number.apply("log_id"),
          number.apply("session"),
          number.apply("epoch").intValue(),
          number.apply("next"));
    }

    /** What is left of the caller's time; null: it has no bound. */
    Duration timeout() {
      if (!json.has("timeout_ms")) {
        return null;
      }
      Duration whole = Duration.ofMillis(json.get("timeout_ms").getAsLong());
      return whole.minusNanos(System.nanoTime() - began);
    }
  }
}
