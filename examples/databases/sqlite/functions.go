package main

import (
	"crypto/sha256"
	"database/sql"
	"database/sql/driver"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"modernc.org/sqlite"
)

// moment is what random and date functions depend on while a record is applied: on nothing else, so that all
// replicas get the same.
type moment struct {
	random  *rand.ChaCha8
	time    time.Time
	builtin *sql.DB // whose date functions are SQLite's own
}

// begin sets what the functions depend on to that of a record.
func (m *moment) begin(log uint64, offset int64, at time.Time) {
	place := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, log), uint64(offset))
	m.random, m.time = rand.NewChaCha8(sha256.Sum256(place)), at.UTC()
}

// maxRandomBlob bounds randomblob, in bytes.
const maxRandomBlob = 1 << 20

// register replaces SQLite's functions that depend on anything else.
func (m *moment) register(d *sqlite.Driver) {
	d.MustRegisterScalarFunction("random", 0, func(*sqlite.FunctionContext, []driver.Value) (driver.Value, error) {
		return int64(m.random.Uint64()), nil
	})
	d.MustRegisterScalarFunction("randomblob", 1, func(_ *sqlite.FunctionContext, args []driver.Value) (driver.Value, error) {
		n, isNumber := args[0].(int64)
		if !isNumber || n < 1 || n > maxRandomBlob {
			return nil, fmt.Errorf("randomblob takes a number from 1 to %d", maxRandomBlob)
		}
		b := make([]byte, n)
		_, _ = m.random.Read(b)
		return b, nil
	})
	for name, layout := range map[string]string{"current_timestamp": time.DateTime, "current_date": time.DateOnly, "current_time": time.TimeOnly} {
		d.MustRegisterScalarFunction(name, 0, func(*sqlite.FunctionContext, []driver.Value) (driver.Value, error) {
			return m.time.Format(layout), nil
		})
	}
	for name, at := range map[string]int{"date": 0, "time": 0, "datetime": 0, "julianday": 0, "unixepoch": 0, "strftime": 1} {
		d.MustRegisterScalarFunction(name, -1, func(_ *sqlite.FunctionContext, args []driver.Value) (driver.Value, error) {
			return m.date(name, args, at)
		})
	}
}

// date computes a date function of SQLite, whose time is the argument at a place. In place of "now", or of none, it gets
// the time of the record.
func (m *moment) date(name string, args []driver.Value, at int) (driver.Value, error) {
	if len(args) < at {
		return nil, fmt.Errorf("%s has too few arguments", name)
	}
	given := append([]driver.Value(nil), args...)
	if len(given) == at {
		given = append(given, "now")
	}
	for i, arg := range given[at:] {
		switch text, _ := arg.(string); {
		case i == 0 && strings.EqualFold(text, "now"):
			given[at] = m.time.Format("2006-01-02 15:04:05.000")
		case strings.EqualFold(strings.TrimSpace(text), "localtime"), strings.EqualFold(strings.TrimSpace(text), "utc"):
			return nil, errors.New("localtime and utc depend on the time zone of the machine")
		}
	}
	values := make([]any, len(given))
	for i := range given {
		values[i] = given[i]
	}
	var result any
	err := m.builtin.QueryRow("SELECT "+name+"(?"+strings.Repeat(", ?", len(values)-1)+")", values...).Scan(&result)
	return result, err
}
