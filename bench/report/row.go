// Package report writes the results of benchmarks: a JSON object a line for
// programs, CSV for spreadsheets, aligned tables for people. All three are made
// from the same rows, so they cannot contradict each other.
package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Field is one named figure of a result. The unit is the end of the name:
// p50_us, mib_per_s.
type Field struct {
	Name  string
	Value any // string, int, int64 or float64
}

// Row is one result: its first field says what was measured, as in
// {"benchmark": "appends", ...} or {"limit": "grpc_echo", ...}. The order of
// the fields is kept everywhere.
type Row []Field

// MarshalJSON writes the fields in order, floats rounded.
func (r Row) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	for i, f := range r {
		b.WriteByte("{,"[min(i, 1)])
		name, err := json.Marshal(f.Name)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(rounded(f.Value))
		if err != nil {
			return nil, err
		}
		b.Write(name)
		b.WriteByte(':')
		b.Write(value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// UnmarshalJSON reads a flat object and keeps the order of its fields. Numbers
// become float64.
func (r *Row) UnmarshalJSON(data []byte) error {
	d := json.NewDecoder(bytes.NewReader(data))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return errors.Join(errors.New("a row must be a JSON object"), err)
	}
	*r = nil
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		value, err := d.Token()
		if err != nil {
			return err
		}
		if _, nested := value.(json.Delim); nested {
			return fmt.Errorf("%v: a row must not contain objects or lists", name)
		}
		*r = append(*r, Field{name.(string), value})
	}
	return nil
}

// Text is a field as tables show it, or nothing if it is not there.
func (r Row) Text(name string) string {
	for _, f := range r {
		if f.Name == name {
			return format(f.Value)
		}
	}
	return ""
}

// Number is a field that is a number.
func (r Row) Number(name string) (float64, bool) {
	for _, f := range r {
		if f.Name != name {
			continue
		}
		switch v := f.Value.(type) {
		case int:
			return float64(v), true
		case int64:
			return float64(v), true
		case float64:
			return v, true
		}
	}
	return 0, false
}

// names is the header of a table; rows with the same names share one.
func (r Row) names() []string {
	names := make([]string, len(r))
	for i, f := range r {
		names[i] = f.Name
	}
	return names
}

func (r Row) values() []string {
	values := make([]string, len(r))
	for i, f := range r {
		values[i] = format(f.Value)
	}
	return values
}

// barWidth is how many characters stand for 100 percent.
const barWidth = 40

// bar draws a row that says in percent where something starts and what share it takes.
func (r Row) bar() (drawn string, ok bool) {
	start, starts := r.Number("start_percent")
	share, shares := r.Number("share_percent")
	if !starts || !shares {
		return "", false
	}
	cell := func(percent float64) int { return int(math.Round(min(max(percent, 0), 100) / 100 * barWidth)) }
	from := cell(start)
	drawn = strings.Repeat("#", cell(start+share)-from)
	if drawn == "" {
		drawn = "|"
	}
	return strings.Repeat(" ", from) + drawn, true
}

func format(value any) string {
	switch v := rounded(value).(type) {
	case string:
		return v
	case int:
		return strconv.Itoa(v)
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	default:
		panic("report: a field holds a type that Field does not allow")
	}
}

// rounded keeps a float to about four digits: more would be noise. Figures
// that are undefined, such as a rate over no time, become 0.
func rounded(value any) any {
	v, ok := value.(float64)
	switch {
	case !ok:
		return value
	case math.IsNaN(v) || math.IsInf(v, 0):
		return float64(0)
	case math.Abs(v) >= 1000:
		return math.Round(v)
	case math.Abs(v) >= 10:
		return math.Round(v*10) / 10
	default:
		return math.Round(v*1000) / 1000
	}
}
