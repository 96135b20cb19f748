import { randomUUID } from "node:crypto";
import { type Bound, type Calls, catalogLog as catalog, methods } from "./calls.js";
import { decimal, placed, span, whole } from "./check.js";
import { type Position, StrandlineError } from "./errors.js";
import {
  ConfigureLogRequest,
  CreateLogRequest,
  DeleteLogRequest,
  ListLogsRequest,
} from "./generated/strandline/v1/catalog.js";
import {
  AcquireWriterRequest,
  GetInfoRequest,
  KeepHoldRequest,
  KeepWriterRequest,
  ReleaseHoldRequest,
  ReleaseWriterRequest,
  TrimRequest,
  WatchInfoRequest,
  WatchWriterRequest,
} from "./generated/strandline/v1/log.js";
import {
  CloseSessionRequest,
  KeepSessionRequest,
  OpenSessionRequest,
  ResolveRequest,
} from "./generated/strandline/v1/session.js";
import { setHoldRequest } from "./keptHold.js";
import {
  configToWire,
  duration,
  type Hold,
  infoFromWire,
  type LogConfig,
  type LogInfo,
  milliseconds,
  type Resolution,
  type ResolveState,
  type Session,
} from "./records.js";
import { watchStates } from "./states.js";
import { releaseWriter } from "./writerLease.js";
import {
  grantFromWire,
  leaseRequest,
  stateFromWire,
  type WriterClaim,
  type WriterGrant,
  type WriterState,
} from "./writers.js";

/** How many logs of a list a call takes at once: the server divides it by bytes. */
const pageLimit = 10_000;

const states: (ResolveState | undefined)[] = [undefined, "committed", "pending", "not now", "never", "forgotten"];

/**
 * Creates, describes and trims logs, and keeps sessions and writer terms for those who do without a
 * producer. Its methods keep trying for the client's retryTimeMs while no node can answer.
 */
export class Admin {
  /** @internal */
  constructor(private readonly calls: Calls) {}

  /** Creates a log. Where an answer was lost, the log that an earlier try created is returned. */
  async createLog(name: string, config: Partial<LogConfig> = {}, { signal }: Bound = {}): Promise<LogInfo> {
    const request = CreateLogRequest.fromPartial({ name, config: configToWire(config), requestId: randomUUID() });
    return infoFromWire((await this.calls.toLeader(catalog, methods.createLog, request, signal)).info);
  }

  /** Lists all logs by name, with the system's own if internal is set. */
  async listLogs({ internal = false, signal }: Bound & { internal?: boolean } = {}): Promise<LogInfo[]> {
    const logs: LogInfo[] = [];
    let after = "";
    do {
      const request = ListLogsRequest.fromPartial({ includeInternal: internal, after, limit: pageLimit });
      const page = await this.calls.toLeader(catalog, methods.listLogs, request, signal);
      for (const info of page.logs) {
        if (info.name > after) logs.push(infoFromWire(info)); // a node of before lists came in parts answers with all
      }
      if (page.next !== "" && page.next <= after) {
        throw new StrandlineError("CORRUPT", "the server answered with a list that does not advance");
      }
      after = page.next;
    } while (after !== "");
    return logs;
  }

  /**
   * Gives a log a whole new configuration. To change a part of it, replace that in what info returns:
   * somebody else's change in between is PRECONDITION then.
   */
  async configureLog(name: string, config: Partial<LogConfig>, { signal }: Bound = {}): Promise<LogInfo> {
    const request = ConfigureLogRequest.fromPartial({ name, config: configToWire(config) });
    return infoFromWire((await this.calls.toLeader(catalog, methods.configureLog, request, signal)).info);
  }

  /**
   * Removes a log with all its records. It never removes another log that got the name while an answer
   * was lost.
   */
  async deleteLog(name: string, { signal }: Bound = {}): Promise<void> {
    const request = GetInfoRequest.fromPartial({ log: name, allowStale: true });
    const question = this.calls.toLeader(catalog, methods.getInfo, request, signal);
    const { info } = await question.catch((error: StrandlineError) => {
      throw error.but({ outcome: "not_done" });
    });
    const remove = async (logId: number) => {
      try {
        await this.calls.toLeader(catalog, methods.deleteLog, DeleteLogRequest.fromPartial({ name, logId }), signal);
      } catch (error) {
        // An earlier try has deleted it: the refusal is about its own effect.
        const { outcome, reason } = error as StrandlineError;
        if (outcome === "not_done" || !["LOG_NOT_FOUND", "LOG_REPLACED"].includes(reason)) throw error;
      }
    };
    try {
      await remove(info?.id ?? 0);
    } catch (error) {
      // The node that gave the id may not have heard of the newest log.
      const { outcome, reason, logId } = error as StrandlineError;
      if (reason !== "LOG_REPLACED" || outcome !== "not_done") throw error;
      await remove(logId);
    }
  }

