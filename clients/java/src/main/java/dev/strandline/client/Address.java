package dev.strandline.client;

import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** HOST:PORT, an address of a node. */
record Address(String host, int port) {
  private static final Pattern FORM =
      Pattern.compile("(?:\\[([^\\]]*)\\]|([^:\\[\\]]*)):(\\d{1,5})");
  private static final Pattern NUMERIC = Pattern.compile("[0-9.]+|.*:.*");

  /** The address that a text is; null if it is none. */
  static Address parse(String text) {
    Matcher m = FORM.matcher(text);
    if (!m.matches() || Integer.parseInt(m.group(3)) > 65535) {
      return null;
    }
    return new Address(m.group(1) != null ? m.group(1) : m.group(2), Integer.parseInt(m.group(3)));
  }

  /** What is wrong with the address of a user, if anything; else null. */
  static StrandlineException wrong(String text, boolean anywhere) {
    Address address = parse(text);
    if (address == null) {
      return StrandlineException.invalid("address \"" + text + "\" is not HOST:PORT");
    }
    return anywhere || address.loopback()
        ? null
        : StrandlineException.invalid(
            "address " + text + " is not loopback: it needs tls, or insecure");
  }

  /** Whether it is on this machine. Names other than localhost are not looked up. */
  boolean loopback() {
    if (host.equals("localhost")) {
      return true;
    }
    try {
      return NUMERIC.matcher(host).matches() && InetAddress.getByName(host).isLoopbackAddress();
    } catch (UnknownHostException e) {
      return false;
    }
  }

  /** Whether it is what a node listens on that knows no address of its own. */
  boolean unspecified() {
    return host.isEmpty() || host.equals("0.0.0.0") || host.equals("::");
  }
}
