package main

import (
	"context"
	"encoding/json"
	"errors"

	"strandline.dev/client"
)

// snapshot is a record of the log of snapshots: the map as of an offset of its log.
type snapshot struct {
	Next   int64             `json:"next"`
	Values map[string]string `json:"values"`
}

func (m *replicatedMap) snapshots() string { return m.log + "-snapshots" }

// newest returns the newest snapshot, empty if there is none, and the end of the log of
// snapshots behind it.
func (m *replicatedMap) newest(ctx context.Context) (s snapshot, end int64, err error) {
	err = forEach(ctx, m.client, m.snapshots(), func(r client.Record) error {
		s, end = snapshot{}, r.Offset+1
		return json.Unmarshal(r.Value, &s)
	})
	return s, end, err
}

// restore goes to the newest snapshot, if that is further than this copy.
func (m *replicatedMap) restore(ctx context.Context) error {
	s, _, err := m.newest(ctx)
	if err == nil && s.Next > m.next {
		m.values, m.next = s.Values, s.Next
	}
	m.snapshot = s.Next
	return err
}

// save appends a snapshot, and trims what it makes superfluous. Another copy may do the
// same at the same time: the condition lets only the snapshot in that was decided on the
// newest one, so snapshots never go backwards. A crash between the steps leaves too much,
// which the next save trims.
func (m *replicatedMap) save(ctx context.Context) error {
	last, end, err := m.newest(ctx)
	m.snapshot = last.Next
	if err != nil || last.Next >= m.next {
		return err
	}
	text, err := json.Marshal(snapshot{m.next, m.values})
	if err != nil {
		return err
	}
	p, err := m.client.Producer(ctx, m.snapshots())
	if err != nil {
		return err
	}
	defer p.Close(ctx)
	at, err := p.AppendBatch(ctx, []client.Record{{Value: text}}, client.WithExpectedEnd(end))
	if errors.Is(err, client.ErrEndMismatch) {
		return nil // another copy was faster
	}
	if err != nil {
		return err
	}
	m.snapshot = m.next
	if err := m.trim(ctx, m.snapshots(), at); err != nil {
		return err
	}
	return m.trim(ctx, m.log, m.next)
}

func (m *replicatedMap) trim(ctx context.Context, log string, before int64) error {
	_, _, err := m.client.Admin().Trim(ctx, log, before, false)
	return err
}
