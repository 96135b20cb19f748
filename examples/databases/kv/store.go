package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/cockroachdb/pebble/v2"

	"strandline.dev/client"
	"strandline.dev/statemachine"
)

var _ statemachine.Machine[result] = (*store)(nil)

// store is the state of one replica in a Pebble database. It has three kinds of keys:
//
//	k KEY      the version of the key, 8 bytes big-endian, and its value
//	e OFFSET   a change, for those who watch
//	p          the position: which records are in the database
//
// Each record is one batch, with the position, so a database that is opened after a crash has whole
// records, and says which. A batch is not synced: what a power cut takes is in the log.
type store struct {
	folder string
	log    uint64 // id of the log
	db     *pebble.DB
	at     position
}

// position says which records of which log are in a database.
type position struct {
	// Log is the id of the log. It is 0 after Restore until the next record is applied: before, nobody knows whether
	// the snapshot was whole, and the database is not used again.
	Log       uint64 `json:"log"`
	Next      int64  `json:"next"`      // the records below it are applied
	Forgotten int64  `json:"forgotten"` // the changes below it cannot be watched any more
	Sum       sum    `json:"sum"`       // of all keys with their values and versions
}

const (
	keys   = 'k'
	events = 'e'
)

var positionKey = []byte{'p'}

// maxHistory is how many of the newest offsets can be watched, and so how many changes are kept at least.
const maxHistory = 100_000

// maxTrimmed is how many changes are given up at a time.
const maxTrimmed = 1_000

