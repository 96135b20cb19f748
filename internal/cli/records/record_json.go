package records

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"

	"strandline.dev/client"
	"strandline.dev/internal/record"
)

// maxJSONLine has room for the largest record at its longest: every byte a
// control character, written as six.
const maxJSONLine = 6*client.MaxRecordBytes + 1<<20

// recordJSON is a record as JSON: text where the bytes are text, base64 where
// they are not, nothing for a null. It loses nothing.
type recordJSON struct {
	Offset      *int64       `json:"offset,omitempty"` // ignored in appends
	Timestamp   *time.Time   `json:"timestamp,omitempty"`
	TimestampMs *int64       `json:"timestamp_ms,omitempty"` // of years that RFC 3339 cannot express
	Key         *string      `json:"key,omitempty"`
	KeyBase64   *[]byte      `json:"key_base64,omitempty"`
	Value       *string      `json:"value,omitempty"`
	ValueBase64 *[]byte      `json:"value_base64,omitempty"`
	Headers     []headerJSON `json:"headers,omitempty"`
}

type headerJSON struct {
	Key         *string `json:"key,omitempty"`
	KeyBase64   *[]byte `json:"key_base64,omitempty"`
	Value       *string `json:"value,omitempty"`
	ValueBase64 *[]byte `json:"value_base64,omitempty"`
}

func newRecordJSON(r *client.Record) recordJSON {
	object := recordJSON{Offset: &r.Offset}
	if at := r.Timestamp.UTC(); at.Year() >= 0 && at.Year() <= 9999 {
		object.Timestamp = &at
	} else {
		ms := at.UnixMilli()
		object.TimestampMs = &ms
	}
	object.Key, object.KeyBase64 = textOrBytes(r.Key)
	object.Value, object.ValueBase64 = textOrBytes(r.Value)
	for _, h := range r.Headers {
		var header headerJSON
		header.Key, header.KeyBase64 = textOrBytes([]byte(h.Key))
		header.Value, header.ValueBase64 = textOrBytes(h.Value)
		object.Headers = append(object.Headers, header)
	}
	return object
}

// textOrBytes is one of the two, or neither for nil.
func textOrBytes(b []byte) (*string, *[]byte) {
	switch {
	case b == nil:
		return nil, nil
	case utf8.Valid(b):
		text := string(b)
		return &text, nil
	default:
		return nil, &b
	}
}

func (object recordJSON) record() (client.Record, error) {
	var r client.Record
	if object.Offset != nil {
		r.Offset = *object.Offset
	}
	switch {
	case object.Timestamp != nil:
		r.Timestamp = *object.Timestamp
	case object.TimestampMs != nil:
		r.Timestamp = time.UnixMilli(*object.TimestampMs)
	}
	var err error
	if r.Key, err = bytesOf("key", object.Key, object.KeyBase64); err != nil {
		return r, err
	}
	if r.Value, err = bytesOf("value", object.Value, object.ValueBase64); err != nil {
		return r, err
	}
	for _, h := range object.Headers {
		key, err := bytesOf("key of a header", h.Key, h.KeyBase64)
		if err != nil {
			return r, err
		}
		if key == nil {
			return r, errors.New("a header has no key")
		}
		value, err := bytesOf("value of a header", h.Value, h.ValueBase64)
		if err != nil {
			return r, err
		}
		r.Headers = append(r.Headers, client.Header{Key: string(key), Value: value})
	}
	return r, nil
}

func bytesOf(name string, text *string, encoded *[]byte) ([]byte, error) {
	switch {
	case text != nil && encoded != nil:
		return nil, fmt.Errorf("%s is given as text and as base64: give one of them", name)
	case text != nil:
		return []byte(*text), nil
	case encoded != nil && *encoded == nil:
		return nil, nil
	case encoded != nil:
		return *encoded, nil
	}
	return nil, nil
}

type jsonSink struct {
	out     *bufio.Writer
	encoder *json.Encoder // into out
}

func (s jsonSink) records(records []client.Record) error {
	for i := range records {
		if err := s.encoder.Encode(newRecordJSON(&records[i])); err != nil {
			return err
		}
	}
	return nil
}

func (s jsonSink) flush() error { return s.out.Flush() }

// jsonSource makes a record of each line. Empty lines are passed over.
type jsonSource struct{ lines *lineReader }

func (s jsonSource) next() (client.Record, error) {
	for {
		line, err := s.lines.next()
		if err != nil {
			return client.Record{}, err
		}
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		r, err := parseRecord(line)
		if err != nil {
			return r, fmt.Errorf("line %d: %w", s.lines.number, err)
		}
		return r, nil
	}
}

func parseRecord(line []byte) (client.Record, error) {
	// Go would put U+FFFD for bytes that are not UTF-8, silently.
	if !utf8.Valid(line) {
		return client.Record{}, errors.New("the text is not UTF-8: give other bytes in key_base64 and value_base64")
	}
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.DisallowUnknownFields()
	var object recordJSON
	if err := decoder.Decode(&object); err != nil {
		return client.Record{}, plainJSON(err)
	}
	if _, err := decoder.Token(); err != io.EOF {
		return client.Record{}, errors.New("more than one JSON value")
	}
	return object.record()
}

// plainJSON says what is wrong with a line in terms of the line.
func plainJSON(err error) error {
	var (
		kind   *json.UnmarshalTypeError
		syntax *json.SyntaxError
		moment *time.ParseError
		base64 base64.CorruptInputError
	)
	switch {
	case errors.As(err, &kind) && kind.Field == "":
		return fmt.Errorf("a record is a JSON object, not: %s", kind.Value)
	case errors.As(err, &kind):
		return fmt.Errorf("%s is %s, not: %s", kind.Field, jsonKind(kind.Type), kind.Value)
	case errors.As(err, &syntax):
		return fmt.Errorf("not JSON: %w, at byte %d", err, syntax.Offset)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the JSON object is incomplete")
	case errors.As(err, &moment):
		return fmt.Errorf("timestamp %s is not like 2030-01-31T08:00:00Z", moment.Value)
	case errors.As(err, &base64):
		return fmt.Errorf("key_base64 or value_base64 is not base64 at byte %d", int64(base64))
	}
	if field, found := strings.CutPrefix(err.Error(), "json: unknown field "); found {
		return fmt.Errorf("unknown field %s: a record has offset, timestamp, timestamp_ms, key, key_base64, value, value_base64 and headers", field)
	}
	return err
}

// jsonKind is what a field takes, in words of JSON.
func jsonKind(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a text"
	case reflect.Int64:
		return "a whole number"
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "a text in base64"
		}
		return "a list"
	}
	return "an object"
}

// toStored returns the record that a batch holds for a public one; times are whole
// milliseconds in both.
func toStored(r *client.Record) record.Record {
	return record.Record{
		Offset: record.Offset(r.Offset), Timestamp: r.Timestamp.UnixMilli(),
		Key: r.Key, Value: r.Value, Headers: r.Headers,
	}
}

// FromStored is the opposite of toStored.
func FromStored(r record.Record) client.Record {
	return client.Record{
		Offset: int64(r.Offset), Timestamp: time.UnixMilli(r.Timestamp),
		Key: r.Key, Value: r.Value, Headers: r.Headers,
	}
}
