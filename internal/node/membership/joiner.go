package membership

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/background"
	"strandline.dev/internal/node/datadir"
	"strandline.dev/internal/node/hosted"
	"strandline.dev/internal/node/peers"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/record"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/vfs"
)

// A node becomes a member of a cluster in one of three ways: it forms its own cluster (FormAlone,
// InitCluster), or it asks a member for admission, whose address it has from its options or from
// AddNode. The catalog gives it an id and a replica of log 0.

// Joiner makes this node a member of a cluster.
type Joiner struct {
	options *settings.Options
	disk    vfs.FS
	logger  *slog.Logger
	me      *datadir.Me
	logs    *hosted.Logs
	files   *datadir.Files
	caller  *peers.Caller
	member  beginner
	// invitation is that of an operator, see AddNode; nil: there is none.
	invitation atomic.Pointer[Invitation]
	asked      chan struct{} // full: to ask now whether this node may join
}

// beginner starts what runs on a member. It is an interface so that the Joiner and the Former,
// which make the node a member, need not know all of that.
type beginner interface{ Begin() error }

// NewJoiner returns a Joiner that asks other nodes to admit this one, and then calls member.Begin.
func NewJoiner(
	options *settings.Options, disk vfs.FS, logger *slog.Logger, me *datadir.Me, logs *hosted.Logs, files *datadir.Files, caller *peers.Caller, member beginner,
) *Joiner {
	return &Joiner{
		options: options, disk: disk, logger: logger, me: me, logs: logs, files: files, caller: caller, member: member, asked: make(chan struct{}, 1),
	}
}

// Times of joining.
const (
	seekEvery = 250 * time.Millisecond
	askTime   = 3 * time.Second
)

// Invitation makes a waiting node ask at once to join, with more addresses to ask.
type Invitation struct {
	Name      string   `json:"name"`
	Addresses []string `json:"addresses"`
}

// becomeMember creates the files of a member. It writes node.json last: a crash before leaves a
// node that is not a member, and an empty catalog.
func (j *Joiner) becomeMember(id datadir.Identity) error {
	if err := j.refuseLeftovers(); err != nil {
		return err
	}
	if err := j.files.Create(segment.Owner{Cluster: id.ClusterID, Log: cluster.CatalogID, Replica: id.CatalogReplica}, id.CatalogVoters); err != nil {
		return fmt.Errorf("create catalog: %w", err)
	}
	if err := id.Save(j.disk, j.options.DataDir); err != nil {
		return err
	}
	j.me.Store(&id)
	// The nonce has no use any more. It must not make a node that lost its identity look like one
	// that did not get the answer.
	if err := j.disk.RemoveAll(filepath.Join(j.options.DataDir, "nonce")); err != nil {
		j.logger.Warn("could not remove the nonce of a node that is a member now", "error", err)
	}
	return nil
}

// refuseLeftovers keeps a data directory that has lost its node.json from being
// taken for a new one.
func (j *Joiner) refuseLeftovers() error {
	logs, err := j.disk.ListDirs(j.files.LogsDir())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list logs on disk: %w", err)
	}
	if slices.ContainsFunc(logs, func(dir string) bool { return dir != "0" }) {
		return fmt.Errorf("%s has logs but no node.json: restore node.json from a copy, or move the logs away to start empty", j.options.DataDir)
	}
	return nil
}

// nonce returns the number that distinguishes this node from others of its name until it is a
// member. It survives a restart, so that a node which was admitted and did not get the answer is
// recognized.
func (j *Joiner) nonce() (string, error) {
	path := filepath.Join(j.options.DataDir, "nonce")
	data, err := j.disk.ReadFile(path)
	switch {
	case err == nil:
		return strings.Trim(string(data), "\" \n"), nil
	case !errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("read nonce: %w", err)
	}
	nonce := rand.Text()
	return nonce, datadir.SaveJSON(j.disk, path, nonce)
}

// Run asks other nodes to admit this node until it is a member.
func (j *Joiner) Run(ctx context.Context) {
	logged := ""
	for ctx.Err() == nil {
		reason := j.SeekOnce(ctx)
		if j.me.Load().Member() {
			j.beginLate(ctx)
			return
		}
		if reason != logged {
			logged = reason
			j.logger.Info("waiting to be admitted to a cluster", "node", j.options.Name, "last_answer", reason)
		}
		again := time.NewTimer(seekEvery)
		select {
		case <-j.asked:
		case <-again.C:
		case <-ctx.Done():
		}
		again.Stop()
	}
}

// beginLate begins once this node has been taken in.
func (j *Joiner) beginLate(ctx context.Context) {
	for ctx.Err() == nil {
		err := j.member.Begin()
		if err == nil {
			return
		}
		j.logger.Error("this node is a member but cannot start; trying again", "error", err)
		background.Pause(ctx, time.Second)
	}
}

// SeekOnce asks every known address once, and returns the last answer.
func (j *Joiner) SeekOnce(ctx context.Context) (reason string) {
	nonce, err := j.nonce()
	if err != nil {
		return err.Error()
	}
	q := cluster.JoinRequest{Name: j.options.Name, Address: j.options.GRPCAddress, Nonce: nonce, Token: j.options.JoinToken, Levels: j.options.Levels, Labels: j.options.Labels}
	for _, address := range j.seekAt() {
		ask, cancel := context.WithTimeout(ctx, askTime)
		var a cluster.JoinAnswer
		err := j.caller.AskAddress(ask, address, peers.AskJoin, q, &a)
		cancel()
		if err != nil {
			if !errors.Is(err, &record.Refusal{Reason: record.NotMember}) {
				reason = err.Error()
			}
			continue
		}
		id := datadir.Identity{
			Format: datadir.FormatVersion, ClusterID: a.ClusterID, NodeID: a.NodeID, Name: j.options.Name,
			CatalogReplica: a.CatalogReplica, CatalogVoters: a.CatalogVoters, Seeds: a.Nodes,
		}
		j.logs.Changing.Lock()
		formed := j.me.Load().Member()
		if !formed && !j.logs.Closed {
			err = j.becomeMember(id)
		}
		j.logs.Changing.Unlock()
		if err != nil {
			return err.Error()
		}
		return ""
	}
	return reason
}

// seekAt lists the addresses of nodes that may be members.
func (j *Joiner) seekAt() []string {
	addresses := slices.Clone(j.options.Join)
	for _, name := range slices.Sorted(maps.Keys(j.options.Peers)) {
		if name != j.options.Name {
			addresses = append(addresses, j.options.Peers[name])
		}
	}
	if more := j.invitation.Load(); more != nil {
		addresses = append(addresses, more.Addresses...)
	}
	return addresses
}

func (j *Joiner) Invited(q Invitation) error {
	switch {
	case j.me.Load().Member():
		return record.Refuse(record.Precondition, "node %q already belongs to cluster %s", j.options.Name, j.me.Load().ClusterID)
	case q.Name != j.options.Name:
		return record.Refuse(record.Precondition, "the node at that address has the name %q", j.options.Name)
	}
	if len(q.Addresses) > 0 {
		j.invitation.Store(&q)
	}
	select {
	case j.asked <- struct{}{}:
	default:
	}
	return nil
}
