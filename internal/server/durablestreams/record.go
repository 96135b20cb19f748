package durablestreams

import (
	"encoding/json"
	"time"
	"unicode/utf8"

	strandlinev1 "strandline.dev/api/strandline/v1"
)

// message is a record as JSON, as `strandline read --json` writes it: what is text as text, other bytes in base64.
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

// control is what an event says beside records.
type control struct {
	Next     string `json:"streamNextOffset"`
	Cursor   string `json:"streamCursor"`
	UpToDate bool   `json:"upToDate,omitempty"`
}

// appendEvent appends an event whose data is one line: JSON has no other ones.
func appendEvent(to []byte, name string, data []byte) []byte {
	to = append(append(append(to, "event: "...), name...), "\ndata: "...)
	return append(append(to, data...), "\n\n"...)
}
