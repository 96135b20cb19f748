package datadir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"sync"

	"strandline.dev/internal/unknown"
	"strandline.dev/internal/vfs"
)

// ReplicaList is the content of replicas.json: the replicas that were created in this data
// directory and not removed. A replica is added after its files are durable and before it sends
// messages. So a listed replica without files has lost them, and its votes: it must never be
// created again. A replica that is not listed has never sent a message, unless its log exists: then
// the node crashed between the two steps.
//
// If the list of a member is damaged or missing, any replica may have been created. So all replicas
// assigned until then count as created, and those without files are replaced.
type ReplicaList struct {
	disk vfs.FS
	path string
	me   *Me

	// damaged is why the file could not be used.
	Damaged error

	saving sync.Mutex // held while the file is written; taken before mu
	mu     sync.Mutex // guards what follows; not held during I/O
	createdReplicas
	waiting []*listChange
}

// createdReplicas is the content of the file.
type createdReplicas struct {
	belonging
	Made []uint64 `json:"made"` // sorted
	// Replicas with an id below this count as created, because the list was lost; unsettled: all
	// replicas.
	Below uint64 `json:"below,omitempty"`
	// Sum is record.Checksum of the file with Sum 0.
	Sum     uint32          `json:"sum"`
	Unknown unknown.Members `json:"-"`
}

func (m createdReplicas) MarshalJSON() ([]byte, error) {
	type known createdReplicas
	return unknown.Marshal(known(m), m.Unknown)
}

func (m *createdReplicas) UnmarshalJSON(data []byte) (err error) {
	type known createdReplicas
	m.Unknown, err = unknown.Unmarshal(data, (*known)(m))
	return err
}

// unsettled: the list was lost, and the ids assigned before the loss are not known yet.
const unsettled = math.MaxUint64

// LoadReplicaList reads the list of the node me. A member always has one. A list of another node
// counts as damaged.
func LoadReplicaList(disk vfs.FS, dir string, me *Me) (*ReplicaList, error) {
	l := &ReplicaList{disk: disk, path: filepath.Join(dir, "replicas.json"), me: me}
	data, err := disk.ReadFile(l.path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !me.Load().Member():
		return l, nil
	case errors.Is(err, fs.ErrNotExist):
		l.Damaged = fmt.Errorf("%s is missing", l.path)
	case err != nil:
		return nil, fmt.Errorf("read replicas.json: %w", err)
	default:
		l.Damaged = l.decode(data)
	}
	if l.Damaged != nil {
		l.createdReplicas = createdReplicas{Below: unsettled}
	}
	return l, nil
}

func (l *ReplicaList) decode(data []byte) error {
	if err := json.Unmarshal(data, &l.createdReplicas); err != nil {
		return fmt.Errorf("read %s: %w", l.path, err)
	}
	if !sumMatches(data, "0") || !slices.IsSorted(l.Made) {
		return fmt.Errorf("%s does not match its checksum", l.path)
	}
	return l.foreign(l.path, l.me.Load())
}

// Has reports whether a replica was created here, or may have been.
func (l *ReplicaList) Has(replica uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, found := slices.BinarySearch(l.Made, replica)
	return found || replica < l.Below
}

// Settle gives a lost list the range of assigned ids: ids below next are never assigned from now
// on. A replica with an id of next or higher was not created before.
func (l *ReplicaList) Settle(next uint64) error {
	return l.change(func(m *createdReplicas) bool {
		if m.Below != unsettled {
			return false
		}
		m.Below = next
		return true
	})
}

// Lose records that the list is an older copy: all replicas count as created until the range of
// assigned ids is known.
func (l *ReplicaList) Lose() error {
	return l.change(func(m *createdReplicas) bool {
		m.Below = unsettled
		return true
	})
}

// Rewrite replaces a damaged file.
func (l *ReplicaList) Rewrite() error { return l.change(func(*createdReplicas) bool { return true }) }

// Add adds a replica. It is called when its files are durable.
func (l *ReplicaList) Add(replica uint64) error {
	return l.change(func(m *createdReplicas) bool {
		at, found := slices.BinarySearch(m.Made, replica)
		if !found {
			m.Made = slices.Insert(m.Made, at, replica)
		}
		return !found
	})
}

// Remove removes a replica from the list. It is called after its files were removed.
func (l *ReplicaList) Remove(replica uint64) error {
	return l.change(func(m *createdReplicas) bool {
		at, found := slices.BinarySearch(m.Made, replica)
		if found {
			m.Made = slices.Delete(m.Made, at, at+1)
		}
		return found
	})
}

// listChange is a change of the list that waits to be saved.
type listChange struct {
	apply func(*createdReplicas) (changed bool)
	// saving guards what follows.
	done bool
	err  error
}

// change makes a change durable. All changes that wait while the file is being written are saved
// together by the next write: each writes the whole list.
func (l *ReplicaList) change(apply func(*createdReplicas) bool) error {
	own := &listChange{apply: apply}
	l.mu.Lock()
	l.waiting = append(l.waiting, own)
	l.mu.Unlock()
	l.saving.Lock()
	defer l.saving.Unlock()
	if own.done {
		return own.err
	}
	l.mu.Lock()
	group, next := l.waiting, l.createdReplicas
	l.waiting = nil
	l.mu.Unlock()
	next.Made = slices.Clone(next.Made)
	changed := false
	for _, c := range group {
		changed = c.apply(&next) || changed
	}
	var err error
	if changed {
		err = l.save(next)
	}
	for _, c := range group {
		c.done, c.err = true, err
	}
	return own.err
}

// save makes m the list. The caller holds saving.
func (l *ReplicaList) save(m createdReplicas) error {
	m.belonging = belongingTo(l.me.Load())
	m.Sum = 0
	m.Sum = sumOf(m)
	if err := SaveJSON(l.disk, l.path, m); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.createdReplicas = m
	return nil
}
