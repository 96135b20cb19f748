package archive

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"strandline.dev/internal/digest"
	"strandline.dev/internal/record"
)

// Manifest lists the objects of one log's archive, in the order of their offsets. It is the only
// object of an archive that changes: an object that it does not list is not part of the archive.
type Manifest struct {
	// Format is the version of the manifest. A program does not use one of another version.
	Format  int    `json:"format"`
	Cluster string `json:"cluster"`
	LogID   uint64 `json:"log_id"`
	Log     string `json:"log"`
	// Created is when the log was created, in Unix milliseconds.
	Created int64 `json:"created_ms"`
	// Config is the configuration of the log when the newest object was added, as the catalog has it.
	Config  json.RawMessage `json:"config,omitempty"`
	Objects []Part          `json:"objects"`
	// Tree is the tree of the digest as of the end of the last object.
	Tree []byte `json:"tree"`
}

// Part is an object of an archive as its manifest lists it. Its records are [First, End).
type Part struct {
	Name    string        `json:"name"` // behind the prefix of the log
	First   record.Offset `json:"first"`
	End     record.Offset `json:"end"`
	From    int64         `json:"from_ms"` // leader's time of the first and last entry
	To      int64         `json:"to_ms"`
	Entries int           `json:"entries"`
	Bytes   int64         `json:"bytes"` // of the object
	// Digest is the digest of the log as of End, of the records from DigestFrom on.
	Digest     string        `json:"digest"`
	DigestFrom record.Offset `json:"digest_from"`
	// Base is the tree of the digest as of First if it is not that of the part before.
	Base []byte `json:"base,omitempty"`
}

const (
	manifestFormat = 1
	// MaxObjects bounds the objects of one log's archive.
	MaxObjects = 100_000
	// MaxManifestBytes bounds a manifest.
	MaxManifestBytes = 64 << 20
)

// ErrManifest is wrapped by the errors for manifests that cannot be used.
var ErrManifest = errors.New("damaged manifest")

// End returns the offset behind the last archived record. There is one in every manifest that was
// stored; without any, End returns 0.
func (m *Manifest) End() record.Offset {
	if len(m.Objects) == 0 {
		return 0
	}
	return m.Objects[len(m.Objects)-1].End
}

// Start returns the offset of the oldest archived record.
func (m *Manifest) Start() record.Offset {
	if len(m.Objects) == 0 {
		return 0
	}
	return m.Objects[0].First
}

// DigestTree returns the tree of the digest as of End.
func (m *Manifest) DigestTree() (digest.Tree, error) { return parseTree(m.Tree, m.End()) }

// With returns the manifest with an object added. The object begins at the end of the last one, or,
// if base is set, behind it.
func (m *Manifest) With(o *Object, base bool, config json.RawMessage) *Manifest {
	p := Part{
		Name: o.Name(), First: o.First, End: o.End, From: o.From, To: o.To, Entries: o.Entries, Bytes: o.Size,
		Digest: o.Tree.Root().String(), DigestFrom: o.Tree.From,
	}
	if base {
		p.Base = o.Base
	}
	return &Manifest{
		Format: manifestFormat, Cluster: o.Cluster, LogID: o.LogID, Log: o.Log, Created: m.Created, Config: config,
		Objects: append(slices.Clip(m.Objects), p), Tree: o.Tree.Append(nil),
	}
}

// Name returns the name of an object behind the prefix of its log. It contains the checksum, so two
// objects that differ have different names.
func (o *Object) Name() string { return fmt.Sprintf("%020d-%020d-%016x.obj", o.First, o.End, o.Sum) }

// Encode returns the manifest as it is stored.
func (m *Manifest) Encode() ([]byte, error) {
	data, err := json.Marshal(m)
	if err == nil && len(data) > MaxManifestBytes {
		err = fmt.Errorf("the manifest of the archive of log %q would have %d bytes, the limit is %d; nothing was written, and trying again is of no use: copy its objects away and remove its manifest", m.Log, len(data), MaxManifestBytes)
	}
	return data, err
}

// ParseManifest decodes a stored manifest and checks it.
func ParseManifest(data []byte) (*Manifest, error) {
	var m Manifest
	if err := json.Unmarshal(data, &m); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrManifest, err)
	}
	if m.Format != manifestFormat {
		return nil, fmt.Errorf("%w: it has format %d, this program supports %d; use the program that wrote it, or a newer one", ErrManifest, m.Format, manifestFormat)
	}
	if n := len(m.Objects); n == 0 || n > MaxObjects {
		return nil, fmt.Errorf("%w: it lists %d objects", ErrManifest, n)
	}
	if _, err := m.DigestTree(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrManifest, err)
	}
	var end record.Offset
	for i := range m.Objects {
		p := &m.Objects[i]
		switch {
		case p.First < 0 || p.End <= p.First:
			return nil, fmt.Errorf("%w: object %q has the offsets [%d, %d)", ErrManifest, p.Name, p.First, p.End)
		case p.First < end || p.First != end && p.Base == nil || i == 0 && p.Base == nil:
			return nil, fmt.Errorf("%w: object %q begins at offset %d and does not follow offset %d", ErrManifest, p.Name, p.First, end)
		case !validName(p.Name):
			return nil, fmt.Errorf("%w: %q is no name of an object", ErrManifest, p.Name)
		}
		end = p.End
	}
	return &m, nil
}

// validName reports whether a name lies in the folder of its log.
func validName(name string) bool {
	for _, c := range name {
		if c != '-' && c != '.' && (c < '0' || c > '9') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return name != "" && name[0] != '.' && len(name) <= 255
}
