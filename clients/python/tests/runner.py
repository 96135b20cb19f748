"""Drives the Python client as the scenarios say: one JSON object in each line, as the page
clients/scenarios/README.md describes. With --synchronous it drives the face without asyncio."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from typing import Any, cast

import strandline
from strandline import sync

Command = dict[str, Any]


def failed(error: BaseException) -> dict[str, Any]:
    if not isinstance(error, strandline.Error):
        return {"reason": "NOT_AN_ERROR_OF_THE_CLIENT", "message": f"{type(error).__name__}: {error}"}
    at = error.position or strandline.Position(epoch=error.epoch)
    return {
        "reason": error.reason,
        "message": error.message,
        "retryable": error.retryable,
        "outcome": error.outcome.name.lower(),
        "start": error.start_offset,
        "end": error.end_offset,
        "epoch": at.epoch,
        "session": at.session,
        "sequence": at.next,
        "log_id": at.log_id or error.log_id,
        "writer_term": error.writer_term,
        "leader": error.leader,
        "offset": error.offset,
        "key": text(error.key),
        "line": error.line,
        "column": error.column,
        "hold": holding(error.hold) if error.hold else None,
    }


def holding(hold: strandline.Hold) -> dict[str, Any]:
    return {
        "name": hold.name,
        "offset": hold.offset,
        "owner": hold.owner,
        "lease_ms": hold.lease / timedelta(milliseconds=1) if hold.lease else 0,
        "max_bytes": hold.max_bytes,
        "max_age_ms": hold.max_age / timedelta(milliseconds=1) if hold.max_age else 0,
        "pointer": hold.pointer.decode(errors="replace"),
        "pointer_hex": hold.pointer.hex(),
        "principal": hold.principal,
    }


def hold_of(c: Command) -> strandline.Hold:
    lease, age = c.get("lease_ms"), c.get("max_age_ms")
    return strandline.Hold(
        c["hold"],
        c.get("offset", 0),
        owner=c.get("owner", ""),
        lease=timedelta(milliseconds=lease) if lease else None,
        max_bytes=c.get("max_bytes", 0),
        max_age=timedelta(milliseconds=age) if age else None,
        pointer=pointer_of(c),
    )


def pointer_of(c: Command) -> bytes:
    return bytes.fromhex(c["pointer_hex"]) if "pointer_hex" in c else c.get("pointer", "").encode()


def claim_of(c: Command) -> strandline.WriterClaim:
    lease = timedelta(milliseconds=c["lease_ms"])
    return strandline.WriterClaim(c["name"], lease, c.get("payload", "").encode())


def shown_writer(state: strandline.WriterState) -> dict[str, Any]:
    shown: dict[str, Any] = {"writer_term": state.term, "waiting": state.waiting, "holder": None}
    if state.holder is not None and state.since is not None and state.left is not None:
        shown["holder"] = state.holder.name
        shown["payload"] = state.holder.payload.decode()
        shown["lease_ms"] = state.holder.lease / timedelta(milliseconds=1)
        shown["since_ms"] = state.since.timestamp() * 1000
        shown["left_ms"] = state.left / timedelta(milliseconds=1)
    return shown


def seconds(c: Command, name: str) -> float | None:
    return c[name] / 1000 if c.get(name) else None


def moment(c: Command, name: str) -> datetime | None:
    return datetime.fromtimestamp(c[name] / 1000, timezone.utc) if c.get(name) else None


def position(at: Command | None) -> strandline.Position | None:
    if not at:
        return None
    return strandline.Position(
        at.get("log_id", 0), at.get("session", 0), at.get("epoch", 0), at.get("next", 0)
    )


def shown(at: strandline.Position) -> dict[str, Any]:
    return {"log_id": at.log_id, "session": at.session, "epoch": at.epoch, "next": at.next}


def described(info: strandline.LogInfo) -> dict[str, Any]:
    retention = info.config.retention
    return {
        "name": info.name,
        "id": info.id,
        "start": info.start,
        "end": info.end,
        "writer_term": info.writer_term,
        "leader": info.leader,
        "sessions": info.open_sessions,
        "replicas": len(info.replicas),
        "retention_ms": retention / timedelta(milliseconds=1) if retention else 0,
        "retention_bytes": info.config.retention_bytes,
        "fenced": info.config.fenced,
        "revision": info.config.revision,
        "rule": dataclasses.asdict(info.config.rule) if info.config.rule else None,
        "holds": {hold.name: holding(hold) for hold in info.holds},
    }


def rule(given: dict[str, Any]) -> strandline.PlacementRule:
    readers = [strandline.ReadReplicas(**one) for one in given.get("read_replicas", ())]
    return strandline.PlacementRule(**{**given, "read_replicas": readers})


def headers(c: Command) -> list[tuple[str, bytes | None]]:
    return [(name, str(value).encode()) for name, value in c.get("headers", {}).items()]


def check(given: Command | None) -> strandline.Check | None:
    if given is None:
        return None
    return strandline.Check(
        given.get("since", 0),
        keys=[key.encode() for key in given.get("keys", ())],
        key_prefixes=[prefix.encode() for prefix in given.get("prefixes", ())],
        headers=headers(given),
    )


def producer_options(c: Command) -> dict[str, Any]:
    options: dict[str, Any] = {
        "max_in_flight": c.get("in_flight"),
        "max_in_flight_bytes": c.get("in_flight_bytes"),
        "linger": seconds(c, "linger_ms") or 0,
        "writer_term": c.get("writer_term", 0),
        "session": not c.get("no_session", False),
        "resume": position(c.get("resume")),
        "end_on_failure": c.get("end_on_failure", False),
        "timeout": seconds(c, "timeout_ms"),
    }
    for name, of in (("request_bytes", "max_request_bytes"), ("buffer_bytes", "buffer_bytes")):
        if name in c:
            options[of] = c[name]
    for name, of in (("record_timeout_ms", "record_timeout"),):
        if name in c:
            options[of] = seconds(c, name)
    if "lease_ms" in c:
        options["lease"] = c["lease_ms"] / 1000  # also 0
    return options


def reader_options(c: Command) -> dict[str, Any]:
    same = ("offset", "log_id", "max_records", "max_bytes", "until_offset", "at_least")
    flags = ("tail", "follow", "any_replica", "prefer_follower")
    options = {name: c[name] for name in same + flags if name in c}
    options["time"], options["until_time"] = moment(c, "time_ms"), moment(c, "until_time_ms")
    options["max_staleness"] = seconds(c, "max_staleness_ms")
    if "near" in c:
        options["nearest"] = c["near"] or True
    if "heartbeat_ms" in c:
        options["heartbeat"] = seconds(c, "heartbeat_ms")
    return options


class Handled:
    """What the handlers of a reader were called with."""

    def __init__(self) -> None:
        self.offset = self.end = 0
        self.failed: list[int] = []

    def progress(self, offset: int, end: int) -> None:
        self.offset, self.end = offset, end

    def leave_out(self, offset: int, why: str) -> None:
        self.failed.append(offset)

    async def reached(self, offset: int) -> dict[str, Any]:
        for _ in range(3000):
            if self.offset >= offset:
                return {"offset": self.offset, "end": self.end}
            await asyncio.sleep(0.01)
        raise TimeoutError(f"no progress to {offset}, only to {self.offset}")


def selection(c: Command, handled: Handled) -> dict[str, Any]:
    """What a reader wants of the records."""
    options: dict[str, Any] = {"on_progress": handled.progress}
    if any(name in c for name in ("keys", "prefixes", "headers", "where")):
        options["filter"] = strandline.Filter(
            keys=[key.encode() for key in c.get("keys", ())],
            key_prefixes=[prefix.encode() for prefix in c.get("prefixes", ())],
            headers=headers(c),
            where=c.get("where", ""),
            on_failed=handled.leave_out if c.get("skip_failed") else None,
        )
    if any(name in c for name in ("drop", "value_bytes", "json_fields")):
        drop = c.get("drop", ())
        options["projection"] = strandline.Projection(
            drop_key="key" in drop,
            drop_value="value" in drop,
            drop_headers="headers" in drop,
            value_bytes=c.get("value_bytes", 0),
            json_fields=c.get("json_fields", ()),
        )
    return options


def text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


class Turn(threading.local):
    """What a thread does as soon as the loop of a synchronous client has its call."""

    taken: Callable[[], object] | None = None


turn = Turn()
begin_in_loop = sync._Loop.start


def begin_in_turn(loop: sync._Loop, work: Coroutine[Any, Any, Any]) -> Future[Any]:
    future = begin_in_loop(loop, work)
    if turn.taken:
        turn.taken()
    return future


class Runner:
    """Carries out commands. call waits for what a method of either face returns."""

    def __init__(
        self, face: Any, call: Callable[..., Awaitable[Any]], leaks: Callable[[], list[str]]
    ) -> None:
        self.face, self.call, self.leaks = face, call, leaks
        self.clients: dict[str, Any] = {}
        self.producers: dict[str, Any] = {}
        self.readers: dict[str, Any] = {}
        self.handled: dict[str, Handled] = {}
        self.holds: dict[str, Any] = {}  # by log
        self.leases: dict[tuple[str, str], Any] = {}  # by log and name
        self.watches: dict[str, tuple[Any, list[str]]] = {}  # of writers, and what they have shown, by log
        self.tokens: dict[str, str] = {}  # that functions give, by client
        self.numbered = 0  # tokens with a number
        self.troubles: dict[str, list[Any]] = {}  # that clients have told of; None: its end

    def given(self, name: str) -> str:
        """The token that the function of a client gives."""
        token = self.tokens[name]
        if not token.endswith("#"):
            return token
        self.numbered += 1
        return f"{token[:-1]}{self.numbered}"

    async def do(self, c: Command) -> dict[str, Any] | None:
        do, timeout = c["do"], seconds(c, "timeout_ms")
        if do == "leaks":
            return await self.count_leaks()
        if do == "dial":
            self.clients[c["client"]] = await self.dial(c)
            return None
        if do == "show-token":
            self.tokens[c["client"]] = c["token"]
            return None
        if do == "await-trouble":
            return await self.trouble(self.troubles[c["client"]])
        client = self.clients[c["client"]]
        if do == "hang-up":
            await self.call(client.close)
        elif do == "producer":
            made = await self.call(client.producer, c["log"], **producer_options(c))
            self.producers[c["producer"]] = made
            return shown(made.position)
        elif do == "append":
            return {"records": await self.append(self.producers[c["producer"]], c["values"], timeout)}
        elif do == "batch":
            key = c["key"].encode() if "key" in c else None
            time = moment(c, "record_time_ms")
            values = [strandline.Record(v.encode(), key, headers(c), time) for v in c["values"]]
            offsets = await self.call(
                self.producers[c["producer"]].append_batch,
                values,
                expected_end=c.get("expected_end"),
                atomic=c.get("atomic", False),
                check=check(c.get("check")),
                timeout=timeout,
            )
            return {"offset": offsets[0]}
        elif do in ("flush", "close"):
            await self.call(getattr(self.producers[c["producer"]], do), timeout=timeout)
        elif do == "position":
            return shown(self.producers[c["producer"]].position)
        elif do == "reader":
            self.handled[c["reader"]] = handled = Handled()
            made = client.read(c["log"], **reader_options(c), **selection(c, handled))
            self.readers[c["reader"]] = made
            await self.call(made.open, timeout=timeout)
        elif do == "read":
            answer = await self.read(self.readers[c["reader"]], c["count"], timeout)
            return {**answer, "failed": self.handled[c["reader"]].failed}
        elif do == "await-progress":
            return await self.handled[c["reader"]].reached(c["offset"])
        elif do == "close-reader":
            await self.call(self.readers[c["reader"]].close)
        elif do == "leave-loop":
            return {"value": text(await self.first(client.read(c["log"], **reader_options(c))))}
        elif do in ("hold", "move-hold", "release-kept", "close-hold", "await-hold"):
            return await self.keep_hold(client, c, timeout)
        elif do in ("elect", "release-lease", "hand-over", "await-lease"):
            return await self.keep_lease(client, c, timeout)
        elif do in ("watch-writer", "close-watch"):
            return await self.watch_writer(client.admin, c)
        elif do == "digest":
            known = c.get("known", False)
            digest = await self.call(
                client.digest, c["log"], c.get("until_offset"), known=known, timeout=timeout
            )
            return dataclasses.asdict(digest) | {"hash": str(digest), "from": digest.from_offset}
        elif do == "prove":
            trusted = strandline.Digest.parse(c["hash"], c["until_offset"])
            known = c.get("known", False)
            r = await self.call(client.prove, c["log"], c["offset"], trusted, known=known, timeout=timeout)
            return {
                "offset": r.offset,
                "value": text(r.value),
                "key": text(r.key),
                "headers": ",".join(f"{k}={text(v) or ''}" for k, v in r.headers) or None,
                "time": round(r.timestamp.timestamp() * 1000),
            }
        elif do == "stats":
            stats = self.producers[c["producer"]].stats
            names = ("requests", "records", "bytes", "failed", "resent", "streams", "buffered_bytes")
            flying = ("in_flight_requests", "in_flight_records", "in_flight_bytes")
            counted = {name: getattr(stats, name) for name in (*names, *flying)}
            return counted | {
                "request_records": stats.request_records.quantile(1),
                "request_bytes": stats.request_bytes.quantile(1),
                "latency_us": stats.latency.quantile(1),
            }
        elif do == "end":
            asked = (self.call(client.end, c["log"], timeout=timeout) for _ in range(c.get("callers", 1)))
            return {"end": min(await asyncio.gather(*asked))}
        else:
            return await self.administer(client.admin, c, timeout)
        return None

    async def dial(self, c: Command) -> Any:
        name = c["client"]
        heard = self.troubles[name] = []
        options = {
            "retry_time": c.get("retry_ms", 5000) / 1000,
            "on_trouble": lambda _, error: heard.append(error),
        }
        if "environment" in c:
            return await self.call(self.face.Client.from_environment, c["environment"], **options)
        token = c.get("token")
        if "token_function" in c:
            self.tokens[name] = c["token_function"]
            token = lambda: self.given(name)  # noqa: E731
        tls = None
        if "authority" in c:
            tls = strandline.TLS(c["authority"], c.get("certificate"), c.get("key"))
        return await self.call(self.face.Client, c["addresses"], tls=tls, token=token, **options)

    async def keep_hold(self, client: Any, c: Command, timeout: float | None) -> dict[str, Any]:
        do, log = c["do"], c["log"]
        if do == "hold":
            tail = c.get("tail", False)
            self.holds[log] = await self.call(client.hold, log, hold_of(c), from_end=tail, timeout=timeout)
        kept = self.holds[log]
        if do == "move-hold":
            await self.call(kept.move, c["offset"], pointer_of(c), timeout=timeout)
        elif do == "release-kept":
            await self.call(kept.release, timeout=timeout)
        elif do == "close-hold":
            await self.call(kept.close)
        elif do == "await-hold":
            error = await self.call(kept.wait)
            return {"reason": error.reason if error else ""}
        return {"offset": kept.hold.offset}

    async def keep_lease(self, client: Any, c: Command, timeout: float | None) -> dict[str, Any] | None:
        do, of = c["do"], (c["log"], c["name"])
        if do == "elect":
            began = time.monotonic()
            lease = await self.call(client.lease_writer, c["log"], claim_of(c), timeout=timeout)
            self.leases[of] = lease
            waited = (time.monotonic() - began) * 1000
            return {"writer_term": lease.term, "end": lease.end, "waited_ms": waited}
        lease = self.leases[of]
        if do == "release-lease":
            await self.call(lease.release, timeout=timeout)
        elif do == "hand-over":
            await self.call(lease.hand_over, c["to"], timeout=timeout)
        elif do == "await-lease":
            error = await self.call(lease.wait)
            return {"reason": error.reason if error else ""}
        return None

    async def watch_writer(self, admin: Any, c: Command) -> dict[str, Any] | None:
        """Continues to watch the writer of a log until its state is as it is to be."""
        log = c["log"]
        if c["do"] == "close-watch":
            watch, _ = self.watches.pop(log)
            await (watch.aclose() if self.face is strandline else self.call(watch.close))
            return None
        if log not in self.watches:
            self.watches[log] = (admin.watch_writer(log, seconds(c, "interval_ms")), [])
        watch, seen = self.watches[log]
        while True:
            state = await (anext(watch) if self.face is strandline else self.call(next, watch))
            now = f"{state.term}:{state.holder.name if state.holder else '-'}"
            if not seen or seen[-1] != now:
                seen.append(now)
            if (
                state.term >= c.get("until_term", 0)
                and c.get("until_held") in (None, state.holder is not None)
                and c.get("until_waiting") in (None, state.waiting)
            ):
                return {**shown_writer(state), "seen": seen}

    async def trouble(self, heard: list[Any]) -> dict[str, Any]:
        """Waits until a client has told of trouble and of its end."""
        for _ in range(6000):
            if heard and heard[-1] is None:
                break
            await asyncio.sleep(0.01)
        return {"reason": heard[0].reason, "retryable": heard[0].retryable}

    async def append(self, producer: Any, values: list[str], timeout: float | None) -> list[dict[str, Any]]:
        async def result(appended: Awaitable[int]) -> dict[str, Any]:
            try:
                return {"offset": await appended}
            except Exception as error:
                return {"error": failed(error)}

        def send(value: str) -> Future[int]:
            try:
                return cast("Future[int]", producer.send(value.encode()))
            except Exception as error:
                refused: Future[int] = Future()
                refused.set_exception(error)
                return refused

        async def begin_in_thread(value: str) -> asyncio.Future[int]:
            """Returns when the loop has the call: threads that begin together have no order."""
            loop, taken = asyncio.get_running_loop(), asyncio.Event()

            def append() -> int:
                turn.taken = lambda: loop.call_soon_threadsafe(taken.set)
                try:
                    return cast(int, producer.append(value.encode(), timeout=timeout))
                finally:
                    turn.taken()
                    turn.taken = None

            begun: asyncio.Future[int] = asyncio.ensure_future(self.call(append))
            await taken.wait()
            return begun

        async def begin(value: str) -> asyncio.Future[int]:
            if self.face is strandline:
                return asyncio.ensure_future(self.call(producer.append, value.encode(), timeout=timeout))
            if timeout is not None:
                return await begin_in_thread(value)
            return asyncio.wrap_future(send(value))  # the next command finds it accepted

        all_begun = [await begin(v) for v in values]
        return [await result(begun) for begun in all_begun]

    async def read(self, reader: Any, count: int, timeout: float | None) -> dict[str, Any]:
        got: list[strandline.Record] = []
        answer: dict[str, Any] = {"ended": False}
        while len(got) < count:
            try:
                record = await self.call(reader.next, timeout=timeout)
            except strandline.Error as error:
                if not got:
                    raise
                answer["then"] = failed(error)
                break
            if record is None:
                answer["ended"] = True
                break
            got.append(record)
        answer["offsets"] = [r.offset for r in got]
        answer["values"] = [text(r.value) for r in got]
        answer["keys"] = [text(r.key) for r in got]
        answer["headers"] = [",".join(f"{k}={text(v) or ''}" for k, v in r.headers) or None for r in got]
        answer["times"] = [int(r.timestamp.timestamp() * 1000) for r in got if r.timestamp]
        answer["log_id"], answer["next"], answer["end"] = reader.log_id, reader.offset, reader.end
        answer["age_ms"] = None if reader.age is None else reader.age * 1000
        return answer

    async def first(self, reader: Any) -> bytes | None:
        """The first value of a loop that is left there."""
        if self.face is strandline:
            async for record in reader:
                return cast("strandline.Record", record).value
            return None

        def loop() -> bytes | None:
            for record in reader:
                return cast("strandline.Record", record).value
            return None

        return cast("bytes | None", await self.call(loop))

    async def watch(self, admin: Any, c: Command) -> dict[str, Any]:
        """Watches a log until it ends where it is to."""
        interval = seconds(c, "interval_ms")
        if self.face is strandline:
            async with contextlib.aclosing(admin.watch_info(c["log"], interval)) as infos:
                return await anext(described(info) async for info in infos if info.end >= c["until_end"])

        def watch() -> dict[str, Any]:
            with contextlib.closing(admin.watch_info(c["log"], interval)) as infos:
                return next(described(info) for info in infos if info.end >= c["until_end"])

        return dict(await self.call(watch))

    async def administer(self, admin: Any, c: Command, timeout: float | None) -> dict[str, Any] | None:
        do, log, at = c["do"], c["log"], position(c.get("at")) or strandline.Position()
        config = strandline.LogConfig(
            retention=timedelta(milliseconds=c["retention_ms"]) if c.get("retention_ms") else None,
            retention_bytes=c.get("retention_bytes", 0),
            replicas=c.get("replicas", 0),
            fenced=c.get("fenced", False),
            revision=c.get("revision", 0),
            rule=rule(c["rule"]) if "rule" in c else None,
        )
        if do in ("create", "configure"):
            return described(await self.call(getattr(admin, do + "_log"), log, config, timeout=timeout))
        if do == "info":
            return described(await self.call(admin.info, log, timeout=timeout))
        if do == "watch":
            return await self.watch(admin, c)
        if do == "list":
            logs = await self.call(admin.list_logs, timeout=timeout)
            return {"logs": {info.name: described(info) for info in logs}}
        if do == "delete":
            await self.call(admin.delete_log, log, timeout=timeout)
            return None
        if do == "trim":
            start, end = await self.call(
                admin.trim, log, c["before"], fast_forward=c.get("fast_forward", False), timeout=timeout
            )
            return {"start": start, "end": end}
        if do == "set-hold":
            start, tail = c.get("from_start", False), c.get("tail", False)
            offset, end = await self.call(
                admin.set_hold, log, hold_of(c), from_start=start, from_end=tail, timeout=timeout
            )
            return {"offset": offset, "end": end}
        if do in ("keep-hold", "release-hold"):
            await self.call(getattr(admin, do.replace("-", "_")), log, c["hold"], timeout=timeout)
            return None
        if do == "acquire-writer":
            term, end = await self.call(admin.acquire_writer, log, timeout=timeout)
            return {"writer_term": term, "end": end}
        if do == "lease-writer":
            wait = c.get("wait_ms", 0) / 1000
            grant = await self.call(admin.lease_writer, log, claim_of(c), wait=wait, timeout=timeout)
            return {**shown_writer(grant.state), "writer_term": grant.term, "end": grant.end}
        if do == "keep-writer":
            await self.call(admin.keep_writer, log, c["writer_term"], timeout=timeout)
            return None
        if do == "release-writer":
            to = c.get("to", "")
            await self.call(admin.release_writer, log, c["writer_term"], to=to, timeout=timeout)
            return None
        if do in ("resolve", "end-epoch"):
            if do == "resolve":
                found = await self.call(admin.resolve, log, at, final=c.get("final", False), timeout=timeout)
            else:
                found = await self.call(admin.end_epoch, log, at, timeout=timeout)
            return {
                "state": found.state.name.lower().replace("_", " "),
                "offset": found.offset,
                "epoch": found.epoch,
                "next": found.next,
                "known": found.next is not None,
            }
        if do == "open-session":
            s = await self.call(admin.open_session, log, lease=seconds(c, "lease_ms"), timeout=timeout)
            return {"session": s.id, "epoch": s.epoch, "log_id": s.log_id, "lease_ms": s.lease * 1000}
        if do in ("keep-session", "close-session"):
            verb = getattr(admin, do.replace("-", "_"))
            await self.call(verb, log, at.session, log_id=at.log_id, timeout=timeout)
            return None
        raise ValueError(f"unknown command {do!r}")

    async def count_leaks(self) -> dict[str, Any]:
        """What the client has left running once all is closed; it may take a moment to end."""
        left: list[str] = []
        until = time.monotonic() + 30
        while time.monotonic() < until:
            left = self.leaks()
            if not left:
                break
            await asyncio.sleep(0.02)
        return {"leaks": len(left), "where": left}


async def waits(method: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Calls a method of the face with asyncio."""
    made = method(*args, **options)
    return await made if asyncio.iscoroutine(made) else made


