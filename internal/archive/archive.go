// Package archive defines the archive of a log outside of its cluster: objects with its committed
// entries, and a manifest that lists them. It decides what follows in an archive and verifies what is
// there; it reads and writes only through a Bucket. docs/decisions/0034-archive.md says why it is as it is.
package archive

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Archive is the archives of the logs of all clusters that use one bucket.
type Archive struct{ Bucket Bucket }

// Stored is a manifest as the bucket has it.
type Stored struct {
	Manifest *Manifest
	version  string // empty: there is none yet
}

const (
	clustersDir  = "clusters/"
	manifestName = "manifest.json"
)

// prefix returns the prefix of the names of a log's objects.
func prefix(cluster string, id uint64) string {
	return clustersDir + cluster + "/logs/" + strconv.FormatUint(id, 10) + "/"
}

// Load returns the manifest of a log. If the log has no archive, it returns an empty one of the log
// created at a time in Unix milliseconds.
func (a Archive) Load(ctx context.Context, cluster string, id uint64, log string, created int64) (Stored, error) {
	name := prefix(cluster, id) + manifestName
	data, version, err := a.Bucket.Get(ctx, name, MaxManifestBytes)
	if Missing(err) {
		return Stored{Manifest: &Manifest{Format: manifestFormat, Cluster: cluster, LogID: id, Log: log, Created: created}}, nil
	}
	if err != nil {
		return Stored{}, err
	}
	m, err := ParseManifest(data)
	switch {
	case err != nil:
		return Stored{}, fmt.Errorf("%s: %w", name, err)
	case m.Cluster != cluster || m.LogID != id || m.Log != log:
		return Stored{}, fmt.Errorf("%s: %w: it is of log %q (%d) of cluster %s", name, ErrManifest, m.Log, m.LogID, m.Cluster)
	}
	return Stored{m, version}, nil
}

// Add stores an object, and then a manifest that is next to the stored one with the object added. It
// returns the manifest as stored. After an error the object may be stored, or the manifest too: then
// Load returns it. ErrChanged means that another program has added an object; Load returns its
// manifest.
func (a Archive) Add(ctx context.Context, s Stored, next *Manifest, data []byte) (Stored, error) {
	p := &next.Objects[len(next.Objects)-1]
	text, err := next.Encode()
	if err != nil {
		return Stored{}, err
	}
	dir := prefix(next.Cluster, next.LogID)
	_, err = a.Bucket.Put(ctx, dir+p.Name, data, "")
	if errors.Is(err, ErrChanged) {
		// Its name has its checksum: it was put by an earlier attempt, or by another replica.
		err = a.compare(ctx, dir+p.Name, data)
	}
	if err != nil {
		return Stored{}, err
	}
	version, err := a.Bucket.Put(ctx, dir+manifestName, text, s.version)
	if err != nil {
		return Stored{}, err
	}
	return Stored{next, version}, nil
}

// compare returns an error unless an object that is stored already has these bytes.
func (a Archive) compare(ctx context.Context, name string, data []byte) error {
	there, _, err := a.Bucket.Get(ctx, name, MaxObjectBytes)
	if err == nil && !bytes.Equal(there, data) {
		err = fmt.Errorf("%s: %w: it has other bytes than the object of that name; it is not listed, and trying again is of no use before it is moved away", name, ErrObject)
	}
	return err
}

// Listed is a log in an archive. If its manifest cannot be used, Err is the reason.
type Listed struct {
	Name     string // of the manifest
	Manifest *Manifest
	Err      error
}

// List returns the archived logs of all clusters, sorted by name, cluster and id.
func (a Archive) List(ctx context.Context) ([]Listed, error) {
	names, err := a.Bucket.List(ctx, clustersDir, "/"+manifestName)
	if err != nil {
		return nil, err
	}
	var all []Listed
	for _, name := range names {
		l := Listed{Name: name}
		data, _, err := a.Bucket.Get(ctx, name, MaxManifestBytes)
		if err == nil {
			l.Manifest, err = ParseManifest(data)
		}
		if err == nil && prefix(l.Manifest.Cluster, l.Manifest.LogID)+manifestName != name {
			err = fmt.Errorf("%w: it is of log %d of cluster %s", ErrManifest, l.Manifest.LogID, l.Manifest.Cluster)
		}
		if l.Err = err; err != nil {
			l.Manifest = nil
		}
		all = append(all, l)
	}
	slices.SortFunc(all, func(x, y Listed) int {
		return cmp.Or(strings.Compare(x.log(), y.log()), strings.Compare(x.Name, y.Name))
	})
	return all, nil
}

func (l *Listed) log() string {
	if l.Manifest == nil {
		return ""
	}
	return l.Manifest.Log
}
