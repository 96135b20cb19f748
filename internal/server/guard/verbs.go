package guard

import (
	"context"
	"time"

	"strandline.dev/internal/budget"
	"strandline.dev/internal/cluster"
	"strandline.dev/internal/cluster/access"
	"strandline.dev/internal/digest"
	"strandline.dev/internal/node/membership"
	"strandline.dev/internal/node/reading"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
	"strandline.dev/internal/sequence"
)

// The table of verbs, see table.go: what refusals and the audit log call each, the right that it needs and on what,
// whether calls of it are audited, and the methods of gRPC that call it. Verbs that only show what there is share a row.
// Kafka's requests and the paths of HTTP name the verb that they call, see their tables.
var (
	// Append is called by streams, whose requests are admitted one by one.
	Append        = row("append", access.Append, access.Log, silent).small("LogService/Append", "logspec.Log/Append")
	Read          = row("read", access.Read, access.Log, silent, "LogService/Read").small("logspec.Log/Read")
	Digest        = row("digest", access.Read, access.Log, silent, "LogService/Digest")
	Prove         = row("prove", access.Read, access.Log, silent, "LogService/Prove")
	Trim          = row("trim", access.Trim, access.Log, audited, "LogService/Trim").small("logspec.Log/Discard")
	Seal          = row("seal", access.Configure, access.Log, audited, "LogService/Seal")
	AcquireWriter = row("acquire-writer", access.Append, access.Log, audited, "LogService/AcquireWriter")
	LeaseWriter   = row("lease-writer", access.Append, access.Log, audited, "LogService/LeaseWriter")
	KeepWriter    = row("keep-writer", access.Append, access.Log, silent, "LogService/KeepWriter").renews() // changes nothing, and comes often
	ReleaseWriter = row("release-writer", access.Append, access.Log, audited, "LogService/ReleaseWriter").renews()
	Observe       = row("observe", access.Observe, access.Log, silent, "LogService/GetInfo", "LogService/WatchInfo", "LogService/WatchWriter").small("logspec.Log/Info", "logspec.Log/InfoStream")

	SetHold     = row("set-hold", access.Trim, access.Log, audited, "LogService/SetHold")
	KeepHold    = row("keep-hold", access.Trim, access.Log, silent, "LogService/KeepHold").renews() // changes nothing, and comes often
	ReleaseHold = row("release-hold", access.Trim, access.Log, audited, "LogService/ReleaseHold").renews()

	OpenSession  = row("open-session", access.Append, access.Log, silent, "SessionService/OpenSession")
	KeepSession  = row("keep-session", access.Append, access.Log, silent, "SessionService/KeepSession").renews()
	CloseSession = row("close-session", access.Append, access.Log, silent, "SessionService/CloseSession").renews()
	EndSession   = row("close-session", access.Administer, access.Log, audited) // CloseSession of another principal's session
	Resolve      = row("resolve", access.Append, access.Log, silent, "SessionService/Resolve")
	ListSessions = row("list-sessions", access.Administer, access.Log, silent, "ClusterService/ListSessions")

	CreateLog     = row("create-log", access.Create, access.Log, audited, "CatalogService/CreateLog")
	ConfigureLog  = row("configure-log", access.Configure, access.Log, audited, "CatalogService/ConfigureLog")
	AddPartitions = row("add-partitions", access.Configure, access.Log, audited)
	DeleteLog     = row("delete-log", access.Delete, access.Log, audited, "CatalogService/DeleteLog")
	// List returns to each caller the objects that it may observe.
	List = row("list", access.None, access.Cluster, silent).small("CatalogService/ListLogs", "GroupService/ListGroups")

	InitCluster     = row("init-cluster", access.Administer, access.Cluster, audited, "ClusterService/InitCluster")
	ObserveCluster  = row("observe", access.Observe, access.Cluster, silent, "ClusterService/GetClusterStatus")
	AddNode         = row("add-node", access.Administer, access.Cluster, audited, "ClusterService/AddNode")
	CreateToken     = row("create-join-token", access.Administer, access.Cluster, audited, "ClusterService/CreateToken")
	RemoveNode      = row("remove-node", access.Administer, access.Cluster, audited, "ClusterService/RemoveNode")
	ReplaceNode     = row("replace-node", access.Administer, access.Cluster, audited, "ClusterService/ReplaceNode")
	Rebalance       = row("rebalance", access.Administer, access.Cluster, audited, "ClusterService/Rebalance")
	TransferLeader  = row("transfer-leader", access.Administer, access.Cluster, audited, "ClusterService/TransferLeader")
	DrainNode       = row("drain-node", access.Administer, access.Cluster, audited, "ClusterService/DrainNode")
	SetDefaultRule  = row("set-default-rule", access.Administer, access.Cluster, audited, "ClusterService/SetDefaultRule")
	FinalizeCluster = row("finalize-cluster", access.Administer, access.Cluster, audited, "ClusterService/FinalizeCluster")

	ListConnections  = row("list-connections", access.Administer, access.Cluster, silent, "ClusterService/ListConnections")
	CloseConnections = row("close-connections", access.Administer, access.Cluster, audited, "ClusterService/CloseConnections")
	Profile          = row("profile", access.Administer, access.Cluster, silent)

	WhoAmI            = row("who-am-i", access.None, access.Cluster, silent).small("AccessService/WhoAmI").open()
	PutUser           = row("put-user", access.Administer, access.Cluster, audited, "AccessService/PutUser")
	RemoveUser        = row("remove-user", access.Administer, access.Cluster, audited, "AccessService/RemoveUser")
	CreateAccessToken = row("create-token", access.Administer, access.Cluster, audited, "AccessService/CreateAccessToken")
	RevokeAccessToken = row("revoke-token", access.Administer, access.Cluster, audited, "AccessService/RevokeAccessToken")
	AddGrants         = row("add-grants", access.Administer, access.Cluster, audited, "AccessService/AddGrants")
	RemoveGrants      = row("remove-grants", access.Administer, access.Cluster, audited, "AccessService/RemoveGrants")
	EnforceRights     = row("enforce-rights", access.Administer, access.Cluster, audited, "AccessService/EnforceRights")
	SetQuota          = row("set-quota", access.Administer, access.Cluster, audited, "AccessService/SetQuota")
	RemoveQuota       = row("remove-quota", access.Administer, access.Cluster, audited, "AccessService/RemoveQuota")
	ListQuotas        = row("list-quotas", access.Administer, access.Cluster, silent, "AccessService/ListQuotas")
	ListAccess        = row("list-access", access.Administer, access.Cluster, silent, "AccessService/ListUsers", "AccessService/ListAccessTokens", "AccessService/ListGrants")

	ObserveGroup    = row("observe", access.Observe, access.Group, silent, "GroupService/ListGroupOffsets").small("GroupService/DescribeGroup")
	JoinGroup       = row("join-group", access.Read, access.Group, silent)
	EvictMembers    = row("evict-members", access.Read, access.Group, audited).small("GroupService/EvictMembers")
	DeleteGroup     = row("delete-group", access.Delete, access.Group, audited).small("GroupService/DeleteGroup")
	SetGroupOffsets = row("set-group-offsets", access.Read, access.Group, audited, "GroupService/SetGroupOffsets")
	CommitOffset    = row("commit-offset", access.Read, access.Group, silent)
	DeleteOffsets   = row("delete-offsets", access.Delete, access.Group, audited)
	// The verb that sets offsets of a group also needs a right on the topic, under the same name.
	SetTopicOffsets    = row("set-group-offsets", access.Read, access.Log, silent)
	CommitTopicOffsets = row("commit-offset", access.Read, access.Log, silent)

	// Connect is the verb of requests that Kafka's clients send first on a connection.
	Connect = row("connect", access.None, access.Cluster, audited)
)

