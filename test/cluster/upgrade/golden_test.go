package upgrade

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/client"
	"strandline.dev/internal/record"
	"strandline.dev/test/cluster"
)

// Golden data is the data directory of a node as a release has written it, and what a
// client has to find there: testdata/golden/NAME/data.tar.gz and expected.json. It is
// opened for ever. Before a release, or when a format changes:
//
//	go test ./test/cluster/upgrade -run TestGoldenData -write-golden NAME
//
// and commit the directory; NAME is that of the release. That of a release stays. That of
// no release (a date) is replaced. Below 1 MB all together.
var writeGolden = flag.String("write-golden", "", "write the golden data of this name")

// golden is what has to be found.
type golden struct {
	Level int
	Logs  []goldenLog
	// Session has sent Session.Next records, the last of which is at Last.
	Session client.SessionPosition
	Last    int64
	// Entries are how many of each kind all logs have.
	Entries map[string]int
	// Rights are enforced; nil: they are not, and nothing is encrypted.
	Rights *goldenRights `json:",omitempty"`
}

// goldenRights are who may do what. user/tester, who opens the data, may administer.
type goldenRights struct {
	Grants []client.Grant
	Users  []client.User
	Tokens []client.AccessToken
}

func rightsOf(t *testing.T, a *client.Access) (r goldenRights) {
	t.Helper()
	var enforced bool
	var err error
	r.Grants, enforced, err = a.ListGrants(t.Context())
	require.NoError(t, err)
	require.True(t, enforced)
	r.Users, err = a.ListUsers(t.Context())
	require.NoError(t, err)
	r.Tokens, err = a.ListAccessTokens(t.Context())
	require.NoError(t, err)
	return r
}

type goldenLog struct {
	Name       string
	ID         uint64
	Config     client.LogConfig
	Start, End int64
	WriterTerm uint64
	Writer     *client.WriterClaim `json:",omitempty"` // who has the writer lease
	Holds      []client.HoldInfo   `json:",omitempty"`
	Digest     string              // of all records
	Root       string              `json:",omitempty"` // the log's own digest as of its end, and where that begins; empty: it has none
}

const goldenData = "testdata/golden"

func TestGoldenDataIsReadForEver(t *testing.T) {
	if *writeGolden != "" {
		writeGoldenData(t, filepath.Join(goldenData, *writeGolden))
	}
	all, err := os.ReadDir(goldenData)
	require.NoError(t, err)
	require.NotEmpty(t, all)
	bytes := int64(0)
	for _, release := range all {
		archive, err := os.Stat(filepath.Join(goldenData, release.Name(), "data.tar.gz"))
		require.NoError(t, err)
		bytes += archive.Size()
		t.Run(release.Name(), func(t *testing.T) {
			t.Parallel()
			readGoldenData(t, filepath.Join(goldenData, release.Name()))
		})
	}
	require.Less(t, bytes, int64(1<<20))
}

