package dev.strandline.client;

import com.google.protobuf.ByteString;
import dev.strandline.v1.AcquireWriterRequest;
import dev.strandline.v1.AcquireWriterResponse;
import dev.strandline.v1.CloseSessionRequest;
import dev.strandline.v1.ConfigureLogRequest;
import dev.strandline.v1.CreateLogRequest;
import dev.strandline.v1.DeleteLogRequest;
import dev.strandline.v1.DigestRequest;
import dev.strandline.v1.DigestResponse;
import dev.strandline.v1.GetInfoRequest;
import dev.strandline.v1.KeepHoldRequest;
import dev.strandline.v1.KeepSessionRequest;
import dev.strandline.v1.KeepWriterRequest;
import dev.strandline.v1.LeaseWriterRequest;
import dev.strandline.v1.LeaseWriterResponse;
import dev.strandline.v1.ListLogsRequest;
import dev.strandline.v1.ListLogsResponse;
import dev.strandline.v1.OpenSessionRequest;
import dev.strandline.v1.OpenSessionResponse;
import dev.strandline.v1.ProveRequest;
import dev.strandline.v1.ProveResponse;
import dev.strandline.v1.ReadPosition;
import dev.strandline.v1.ReleaseHoldRequest;
import dev.strandline.v1.ReleaseWriterRequest;
import dev.strandline.v1.ResolveRequest;
import dev.strandline.v1.SetHoldRequest;
import dev.strandline.v1.SetHoldResponse;
import dev.strandline.v1.TrimRequest;
import dev.strandline.v1.TrimResponse;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.OptionalLong;
import java.util.UUID;
import java.util.function.Supplier;

/** The verbs of {@link Admin}, which wait for their answers. */
final class Verbs {
  private static final String CATALOG = ""; // stands for the log of logs where a call names none
  private static final int PAGE_LIMIT = 10_000; // logs of a list; the server divides it by bytes

  private final Calls calls;

  Verbs(Calls calls) {
    this.calls = calls;
  }

  /** A follower would answer of its own replica. */
  private Route toDigest(String log, boolean known) {
    return known ? new ToDialled(calls.peers) : new ToLeader(calls, log, true);
  }

  Digest digest(String log, OptionalLong at, boolean known, Bound bound) {
    DigestRequest.Builder request = DigestRequest.newBuilder().setLog(log).setAllowStale(known);
    at.ifPresent(request::setAt);
    DigestResponse d =
        asking(() -> calls.through(toDigest(log, known), Methods.DIGEST, request.build(), bound));
    String hash = HexFormat.of().formatHex(d.getDigest().toByteArray());
    if (d.getDigest().size() != 32) {
      throw new StrandlineException(
          Reason.CORRUPT,
          "the server answered with a digest of the wrong length",
          Outcome.NOT_DONE);
    }
    return new Digest(
        hash,
        d.getAt(),
        d.getFrom(),
        d.getCovered(),
        d.getBatches(),
        d.getStartOffset(),
        d.getEndOffset());
  }

  LogRecord prove(String log, long offset, Digest trusted, boolean known, Bound bound) {
    byte[] root = Proof.hash(trusted.hash());
    ProveRequest request =
        ProveRequest.newBuilder()
            .setLog(log)
            .setOffset(offset)
            .setAt(trusted.at())
            .setAllowStale(known)
            .build();
    ProveResponse p =
        asking(() -> calls.through(toDigest(log, known), Methods.PROVE, request, bound));
    Proof.check(p.getBatch(), p.getNumber(), p.getDigest().getBatches(), p.getPathList(), root);
    return Proof.record(p.getBatch(), offset);
  }

  /** A question has no effect. */
  private static <A> A asking(Supplier<A> call) {
    try {
      return call.get();
    } catch (StrandlineException e) {
      throw e.with(Outcome.NOT_DONE);
    }
  }

  LogInfo createLog(String name, LogConfig config, Bound bound) {
    CreateLogRequest request =
        CreateLogRequest.newBuilder()
            .setName(name)
            .setConfig(Wire.config(config))
            .setRequestId(UUID.randomUUID().toString())
            .build();
    return Wire.info(calls.toLeader(CATALOG, Methods.CREATE_LOG, request, bound).getInfo());
  }

