package archive_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"strandline.dev/internal/archive"
)

// memory is a bucket in memory that fails on demand.
type memory struct {
	objects  map[string][]byte
	versions map[string]int
	puts     int
	// fault returns what happens to a call: "" nothing, "before" it fails, "after" its answer is lost.
	fault func(op, name string) string
	// listed, if not nil, is what lists return.
	listed []string
}

func newMemory() *memory { return &memory{objects: map[string][]byte{}, versions: map[string]int{}} }

func (m *memory) String() string { return "memory" }

var errBucket = errors.New("the bucket does not answer")

func (m *memory) failing(op, name, when string) error {
	if m.fault != nil && m.fault(op, name) == when {
		return &archive.Error{Op: op, Name: name, Err: errBucket}
	}
	return nil
}

func (m *memory) Get(_ context.Context, name string, limit int64) ([]byte, string, error) {
	if err := m.failing("get", name, "before"); err != nil {
		return nil, "", err
	}
	data, ok := m.objects[name]
	switch {
	case !ok:
		return nil, "", archive.ErrNotFound
	case int64(len(data)) > limit:
		return nil, "", archive.ErrTooLarge
	}
	return slices.Clone(data), fmt.Sprint(m.versions[name]), nil
}

func (m *memory) Put(_ context.Context, name string, data []byte, version string) (string, error) {
	fault := ""
	if m.fault != nil {
		fault = m.fault("put", name)
	}
	if fault == "before" {
		return "", &archive.Error{Op: "put", Name: name, Err: errBucket}
	}
	now := ""
	if _, ok := m.objects[name]; ok {
		now = fmt.Sprint(m.versions[name])
	}
	if now != version {
		return "", archive.ErrChanged
	}
	m.puts++
	m.versions[name] = m.puts
	m.objects[name] = slices.Clone(data)
	if fault == "after" {
		return "", &archive.Error{Op: "put", Name: name, Err: errBucket}
	}
	return fmt.Sprint(m.puts), nil
}

func (m *memory) List(_ context.Context, prefix, suffix string) ([]string, error) {
	if m.listed != nil {
		return m.listed, nil
	}
	var names []string
	for _, name := range slices.Sorted(maps.Keys(m.objects)) {
		if strings.HasPrefix(name, prefix) && strings.HasSuffix(name, suffix) {
			names = append(names, name)
		}
	}
	return names, nil
}
