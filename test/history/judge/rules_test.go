package judge

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/test/history"
)

// story is a history that breaks a rule, or one that just does not.
type story struct {
	rule   string
	claim  string
	breaks bool
	write  func(h *historyWriter)
}

var stories = []story{
	{"lost", "an acknowledged record's place holds another", true, func(h *historyWriter) {
		other := h.append(one(2))
		h.acked(0, one(1))
		h.stale(0, 1, 2)
		other.Return(history.Event{Outcome: history.Unknown})
	}},
	{"lost", "a record is acknowledged where another was read", true, func(h *historyWriter) {
		h.append(one(2))
		mine := h.append(one(1))
		h.stale(0, 1, 2)
		mine.Return(ok(0))
	}},
	{"lost", "the replicas end below what was acknowledged", true, func(h *historyWriter) {
		h.acked(0, one(1))
		h.Note(history.Event{Kind: history.Replica, Log: "orders", Node: "n1", End: new(int64(0))})
	}},
	{"lost", "it is there, on one replica at least", false, func(h *historyWriter) {
		h.acked(0, one(1))
		h.read(0, 1, 1)
		h.Note(history.Event{Kind: history.Replica, Log: "orders", Node: "n1", End: new(int64(0))})
		h.Note(history.Event{Kind: history.Replica, Log: "orders", Node: "n2", End: new(int64(1))})
	}},

	{"one-value", "two readers see two values", true, func(h *historyWriter) {
		h.append(one(1))
		h.append(one(2))
		h.stale(0, 1, 1)
		h.stale(0, 1, 2)
	}},
	{"one-value", "two appends get one offset", true, func(h *historyWriter) {
		a, b := h.append(one(1)), h.append(one(2))
		a.Return(ok(0))
		b.Return(ok(0))
	}},
	{"one-value", "two readers see the same", false, func(h *historyWriter) {
		h.append(one(1))
		h.append(one(2))
		h.stale(0, 2, 2, 1)
		h.stale(1, 2, 1)
	}},

	{"invented", "a record without an author", true, func(h *historyWriter) {
		h.stale(0, 1, 1)
	}},
	{"invented", "a record that is read before its append begins", true, func(h *historyWriter) {
		read := h.begin(history.Read, history.Event{})
		read.Frame(history.Event{First: new(int64(0)), Hashes: history.Hashes{1}})
		h.append(one(1))
	}},
	{"invented", "a record whose append has begun", false, func(h *historyWriter) {
		read := h.begin(history.Read, history.Event{})
		h.append(one(1))
		read.Frame(history.Event{First: new(int64(0)), Hashes: history.Hashes{1}})
	}},

	{"failed", "what failed is read", true, func(h *historyWriter) {
		h.append(one(1)).Return(refused("FULL"))
		h.read(0, 1, 1)
	}},
	{"failed", "what was read failed", true, func(h *historyWriter) {
		c := h.append(one(1))
		h.read(0, 1, 1)
		c.Return(refused("FULL"))
	}},
	{"failed", "one attempt failed, the next did not", false, func(h *historyWriter) {
		h.append(in(0, 0, 1)).Return(refused("NOT_LEADER"))
		h.acked(0, in(0, 0, 1))
		h.read(0, 1, 1)
	}},
	{"failed", "what is unknown may be there", false, func(h *historyWriter) {
		h.append(one(1)).Return(history.Event{Outcome: history.Unknown})
		h.read(0, 1, 1)
	}},

	{"once", "a record of a session is at two offsets", true, func(h *historyWriter) {
		h.append(in(0, 0, 1)).Return(history.Event{Outcome: history.Unknown})
		h.acked(1, in(0, 0, 1))
		h.stale(0, 1, 1)
	}},
	{"once", "a record appended once is there twice", true, func(h *historyWriter) {
		h.append(one(1))
		h.read(0, 2, 1, 1)
	}},
	{"once", "a record without a session is sent twice and there twice", false, func(h *historyWriter) {
		h.append(one(1)).Return(history.Event{Outcome: history.Unknown})
		h.acked(1, one(1))
		h.read(0, 2, 1, 1)
	}},
	{"once", "a record of a session is sent twice and answered the same", false, func(h *historyWriter) {
		h.acked(0, in(0, 0, 1))
		h.acked(0, in(0, 0, 1))
	}},
	{"once", "what was never to be is there", true, func(h *historyWriter) {
		h.append(in(0, 0, 1))
		h.begin(history.Resolve, history.Event{Session: 7}).Return(history.Event{Outcome: history.OK, State: history.Never})
		h.read(0, 1, 1)
	}},
	{"once", "what was resolved is elsewhere", true, func(h *historyWriter) {
		h.append(one(2))
		h.append(in(0, 0, 1))
		h.begin(history.Resolve, history.Event{Session: 7}).Return(history.Event{Outcome: history.OK, State: history.Committed, First: new(int64(1))})
		h.stale(0, 2, 1, 2)
	}},
	{"once", "what was resolved is there", false, func(h *historyWriter) {
		h.append(one(2))
		h.append(in(0, 0, 1))
		h.begin(history.Resolve, history.Event{Session: 7}).Return(history.Event{Outcome: history.OK, State: history.Committed, First: new(int64(1))})
		h.stale(0, 2, 2, 1)
	}},
	{"once", "what is never to be is not there", false, func(h *historyWriter) {
		h.append(in(0, 0, 1))
		h.begin(history.Resolve, history.Event{Session: 7}).Return(history.Event{Outcome: history.OK, State: history.Never})
		h.acked(0, in(1, 0, 1))
		h.read(0, 1, 1)
	}},

	{"order", "a session's records change places", true, func(h *historyWriter) {
		h.append(in(0, 0, 1))
		h.append(in(0, 1, 2))
		h.read(0, 2, 2, 1)
	}},
	{"order", "a session's record slips ahead of one that is missing", true, func(h *historyWriter) {
		h.append(in(0, 0, 1))
		h.append(in(0, 1, 2))
		h.append(in(0, 2, 3))
		h.read(0, 2, 1, 3)
	}},
	{"order", "a session does not begin with its first", true, func(h *historyWriter) {
		h.append(in(0, 1, 2))
		h.read(0, 1, 2)
	}},
	{"order", "an epoch comes back", true, func(h *historyWriter) {
		h.append(in(0, 0, 1))
		h.append(in(1, 0, 2))
		h.read(0, 2, 2, 1)
	}},
	{"order", "one that is missing may be in a place that nobody read", false, func(h *historyWriter) {
		h.append(in(0, 0, 1))
		h.append(in(0, 1, 2))
		h.append(in(0, 2, 3))
		h.append(in(1, 0, 4))
		h.stale(0, 4, 1)
		h.stale(2, 4, 3, 4)
	}},
	{"order", "a lane's records change places", true, func(h *historyWriter) {
		h.append(lane(0, 1))
		h.append(lane(1, 2))
		h.read(0, 2, 2, 1)
	}},
	{"order", "a lane's record slips ahead of one that fails after it was sent", true, func(h *historyWriter) {
		h.acked(0, lane(0, 1))
		first := h.append(lane(1, 2))
		second := h.append(lane(2, 3))
		first.Return(refused("FULL"))
		second.Return(ok(1))
	}},
	{"order", "a lane goes on after one that failed", false, func(h *historyWriter) {
		h.acked(0, lane(0, 1))
		h.append(lane(1, 2)).Return(refused("TOO_LARGE"))
		h.acked(1, lane(2, 3))
	}},

	{"real-time", "an append lands before one that was acknowledged when it began", true, func(h *historyWriter) {
		h.acked(1, one(1))
		h.acked(0, one(2))
	}},
	{"real-time", "an append lands below an end that was told", true, func(h *historyWriter) {
		h.info(0, 1)
		h.acked(0, one(1))
	}},
	{"real-time", "appends at the same time come in any order", false, func(h *historyWriter) {
		late := h.append(one(2))
		h.acked(1, one(1))
		late.Return(ok(0))
	}},
	{"real-time", "an append that is sent again may have landed the first time", false, func(h *historyWriter) {
		h.append(in(0, 0, 2)).Return(history.Event{Outcome: history.Unknown})
		h.acked(1, one(1))
		h.acked(0, in(0, 0, 2))
	}},

	{"gapless", "a frame leaves one out", true, func(h *historyWriter) {
		h.acked(0, history.Event{Hashes: history.Hashes{1, 2, 3}})
		read := h.begin(history.Read, history.Event{From: new(int64(0))})
		read.Frame(history.Event{First: new(int64(0)), Hashes: history.Hashes{1}})
		read.Frame(history.Event{First: new(int64(2)), Hashes: history.Hashes{3}})
	}},
	{"gapless", "a read does not begin where it was to", true, func(h *historyWriter) {
		h.acked(0, history.Event{Hashes: history.Hashes{1, 2, 3}})
		h.begin(history.Read, history.Event{From: new(int64(0))}).Frame(history.Event{First: new(int64(1)), Hashes: history.Hashes{2}})
	}},
	{"gapless", "a read ends before the end that it tells", true, func(h *historyWriter) {
		h.acked(0, history.Event{Hashes: history.Hashes{1, 2, 3}})
		h.begin(history.Read, history.Event{From: new(int64(0))}).Return(history.Event{Outcome: history.OK, End: new(int64(3))})
	}},
	{"gapless", "the end goes back within a read", true, func(h *historyWriter) {
		read := h.begin(history.Read, history.Event{Consistency: history.Any})
		read.Frame(history.Event{First: new(int64(0)), End: new(int64(2))})
		read.Frame(history.Event{First: new(int64(0)), End: new(int64(1))})
	}},
	{"gapless", "frames follow one another, and another read begins elsewhere", false, func(h *historyWriter) {
		h.acked(0, history.Event{Hashes: history.Hashes{1, 2, 3}})
		read := h.begin(history.Read, history.Event{From: new(int64(0))})
		read.Frame(history.Event{First: new(int64(0)), End: new(int64(3)), Hashes: history.Hashes{1}})
		h.read(2, 3, 3)
		read.Frame(history.Event{First: new(int64(1)), End: new(int64(3)), Hashes: history.Hashes{2, 3}})
		read.Return(history.Event{Outcome: history.OK, End: new(int64(3))})
	}},

	{"commit", "a frame goes beyond its end", true, func(h *historyWriter) {
		h.append(one(1))
		h.stale(0, 0, 1)
	}},
	{"commit", "what was shown is gone", true, func(h *historyWriter) {
		h.append(one(1))
		h.stale(0, 1, 1)
		h.info(0, 0)
	}},
	{"commit", "what was shown is on no replica", true, func(h *historyWriter) {
		h.append(one(1))
		h.stale(0, 1, 1)
		h.Note(history.Event{Kind: history.Replica, Log: "orders", Node: "n1", End: new(int64(0))})
	}},
	{"commit", "a read that began before may not know", false, func(h *historyWriter) {
		h.append(one(1))
		info := h.begin(history.Info, history.Event{})
		h.stale(0, 1, 1)
		info.Return(history.Event{Outcome: history.OK, End: new(int64(0))})
	}},

	{"linearizable", "an append is not known that was acknowledged before", true, func(h *historyWriter) {
		h.acked(0, one(1))
		h.info(0, 0)
	}},
	{"linearizable", "a read knows less than the offset it named", true, func(h *historyWriter) {
		h.frames(history.Event{Consistency: history.AtLeast, Least: 2}, 0, 1, nil)
	}},
	{"linearizable", "an append is not known that was acknowledged later", false, func(h *historyWriter) {
		info := h.begin(history.Info, history.Event{})
		h.acked(0, one(1))
		info.Return(history.Event{Outcome: history.OK, End: new(int64(0))})
		h.stale(0, 0)
		h.frames(history.Event{Consistency: history.AtLeast, Least: 1}, 0, 1, nil)
	}},

	{"trim", "what was trimmed is read", true, func(h *historyWriter) {
		h.acked(0, history.Event{Hashes: history.Hashes{1, 2}})
		h.trim(1)
		h.read(0, 2, 1, 2)
	}},
	{"trim", "what was trimmed comes back", true, func(h *historyWriter) {
		h.acked(0, history.Event{Hashes: history.Hashes{1, 2}})
		h.trim(1)
		h.info(0, 2)
	}},
	{"trim", "more is gone than anybody asked for", true, func(h *historyWriter) {
		h.acked(0, history.Event{Hashes: history.Hashes{1, 2}})
		h.begin(history.Trim, history.Event{Before: 1})
		h.info(2, 2)
	}},
	{"trim", "a trim is done and the start is lower", true, func(h *historyWriter) {
		h.begin(history.Trim, history.Event{Before: 2}).Return(history.Event{Outcome: history.OK, Start: new(int64(1))})
	}},
	{"trim", "a node that need not be fresh still shows it, and servers trim by themselves", false, func(h *historyWriter) {
		h.Note(history.Event{Kind: history.Log, Log: "orders", Retention: true})
		h.acked(0, history.Event{Hashes: history.Hashes{1, 2}})
		h.trim(1)
		h.stale(0, 2, 1, 2)
		h.info(2, 2)
	}},
	{"trim", "a trim that failed is done", true, func(h *historyWriter) {
		h.acked(0, history.Event{Hashes: history.Hashes{1, 2}})
		h.begin(history.Trim, history.Event{Before: 2}).Return(refused("OFFSET_BEYOND_END"))
		h.info(1, 2)
	}},
	{"trim", "a trim that was done fails", true, func(h *historyWriter) {
		h.acked(0, history.Event{Hashes: history.Hashes{1, 2}})
		trim := h.begin(history.Trim, history.Event{Before: 2})
		h.info(2, 2)
		trim.Return(refused("NOT_LEADER"))
	}},
	{"trim", "of two trims to one offset one failed", false, func(h *historyWriter) {
		h.acked(0, history.Event{Hashes: history.Hashes{1, 2}})
		first, second := h.begin(history.Trim, history.Event{Before: 2}), h.begin(history.Trim, history.Event{Before: 2})
		first.Return(refused("NOT_LEADER"))
		h.info(2, 2)
		second.Return(history.Event{Outcome: history.Unknown})
	}},
	{"trim", "it may be done before it is answered", false, func(h *historyWriter) {
		h.acked(0, history.Event{Hashes: history.Hashes{1, 2}})
		trim := h.begin(history.Trim, history.Event{Before: 1})
		h.info(1, 2)
		trim.Return(history.Event{Outcome: history.OK, Start: new(int64(1))})
		h.read(1, 2, 2)
	}},

	{"ended", "a session takes an append after its close", true, func(h *historyWriter) {
		h.begin(history.CloseSession, history.Event{Session: 7}).Return(history.Event{Outcome: history.OK})
		h.acked(0, in(0, 0, 1))
	}},
	{"ended", "an expired session comes back", true, func(h *historyWriter) {
		h.acked(0, in(0, 0, 1))
		h.append(in(0, 1, 2)).Return(refused("SESSION_EXPIRED"))
		h.acked(1, in(0, 1, 2))
	}},
	{"ended", "a session's number is given twice", true, func(h *historyWriter) {
		h.begin(history.OpenSession, history.Event{}).Return(history.Event{Outcome: history.OK, Session: 7})
		h.begin(history.OpenSession, history.Event{}).Return(history.Event{Outcome: history.OK, Session: 7})
	}},
	{"ended", "an append that began before the end may land, and be asked for again", false, func(h *historyWriter) {
		early := h.append(in(0, 0, 1))
		h.begin(history.CloseSession, history.Event{Session: 7}).Return(history.Event{Outcome: history.OK})
		early.Return(history.Event{Outcome: history.Unknown})
		h.acked(0, in(0, 0, 1))
	}},

	{"hold", "the log begins behind a hold", true, func(h *historyWriter) {
		h.setHold(5, 0)
		h.trim(6)
	}},
	{"hold", "the log begins behind where a hold may be at most", true, func(h *historyWriter) {
		h.setHold(5, 0)
		h.begin(history.SetHold, history.Event{Hold: "h", From: new(int64(8))}).Return(history.Event{Outcome: history.Unknown})
		h.trim(9)
	}},
	{"hold", "the log begins behind a hold whose lease was renewed", true, func(h *historyWriter) {
		h.setHold(5, 1000)
		h.now += 600e6
		h.begin(history.KeepHold, history.Event{Hold: "h"}).Return(history.Event{Outcome: history.OK})
		h.now += 600e6
		h.trim(6)
	}},
	{"hold", "a hold is gone within its lease", true, func(h *historyWriter) {
		h.setHold(5, 1000)
		h.begin(history.KeepHold, history.Event{Hold: "h"}).Return(refused("HOLD_NOT_FOUND"))
	}},
	{"hold", "a hold is gone after its lease, and the log begins behind it", false, func(h *historyWriter) {
		h.setHold(5, 1000)
		h.now += 900e6
		h.trim(6)
		h.begin(history.KeepHold, history.Event{Hold: "h"}).Return(refused("HOLD_NOT_FOUND"))
	}},
	{"hold", "a hold was moved, may have been, or is released", false, func(h *historyWriter) {
		h.setHold(5, 0)
		h.setHold(6, 0)
		h.trim(6)
		h.begin(history.SetHold, history.Event{Hold: "h", From: new(int64(8))}).Return(history.Event{Outcome: history.Unknown})
		h.trim(7)
		h.begin(history.ReleaseHold, history.Event{Hold: "h"})
		h.trim(9)
	}},

	{"group", "a group finds less than it has committed", true, func(h *historyWriter) {
		h.commits(5, history.Event{Outcome: history.OK})
		h.groupOffset(new(int64(5)))
		h.commits(7, history.Event{Outcome: history.OK})
		h.groupOffset(new(int64(5)))
	}},
	{"group", "a group finds nothing of what it has committed", true, func(h *historyWriter) {
		h.commits(5, history.Event{Outcome: history.OK})
		h.groupOffset(nil)
	}},
	{"group", "what was found is not found again", true, func(h *historyWriter) {
		h.commits(5, history.Event{Outcome: history.OK})
		h.commits(7, history.Event{Outcome: history.Unknown})
		h.groupOffset(new(int64(7)))
		h.groupOffset(new(int64(5)))
	}},
	{"group", "a member commits less than was committed before", true, func(h *historyWriter) {
		h.commits(7, history.Event{Outcome: history.OK})
		h.commits(5, history.Event{Outcome: history.OK})
	}},
	{"group", "a group finds what nobody has committed", true, func(h *historyWriter) {
		h.groupOffset(new(int64(5)))
	}},
	{"group", "a group finds what is newest, or may be", false, func(h *historyWriter) {
		h.groupOffset(nil)
		h.commits(5, history.Event{Outcome: history.OK})
		h.commits(7, history.Event{Outcome: history.Unknown})
		h.groupOffset(new(int64(5)))
		h.groupOffset(new(int64(7)))
	}},

	{"digest", "two nodes have other digests of the same records", true, func(h *historyWriter) {
		h.digest("n1", 5, "aa")
		h.digest("n2", 5, "bb")
	}},
	{"digest", "they have other digests of other records", false, func(h *historyWriter) {
		h.digest("n1", 5, "aa")
		h.digest("n2", 5, "aa")
		h.digest("n2", 6, "bb")
	}},

	{"ended", "an epoch takes an append after its end", true, func(h *historyWriter) {
		h.begin(history.EndEpoch, history.Event{Session: 7}).Return(history.Event{Outcome: history.OK})
		h.acked(0, in(0, 0, 1))
	}},
	{"ended", "the next epoch takes one", false, func(h *historyWriter) {
		h.begin(history.EndEpoch, history.Event{Session: 7}).Return(history.Event{Outcome: history.OK})
		h.acked(0, in(1, 0, 1))
	}},
	{"ended", "the first record of an implicit session opens it, after another was refused", false, func(h *historyWriter) {
		second := in(0, 1, 2)
		second.Implicit = true
		h.append(second).Return(refused("SESSION_NOT_FOUND"))
		h.acked(0, implicit(0, 1))
		h.acked(1, second)
	}},

	{"lease", "a session ends within its lease", true, func(h *historyWriter) {
		h.open(1000)
		h.acked(0, in(0, 0, 1))
		h.now += 700e6
		h.append(in(0, 1, 2)).Return(refused("SESSION_EXPIRED"))
	}},
	{"lease", "a session ends within its lease, as was told to one who kept it", true, func(h *historyWriter) {
		h.open(1000)
		h.now += 900e6
		h.begin(history.KeepSession, history.Event{Session: 7}).Return(history.Event{Outcome: history.OK})
		h.now += 700e6
		h.begin(history.KeepSession, history.Event{Session: 7}).Return(refused("SESSION_EXPIRED"))
	}},
	{"lease", "an implicit session is gone within five minutes", true, func(h *historyWriter) {
		h.acked(0, implicit(0, 1))
		h.now += 280e9
		h.append(implicit(1, 2)).Return(refused("SESSION_EXPIRED"))
	}},
	{"lease", "a session ends after its lease", false, func(h *historyWriter) {
		h.open(1000)
		h.acked(0, in(0, 0, 1))
		h.now += 900e6
		h.append(in(0, 1, 2)).Return(refused("SESSION_EXPIRED"))
	}},
	{"lease", "a record that was sent before is no sign of life", false, func(h *historyWriter) {
		h.open(1000)
		h.append(in(0, 0, 1)).Return(history.Event{Outcome: history.Unknown})
		h.now += 2e9
		h.acked(0, in(0, 0, 1))
		h.append(in(0, 1, 2)).Return(refused("SESSION_EXPIRED"))
	}},
	{"lease", "a session that is closed ends at once", false, func(h *historyWriter) {
		h.open(1000)
		h.begin(history.CloseSession, history.Event{Session: 7}).Return(history.Event{Outcome: history.Unknown})
		h.append(in(0, 0, 1)).Return(refused("SESSION_EXPIRED"))
	}},

	{"resolve", "what was acknowledged is still to come", true, func(h *historyWriter) {
		h.acked(0, in(0, 0, 1))
		h.begin(history.Resolve, history.Event{Session: 7}).Return(history.Event{Outcome: history.OK, State: history.NotNow})
	}},
	{"resolve", "what was read is pending", true, func(h *historyWriter) {
		h.append(in(0, 0, 1))
		h.stale(0, 1, 1)
		h.begin(history.Resolve, history.Event{Session: 7}).Return(history.Event{Outcome: history.OK, State: history.Pending})
	}},
	{"resolve", "what is of an epoch that has ended is still to come", true, func(h *historyWriter) {
		h.begin(history.EndEpoch, history.Event{Session: 7}).Return(history.Event{Outcome: history.OK})
		h.begin(history.Resolve, history.Event{Session: 7}).Return(history.Event{Outcome: history.OK, State: history.NotNow})
	}},
	{"resolve", "a resolve that began before may not know", false, func(h *historyWriter) {
		resolve := h.begin(history.Resolve, history.Event{Session: 7})
		h.acked(0, in(0, 0, 1))
		resolve.Return(history.Event{Outcome: history.OK, State: history.NotNow})
		h.begin(history.Resolve, history.Event{Session: 7, Epoch: 1}).Return(history.Event{Outcome: history.OK, State: history.NotNow})
	}},

	{"forgotten", "a new record of a session that is known", true, func(h *historyWriter) {
		h.open(1000)
		h.append(in(0, 0, 1)).Return(history.Event{Outcome: history.OK, Forgotten: true})
	}},
	{"forgotten", "a record above the low-water mark", true, func(h *historyWriter) {
		h.acked(0, in(0, 0, 1))
		h.acked(1, history.Event{Hashes: history.Hashes{2}, Session: 7, Sequence: 1, LowWater: 1})
		h.begin(history.Resolve, history.Event{Session: 7, Sequence: 1}).Return(history.Event{Outcome: history.OK, State: history.Gone})
	}},
	{"forgotten", "a record of an implicit session that has had 63 more", true, func(h *historyWriter) {
		for i := range uint64(64) {
			h.acked(int64(i), implicit(i, i+1))
		}
		h.append(implicit(0, 1)).Return(history.Event{Outcome: history.OK, Forgotten: true})
	}},
	{"forgotten", "a record of an implicit session that has had 64 more", false, func(h *historyWriter) {
		for i := range uint64(65) {
			h.acked(int64(i), implicit(i, i+1))
		}
		h.append(implicit(0, 1)).Return(history.Event{Outcome: history.OK, Forgotten: true})
	}},
	{"forgotten", "a record below the low-water mark, and one of a session that nobody opened", false, func(h *historyWriter) {
		h.acked(0, in(0, 0, 1))
		h.append(history.Event{Hashes: history.Hashes{2}, Session: 7, Sequence: 1, LowWater: 1})
		h.append(in(0, 0, 1)).Return(history.Event{Outcome: history.OK, Forgotten: true})
		h.begin(history.Resolve, history.Event{Session: 8}).Return(history.Event{Outcome: history.OK, State: history.Gone})
	}},

	{"written", "a record is not where it was written", true, func(h *historyWriter) {
		h.append(one(1)).Return(history.Event{Outcome: history.Unknown, Written: new(int64(4))})
		h.append(one(2))
		h.read(4, 6, 2, 1)
	}},
	{"written", "it had been read elsewhere", true, func(h *historyWriter) {
		late := h.append(one(1))
		h.read(5, 6, 1)
		late.Return(history.Event{Outcome: history.Unknown, Written: new(int64(4))})
	}},
	{"written", "it is there, or lost", false, func(h *historyWriter) {
		h.append(one(1)).Return(history.Event{Outcome: history.Unknown, Written: new(int64(4))})
		h.append(one(2)).Return(history.Event{Outcome: history.Unknown, Written: new(int64(5))})
		h.append(one(3))
		h.read(4, 6, 1, 3)
	}},

	{"fence", "a fenced writer succeeds", true, func(h *historyWriter) {
		h.begin(history.Writer, history.Event{}).Return(history.Event{Outcome: history.OK, Writer: 1})
		h.begin(history.Writer, history.Event{}).Return(history.Event{Outcome: history.OK, Writer: 2})
		h.acked(0, under(1, 1))
	}},
	{"fence", "a fenced writer lands above the point of the fence", true, func(h *historyWriter) {
		early := h.append(under(1, 1))
		h.begin(history.Writer, history.Event{}).Return(history.Event{Outcome: history.OK, Writer: 2, End: new(int64(0))})
		early.Return(ok(0))
	}},
	{"fence", "a term is given twice", true, func(h *historyWriter) {
		h.begin(history.Writer, history.Event{}).Return(history.Event{Outcome: history.OK, Writer: 1})
		h.begin(history.Writer, history.Event{}).Return(history.Event{Outcome: history.OK, Writer: 1})
	}},
	{"fence", "a writer lands below the point where its term began", true, func(h *historyWriter) {
		early := h.append(under(1, 1))
		h.begin(history.Writer, history.Event{}).Return(history.Event{Outcome: history.OK, Writer: 1, End: new(int64(1))})
		early.Return(ok(0))
	}},
	{"fence", "an append of the old writer that was on its way lands below the fence", false, func(h *historyWriter) {
		h.begin(history.Writer, history.Event{}).Return(history.Event{Outcome: history.OK, Writer: 1, End: new(int64(0))})
		early := h.append(under(1, 1))
		h.begin(history.Writer, history.Event{}).Return(history.Event{Outcome: history.OK, Writer: 2, End: new(int64(1))})
		early.Return(ok(0))
		h.acked(1, under(2, 2))
		h.append(under(1, 3)).Return(refused("FENCED"))
	}},

	{"condition", "a conditional append lands elsewhere", true, func(h *historyWriter) {
		h.acked(1, history.Event{Hashes: history.Hashes{1}, ExpectedEnd: new(int64(0))})
	}},
	{"condition", "a conditional append is read elsewhere", true, func(h *historyWriter) {
		h.append(history.Event{Hashes: history.Hashes{1, 2}, ExpectedEnd: new(int64(0))})
		h.append(one(3))
		h.read(0, 3, 1, 3, 2)
	}},
	{"condition", "a conditional append lands where it said", false, func(h *historyWriter) {
		h.acked(0, history.Event{Hashes: history.Hashes{1, 2}, ExpectedEnd: new(int64(0))})
		h.append(history.Event{Hashes: history.Hashes{3}, ExpectedEnd: new(int64(0))}).Return(refused("END_MISMATCH"))
	}},

	{"check", "a checked append lands behind a record with its key", true, func(h *historyWriter) {
		h.acked(0, keyed(1, "a", nil))
		h.acked(1, keyed(2, "b", nil))
		h.acked(2, keyed(3, "c", &history.Check{Since: 1, Keys: []string{"b"}}))
	}},
	{"check", "a checked append is read behind one that had not been acknowledged, with its prefix", true, func(h *historyWriter) {
		h.append(keyed(1, "acc/7", nil))
		h.append(keyed(2, "acc/8", &history.Check{Since: 0, Prefixes: []string{"acc/"}}))
		h.read(0, 2, 1, 2)
	}},
	{"check", "a checked append lands behind others, with its own key, and its later records with it, too", false, func(h *historyWriter) {
		h.acked(0, keyed(1, "a", nil))
		h.acked(1, keyed(2, "b", nil))
		h.acked(2, history.Event{Hashes: history.Hashes{3, 4}, Keys: []string{"a", "a"}, Check: &history.Check{Since: 1, Keys: []string{"a"}, Prefixes: []string{"c"}}})
		h.append(keyed(5, "a", &history.Check{Since: 2, Keys: []string{"a"}})).Return(refused("CONFLICT"))
		h.acked(4, keyed(6, "a", &history.Check{Since: 4, Keys: []string{"a"}}))
	}},

	{"in-flight", "one append too many", true, func(h *historyWriter) {
		h.Note(history.Event{Kind: history.Client, Client: "a", InFlight: 1})
		h.append(one(1))
		h.append(one(2))
	}},
	{"in-flight", "as many as are allowed, and after a crash again", false, func(h *historyWriter) {
		h.Note(history.Event{Kind: history.Client, Client: "a", InFlight: 1})
		h.acked(0, one(1))
		h.append(one(2))
		h.Note(history.Event{Kind: history.Crash, Client: "a"})
		h.append(one(3))
	}},

	{"deadline", "a call returns too late", true, func(h *historyWriter) {
		h.acked(0, history.Event{Hashes: history.Hashes{1}, Deadline: 1})
	}},
	{"deadline", "a call does not return", true, func(h *historyWriter) {
		h.append(history.Event{Hashes: history.Hashes{1}, Deadline: 2e6})
		h.info(0, 0)
	}},
	{"deadline", "a call returns in time, or its client is gone", false, func(h *historyWriter) {
		h.acked(0, history.Event{Hashes: history.Hashes{1}, Deadline: 2e6})
		h.append(history.Event{Hashes: history.Hashes{2}, Deadline: h.now + 2e6})
		h.Note(history.Event{Kind: history.Crash, Client: "a"})
		h.info(0, 1)
	}},

	{"replicas", "two have different entries", true, func(h *historyWriter) {
		h.replica("n1", 2, 1, 10, 11)
		h.replica("n2", 2, 1, 10, 12)
	}},
	{"replicas", "two have the same of different terms", true, func(h *historyWriter) {
		h.replica("n1", 1, 1, 10)
		h.replica("n2", 1, 2, 10)
	}},
	{"replicas", "one lacks what it has committed", true, func(h *historyWriter) {
		h.replica("n1", 3, 1, 10, 11)
	}},
	{"replicas", "one has a hole", true, func(h *historyWriter) {
		h.replica("n1", 2, 1, 10)
		h.Note(history.Event{Kind: history.Replica, Log: "orders", Node: "n1", Index: 3, RaftTerm: 1, Commit: 2, Hashes: history.Hashes{12}})
	}},
	{"replicas", "they differ in what is not committed", false, func(h *historyWriter) {
		h.replica("n1", 1, 1, 10, 11)
		h.replica("n2", 1, 1, 10, 12)
	}},
}

func TestARuleIsBrokenByItsStoryAndByNoOther(t *testing.T) {
	reported := map[string][2]bool{}
	for _, s := range stories {
		t.Run(s.rule+"/"+s.claim, func(t *testing.T) {
			h := newHistoryWriter()
			s.write(h)
			report := check(t, h)
			kinds := reported[s.rule]
			if s.breaks {
				kinds[0] = true
				require.NotEmpty(t, report.Violations, "%s", h.out.String())
			} else {
				kinds[1] = true
				require.Empty(t, report.Violations, "%s", h.out.String())
			}
			reported[s.rule] = kinds
			for _, v := range report.Violations {
				require.Equal(t, s.rule, v.Rule, "%s\n%s", v, h.out.String())
				require.NotEmpty(t, v.Lines)
			}
		})
	}
	for _, r := range Rules() {
		require.Equal(t, [2]bool{true, true}, reported[r.Name], "rule %s needs a story that breaks it and one that does not", r.Name)
	}
}