  List<LogInfo> listLogs(boolean internal, Bound bound) {
    List<LogInfo> logs = new ArrayList<>();
    ListLogsRequest.Builder request =
        ListLogsRequest.newBuilder().setIncludeInternal(internal).setLimit(PAGE_LIMIT);
    do {
      ListLogsResponse page = calls.toLeader(CATALOG, Methods.LIST_LOGS, request.build(), bound);
      String after = request.getAfter();
      page.getLogsList().stream()
          .filter(info -> info.getName().compareTo(after) > 0) // an old node answers with all
          .forEach(info -> logs.add(Wire.info(info)));
      if (!page.getNext().isEmpty() && page.getNext().compareTo(after) <= 0) {
        throw new StrandlineException(
            Reason.CORRUPT,
            "the server answered with a list that does not advance",
            Outcome.NOT_DONE);
      }
      request.setAfter(page.getNext());
    } while (!request.getAfter().isEmpty());
    return List.copyOf(logs);
  }

  LogInfo configureLog(String name, LogConfig config, Bound bound) {
    ConfigureLogRequest request =
        ConfigureLogRequest.newBuilder().setName(name).setConfig(Wire.config(config)).build();
    return Wire.info(calls.toLeader(CATALOG, Methods.CONFIGURE_LOG, request, bound).getInfo());
  }

  void deleteLog(String name, Bound bound) {
    GetInfoRequest request = GetInfoRequest.newBuilder().setLog(name).setAllowStale(true).build();
    long id;
    try {
      id = calls.toLeader(CATALOG, Methods.GET_INFO, request, bound).getInfo().getId();
    } catch (StrandlineException e) {
      throw e.with(Outcome.NOT_DONE);
    }
    try {
      deleteLog(name, id, bound);
    } catch (StrandlineException e) {
      // The node that gave the id may not have heard of the newest log.
      if (!e.is(Reason.LOG_REPLACED) || e.outcome() != Outcome.NOT_DONE) {
        throw e;
      }
      deleteLog(name, e.logId(), bound);
    }
  }

  private void deleteLog(String name, long id, Bound bound) {
    try {
      DeleteLogRequest request = DeleteLogRequest.newBuilder().setName(name).setLogId(id).build();
      calls.toLeader(CATALOG, Methods.DELETE_LOG, request, bound);
    } catch (StrandlineException e) {
      // An earlier try has deleted it: the refusal is about its own effect.
      boolean gone = e.is(Reason.LOG_NOT_FOUND) || e.is(Reason.LOG_REPLACED);
      if (e.outcome() == Outcome.NOT_DONE || !gone) {
        throw e;
      }
    }
  }

  LogInfo info(String log, Bound bound) {
    GetInfoRequest request = GetInfoRequest.newBuilder().setLog(log).build();
    return Wire.info(calls.toLeader(log, Methods.GET_INFO, request, bound).getInfo());
  }

  Extent trim(String log, long before, boolean fastForward, Bound bound) {
    TrimRequest request =
        TrimRequest.newBuilder().setLog(log).setBefore(before).setFastForward(fastForward).build();
    TrimResponse answer = calls.toLeader(log, Methods.TRIM, request, bound);
    return new Extent(answer.getStartOffset(), answer.getEndOffset());
  }

  Extent setHold(String log, Hold hold, Bound bound) {
    SetHoldResponse answer = setHold(log, 0, hold, bound);
    return new Extent(answer.getOffset(), answer.getEndOffset());
  }

  /** The hold of a log with an id; 0: whichever has the name. */
  SetHoldResponse setHold(String log, long logId, Hold hold, Bound bound) {
    SetHoldRequest.Builder request =
        SetHoldRequest.newBuilder().setLog(log).setLogId(logId).setHold(Wire.hold(hold));
    if (hold.offset() == Hold.FROM_START) {
      request.setPosition(ReadPosition.READ_POSITION_START);
    } else if (hold.offset() == Hold.FROM_END) {
      request.setPosition(ReadPosition.READ_POSITION_TAIL);
    } else if (hold.offset() < 0) {
      throw StrandlineException.invalid("the offset of a hold is negative");
    }
    return calls.toLeader(log, Methods.SET_HOLD, request.build(), bound);
  }

  void keepHold(String log, String name, Bound bound) {
    KeepHoldRequest request = KeepHoldRequest.newBuilder().setLog(log).setName(name).build();
    calls.toLeader(log, Methods.KEEP_HOLD, request, bound);
  }

  /** The same while the lease lasts, also where the leader stands still. */
  void renewHold(String log, long logId, String name, Duration lease, Bound bound) {
    KeepHoldRequest request =
        KeepHoldRequest.newBuilder().setLog(log).setLogId(logId).setName(name).build();
    calls.renew(log, Methods.KEEP_HOLD, request, lease, new Bound(bound, lease));
  }

  void releaseHold(String log, long logId, String name, Bound bound) {
    ReleaseHoldRequest request =
        ReleaseHoldRequest.newBuilder().setLog(log).setLogId(logId).setName(name).build();
    try {
      calls.toLeader(log, Methods.RELEASE_HOLD, request, bound);
    } catch (StrandlineException e) {
      // Or else an earlier try has released it.
      if (e.outcome() == Outcome.NOT_DONE || !e.is(Reason.HOLD_NOT_FOUND)) {
        throw e;
      }
    }
  }