  /** Describes a log. */
  async info(log: string, { logId = 0, signal }: Bound & { logId?: number } = {}): Promise<LogInfo> {
    whole("logId", logId);
    const request = GetInfoRequest.fromPartial({ log, logId });
    return infoFromWire((await this.calls.toLeader(log, methods.getInfo, request, signal)).info);
  }

  /**
   * Yields the log's description now and after changes, at most once per interval (1 s). A broken
   * connection, or a node that stands still, ends it with an error.
   */
  async *watchInfo(
    log: string,
    { intervalMs, signal }: Bound & { intervalMs?: number | undefined } = {},
  ): AsyncGenerator<LogInfo> {
    span("intervalMs", intervalMs);
    const request = WatchInfoRequest.fromPartial({ log, minInterval: duration(intervalMs) });
    for await (const { info } of watchStates(this.calls, log, methods.watchInfo, request, { signal })) {
      yield infoFromWire(info);
    }
  }

  /**
   * Removes every record below an offset, and returns the start and the end of the log. With fastForward
   * the offset may lie beyond the end: the log continues there.
   */
  async trim(
    log: string,
    before: number,
    { fastForward = false, signal }: Bound & { fastForward?: boolean } = {},
  ): Promise<{ start: number; end: number }> {
    whole("before", before);
    const request = TrimRequest.fromPartial({ log, before, fastForward });
    const answer = await this.calls.toLeader(log, methods.trim, request, signal);
    return { start: answer.startOffset, end: answer.endOffset };
  }

  /**
   * Sets a hold, or moves the one of its name with all that belongs to it, and returns where it begins and
   * where the log ends. With at it is put where the log starts, or ends, by then. OFFSET_TRIMMED: records
   * from the offset on are gone; once it has succeeded, all are there.
   */
  async setHold(
    log: string,
    hold: Partial<Hold> & { name: string },
    { at, signal }: Bound & { at?: "start" | "end" | undefined } = {},
  ): Promise<{ offset: number; end: number }> {
    const answer = await this.calls.toLeader(log, methods.setHold, setHoldRequest(log, 0, hold, at), signal);
    return { offset: answer.offset, end: answer.endOffset };
  }

  /** Renews a hold's lease, as setHold does. HOLD_NOT_FOUND: it has expired, or was released or broken. */
  async keepHold(log: string, name: string, { signal }: Bound = {}): Promise<void> {
    await this.calls.toLeader(log, methods.keepHold, KeepHoldRequest.fromPartial({ log, name }), signal);
  }

  /** Ends a hold, whoever has set it. */
  async releaseHold(log: string, name: string, { signal }: Bound = {}): Promise<void> {
    try {
      await this.calls.toLeader(log, methods.releaseHold, ReleaseHoldRequest.fromPartial({ log, name }), signal);
    } catch (error) {
      // Or else an earlier try has released it.
      const { outcome, reason } = error as StrandlineError;
      if (outcome === "not_done" || reason !== "HOLD_NOT_FOUND") throw error;
    }
  }

  /**
   * Raises the log's writer term, and returns it with the end of the log then. Appends with an older term
   * are refused with FENCED from then on; every one that got in lies below that end.
   */
  async acquireWriter(log: string, { signal }: Bound = {}): Promise<{ writerTerm: number; end: number }> {
    const request = AcquireWriterRequest.fromPartial({ log });
    const answer = await this.calls.toLeader(log, methods.acquireWriter, request, signal);
    return { writerTerm: answer.writerTerm, end: answer.endOffset };
  }

  /**
   * Acquires the writer lease of a log: raises the log's writer term, as acquireWriter does, if no other program has
   * the lease. Otherwise it waits in line for up to waitMs, at most a minute, and returns a grant without a term if that
   * did not suffice. The lease lasts as long as keepWriter is called, or records are appended with the term.
   * {@link Client.leaseWriter} does that.
   */
  async leaseWriter(
    log: string,
    claim: WriterClaim,
    { waitMs = 0, signal }: Bound & { waitMs?: number } = {},
  ): Promise<WriterGrant> {
    const request = leaseRequest(log, 0, claim, waitMs);
    return grantFromWire(await this.calls.toLeader(log, methods.leaseWriter, request, signal, true));
  }

