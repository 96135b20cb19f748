package guard

import (
	"context"
	"errors"
	"time"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/cluster/access"
	"strandline.dev/internal/node"
	"strandline.dev/internal/record"
	"strandline.dev/internal/sequence"
)

// The verbs of sessions.

func (g *sessionVerbs) OpenSession(ctx context.Context, c node.Caller, log string, lease time.Duration) (node.Session, error) {
	if refusal := g.may(&c, "open-session", access.Append, access.OfLog(log)); refusal != nil {
		return node.Session{}, refusal
	}
	s, err := g.node.OpenSession(ctx, c, log, lease)
	g.mayHaveCrowded(c, err)
	return s, err
}

// mayHaveCrowded counts a refusal for the caller's own share, which may be tried again, and there is no end to
// that. It is not to blame where others have used up the memory, or the log cannot be reached.
func (g *core) mayHaveCrowded(c node.Caller, err error) {
	var r *record.Refusal
	if h, _ := c.By.(*Holder); errors.As(err, &r) && r.OwnShare {
		g.wasRefused(h)
	}
}

func (g *sessionVerbs) KeepSession(ctx context.Context, c node.Caller, log string, id record.SessionID) error {
	if refusal := g.mayUse(&c, "keep-session", log, id); refusal != nil {
		return refusal
	}
	return g.node.KeepSession(ctx, c, log, id)
}

func (g *sessionVerbs) Resolve(ctx context.Context, c node.Caller, log string, id record.SessionID, e record.Epoch, s record.Sequence, final bool) (sequence.Outcome, record.Epoch, error) {
	if refusal := g.mayUse(&c, "resolve", log, id); refusal != nil {
		return sequence.Outcome{}, 0, refusal
	}
	return g.node.Resolve(ctx, c, log, id, e, s, final)
}

// ReserveSession needs the right to append to some log.
func (g *sessionVerbs) ReserveSession(ctx context.Context, c node.Caller) (record.SessionID, error) {
	if refusal := g.mayAnywhere(&c, "open-session", access.Append); refusal != nil {
		return 0, refusal
	}
	return g.node.ReserveSession(ctx, c)
}

// mayAnywhere is may for a right on any log.
func (g *core) mayAnywhere(c *node.Caller, verb string, need access.Rights) *record.Refusal {
	rules, _ := g.node.Rules()
	if h, _ := c.By.(*Holder); h != nil && rules.Enforced {
		if scope, _, valid := h.shown(rules, now); valid && rules.HoldsAnywhere(h.Principal, scope, access.Log, need) {
			c.Owner = h.owner
			return nil
		}
	}
	return g.may(c, verb, need, access.OfCluster)
}

// The verbs of the catalog.

func (g *catalogVerbs) CreateLog(ctx context.Context, c node.Caller, name string, config node.Config) (info node.Info, err error) {
	err = g.change(&c, "create-log", access.Create, access.OfLog(name), func() (err error) {
		info, err = g.node.CreateLog(ctx, c, name, config)
		return err
	})
	return info, err
}

func (g *catalogVerbs) ConfigureLog(ctx context.Context, c node.Caller, name string, config node.Config) (info node.Info, err error) {
	err = g.change(&c, "configure-log", access.Configure, access.OfLog(name), func() (err error) {
		info, err = g.node.ConfigureLog(ctx, c, name, config)
		return err
	})
	return info, err
}

func (g *catalogVerbs) DeleteLog(ctx context.Context, c node.Caller, name string) error {
	return g.change(&c, "delete-log", access.Delete, access.OfLog(name), func() error { return g.node.DeleteLog(ctx, c, name) })
}

// ListLogs returns the logs that the caller may observe.
func (g *catalogVerbs) ListLogs(ctx context.Context, c node.Caller, internal bool) ([]node.Info, error) {
	if refusal := g.mayList(&c); refusal != nil {
		return nil, refusal
	}
	return g.node.ListLogs(ctx, c, internal, g.shownTo(c))
}

