package main

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"modernc.org/sqlite"

	"strandline.dev/client"
	"strandline.dev/statemachine"
)

var _ statemachine.Machine[result] = (*store)(nil)

// store is the state of one replica in an SQLite database. The value of a record is SQL, and one transaction applies
// it and changes our table to say so: a database that is opened after a crash has whole records, and says which. A
// transaction is not synced: what a power cut takes is in the log.
type store struct {
	folder  string
	log     uint64 // id of the log
	rules   rules
	moment  moment
	driver  *sqlite.Driver // of writer
	writers *sql.DB
	writer  *sql.Conn // the only one that writes
	readers *sql.DB
	pinned  *pinned // nil: no snapshot is written
	at      position
}

// position says which records of which log are in a database. Log is 0 after Restore until the next record is applied:
// before, nobody knows whether the snapshot was whole, and the database is not used again.
type position struct {
	Log  uint64
	Next int64 // the records below it are applied
}

// result is what a proposal returns.
type result struct {
	Rows    int64  // that were changed
	Refused string // why nothing was; empty: the statements were applied
}

// openStore opens the database in a folder, or creates one.
func openStore(folder string, log uint64) (*store, error) {
	s := &store{folder: folder, log: log, driver: &sqlite.Driver{}}
	builtin, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		return nil, err
	}
	s.moment.builtin = builtin
	s.moment.register(s.driver)
	s.driver.RegisterConnectionHook(func(c sqlite.ExecQuerierContext, _ string) error {
		c.(sqlite.HookRegisterer).RegisterPreUpdateHook(s.rules.changed)
		return c.(sqlite.AuthorizerRegisterer).RegisterAuthorizer(s.rules.authorize)
	})
	if err := s.open(); err != nil {
		return nil, errors.Join(err, builtin.Close())
	}
	switch {
	case s.at == position{}:
	case s.at.Log == 0: // restored, and nothing applied since: the snapshot is restored again
		return s, s.replace("")
	case s.at.Log != log:
		return nil, errors.Join(fmt.Errorf("%s has the state of the log with id %d, but the log has id %d", folder, s.at.Log, log), s.close())
	}
	return s, nil
}

// database is where the database is, restoring one that is being restored, replaced one that is to be removed, and
// copied the file of a snapshot.
func (s *store) database() string  { return filepath.Join(s.folder, "database") }
func (s *store) restoring() string { return filepath.Join(s.folder, "restoring") }
func (s *store) replaced() string  { return filepath.Join(s.folder, "replaced") }
func (s *store) copied() string    { return filepath.Join(s.folder, "copied") }

// file is the database in its folder, where SQLite keeps others beside it.
func file(folder string) string { return filepath.Join(folder, "sqlite") }

// connector opens connections of a driver that no other package sees.
type connector struct {
	driver *sqlite.Driver
	dsn    string
}

// Driver is that of the connections.
func (c connector) Driver() driver.Driver { return c.driver }

// Connect opens a connection.
func (c connector) Connect(context.Context) (driver.Conn, error) { return c.driver.Open(c.dsn) }

func (s *store) open() (err error) {
	if err := os.MkdirAll(s.database(), 0o700); err != nil {
		return err
	}
	path := "file:" + file(s.database())
	s.writers = sql.OpenDB(connector{s.driver, path + "?_pragma=journal_mode(wal)&_pragma=synchronous(normal)"})
	if s.writer, err = s.writers.Conn(context.Background()); err == nil {
		s.at, err = readPosition(s.writer)
	}
	if err != nil {
		return errors.Join(err, s.writers.Close())
	}
	s.readers, err = sql.Open("sqlite", path+"?mode=ro")
	return err
}

// readPosition returns the position of a database, and makes the table of one that is new.
func readPosition(c *sql.Conn) (at position, err error) {
	ctx := context.Background()
	if _, err := c.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS "+own+" (one INTEGER PRIMARY KEY CHECK (one = 1), log INTEGER NOT NULL, next INTEGER NOT NULL)"); err != nil {
		return position{}, err
	}
	var log int64
	err = c.QueryRowContext(ctx, "SELECT log, next FROM "+own).Scan(&log, &at.Next)
	if errors.Is(err, sql.ErrNoRows) {
		return position{}, nil
	}
	at.Log = uint64(log)
	return at, err
}

func writePosition(ctx context.Context, c *sql.Conn, at position) error {
	_, err := c.ExecContext(ctx, "INSERT OR REPLACE INTO "+own+" VALUES (1, ?, ?)", int64(at.Log), at.Next)
	return err
}

func (s *store) close() error { return errors.Join(s.closeDatabase(), s.moment.builtin.Close()) }

// closeDatabase closes the connections. The last one writes back what SQLite keeps beside the file.
func (s *store) closeDatabase() error {
	return errors.Join(s.pinned.release(), s.readers.Close(), s.writer.Close(), s.writers.Close())
}