// readGoldenData opens a copy, compares, appends, and opens it again.
func readGoldenData(t *testing.T, directory string) {
	text, err := os.ReadFile(filepath.Join(directory, "expected.json"))
	require.NoError(t, err)
	var want golden
	require.NoError(t, json.Unmarshal(text, &want))
	data := t.TempDir()
	unpack(t, filepath.Join(directory, "data.tar.gz"), data)
	require.Equal(t, want.Entries, entriesOf(t, data))

	c := cluster.Start(t, cluster.Options{Nodes: 1, Encrypted: want.Rights != nil, Data: func(string) string { return data }})
	admin := c.Client().Admin()
	if want.Rights != nil {
		// A token that has expired by now is not shown.
		want.Rights.Tokens = slices.DeleteFunc(want.Rights.Tokens, func(k client.AccessToken) bool { return time.Until(k.Expires) < time.Minute })
		found := rightsOf(t, admin.Access())
		require.Equal(t, len(want.Rights.Tokens), len(found.Tokens))
		if len(found.Tokens) == 0 {
			found.Tokens = want.Rights.Tokens
		}
		wanted, err := json.Marshal(want.Rights)
		require.NoError(t, err)
		got, err := json.Marshal(found)
		require.NoError(t, err)
		require.JSONEq(t, string(wanted), string(got))
	}
	status, err := admin.ClusterStatus(t.Context())
	require.NoError(t, err)
	require.Equal(t, want.Level, status.Level)
	require.Nil(t, cluster.FindLog(&status, "deleted"))
	for _, log := range want.Logs {
		require.Equal(t, log, lookAt(t, c, log.Name))
	}
	last, err := admin.Resolve(t.Context(), "orders", client.SessionPosition{
		LogID: want.Session.LogID, Session: want.Session.Session, Epoch: want.Session.Epoch, Next: want.Session.Next - 1,
	}, false)
	require.NoError(t, err)
	require.Equal(t, client.Committed, last.State)
	require.Equal(t, want.Last, last.Offset)

	p, err := c.Client().Producer(t.Context(), "orders", client.WithSession(want.Session))
	require.NoError(t, err)
	_, err = p.Append(t.Context(), []byte("of today"))
	require.NoError(t, err)
	require.NoError(t, p.Close(t.Context()))
	c.Node("a").Restart()
	c.AwaitHealthy()
	require.Equal(t, want.Logs[0].End+1, lookAt(t, c, "orders").End)
	c.Node("a").Stop()
	_, err = c.Run(t.Context(), "verify", data)
	require.NoError(t, err)
}

