package kafkaserver

import (
	"encoding/binary"

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
//	  name, partitions, each
//	    partition i32, error i16, high watermark i64, last stable offset i64,
//	    from v5 log start i64, aborted transactions (null),
//	    from v11 preferred read replica i32, records
//
// In flexible versions (12) every struct ends with a count of tagged fields.
func (f *fetch) send() error {
	c := f.call.connection
	a := fetchAnswer{version: f.call.version, flexible: f.call.version >= 12}
	a.out = f.call.beginResponse(c.out, a.flexible) // nothing is unsent: a Fetch may wait
	a.int32(0)
	if a.version >= 7 {
		a.int16(0)
		a.int32(0)
	}
	a.count(len(f.request.Topics))
	at := 0
	for i := range f.request.Topics {
		t := &f.request.Topics[i]
		a.string(t.Topic)
		a.count(len(t.Partitions))
		for j := range t.Partitions {
			a.partition(t.Partitions[j].Partition, &f.parts[at])
			at++
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

func (a *fetchAnswer) partition(number int32, p *fetchPart) {
	a.int32(number)
	a.int16(p.code)
	start, end := int64(p.bounds.Start), int64(p.bounds.End)
	if p.log == "" && !p.internal {
		start, end = -1, -1
	}
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