  WriterTerm acquireWriter(String log, Bound bound) {
    AcquireWriterRequest request = AcquireWriterRequest.newBuilder().setLog(log).build();
    AcquireWriterResponse answer = calls.toLeader(log, Methods.ACQUIRE_WRITER, request, bound);
    return new WriterTerm(answer.getWriterTerm(), answer.getEndOffset());
  }

  /** The writer lease of a log with an id; 0: whichever has the name. */
  LeaseWriterResponse leaseWriter(
      String log, long logId, WriterClaim claim, Duration wait, Bound bound) {
    LeaseWriterRequest.Builder request =
        LeaseWriterRequest.newBuilder()
            .setLog(log)
            .setLogId(logId)
            .setName(claim.name())
            .setPayload(ByteString.copyFrom(claim.payload()))
            .setLease(Wire.duration(claim.lease()));
    if (!wait.isZero()) {
      request.setWait(Wire.duration(wait));
    }
    return calls.inLine(log, Methods.LEASE_WRITER, request.build(), bound);
  }

  void keepWriter(String log, long term, Bound bound) {
    KeepWriterRequest request =
        KeepWriterRequest.newBuilder().setLog(log).setWriterTerm(term).build();
    calls.toLeader(log, Methods.KEEP_WRITER, request, bound);
  }

  /** The same while the lease lasts, also where the leader stands still. */
  void renewWriter(String log, long logId, long term, Duration lease, Bound bound) {
    KeepWriterRequest request =
        KeepWriterRequest.newBuilder().setLog(log).setLogId(logId).setWriterTerm(term).build();
    calls.renew(log, Methods.KEEP_WRITER, request, lease, new Bound(bound, lease));
  }

  /** Ends a writer lease, in favor of a program in line if there is a name. */
  void releaseWriter(String log, long logId, long term, String to, Bound bound) {
    ReleaseWriterRequest request =
        ReleaseWriterRequest.newBuilder()
            .setLog(log)
            .setLogId(logId)
            .setWriterTerm(term)
            .setTo(to)
            .build();
    try {
      calls.toLeader(log, Methods.RELEASE_WRITER, request, bound);
    } catch (StrandlineException e) {
      // Or else an earlier try has released it.
      if (e.outcome() == Outcome.NOT_DONE || !e.is(Reason.FENCED)) {
        throw e;
      }
    }
  }

  Session openSession(String log, long logId, Duration lease, Bound bound) {
    if (lease != null && lease.isNegative()) {
      throw StrandlineException.invalid("the lease of a session is negative");
    }
    OpenSessionRequest.Builder request =
        OpenSessionRequest.newBuilder().setLog(log).setLogId(logId);
    if (lease != null) {
      request.setLease(Wire.duration(lease));
    }
    OpenSessionResponse answer = calls.toLeader(log, Methods.OPEN_SESSION, request.build(), bound);
    return new Session(
        answer.getSessionId(),
        answer.getEpoch(),
        Wire.duration(answer.getLease()),
        answer.getLogId());
  }

  void keepSession(String log, long session, long logId, Bound bound) {
    KeepSessionRequest request =
        KeepSessionRequest.newBuilder().setLog(log).setSessionId(session).setLogId(logId).build();
    calls.toLeader(log, Methods.KEEP_SESSION, request, bound);
  }

  /** The same while the lease lasts, also where the leader stands still. */
  void renewSession(String log, Session session, Duration lease, Bound bound) {
    KeepSessionRequest request =
        KeepSessionRequest.newBuilder()
            .setLog(log)
            .setSessionId(session.id())
            .setLogId(session.logId())
            .build();
    calls.renew(log, Methods.KEEP_SESSION, request, lease, new Bound(bound, lease));
  }

  void closeSession(String log, long session, long logId, Bound bound) {
    CloseSessionRequest request =
        CloseSessionRequest.newBuilder().setLog(log).setSessionId(session).setLogId(logId).build();
    calls.toLeader(log, Methods.CLOSE_SESSION, request, bound);
  }

  Resolution resolve(String log, Position at, boolean last, Bound bound) {
    ResolveRequest request =
        ResolveRequest.newBuilder()
            .setLog(log)
            .setLogId(at.logId())
            .setSessionId(at.session())
            .setEpoch(at.epoch())
            .setSequence(at.next())
            .setFinal(last)
            .build();
    return Wire.resolution(calls.toLeader(log, Methods.RESOLVE, request, bound));
  }
}
