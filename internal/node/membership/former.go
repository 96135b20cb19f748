package membership

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"sync"
	"time"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/datadir"
	"strandline.dev/internal/node/hosted"
	"strandline.dev/internal/node/peers"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
	"strandline.dev/internal/transport/peer"
)

// Former forms a new cluster.
type Former struct {
	logger  *slog.Logger
	options *settings.Options
	me      *datadir.Me
	logs    *hosted.Logs
	self    *peers.Self
	caller  *peers.Caller
	roll    *Roll
	joiner  *Joiner
	member  beginner
	forming chan struct{} // full: a cluster is being formed here
}

// NewFormer returns a Former that makes this node a member through joiner, and then calls
// member.Begin.
func NewFormer(
	options *settings.Options, logger *slog.Logger, me *datadir.Me, logs *hosted.Logs, self *peers.Self, caller *peers.Caller,
	roll *Roll, joiner *Joiner, member beginner,
) *Former {
	return &Former{
		options: options, logger: logger, me: me, logs: logs, self: self, caller: caller, roll: roll, joiner: joiner, member: member,
		forming: make(chan struct{}, 1),
	}
}

// Formation is the outcome of InitCluster.
type Formation struct {
	ClusterID string `json:"cluster_id"`
	// Existed means that the cluster existed before.
	Existed bool `json:"existed,omitempty"`
	// Missing are peers that are not members yet; they are admitted when they ask.
	Missing []string `json:"missing,omitempty"`
}

// FormRequest asks the node that forms a cluster to do so.
type FormRequest struct {
	By cluster.Candidate `json:"by"`
}

// formTime bounds how long the one that forms a cluster waits for the others.
const formTime = 15 * time.Second

// InitCluster forms the cluster of this node and its Peers. It may be called on any of them, on
// several at once, and repeatedly: there is one cluster at the end. Only the peer with the lowest
// name forms it, see cluster.FormerOf; the others forward the call.
func (f *Former) InitCluster(ctx context.Context, _ verbs.Caller) (Formation, error) {
	if me := f.me.Load(); me.Member() {
		return Formation{ClusterID: me.ClusterID, Existed: true}, nil
	}
	me := f.self.Candidate()
	former, refusal := cluster.FormerOf(me)
	if refusal != nil {
		return Formation{}, refusal
	}
	if former == me.Name {
		return f.form(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, 2*formTime)
	defer cancel()
	var formed Formation
	err := f.caller.AskAddress(ctx, f.options.Peers[former], peers.AskForm, FormRequest{By: me}, &formed)
	return formed, passed(err, former, f.options.Peers[former])
}

// passed is the error of a call that was passed on to the node that forms.
func passed(err error, former, address string) error {
	var refusal *record.Refusal
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refusal):
		return refusal
	case errors.Is(err, peer.ErrConnectionLost), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return record.Refuse(record.OutcomeUnknown, "node %q, which forms the cluster, did not answer in time; it may have formed it: try again", former)
	}
	return record.Refuse(record.Busy, "node %q, which forms the cluster because its name is the lowest in --peers, does not answer at %s: start it (%v)", former, address, err)
}

// FormFor forms the cluster for another peer.
func (f *Former) FormFor(ctx context.Context, q FormRequest) (Formation, error) {
	me := f.self.Candidate()
	if me.Cluster != "" {
		return Formation{ClusterID: me.Cluster, Existed: true}, nil
	}
	if refusal := cluster.MayForm(me, q.By.Name, q.By); refusal != nil {
		return Formation{}, refusal
	}
	if former, refusal := cluster.FormerOf(me); refusal != nil {
		return Formation{}, refusal
	} else if former != me.Name {
		return Formation{}, record.Refuse(record.Invalid, "node %q does not form the cluster, %q does", me.Name, former)
	}
	return f.form(ctx)
}

// form forms the cluster if it does not exist, and waits for the other nodes.
func (f *Former) form(ctx context.Context) (Formation, error) {
	// One at a time: the answers of the other nodes must stay true until the end.
	select {
	case f.forming <- struct{}{}:
	case <-ctx.Done():
		return Formation{}, record.Refuse(record.Busy, "this node is forming the cluster: try again")
	}
	defer func() { <-f.forming }()
	existed := f.me.Load().Member()
	if !existed {
		understood, err := f.askPeers(ctx)
		if err != nil {
			return Formation{}, err
		}
		f.roll.formedWith(understood)
		if err := f.formHere(); err != nil {
			return Formation{}, err
		}
		f.askPeersToJoin(ctx)
	}
	formed := Formation{ClusterID: f.me.Load().ClusterID, Existed: existed}
	formed.Missing = f.roll.awaitMembers(ctx, f.self.Candidate().Peers)
	return formed, nil
}

// formHere makes this node the first of a new cluster.
func (f *Former) formHere() error {
	f.logs.Changing.Lock()
	if f.logs.Closed || f.me.Load().Member() {
		f.logs.Changing.Unlock()
		return record.Refuse(record.Busy, "this node has joined a cluster meanwhile, or is shutting down")
	}
	err := f.FormAlone()
	f.logs.Changing.Unlock()
	if err != nil {
		return err
	}
	return f.member.Begin()
}

// askPeers asks all peers whether they agree to be in a cluster with this one, and returns
// the feature levels that they understand, and this one.
func (f *Former) askPeers(ctx context.Context) ([]cluster.Levels, error) {
	me := f.self.Candidate()
	understood := []cluster.Levels{me.Levels}
	for name, address := range f.options.Peers {
		if name == me.Name {
			continue
		}
		ask, cancel := context.WithTimeout(ctx, askTime)
		var other cluster.Candidate
		err := f.caller.AskAddress(ask, address, peers.AskWho, struct{}{}, &other)
		cancel()
		if err != nil {
			return nil, record.Refuse(record.Busy, "no cluster is formed yet: node %q does not answer at %s: start it (%v)", name, address, err)
		}
		if refusal := cluster.MayForm(me, name, other); refusal != nil {
			return nil, refusal
		}
		understood = append(understood, other.Levels)
	}
	return understood, nil
}

// FormAlone makes this node, which has a new data directory, the first node of a new cluster.
func (f *Former) FormAlone() error {
	id := datadir.Identity{
		Format: datadir.FormatVersion, ClusterID: rand.Text(), NodeID: 1, Name: f.options.Name,
		CatalogReplica: 1, CatalogVoters: []uint64{1},
	}
	return f.joiner.becomeMember(id)
}

// askPeersToJoin has those that wait ask at once whether they are members.
func (f *Former) askPeersToJoin(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	var asking sync.WaitGroup
	for name, address := range f.options.Peers {
		if name == f.options.Name {
			continue
		}
		asking.Go(func() {
			if err := f.caller.AskAddress(ctx, address, peers.AskInvite, Invitation{Name: name}, nil); err != nil {
				f.logger.Debug("a peer was not asked to join: cluster is formed", "peer", name, "error", err) // it asks by itself
			}
		})
	}
	asking.Wait()
}
