package digest

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/record"
)

var writeVector = flag.Bool("write-vector", false, "write testdata/vector.txt anew")

// The vector is a line for each batch: in hexadecimal the batch as it is stored, and the
// digest of a log that ends with it. docs/formats.md explains both.
const vector = "testdata/vector.txt"

func vectorBatches(t *testing.T) (batches []record.Batch) {
	first := record.Offset(0)
	for i, codec := range []record.Codec{record.None, record.None, record.Gzip, record.None, record.None} {
		var builder record.Builder
		for k := range i + 1 {
			require.NoError(t, builder.Add(record.Record{Timestamp: 1_700_000_000_000 + int64(k), Key: []byte("key"), Value: fmt.Appendf(nil, "batch %d, record %d", i, k)}))
		}
		b, err := builder.Finish(codec)
		require.NoError(t, err)
		b.SetBaseOffset(first)
		b.SetLeaderEpoch(int32(2 + i)) // no part of the content
		first += record.Offset(b.Count())
		batches = append(batches, b)
	}
	return batches
}

func TestTheVectorIsForEver(t *testing.T) {
	if *writeVector {
		var text strings.Builder
		var leaves []Hash
		for _, b := range vectorBatches(t) {
			leaves = append(leaves, Leaf(b.BaseOffset(), b.Content()))
			fmt.Fprintf(&text, "%x %v\n", []byte(b), mth(leaves))
		}
		require.NoError(t, os.WriteFile(vector, []byte(text.String()), 0o644))
	}
	stored, err := os.ReadFile(vector)
	require.NoError(t, err)
	var tree Tree
	tree.Begun = true
	for line := range strings.Lines(string(stored)) {
		text, want, _ := strings.Cut(strings.TrimSpace(line), " ")
		b, err := hex.DecodeString(text)
		require.NoError(t, err)
		require.NoError(t, record.Batch(b).Verify())
		tree.add(Leaf(record.Batch(b).BaseOffset(), record.Batch(b).Content()))
		require.Equal(t, want, tree.Root().String(), "at %d", record.Batch(b).End())
	}
	require.Equal(t, uint64(5), tree.Batches)
}

// Who has only docs/formats.md, and a script of 30 lines, gets the same digests.
func TestAScriptAgreesWithTheVector(t *testing.T) {
	const script = "../../scripts/digest.py"
	source, err := os.ReadFile(script)
	require.NoError(t, err)
	require.LessOrEqual(t, bytes.Count(source, []byte("\n")), 30)
	stored, err := os.ReadFile(vector)
	require.NoError(t, err)
	var batches []byte
	var want strings.Builder
	for line := range strings.Lines(string(stored)) {
		text, digest, _ := strings.Cut(strings.TrimSpace(line), " ")
		b, err := hex.DecodeString(text)
		require.NoError(t, err)
		batches = append(batches, b...)
		fmt.Fprintln(&want, int64(record.Batch(b).End()), digest)
	}
	command := exec.CommandContext(t.Context(), "python3", script)
	command.Stdin = bytes.NewReader(batches)
	out, err := command.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Equal(t, want.String(), string(out))
}