// mayList refuses those who have not proved who they are: others get a list of what they
// may observe, which can be empty.
func (g *core) mayList(c *node.Caller) *record.Refusal {
	if g.Sees(*c, access.OfCluster) {
		return nil
	}
	rules, _ := g.node.Rules()
	if h, _ := c.By.(*Holder); h != nil && rules.Enforced {
		if _, _, valid := h.shown(rules, now); valid {
			return nil
		}
	}
	return g.may(c, "list", access.Observe, access.OfCluster)
}

// Sees reports whether the caller may observe an object. It is not audited.
func (g *core) Sees(c node.Caller, o access.Object) bool { return g.has(c, access.Observe, o) }

// has reports whether the caller has a right. It is not audited.
func (g *core) has(c node.Caller, right access.Rights, o access.Object) bool {
	rules, known := g.node.Rules()
	return g.hasBy(rules, known, c, right, o)
}

// hasBy is has by rules that are known to be those of the cluster, or not.
func (g *core) hasBy(rules *access.Rules, known bool, c node.Caller, right access.Rights, o access.Object) bool {
	if !rules.Enforced && (known || !g.o.Careful) || c.System {
		return true
	}
	h, _ := c.By.(*Holder)
	if h == nil {
		return false
	}
	d := h.on(rules, o, now)
	return d.holds() && d.rights&right != 0
}

// shownTo reports which logs the caller may observe: others are not even described.
func (g *core) shownTo(c node.Caller) func(log string) bool {
	return func(log string) bool { return g.Sees(c, access.OfLog(log)) }
}

// The verbs of topics.

func (g *topicVerbs) Topic(ctx context.Context, c node.Caller, name string) (node.Topic, error) {
	if refusal := g.may(&c, "observe", access.Observe, access.OfLog(name)); refusal != nil {
		return node.Topic{}, refusal
	}
	return g.node.Topic(ctx, c, name)
}

// Topics returns the topics that the caller may observe.
func (g *topicVerbs) Topics(ctx context.Context, c node.Caller) ([]node.Topic, error) {
	if refusal := g.mayList(&c); refusal != nil {
		return nil, refusal
	}
	return g.node.Topics(ctx, c, g.shownTo(c))
}

func (g *topicVerbs) CreateTopic(ctx context.Context, c node.Caller, name string, partitions int32, config node.Config, on [][]uint64) (t node.Topic, err error) {
	err = g.change(&c, "create-log", access.Create, access.OfLog(name), func() (err error) {
		t, err = g.node.CreateTopic(ctx, c, name, partitions, config, on)
		return err
	})
	return t, err
}

func (g *topicVerbs) AddPartitions(ctx context.Context, c node.Caller, name string, partitions int32, on [][]uint64) error {
	return g.change(&c, "add-partitions", access.Configure, access.OfLog(name), func() error { return g.node.AddPartitions(ctx, c, name, partitions, on) })
}

func (g *topicVerbs) ConfigureTopic(ctx context.Context, c node.Caller, name string, config node.Config) error {
	return g.change(&c, "configure-log", access.Configure, access.OfLog(name), func() error { return g.node.ConfigureTopic(ctx, c, name, config) })
}

func (g *topicVerbs) DeleteTopic(ctx context.Context, c node.Caller, name string) error {
	return g.change(&c, "delete-log", access.Delete, access.OfLog(name), func() error { return g.node.DeleteTopic(ctx, c, name) })
}

// The verbs of the cluster.

// InitCluster is for whoever may administer the cluster that is to be.
func (g *clusterVerbs) InitCluster(ctx context.Context, c node.Caller) (f node.Formation, err error) {
	if g.o.Administrator != "" && g.node.ClusterID() == "" {
		rights, refusal := access.Enforce(access.List{}, true, g.o.Administrator)
		if refusal == nil {
			refusal = g.mayBy(access.Compile(access.List{}.With(&rights)), true, &c, "init-cluster", access.Administer, access.OfCluster)
		}
		if refusal != nil {
			return f, record.Refuse(refusal.Reason, "%s; it is %s who may form the cluster, as serve --administrator says", refusal.Detail, g.o.Administrator)
		}
	}
	err = g.change(&c, "init-cluster", access.Administer, access.OfCluster, func() (err error) {
		f, err = g.node.InitCluster(ctx, c)
		return err
	})
	return f, err
}

