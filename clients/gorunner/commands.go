package gorunner

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"strandline.dev/client"
)

// command is one line to the runner. README.md of the scenarios says what each does.
type command struct {
	ID      int    `json:"id"`
	Do      string `json:"do"`
	Timeout int64  `json:"timeout_ms"`

	Client, Producer, Reader string

	// dial
	Addresses   []string `json:"addresses"`
	RetryTime   *int64   `json:"retry_ms"`
	Authority   string   `json:"authority"`
	Certificate string   `json:"certificate"`
	Key         string   `json:"key"`
	Token       string   `json:"token"`
	// Environment are variables to connect by; TokenFunction is what a function gives at first.
	Environment   map[string]string `json:"environment"`
	TokenFunction string            `json:"token_function"`

	// producer
	Log           string    `json:"log"`
	InFlight      int       `json:"in_flight"`
	InFlightBytes int       `json:"in_flight_bytes"`
	RequestBytes  int       `json:"request_bytes"`
	BufferBytes   int       `json:"buffer_bytes"`
	Linger        int64     `json:"linger_ms"`
	Lease         *int64    `json:"lease_ms"`
	RecordTimeout *int64    `json:"record_timeout_ms"`
	WriterTerm    uint64    `json:"writer_term"`
	NoSession     bool      `json:"no_session"`
	EndOnFailure  bool      `json:"end_on_failure"`
	Resume        *position `json:"resume"`

	// append, batch
	Values      []string `json:"values"`
	Overwrite   bool     `json:"overwrite"`
	RecordTime  *int64   `json:"record_time_ms"`
	ExpectedEnd *int64   `json:"expected_end"`
	Atomic      bool     `json:"atomic"`
	Check       *check   `json:"check"`

	// reader, read
	Offset      *int64   `json:"offset"`
	Time        int64    `json:"time_ms"`
	Tail        bool     `json:"tail"`
	Follow      bool     `json:"follow"`
	MaxRecords  int64    `json:"max_records"`
	MaxBytes    int64    `json:"max_bytes"`
	UntilOffset *int64   `json:"until_offset"`
	UntilTime   int64    `json:"until_time_ms"`
	LogID       uint64   `json:"log_id"`
	Any         bool     `json:"any_replica"`
	AtLeast     *int64   `json:"at_least"`
	MaxAge      int64    `json:"max_staleness_ms"`
	Follower    bool     `json:"prefer_follower"`
	Near        []string `json:"near"`
	Heartbeat   int64    `json:"heartbeat_ms"`
	Count       int      `json:"count"`
	selection
	writing

	// admin
	Retention      int64     `json:"retention_ms"`
	RetentionBytes int64     `json:"retention_bytes"`
	Replicas       int       `json:"replicas"`
	Fenced         bool      `json:"fenced"`
	Revision       uint64    `json:"revision"`
	Rule           *rule     `json:"rule"`
	UntilEnd       int64     `json:"until_end"`
	Callers        int       `json:"callers"`
	Known          bool      `json:"known"`
	Hash           string    `json:"hash"`
	Interval       int64     `json:"interval_ms"`
	Before         int64     `json:"before"`
	FastForward    bool      `json:"fast_forward"`
	Hold           string    `json:"hold"`
	Owner          string    `json:"owner"`
	FromStart      bool      `json:"from_start"`
	HoldMaxAge     int64     `json:"max_age_ms"`
	Pointer        string    `json:"pointer"`
	PointerHex     string    `json:"pointer_hex"`
	At             *position `json:"at"`
	Final          bool      `json:"final"`
}

// check is what must not be in the log for a batch to be appended.
type check struct {
	Since          int64
	Keys, Prefixes []string
	Headers        map[string]string
}

// position is a place in a session.
type position struct {
	LogID   uint64 `json:"log_id"`
	Session uint64 `json:"session"`
	Epoch   uint32 `json:"epoch"`
	Next    uint64 `json:"next"`
}

func (p *position) in() client.SessionPosition {
	if p == nil {
		return client.SessionPosition{}
	}
	return client.SessionPosition{LogID: p.LogID, Session: p.Session, Epoch: p.Epoch, Next: p.Next}
}