// The verbs: each is the node's of its name, for callers that may call it.

func (g *Guard) Append(c verbs.Caller, log string, a *sequence.Append, written, done func(sequence.Answer)) {
	if refusal := g.mayUse(&c, Append, log, a.Session); refusal != nil {
		done(sequence.Answer{Refusal: refusal})
		return
	}
	if a.Check != nil { // its refusal reveals content of the log
		if refusal := g.may(&c, Read, log); refusal != nil {
			done(sequence.Answer{Refusal: refusal})
			return
		}
	}
	g.node.Append(c, log, a, written, done)
}

// Reader is a reading.Reader or an equivalent.
type Reader interface {
	First() record.Offset
	Log() uint64
	Next(ctx context.Context) (reading.Chunk, error)
	Drop(end func())
	Close()
}

func (g *Guard) Read(ctx context.Context, c verbs.Caller, log string, q reading.Request) (Reader, error) {
	g.relies(ctx, Read, log)
	if refusal := g.may(&c, Read, log); refusal != nil {
		return nil, refusal
	}
	if err := g.pace(ctx, whose(c), g.o.QuotaWait, nil, func(rules *access.Rules) []budget.Share {
		return shares(rules, c, log, taking{Requests, 1, false, true})
	}); err != nil {
		return nil, err
	}
	r, err := g.node.Read(ctx, c, log, q)
	if err != nil {
		g.countCrowding(&c, err)
		return nil, err // not a Reader with nil in it
	}
	if c.System {
		return r, nil
	}
	return &pacedReader{Reader: r, guard: g, by: c, log: log}, nil
}

