package statemachine

import (
	"context"
	"encoding/json"
	"fmt"

	"strandline.dev/client"
)

// Header is the name of a header of the records that replicas append for each other, with the value
// "digest". They are not given to Apply, and proposals must not have it.
const Header = "strandline-statemachine"

const kindDigest = "digest"

// maxReportBytes bounds the value of a report; a larger one is no report.
const maxReportBytes = 1 << 10

// report is the value of a record: the digest of the state of a replica.
type report struct {
	At      int64  `json:"at"` // in the state the records below it are applied
	Digest  []byte `json:"digest"`
	Replica string `json:"replica"`
}

// kindOf returns the kind of a record of replicas, and whether it is one.
func kindOf(r *client.Record) (kind string, ours bool) {
	for i := range r.Headers {
		if r.Headers[i].Key == Header {
			return string(r.Headers[i].Value), true
		}
	}
	return "", false
}

// applyOurs applies a record of replicas. One of a kind that is not known, or that cannot be read, is no record of
// this version, and does not concern the state.
func (r *Replica[R]) applyOurs(kind string, record *client.Record) error {
	var reported report
	if kind != kindDigest || len(record.Value) > maxReportBytes || json.Unmarshal(record.Value, &reported) != nil {
		return nil
	}
	if found := r.digests.Report(reported.At, reported.Replica, reported.Digest); found != nil {
		return fromRules(found)
	}
	return nil
}

// takeDigest takes the digest of the state in which the records below an offset are applied, and has it
// reported if the replica is up to date: the report of an earlier one is not repeated.
func (r *Replica[R]) takeDigest(at int64) error {
	digest := r.machine.(Digester).Digest()
	if len(digest) > maxDigestBytes {
		return fmt.Errorf("a digest has %d bytes, the limit is %d", len(digest), maxDigestBytes)
	}
	if found := r.digests.Take(at, digest, r.live); found != nil {
		return fromRules(found)
	}
	r.mu.Lock()
	r.counts.digests++
	r.mu.Unlock()
	if !r.live {
		return nil
	}
	// Of two reports that wait, the newer one matters.
	select {
	case <-r.reports:
	default:
	}
	r.reports <- report{at, digest, r.options.name}
	return nil
}

// sendReports appends the digests of this replica to the log until it ends.
func (r *Replica[R]) sendReports() {
	for {
		var next report
		select {
		case <-r.life.Done():
			return
		case next = <-r.reports:
		}
		if err := r.send(r.life, next); err != nil && r.life.Err() == nil {
			r.trouble(fmt.Errorf("report the digest of the state at offset %d: %w", next.At, err))
		}
	}
}

func (r *Replica[R]) send(ctx context.Context, next report) error {
	value, err := json.Marshal(next)
	if err != nil {
		return err
	}
	_, err = r.append(ctx, client.Record{Value: value, Headers: []client.Header{{Key: Header, Value: []byte(kindDigest)}}}, nil)
	return err
}
