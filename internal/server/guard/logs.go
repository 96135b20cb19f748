package guard

import (
	"context"

	"strandline.dev/internal/cluster/access"
	"strandline.dev/internal/digest"
	"strandline.dev/internal/node"
	"strandline.dev/internal/node/reading"
	"strandline.dev/internal/record"
	"strandline.dev/internal/sequence"
)

// The verbs of logs: what each needs is in the first line.

func (g *logVerbs) Append(c node.Caller, log string, a *sequence.Append, done func(sequence.Answer)) {
	if refusal := g.mayUse(&c, "append", log, a.Session); refusal != nil {
		done(sequence.Answer{Refusal: refusal})
		return
	}
	g.node.Append(c, log, a, done)
}

func (g *logVerbs) AppendEarly(c node.Caller, log string, a *sequence.Append, written, done func(sequence.Answer)) {
	if refusal := g.mayUse(&c, "append", log, a.Session); refusal != nil {
		done(sequence.Answer{Refusal: refusal})
		return
	}
	g.node.AppendEarly(c, log, a, written, done)
}

func (g *logVerbs) AcquireWriter(ctx context.Context, c node.Caller, log string) (term record.WriterTerm, end record.Offset, err error) {
	err = g.change(&c, "acquire-writer", access.Append, access.OfLog(log), func() (err error) {
		term, end, err = g.node.AcquireWriter(ctx, c, log)
		return err
	})
	return term, end, err
}

func (g *logVerbs) Read(ctx context.Context, c node.Caller, log string, r reading.Request) (*reading.Reader, error) {
	if refusal := g.may(&c, "read", access.Read, access.OfLog(log)); refusal != nil {
		return nil, refusal
	}
	return g.node.Read(ctx, c, log, r)
}

func (g *logVerbs) Digest(ctx context.Context, c node.Caller, log string, q node.DigestRequest) (node.Digest, error) {
	if refusal := g.may(&c, "digest", access.Read, access.OfLog(log)); refusal != nil {
		return node.Digest{}, refusal
	}
	return g.node.Digest(ctx, c, log, q)
}

func (g *logVerbs) Prove(ctx context.Context, c node.Caller, log string, offset record.Offset, q node.DigestRequest) (digest.Proof, node.Digest, error) {
	if refusal := g.may(&c, "prove", access.Read, access.OfLog(log)); refusal != nil {
		return digest.Proof{}, node.Digest{}, refusal
	}
	return g.node.Prove(ctx, c, log, offset, q)
}

func (g *logVerbs) Trim(ctx context.Context, c node.Caller, log string, before record.Offset, fastForward bool) (start, end record.Offset, err error) {
	err = g.change(&c, "trim", access.Trim, access.OfLog(log), func() (err error) {
		start, end, err = g.node.Trim(ctx, c, log, before, fastForward)
		return err
	})
	return start, end, err
}

func (g *logVerbs) Info(ctx context.Context, c node.Caller, log string) (node.Info, error) {
	if refusal := g.may(&c, "observe", access.Observe, access.OfLog(log)); refusal != nil {
		return node.Info{}, refusal
	}
	return g.node.Info(ctx, c, log)
}

func (g *logVerbs) KnownInfo(c node.Caller, log string) (node.Info, error) {
	if refusal := g.may(&c, "observe", access.Observe, access.OfLog(log)); refusal != nil {
		return node.Info{}, refusal
	}
	return g.node.KnownInfo(c, log)
}

func (g *logVerbs) WatchInfo(ctx context.Context, c node.Caller, log string, since node.Info) (node.Info, error) {
	if refusal := g.may(&c, "observe", access.Observe, access.OfLog(log)); refusal != nil {
		return node.Info{}, refusal
	}
	return g.node.WatchInfo(ctx, c, log, since)
}

func (g *logVerbs) Bounds(c node.Caller, log string) (node.Bounds, error) {
	if refusal := g.may(&c, "observe", access.Observe, access.OfLog(log)); refusal != nil {
		return node.Bounds{}, refusal
	}
	return g.node.Bounds(c, log)
}

func (g *logVerbs) Await(c node.Caller, log string, since node.Bounds, w *reading.Waiter) (leave func(), err error) {
	if refusal := g.may(&c, "observe", access.Observe, access.OfLog(log)); refusal != nil {
		return nil, refusal
	}
	return g.node.Await(c, log, since, w)
}

func (g *logVerbs) StoredBy(ctx context.Context, c node.Caller, log string) (map[uint64]record.Offset, error) {
	if refusal := g.may(&c, "observe", access.Observe, access.OfLog(log)); refusal != nil {
		return nil, refusal
	}
	return g.node.StoredBy(ctx, c, log)
}

func (g *logVerbs) Producers(ctx context.Context, c node.Caller, log string) ([]sequence.Producer, error) {
	if refusal := g.may(&c, "observe", access.Observe, access.OfLog(log)); refusal != nil {
		return nil, refusal
	}
	return g.node.Producers(ctx, c, log)
}
