package main

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"modernc.org/sqlite"

	"strandline.dev/client"
)

// testLog is the id of the log in tests of the store alone.
const testLog = 7

func open(t *testing.T, folder string) *store {
	t.Helper()
	s, err := openStore(folder, testLog)
	require.NoError(t, err)
	return s
}

func apply(t *testing.T, s *store, text string) result {
	t.Helper()
	at := time.Date(2026, 11, 28, 12, 0, int(s.at.Next), 0, time.UTC)
	found, err := s.Apply(client.Record{Offset: s.at.Next, Timestamp: at, Value: []byte(text)})
	require.NoError(t, err)
	return found
}

func read(t *testing.T, s *store, text string) []string {
	t.Helper()
	found, err := s.query(text)
	require.NoError(t, err)
	return found
}

// hard are statements whose result SQLite would take from the clock, from random numbers or from its own.
var hard = []string{
	"CREATE TABLE t (id INTEGER PRIMARY KEY, r DEFAULT (random()), at DEFAULT CURRENT_TIMESTAMP, day DEFAULT CURRENT_DATE, hour DEFAULT CURRENT_TIME)",
	"CREATE TABLE plain (v)",
	"INSERT INTO t DEFAULT VALUES; INSERT INTO t DEFAULT VALUES",
	"INSERT INTO t (r) VALUES (datetime('now', '+1 day')), (julianday()), (unixepoch('NOW')), (strftime('%s')), (date('2026-01-31', 'start of month')), (hex(randomblob(8)))",
	"CREATE TRIGGER g AFTER INSERT ON plain BEGIN INSERT INTO t (r) VALUES (random()); END",
	"INSERT INTO plain SELECT r FROM t",
	"DELETE FROM plain WHERE rowid % 2 = 0",
	"CREATE TABLE keyed (a, b, PRIMARY KEY (a, b)) WITHOUT ROWID; INSERT INTO keyed VALUES (2, x'00ff'), (1, 'it''s'), (1, 0.1)",
	"ALTER TABLE keyed RENAME COLUMN b TO c",
	"UPDATE t SET r = r || random() WHERE id > 2",
}

func TestReplicasThatApplyTheSameStatementsHaveTheSameContent(t *testing.T) {
	one, two := open(t, t.TempDir()), open(t, t.TempDir())
	defer func() { require.NoError(t, one.close()) }()
	defer func() { require.NoError(t, two.close()) }()
	for i, text := range hard {
		require.Empty(t, apply(t, one, text).Refused, text)
		if i == 3 {
			time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(time.Second))) // another time of SQLite's own
		}
		apply(t, two, text)
	}
	require.Equal(t, []string{"2026-11-28 12:00:02\t2026-11-28\t12:00:02"}, read(t, one, "SELECT at, day, hour FROM t WHERE id = 1"))
	require.Equal(t, []string{"2"}, read(t, one, "SELECT count(DISTINCT r) FROM t WHERE id < 3"), "random numbers differ")
	require.Equal(t, read(t, one, "SELECT * FROM t"), read(t, two, "SELECT * FROM t"))
	require.Equal(t, one.Digest(), two.Digest())
	require.Len(t, one.Digest(), 32)
	apply(t, one, "UPDATE keyed SET c = 3 WHERE a = 2")
	apply(t, two, "UPDATE keyed SET c = 4 WHERE a = 2")
	require.NotEqual(t, one.Digest(), two.Digest())
}

