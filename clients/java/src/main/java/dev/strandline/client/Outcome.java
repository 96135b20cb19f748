package dev.strandline.client;

/** What is known of the effect of a call, over all its tries. */
public enum Outcome {
  /** Certainly without effect, now and later. */
  NOT_DONE,
  /** Perhaps done, now or yet to come: {@link Admin#resolve} settles an append in a session. */
  MAYBE_DONE,
  /** Done, although its result is not known. */
  DONE;

  /** What is known after another try: it never falls back. */
  Outcome then(Outcome next) {
    return compareTo(next) < 0 ? next : this;
  }

  /** The outcome that a server has named. What is missing or unknown is assumed to be bad. */
  static Outcome named(String word) {
    return switch (word == null ? "" : word) {
      case "not_done" -> NOT_DONE;
      case "done" -> DONE;
      default -> MAYBE_DONE;
    };
  }
}