// writeGoldenData lets a node write all kinds of files and settings.
func writeGoldenData(t *testing.T, directory string) {
	data := t.TempDir()
	c := cluster.Start(t, cluster.Options{Nodes: 1, Encrypted: true, Flags: []string{"--segment-size", "64KiB"}, Data: func(string) string { return data }})
	admin := c.Client().Admin()
	must := func(_ any, err error) {
		t.Helper()
		require.NoError(t, err)
	}
	require.NoError(t, admin.Access().AddGrants(t.Context(),
		client.Grant{Principal: "user/bob", Object: "log/orders", Rights: []string{"append", "read"}},
		client.Grant{Principal: "*", Object: "log/news-*", Rights: []string{"read"}},
		client.Grant{Principal: "user/bob", Object: "group/billing", Rights: []string{"read"}},
		client.Grant{Principal: "user/gone", Object: "cluster", Rights: []string{"observe"}},
	))
	for _, user := range []string{"bob", "gone"} {
		_, _, err := admin.Access().PutUser(t.Context(), user, "")
		require.NoError(t, err)
		_, _, err = admin.Access().CreateAccessToken(t.Context(), user, 366*24*time.Hour, client.Scope{Object: "log/*", Rights: []string{"read"}})
		require.NoError(t, err)
	}
	require.NoError(t, admin.Access().RemoveUser(t.Context(), "gone"))
	require.NoError(t, admin.Access().EnforceRights(t.Context(), true, "user/tester"))
	must(admin.CreateLog(t.Context(), "orders", client.LogConfig{RetentionBytes: 1 << 40, Replicas: 1}))
	must(admin.CreateLog(t.Context(), "fenced", client.LogConfig{Fenced: true, Retention: 10000 * time.Hour * 24}))
	must(admin.CreateLog(t.Context(), "trimmed", client.LogConfig{}))
	must(admin.CreateLog(t.Context(), "memory", client.LogConfig{Durability: client.Memory}))
	must(admin.CreateLog(t.Context(), "deleted", client.LogConfig{}))
	require.NoError(t, admin.DeleteLog(t.Context(), "deleted"))
	must(admin.CreateToken(t.Context(), time.Hour, true))

	p, err := c.Client().Producer(t.Context(), "orders")
	require.NoError(t, err)
	want := golden{}
	for i := range 60 {
		if i == 40 { // segments with holds and a writer lease in their snapshots follow
			setHolds(t, c, "orders")
			leaseWriters(t, c, "orders")
		}
		want.Last, err = p.AppendRecord(t.Context(), client.Record{
			Timestamp: time.UnixMilli(1_700_000_000_000 + int64(i)), Key: fmt.Append(nil, "key ", i%7), Value: bytes.Repeat(fmt.Append(nil, "value ", i, " "), 800),
			Headers: []client.Header{{Key: "number", Value: fmt.Append(nil, i)}},
		})
		require.NoError(t, err)
	}
	want.Session = p.Position()
	_, _, err = admin.Trim(t.Context(), "orders", 25, false)
	require.NoError(t, err)
	term, _, err := admin.AcquireWriter(t.Context(), "fenced")
	require.NoError(t, err)
	compressed, err := c.Client().Producer(t.Context(), "fenced", client.WithWriterTerm(term), client.WithCompression(client.Zstd))
	require.NoError(t, err)
	for i := range 10 {
		must(compressed.Append(t.Context(), bytes.Repeat(fmt.Append(nil, i), 500)))
	}
	require.NoError(t, compressed.Close(t.Context()))
	// What is trimmed before it is covered by the digest is covered by an entry of its own.
	short, err := c.Client().Producer(t.Context(), "trimmed")
	require.NoError(t, err)
	must(short.Append(t.Context(), []byte("gone")))
	require.NoError(t, short.Close(t.Context()))
	_, _, err = admin.Trim(t.Context(), "trimmed", 1, false)
	require.NoError(t, err)
	// A checkpoint of the catalog, and changes behind it.
	change := func(times int) {
		for range times {
			must(admin.ConfigureLog(t.Context(), "orders", client.LogConfig{RetentionBytes: 1 << 41, Replicas: 1}))
		}
	}
	change(1100)
	c.Await("a checkpoint of the catalog", func(s *client.ClusterStatus) string {
		if cluster.FindLog(s, "_catalog").Start > 0 {
			return ""
		}
		return "there is none yet"
	})
	change(10)
	status, err := admin.ClusterStatus(t.Context())
	require.NoError(t, err)
	want.Level = status.Level
	rights := rightsOf(t, admin.Access())
	want.Rights = &rights
	for _, name := range []string{"orders", "fenced", "trimmed"} {
		want.Logs = append(want.Logs, lookAt(t, c, name))
	}
	c.Node("a").Kill() // the producer still has its session
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	_ = p.Close(gone)
	want.Entries = entriesOf(t, data)
	for _, kind := range []string{
		"batches", "batches: the digest begins", "batches with contents", "contents",
		fmt.Sprint("command ", record.SetHold), fmt.Sprint("command ", record.ReleaseHold),
		fmt.Sprint("command ", record.ReleaseHold, " with flags ", record.FlagExpired), fmt.Sprint("command ", record.ReleaseHold, " with flags ", record.FlagBroken),
		fmt.Sprint("command ", record.LeaseWriter), fmt.Sprint("command ", record.ReleaseWriter), fmt.Sprint("command ", record.ReleaseWriter, " with flags ", record.FlagExpired),
	} {
		require.NotZero(t, want.Entries[kind], "%s: there are %v", kind, want.Entries)
	}
	text, err := json.MarshalIndent(want, "", "  ")
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(directory, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(directory, "expected.json"), append(text, '\n'), 0o644))
	pack(t, data, filepath.Join(directory, "data.tar.gz"))
}

// setHolds sets a hold that stays, and others that end in every way.
func setHolds(t *testing.T, c *cluster.Cluster, log string) {
	t.Helper()
	admin := c.Client().Admin()
	stays := client.HoldInfo{
		Name: "nightly", Offset: 29, Owner: "a person", Lease: 30 * 24 * time.Hour, MaxBytes: 1 << 40, MaxAge: 100 * 365 * 24 * time.Hour, Pointer: []byte("there"),
	}
	moved := stays
	moved.Offset = 30
	for _, hold := range []client.HoldInfo{
		stays, moved, {Name: "released", Offset: 31}, {Name: "expired", Offset: 32, Lease: time.Second}, {Name: "broken", Offset: 33, MaxBytes: 1},
	} {
		_, _, err := admin.SetHold(t.Context(), log, hold)
		require.NoError(t, err)
	}
	require.NoError(t, admin.ReleaseHold(t.Context(), log, "released"))
	c.Await("holds that end by themselves", func(*client.ClusterStatus) string {
		info, err := admin.Info(t.Context(), log)
		require.NoError(t, err)
		if len(info.Holds) == 1 {
			return ""
		}
		return fmt.Sprint("there are ", info.Holds)
	})
}