func TestWhatWouldMakeReplicasDifferIsRefusedAndChangesNothing(t *testing.T) {
	s := open(t, t.TempDir())
	defer func() { require.NoError(t, s.close()) }()
	apply(t, s, "CREATE TABLE t (id INTEGER PRIMARY KEY, v UNIQUE)")
	require.Equal(t, result{Rows: 1}, apply(t, s, "INSERT INTO t VALUES (1, 1)"))
	digest := s.Digest()
	for _, row := range []struct{ text, reason string }{
		{"INSERT INTO t (v) VALUES (last_insert_rowid())", "last_insert_rowid() depends"},
		{"INSERT INTO t (v) VALUES (2); INSERT INTO t (v) VALUES (changes())", "changes() depends"},
		{"INSERT INTO t (v) VALUES (datetime('now', 'localtime'))", "time zone"},
		{"INSERT INTO t VALUES (9223372036854775807, 2)", "largest rowid"},
		{"UPDATE t SET id = 9223372036854775807", "largest rowid"},
		{"BEGIN", "a transaction of its own"},
		{"INSERT INTO t (v) VALUES (3); COMMIT", "a transaction of its own"},
		{"SAVEPOINT s", "a transaction of its own"},
		{"PRAGMA user_version = 3", "pragma"},
		{"INSERT INTO t (v) SELECT file FROM pragma_database_list", "pragma"},
		{"ATTACH ':memory:' AS other", "another file"},
		{"CREATE TEMP TABLE x (v)", "lost in a restart"},
		{"CREATE VIRTUAL TABLE x USING fts5(v)", "virtual table"},
		{"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) INSERT INTO t (v) SELECT i FROM n", "may not end"},
		{"UPDATE strandline_position SET next = 0", "which records are applied"},
		{"DROP TABLE strandline_position", "which records are applied"},
		{"CREATE TRIGGER g AFTER INSERT ON strandline_position BEGIN DELETE FROM t; END", "which records are applied"},
		{"INSERT INTO t (v) SELECT pageno FROM dbstat", "depends on the file"},
		{"INSERT INTO t (v) VALUES (2), (1)", "UNIQUE"},
		{"INSERT OR ROLLBACK INTO t (v) VALUES (2), (1)", "UNIQUE"},
		{"VACUUM", "VACUUM"},
		{"no SQL", "syntax error"},
	} {
		next := s.at.Next
		require.Contains(t, apply(t, s, row.text).Refused, row.reason, row.text)
		require.Equal(t, digest, s.Digest(), row.text)
		require.Equal(t, next+1, s.at.Next, "the record is applied all the same")
	}
}

func TestASnapshotIsTheStateOfItsMomentHoweverLateItIsWritten(t *testing.T) {
	s := open(t, t.TempDir())
	defer func() { require.NoError(t, s.close()) }()
	apply(t, s, "CREATE TABLE t (v); INSERT INTO t VALUES (1), (2), (3)")
	apply(t, s, "DELETE FROM t WHERE v = 1") // VACUUM would number the other rows anew
	digest, content := s.Digest(), read(t, s, "SELECT rowid, v FROM t")
	snapshot, err := s.Snapshot()
	require.NoError(t, err)
	apply(t, s, "INSERT INTO t VALUES (4); CREATE TABLE u (v)")
	var text bytes.Buffer
	_, err = snapshot.WriteTo(&text)
	require.NoError(t, err)

	folder := t.TempDir()
	other := open(t, folder)
	apply(t, other, "CREATE TABLE replaced (v)")
	require.Error(t, other.Restore(bytes.NewReader(text.Bytes()[:1000])), "a part of a snapshot")
	require.NoError(t, other.Restore(bytes.NewReader(text.Bytes())))
	require.Equal(t, digest, other.Digest())
	require.Equal(t, content, read(t, other, "SELECT rowid, v FROM t"))

	// The checksum of a snapshot comes last: until a record is applied, it is not known to be whole.
	require.NoError(t, other.close())
	other = open(t, folder)
	require.Equal(t, position{}, other.at, "begins with an empty database")
	require.NoError(t, other.Restore(bytes.NewReader(text.Bytes())))
	apply(t, other, "INSERT INTO t VALUES (5)")
	require.NoError(t, other.close())
	other = open(t, folder)
	require.Equal(t, position{testLog, 3}, other.at)
	require.NoError(t, other.close())
	_, err = openStore(folder, testLog+1)
	require.ErrorContains(t, err, "the log has id 8")
}

func TestARecordAndItsPositionAreOneTransaction(t *testing.T) {
	s := open(t, t.TempDir())
	defer func() { require.NoError(t, s.close()) }()
	commits := 0
	require.NoError(t, s.writer.Raw(func(c any) error {
		c.(sqlite.HookRegisterer).RegisterCommitHook(func() int32 { commits++; return 0 })
		return nil
	}))
	for i, text := range []string{"CREATE TABLE t (v UNIQUE)", "INSERT INTO t VALUES (1); INSERT INTO t VALUES (2)", "INSERT INTO t VALUES (1)"} {
		apply(t, s, text)
		require.Equal(t, i+1, commits, text)
	}
}
