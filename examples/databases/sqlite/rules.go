package main

import (
	"errors"
	"math"
	"strings"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// rules refuse, while a statement of a record is applied, what would make replicas differ, and what would change
// the connection or our own table.
type rules struct {
	on      bool // a statement of a record is applied
	refused string
}

// refusedActions are refused with a reason.
var refusedActions = map[sqlite.AuthorizerActionCode]string{
	sqlite.AuthTransaction:       "each line is a transaction of its own",
	sqlite.AuthSavepoint:         "each line is a transaction of its own",
	sqlite.AuthPragma:            "a pragma changes one connection, or shows what differs between replicas",
	sqlite.AuthAttach:            "another file is not replicated",
	sqlite.AuthDetach:            "another file is not replicated",
	sqlite.AuthAnalyze:           "ANALYZE is not needed here, and its tables are not compared",
	sqlite.AuthCreateVTable:      "a virtual table may depend on anything",
	sqlite.AuthDropVTable:        "a virtual table may depend on anything",
	sqlite.AuthCreateTempTable:   "a temporary table is lost in a restart",
	sqlite.AuthCreateTempIndex:   "a temporary index is lost in a restart",
	sqlite.AuthCreateTempTrigger: "a temporary trigger is lost in a restart",
	sqlite.AuthCreateTempView:    "a temporary view is lost in a restart",
	sqlite.AuthRecursive:         "a recursive query may not end, on all replicas",
}

// refusedFunctions depend on the connection, which begins anew at a restart, or on the program.
var refusedFunctions = map[string]bool{
	"last_insert_rowid": true, "changes": true, "total_changes": true, "load_extension": true, "timediff": true,
	"sqlite_version": true, "sqlite_source_id": true, "sqlite_offset": true, "sqlite_compileoption_get": true, "sqlite_compileoption_used": true,
}

// refusedTables show the file, which only has the same content.
var refusedTables = map[string]bool{"sqlite_dbpage": true, "dbstat": true, "sqlite_stmt": true}

// own is our table, which says which records are in the database.
const own = "strandline_position"

func (r *rules) authorize(action sqlite.AuthorizerActionCode, first, second, _, _ string) sqlite.AuthorizerReturnCode {
	if !r.on {
		return sqlite.AuthorizerOK
	}
	reason := refusedActions[action]
	switch {
	case action == sqlite.AuthFunction && refusedFunctions[strings.ToLower(second)]:
		reason = strings.ToLower(second) + "() depends on the connection or the program"
	case strings.EqualFold(first, own) || strings.EqualFold(second, own):
		reason = own + " says which records are applied"
	case action == sqlite.AuthRead && refusedTables[strings.ToLower(first)]:
		reason = first + " depends on the file"
	}
	if reason == "" {
		return sqlite.AuthorizerOK
	}
	r.refused = reason
	return sqlite.AuthorizerDeny
}

// changed notices the rowid behind which SQLite chooses at random.
func (r *rules) changed(d sqlite.SQLitePreUpdateData) {
	if r.on && d.NewRowID == math.MaxInt64 && d.Op != sqlite3.SQLITE_DELETE {
		r.refused = "behind the largest rowid SQLite chooses rowids at random"
	}
}

// isResult reports whether an error of a statement is the same on all replicas, so that it is the result of the
// record. Others, as of a full disk, are of this machine, and end the replica.
func isResult(err error) bool {
	var failed *sqlite.Error
	if !errors.As(err, &failed) {
		return false
	}
	switch failed.Code() & 0xff {
	case sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_RANGE, sqlite3.SQLITE_AUTH, sqlite3.SQLITE_TOOBIG:
		return true
	}
	return false
}
