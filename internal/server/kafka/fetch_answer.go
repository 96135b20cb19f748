package kafkaserver

import (
	"encoding/binary"

	"strandline.dev/internal/server/kafka/backend"
	"strandline.dev/internal/server/kafka/fetchsession"
	"strandline.dev/internal/server/kafka/readers"
)

// fetchAnswer writes an answer to Fetch around records that stay where they
// are: the connection sends its own bytes and the runs of records in turn.
type fetchAnswer struct {
	version  int16
	flexible bool
	out      []byte
	gaps     []gap
	records  int
}

// gap is a place in out where runs of records come.
type gap struct {
	at   int
	runs []readers.Run
}

// send writes the answer.
//
//	throttle i32, from v7 error i16 and session i32, topics, each
//	  name, from v13 id, partitions, each
//	    partition i32, error i16, high watermark i64, last stable offset i64,
//	    from v5 log start i64, aborted transactions (null),
//	    from v11 preferred read replica i32, records
//
// In flexible versions (from 12) every struct ends with a count of tagged fields. A topic may come
// more than once, because the partitions of a session have an order of their own.
func (f *fetch) send() error {
	c := f.call.connection
	a := fetchAnswer{version: f.call.version, flexible: f.call.version >= 12}
	a.out = f.call.beginResponse(c.out, a.flexible) // nothing is unsent: a Fetch may wait
	a.int32(millis(f.call.throttle.Wait))
	if a.version >= 7 {
		a.int16(0)
		a.int32(f.sessionID())
	}
	topics := f.topics()
	a.count(len(topics))
	for _, parts := range topics {
		if asked := &parts[0].asked; f.byID() {
			a.out = append(a.out, asked.ID[:]...)
		} else {
			a.string(asked.Topic)
		}
		a.count(len(parts))
		for _, part := range parts {
			a.partition(part.asked.Number, part)
		}
		a.tags()
	}
	a.tags()
	binary.BigEndian.PutUint32(a.out, uint32(len(a.out)+a.records-4))
	err := c.send(a.parts())
	c.server.metrics.fetched.Add(float64(a.records))
	c.emptied(a.out)
	return err
}

func (f *fetch) sessionID() int32 {
	if f.session == nil {
		return 0
	}
	return f.session.ID
}

// topics returns the parts that the client gets, in order, those of one topic together that follow
// each other.
func (f *fetch) topics() (all [][]*fetchPart) {
	var last *fetchPart
	for i := range f.parts {
		part := &f.parts[i]
		if part.entry != nil && !part.entry.Changed(part.found()) && !f.all {
			continue
		}
		if last == nil || last.asked.Topic != part.asked.Topic || last.asked.ID != part.asked.ID {
			all = append(all, nil)
		}
		all[len(all)-1] = append(all[len(all)-1], part)
		last = part
	}
	return all
}

// found returns what the client gets of a part, besides records.
func (p *fetchPart) found() fetchsession.Answer {
	start, end := p.shown()
	return fetchsession.Answer{Start: start, End: end, Bytes: p.bytes, Failed: p.code != 0, Redirected: p.nearer != backend.NoBroker}
}

// shown returns the bounds that the client gets.
func (p *fetchPart) shown() (start, end int64) {
	if p.log == "" && !p.internal {
		return -1, -1
	}
	return int64(p.bounds.Start), int64(p.bounds.End)
}

func (a *fetchAnswer) partition(number int32, p *fetchPart) {
	a.int32(number)
	a.int16(p.code)
	start, end := p.shown()
	a.int64(end)
	a.int64(end) // there are no transactions: everything committed is stable
	if a.version >= 5 {
		a.int64(start)
	}
	a.count(0)
	if a.version >= 11 {
		a.int32(p.nearer)
	}
	if a.flexible {
		a.out = binary.AppendUvarint(a.out, uint64(p.bytes)+1)
	} else {
		a.int32(int32(p.bytes))
	}
	if p.bytes > 0 {
		a.gaps = append(a.gaps, gap{len(a.out), p.runs})
		a.records += p.bytes
	}
	a.tags()
}

// parts are the pieces to send, in order.
func (a *fetchAnswer) parts() []readers.Run {
	parts := make([]readers.Run, 0, 1+2*len(a.gaps))
	from := 0
	for _, g := range a.gaps {
		parts = append(parts, readers.Run{Bytes: a.out[from:g.at]})
		parts = append(parts, g.runs...)
		from = g.at
	}
	return append(parts, readers.Run{Bytes: a.out[from:]})
}

func (a *fetchAnswer) int16(v int16) { a.out = binary.BigEndian.AppendUint16(a.out, uint16(v)) }
func (a *fetchAnswer) int32(v int32) { a.out = binary.BigEndian.AppendUint32(a.out, uint32(v)) }
func (a *fetchAnswer) int64(v int64) { a.out = binary.BigEndian.AppendUint64(a.out, uint64(v)) }

func (a *fetchAnswer) count(n int) {
	if a.flexible {
		a.out = binary.AppendUvarint(a.out, uint64(n)+1)
		return
	}
	a.int32(int32(n))
}

func (a *fetchAnswer) string(s string) {
	if a.flexible {
		a.out = binary.AppendUvarint(a.out, uint64(len(s))+1)
	} else {
		a.int16(int16(len(s)))
	}
	a.out = append(a.out, s...)
}

func (a *fetchAnswer) tags() {
	if a.flexible {
		a.out = append(a.out, 0)
	}
}
