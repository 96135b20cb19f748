package replicas

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/background"
	"strandline.dev/internal/node/catalog"
	"strandline.dev/internal/node/datadir"
	"strandline.dev/internal/node/hosted"
	"strandline.dev/internal/node/peers"
	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/core"
)

// A replica that has lost what it knew has forgotten its votes with it. It must
// never speak again under its id, so it gets another one, as if it were new: a
// learner first, then a voter, and the old id leaves in the same change. A log
// in memory is lost with the process; one on disk when its files are gone, or
// prove not to be the newest there were.
//
// The steps are made so that a crash between any two of them is harmless:
//
//  1. A replica on disk is marked and its files are set aside, see setAside.
//     From here on it is one that was made and has no files.
//  2. The catalog gives this node another id for it.
//  3. The old id is taken off the list of those that were made.
//
// A replica that is not on that list is made from nothing. So that the old one
// is not, in a life that knows an old state of the catalog, nothing is made
// before the newest has been heard of, see Catalog.Current.

// Renewer replaces the replicas that this node has lost.
type Renewer struct {
	logger   *slog.Logger
	me       *datadir.Me
	catalog  *catalog.Shared
	logs     *hosted.Logs
	files    *datadir.Files
	peers    *peers.Peers
	caller   *peers.Caller
	renewals *Renewals
}

// NewRenewer returns a Renewer that replaces replicas when renewals signals.
func NewRenewer(
	logger *slog.Logger, me *datadir.Me, catalog *catalog.Shared, logs *hosted.Logs, files *datadir.Files, peers *peers.Peers, caller *peers.Caller,
	renewals *Renewals,
) *Renewer {
	return &Renewer{logger: logger, me: me, catalog: catalog, logs: logs, files: files, peers: peers, caller: caller, renewals: renewals}
}

// Renewals signals that replicas must be replaced.
type Renewals struct{ wake chan struct{} }

// NewRenewals returns a Renewals without a signal.
func NewRenewals() *Renewals { return &Renewals{wake: make(chan struct{}, 1)} }

func (r *Renewals) want() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// KeptRequest asks a node which data it has of replicas that the catalog assigns to it.
type KeptRequest struct {
	Replicas []KeptReplica `json:"replicas"`
}

// KeptReplica is one replica of a KeptRequest.
type KeptReplica struct {
	Log     uint64 `json:"log"`
	Replica uint64 `json:"replica"`
	// End, if not nil, is the data that the replica had. The replica must end if it still has the
	// same data.
	End *cluster.Kept `json:"end,omitempty"`
}

// keepTimeout bounds the questions to other nodes about what is left of a log.
const keepTimeout = time.Second

// KeptHere answers askKept.
func (rn *Renewer) KeptHere(ctx context.Context, q KeptRequest) ([]cluster.Kept, error) {
	answer := make([]cluster.Kept, len(q.Replicas))
	for i, r := range q.Replicas {
		k, err := rn.kept(ctx, r)
		if err != nil {
			return nil, err
		}
		answer[i] = k
	}
	return answer, nil
}

// kept answers for one replica.
func (rn *Renewer) kept(ctx context.Context, q KeptReplica) (cluster.Kept, error) {
	h := rn.logs.ByID(q.Log)
	if h == nil || h.ReplicaID != q.Replica {
		return cluster.Kept{Made: rn.files.Created.Has(q.Replica)}, nil
	}
	ended := cluster.Kept{Ended: true} // it never votes again, and is as good as none
	if h.Ended() != nil {
		return ended, nil
	}
	answer := make(chan cluster.Kept, 1)
	refusal := h.Replica.Do(func(c *core.Core) {
		if c.Lifecycle.Failed() != nil {
			answer <- ended
			return
		}
		k := cluster.Kept{Made: true, Runs: true, Candidacy: cluster.Candidacy(c.Candidacy())}
		if q.End != nil && k.Same(q.End) {
			c.Lifecycle.Fail(record.Refuse(record.NotLeader, "the remaining replicas of this memory log cannot elect a leader: the log will start again"))
			k = ended
		}
		answer <- k
	})
	if refusal != nil {
		return ended, nil
	}
	select {
	case k := <-answer:
		return k, nil
	case <-h.Replica.Ended():
		return ended, nil
	case <-ctx.Done():
		return cluster.Kept{}, ctx.Err()
	}
}

