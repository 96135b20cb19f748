package durablestreams

import (
	"encoding/json"
	"mime"
	"strings"
	"time"

	strandlinev1 "strandline.dev/api/strandline/v1"
)

const (
	// noteKey is the name of the header that holds the note of a record.
	noteKey = "durable-stream"
	// maxNote is the size of the largest note that is decoded, in bytes.
	maxNote = 8 << 10
	// maxText bounds a content type, the name of a producer and a Stream-Seq, in bytes.
	maxText = 256
	// maxProducers is the number of producers whose positions a stream keeps: those that wrote last.
	maxProducers = 1000
	// ageParts divides a TTL. A read is noted in the log if more than one part has passed since the
	// last note, and the stream expires one part later than its TTL: never too early for a reader.
	ageParts = 8
)

// note is the state that a record adds to the stream. The first record of a request has its time, its
// id and its producer's position; the last one closes the stream if the request does.
type note struct {
	At       int64     `json:"at,omitempty"`      // ms since 1970, by the clock of the node that appended it
	Request  string    `json:"request,omitempty"` // a random id
	Create   *settings `json:"create,omitempty"`  // in the first record of the log
	Producer *step     `json:"producer,omitempty"`
	Seq      string    `json:"seq,omitempty"`     // Stream-Seq
	Message  bool      `json:"message,omitempty"` // the value belongs to the stream
	Closes   bool      `json:"closes,omitempty"`
}

// settings are the configuration of a stream, which does not change.
type settings struct {
	Type    string     `json:"type"`
	TTL     *int64     `json:"ttl,omitempty"` // seconds since the last read or write
	Expires *time.Time `json:"expires,omitempty"`
}

// valid reports whether a PUT can have asked for the settings.
func (s *settings) valid() bool {
	return typeOf(s.Type) != "" && len(s.Type) <= maxText && (s.TTL == nil || *s.TTL >= 0 && *s.TTL <= maxTTL)
}

// step is the position of a producer in its own count of requests.
type step struct {
	ID    string `json:"id"`
	Epoch int64  `json:"epoch"`
	Seq   int64  `json:"seq"`
}

// noteOf decodes the note of a record. A record without a note was not appended by this protocol, and
// does not belong to the stream.
func noteOf(r *strandlinev1.Record) (n note, ok bool) {
	for _, h := range r.GetHeaders() {
		if h.GetKey() == noteKey {
			return n, len(h.GetValue()) <= maxNote && json.Unmarshal(h.GetValue(), &n) == nil
		}
	}
	return n, false
}

// closes reports whether one of some records closes the stream.
func closes(records []*strandlinev1.Record) bool {
	for _, r := range records {
		if n, ok := noteOf(r); ok && n.Closes {
			return true
		}
	}
	return false
}

// stream is the state of a stream: the fold of the records of its log up to end. Every node computes the
// same state.
type stream struct {
	id        uint64 // of the log
	end       int64  // offset
	created   bool   // by its first record; otherwise the log is not a stream
	settings  settings
	used      int64 // time of the last noted read or write, in ms since 1970
	seq       string
	closed    bool
	producers map[string]mark
}

// mark is the position of a producer, and the end of the log when it was reached.
type mark struct {
	epoch, seq, offset int64
}

// apply adds the next record of the log to the state.
func (s *stream) apply(r *strandlinev1.Record) {
	s.end = r.GetOffset() + 1
	n, ok := noteOf(r)
	if !ok {
		return
	}
	if r.GetOffset() == 0 && n.Create != nil && n.Create.valid() {
		s.created, s.settings = true, *n.Create
	}
	s.used = max(s.used, n.At)
	if s.closed {
		return
	}
	if n.Seq != "" {
		s.seq = n.Seq
	}
	if p := n.Producer; p != nil && len(p.ID) <= maxText {
		s.advance(*p)
	}
	if n.Closes {
		s.closed = true
	}
}

// advance sets the position of a producer. Above maxProducers it removes the producer that wrote least
// recently.
func (s *stream) advance(p step) {
	if s.producers == nil {
		s.producers = map[string]mark{}
	}
	s.producers[p.ID] = mark{p.Epoch, p.Seq, s.end}
	if len(s.producers) <= maxProducers {
		return
	}
	oldest, at := "", s.end+1
	for id, p := range s.producers {
		if p.offset < at {
			oldest, at = id, p.offset
		}
	}
	delete(s.producers, oldest)
}

// bytes estimates the memory of the state.
func (s *stream) bytes() int {
	n := 1 << 10
	for id := range s.producers {
		n += len(id) + 128
	}
	return n
}

// expired reports whether the stream has expired.
func (s *stream) expired(now time.Time) bool {
	if e := s.settings.Expires; e != nil && !now.Before(*e) {
		return true
	}
	ttl := s.ttl()
	return s.settings.TTL != nil && now.UnixMilli() >= s.used+ttl+ttl/ageParts
}

// ages reports whether this read must be recorded in the log, so that the stream lasts its TTL from
// now on.
func (s *stream) ages(now time.Time) bool {
	return s.settings.TTL != nil && now.UnixMilli() > s.used+s.ttl()/ageParts
}

func (s *stream) ttl() (ms int64) {
	if s.settings.TTL == nil {
		return 0
	}
	return *s.settings.TTL * 1000
}

// typeOf returns the media type of a content type in lower case, without parameters; empty if it is invalid.
func typeOf(content string) string {
	name, _, err := mime.ParseMediaType(content)
	if err != nil || !strings.Contains(name, "/") {
		return ""
	}
	return name
}

const jsonType = "application/json"
