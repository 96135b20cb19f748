package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"

	"strandline.dev/internal/segment"
)

// replicaList is replicas.json: the replicas that were made in this data
// directory and not removed. A replica is entered once its files are durable,
// and before it has a voice. So one that is in the list and has no files has
// lost them, with its votes: it must never be made again from nothing. One that
// is not in the list has never said anything, unless its log is there: then the
// list is damaged, or a crash came between the two.
type replicaList struct {
	disk segment.FS
	path string

	// damaged is why the file could not be read: then only those whose logs are
	// there are known.
	damaged error

	mu   sync.Mutex
	made []uint64 // sorted
}

func loadReplicaList(disk segment.FS, dir string) (*replicaList, error) {
	l := &replicaList{disk: disk, path: filepath.Join(dir, "replicas.json")}
	data, err := disk.ReadFile(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read replicas.json: %w", err)
	}
	if err := json.Unmarshal(data, &l.made); err != nil {
		l.damaged = fmt.Errorf("read %s: %w", l.path, err)
		l.made = nil
	}
	slices.Sort(l.made)
	return l, nil
}

func (l *replicaList) has(replica uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, found := slices.BinarySearch(l.made, replica)
	return found
}

func (l *replicaList) add(replica uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	at, found := slices.BinarySearch(l.made, replica)
	if found {
		return nil
	}
	made := slices.Insert(slices.Clone(l.made), at, replica)
	if err := saveJSON(l.disk, l.path, made); err != nil {
		return err
	}
	l.made = made
	return nil
}

// remove is called after the files are gone.
func (l *replicaList) remove(replica uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	at, found := slices.BinarySearch(l.made, replica)
	if !found {
		return nil
	}
	made := slices.Delete(slices.Clone(l.made), at, at+1)
	if err := saveJSON(l.disk, l.path, made); err != nil {
		return err
	}
	l.made = made
	return nil
}
