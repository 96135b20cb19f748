package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"

	"strandline.dev/client"
)

// replicatedMap is one copy of the map: the newest snapshot it has read and the changes
// behind it. It is for one goroutine.
type replicatedMap struct {
	client  *client.Client
	log     string
	changes *client.Producer
	every   int64 // changes between snapshots

	values   map[string]string
	next     int64 // offset of the first change that is not in values
	snapshot int64 // next of the newest snapshot known
}

// change is a record of the log.
type change struct {
	Key    string `json:"key"`
	Value  string `json:"value,omitempty"`
	Delete bool   `json:"delete,omitempty"`
}

func openMap(ctx context.Context, c *client.Client, name string, every int64) (*replicatedMap, error) {
	m := &replicatedMap{client: c, log: name, every: every, values: map[string]string{}}
	for _, log := range []string{m.log, m.snapshots()} {
		if _, err := c.Admin().CreateLog(ctx, log, client.LogConfig{}); err != nil && !errors.Is(err, client.ErrLogExists) {
			return nil, err
		}
	}
	if err := m.restore(ctx); err != nil {
		return nil, err
	}
	var err error
	m.changes, err = c.Producer(ctx, m.log)
	return m, err
}

func (m *replicatedMap) close(ctx context.Context) { _ = m.changes.Close(ctx) }

// change appends a change and returns when it is durable and applied. The producer sends
// it again by itself while the server is away, and the log takes it once.
func (m *replicatedMap) change(ctx context.Context, c change) error {
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	if _, err := m.changes.Append(ctx, text); err != nil {
		return err
	}
	if err := m.catchUp(ctx); err != nil {
		return err
	}
	if m.next-m.snapshot < m.every {
		return nil
	}
	return m.save(ctx)
}

// catchUp applies everything that any copy had acknowledged before the call: a read is
// linearizable unless it asks for less.
func (m *replicatedMap) catchUp(ctx context.Context) error {
	err := m.apply(ctx)
	if errors.Is(err, client.ErrOffsetTrimmed) {
		// Another copy has saved a snapshot and trimmed what this one lacks.
		if err = m.restore(ctx); err == nil {
			err = m.apply(ctx)
		}
	}
	return err
}

func (m *replicatedMap) apply(ctx context.Context) error {
	return forEach(ctx, m.client, m.log, func(r client.Record) error {
		var c change
		if err := json.Unmarshal(r.Value, &c); err != nil {
			return err
		}
		if c.Delete {
			delete(m.values, c.Key)
		} else {
			m.values[c.Key] = c.Value
		}
		m.next = r.Offset + 1
		return nil
	}, client.WithStartOffset(m.next))
}

// forEach calls f with every record up to the end of the log.
func forEach(ctx context.Context, c *client.Client, log string, f func(client.Record) error, from ...client.ReaderOption) error {
	r, err := c.Reader(ctx, log, from...)
	if err != nil {
		return err
	}
	defer r.Close()
	for {
		record, err := r.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = f(record)
		}
		if err != nil {
			return err
		}
	}
}
