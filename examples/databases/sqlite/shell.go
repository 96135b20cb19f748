package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"strandline.dev/client"
	"strandline.dev/statemachine"
)

// shell answers lines. Each answer is rows, if there are any, and a last line that begins with "--".
type shell struct {
	store   *store
	replica *statemachine.Replica[result]
}

// maxLine bounds a line, in bytes.
const maxLine = 1 << 20

func (s *shell) run(ctx context.Context, lines *bufio.Scanner) error {
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		rows, last := s.do(ctx, strings.TrimSpace(lines.Text()))
		for _, row := range rows {
			fmt.Println(row)
		}
		fmt.Println("--", last)
		if err := s.replica.Err(); err != nil {
			return err
		}
	}
	return lines.Err()
}

// do answers one line.
func (s *shell) do(ctx context.Context, line string) (rows []string, last string) {
	text, stale := strings.CutPrefix(line, ".stale ")
	fresh := statemachine.Linearizable
	if stale {
		fresh = statemachine.AsApplied
	}
	word, _, _ := strings.Cut(strings.ToLower(text), " ")
	switch {
	case line == "":
		return nil, "SQL, or .stale SELECT ..., or .digest"
	case line == ".digest":
		return nil, s.digest(ctx)
	case slices.Contains([]string{"select", "values", "with", "explain"}, word):
		rows, err := s.read(ctx, fresh, text)
		if !writes(err) {
			return rows, readAnswer(len(rows), err)
		}
	case stale:
		return nil, "refused: only reads can be stale"
	}
	return nil, s.write(ctx, text)
}

// writes reports whether a statement failed because it writes.
func writes(err error) bool {
	var failed *sqlite.Error
	return errors.As(err, &failed) && failed.Code()&0xff == sqlite3.SQLITE_READONLY
}

func (s *shell) read(ctx context.Context, fresh statemachine.Freshness, text string) (rows []string, err error) {
	var failed error
	err = s.replica.Query(ctx, fresh, func() { rows, failed = s.store.query(text) })
	return rows, errors.Join(err, failed)
}

func readAnswer(rows int, err error) string {
	switch {
	case err != nil:
		return "error: " + err.Error()
	case rows == maxRows:
		return fmt.Sprintf("the first %d rows", rows)
	}
	return fmt.Sprintf("rows: %d", rows)
}

// write proposes statements. The answer says whether they were applied: "ok" and "refused" by all replicas, "not done"
// by none, now or later, and "unknown" perhaps.
func (s *shell) write(ctx context.Context, text string) string {
	applied, err := s.replica.Propose(ctx, client.Record{Value: []byte(text)})
	var refused *client.Error
	var here *statemachine.Error
	switch {
	case errors.As(err, &refused) && refused.Outcome == client.NotDone, errors.As(err, &here) && here.Outcome == client.NotDone:
		return "not done: " + err.Error()
	case err != nil:
		return "unknown: " + err.Error()
	case applied.Result.Refused != "":
		return "refused: " + applied.Result.Refused
	}
	return fmt.Sprintf("ok, rows changed: %d, offset %d", applied.Result.Rows, applied.Offset)
}

// digest says which records are applied, and the digest of the content: with the same offset they are the same on
// all replicas.
func (s *shell) digest(ctx context.Context) string {
	var text string
	if err := s.replica.Query(ctx, statemachine.Linearizable, func() { text = fmt.Sprintf("offset %d, digest %x", s.store.at.Next, s.store.Digest()) }); err != nil {
		return "error: " + err.Error()
	}
	return text
}