  /**
   * Renews the writer lease that was granted with a term, as appends with the term do. FENCED: it has ended.
   */
  async keepWriter(log: string, term: number, { signal }: Bound = {}): Promise<void> {
    whole("term", term);
    const request = KeepWriterRequest.fromPartial({ log, writerTerm: term });
    await this.calls.toLeader(log, methods.keepWriter, request, signal);
  }

  /**
   * Ends the writer lease that was granted with a term: the first program in line gets it at once, or the one named to.
   * PRECONDITION: none of that name waits, and the lease stays. FENCED: the lease had ended.
   */
  async releaseWriter(log: string, term: number, { to = "", signal }: Bound & { to?: string } = {}): Promise<void> {
    whole("term", term);
    await releaseWriter(this.calls, ReleaseWriterRequest.fromPartial({ log, writerTerm: term, to }), signal);
  }

  /**
   * Yields which program has the writer lease of a log: now, after each change, and every interval (1 s; at least
   * 100 ms). It continues when another node leads the log. Each state is one that the log has had; a program may have
   * had the lease between two of them.
   */
  async *watchWriter(
    log: string,
    { intervalMs, signal }: Bound & { intervalMs?: number | undefined } = {},
  ): AsyncGenerator<WriterState> {
    span("intervalMs", intervalMs);
    const request = WatchWriterRequest.fromPartial({ log, interval: duration(intervalMs) });
    for await (const { state } of watchStates(this.calls, log, methods.watchWriter, request, {
      lasting: true,
      signal,
    })) {
      yield stateFromWire(state);
    }
  }

  /** Begins a session at epoch 0, sequence 0. The lease is 60 s if it is left out. */
  async openSession(
    log: string,
    { leaseMs, logId = 0, signal }: Bound & { leaseMs?: number | undefined; logId?: number } = {},
  ): Promise<Session> {
    whole("logId", logId);
    span("leaseMs", leaseMs);
    const request = OpenSessionRequest.fromPartial({ log, logId, lease: duration(leaseMs) });
    const answer = await this.calls.toLeader(log, methods.openSession, request, signal);
    const { sessionId: id, epoch, lease } = answer;
    return { id, epoch, leaseMs: milliseconds(lease) ?? 0, logId: answer.logId };
  }

  /** Renews the lease of a session. Every append does so too. */
  async keepSession(log: string, session: { id: string; logId?: number }, { signal }: Bound = {}): Promise<void> {
    decimal("id of the session", session.id);
    const request = KeepSessionRequest.fromPartial({ log, sessionId: session.id, logId: session.logId ?? 0 });
    await this.calls.toLeader(log, methods.keepSession, request, signal);
  }

  /** Ends a session: its appends are refused from then on. */
  async closeSession(log: string, session: { id: string; logId?: number }, { signal }: Bound = {}): Promise<void> {
    decimal("id of the session", session.id);
    const request = CloseSessionRequest.fromPartial({ log, sessionId: session.id, logId: session.logId ?? 0 });
    await this.calls.toLeader(log, methods.closeSession, request, signal);
  }

  /**
   * Returns what became of a record whose answer was lost: see {@link StrandlineError.position}. With
   * final, a record that is not in the log never will be: the session's epoch ends.
   */
  async resolve(
    log: string,
    at: Position,
    { final = false, signal }: Bound & { final?: boolean } = {},
  ): Promise<Resolution> {
    placed(at);
    const { logId, session: sessionId, epoch, next: sequence } = at;
    const request = ResolveRequest.fromPartial({ log, logId, sessionId: sessionId || "0", epoch, sequence, final });
    const answer = await this.calls.toLeader(log, methods.resolve, request, signal);
    // Of a state of a later version nothing is known.
    const state = states[answer.state] ?? "forgotten";
    return { state, offset: answer.offset, epoch: answer.epoch, next: answer.nextSequence };
  }

  /**
   * Ends the epoch of a position for good. The answer's next is how many records of it are in the log,
   * and no other ever will be: so a program that was restarted finds out where to resume.
   */
  endEpoch(log: string, at: Position, options: Bound = {}): Promise<Resolution> {
    return this.resolve(log, { ...at, next: Number.MAX_SAFE_INTEGER }, { ...options, final: true });
  }
}
