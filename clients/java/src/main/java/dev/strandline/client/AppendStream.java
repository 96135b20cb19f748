package dev.strandline.client;

import dev.strandline.v1.AppendRequest;
import dev.strandline.v1.AppendResponse;
import io.grpc.ClientCall;
import io.grpc.Metadata;
import io.grpc.Status;
import java.util.function.BiConsumer;

/** A stream of appends to one node. It is used by the thread of the client alone. */
final class AppendStream extends ClientCall.Listener<AppendResponse> {
  private final ClientCall<AppendRequest, AppendResponse> call;
  private final BiConsumer<AppendStream, AppendResponse> answered;
  private final BiConsumer<AppendStream, StrandlineException> broken;
  private boolean named; // it has been given the name of its log

  AppendStream(
      Peer peer,
      Token.Shown shown,
      BiConsumer<AppendStream, AppendResponse> answered,
      BiConsumer<AppendStream, StrandlineException> broken) {
    this.answered = answered;
    this.broken = broken;
    call = peer.channel.newCall(Methods.APPEND, shown.options());
    call.start(this, new Metadata());
    call.request(Integer.MAX_VALUE); // the window bounds them
  }

  void send(AppendRequest.Builder request, String log) {
    if (!named) {
      request.setLog(log);
      named = true;
    }
    call.sendMessage(request.build());
  }

  void close() {
    call.cancel("the round is over", null);
  }

  @Override
  public void onMessage(AppendResponse answer) {
    answered.accept(this, answer);
  }

  @Override
  public void onClose(Status status, Metadata trailers) {
    broken.accept(
        this,
        status.isOk()
            ? StrandlineException.unreachable(Outcome.MAYBE_DONE, "the server ended the stream")
            : StrandlineException.of(status, trailers));
  }
}
