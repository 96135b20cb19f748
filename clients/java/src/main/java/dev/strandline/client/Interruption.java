package dev.strandline.client;

/**
 * Why a stream ended or must end.
 *
 * @param error what happened
 * @param refused whose answer it was; null: nobody's
 */
record Interruption(StrandlineException error, Request refused) {
  Interruption(StrandlineException error) {
    this(error, null);
  }
}