func (g *Guard) Digest(ctx context.Context, c verbs.Caller, log string, q verbs.DigestRequest) (verbs.Digest, error) {
	return call(g, &c, Digest, log, func() (verbs.Digest, error) { return g.node.Digest(ctx, c, log, q) })
}

func (g *Guard) Prove(ctx context.Context, c verbs.Caller, log string, offset record.Offset, q verbs.DigestRequest) (digest.Proof, verbs.Digest, error) {
	return call2(g, &c, Prove, log, func() (digest.Proof, verbs.Digest, error) { return g.node.Prove(ctx, c, log, offset, q) })
}

func (g *Guard) Trim(ctx context.Context, c verbs.Caller, log string, before record.Offset, fastForward bool) (start, end record.Offset, err error) {
	return call2(g, &c, Trim, log, func() (start, end record.Offset, err error) { return g.node.Trim(ctx, c, log, before, fastForward) })
}

func (g *Guard) Seal(ctx context.Context, c verbs.Caller, log string) (start, end record.Offset, err error) {
	return call2(g, &c, Seal, log, func() (start, end record.Offset, err error) { return g.node.Seal(ctx, c, log) })
}

func (g *Guard) AcquireWriter(ctx context.Context, c verbs.Caller, log string) (record.WriterTerm, record.Offset, error) {
	return call2(g, &c, AcquireWriter, log, func() (record.WriterTerm, record.Offset, error) { return g.node.AcquireWriter(ctx, c, log) })
}

// LeaseWriter looks at the rights of the caller again after it has waited in line: it may have lost them meanwhile.
func (g *Guard) LeaseWriter(ctx context.Context, c verbs.Caller, log string, w record.Writer, wait time.Duration) (verbs.WriterGrant, error) {
	grant, err := call(g, &c, LeaseWriter, log, func() (verbs.WriterGrant, error) { return g.node.LeaseWriter(ctx, c, log, w, wait) })
	if err != nil {
		return verbs.WriterGrant{}, err
	}
	if refusal := g.may(&c, LeaseWriter, log); refusal != nil {
		if grant.Term != 0 {
			g.node.AbandonWriter(c, log, grant.Term)
		}
		return verbs.WriterGrant{}, refusal
	}
	return grant, nil
}

func (g *Guard) KeepWriter(ctx context.Context, c verbs.Caller, log string, term record.WriterTerm) error {
	return do(g, &c, KeepWriter, log, func() error { return g.node.KeepWriter(ctx, c, log, term) })
}

func (g *Guard) ReleaseWriter(ctx context.Context, c verbs.Caller, log string, term record.WriterTerm, to string) error {
	return do(g, &c, ReleaseWriter, log, func() error { return g.node.ReleaseWriter(ctx, c, log, term, to) })
}

func (g *Guard) WatchWriter(ctx context.Context, c verbs.Caller, log string, seen *verbs.WriterState, after time.Duration) (verbs.WriterState, error) {
	g.relies(ctx, Observe, log)
	return call(g, &c, Observe, log, func() (verbs.WriterState, error) { return g.node.WatchWriter(ctx, c, log, seen, after) })
}

