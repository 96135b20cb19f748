package grpcserver

import (
	"context"
	"time"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/internal/cluster"
	"strandline.dev/internal/cluster/access"
	"strandline.dev/internal/digest"
	"strandline.dev/internal/node"
	"strandline.dev/internal/node/reading"
	"strandline.dev/internal/record"
	"strandline.dev/internal/sequence"
	"strandline.dev/internal/server/guard"
	"strandline.dev/internal/server/rpc"
)

// Node is what the server asks of a node. See node.Node for what each verb
// promises.
type Node interface {
	Append(c node.Caller, log string, a *sequence.Append, done func(sequence.Answer))
	Read(ctx context.Context, c node.Caller, log string, r reading.Request) (Reader, error)
	Digest(ctx context.Context, c node.Caller, log string, q node.DigestRequest) (node.Digest, error)
	Prove(ctx context.Context, c node.Caller, log string, offset record.Offset, q node.DigestRequest) (digest.Proof, node.Digest, error)
	Trim(ctx context.Context, c node.Caller, log string, before record.Offset, fastForward bool) (start, end record.Offset, err error)
	AcquireWriter(ctx context.Context, c node.Caller, log string) (record.WriterTerm, record.Offset, error)
	SetHold(ctx context.Context, c node.Caller, log string, hold record.Hold, at reading.FromKind) (node.HoldPlace, error)
	KeepHold(ctx context.Context, c node.Caller, log, name string) error
	ReleaseHold(ctx context.Context, c node.Caller, log, name string) error

	Info(ctx context.Context, c node.Caller, log string) (node.Info, error)
	KnownInfo(c node.Caller, log string) (node.Info, error)
	KnownHolds(c node.Caller, log string) ([]node.Hold, error)
	WatchInfo(ctx context.Context, c node.Caller, log string, since node.Info) (node.Info, error)

	OpenSession(ctx context.Context, c node.Caller, log string, lease time.Duration) (node.Session, error)
	KeepSession(ctx context.Context, c node.Caller, log string, id record.SessionID) error
	CloseSession(ctx context.Context, c node.Caller, log string, id record.SessionID) error
	ListSessions(ctx context.Context, c node.Caller, log string, after record.SessionID) (all []guard.Session, more bool, err error)
	ListConnections(ctx context.Context, c node.Caller) (all []guard.Connection, at string, err error)
	CloseConnections(ctx context.Context, c node.Caller, id uint64, principal string) (closed int, err error)
	Resolve(ctx context.Context, c node.Caller, log string, id record.SessionID, e record.Epoch, s record.Sequence, final bool) (sequence.Outcome, record.Epoch, error)

	CreateLog(ctx context.Context, c node.Caller, name string, config node.Config) (node.Info, error)
	ListLogs(ctx context.Context, c node.Caller, internal bool) ([]node.Info, error)
	ConfigureLog(ctx context.Context, c node.Caller, name string, config node.Config) (node.Info, error)
	DeleteLog(ctx context.Context, c node.Caller, name string) error

	InitCluster(ctx context.Context, c node.Caller) (node.Formation, error)
	ClusterStatus(ctx context.Context, c node.Caller) (node.ClusterStatus, error)
	AddNode(ctx context.Context, c node.Caller, name, address string) (existed bool, err error)
	CreateToken(ctx context.Context, c node.Caller, lifetime time.Duration, reusable bool) (token string, expires time.Time, err error)
	RemoveNode(ctx context.Context, c node.Caller, name string) error
	Rebalance(ctx context.Context, c node.Caller) (left int, err error)
	ReplaceNode(ctx context.Context, c node.Caller, dead, with string) error
	TransferLeader(ctx context.Context, c node.Caller, log, to string) error
	DrainNode(ctx context.Context, c node.Caller, name string, undo bool) error
	SetDefaultRule(ctx context.Context, c node.Caller, prefix string, rule cluster.Rule) error
	FinalizeCluster(ctx context.Context, c node.Caller) (level int, err error)

	May(c node.Caller, verb string, need access.Rights, o access.Object) error

	WhoAmI(c node.Caller) (principal, token string, enforced bool)
	PutUser(ctx context.Context, c node.Caller, name, password string) (made string, existed bool, err error)
	RemoveUser(ctx context.Context, c node.Caller, name string) error
	Users(ctx context.Context, c node.Caller) ([]access.User, error)
	CreateAccessToken(ctx context.Context, c node.Caller, user string, lifetime time.Duration, scope []access.Scope) (text string, t access.Token, err error)
	RevokeAccessToken(ctx context.Context, c node.Caller, id string) error
	AccessTokens(ctx context.Context, c node.Caller) ([]access.Token, error)
	AddGrants(ctx context.Context, c node.Caller, all []access.Grant) error
	RemoveGrants(ctx context.Context, c node.Caller, all []access.Grant) error
	Grants(ctx context.Context, c node.Caller) (all []access.Grant, enforced bool, err error)
	EnforceRights(ctx context.Context, c node.Caller, on bool, administrator string) error
}

// Reader is a reading.Reader.
type Reader interface {
	rpc.Reader
	Log() uint64
	First() record.Offset
	Next(ctx context.Context) (reading.Chunk, error)
	Close()
}

// Register serves strandline.v1 for n on s.
func Register(s *rpc.Server, n Node) {
	strandlinev1.RegisterLogServiceServer(s, &logService{server: s, node: n})
	strandlinev1.RegisterSessionServiceServer(s, &sessionService{node: n})
	strandlinev1.RegisterCatalogServiceServer(s, &catalogService{node: n})
	strandlinev1.RegisterClusterServiceServer(s, &clusterService{node: n})
	strandlinev1.RegisterAccessServiceServer(s, &accessService{node: n})
}

// Verbs are those of a real node.
func Verbs(g *guard.Guard) Node { return verbs{g} }

type verbs struct{ *guard.Guard }

func (v verbs) Read(ctx context.Context, c node.Caller, log string, q reading.Request) (Reader, error) {
	r, err := v.Guard.Read(ctx, c, log, q)
	if err != nil {
		return nil, err
	}
	return r, nil
}

// knowing is the caller of a context, who knows the log it names by an id; 0: by its name
// only.
func knowing(ctx context.Context, log uint64) node.Caller {
	c := guard.CallerOf(ctx)
	c.Log = log
	return c
}
