package kafkaserver

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"strandline.dev/internal/node/reading"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
	"strandline.dev/internal/server/guard"
	"strandline.dev/internal/server/kafka/backend"
	"strandline.dev/internal/server/kafka/fetchsession"
	"strandline.dev/internal/server/kafka/protocol"
	"strandline.dev/internal/server/kafka/readers"
)

// fetch is a Fetch request that is being answered. Batches go to the client
// from where they are: the tail's memory, or the chunk they were read into.
type fetch struct {
	call    *call
	request *kmsg.FetchRequest
	// session is what the client has asked for before, or nil. all: the answer has all partitions, not only those
	// that changed.
	session *fetchsession.Session
	all     bool
	parts   []fetchPart // in the order of the request, or of the session
	bytes   int         // of records in parts
	failed  bool        // a part has an error, which the client should get
	// redirected: a part is better read elsewhere; there is nothing to wait for.
	redirected bool
	// owed is how long the client has to wait for its own quota; all parts are left out.
	owed guard.Throttle
	// next is when a part may be read that is left out because of the quota of its log; 0: there is none.
	next    time.Duration
	charged int64 // taken from the budget of answers
	// readers stand behind what is sent, and done gives the memory of chunks
	// back that are used up; both wait until it is sent.
	readers []*readers.Kept
	done    []func()
}

// fetchPart is the answer for one partition.
type fetchPart struct {
	asked    fetchsession.Partition
	entry    *fetchsession.Entry // of asked in the session; nil without a session
	log      string
	id       uint64 // of the log that the client means; 0: the one with its name
	internal bool   // of a topic that is always empty; there is no log
	bounds   verbs.Bounds
	code     int16
	owed     bool  // the part is left out because of the quota of its log
	nearer   int32 // the broker to read from instead, or backend.NoBroker
	runs     []readers.Run
	bytes    int
}

func (q *call) answerFetch() error {
	f := &fetch{call: q, request: q.request.(*kmsg.FetchRequest)}
	if code, err := f.begin(); code != 0 || err != nil {
		if err == nil {
			r := kmsg.NewPtrFetchResponse()
			r.Version, r.ErrorCode = q.version, code
			q.connection.respond(q, r)
		}
		return err
	}
	f.chargeParts()
	f.collect()
	for _, r := range f.readers {
		r.ReadAhead(f.call.connection.server.stopping, f.call.connection.server.fetches)
	}
	f.charge()
	err := f.send()
	f.finish(err == nil)
	if f.session != nil {
		f.session.Turn()
		q.connection.server.fetchSessions.Leave(f.session, time.Now())
	}
	return err
}

// collect reads until there is enough to send or the time is up.
func (f *fetch) collect() {
	ctx, cancel := context.WithTimeout(f.call.connection.ctx, time.Duration(max(f.request.MaxWaitMillis, 0))*time.Millisecond)
	defer cancel()
	for {
		f.gather(f.call.connection.ctx)
		if f.failed || f.redirected || f.bytes >= int(f.request.MinBytes) || f.limit() == 0 || ctx.Err() != nil {
			return
		}
		f.finish(false)
		if f.bytes == 0 && !f.inTouch() {
			return
		}
		if f.owed.Wait > 0 {
			f.pause(ctx)
			continue
		}
		f.await(ctx, min(int(f.request.MinBytes)-f.bytes, f.limit()))
	}
}

// pause waits until the client owes nothing, or ctx ends.
func (f *fetch) pause(ctx context.Context) {
	c := f.call.connection
	m := &mute{time.Now().Add(f.owed.Wait), f.owed}
	m.wait(ctx, c.server.node)
}

// chargeParts charges a Fetch of many partitions as several requests, of which the connection has
// charged one: the request that continues a session has few bytes, and looks at all of its partitions.
func (f *fetch) chargeParts() {
	if more := (len(f.parts) - 1) / partitionsOfRequest; more > 0 {
		f.call.owes(f.call.connection.server.node.ChargeRequests(f.call.caller(), more))
	}
}

// charge takes what is sent off the quotas.
func (f *fetch) charge() {
	f.call.owes(f.owed)
	for i := range f.parts {
		if part := &f.parts[i]; part.bytes > 0 {
			f.call.owes(f.call.connection.server.node.ChargeRead(f.call.caller(), part.log, part.bytes))
		}
	}
}