async def main() -> None:
    loop = asyncio.get_running_loop()
    own: set[asyncio.Task[None]] = set()
    threads = ThreadPoolExecutor(64, thread_name_prefix="runner")

    async def in_thread(method: Callable[..., Any], *args: Any, **options: Any) -> Any:
        return await loop.run_in_executor(threads, lambda: method(*args, **options))

    def tasks() -> list[str]:
        running = asyncio.current_task()
        return [
            repr(t) for t in asyncio.all_tasks() if t not in own and t is not running and t is not reading
        ]

    def client_threads() -> list[str]:
        return [t.name for t in threading.enumerate() if t.name.startswith("strandline")]

    if "--synchronous" in sys.argv:
        setattr(sync._Loop, "start", begin_in_turn)  # noqa: B010
        runner = Runner(sync, in_thread, client_threads)
    else:
        runner = Runner(strandline, waits, tasks)
    reading = asyncio.current_task()

    async def carry_out(c: Command) -> None:
        answer: dict[str, Any] = {"id": c["id"]}
        try:
            answer["value"] = await runner.do(c)
        except Exception as error:
            answer["error"] = failed(error)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()

    while line := await loop.run_in_executor(None, sys.stdin.readline):
        task = loop.create_task(carry_out(json.loads(line)))
        own.add(task)
        task.add_done_callback(own.discard)
    await asyncio.gather(*own)


if __name__ == "__main__":
    asyncio.run(main())
