package dev.strandline.client;

/** What is known of one call over all tries of it, on whatever nodes. */
final class Tries {
  private Outcome outcome = Outcome.NOT_DONE;
  private StrandlineException answered; // the newest failure that a node answered with

  /** Adds a try that failed, and returns its error with the outcome of all tries. */
  StrandlineException failed(StrandlineException newest) {
    outcome = outcome.then(newest.outcome());
    StrandlineException failure = newest.with(outcome);
    if (!failure.is(Reason.UNREACHABLE)) {
      answered = failure;
    }
    return failure;
  }

  /**
   * The error of the call when the newest try was the last: what a node has answered says more than
   * that another one cannot be reached.
   */
  StrandlineException verdict(StrandlineException failure) {
    boolean unreachable = failure.is(Reason.UNREACHABLE) && answered != null;
    return (unreachable ? answered : failure).with(outcome);
  }
}
