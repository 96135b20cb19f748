package datadir

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"

	"strandline.dev/internal/transport/peer"
	"strandline.dev/internal/unknown"
	"strandline.dev/internal/vfs"
)

// Incarnations is the content of lives.json: lower bounds for the progress of the data directories
// of this node and of the others. A data directory restored from an older copy is consistent in
// itself; only other nodes can detect that it is old.
//
// A node's incarnation is a number that rises with each start, and every incarnationEvery while the
// node stores entries. The node makes the number durable before it sends it. Other nodes store the
// highest number of each node, and both sides of a new connection first send the numbers that they
// know. If a node starts with a number that others have received from an earlier run of it, its
// data are an older copy.
type Incarnations struct {
	disk vfs.FS
	dir  string // the data directory
	path string
	me   *Me

	Damaged error // why the file could not be used
	// Older is the reason why the durable watermarks, and perhaps the logs, are older than the file
	// (see ageMark). The node then counts as old as they are.
	Older error

	mu    sync.Mutex
	own   peer.Incarnation
	began uint64                      // the number with which this run began, or was raised last
	known map[uint64]peer.Incarnation // by node
	fresh bool                        // known has changed since it was saved
	rest  unknown.Members             // of the file
	// unknown: the file was lost, so this node's number has no meaning.
	unknown bool

	Wrote atomic.Bool // this node has stored something since its number rose
	// replacing: this node is replacing what it has forgotten.
	Replacing atomic.Bool
}

// incarnationsFile is the content of the file.
type incarnationsFile struct {
	belonging
	Number uint64 `json:"life"`
	Run    uint64 `json:"run"`
	// Marked is Number if there is an ageMark with it: versions without leave it behind.
	Marked  uint64                      `json:"marked,omitempty"`
	Known   map[uint64]peer.Incarnation `json:"known"`
	Sum     uint32                      `json:"sum"` // record.Checksum of the file with Sum 0
	Unknown unknown.Members             `json:"-"`
}

func (f incarnationsFile) MarshalJSON() ([]byte, error) {
	type known incarnationsFile
	return unknown.Marshal(known(f), f.Unknown)
}

func (f *incarnationsFile) UnmarshalJSON(data []byte) (err error) {
	type known incarnationsFile
	f.Unknown, err = unknown.Unmarshal(data, (*known)(f))
	return err
}

// LoadIncarnations reads the file of the node me. A member always has one. A file of another node
// counts as damaged.
func LoadIncarnations(disk vfs.FS, dir string, me *Me) (*Incarnations, error) {
	l := &Incarnations{disk: disk, dir: dir, path: filepath.Join(dir, "lives.json"), me: me, known: map[uint64]peer.Incarnation{}, unknown: true}
	data, err := disk.ReadFile(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read lives.json: %w", err)
	}
	var f incarnationsFile
	if err := json.Unmarshal(data, &f); err != nil {
		l.Damaged = fmt.Errorf("read %s: %w", l.path, err)
		return l, nil
	}
	if !sumMatches(data, "0") {
		l.Damaged = fmt.Errorf("%s does not match its checksum", l.path)
		return l, nil
	}
	if l.Damaged = f.foreign(l.path, me.Load()); l.Damaged != nil {
		return l, nil
	}
	l.own, l.began, l.rest, l.unknown = peer.Incarnation{Number: f.Number, Run: f.Run}, f.Number, f.Unknown, false
	if f.Known != nil {
		l.known = f.Known
	}
	if f.Marked != f.Number {
		return l, nil
	}
	mark, err := readAgeMark(disk, dir, me.Load())
	if mark.Number < l.own.Number {
		l.own, l.began = mark, mark.Number
		l.Older = cmp.Or(err, fmt.Errorf("%s has incarnation %d, but %s has incarnation %d", ageMarkPath(dir), mark.Number, l.path, f.Number))
	}
	return l, nil
}

// Begin starts a new run. If it cannot record the run because the disk is full, the node continues
// as the previous run: it must start, so that an operator can free space.
func (l *Incarnations) Begin() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rise(peer.Incarnation{Number: l.own.Number + 1, Run: rand.Uint64()})
}

// rise makes own this node's incarnation, from which on it knows all that it did. The mutex is held.
func (l *Incarnations) rise(own peer.Incarnation) error {
	if err := l.save(own); err != nil {
		return err
	}
	l.began = own.Number
	return nil
}