// leaseWriters grants the writer lease to a program that has it for as long as a lease may last, after others whose
// leases end in every way.
func leaseWriters(t *testing.T, c *cluster.Cluster, log string) {
	t.Helper()
	admin := c.Client().Admin()
	lease := func(name string, d time.Duration) uint64 {
		grant, err := admin.LeaseWriter(t.Context(), log, client.WriterClaim{Name: name, Payload: []byte("at " + name), Lease: d}, time.Minute)
		require.NoError(t, err)
		require.NotZero(t, grant.Term)
		return grant.Term
	}
	require.NoError(t, admin.ReleaseWriter(t.Context(), log, lease("releases", time.Hour), ""))
	lease("expires", time.Second)
	lease("holds", time.Hour)
}

// lookAt reads a whole log.
func lookAt(t *testing.T, c *cluster.Cluster, name string) goldenLog {
	t.Helper()
	all := c.Client()
	info, err := all.Admin().Info(t.Context(), name)
	require.NoError(t, err)
	log := goldenLog{Name: name, ID: info.ID, Config: info.Config, Start: info.Start, End: info.End, WriterTerm: info.WriterTerm, Holds: info.Holds}
	for i := range log.Holds {
		log.Holds[i].Kept = 0 // is the node's
	}
	for state, err := range all.Admin().WatchWriter(t.Context(), name, 0) {
		require.NoError(t, err)
		if state.Held {
			log.Writer = &state.WriterClaim
		}
		break
	}
	root, err := all.Digest(t.Context(), name, client.DigestAtEnd)
	if !errors.Is(err, client.ErrPrecondition) {
		require.NoError(t, err)
		log.Root = fmt.Sprintf("%s from %d", root, root.From)
	}
	reader, err := all.Reader(t.Context(), name)
	require.NoError(t, err)
	defer reader.Close()
	digest := sha256.New()
	for {
		batch, err := reader.NextBatch(t.Context())
		if errors.Is(err, io.EOF) {
			log.Digest = fmt.Sprintf("%x", digest.Sum(nil))
			return log
		}
		require.NoError(t, err)
		for _, r := range batch {
			fmt.Fprintf(digest, "%d %d %q %q %q\n", r.Offset, r.Timestamp.UnixMilli(), r.Key, r.Value, r.Headers)
		}
	}
}

// pack keeps the files of a directory, the same bytes for the same files.
func pack(t *testing.T, directory, archive string) {
	t.Helper()
	out, err := os.Create(archive)
	require.NoError(t, err)
	compressed := gzip.NewWriter(out)
	files := tar.NewWriter(compressed)
	require.NoError(t, filepath.WalkDir(directory, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || d.Name() == "lock" {
			return err
		}
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		name, err := filepath.Rel(directory, path)
		require.NoError(t, err)
		require.NoError(t, files.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(content))}))
		_, err = files.Write(content)
		return err
	}))
	require.NoError(t, errors.Join(files.Close(), compressed.Close(), out.Close()))
}

func unpack(t *testing.T, archive, directory string) {
	t.Helper()
	in, err := os.Open(archive)
	require.NoError(t, err)
	defer in.Close()
	decompressed, err := gzip.NewReader(in)
	require.NoError(t, err)
	for files := tar.NewReader(decompressed); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err)
		require.True(t, filepath.IsLocal(header.Name) && !strings.Contains(header.Name, ".."), header.Name)
		path := filepath.Join(directory, header.Name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		content, err := io.ReadAll(files)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, content, 0o644))
	}
}
