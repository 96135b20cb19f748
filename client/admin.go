package client

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	strandlinev1 "strandline.dev/api/strandline/v1"
)

// Admin creates, describes and trims logs, and manages sessions and writer terms for programs
// that do not use a Producer. Its methods are safe for concurrent use. While no node can answer,
// they retry for the time of WithRetryTime. Every error is an *Error.
type Admin struct {
	client *Client
	// trouble is called with the reason when a call fails and is retried, and with nil once it has
	// succeeded.
	trouble func(error)
	waits   waits
	// inLine is set if a call waits in line for its turn. That time does not count against
	// WithRetryTime.
	inLine bool
}

// Admin returns the methods other than append and read.
func (c *Client) Admin() *Admin {
	return &Admin{client: c, trouble: func(error) {}, waits: c.peers.waits}
}

// opener returns an Admin for opening a Producer or Reader. Its failures are reported to the
// handler of WithTroubleHandler.
func (c *Client) opener(log string) *Admin {
	a := c.Admin()
	a.trouble = func(err error) { c.options.onTrouble(log, err) }
	return a
}

// keeper is opener for the renewals of a lease.
func (c *Client) keeper(log string, lease time.Duration) *Admin {
	a := c.opener(log)
	a.waits = a.waits.within(lease)
	return a
}

// Durability is what an acknowledgement guarantees.
type Durability uint8

const (
	// Disk means that the record is fsynced on a majority of replicas.
	Disk Durability = iota
	// Memory means that the record is in the memory of a majority of replicas, with nothing on disk.
	Memory
)

func (d Durability) String() string {
	if d == Memory {
		return "memory"
	}
	return "disk"
}

// LogConfig is the configuration of a log.
type LogConfig struct {
	Durability     Durability    // cannot be changed later
	Retention      time.Duration // records older than this are trimmed; 0: never
	RetentionBytes int64         // the oldest records beyond this are trimmed; 0: never
	Replicas       int           // number of nodes that hold it; 0: three, or as many as there are
	// Fenced makes the log refuse appends without a writer term, with FENCED, once a term has been
	// acquired.
	Fenced bool
	// Revision rises with each configuration that the log gets, by one unless a cluster was recovered. ConfigureLog returns
	// ErrPrecondition if the log has a different revision, so that concurrent changes do not undo
	// each other; 0: any. CreateLog ignores it.
	Revision uint64
	// Rule is the log's own placement rule. In a change, nil leaves it unchanged, and an empty one
	// removes it, so that the rule of the longest prefix of the log's name applies.
	Rule *PlacementRule
}

// LogInfo describes a log as the answering node knows it.
type LogInfo struct {
	Name    string
	ID      uint64
	Config  LogConfig
	Created time.Time

	// Offsets in [Start, End) can be read.
	Start, End int64

	BytesUsed    int64 // by this log on the answering node
	BytesFree    int64 // free there for all its logs
	WriterTerm   uint64
	OpenSessions int
	LeaderTerm   uint64
	Leader       string // address of the leader's gRPC port; empty: unknown
	Sealed       bool   // accepts no more appends
	Problem      string // why the log cannot be served; empty if it can
	// Unknown is set if the answering node has no replica and no node with one has answered. Start,
	// End and BytesUsed are not valid then.
	Unknown bool

	// Replicas are the known replicas of the log, by node.
	Replicas []ReplicaAddress
	// Holds are the holds of the log, by name. Only Info sets them.
	Holds []HoldInfo
}

// ReplicaAddress is the address of one replica of a log.
type ReplicaAddress struct {
	Node    string
	Address string // of its gRPC port
	Leader  bool
	// ReadReplica is set for a replica that never votes, and counts for no majority.
	ReadReplica bool
	Labels      []string // of the node: KEY=VALUE
	// Lag is the number of records by which it is behind the leader; nil: not known. Only Info sets
	// it.
	Lag *int64
}

