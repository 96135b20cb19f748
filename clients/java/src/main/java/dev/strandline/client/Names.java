package dev.strandline.client;

import io.grpc.EquivalentAddressGroup;
import io.grpc.NameResolver;
import io.grpc.NameResolverProvider;
import io.grpc.NameResolverRegistry;
import io.grpc.StatusOr;
import io.grpc.SynchronizationContext;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.URISyntaxException;
import java.net.UnknownHostException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Executor;

/**
 * Finds the addresses of nodes by name. The library's own way logs a name that is not known as a
 * stack trace, each time that it asks; here it is a connection that fails, and the error of the
 * call says why.
 */
final class Names extends NameResolverProvider {
  private static final String SCHEME = "strandline";

  static {
    NameResolverRegistry.getDefaultRegistry().register(new Names());
  }

  private Names() {}

  /** What a channel to an address is made of. */
  static String target(Address address) {
    try {
      return new URI(SCHEME, "", "/" + authority(address), null).toString();
    } catch (URISyntaxException e) {
      throw StrandlineException.invalid("address " + authority(address) + " is not HOST:PORT");
    }
  }

  private static String authority(Address address) {
    String host = address.host();
    return (host.contains(":") ? "[" + host + "]" : host) + ":" + address.port();
  }

  @Override
  protected boolean isAvailable() {
    return true;
  }

  @Override
  protected int priority() {
    return 5;
  }

  @Override
  public String getDefaultScheme() {
    return SCHEME;
  }

  @Override
  public NameResolver newNameResolver(URI target, NameResolver.Args args) {
    if (!SCHEME.equals(target.getScheme())) {
      return null;
    }
    Address address = Address.parse(target.getPath().substring(1));
    return new Resolver(address, args.getOffloadExecutor(), args.getSynchronizationContext());
  }

  /** That of one channel. Its methods are called one after the other. */
  private static final class Resolver extends NameResolver {
    private final Address address;
    private final Executor executor;
    private final SynchronizationContext inTurn;
    private Listener2 listener;
    private boolean asking;
    private boolean over;

    Resolver(Address address, Executor executor, SynchronizationContext inTurn) {
      this.address = address;
      this.executor = executor;
      this.inTurn = inTurn;
    }

    @Override
    public String getServiceAuthority() {
      return authority(address);
    }

    @Override
    public void start(Listener2 of) {
      listener = of;
      refresh();
    }

    @Override
    public void refresh() {
      if (asking || over) {
        return;
      }
      asking = true;
      try {
        executor.execute(
            () -> {
              List<EquivalentAddressGroup> found = find();
              inTurn.execute(() -> found(found));
            });
      } catch (StrandlineException e) {
        asking = false; // the client is closed
      }
    }

    private void found(List<EquivalentAddressGroup> all) {
      asking = false;
      if (!over) {
        ResolutionResult.Builder result = ResolutionResult.newBuilder();
        listener.onResult(result.setAddressesOrError(StatusOr.fromValue(all)).build());
      }
    }

    private List<EquivalentAddressGroup> find() {
      List<EquivalentAddressGroup> all = new ArrayList<>();
      try {
        for (InetAddress found : InetAddress.getAllByName(address.host())) {
          all.add(new EquivalentAddressGroup(new InetSocketAddress(found, address.port())));
        }
      } catch (UnknownHostException e) {
        InetSocketAddress unknown =
            InetSocketAddress.createUnresolved(address.host(), address.port());
        all.add(new EquivalentAddressGroup(unknown));
      }
      return all;
    }

    @Override
    public void shutdown() {
      over = true;
    }
  }
}
