package kafkadoor

import (
	"context"

	"strandline.dev/internal/node"
	"strandline.dev/internal/record"
	"strandline.dev/internal/sequence"
)

// Node is what the door asks of a node. See node.Node for what each verb
// promises.
type Node interface {
	ID() uint64
	ClusterID() string

	Append(c node.Caller, log string, a *sequence.Append, done func(sequence.Answer))
	Read(ctx context.Context, c node.Caller, log string, r node.ReadRequest) (Reader, error)
	Trim(ctx context.Context, c node.Caller, log string, before record.Offset, fastForward bool) (start, end record.Offset, err error)
	ReserveSession(ctx context.Context, c node.Caller) (record.SessionID, error)

	Bounds(c node.Caller, log string) (node.Bounds, error)
	Changed(c node.Caller, log string, since node.Bounds) (<-chan struct{}, error)
	Info(ctx context.Context, c node.Caller, log string) (node.Info, error)
	KnownInfo(c node.Caller, log string) (node.Info, error)

	CreateLog(ctx context.Context, c node.Caller, name string, config node.Config) (node.Info, error)
	ListLogs(ctx context.Context, c node.Caller, internal bool) ([]node.Info, error)
	ConfigureLog(ctx context.Context, c node.Caller, name string, config node.Config) (node.Info, error)
	DeleteLog(ctx context.Context, c node.Caller, name string) error
}

// Reader is a node.Reader.
type Reader interface {
	First() record.Offset
	Next(ctx context.Context) (node.Chunk, error)
	Close()
}

// Verbs are those of a real node.
func Verbs(n *node.Node) Node { return verbs{n} }

type verbs struct{ *node.Node }

func (v verbs) Read(ctx context.Context, c node.Caller, log string, q node.ReadRequest) (Reader, error) {
	r, err := v.Node.Read(ctx, c, log, q)
	if err != nil {
		return nil, err
	}
	return r, nil
}

// What changes the catalog is carried through, whether the client waits for it
// or not: what is half done would have to be noticed and put right by others.

func (v verbs) CreateLog(ctx context.Context, c node.Caller, name string, config node.Config) (node.Info, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), changeTime)
	defer cancel()
	return v.Node.CreateLog(ctx, c, name, config)
}

func (v verbs) ConfigureLog(ctx context.Context, c node.Caller, name string, config node.Config) (node.Info, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), changeTime)
	defer cancel()
	return v.Node.ConfigureLog(ctx, c, name, config)
}

func (v verbs) DeleteLog(ctx context.Context, c node.Caller, name string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), changeTime)
	defer cancel()
	return v.Node.DeleteLog(ctx, c, name)
}

var (
	// anonymous is every caller, until callers are told apart.
	anonymous node.Caller
	// system is the door itself.
	system = node.Caller{Name: "kafka", System: true}
)