func (g *clusterVerbs) ClusterStatus(ctx context.Context, c node.Caller) (node.ClusterStatus, error) {
	if refusal := g.may(&c, "observe", access.Observe, access.OfCluster); refusal != nil {
		return node.ClusterStatus{}, refusal
	}
	return g.node.ClusterStatus(ctx, c)
}

func (g *clusterVerbs) AddNode(ctx context.Context, c node.Caller, name, address string) (existed bool, err error) {
	err = g.change(&c, "add-node", access.Administer, access.OfCluster, func() (err error) {
		existed, err = g.node.AddNode(ctx, c, name, address)
		return err
	})
	return existed, err
}

// CreateToken makes a token with which nodes join. It is CreateAccessToken for clients.
func (g *clusterVerbs) CreateToken(ctx context.Context, c node.Caller, lifetime time.Duration, reusable bool) (token string, expires time.Time, err error) {
	err = g.change(&c, "create-join-token", access.Administer, access.OfCluster, func() (err error) {
		token, expires, err = g.node.CreateToken(ctx, c, lifetime, reusable)
		return err
	})
	return token, expires, err
}

func (g *clusterVerbs) RemoveNode(ctx context.Context, c node.Caller, name string) error {
	return g.change(&c, "remove-node", access.Administer, access.OfCluster, func() error { return g.node.RemoveNode(ctx, c, name) })
}

func (g *clusterVerbs) ReplaceNode(ctx context.Context, c node.Caller, dead, with string) error {
	return g.change(&c, "replace-node", access.Administer, access.OfCluster, func() error { return g.node.ReplaceNode(ctx, c, dead, with) })
}

func (g *clusterVerbs) Rebalance(ctx context.Context, c node.Caller) (left int, err error) {
	err = g.change(&c, "rebalance", access.Administer, access.OfCluster, func() (err error) {
		left, err = g.node.Rebalance(ctx, c)
		return err
	})
	return left, err
}

func (g *clusterVerbs) DrainNode(ctx context.Context, c node.Caller, name string, undo bool) error {
	return g.change(&c, "drain-node", access.Administer, access.OfCluster, func() error { return g.node.DrainNode(ctx, c, name, undo) })
}

func (g *clusterVerbs) SetDefaultRule(ctx context.Context, c node.Caller, prefix string, rule cluster.Rule) error {
	return g.change(&c, "set-default-rule", access.Administer, access.OfCluster, func() error { return g.node.SetDefaultRule(ctx, c, prefix, rule) })
}

func (g *clusterVerbs) FinalizeCluster(ctx context.Context, c node.Caller) (level int, err error) {
	err = g.change(&c, "finalize-cluster", access.Administer, access.OfCluster, func() (err error) {
		level, err = g.node.FinalizeCluster(ctx, c)
		return err
	})
	return level, err
}

func (g *clusterVerbs) TransferLeader(ctx context.Context, c node.Caller, log, to string) error {
	return g.change(&c, "transfer-leader", access.Administer, access.OfCluster, func() error { return g.node.TransferLeader(ctx, c, log, to) })
}

// What every client may know that may call at all.

func (g *publicVerbs) ClusterID() string                             { return g.node.ClusterID() }
func (g *publicVerbs) Members() (members []node.Member, self uint64) { return g.node.Members() }
func (g *publicVerbs) ConfigOf(log string) *node.Config              { return g.node.ConfigOf(log) }

// May refuses what a caller has no right to. It is for what servers do without a verb of
// the node, such as with consumer groups.
func (g *core) May(c node.Caller, verb string, need access.Rights, o access.Object) error {
	if refusal := g.may(&c, verb, need, o); refusal != nil {
		return refusal
	}
	return nil
}

// Changed is the audit of what May has allowed and has changed something.
func (g *core) Audit(c node.Caller, verb string, o access.Object, err error) {
	g.record(&c, verb, o, err)
}
