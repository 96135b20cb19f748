package dev.strandline.client;

import io.grpc.ManagedChannel;
import io.grpc.netty.shaded.io.grpc.netty.NettyChannelBuilder;
import io.grpc.netty.shaded.io.netty.channel.ChannelOption;
import io.grpc.netty.shaded.io.netty.channel.socket.nio.NioSocketChannel;
import io.grpc.netty.shaded.io.netty.handler.ssl.SslContext;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Flow;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

/**
 * Holds the connections to a cluster, one to each node that it needs. Any thread may use it.
 *
 * <p>The addresses (HOST:PORT, one or several) are those of nodes, of which one that is up is
 * enough; the leader of each log is found. Nothing is connected before something is asked for.
 */
public final class Client implements AutoCloseable {
  private static final int MAX_MESSAGE = 64 << 20;
  private static final int FLOW_CONTROL_WINDOW = 4 << 20;
  private static final int CONNECT_MILLIS = 5000;

  private final Threads threads;
  private final Calls calls;
  private final Admin admin;
  private final Ends ends;

  /** Connects to loopback addresses without encryption. */
  public Client(String... addresses) {
    this(List.of(addresses), o -> {});
  }

  /** Connects as configure says. */
  public Client(List<String> addresses, Consumer<ClientOptions> configure) {
    ClientOptions options = new ClientOptions();
    configure.accept(options);
    if (addresses.isEmpty()) {
      throw StrandlineException.invalid("a client needs an address");
    }
    boolean anywhere = options.insecure || options.tls != null;
    for (String address : addresses) {
      StrandlineException wrong = Address.wrong(address, anywhere);
      if (wrong != null) {
        throw wrong;
      }
    }
    Tls tls = options.tls;
    SslContext first = tls == null ? null : tls.context();
    Token token = options.token == null ? null : new Token(options.token);
    threads = new Threads();
    Peers peers =
        new Peers(
            List.copyOf(addresses),
            anywhere,
            address -> {
              ReloadedContext files = tls == null ? null : new ReloadedContext(tls, first);
              return new Peer(address, dial(address, files), files, token, threads);
            });
    calls = new Calls(peers, threads, options.retryTime, options.onTrouble);
    admin = new Admin(calls, null);
    ends = new Ends(log -> admin.info(log).thenApply(LogInfo::end));
  }

  /**
   * A client as the variables say that the command line takes too: STRANDLINE_SERVER (addresses
   * with commas between them; 127.0.0.1:7171), STRANDLINE_TLS_CA, STRANDLINE_TLS_CERT,
   * STRANDLINE_TLS_KEY, STRANDLINE_TOKEN_FILE or else STRANDLINE_TOKEN, and STRANDLINE_INSECURE.
   * One that is wrong is INVALID.
   */
  public static Client fromEnvironment() {
    return fromEnvironment(System.getenv(), o -> {});
  }

  /** The same with variables of the caller's, and options, which count more. */
  public static Client fromEnvironment(
      Map<String, String> variables, Consumer<ClientOptions> configure) {
    Environment environment = new Environment(variables);
    return new Client(
        environment.addresses(),
        o -> {
          environment.configure(o);
          configure.accept(o);
        });
  }

  private ManagedChannel dial(String text, SslContext context) {
    Address address = Address.parse(text);
    NettyChannelBuilder builder =
        NettyChannelBuilder.forTarget(Names.target(address))
            .eventLoopGroup(threads.group)
            .channelType(NioSocketChannel.class)
            .directExecutor()
            .offloadExecutor(threads::start)
            .withOption(ChannelOption.CONNECT_TIMEOUT_MILLIS, CONNECT_MILLIS)
            .maxInboundMessageSize(MAX_MESSAGE)
            .flowControlWindow(FLOW_CONTROL_WINDOW)
            .keepAliveTime(10, TimeUnit.SECONDS)
            .keepAliveTimeout(5, TimeUnit.SECONDS)
            .proxyDetector(target -> null)
            .disableServiceConfigLookUp()
            .disableRetry();
    if (context == null) {
      builder.usePlaintext();
    } else {
      builder.sslContext(context);
    }
    return builder.build();
  }

  /** The verbs beside append and read. */
  public Admin admin() {
    return admin;
  }

  /**
   * Where a log ends, by its leader and a majority of its replicas: every record that was
   * acknowledged before lies below. Callers share calls: those who come while one is under way are
   * answered together by the next. A future that is cancelled leaves the others be.
   */
  public CompletableFuture<Long> end(String log) {
    return ends.end(log);
  }

  /**
   * Sets a hold as {@link Admin#setHold} does, waits for that and, if it has a lease, renews it
   * until it is released or closed, or the client is closed: a program that dies keeps nothing for
   * longer than the lease.
   */
  public KeptHold hold(String log, Hold hold) {
    return hold(log, hold, null);
  }

  /** The same for so long at most; null: as long as the client's retry time allows. */
  public KeptHold hold(String log, Hold hold, Duration timeout) {
    return new KeptHold(calls, log, hold).open(new Bound(calls.life, timeout));
  }

  /**
   * Waits in line until this program has the writer lease of a log, and renews it until it is
   * released, handed over or closed, or the client is closed. Append with its term: {@link
   * ProducerOptions#writerTerm}.
   *
   * <p>If the client has had the lease under the name before and has not released it, this pauses
   * for up to a second first: another program of the name may have taken it.
   */
  public WriterLease leaseWriter(String log, WriterClaim claim) {
    return leaseWriter(log, claim, null);
  }

  /** The same for so long at most; null: as long as it takes. */
  public WriterLease leaseWriter(String log, WriterClaim claim, Duration timeout) {
    return new WriterLease(calls, log, claim).open(new Bound(calls.life, timeout));
  }

  /** Begins to append to a log that exists. Of an error nothing is in the log. */
  public Producer producer(String log) {
    return producer(log, o -> {});
  }

  /** The same, as configure says. */
  public Producer producer(String log, Consumer<ProducerOptions> configure) {
    ProducerOptions options = new ProducerOptions();
    configure.accept(options);
    return new Producer(calls, log, options).open();
  }

  /** Reads a log from its oldest record to its end. It asks nobody yet. */
  public Reader read(String log) {
    return read(log, o -> {});
  }

  /** Reads a log as configure says. It asks nobody yet: {@link Reader#open}. */
  public Reader read(String log, Consumer<ReaderOptions> configure) {
    ReaderOptions options = new ReaderOptions();
    configure.accept(options);
    return new Reader(calls, log, options);
  }

  /**
   * Publishes the records of a log, for each subscriber from where configure says, by a reader and
   * a thread of its own. It reads as fast as the subscriber asks for more.
   */
  public Flow.Publisher<LogRecord> publisher(String log, Consumer<ReaderOptions> configure) {
    return new Publication<>(
        calls,
        bound -> {
          Reader reader = read(log, configure);
          return new Publication.Source<LogRecord>() {
            @Override
            public LogRecord next(Bound b) {
              return reader.read(b);
            }

            @Override
            public void close() {
              reader.close();
            }
          };
        });
  }

  /**
   * Ends every connection and thread. Close producers first: what they have in flight is in doubt
   * otherwise.
   */
  @Override
  public void close() {
    calls.peers.close();
    calls.kept.forEach(one -> one.end(StrandlineException.closed("client")));
    calls.life.end();
    threads.close();
  }

  Calls calls() {
    return calls;
  }

  /** Whether all connections are gone. */
  boolean terminated() {
    return calls.peers.terminated();
  }
}
