package main

import (
	"strconv"

	"strandline.dev/client"
)

// A command is a record: its key and value are those of the database, and headers say the rest.
const (
	deleteHeader = "delete"
	// ifHeader is the version that the key must have; ifAbsent: there must be no such key.
	ifHeader = "if"
	ifAbsent = "absent"
)

// command is what the headers of a record say.
type command struct {
	delete    bool
	condition string // empty: none
}

// record returns the record of a command.
func (c command) record(key, value []byte) client.Record {
	r := client.Record{Key: key, Value: value}
	if c.delete {
		r.Headers = append(r.Headers, client.Header{Key: deleteHeader})
	}
	if c.condition != "" {
		r.Headers = append(r.Headers, client.Header{Key: ifHeader, Value: []byte(c.condition)})
	}
	return r
}

// parseCommand returns the command of a record. Any record is one, so that no client can stop the replicas.
func parseCommand(r client.Record) (c command) {
	for _, h := range r.Headers {
		switch h.Key {
		case deleteHeader:
			c.delete = true
		case ifHeader:
			c.condition = string(h.Value)
		}
	}
	return c
}

// holds reports whether the condition holds for a key that has a version; -1: there is no such key.
func (c command) holds(version int64) bool {
	switch c.condition {
	case "":
		return true
	case ifAbsent:
		return version < 0
	default:
		return version >= 0 && c.condition == strconv.FormatInt(version, 10)
	}
}
