package durablestreams

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/internal/record"
)

const (
	// maxBody is the size of the largest body of a write, in bytes.
	maxBody = 8 << 20
	// maxMessages is the largest number of messages in one write.
	maxMessages = 10_000
	// maxTTL is the longest time to live, in seconds: a hundred years.
	maxTTL = 100 * 366 * 24 * 3600
	// maxCount is the largest epoch and sequence of a producer, as JavaScript can represent it.
	maxCount = 1<<53 - 1
	// otherType is the content type of a stream whose PUT names none.
	otherType = "application/octet-stream"
)

// create is a decoded PUT.
type create struct {
	settings
	closed bool
}

// write is a decoded POST.
type write struct {
	kind     string // its media type; empty: missing or invalid
	seq      string // Stream-Seq; empty: none
	producer *step
	closes   bool
	empty    bool // without a message
}

// parseCreate decodes the headers of a PUT. The error is for the client.
func parseCreate(h http.Header) (c create, err error) {
	for name := range h {
		if strings.HasPrefix(name, "Stream-Fork") {
			return c, errForks
		}
	}
	c.closed = strings.EqualFold(h.Get("Stream-Closed"), "true")
	if c.Type = strings.TrimSpace(h.Get("Content-Type")); c.Type == "" {
		c.Type = otherType
	}
	if typeOf(c.Type) == "" || len(c.Type) > maxText {
		return c, fmt.Errorf("the content type is invalid or longer than %d bytes", maxText)
	}
	ttl, expires := h.Get("Stream-TTL"), h.Get("Stream-Expires-At")
	switch {
	case ttl != "" && expires != "":
		return c, errors.New("Stream-TTL and Stream-Expires-At are both given: give one of them")
	case ttl != "":
		seconds, ok := count(ttl)
		if !ok || seconds > maxTTL {
			return c, fmt.Errorf("Stream-TTL must be a number of seconds in digits, at most %d", maxTTL)
		}
		c.TTL = &seconds
	case expires != "":
		at, err := time.Parse(time.RFC3339, expires)
		if err != nil {
			return c, errors.New("Stream-Expires-At must be a time in the format of RFC 3339")
		}
		c.Expires = new(at.UTC())
	}
	return c, nil
}

// errForks refuses a PUT with the headers of a fork.
var errForks = errors.New("forks of streams are not supported")

// parseWrite decodes the headers of a POST. The error is for the client.
func parseWrite(h http.Header) (w write, err error) {
	w.kind, w.seq = typeOf(h.Get("Content-Type")), h.Get("Stream-Seq")
	w.closes = strings.EqualFold(h.Get("Stream-Closed"), "true")
	if len(w.seq) > maxText || !utf8.ValidString(w.seq) {
		return w, fmt.Errorf("Stream-Seq must be text of at most %d bytes", maxText)
	}
	said := 0
	for _, name := range []string{"Producer-Id", "Producer-Epoch", "Producer-Seq"} {
		if _, ok := h[name]; ok {
			said++
		}
	}
	if said == 0 {
		return w, nil
	}
	p := step{ID: h.Get("Producer-Id")}
	var epoch, seq bool
	p.Epoch, epoch = count(h.Get("Producer-Epoch"))
	p.Seq, seq = count(h.Get("Producer-Seq"))
	switch {
	case said < 3:
		return w, errors.New("a producer must send all of Producer-Id, Producer-Epoch and Producer-Seq")
	case p.ID == "" || len(p.ID) > maxText || !utf8.ValidString(p.ID):
		return w, fmt.Errorf("Producer-Id must be text of 1 to %d bytes", maxText)
	case !epoch || !seq:
		return w, fmt.Errorf("Producer-Epoch and Producer-Seq must be numbers in digits, at most %d", int64(maxCount))
	}
	w.producer = &p
	return w, nil
}

// count decodes a number in the form of the protocol: digits without a leading zero.
func count(text string) (int64, bool) {
	n, err := strconv.ParseUint(text, 10, 63)
	return int64(n), err == nil && n <= maxCount && strconv.FormatUint(n, 10) == text
}

// messagesOf splits a body into messages: for JSON the elements of an array, otherwise one.
func messagesOf(kind string, body []byte) ([][]byte, error) {
	if len(body) == 0 {
		return nil, nil
	}
	if kind != jsonType {
		return [][]byte{body}, nil
	}
	body = bytes.TrimSpace(body)
	if !utf8.Valid(body) || !json.Valid(body) {
		return nil, errors.New("the body is not JSON")
	}
	if body[0] != '[' {
		return [][]byte{body}, nil
	}
	d := json.NewDecoder(bytes.NewReader(body))
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	all := [][]byte{}
	for d.More() {
		var one json.RawMessage
		if err := d.Decode(&one); err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		if all = append(all, one); len(all) > maxMessages {
			return nil, fmt.Errorf("the request has more than %d messages", maxMessages)
		}
	}
	return all, nil
}

