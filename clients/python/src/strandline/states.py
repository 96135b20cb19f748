"""Streams on which a node shows a state of a log as it changes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from typing import Any, TypeVar

import grpc
from google.protobuf.message import Message

from strandline.calls import PATHS, Calls, Shown, ToLeader
from strandline.peers import Pauses, Peer

A = TypeVar("A", bound=Message)

_QUIET_AFTER = 2.0
"""How long, in seconds, a stream that is to last may be without a state before its node is suspected."""

_BRIEF = 1.0
"""How long, in seconds, a stream lasts that is opened again after a pause: a node that ends each after its
first state would be called as fast as it answers."""


async def states(
    calls: Calls, log: str, method: str, request: Message, answer: type[A], *, lasting: bool = False
) -> AsyncGenerator[A, None]:
    """Yields what a node shows, of which the first answer is a part of finding one. With lasting the stream
    is opened again when it breaks, or its node is silent or leads the log no longer. Otherwise that ends it
    with an error."""
    shown = Shown(calls)

    async def next_of(peer: Peer, call: Any) -> Any:
        try:
            if lasting:
                return await calls.answered(peer, log, call.read(), leads=True, quiet=_QUIET_AFTER)
            return await calls.answered(peer, log, call.read())
        except asyncio.CancelledError as error:
            if calls.hung_up():
                raise calls.failure(error) from None
            raise

    async def begin(peer: Peer) -> tuple[Peer, Any, Any]:
        call = peer.channel.unary_stream(
            PATHS[method],
            request_serializer=type(request).SerializeToString,
            response_deserializer=answer.FromString,
        )(request, metadata=shown.metadata())
        try:
            return peer, call, await next_of(peer, call)
        except Exception as error:
            call.cancel()
            raise shown.failure(calls.failure(error)) from None
        except BaseException:
            call.cancel()
            raise

    pauses = Pauses()
    while True:
        opened = time.monotonic()
        peer, call, state = await calls.by(ToLeader(calls, log), begin)
        if state is grpc.aio.EOF:
            return
        try:
            while state is not grpc.aio.EOF:
                shown.progressed()
                yield state
                state = await next_of(peer, call)
            if not lasting:
                return
        except Exception as error:
            failure = shown.failure(calls.failure(error))
            if not (failure.renewed or (lasting and failure.again)):
                raise failure from None
            if failure.elsewhere:
                calls.peers.look_elsewhere(log, peer, failure.leader)
        finally:
            call.cancel()
        if time.monotonic() - opened < _BRIEF:
            await pauses.wait(peer)
        else:
            pauses = Pauses()
