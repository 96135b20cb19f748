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

	mu sync.Mutex
	createdReplicas
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
		l.Damaged = fmt.Errorf("%s is gone", l.path)
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
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.Below != unsettled {
		return nil
	}
	return l.save(createdReplicas{Made: l.Made, Below: next})
}

// save makes m the list. The mutex is held.
func (l *ReplicaList) save(m createdReplicas) error {
	m.belonging = belongingTo(l.me.Load())
	m.Unknown, m.Sum = l.Unknown, 0
	m.Sum = sumOf(m)
	if err := SaveJSON(l.disk, l.path, m); err != nil {
		return err
	}
	l.createdReplicas = m
	return nil
}

// Lose records that the list is an older copy: all replicas count as created until the range of
// assigned ids is known.
func (l *ReplicaList) Lose() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.save(createdReplicas{Made: l.Made, Below: unsettled})
}

// Rewrite replaces a damaged file.
func (l *ReplicaList) Rewrite() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.save(l.createdReplicas)
}

func (l *ReplicaList) Add(replica uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	at, found := slices.BinarySearch(l.Made, replica)
	if found {
		return nil
	}
	return l.save(createdReplicas{Made: slices.Insert(slices.Clone(l.Made), at, replica), Below: l.Below})
}

// Remove removes a replica from the list. It is called after its files were removed.
func (l *ReplicaList) Remove(replica uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	at, found := slices.BinarySearch(l.Made, replica)
	if !found {
		return nil
	}
	return l.save(createdReplicas{Made: slices.Delete(slices.Clone(l.Made), at, at+1), Below: l.Below})
}
