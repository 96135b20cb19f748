package main

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"os"
	"sync"

	"modernc.org/sqlite"
)

// pinned is the state as of one moment: a connection with a read transaction, in which later ones are not seen.
type pinned struct {
	folder string // for the copy
	conn   *sql.Conn
	ending sync.Once
}

// Snapshot begins a read transaction, which costs nothing. SQLite's backup copies the pages later. VACUUM INTO would
// change the rowids of tables that have no INTEGER PRIMARY KEY, and so make replicas differ.
func (s *store) Snapshot() (io.WriterTo, error) {
	if err := s.pinned.release(); err != nil { // of a snapshot that was not stored
		return nil, err
	}
	ctx := context.Background()
	conn, err := s.readers.Conn(ctx)
	if err != nil {
		return nil, err
	}
	// The first read is what begins it.
	if _, err := conn.ExecContext(ctx, "BEGIN; SELECT count(*) FROM "+own); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	s.pinned = &pinned{folder: s.copied(), conn: conn}
	return s.pinned, nil
}

// release ends the read transaction, if there is one: while it lasts, SQLite keeps what is newer beside the file.
func (p *pinned) release() (err error) {
	if p == nil {
		return nil
	}
	p.ending.Do(func() {
		_, err = p.conn.ExecContext(context.Background(), "ROLLBACK")
		err = errors.Join(err, p.conn.Close())
	})
	return err
}

// WriteTo writes the state as a file of SQLite.
func (p *pinned) WriteTo(w io.Writer) (int64, error) {
	if err := errors.Join(os.RemoveAll(p.folder), os.MkdirAll(p.folder, 0o700)); err != nil {
		return 0, err
	}
	err := p.conn.Raw(func(c any) error { return backup(c.(backuper), file(p.folder)) })
	if err := errors.Join(err, p.release()); err != nil {
		return 0, err
	}
	f, err := os.Open(file(p.folder))
	if err != nil {
		return 0, err
	}
	n, err := io.Copy(w, f)
	return n, errors.Join(err, f.Close(), os.RemoveAll(p.folder))
}

type backuper interface {
	NewBackup(to string) (*sqlite.Backup, error)
}

func backup(c backuper, path string) error {
	b, err := c.NewBackup(path)
	if err != nil {
		return err
	}
	for more := true; more && err == nil; {
		more, err = b.Step(-1)
	}
	return errors.Join(err, b.Finish())
}

// Restore makes a database of a snapshot beside ours, and then puts it in its place. A crash before leaves the database
// as it was, and one after it a database without a log id, which openStore does not use.
func (s *store) Restore(r io.Reader) error {
	folder := s.restoring()
	if err := errors.Join(os.RemoveAll(folder), os.MkdirAll(folder, 0o700)); err != nil {
		return err
	}
	f, err := os.OpenFile(file(folder), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	if err := errors.Join(err, f.Close(), distrust(file(folder))); err != nil {
		return err
	}
	if err := errors.Join(syncPath(file(folder)), syncPath(folder)); err != nil {
		return err
	}
	return s.replace(folder)
}

// distrust removes the log id from the position of a database.
func distrust(path string) error {
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		return err
	}
	_, err = db.Exec("UPDATE " + own + " SET log = 0")
	return errors.Join(err, db.Close())
}
