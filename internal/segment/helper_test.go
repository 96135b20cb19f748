package segment_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/record"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/format"
	"strandline.dev/internal/segment/repair"
	"strandline.dev/internal/segment/store"
	"strandline.dev/test/disk/faultdisk"
)

// dir is where the tests keep their log on a faultdisk.
const (
	dir           = "data/log"
	watermarkFile = dir + "/watermark"
)

// bootstrap is an empty log whose first entry has index 2.
func bootstrap() segment.Bootstrap {
	return segment.Bootstrap{
		Index: 1, Term: 1, Start: 0, HardState: segment.HardState{Term: 1, Commit: 1},
		ConfState: []byte("conf"), Snapshot: []byte("state at 1"),
	}
}

// options make small segments and do nothing behind the test's back. The salts
// depend on what happened on the disk, so no two segments on it share one.
func options(disk *faultdisk.Disk) store.Options {
	return store.Options{
		SegmentBytes: 16 << 10, WatermarkBytes: 4 << 10, Manual: true, Rand: saltSource(uint64(disk.Operations())),
		Logger: slog.New(slog.DiscardHandler),
	}
}

func saltSource(seed uint64) io.Reader {
	return &chaCha{rand.NewChaCha8([32]byte(binary.LittleEndian.AppendUint64(make([]byte, 24), seed)))}
}

type chaCha struct{ *rand.ChaCha8 }

// entry makes the entry i of a term. Its payload of size bytes depends on
// both, so that entries which replace each other differ. Every fifth entry
// carries no record; the others carry one.
func entry(i, term uint64, size int) segment.Entry {
	payload := make([]byte, size)
	source := rand.New(rand.NewPCG(i, term))
	for k := range payload {
		payload[k] = byte(source.Uint32())
	}
	f := segment.Entry{
		Index: i, Term: term, Type: uint8(i % 3), First: firstOf(i), Count: 1,
		Time: int64(1000 + i), CRC: record.Checksum(payload), Payload: payload,
	}
	if i%5 == 0 {
		f.Count = 0
	}
	return f
}

// firstOf is the first offset of entry i, if all before it are of entry.
func firstOf(i uint64) record.Offset {
	return record.Offset(i - 2 - (i-1)/5)
}

func entries(lo, hi, term uint64, size int) []segment.Entry {
	frames := make([]segment.Entry, 0, hi-lo)
	for i := lo; i < hi; i++ {
		frames = append(frames, entry(i, term, size))
	}
	return frames
}

// synced is a durable write.
func synced(frames ...segment.Entry) []segment.Write {
	return []segment.Write{{Entries: frames, MustSync: true}}
}

func write(t *testing.T, log segment.Log, ws []segment.Write) segment.Result {
	t.Helper()
	result, err := log.Write(ws)
	require.NoError(t, err)
	return result
}

// saveStarts saves a snapshot for each segment that a write began, as a
// replica does.
func saveStarts(t *testing.T, log segment.Log, result segment.Result) {
	t.Helper()
	for _, first := range result.Rolled {
		require.NoError(t, log.SaveSnapshot(first-1, 1, fmt.Append(nil, "state at ", first-1)))
	}
}

// trim does all the steps.
func trim(log segment.Log, below uint64) error {
	for {
		if more, err := log.Trim(below); !more || err != nil {
			return err
		}
	}
}

// create makes a log on a new disk.
func create(t *testing.T, disk *faultdisk.Disk) *store.Store {
	t.Helper()
	s, err := store.Create(disk, dir, options(disk), bootstrap())
	require.NoError(t, err)
	return s
}

func open(t *testing.T, disk *faultdisk.Disk) *store.Store {
	t.Helper()
	s, err := repair.Open(disk, dir, options(disk))
	require.NoError(t, err)
	return s
}

// requireEntries proves that log holds exactly want from its first index on,
// by index and by cursor.
func requireEntries(t *testing.T, log segment.Log, want []segment.Entry) {
	t.Helper()
	require.Equal(t, log.FirstIndex()+uint64(len(want)), log.LastIndex()+1, "number of entries")
	require.NoError(t, sameEntries(log, want))
}

// sameEntries compares the entries from the first index on with want.
func sameEntries(log segment.Log, want []segment.Entry) error {
	next := log.FirstIndex()
	for k := 0; k < len(want); {
		frames, err := log.Entries(next, log.FirstIndex()+uint64(len(want)), 10_000)
		if err != nil {
			return fmt.Errorf("entries from %d: %w", next, err)
		}
		for _, f := range frames {
			if !sameFrame(f, want[k]) {
				return fmt.Errorf("entry %d of term %d, want %d of %d", f.Index, f.Term, want[k].Index, want[k].Term)
			}
			term, err := log.Term(f.Index)
			if err != nil || term != f.Term {
				return fmt.Errorf("term of %d is %d (%w), want %d", f.Index, term, err, f.Term)
			}
			next, k = next+1, k+1
		}
	}
	cursor, err := log.NewCursor(log.StartOffset())
	if err != nil {
		return fmt.Errorf("cursor: %w", err)
	}
	defer cursor.Close()
	for k := 0; k < len(want); {
		frames, err := cursor.Next(1<<40, 5000)
		if err != nil || len(frames) == 0 {
			return fmt.Errorf("cursor before entry %d: %d frames, %w", want[k].Index, len(frames), err)
		}
		for _, f := range frames {
			if !sameFrame(f, want[k]) {
				return fmt.Errorf("cursor at entry %d of term %d, want %d of %d", f.Index, f.Term, want[k].Index, want[k].Term)
			}
			k++
		}
	}
	if frames, err := cursor.Next(1<<40, 5000); err != nil || len(frames) > 0 {
		return fmt.Errorf("cursor behind the end: %d frames, %w", len(frames), err)
	}
	return nil
}

func sameFrame(a, b segment.Entry) bool {
	if string(a.Payload) != string(b.Payload) {
		return false
	}
	a.Payload, b.Payload = nil, nil
	return a.Index == b.Index && a.Term == b.Term && a.Type == b.Type && a.First == b.First &&
		a.Count == b.Count && a.Time == b.Time && a.CRC == b.CRC
}

var errDisk = errors.New("the disk said no")

func trimmed(err error) bool { return errors.Is(err, segment.ErrTrimmed) }

// headerSize is where the first frame of a segment begins.
const headerSize = format.HeaderSize

// storedFrame is a frame as found in a file.
type storedFrame struct {
	Position, Size int64
	Kind           string
	Index          uint64
	Synced         int64
}

// framesIn lists the frames of a segment file from the first up to the first
// bad one.
func framesIn(content []byte) []storedFrame {
	h, err := format.ParseHeader(content)
	if err != nil {
		return nil
	}
	var frames []storedFrame
	for at := int64(format.HeaderSize); at < int64(len(content)); {
		f, err := format.ParseFrameHeader(content[at:], at, h.Salt)
		if err != nil || at+f.Size() > int64(len(content)) || f.CheckPayload(content[at+format.FrameHeaderSize:][:f.Length]) != nil {
			return frames
		}
		kind := [...]string{format.EntryFrame: "entry", format.HardStateFrame: "hard state", format.MarkFrame: "mark", format.FooterFrame: "footer"}[f.Kind]
		frames = append(frames, storedFrame{at, f.Size(), kind, f.Index, f.Synced})
		at += f.Size()
	}
	return frames
}