// openStore opens the database in a folder, or creates one.
func openStore(folder string, log uint64) (*store, error) {
	s := &store{folder: folder, log: log}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	if err := s.open(); err != nil {
		return nil, err
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
// checkpoint a copy.
func (s *store) database() string   { return filepath.Join(s.folder, "database") }
func (s *store) restoring() string  { return filepath.Join(s.folder, "restoring") }
func (s *store) replaced() string   { return filepath.Join(s.folder, "replaced") }
func (s *store) checkpoint() string { return filepath.Join(s.folder, "checkpoint") }

func (s *store) open() (err error) {
	s.db, s.at, err = openDatabase(s.database())
	return err
}

func (s *store) close() error { return s.db.Close() }

// replace closes the database and begins with another one, or with an empty one if there is none at the path. A crash
// on the way leaves a whole database, or none.
func (s *store) replace(path string) error {
	if err := errors.Join(s.db.Close(), os.RemoveAll(s.replaced()), os.Rename(s.database(), s.replaced())); err != nil {
		return err
	}
	if err := os.Rename(path, s.database()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := errors.Join(syncFolder(s.folder), os.RemoveAll(s.replaced())); err != nil {
		return err
	}
	return s.open()
}

// openDatabase opens a database and reads its position.
func openDatabase(folder string) (db *pebble.DB, at position, err error) {
	db, err = pebble.Open(folder, &pebble.Options{FormatMajorVersion: pebble.FormatNewest, Logger: silent{}})
	if err != nil {
		return nil, position{}, err
	}
	text, found, err := get(db, positionKey)
	if err == nil && found {
		err = json.Unmarshal(text, &at)
	}
	if err != nil {
		return nil, position{}, errors.Join(err, db.Close())
	}
	return db, at, nil
}

// get returns a copy of a value, and whether there is one.
func get(db pebble.Reader, key []byte) (value []byte, found bool, err error) {
	stored, done, err := db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	return bytes.Clone(stored), true, done.Close()
}

// entry is a key's value, with the offset of the record that wrote it.
type entry struct {
	Version int64
	Value   []byte
}

// lookup returns the entry of a key, and whether there is one.
func (s *store) lookup(key []byte) (e entry, found bool, err error) {
	stored, found, err := get(s.db, append([]byte{keys}, key...))
	if err != nil || !found {
		return entry{}, false, err
	}
	e, err = decodeEntry(stored)
	return e, err == nil, err
}

func decodeEntry(stored []byte) (entry, error) {
	if len(stored) < 8 {
		return entry{}, fmt.Errorf("an entry has %d bytes", len(stored))
	}
	return entry{int64(binary.BigEndian.Uint64(stored)), bytes.Clone(stored[8:])}, nil
}

func (e entry) encode() []byte {
	return append(binary.BigEndian.AppendUint64(nil, uint64(e.Version)), e.Value...)
}

// result is what a proposal returns.
type result struct {
	// Changed is false if the condition did not hold, or the key that is to be deleted is not there.
	Changed bool `json:"changed"`
	// Version is the version of the key after the record; -1: there is no such key.
	Version int64 `json:"version"`
}

// event is a change, as those who watch get it.
type event struct {
	Offset int64  `json:"offset"` // also the version of the key, unless it is deleted
	Key    string `json:"key"`
	Value  []byte `json:"value,omitempty"`
	Delete bool   `json:"delete,omitempty"`
}

// Apply applies a command. It decides on the state alone, so all replicas decide the same.
func (s *store) Apply(r client.Record) (result, error) {
	c := parseCommand(r)
	old, found, err := s.lookup(r.Key)
	if err != nil {
		return result{}, err
	}
	at := s.at
	at.Log, at.Next = s.log, r.Offset+1
	b := s.db.NewBatch()
	defer b.Close()
	answer := result{Version: -1}
	if found {
		answer.Version = old.Version
	}
	if c.holds(answer.Version) && (found || !c.delete) {
		answer.Changed = true
		if found {
			at.Sum.remove(r.Key, old)
		}
		key := append([]byte{keys}, r.Key...)
		changed := event{Offset: r.Offset, Key: string(r.Key), Delete: c.delete}
		if c.delete {
			answer.Version = -1
			err = b.Delete(key, nil)
		} else {
			answer.Version, changed.Value = r.Offset, r.Value
			e := entry{r.Offset, r.Value}
			at.Sum.add(r.Key, e)
			err = b.Set(key, e.encode(), nil)
		}
		if err != nil {
			return result{}, err
		}
		if err := setJSON(b, eventKey(r.Offset), changed); err != nil {
			return result{}, err
		}
	}
	if limit := r.Offset - maxHistory; limit > at.Forgotten+maxTrimmed {
		if err := b.DeleteRange(eventKey(at.Forgotten), eventKey(limit), nil); err != nil {
			return result{}, err
		}
		at.Forgotten = limit
	}
	if err := setJSON(b, positionKey, at); err != nil {
		return result{}, err
	}
	if err := b.Commit(pebble.NoSync); err != nil {
		return result{}, err
	}
	s.at = at
	return answer, nil
}

func eventKey(offset int64) []byte {
	return binary.BigEndian.AppendUint64([]byte{events}, uint64(offset))
}

func setJSON(b *pebble.Batch, key []byte, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return b.Set(key, text, nil)
}

// changes returns at most limit changes from an offset on.
func (s *store) changes(from int64, limit int) (found []event, err error) {
	i, err := s.db.NewIter(&pebble.IterOptions{LowerBound: eventKey(from), UpperBound: []byte{events + 1}})
	if err != nil {
		return nil, err
	}
	for ok := i.First(); ok && len(found) < limit; ok = i.Next() {
		var e event
		if err := json.Unmarshal(i.Value(), &e); err != nil {
			return nil, errors.Join(err, i.Close())
		}
		found = append(found, e)
	}
	return found, i.Close()
}

// list returns at most limit keys that begin with a prefix and come behind another key, in their order.
func (s *store) list(prefix, after string, limit int) (found []item, err error) {
	from := append([]byte{keys}, max(prefix, after)...)
	i, err := s.db.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: []byte{keys + 1}})
	if err != nil {
		return nil, err
	}
	for ok := i.First(); ok && len(found) < limit && bytes.HasPrefix(i.Key()[1:], []byte(prefix)); ok = i.Next() {
		if key := string(i.Key()[1:]); key > after || after == "" {
			e, err := decodeEntry(i.Value())
			if err != nil {
				return nil, errors.Join(err, i.Close())
			}
			found = append(found, item{key, e.Version, e.Value})
		}
	}
	return found, i.Close()
}

// item is a key with its entry.
type item struct {
	Key     string `json:"key"`
	Version int64  `json:"version"`
	Value   []byte `json:"value"`
}

// Digest is that of all keys, with their values and versions.
func (s *store) Digest() []byte { return s.at.Sum.bytes() }

// Snapshot is Pebble's checkpoint: links to its files, which do not change, and a copy of its write-ahead log.
func (s *store) Snapshot() (io.WriterTo, error) {
	if err := os.RemoveAll(s.checkpoint()); err != nil { // of a snapshot that was not stored
		return nil, err
	}
	if err := s.db.Checkpoint(s.checkpoint(), pebble.WithFlushedWAL()); err != nil {
		return nil, err
	}
	return archive(s.checkpoint()), nil
}

// Restore unpacks a checkpoint beside the database, and then puts it in its place. A crash before leaves the
// database as it was, and one after it a database without a log id, which openStore does not use.
func (s *store) Restore(r io.Reader) error {
	if err := os.RemoveAll(s.restoring()); err != nil {
		return err
	}
	if err := unpack(r, s.restoring()); err != nil {
		return err
	}
	if err := distrust(s.restoring()); err != nil {
		return err
	}
	return s.replace(s.restoring())
}

// distrust removes the log id from the position of a database.
func distrust(folder string) error {
	db, at, err := openDatabase(folder)
	if err != nil {
		return err
	}
	at.Log = 0
	text, err := json.Marshal(at)
	if err == nil {
		err = db.Set(positionKey, text, pebble.Sync)
	}
	return errors.Join(err, db.Close())
}

// silent drops Pebble's messages of what it does, and ends the program where Pebble cannot continue.
type silent struct{}

func (silent) Infof(string, ...any)         {}
func (silent) Errorf(f string, args ...any) { fmt.Fprintf(os.Stderr, "pebble: "+f+"\n", args...) }
func (silent) Fatalf(f string, args ...any) {
	fmt.Fprintf(os.Stderr, "pebble: "+f+"\n", args...)
	os.Exit(1)
}