// CreateLog creates a log and returns when it accepts appends or, if that takes long, with a
// LogInfo whose Problem says why it does not yet. If an answer was lost, it returns the log that
// an earlier attempt created. Only if another client deletes the log between two attempts is it
// created twice.
func (a *Admin) CreateLog(ctx context.Context, name string, config LogConfig) (LogInfo, error) {
	var info *strandlinev1.LogInfo
	request := &strandlinev1.CreateLogRequest{Name: name, Config: config.toWire(), RequestId: rand.Text()}
	err := a.call(ctx, catalog, repeatedly, func(ctx context.Context, conn *grpc.ClientConn) error {
		answer, err := strandlinev1.NewCatalogServiceClient(conn).CreateLog(ctx, request)
		info = answer.GetInfo()
		return err
	})
	return fromLogInfo(info), err
}

// ListLogs returns all logs by name, including those of the system if internal is set. A long
// list is fetched in parts: a log that is created or deleted meanwhile may be in it or not.
func (a *Admin) ListLogs(ctx context.Context, internal bool) ([]LogInfo, error) {
	logs := []LogInfo{}
	for after := ""; ; {
		request := &strandlinev1.ListLogsRequest{IncludeInternal: internal, After: after, Limit: pageLimit}
		var answer *strandlinev1.ListLogsResponse
		err := a.call(ctx, catalog, repeatedly, func(ctx context.Context, conn *grpc.ClientConn) (err error) {
			answer, err = strandlinev1.NewCatalogServiceClient(conn).ListLogs(ctx, request)
			return err
		})
		if err != nil {
			return nil, err
		}
		for _, info := range answer.GetLogs() {
			if info.GetName() > after { // an older node returns the whole list
				logs = append(logs, fromLogInfo(info))
			}
		}
		if after, err = nextPage(after, answer.GetNext()); err != nil {
			return nil, err
		} else if after == "" {
			return logs, nil
		}
	}
}

// nextPage returns the name after which the next part of a list begins, or "" if there is none. A
// list that does not advance would have an infinite number of parts.
func nextPage(after, next string) (string, error) {
	if next != "" && next <= after {
		return "", doesNotAdvance()
	}
	return next, nil
}

func doesNotAdvance() *Error {
	return &Error{Reason: ErrCorrupt.Reason, Message: "the server answered with a list that does not advance"}
}

// pageLimit is the maximum number of logs that a call requests at once; the server also limits
// the bytes.
const pageLimit = 10_000

// ConfigureLog replaces the configuration of a log. To change a part of it, change the result of
// Info. If another client changes it in between, the error is ErrPrecondition, and Info must be
// called again. When ConfigureLog returns, all reachable nodes that hold the log know the new
// configuration.
func (a *Admin) ConfigureLog(ctx context.Context, name string, config LogConfig) (LogInfo, error) {
	var info *strandlinev1.LogInfo
	err := a.call(ctx, catalog, repeatedly, func(ctx context.Context, conn *grpc.ClientConn) error {
		answer, err := strandlinev1.NewCatalogServiceClient(conn).ConfigureLog(ctx,
			&strandlinev1.ConfigureLogRequest{Name: name, Config: config.toWire()})
		info = answer.GetInfo()
		return err
	})
	return fromLogInfo(info), err
}

// DeleteLog deletes a log with all its records. It never deletes another log that was given the
// name while an answer was lost.
func (a *Admin) DeleteLog(ctx context.Context, name string) error {
	id, err := a.logID(ctx, name)
	if err != nil {
		return err
	}
	err = a.deleteLog(ctx, name, id)
	var e *Error
	if errors.As(err, &e) && e.Is(ErrLogReplaced) && e.Outcome == NotDone {
		// The node that returned the id did not know the newest log.
		err = a.deleteLog(ctx, name, e.LogID)
	}
	return err
}