// inTouch reports whether the leaders of all followed logs have sent to this node recently, and
// asks for confirmation where necessary. A follower that is cut off, or whose disk hangs, has
// nothing to return and would keep its consumers waiting for ever, so they are sent back to the
// leader.
func (f *fetch) inTouch() bool {
	var asking backend.Lookups
	for i := range f.parts {
		part := &f.parts[i]
		if part.internal || part.bounds.Leading {
			continue
		}
		caller := f.call.caller()
		caller.Log = part.id
		if known, err := f.call.connection.server.node.KnownInfo(caller, part.log); err == nil && known.Age < touchTime {
			continue // it would cost a round trip for nothing, which may be a long one
		}
		asking.Add(func() {
			ctx, cancel := context.WithTimeout(f.call.connection.ctx, touchTime)
			defer cancel()
			if _, err := f.call.connection.server.node.Info(ctx, caller, part.log); err != nil {
				part.code = kerr.NotLeaderForPartition.Code
			}
		})
	}
	asking.Run()
	for i := range f.parts {
		f.failed = f.failed || f.parts[i].code != 0
	}
	return !f.failed
}

// limit is how many bytes of records may still be taken.
func (f *fetch) limit() int {
	return max(0, min(int(f.request.MaxBytes), MaxFetchBytes)-f.bytes)
}

// gather fills all parts anew.
func (f *fetch) gather(ctx context.Context) {
	f.bytes, f.failed, f.redirected, f.owed, f.next = 0, false, false, guard.Throttle{}, 0
	for i := range f.parts {
		part := &f.parts[i]
		*part = fetchPart{asked: part.asked, entry: part.entry, nearer: backend.NoBroker}
		if err := f.fill(ctx, part); err != nil {
			if f.byID() {
				err = backend.Replaced(err)
			}
			part.code, part.runs, part.bytes, f.failed = protocol.CodeOf(err), nil, 0, true
		}
		f.bytes += part.bytes
	}
}

// system returns the server as the caller, for the log that the client means.
func (p *fetchPart) system() verbs.Caller { return verbs.Caller{System: true, Log: p.id} }

// byID reports whether the request names topics by their ids.
func (f *fetch) byID() bool { return f.call.version >= 13 }

func (f *fetch) fill(ctx context.Context, part *fetchPart) (err error) {
	s, p := f.call.connection.server, &part.asked
	topic := p.Topic
	var found backend.ByID
	if f.byID() {
		if found, err = backend.FindByID(s.node, f.call.caller(), p.ID); err != nil {
			return err
		}
		topic = found.Topic
	}
	if backend.IsOffsetsTopic(s.node, topic, p.Number) {
		return part.fillInternal(p.Offset)
	}
	log, ok := backend.LogOf(topic, p.Number)
	if !ok {
		return kerr.UnknownTopicOrPartition
	}
	if err := s.node.May(f.call.caller(), guard.Read, log); err != nil {
		return err
	}
	if f.byID() {
		if part.id, err = found.LogID(log); err != nil {
			return err
		}
	}
	part.log = log
	if part.bounds, err = s.node.Bounds(part.system(), log); err != nil {
		return err
	}
	if err := backend.CheckEpoch(part.bounds, p.Epoch); err != nil {
		return err
	}
	at := record.Offset(p.Offset)
	if at > part.bounds.End && part.bounds.Leading {
		// A replaced leader that does not know of its successor knows less than others have served.
		// The error makes consumers look for the new one.
		asked := f.call.asked()
		asked.Caller.Log = part.id
		if _, part.bounds, err = asked.Complete(topic, p.Number, p.Epoch); err != nil {
			return err
		}
	}
	switch {
	case at < part.bounds.Start, at > part.bounds.End && part.bounds.Leading:
		return kerr.OffsetOutOfRange
	case at > part.bounds.End:
		return nil // the leader may know more: it comes, or the client asks there
	}
	if part.nearer = f.nearer(ctx, part, at); part.nearer != backend.NoBroker {
		f.redirected = true
		return nil
	}
	owed, onLog, atOnce := s.node.OwesRead(f.call.caller(), log)
	if owed.Wait > f.owed.Wait {
		f.owed = owed
	}
	if onLog > 0 && (f.next == 0 || onLog < f.next) {
		f.next = onLog
	}
	if part.owed = onLog > 0; part.owed || owed.Wait > 0 {
		return nil
	}
	limit := min(f.limit(), int(p.MaxBytes), max(0, atOnce-f.bytes))
	if at == part.bounds.End || limit <= 0 && f.bytes > 0 {
		return nil
	}
	r, err := s.readers.Open(ctx, log, part.bounds.ID, at, f.call.connection.direct)
	if err != nil {
		return err
	}
	if err := f.read(ctx, part, r, limit); err != nil {
		r.Close()
		return err
	}
	// More may have come since the bounds were asked for: no answer has records above its end.
	part.bounds.End = max(part.bounds.End, r.Next)
	f.readers = append(f.readers, r)
	return nil
}