// replace closes the database and begins with another one, or with an empty one if there is none at the path. A crash
// on the way leaves a whole database, or none.
func (s *store) replace(path string) error {
	if err := errors.Join(s.closeDatabase(), os.RemoveAll(s.replaced()), os.Rename(s.database(), s.replaced())); err != nil {
		return err
	}
	if err := os.Rename(path, s.database()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := errors.Join(syncPath(s.folder), os.RemoveAll(s.replaced())); err != nil {
		return err
	}
	return s.open()
}

func syncPath(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// Apply applies the statements of a record, all or none.
func (s *store) Apply(r client.Record) (result, error) {
	ctx := context.Background()
	if _, err := s.writer.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return result{}, err
	}
	answer, err := s.statements(ctx, r)
	if err != nil {
		return result{}, err
	}
	if answer.Refused != "" {
		// INSERT OR ROLLBACK has rolled back by itself, and then this fails.
		_, _ = s.writer.ExecContext(ctx, "ROLLBACK")
		if _, err := s.writer.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
			return result{}, err
		}
	}
	at := position{s.log, r.Offset + 1}
	if err := writePosition(ctx, s.writer, at); err != nil {
		return result{}, err
	}
	if _, err := s.writer.ExecContext(ctx, "COMMIT"); err != nil {
		return result{}, err
	}
	s.at = at
	return answer, nil
}

// statements runs the statements of a record under the rules.
func (s *store) statements(ctx context.Context, r client.Record) (result, error) {
	before, err := s.changes(ctx)
	if err != nil {
		return result{}, err
	}
	s.moment.begin(s.log, r.Offset, r.Timestamp)
	s.rules = rules{on: true}
	_, err = s.writer.ExecContext(ctx, string(r.Value))
	s.rules.on = false
	switch {
	case s.rules.refused != "":
		return result{Refused: s.rules.refused}, nil
	case err != nil && isResult(err):
		return result{Refused: err.Error()}, nil
	case err != nil:
		return result{}, err
	}
	after, err := s.changes(ctx)
	return result{Rows: after - before}, err
}

// changes returns how many rows the connection has changed.
func (s *store) changes(ctx context.Context) (rows int64, err error) {
	err = s.writer.QueryRowContext(ctx, "SELECT total_changes()").Scan(&rows)
	return rows, err
}

// query reads, and returns lines of values with tabs between.
func (s *store) query(text string) (lines []string, err error) {
	rows, err := s.readers.Query(text)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	values := make([]any, len(names))
	for i := range values {
		values[i] = new(any)
	}
	for rows.Next() && len(lines) < maxRows {
		if err := rows.Scan(values...); err != nil {
			return nil, err
		}
		var fields []string
		for _, v := range values {
			fields = append(fields, show(*v.(*any)))
		}
		lines = append(lines, strings.Join(fields, "\t"))
	}
	return lines, rows.Err()
}

// maxRows is how many rows of a query are shown.
const maxRows = 1_000

func show(value any) string {
	switch v := value.(type) {
	case nil:
		return "NULL"
	case []byte:
		return fmt.Sprintf("x'%x'", v)
	default:
		return strings.NewReplacer("\n", `\n`, "\t", `\t`).Replace(fmt.Sprint(v))
	}
}

// Digest is that of the schema and of all rows. It reads the whole database.
func (s *store) Digest() []byte {
	sum := sha256.New()
	if err := s.dump(sum); err != nil {
		return fmt.Appendf(nil, "%.64s", err.Error()) // equal to that of no other replica
	}
	return sum.Sum(nil)
}

// dump writes the schema and all rows in one order.
func (s *store) dump(w io.Writer) error {
	tables, err := s.column("SELECT name FROM sqlite_schema WHERE type = 'table' AND name <> '" + own + "' ORDER BY name")
	if err != nil {
		return err
	}
	schema, err := s.column("SELECT quote(type) || quote(name) || quote(sql) FROM sqlite_schema WHERE name <> '" + own + "' ORDER BY type, name")
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(w, "%q", schema); err != nil {
		return err
	}
	for _, table := range tables {
		columns, err := s.column("SELECT 'quote(\"' || replace(name, '\"', '\"\"') || '\")' FROM pragma_table_info(?) ORDER BY cid", table)
		if err != nil {
			return err
		}
		from := " FROM \"" + strings.ReplaceAll(table, `"`, `""`) + `"`
		all := strings.Join(columns, " || ',' || ")
		rows, err := s.column("SELECT rowid || ':' || " + all + from + " ORDER BY rowid")
		if err != nil { // the table has no rowid
			if rows, err = s.column("SELECT " + all + from + " ORDER BY 1"); err != nil {
				return err
			}
		}
		if _, err := fmt.Fprintf(w, "%q%q", table, rows); err != nil {
			return err
		}
	}
	return nil
}

// column returns the values of a query with one column.
func (s *store) column(text string, args ...any) (values []string, err error) {
	rows, err := s.readers.Query(text, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var v string
		if err := rows.Scan(&v); err != nil {
			return nil, err
		}
		values = append(values, v)
	}
	return values, rows.Err()
}