// deleteLog deletes the log with the given id.
func (a *Admin) deleteLog(ctx context.Context, name string, id uint64) error {
	err := a.call(ctx, catalog, repeatedly, func(ctx context.Context, conn *grpc.ClientConn) error {
		_, err := strandlinev1.NewCatalogServiceClient(conn).DeleteLog(ctx, &strandlinev1.DeleteLogRequest{Name: name, LogId: id})
		return err
	})
	if landed(err, ErrLogNotFound, ErrLogReplaced) {
		return nil
	}
	return err
}

// logID returns the id of a log from a node's catalog. The log need not have a leader.
func (a *Admin) logID(ctx context.Context, name string) (id uint64, err error) {
	err = a.call(ctx, catalog, repeatedly, func(ctx context.Context, conn *grpc.ClientConn) error {
		answer, err := strandlinev1.NewLogServiceClient(conn).GetInfo(ctx, &strandlinev1.GetInfoRequest{Log: name, AllowStale: true})
		id = answer.GetInfo().GetId()
		return err
	})
	var e *Error
	if errors.As(err, &e) {
		e.Outcome = NotDone // a query has no effect
	}
	return id, err
}

// Info returns the description of a log.
func (a *Admin) Info(ctx context.Context, log string) (LogInfo, error) { return a.info(ctx, log, 0) }

// info returns the description of the log with the given id; 0: any.
func (a *Admin) info(ctx context.Context, log string, id uint64) (LogInfo, error) {
	var info *strandlinev1.LogInfo
	err := a.call(ctx, log, repeatedly, func(ctx context.Context, conn *grpc.ClientConn) error {
		answer, err := strandlinev1.NewLogServiceClient(conn).GetInfo(ctx, &strandlinev1.GetInfoRequest{Log: log, LogId: id})
		info = answer.GetInfo()
		return err
	})
	return fromLogInfo(info), err
}

// End returns the end of a log, confirmed by its leader and a majority of its replicas: every
// record that was acknowledged before End was called is below it. Concurrent callers share calls:
// those that arrive during a call get the answer of the next one.
func (c *Client) End(ctx context.Context, log string) (end int64, err error) {
	a := c.ends.join(log, func() (int64, error) {
		info, err := c.Admin().Info(context.Background(), log)
		return info.End, err
	})
	select {
	case <-a.done:
		return a.end, a.err
	case <-ctx.Done():
		return 0, cancelled(ctx, NotDone)
	}
}

// ends are the running queries for the ends of logs.
type ends struct {
	mu    sync.Mutex
	asked map[string]*endAnswer // by log: the callers that arrived during a call; nil: none
}

type endAnswer struct {
	done chan struct{} // closed when the rest is there
	end  int64
	err  error
}

// join returns the answer of a call of ask that begins after join was called.
func (e *ends) join(log string, ask func() (int64, error)) *endAnswer {
	e.mu.Lock()
	defer e.mu.Unlock()
	next, busy := e.asked[log]
	if next != nil {
		return next
	}
	a := &endAnswer{done: make(chan struct{})}
	if busy {
		e.asked[log] = a
		return a
	}
	if e.asked == nil {
		e.asked = map[string]*endAnswer{}
	}
	e.asked[log] = nil
	go e.run(log, a, ask)
	return a
}

// run calls ask for a and then for callers that arrived meanwhile, until there are none.
func (e *ends) run(log string, a *endAnswer, ask func() (int64, error)) {
	for a != nil {
		a.end, a.err = ask()
		close(a.done)
		e.mu.Lock()
		if a = e.asked[log]; a == nil {
			delete(e.asked, log)
		} else {
			e.asked[log] = nil
		}
		e.mu.Unlock()
	}
}

// Trim removes every record below before and returns the log's range afterwards. With
// fastForward, before may be beyond the end: the log continues there.
func (a *Admin) Trim(ctx context.Context, log string, before int64, fastForward bool) (start, end int64, err error) {
	err = a.call(ctx, log, repeatedly, func(ctx context.Context, conn *grpc.ClientConn) error {
		answer, err := strandlinev1.NewLogServiceClient(conn).Trim(ctx,
			&strandlinev1.TrimRequest{Log: log, Before: before, FastForward: fastForward})
		start, end = answer.GetStartOffset(), answer.GetEndOffset()
		return err
	})
	return start, end, err
}