func (g *Guard) Info(ctx context.Context, c verbs.Caller, log string) (verbs.Info, error) {
	g.relies(ctx, Observe, log) // a stream that watches begins with it
	return call(g, &c, Observe, log, func() (verbs.Info, error) { return g.node.Info(ctx, c, log) })
}

func (g *Guard) KnownInfo(c verbs.Caller, log string) (verbs.Info, error) {
	return call(g, &c, Observe, log, func() (verbs.Info, error) { return g.node.KnownInfo(c, log) })
}

func (g *Guard) WatchInfo(ctx context.Context, c verbs.Caller, log string, since verbs.Info) (verbs.Info, error) {
	g.relies(ctx, Observe, log)
	return call(g, &c, Observe, log, func() (verbs.Info, error) { return g.node.WatchInfo(ctx, c, log, since) })
}

func (g *Guard) Bounds(c verbs.Caller, log string) (verbs.Bounds, error) {
	return call(g, &c, Observe, log, func() (verbs.Bounds, error) { return g.node.Bounds(c, log) })
}

func (g *Guard) Await(c verbs.Caller, log string, since verbs.Bounds, w *reading.Waiter) (leave func(), err error) {
	return call(g, &c, Observe, log, func() (func(), error) { return g.node.Await(c, log, since, w) })
}

func (g *Guard) StoredBy(ctx context.Context, c verbs.Caller, log string) (map[uint64]record.Offset, error) {
	return call(g, &c, Observe, log, func() (map[uint64]record.Offset, error) { return g.node.StoredBy(ctx, c, log) })
}

func (g *Guard) Producers(ctx context.Context, c verbs.Caller, log string) ([]sequence.Producer, error) {
	return call(g, &c, Observe, log, func() ([]sequence.Producer, error) { return g.node.Producers(ctx, c, log) })
}

func (g *Guard) SetHold(ctx context.Context, c verbs.Caller, log string, hold record.Hold, at reading.FromKind) (verbs.HoldPlace, error) {
	return call(g, &c, SetHold, log, func() (verbs.HoldPlace, error) { return g.node.SetHold(ctx, c, log, hold, at) })
}

func (g *Guard) KeepHold(ctx context.Context, c verbs.Caller, log, name string) error {
	return do(g, &c, KeepHold, log, func() error { return g.node.KeepHold(ctx, c, log, name) })
}

func (g *Guard) ReleaseHold(ctx context.Context, c verbs.Caller, log, name string) error {
	return do(g, &c, ReleaseHold, log, func() error { return g.node.ReleaseHold(ctx, c, log, name) })
}

// KnownHolds returns the holds of a log with their pointers to callers that may read the log or set
// holds. Only callers that may set holds get the principals that set them.
func (g *Guard) KnownHolds(c verbs.Caller, log string) ([]verbs.Hold, error) {
	holds, err := call(g, &c, Observe, log, func() ([]verbs.Hold, error) { return g.node.KnownHolds(c, log) })
	sets := g.has(c, access.Trim, access.OfLog(log))
	reads := sets || g.has(c, access.Read, access.OfLog(log))
	for i := range holds {
		if !reads {
			holds[i].Pointer = nil
		}
		if !sets {
			holds[i].Principal = ""
		}
	}
	return holds, err
}

func (g *Guard) OpenSession(ctx context.Context, c verbs.Caller, log string, lease time.Duration) (verbs.Session, error) {
	return call(g, &c, OpenSession, log, func() (verbs.Session, error) { return g.node.OpenSession(ctx, c, log, lease) })
}

func (g *Guard) KeepSession(ctx context.Context, c verbs.Caller, log string, id record.SessionID) error {
	if refusal := g.mayUse(&c, KeepSession, log, id); refusal != nil {
		return refusal
	}
	return g.node.KeepSession(ctx, c, log, id)
}

func (g *Guard) Resolve(ctx context.Context, c verbs.Caller, log string, id record.SessionID, e record.Epoch, s record.Sequence, final bool) (sequence.Outcome, record.Epoch, error) {
	if refusal := g.mayUse(&c, Resolve, log, id); refusal != nil {
		return sequence.Outcome{}, 0, refusal
	}
	return g.node.Resolve(ctx, c, log, id, e, s, final)
}

