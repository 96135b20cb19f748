package node

import (
	"bytes"
	"io/fs"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/node/datadir"
	"strandline.dev/internal/node/reading"
	"strandline.dev/internal/node/replicas"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/record"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/repair"
	"strandline.dev/internal/segment/store"
	"strandline.dev/internal/sequence"
	"strandline.dev/internal/transport/peer"
	"strandline.dev/internal/vfs"
)

func TestAnEntryThatIsNotWhatItSaysIsNotTaken(t *testing.T) {
	t.Parallel()
	batch := request(t, "one", "two").Batches[0]
	good := replicas.StoredEntry{Index: 7, Count: 2, Payload: batch}
	require.Error(t, good.Check(), "a batch is no entry")
	a := replicas.EntriesAnswer{Entries: []replicas.StoredEntry{{Index: 5}, {Index: 6}, good, {Index: 8}}}
	require.Len(t, a.Valid(), 2)
}

// The machine may be so busy that leaders come and go while the largest entry is on its
// way, and that answers are lost. So each append names the end of the log, which it finds
// moved once an earlier try has done it; what counts is what is read in the end.
func TestTheLargestEntryReachesEveryReplica(t *testing.T) {
	t.Parallel()
	require.Less(t, record.MaxEntryBytes+1<<20, peer.MaxMessage)
	c := newCluster(t, "a", "b", "c")
	_, err := c.createLog("a", "orders", settings.Config{})
	require.NoError(t, err)
	patiently := func(what string, done func() bool) {
		require.Eventually(t, done, 5*time.Minute, 20*time.Millisecond, what)
	}
	appendAt := func(end record.Offset, request func() *sequence.Append) {
		patiently("an append", func() bool {
			for _, n := range c.nodes {
				a := request()
				a.ExpectedEnd = end
				r := appendTo(t, n, "orders", a).Refusal
				if r == nil || r.Reason == record.EndMismatch {
					return true
				}
			}
			return false
		})
	}
	value := bytes.Repeat([]byte{'x'}, record.MaxRecordBytes-64)
	appendAt(0, func() *sequence.Append { return request(t, "small") })
	appendAt(1, func() *sequence.Append {
		both := request(t, string(value))
		both.Batches = append(both.Batches, both.Batches[0])
		both.Records, both.Bytes, both.Atomic = 2, 2*both.Bytes, true
		return both
	})
	appendAt(3, func() *sequence.Append { return request(t, "behind") })
	for name := range c.nodes {
		var texts []string
		patiently("a read from "+name, func() bool {
			var err error
			texts, err = c.valuesNow(name, "orders", reading.Request{Consistency: reading.ConsistencyLinearizable})
			return err == nil
		})
		require.Len(t, texts, 4, name)
		require.Len(t, texts[2], len(texts[1]))
		require.Greater(t, len(texts[1]), record.MaxRecordBytes-100)
	}
}

// splice writes the last entry of a log with records anew, of a node that is stopped, as one
// that follows others than those in front of it.
func splice(t *testing.T, dir string) {
	t.Helper()
	data := filepath.Join(dir, "..", "..", "..")
	id := func(dir string) (id uint64) {
		id, err := strconv.ParseUint(filepath.Base(dir), 10, 64)
		require.NoError(t, err)
		return id
	}
	log, err := repair.Open(vfs.OS(), dir, store.Options{Watermark: datadir.WatermarkPath(data, id(filepath.Dir(dir)), id(dir))})
	require.NoError(t, err)
	const chain = 16 // position in an entry
	var frames []segment.Entry
	for at := log.LastIndex(); len(frames) == 0 || len(frames[0].Payload) <= chain; at-- { // a new leader's own entry is empty
		frames, err = log.Entries(at, log.LastIndex()+1, 1<<20)
		require.NoError(t, err)
	}
	frames[0].Payload[chain] ^= 1
	frames[0].CRC = record.Checksum(frames[0].Payload)
	_, err = log.Write([]segment.Write{{Entries: frames, MustSync: true}})
	require.NoError(t, err)
	require.NoError(t, log.Close())
}

func TestAReplicaWhoseEntriesDoNotFollowEachOtherComesBackUnderANewId(t *testing.T) {
	t.Parallel()
	c := three(t, 10)
	before, dir := c.replicaOf("c", "orders")
	c.stop("c")
	splice(t, dir)
	c.start("c", nil)
	c.renewed("c", "orders", before)
	c.sameOn("orders", numbered(0, 10))
	_, err := repair.Open(vfs.OS(), dir, store.Options{})
	require.ErrorIs(t, err, fs.ErrNotExist, "its files are set aside")
}
