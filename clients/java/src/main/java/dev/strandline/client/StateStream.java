package dev.strandline.client;

import dev.strandline.v1.WatchInfoRequest;
import dev.strandline.v1.WatchInfoResponse;

/** The descriptions of a log from one node, and from another one where a token is replaced. */
final class InfoStream implements Publication.Source<LogInfo> {
  private final Calls calls;
  private final WatchInfoRequest request;
  private final Bound bound; // of the opening
  private final Token.Shown shown = new Token.Shown();
  private Peer peer;
  private ServerStream<WatchInfoRequest, WatchInfoResponse> stream;

  /** Finds a node that answers. */
  InfoStream(Calls calls, WatchInfoRequest request, Bound bound) {
    this.calls = calls;
    this.request = request;
    this.bound = bound;
    open();
  }

  /** The first answer is a part of finding a node, and is there to be taken afterwards. */
  private void open() {
    Route route = new ToLeader(calls, request.getLog(), false);
    calls.by(
        route,
        bound,
        found -> {
          peer = found;
          stream = new ServerStream<>(found, Methods.WATCH_INFO, request, shown);
          try {
            await(bound, Silence.ofCall(calls, found, route));
            stream.check();
          } catch (StrandlineException e) {
            stream.close();
            throw shown.failure(e);
          }
          return found;
        });
  }

  private void await(Bound b, Silence silence) {
    StrandlineException left = stream.await(b, silence);
    if (left != null) {
      throw left;
    }
    if (b.over()) {
      throw StrandlineException.cancelled(Outcome.NOT_DONE);
    }
  }

  @Override
  public LogInfo next(Bound b) {
    for (; ; ) {
      try {
        await(b, Silence.ofWatch(calls, peer));
        WatchInfoResponse answer = stream.take();
        shown.progressed();
        return answer == null ? null : Wire.info(answer.getInfo());
      } catch (StrandlineException e) {
        StrandlineException failure = shown.failure(e);
        if (!failure.renewed()) {
          throw failure;
        }
        stream.close();
        open();
      }
    }
  }

  @Override
  public void close() {
    stream.close();
  }
}
