"""Where the replicas of a log are to be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from strandline.v1 import log_pb2


@dataclass(frozen=True)
class ReadReplicas:
    """Read replicas on nodes with a label. They follow the log for ever, count for no majority, and
    serve readers."""

    label: str
    """KEY=VALUE"""
    count: int = 1
    """1 to 16; 16 at the most of one log."""


@dataclass(frozen=True)
class PlacementRule:
    """Where the voters of a log are to be, where its leader and where read replicas, by the labels of
    nodes: KEY=VALUE, such as dc=fra. One that the nodes cannot keep is Precondition."""

    spread: str = ""
    """The key of a label: of three values or more none has more than half of the voters, of two both
    have one. Empty: voters need not be spread."""
    voters_in: Sequence[str] = ()
    """Voters are on nodes with one of these labels only; empty: on any."""
    voters_not_in: Sequence[str] = ()
    """Voters are on no node with one of these labels."""
    leader_homes: Sequence[str] = ()
    """Where the leader is to be, the best first. One voter at least is in the first."""
    read_replicas: Sequence[ReadReplicas] = ()
    """Beside the voters, on other nodes."""

    def _wire(self) -> log_pb2.PlacementRule:
        return log_pb2.PlacementRule(
            spread=self.spread,
            voters_in=self.voters_in,
            voters_not_in=self.voters_not_in,
            leader_homes=self.leader_homes,
            read_replicas=[log_pb2.ReadReplicas(label=r.label, count=r.count) for r in self.read_replicas],
        )

    @staticmethod
    def _read(w: log_pb2.PlacementRule) -> PlacementRule:
        return PlacementRule(
            spread=w.spread,
            voters_in=tuple(w.voters_in),
            voters_not_in=tuple(w.voters_not_in),
            leader_homes=tuple(w.leader_homes),
            read_replicas=tuple(ReadReplicas(r.label, r.count) for r in w.read_replicas),
        )