// save makes own this node's life. The mutex is held.
func (l *Incarnations) save(own peer.Incarnation) error {
	me := l.me.Load()
	if err := saveAgeMark(l.disk, l.dir, me, own); err != nil {
		return err
	}
	f := incarnationsFile{belonging: belongingTo(me), Number: own.Number, Run: own.Run, Marked: own.Number, Known: l.known, Unknown: l.rest}
	f.Sum = sumOf(f) // which has none yet
	if err := SaveJSON(l.disk, l.path, f); err != nil {
		return err
	}
	l.own, l.fresh = own, false
	return nil
}

// Greeting returns the incarnations that the node sends when it connects.
func (l *Incarnations) Greeting() (own peer.Incarnation, known map[uint64]peer.Incarnation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	known = make(map[uint64]peer.Incarnation, len(l.known))
	for id, life := range l.known {
		known[id] = life
	}
	return l.own, known
}

// olderCopy reports whether a run that began with the number began is an older copy: another run is
// known to have reached that number.
func olderCopy(run, began uint64, known peer.Incarnation) bool {
	return run != known.Run && began <= known.Number
}

// Meet compares the incarnation of another node with the last known one, and this node's own with
// the one that the other node knows. older reports that the other node's data are an older copy.
// forgotten is above 0 if this node's data are an older copy: it is the number that the other node
// knows.
func (l *Incarnations) Meet(id uint64, theirs peer.Incarnation, ofMe peer.Incarnation) (older bool, forgotten uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	// If a copy of this node's directory ran at the same time, it began later than this run,
	// whatever number this run has reached since: other nodes have received the copy's number
	// instead.
	if olderCopy(l.own.Run, l.began, ofMe) {
		forgotten = ofMe.Number
	}
	if olderCopy(theirs.Run, theirs.Number, l.known[id]) {
		return true, forgotten
	}
	if known := l.known[id]; known.Run != theirs.Run || known.Number < theirs.Number {
		l.known[id], l.fresh = theirs, true
	}
	return false, forgotten
}

// Heard records another node's incarnation.
func (l *Incarnations) Heard(id uint64, life peer.Incarnation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if known := l.known[id]; life.Run == known.Run && life.Number > known.Number {
		l.known[id], l.fresh = life, true
	}
}

// Raise makes this node's number higher than any that others have received.
func (l *Incarnations) Raise(number uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unknown = false
	return l.rise(peer.Incarnation{Number: max(l.own.Number, number) + 1, Run: l.own.Run})
}

// Lost reports whether this node's number cannot be trusted.
func (l *Incarnations) Lost() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.unknown
}

// Rewrite replaces a damaged file.
func (l *Incarnations) Rewrite() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.save(l.own)
}

// Advance raises the number if the node has stored entries.
func (l *Incarnations) Advance() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	own := l.own
	if l.Wrote.Swap(false) {
		own.Number++
	} else if !l.fresh {
		return nil
	}
	l.unknown = false // any node that knows a higher number has reported it by now
	return l.save(own)
}

// ageMark is the file watermarks/incarnation: a second copy of the number in lives.json, beside the
// durable watermarks. If older copies of the logs and of their watermarks are restored together,
// neither shows it, but this file is then older too. It is written before lives.json, so it is
// behind only for that reason.
type ageMark struct {
	belonging
	Number uint64 `json:"life"`
	Run    uint64 `json:"run"`
	Sum    uint32 `json:"sum"` // record.Checksum of the file with Sum 0
}

func ageMarkPath(dir string) string { return filepath.Join(WatermarksDir(dir), "incarnation") }

func saveAgeMark(disk vfs.FS, dir string, me *Identity, own peer.Incarnation) error {
	m := ageMark{belonging: belongingTo(me), Number: own.Number, Run: own.Run}
	m.Sum = sumOf(m) // which has none yet
	return SaveJSON(disk, ageMarkPath(dir), m)
}

// readAgeMark returns how old the watermarks are. One that cannot be used is an error, and as
// old as can be.
func readAgeMark(disk vfs.FS, dir string, me *Identity) (peer.Incarnation, error) {
	path := ageMarkPath(dir)
	data, err := disk.ReadFile(path)
	if err != nil {
		return peer.Incarnation{}, fmt.Errorf("read %s: %w", path, err)
	}
	var m ageMark
	if err := json.Unmarshal(data, &m); err != nil {
		return peer.Incarnation{}, fmt.Errorf("read %s: %w", path, err)
	}
	if !sumMatches(data, "0") {
		return peer.Incarnation{}, fmt.Errorf("%s does not match its checksum", path)
	}
	if err := m.foreign(path, me); err != nil {
		return peer.Incarnation{}, err
	}
	return peer.Incarnation{Number: m.Number, Run: m.Run}, nil
}
