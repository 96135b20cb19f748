// Package logspecserver serves the logspec.Log service on one log of the node.
// An index of that service is an offset plus one.
//
// Its messages have three refusals: redirect if another node leads, full if there is no space,
// truncated if a read is below the start. Every other refusal is the status of the call, after
// which a client reconnects.
package logspecserver

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc/codes"

	"strandline.dev/api/logspec"
	"strandline.dev/internal/node/reading"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
	"strandline.dev/internal/sequence"
	"strandline.dev/internal/server/guard"
	"strandline.dev/internal/server/rpc"
)

// Node has the verbs of a node that the server calls. It is a guard.Guard; see node.Node for the
// contract of each verb.
type Node interface {
	Append(c verbs.Caller, log string, a *sequence.Append, written, done func(sequence.Answer))
	Read(ctx context.Context, c verbs.Caller, log string, r reading.Request) (guard.Reader, error)
	Trim(ctx context.Context, c verbs.Caller, log string, before record.Offset, fastForward bool) (start, end record.Offset, err error)
	Info(ctx context.Context, c verbs.Caller, log string) (verbs.Info, error)
	KnownInfo(c verbs.Caller, log string) (verbs.Info, error)
	WatchInfo(ctx context.Context, c verbs.Caller, log string, since verbs.Info) (verbs.Info, error)
	CreateLog(ctx context.Context, c verbs.Caller, name string, config settings.Config) (verbs.Info, error)
	// May returns a refusal if the caller lacks a right.
	May(c verbs.Caller, v *guard.Verb, name string) error
	PaceAppend(ctx context.Context, c verbs.Caller, log string, bytes int, waits func() (done func())) error
}

// DefaultLog is the log that is served unless another is configured.
const DefaultLog = "logspec"

// Register serves the named log of n on s. The log is created when it is first
// used, with the node's default configuration.
func Register(s *rpc.Server, n Node, log string) {
	logspec.RegisterLogServer(s, &service{server: s, node: n, log: log, signOfLife: signOfLife})
}

type service struct {
	logspec.UnimplementedLogServer
	server *rpc.Server
	node   Node
	log    string
	// signOfLife is how long a read is silent at the tail before it sends an
	// empty reply.
	signOfLife time.Duration
}

// ensureLog creates the log if it is not there.
func (d *service) ensureLog(ctx context.Context) error {
	_, err := d.node.KnownInfo(guard.CallerOf(ctx), d.log)
	if is(err, record.LogNotFound) {
		_, err = d.node.CreateLog(ctx, guard.CallerOf(ctx), d.log, settings.Config{})
		if is(err, record.LogExists) {
			err = nil
		}
	}
	return err
}

// redirect returns the new address if err means that another node leads. With an empty host, the
// client must find the leader itself.
func redirect(err error) *logspec.Redirect {
	var r *record.Refusal
	if errors.As(err, &r) && r.Reason == record.NotLeader {
		return &logspec.Redirect{Host: r.Leader}
	}
	return nil
}

// statusOf returns the status for an error that no reply can express. What is too large
// is RESOURCE_EXHAUSTED in this service.
func statusOf(ctx context.Context, err error) error {
	var r *record.Refusal
	if errors.As(err, &r) && r.Reason == record.TooLarge {
		return rpc.Status(r, codes.ResourceExhausted)
	}
	return rpc.StatusOf(ctx, err)
}

func is(err error, reason record.Reason) bool {
	return errors.Is(err, &record.Refusal{Reason: reason})
}

// indexOf is the index of the record at an offset.
func indexOf(o record.Offset) uint64 { return uint64(o) + 1 }
