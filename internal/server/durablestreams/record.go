package durablestreams

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"

	strandlinev1 "strandline.dev/api/strandline/v1"
)

// message is a record as JSON, as `strandline read --json` writes it: valid text as text, other
// bytes in base64.
type message struct {
	Offset      int64     `json:"offset"`
	Timestamp   time.Time `json:"timestamp"`
	Key         *string   `json:"key,omitempty"`
	KeyBase64   []byte    `json:"key_base64,omitempty"`
	Value       *string   `json:"value,omitempty"`
	ValueBase64 []byte    `json:"value_base64,omitempty"`
	Headers     []header  `json:"headers,omitempty"`
}

type header struct {
	Key         string  `json:"key"`
	Value       *string `json:"value,omitempty"`
	ValueBase64 []byte  `json:"value_base64,omitempty"`
}

// textOr returns bytes as text, or as they are where they are none.
func textOr(b []byte) (text *string, bytes []byte) {
	switch {
	case b == nil:
		return nil, nil
	case utf8.Valid(b):
		return new(string(b)), nil
	}
	return nil, b
}

// appendRecords appends records to an array in JSON, which has some already or none.
func appendRecords(to []byte, records []*strandlinev1.Record) ([]byte, error) {
	for _, r := range records {
		m := message{Offset: r.GetOffset(), Timestamp: r.GetTimestamp().AsTime()}
		if y := m.Timestamp.Year(); y < 0 || y > 9999 {
			m.Timestamp = time.Unix(0, 0).UTC() // which JSON cannot express
		}
		m.Key, m.KeyBase64 = textOr(r.Key)
		m.Value, m.ValueBase64 = textOr(r.Value)
		for _, h := range r.GetHeaders() {
			one := header{Key: h.GetKey()}
			one.Value, one.ValueBase64 = textOr(h.Value)
			m.Headers = append(m.Headers, one)
		}
		text, err := json.Marshal(m)
		if err != nil {
			return to, err
		}
		if len(to) > 1 {
			to = append(to, ',')
		}
		to = append(to, text...)
	}
	return to, nil
}

// form is the encoding of records in answers.
type form int

const (
	plain  form = iota // of a log that is not a stream: JSON with offsets, keys and headers
	values             // messages of JSON, as an array
	text               // the bytes of messages, one after the other
	binary             // the same, and in base64 in events
)

// formOf returns the form for a content type.
func formOf(content string) form {
	switch name := typeOf(content); {
	case name == jsonType:
		return values
	case strings.HasPrefix(name, "text/"):
		return text
	}
	return binary
}

// begin returns the beginning of an answer.
func (f form) begin() []byte {
	if f == plain || f == values {
		return []byte{'['}
	}
	return []byte{}
}

// add appends records to an answer.
func (f form) add(to []byte, records []*strandlinev1.Record) ([]byte, error) {
	if f == plain {
		return appendRecords(to, records)
	}
	for _, r := range records {
		if n, ok := noteOf(r); !ok || !n.Message {
			continue
		}
		if f == values && len(to) > 1 {
			to = append(to, ',')
		}
		to = append(to, r.GetValue()...)
	}
	return to, nil
}

// some reports whether an unfinished answer contains messages.
func (f form) some(answer []byte) bool { return len(answer) > len(f.begin()) }

// end ends an answer.
func (f form) end(answer []byte) []byte {
	if f == plain || f == values {
		return append(answer, ']')
	}
	return answer
}

// event appends an answer as a data event.
func (f form) event(to, answer []byte) []byte {
	if f == binary {
		answer = base64.StdEncoding.AppendEncode(nil, answer)
	}
	return appendEvent(to, "data", answer)
}

// control is the data of a control event.
type control struct {
	Next     string `json:"streamNextOffset"`
	Cursor   string `json:"streamCursor,omitempty"`
	UpToDate bool   `json:"upToDate,omitempty"`
	Closed   bool   `json:"streamClosed,omitempty"`
}

// appendEvent appends an event. Every line of the data becomes a data line, whichever characters end it,
// so that data cannot begin another event. A client removes one blank after the colon, which is
// therefore added to a line that begins with one.
func appendEvent(to []byte, name string, data []byte) []byte {
	to = append(append(to, "event: "...), name...)
	for more := true; more; {
		line, rest := data, []byte(nil)
		at := bytes.IndexAny(data, "\r\n")
		if more = at >= 0; more {
			line, rest = data[:at], data[at+1:]
			if data[at] == '\r' && len(rest) > 0 && rest[0] == '\n' {
				rest = rest[1:]
			}
		}
		to = append(to, "\ndata:"...)
		if len(line) > 0 && line[0] == ' ' {
			to = append(to, ' ')
		}
		to, data = append(to, line...), rest
	}
	return append(to, "\n\n"...)
}