func out(p client.SessionPosition) position { return position{p.LogID, p.Session, p.Epoch, p.Next} }

// do carries out a command other than append.
func (r *runner) do(ctx context.Context, c command) (any, error) {
	switch c.Do {
	case "leaks":
		left := leaks()
		return map[string]any{"leaks": len(left), "where": left}, nil
	case "dial":
		return nil, r.dial(c)
	case "show-token":
		r.mu.Lock()
		defer r.mu.Unlock()
		r.tokens[c.Client] = c.Token
		return nil, nil
	case "await-trouble":
		return r.awaitTrouble(ctx, c.Client)
	}
	r.mu.Lock()
	of, p, reader := r.clients[c.Client], r.producers[c.Producer], r.readers[c.Reader]
	r.mu.Unlock()
	if of == nil {
		return nil, errors.New("no client " + c.Client)
	}
	switch c.Do {
	case "hang-up":
		return nil, of.Close()
	case "producer":
		made, err := of.Producer(ctx, c.Log, c.producerOptions()...)
		if err != nil {
			return nil, err
		}
		r.mu.Lock()
		r.producers[c.Producer] = made
		r.mu.Unlock()
		return out(made.Position()), nil
	case "batch":
		offset, err := p.AppendBatch(ctx, c.records(), c.appendOptions()...)
		return map[string]any{"offset": offset}, err
	case "flush":
		return nil, p.Flush(ctx)
	case "position":
		return out(p.Position()), nil
	case "close":
		return nil, p.Close(ctx)
	case "reader":
		made := newReading()
		var err error
		if made.Reader, err = of.Reader(ctx, c.Log, append(c.readerOptions(), c.selection.options(made)...)...); err != nil {
			return nil, err
		}
		r.mu.Lock()
		r.readers[c.Reader] = made
		r.mu.Unlock()
		return nil, nil
	case "read":
		return reader.read(ctx, c.Count)
	case "await-progress":
		return reader.await(ctx, *c.Offset)
	case "close-reader":
		return nil, reader.Close()
	case "leave-loop":
		return leaveLoop(ctx, of, c)
	case "end":
		return end(ctx, of, c)
	case "digest":
		return digested(ctx, of, c)
	case "prove":
		return proved(ctx, of, c)
	case "stats":
		return counted(p.Stats()), nil
	case "hold", "move-hold", "release-kept", "close-hold", "await-hold":
		return r.keepHold(ctx, of, c)
	case "elect", "release-lease", "hand-over", "await-lease":
		return r.keepLease(ctx, of, c)
	case "watch-writer", "close-watch":
		return r.watchWriter(ctx, of, c)
	}
	return administer(ctx, of.Admin(), c)
}

func (r *runner) dial(c command) error {
	var options []client.Option
	if c.RetryTime != nil {
		options = append(options, client.WithRetryTime(ms(*c.RetryTime)))
	}
	if c.Authority != "" {
		options = append(options, client.WithCertificates(c.Authority, c.Certificate, c.Key))
	}
	if c.Token != "" {
		options = append(options, client.WithToken(c.Token))
	}
	options = append(options, client.WithTroubleHandler(func(_ string, err error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.troubles[c.Client] = append(r.troubles[c.Client], err)
	}))
	if c.TokenFunction != "" {
		r.mu.Lock()
		r.tokens[c.Client] = c.TokenFunction
		r.mu.Unlock()
		options = append(options, client.WithTokenFunc(func() (string, error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			token, numbered := strings.CutSuffix(r.tokens[c.Client], "#")
			if numbered {
				r.given++
				token += strconv.Itoa(r.given)
			}
			return token, nil
		}))
	}
	var made *client.Client
	var err error
	if c.Environment != nil {
		made, err = client.DialEnvironment(func(name string) string { return c.Environment[name] }, options...)
	} else {
		made, err = client.Dial(c.Addresses, options...)
	}
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clients[c.Client] = made
	return nil
}