// nearer returns a broker in the client's rack that holds the log, if this node leads it and is in
// another rack: a leader names such a broker to clients that prefer to read elsewhere. Different
// logs name different ones of several brokers. A client whose position is at the end of the data of
// that broker, but not of the log, is better served here: the broker may lag for a long time.
func (f *fetch) nearer(ctx context.Context, part *fetchPart, at record.Offset) int32 {
	b := &part.bounds
	if f.request.Rack == "" || !b.Leading {
		return backend.NoBroker
	}
	brokers := f.call.asked().Brokers()
	if self, ok := brokers.Find(brokers.Self); ok && self.NearTo(f.request.Rack) {
		return backend.NoBroker
	}
	l, err := f.call.connection.server.node.KnownInfo(part.system(), part.log)
	if err != nil {
		return backend.NoBroker
	}
	on := brokers.Replicas(&l)
	near := slices.DeleteFunc(slices.Concat(on.UpReaders, on.UpVoters), func(id int32) bool {
		other, ok := brokers.Find(id)
		return !ok || !other.NearTo(f.request.Rack)
	})
	if len(near) == 0 {
		return backend.NoBroker
	}
	ends, err := f.call.connection.server.node.StoredBy(ctx, part.system(), part.log)
	if err != nil {
		return backend.NoBroker
	}
	for i := range near {
		id := near[(uint64(i)+l.ID)%uint64(len(near))]
		if end, known := ends[uint64(id)]; known && (end > at || end >= b.End) {
			return id
		}
	}
	return backend.NoBroker
}

// read reads batches up to limit. The first chunk is free of charge, so that every fetch makes
// progress; further chunks are read while the budget lasts.
func (f *fetch) read(ctx context.Context, part *fetchPart, r *readers.Kept, limit int) error {
	for part.bytes < limit || part.bytes == 0 && f.bytes == 0 {
		if r.Used() {
			if done, err := f.more(ctx, r, f.bytes+part.bytes == 0); done || err != nil {
				return err
			}
		}
		runs, n, done := r.Take(part.runs, limit-part.bytes, f.bytes+part.bytes == 0)
		part.runs = runs
		part.bytes += n
		if done == nil {
			return nil // the rest of the chunk exceeds the limit
		}
		f.done = append(f.done, done)
	}
	return nil
}

// more begins the next chunk of a reader. It acquires memory from the budget unless free is set.
// done means that there is no chunk, or no budget for it.
func (f *fetch) more(ctx context.Context, r *readers.Kept, free bool) (done bool, err error) {
	if r.TakeAhead() {
		f.charged += readers.ChunkCost
		return false, nil
	}
	if !free {
		if !f.call.connection.server.fetches.TryAcquire(readers.ChunkCost) {
			return true, nil
		}
		f.charged += readers.ChunkCost
	}
	err = r.Fill(ctx)
	if errors.Is(err, io.EOF) {
		return true, nil
	}
	return false, err
}

// await returns when the given number of bytes was appended to the logs, one of them changed in
// another way, one that was left out may be read again, or ctx ends.
func (f *fetch) await(ctx context.Context, bytes int) {
	w := reading.NewWaiter(bytes)
	for i := range f.parts {
		part := &f.parts[i]
		if part.internal || part.owed {
			continue
		}
		leave, err := f.call.connection.server.node.Await(part.system(), part.log, part.bounds, w)
		if err != nil {
			return
		}
		defer leave()
	}
	if f.next > 0 {
		// The quota may be another one before that time is over.
		defer time.AfterFunc(min(f.next, lookOwed), w.End).Stop()
	}
	select {
	case <-w.Ready():
	case <-ctx.Done():
	}
}

// finish releases the collected data. If the answer was sent, readers with more data are kept for
// the next request.
func (f *fetch) finish(sent bool) {
	for _, r := range f.readers {
		if b, err := f.call.connection.server.node.Bounds(backend.System, r.Log); sent && err == nil && r.Next < b.End {
			f.call.connection.server.readers.Keep(r)
			continue
		}
		r.Close()
	}
	for _, done := range f.done {
		done()
	}
	f.call.connection.server.fetches.Release(f.charged)
	f.readers, f.done, f.charged = f.readers[:0], f.done[:0], 0
}

// fillInternal answers a Fetch of the internal topic: nothing, and nothing will come.
func (p *fetchPart) fillInternal(at int64) error {
	p.internal = true
	if at != 0 {
		return kerr.OffsetOutOfRange
	}
	return nil
}