// ReserveSession is OpenSession before the log is known: it needs the right on any log.
func (g *Guard) ReserveSession(ctx context.Context, c verbs.Caller) (record.SessionID, error) {
	if refusal := g.mayAnywhere(&c, OpenSession); refusal != nil {
		return 0, refusal
	}
	return g.node.ReserveSession(ctx, c)
}

func (g *Guard) CreateLog(ctx context.Context, c verbs.Caller, name string, config settings.Config) (verbs.Info, error) {
	return call(g, &c, CreateLog, name, func() (info verbs.Info, err error) {
		logs := 1
		if g.node.ConfigOf(name) != nil {
			logs = 0 // it exists
		}
		err = g.paceCreation(ctx, c, logs, func() (err error) {
			info, err = g.node.CreateLog(ctx, c, name, config)
			return err
		})
		return info, err
	})
}

func (g *Guard) ConfigureLog(ctx context.Context, c verbs.Caller, name string, config settings.Config) (verbs.Info, error) {
	return call(g, &c, ConfigureLog, name, func() (verbs.Info, error) { return g.node.ConfigureLog(ctx, c, name, config) })
}

func (g *Guard) DeleteLog(ctx context.Context, c verbs.Caller, name string) error {
	return do(g, &c, DeleteLog, name, func() error { return g.node.DeleteLog(ctx, c, name) })
}

// ListLogs returns the logs that the caller may observe.
func (g *Guard) ListLogs(ctx context.Context, c verbs.Caller, internal bool) ([]verbs.Info, error) {
	if refusal := g.mayList(&c); refusal != nil {
		return nil, refusal
	}
	if err := g.PaceList(ctx, c); err != nil {
		return nil, err
	}
	return g.node.ListLogs(ctx, c, internal, g.shownTo(c))
}

func (g *Guard) Topic(ctx context.Context, c verbs.Caller, name string) (verbs.Topic, error) {
	return call(g, &c, Observe, name, func() (verbs.Topic, error) { return g.node.Topic(ctx, c, name) })
}

// Topics returns the topics that the caller may observe.
func (g *Guard) Topics(ctx context.Context, c verbs.Caller) ([]verbs.Topic, error) {
	if refusal := g.mayList(&c); refusal != nil {
		return nil, refusal
	}
	return g.node.Topics(ctx, c, g.shownTo(c))
}

// KnownTopic finds a topic by its id among those that the caller may observe, as far as this node
// knows.
func (g *Guard) KnownTopic(c verbs.Caller, id cluster.TopicID) (verbs.KnownTopic, bool) {
	t, ok := g.node.KnownTopic(id)
	return t, ok && g.Sees(c, access.OfLog(t.Name))
}

// LearnTopics makes this node know every topic that was created before the call, for a caller that
// may observe some. It takes the time of a list: see PaceList.
func (g *Guard) LearnTopics(ctx context.Context, c verbs.Caller) error {
	if !g.HoldsSome(c, access.Observe, access.Log) {
		return nil
	}
	if err := g.PaceList(ctx, c); err != nil {
		return err
	}
	return g.node.LearnTopics(ctx)
}

func (g *Guard) CreateTopic(ctx context.Context, c verbs.Caller, name string, partitions int32, config settings.Config, on [][]uint64) (verbs.Topic, error) {
	return call(g, &c, CreateLog, name, func() (t verbs.Topic, err error) {
		err = g.paceCreation(ctx, c, int(partitions), func() (err error) {
			t, err = g.node.CreateTopic(ctx, c, name, partitions, config, on)
			return err
		})
		return t, err
	})
}

func (g *Guard) AddPartitions(ctx context.Context, c verbs.Caller, name string, partitions int32, on [][]uint64) error {
	return do(g, &c, AddPartitions, name, func() error {
		t, err := g.node.Topic(ctx, c, name)
		if err != nil {
			return err
		}
		more := max(0, int(partitions)-len(t.Partitions))
		return g.paceCreation(ctx, c, more, func() error { return g.node.AddPartitions(ctx, c, name, partitions, on) })
	})
}