// awaitTrouble waits until a client has told of trouble and of its end.
func (r *runner) awaitTrouble(ctx context.Context, name string) (any, error) {
	for {
		r.mu.Lock()
		heard := r.troubles[name]
		r.mu.Unlock()
		if len(heard) > 0 && heard[len(heard)-1] == nil {
			first := failed(heard[0])
			return map[string]any{"reason": first.Reason, "retryable": first.Retryable}, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// keepHold carries out the commands of a hold that is renewed, of which a log has one.
func (r *runner) keepHold(ctx context.Context, of *client.Client, c command) (any, error) {
	r.mu.Lock()
	kept := r.holds[c.Log]
	r.mu.Unlock()
	var err error
	switch c.Do {
	case "hold":
		if kept, err = of.Hold(ctx, c.Log, c.hold()); err != nil {
			return nil, err
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.holds[c.Log] = kept
	case "move-hold":
		err = kept.Move(ctx, *c.Offset, c.pointer())
	case "release-kept":
		err = kept.Release(ctx)
	case "close-hold":
		kept.Close()
	case "await-hold":
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-kept.Done():
		}
		reason := ""
		if kept.Err() != nil {
			reason = failed(kept.Err()).Reason
		}
		return map[string]any{"reason": reason}, nil
	}
	return map[string]any{"offset": kept.Info().Offset}, err
}

// lease is the one that was given, or 0.
func (c command) lease() time.Duration {
	if c.Lease == nil {
		return 0
	}
	return ms(*c.Lease)
}

func (c command) producerOptions() []client.ProducerOption {
	o := []client.ProducerOption{
		client.WithMaxInFlightRequests(c.InFlight), client.WithMaxInFlightBytes(c.InFlightBytes),
		client.WithLinger(ms(c.Linger)), client.WithWriterTerm(c.WriterTerm), client.WithSession(c.Resume.in()),
	}
	if c.RequestBytes > 0 {
		o = append(o, client.WithMaxRequestBytes(c.RequestBytes))
	}
	if c.BufferBytes > 0 {
		o = append(o, client.WithBufferBytes(c.BufferBytes))
	}
	if c.Lease != nil {
		o = append(o, client.WithLease(ms(*c.Lease)))
	}
	if c.RecordTimeout != nil {
		o = append(o, client.WithRequestTimeout(ms(*c.RecordTimeout)))
	}
	if c.NoSession {
		o = append(o, client.WithoutSession())
	}
	if c.EndOnFailure {
		o = append(o, client.WithEndOnFailure())
	}
	return o
}

func (c command) records() []client.Record {
	all := make([]client.Record, len(c.Values))
	for i, v := range c.Values {
		all[i].Value, all[i].Headers = []byte(v), headersOf(c.Headers)
		if c.Key != "" {
			all[i].Key = []byte(c.Key)
		}
		if c.RecordTime != nil {
			all[i].Timestamp = time.UnixMilli(*c.RecordTime)
		}
	}
	return all
}

func (c command) appendOptions() []client.AppendOption {
	var o []client.AppendOption
	if c.ExpectedEnd != nil {
		o = append(o, client.WithExpectedEnd(*c.ExpectedEnd))
	}
	if c.Atomic {
		o = append(o, client.WithAtomic())
	}
	if c.Check != nil {
		o = append(o, client.WithCheck(client.Check{
			Since: c.Check.Since, Keys: bytesOf(c.Check.Keys), KeyPrefixes: bytesOf(c.Check.Prefixes), Headers: headersOf(c.Check.Headers),
		}))
	}
	return o
}

func (c command) readerOptions() []client.ReaderOption {
	o := []client.ReaderOption{client.WithMaxRecords(c.MaxRecords), client.WithMaxBytes(c.MaxBytes), client.WithLogID(c.LogID)}
	when := func(condition bool, option client.ReaderOption) {
		if condition {
			o = append(o, option)
		}
	}
	if c.Offset != nil {
		o = append(o, client.WithStartOffset(*c.Offset))
	}
	if c.UntilOffset != nil {
		o = append(o, client.WithEndOffset(*c.UntilOffset))
	}
	if c.AtLeast != nil {
		o = append(o, client.WithAtLeast(*c.AtLeast))
	}
	when(c.Time > 0, client.WithStartTime(time.UnixMilli(c.Time)))
	when(c.Tail, client.WithStartAtTail())
	when(c.Follow, client.WithFollow())
	when(c.UntilTime > 0, client.WithEndTime(time.UnixMilli(c.UntilTime)))
	when(c.Any, client.WithAnyReplica())
	when(c.MaxAge > 0, client.WithMaxStaleness(ms(c.MaxAge)))
	when(c.Follower, client.WithPreferFollower())
	when(c.Near != nil, client.WithNearest(c.Near...))
	when(c.Heartbeat > 0, client.WithHeartbeat(ms(c.Heartbeat)))
	return o
}

// end asks as many callers as c says at once for the end of a log, and returns the smallest
// answer.
func end(ctx context.Context, of *client.Client, c command) (any, error) {
	ends, errs := make([]int64, max(c.Callers, 1)), make([]error, max(c.Callers, 1))
	var asking sync.WaitGroup
	for i := range ends {
		asking.Go(func() { ends[i], errs[i] = of.End(ctx, c.Log) })
	}
	asking.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return map[string]any{"end": slices.Min(ends)}, nil
}

func digested(ctx context.Context, of *client.Client, c command) (any, error) {
	at, ask := client.DigestAtEnd, of.Digest
	if c.UntilOffset != nil {
		at = *c.UntilOffset
	}
	if c.Known {
		ask = of.KnownDigest
	}
	d, err := ask(ctx, c.Log, at)
	return map[string]any{
		"hash": d.String(), "at": d.At, "from": d.From, "covered": d.Covered, "batches": d.Batches, "start": d.Start, "end": d.End,
	}, err
}

func proved(ctx context.Context, of *client.Client, c command) (any, error) {
	trusted, err := client.ParseDigest(c.Hash, *c.UntilOffset)
	if err != nil {
		return nil, err
	}
	prove := of.Prove
	if c.Known {
		prove = of.ProveKnown
	}
	r, err := prove(ctx, c.Log, *c.Offset, trusted)
	if err != nil {
		return nil, err
	}
	return map[string]any{"offset": r.Offset, "value": text(r.Value), "key": text(r.Key), "headers": named(r.Headers), "time": r.Timestamp.UnixMilli()}, nil
}

// counted is what a producer has counted; of histograms the largest.
func counted(s client.Stats) map[string]any {
	return map[string]any{
		"in_flight_requests": s.InFlightRequests, "in_flight_records": s.InFlightRecords, "in_flight_bytes": s.InFlightBytes,
		"buffered_bytes": s.BufferedBytes, "requests": s.Requests, "records": s.Records, "bytes": s.Bytes, "failed": s.Failed,
		"resent": s.Resent, "streams": s.Streams, "request_records": s.RequestRecords.Quantile(1), "request_bytes": s.RequestBytes.Quantile(1),
		"latency_us": s.Latency.Quantile(1) / 1000,
	}
}

// administer carries out the verbs of Admin.
func administer(ctx context.Context, a *client.Admin, c command) (any, error) {
	config := client.LogConfig{
		Retention: ms(c.Retention), RetentionBytes: c.RetentionBytes, Replicas: c.Replicas, Fenced: c.Fenced, Revision: c.Revision,
		Rule: c.Rule.in(),
	}
	switch c.Do {
	case "create":
		info, err := a.CreateLog(ctx, c.Log, config)
		return described(info), err
	case "configure":
		info, err := a.ConfigureLog(ctx, c.Log, config)
		return described(info), err
	case "info":
		info, err := a.Info(ctx, c.Log)
		return described(info), err
	case "watch":
		for info, err := range a.WatchInfo(ctx, c.Log, ms(c.Interval)) {
			if err != nil || info.End >= c.UntilEnd {
				return described(info), err
			}
		}
		return nil, ctx.Err()
	case "list":
		logs, err := a.ListLogs(ctx, false)
		names := map[string]any{}
		for _, l := range logs {
			names[l.Name] = described(l)
		}
		return map[string]any{"logs": names}, err
	case "delete":
		return nil, a.DeleteLog(ctx, c.Log)
	case "trim":
		start, end, err := a.Trim(ctx, c.Log, c.Before, c.FastForward)
		return map[string]any{"start": start, "end": end}, err
	case "set-hold":
		offset, end, err := a.SetHold(ctx, c.Log, c.hold())
		return map[string]any{"offset": offset, "end": end}, err
	case "keep-hold":
		return nil, a.KeepHold(ctx, c.Log, c.Hold)
	case "release-hold":
		return nil, a.ReleaseHold(ctx, c.Log, c.Hold)
	case "acquire-writer":
		term, end, err := a.AcquireWriter(ctx, c.Log)
		return map[string]any{"writer_term": term, "end": end}, err
	case "lease-writer", "keep-writer", "release-writer":
		return leaseOnce(ctx, a, c)
	case "resolve", "end-epoch":
		resolve := func() (client.Resolution, error) { return a.Resolve(ctx, c.Log, c.At.in(), c.Final) }
		if c.Do == "end-epoch" {
			resolve = func() (client.Resolution, error) { return a.EndEpoch(ctx, c.Log, c.At.in()) }
		}
		found, err := resolve()
		return map[string]any{
			"state": found.State.String(), "offset": found.Offset, "epoch": found.Epoch, "next": found.Next, "known": found.Known,
		}, err
	case "open-session":
		s, err := a.OpenSession(ctx, c.Log, c.lease())
		return map[string]any{"session": s.ID, "epoch": s.Epoch, "log_id": s.LogID, "lease_ms": s.Lease.Milliseconds()}, err
	case "keep-session":
		return nil, a.KeepSession(ctx, c.Log, client.Session{ID: c.At.in().Session, LogID: c.At.in().LogID})
	case "close-session":
		return nil, a.CloseSession(ctx, c.Log, client.Session{ID: c.At.in().Session, LogID: c.At.in().LogID})
	}
	return nil, fmt.Errorf("unknown command %q", c.Do)
}

func (c command) hold() client.HoldInfo {
	h := client.HoldInfo{
		Name: c.Hold, Owner: c.Owner, Lease: c.lease(), MaxBytes: c.MaxBytes, MaxAge: ms(c.HoldMaxAge), Pointer: c.pointer(),
	}
	switch {
	case c.FromStart:
		h.Offset = client.HoldFromStart
	case c.Tail:
		h.Offset = client.HoldFromEnd
	case c.Offset != nil:
		h.Offset = *c.Offset
	}
	return h
}

func (c command) pointer() []byte {
	if bytes, err := hex.DecodeString(c.PointerHex); err == nil && len(bytes) > 0 {
		return bytes
	}
	return []byte(c.Pointer)
}

func holding(h client.HoldInfo) map[string]any {
	return map[string]any{
		"name": h.Name, "offset": h.Offset, "owner": h.Owner, "lease_ms": h.Lease.Milliseconds(), "max_bytes": h.MaxBytes,
		"max_age_ms": h.MaxAge.Milliseconds(), "pointer": string(h.Pointer), "pointer_hex": hex.EncodeToString(h.Pointer), "principal": h.Principal,
	}
}

func described(i client.LogInfo) map[string]any {
	holds := map[string]any{}
	for _, h := range i.Holds {
		holds[h.Name] = holding(h)
	}
	return map[string]any{
		"name": i.Name, "id": i.ID, "start": i.Start, "end": i.End, "writer_term": i.WriterTerm, "leader": i.Leader,
		"sessions": i.OpenSessions, "replicas": len(i.Replicas), "retention_ms": i.Config.Retention.Milliseconds(),
		"retention_bytes": i.Config.RetentionBytes, "fenced": i.Config.Fenced, "revision": i.Config.Revision,
		"rule": shownRule(i.Config.Rule), "holds": holds,
	}
}