// keptOf asks all nodes for the remaining data of the replicas of some memory logs. Replicas of
// nodes that do not answer are missing. Replicas in end are ended if they still have the given
// data.
func (rn *Renewer) keptOf(ctx context.Context, logs []cluster.Log, end map[uint64]cluster.Kept) map[uint64]cluster.Kept {
	byNode := map[uint64][]KeptReplica{}
	for _, l := range logs {
		for _, list := range [][]cluster.Replica{l.Replicas, l.Leaving} {
			for _, r := range list {
				if r.Lost {
					continue
				}
				q := KeptReplica{Log: l.ID, Replica: r.ID}
				if k, ends := end[r.ID]; ends && k.Runs {
					q.End = &k
				}
				byNode[r.Node] = append(byNode[r.Node], q)
			}
		}
	}
	ctx, cancel := context.WithTimeout(ctx, keepTimeout)
	defer cancel()
	kept := map[uint64]cluster.Kept{}
	var mu sync.Mutex
	var asking sync.WaitGroup
	for node, replicas := range byNode {
		asking.Go(func() {
			var answer []cluster.Kept
			if err := rn.caller.Call(ctx, node, peers.AskKept, KeptRequest{replicas}, &answer); err != nil || len(answer) != len(replicas) {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			for i, r := range replicas {
				kept[r.Replica] = answer[i]
			}
		})
	}
	asking.Wait()
	return kept
}

// doubtful returns the memory logs with a replica here that may have lost their majority: some of
// their replicas are joining or leaving, and this node knows no leader.
func (rn *Renewer) doubtful() (logs []cluster.Log) {
	me := rn.me.Load().NodeID
	for _, l := range rn.catalog.Load().Shown.Load().Logs {
		if !l.Config.InMemory() || l.Settled() {
			continue
		}
		r, here := l.On(me)
		h := rn.logs.ByID(l.ID)
		if here && (h == nil || h.ReplicaID != r.ID || h.Ended() != nil || l.Doubtful(h.Replica.Status().Leader)) {
			logs = append(logs, l)
		}
	}
	return logs
}

// beginLost lets lost memory logs begin anew. It returns true while the fate of some logs is
// unknown.
func (rn *Renewer) beginLost(ctx context.Context) (waiting bool, err error) {
	doubtful := rn.doubtful()
	if len(doubtful) == 0 {
		return false, nil
	}
	kept := rn.keptOf(ctx, doubtful, nil)
	lost := rn.thoseOf(doubtful, cluster.FateLost, kept)
	if stuck := rn.thoseOf(doubtful, cluster.FateStuck, kept); len(stuck) > 0 {
		rn.endStuck(ctx, stuck, kept)
	}
	if len(lost) == 0 {
		return true, nil
	}
	return true, rn.catalog.Load().Change(ctx, func(s *cluster.State) (cluster.Change, error) {
		change := cluster.BeginAnew(s, lost)
		for _, l := range change.Put {
			rn.logger.Error("a memory log has lost its majority, and starts again", "log", l.Name)
		}
		return change, nil
	})
}

// thoseOf returns the logs with a given fate.
func (rn *Renewer) thoseOf(logs []cluster.Log, fate cluster.Fate, kept map[uint64]cluster.Kept) (those []cluster.Log) {
	state := rn.catalog.Load().Shown.Load()
	gone := func(node uint64) bool { return cluster.IsGone(state, node, rn.peers.Lost) }
	for i := range logs {
		if logs[i].Fate(kept, gone) == fate {
			those = append(those, logs[i])
		}
	}
	return those
}

// endStuck ends the replicas of logs that cannot elect a leader, if nothing changes at any of them
// for the maximum delay of a message. Their logs are then lost at the next check.
func (rn *Renewer) endStuck(ctx context.Context, stuck []cluster.Log, first map[uint64]cluster.Kept) {
	background.Pause(ctx, renewAgain)
	second := rn.keptOf(ctx, stuck, nil)
	for _, l := range rn.thoseOf(stuck, cluster.FateStuck, second) {
		if l.SameAnswers(first, second) {
			rn.logger.Error("the remaining replicas of a memory log cannot elect a leader; ending the log", "log", l.Name)
			rn.keptOf(ctx, []cluster.Log{l}, second)
		}
	}
}

// renewAgain is the pause after a renewal that could not be made.
const renewAgain = time.Second

// Run replaces lost replicas as they are detected.
func (rn *Renewer) Run(ctx context.Context) {
	for {
		select {
		case <-rn.renewals.wake:
		case <-ctx.Done():
			return
		}
		waiting, err := rn.Renew(ctx)
		if err != nil && ctx.Err() == nil {
			rn.logger.Warn("lost replicas wait for new ids", "error", err)
		}
		if err != nil || waiting {
			background.Pause(ctx, renewAgain)
			rn.renewals.want()
		}
	}
}

// Renew replaces the lost replicas of this node. It returns true if some must wait until their log
// has a majority without them.
func (rn *Renewer) Renew(ctx context.Context) (waiting bool, err error) {
	rn.logs.AwaitShown() // the opener has yet to show the log concerned
	lost, stuck := rn.lostReplicas()
	if len(lost) > 0 {
		if stuck, err = rn.replaceLost(ctx, lost, stuck); err != nil {
			return true, err
		}
		rn.logs.AwaitShown()
	}
	doubt, err := rn.beginLost(ctx)
	return stuck || doubt, err
}

// replaceLost gives this node other replicas for those lost.
func (rn *Renewer) replaceLost(ctx context.Context, lost map[uint64]bool, stuck bool) (waiting bool, err error) {
	var gone []uint64 // that were in memory
	me := rn.me.Load().NodeID
	err = rn.catalog.Load().Change(ctx, func(s *cluster.State) (cluster.Change, error) {
		renewal := cluster.RenewReplicas(s, me, lost)
		gone, waiting = renewal.Memory, stuck || renewal.Waiting
		return renewal.Change, nil
	})
	if err == nil && len(gone) > 0 {
		rn.logs.AwaitShown() // another check of the previous state would begin the logs again, without their memory
	}
	for _, id := range gone {
		if err == nil {
			err = rn.files.Created.Remove(id)
		}
	}
	return waiting, err
}

// lostReplicas returns the ids of replicas of this node that must not send messages any more. The
// files of those on disk have been set aside. It returns true if some have to wait, see renew;
// their files stay where they are.
func (rn *Renewer) lostReplicas() (lost map[uint64]bool, waiting bool) {
	lost = map[uint64]bool{}
	me := rn.me.Load().NodeID
	state := rn.catalog.Load().Shown.Load()
	for _, l := range state.Logs {
		r, here := l.On(me)
		h := rn.logs.Named(l.Name)
		open := h != nil && h.ReplicaID == r.ID
		switch {
		case !here:
		case l.Config.InMemory():
			// It was here before this process began.
			if !open && rn.files.Created.Has(r.ID) {
				lost[r.ID] = true
			}
		case !open || !h.Forgot:
		case !l.SurvivesWithout(r.ID):
			waiting = true
			h.Unavailable.Store(record.Refuse(record.Corrupt,
				"log %q cannot continue: a majority of its replicas has lost what it stored. Bring the files of this one back from a copy, or copy what the others hold into a new log (strandline read --consistency any)", l.Name))
		default:
			if err := rn.putAside(h); err != nil {
				rn.logger.Error("a replica that has lost data could not be set aside", "log", l.Name, "error", err)
				waiting = true
				continue
			}
			lost[r.ID] = true
		}
	}
	return lost, waiting
}

// putAside sets the files of a lost replica aside, unless its log has left this node meanwhile.
func (rn *Renewer) putAside(h *hosted.Log) error {
	rn.logs.Changing.Lock()
	gone := rn.logs.Named(h.Name) != h || rn.logs.Closed
	rn.logs.Changing.Unlock()
	if gone {
		return errors.New("the log has left this node")
	}
	return rn.files.SetAside(h.ID, h.ReplicaID, h.Problem().Detail)
}
