package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"strandline.dev/client"
)

// transfer is a record of the log.
type transfer struct {
	From   string `json:"from,omitempty"` // empty: a deposit
	To     string `json:"to"`
	Amount int64  `json:"amount"`
}

func (t transfer) String() string {
	if t.From == "" {
		return fmt.Sprintf("deposit %s %d", t.To, t.Amount)
	}
	return fmt.Sprintf("transfer %s %s %d", t.From, t.To, t.Amount)
}

// ledger is one copy of the balances. It is for one goroutine.
type ledger struct {
	client *client.Client
	log    string
	last   lastFile

	balances map[string]int64
	next     int64 // offset of the first transfer that is not in balances
}

func openLedger(ctx context.Context, c *client.Client, name, last string) (*ledger, error) {
	_, err := c.Admin().CreateLog(ctx, name, client.LogConfig{})
	if err != nil && !errors.Is(err, client.ErrLogExists) {
		return nil, err
	}
	return &ledger{client: c, log: name, last: lastFile(last), balances: map[string]int64{}}, nil
}

// transfer decides on the balance of the account that pays, as of l.next, and appends unless a newer
// record touches that account: what another copy has moved meanwhile is read, and it decides again.
func (l *ledger) transfer(ctx context.Context, t transfer) (string, error) {
	for {
		if err := l.catchUp(ctx); err != nil {
			return "", err
		}
		if t.From != "" && l.balances[t.From] < t.Amount {
			return "refused: not enough money", nil
		}
		err := l.append(ctx, t)
		if !outdated(err) {
			return "done", err
		}
	}
}

// outdated reports whether an append was refused because of records that are not in the balances.
func outdated(err error) bool {
	return errors.Is(err, client.ErrConflict) || errors.Is(err, client.ErrCheckTooOld)
}

// append appends t on the condition that no record from l.next on touches the account that pays. The
// record has a header for each account that it touches. The position of t in its session is on disk
// before t is sent, so that settle can ask for it whatever happens.
func (l *ledger) append(ctx context.Context, t transfer) error {
	text, err := json.Marshal(t)
	if err != nil {
		return err
	}
	// A producer of its own has the record at the position that it announces.
	p, err := l.client.Producer(ctx, l.log, client.WithEndOnFailure())
	if err != nil {
		return err
	}
	if err := l.last.save(sent{t, p.Position()}); err != nil {
		return err
	}
	record := client.Record{Value: text, Headers: []client.Header{account(t.To)}}
	var options []client.AppendOption
	if t.From != "" {
		record.Headers = append(record.Headers, account(t.From))
		options = append(options, client.WithCheck(client.Check{Since: l.next, Headers: []client.Header{account(t.From)}}))
	}
	_, err = p.AppendBatch(ctx, []client.Record{record}, options...)
	if err == nil || outdated(err) {
		_ = p.Close(ctx) // else the session ends with its lease
	}
	return err
}

func account(name string) client.Header { return client.Header{Key: "account", Value: []byte(name)} }

// settle returns the last command that this copy sent and its outcome. The log is asked, not
// read: a request that is still on its way may arrive after any read. With final, Resolve
// keeps it out for good if it has not arrived.
func (l *ledger) settle(ctx context.Context) (string, error) {
	last, found, err := l.last.load()
	if err != nil || !found {
		return "none", err
	}
	r, err := l.client.Admin().Resolve(ctx, l.log, last.At, true)
	return fmt.Sprintf("%v: %v", last.Transfer, r.State), err
}

// catchUp applies everything that any copy had acknowledged before the call: a read is
// linearizable unless it asks for less.
func (l *ledger) catchUp(ctx context.Context) error {
	r, err := l.client.Reader(ctx, l.log, client.WithStartOffset(l.next))
	if err != nil {
		return err
	}
	defer r.Close()
	for {
		record, err := r.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var t transfer
		if err := json.Unmarshal(record.Value, &t); err != nil {
			return err
		}
		if t.From != "" {
			l.balances[t.From] -= t.Amount
		}
		l.balances[t.To] += t.Amount
		l.next = record.Offset + 1
	}
}