// recordsOf encodes a request as records.
func recordsOf(first note, messages [][]byte, closes bool) []*strandlinev1.Record {
	all := make([]*strandlinev1.Record, max(1, len(messages)))
	for i := range all {
		n := note{}
		if i == 0 {
			n = first
		}
		r := new(strandlinev1.Record)
		if len(messages) > 0 {
			n.Message, r.Value = true, messages[i]
		}
		n.Closes = closes && i == len(all)-1
		text, _ := json.Marshal(n) // of strings and numbers
		r.Headers = []*strandlinev1.Header{{Key: noteKey, Value: text}}
		all[i] = r
	}
	return all
}

// verdict is the decision on a write.
type verdict struct {
	append bool // append the records before the answer
	status int
	why    *record.Refusal // nil: the write is not refused
	// Headers of the answer; nil: none.
	producer *step // a sequence below 0 is not sent
	expected *int64
}

func refused(status int, reason record.Reason, format string, args ...any) verdict {
	return verdict{status: status, why: record.Refuse(reason, format, args...)}
}

// decide decides a write. It looks for duplicates before it compares Stream-Seq and before it refuses
// appends to a closed stream, because the first copy of a duplicate has succeeded.
func (s *stream) decide(w write) verdict {
	closesOnly := w.closes && w.empty
	switch kind := typeOf(s.settings.Type); {
	case w.empty && !w.closes:
		return refused(http.StatusBadRequest, record.Invalid, "the request has nothing to append")
	case !closesOnly && w.kind == "":
		return refused(http.StatusBadRequest, record.Invalid, "the content type is missing or invalid")
	case !closesOnly && w.kind != kind:
		return refused(http.StatusConflict, record.Precondition, "the stream has the content type %s", kind)
	}
	if w.producer != nil {
		if v := s.follows(*w.producer); v.status != 0 {
			return v
		}
	}
	switch {
	case s.closed && closesOnly && w.producer == nil:
		return verdict{status: http.StatusNoContent}
	case s.closed:
		return refused(http.StatusConflict, record.Sealed, "the stream is closed")
	case w.seq != "" && s.seq != "" && w.seq <= s.seq:
		return refused(http.StatusConflict, record.Precondition, "Stream-Seq must be above that of the last append")
	}
	v := verdict{append: true, status: http.StatusNoContent, producer: w.producer}
	if w.producer != nil && !w.empty {
		v.status = http.StatusOK
	}
	return v
}

// follows decides on the position of a producer. A verdict without a status means that the write is the
// producer's next one.
func (s *stream) follows(p step) verdict {
	at, known := s.producers[p.ID]
	next := at.seq + 1
	if !known || p.Epoch > at.epoch {
		next = 0
	}
	switch {
	case known && p.Epoch < at.epoch:
		v := refused(http.StatusForbidden, record.Precondition, "the producer is at epoch %d", at.epoch)
		v.producer = &step{Epoch: at.epoch, Seq: -1}
		return v
	case known && p.Epoch > at.epoch && p.Seq != 0:
		return refused(http.StatusBadRequest, record.Invalid, "an epoch of a producer must begin with sequence 0")
	case p.Seq < next:
		return verdict{status: http.StatusNoContent, producer: &step{Epoch: at.epoch, Seq: at.seq}}
	case p.Seq > next && s.closed:
		return verdict{} // decide refuses it as closed
	case p.Seq > next:
		v := refused(http.StatusConflict, record.SequenceGap, "the producer's next sequence must be %d, not %d", next, p.Seq)
		v.why.Expected = record.Sequence(next)
		v.producer, v.expected = &step{Epoch: p.Epoch, Seq: p.Seq}, &next
		return v
	}
	return verdict{}
}

// matches decides a PUT of a stream that exists: its settings must be the same.
func (s *stream) matches(c create) verdict {
	a, b := s.settings, c.settings
	same := typeOf(a.Type) == typeOf(b.Type) && s.closed == c.closed && (a.TTL == nil) == (b.TTL == nil) && (a.Expires == nil) == (b.Expires == nil)
	if same && a.TTL != nil {
		same = *a.TTL == *b.TTL
	}
	if same && a.Expires != nil {
		same = a.Expires.Equal(*b.Expires)
	}
	if !same {
		return refused(http.StatusConflict, record.LogExists, "a stream of this name with other settings already exists")
	}
	return verdict{status: http.StatusOK}
}