func (g *Guard) ConfigureTopic(ctx context.Context, c verbs.Caller, name string, config settings.Config) error {
	return do(g, &c, ConfigureLog, name, func() error { return g.node.ConfigureTopic(ctx, c, name, config) })
}

func (g *Guard) DeleteTopic(ctx context.Context, c verbs.Caller, name string) error {
	return do(g, &c, DeleteLog, name, func() error { return g.node.DeleteTopic(ctx, c, name) })
}

// InitCluster needs the right to administer the future cluster.
func (g *Guard) InitCluster(ctx context.Context, c verbs.Caller) (membership.Formation, error) {
	if g.o.Administrator != "" && g.node.ClusterID() == "" {
		rights, refusal := access.Enforce(access.List{}, true, g.o.Administrator)
		if refusal == nil {
			refusal = g.mayBy(access.Compile(access.List{}.With(&rights)), true, &c, InitCluster.Name, InitCluster.Right, access.OfCluster)
		}
		if refusal != nil {
			return membership.Formation{}, record.Refuse(refusal.Reason, "%s; only %s may form the cluster (serve --administrator)", refusal.Detail, g.o.Administrator)
		}
	}
	return call(g, &c, InitCluster, "", func() (membership.Formation, error) { return g.node.InitCluster(ctx, c) })
}

func (g *Guard) ClusterStatus(ctx context.Context, c verbs.Caller) (verbs.ClusterStatus, error) {
	return call(g, &c, ObserveCluster, "", func() (verbs.ClusterStatus, error) { return g.node.ClusterStatus(ctx, c) })
}

func (g *Guard) AddNode(ctx context.Context, c verbs.Caller, name, address string) (existed bool, err error) {
	return call(g, &c, AddNode, "", func() (bool, error) { return g.node.AddNode(ctx, c, name, address) })
}

// CreateToken creates a token with which nodes join. CreateAccessToken is for clients.
func (g *Guard) CreateToken(ctx context.Context, c verbs.Caller, lifetime time.Duration, reusable bool) (token string, expires time.Time, err error) {
	return call2(g, &c, CreateToken, "", func() (string, time.Time, error) { return g.node.CreateToken(ctx, c, lifetime, reusable) })
}

func (g *Guard) RemoveNode(ctx context.Context, c verbs.Caller, name string) error {
	return do(g, &c, RemoveNode, "", func() error { return g.node.RemoveNode(ctx, c, name) })
}

func (g *Guard) ReplaceNode(ctx context.Context, c verbs.Caller, dead, with string) error {
	return do(g, &c, ReplaceNode, "", func() error { return g.node.ReplaceNode(ctx, c, dead, with) })
}

func (g *Guard) Rebalance(ctx context.Context, c verbs.Caller) (left int, err error) {
	return call(g, &c, Rebalance, "", func() (int, error) { return g.node.Rebalance(ctx, c) })
}

func (g *Guard) TransferLeader(ctx context.Context, c verbs.Caller, log, to string) error {
	return do(g, &c, TransferLeader, "", func() error { return g.node.TransferLeader(ctx, c, log, to) })
}

func (g *Guard) DrainNode(ctx context.Context, c verbs.Caller, name string, undo bool) error {
	return do(g, &c, DrainNode, "", func() error { return g.node.DrainNode(ctx, c, name, undo) })
}

func (g *Guard) SetDefaultRule(ctx context.Context, c verbs.Caller, prefix string, rule cluster.Rule) error {
	return do(g, &c, SetDefaultRule, "", func() error { return g.node.SetDefaultRule(ctx, c, prefix, rule) })
}

func (g *Guard) FinalizeCluster(ctx context.Context, c verbs.Caller) (level int, err error) {
	return call(g, &c, FinalizeCluster, "", func() (int, error) { return g.node.FinalizeCluster(ctx, c) })
}

// Verbs that every client with access may call.

func (g *Guard) ClusterID() string                                   { return g.node.ClusterID() }
func (g *Guard) Members() (members []membership.Member, self uint64) { return g.node.Members() }
func (g *Guard) ConfigOf(log string) *settings.Config                { return g.node.ConfigOf(log) }