// Seal ends the log for good and returns its range: appends fail with ErrSealed from then on, and
// no record will have the offset end or a higher one. Records can still be read and trimmed.
// Nothing undoes it. Sealing a sealed log changes nothing. A log with DurabilityMemory cannot be sealed.
func (a *Admin) Seal(ctx context.Context, log string) (start, end int64, err error) {
	err = a.call(ctx, log, repeatedly, func(ctx context.Context, conn *grpc.ClientConn) error {
		answer, err := strandlinev1.NewLogServiceClient(conn).Seal(ctx, &strandlinev1.SealRequest{Log: log})
		start, end = answer.GetStartOffset(), answer.GetEndOffset()
		return err
	})
	return start, end, err
}

// AcquireWriter raises the log's writer term and returns it. From then on appends with an older
// term are refused with FENCED. All records of older writers are below end.
func (a *Admin) AcquireWriter(ctx context.Context, log string) (term uint64, end int64, err error) {
	err = a.call(ctx, log, repeatedly, func(ctx context.Context, conn *grpc.ClientConn) error {
		answer, err := strandlinev1.NewLogServiceClient(conn).AcquireWriter(ctx,
			&strandlinev1.AcquireWriterRequest{Log: log})
		term, end = answer.GetWriterTerm(), answer.GetEndOffset()
		return err
	})
	return term, end, err
}

func (c LogConfig) toWire() *strandlinev1.LogConfig {
	w := &strandlinev1.LogConfig{
		Durability:     strandlinev1.Durability_DURABILITY_DISK,
		RetentionBytes: c.RetentionBytes,
		Replicas:       int32(c.Replicas),
		Fenced:         c.Fenced,
		Revision:       c.Revision,
		Rule:           c.Rule.toWire(),
	}
	if c.Durability == Memory {
		w.Durability = strandlinev1.Durability_DURABILITY_MEMORY
	}
	if c.Retention > 0 {
		w.Retention = durationpb.New(c.Retention)
	}
	return w
}

func fromLogInfo(w *strandlinev1.LogInfo) LogInfo {
	if w == nil {
		return LogInfo{}
	}
	info := LogInfo{
		Name: w.Name, ID: w.Id, Start: w.StartOffset, End: w.EndOffset,
		BytesUsed: w.BytesUsed, BytesFree: w.BytesFree,
		WriterTerm: w.WriterTerm, OpenSessions: int(w.OpenSessions),
		LeaderTerm: w.LeaderTerm, Leader: w.Leader, Sealed: w.Sealed, Problem: w.Problem, Unknown: w.Unknown,
		Config: LogConfig{
			Retention:      w.GetConfig().GetRetention().AsDuration(),
			RetentionBytes: w.GetConfig().GetRetentionBytes(),
			Replicas:       int(w.GetConfig().GetReplicas()),
			Fenced:         w.GetConfig().GetFenced(),
			Revision:       w.GetConfig().GetRevision(),
			Rule:           fromRule(w.GetConfig().GetRule()),
		},
	}
	if w.GetConfig().GetDurability() == strandlinev1.Durability_DURABILITY_MEMORY {
		info.Config.Durability = Memory
	}
	if w.Created != nil {
		info.Created = w.Created.AsTime()
	}
	for _, r := range w.Replicas {
		info.Replicas = append(info.Replicas, ReplicaAddress{Node: r.Node, Address: r.Address, Leader: r.Leader, ReadReplica: r.ReadReplica, Labels: r.Labels, Lag: r.Lag})
	}
	for _, h := range w.Holds {
		info.Holds = append(info.Holds, fromHold(h))
	}
	return info
}
