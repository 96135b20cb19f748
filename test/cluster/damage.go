package cluster

import (
	"bytes"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
)

// Damage is a kind of damage to a file.
type Damage string

const (
	FlippedBit  Damage = "a flipped bit"
	StaleFile   Damage = "an older copy" // of the file, as KeepCopy found it
	MissingFile Damage = "a missing file"
)

// disk is what a node keeps while it does not run: its data and its log.
type disk struct {
	*Node
	data string
}

// Replicas are the directories of the replicas that a node has stored, by log id
// and then by replica id; log 0 is the catalog.
func (n *disk) Replicas() []string {
	n.cluster.t.Helper()
	dirs, err := filepath.Glob(filepath.Join(n.data, "logs", "*", "*"))
	require.NoError(n.cluster.t, err)
	return dirs
}

// KeepCopy copies the stored data of a stopped node, for StaleFile.
func (n *disk) KeepCopy() {
	n.cluster.t.Helper()
	n.requireStopped()
	require.NoError(n.cluster.t, os.RemoveAll(n.copied()))
	require.NoError(n.cluster.t, os.CopyFS(n.copied(), os.DirFS(n.data)))
}

func (n *disk) copied() string { return n.data + ".copy" }

// Damage damages one file of a replica at random and returns which and how. Where
// no file has an older copy it flips a bit instead.
func (n *disk) Damage(replica string, kind Damage, random *rand.Rand) (what string) {
	t := n.cluster.t
	t.Helper()
	n.requireStopped()
	files := n.stored(replica)
	require.NotEmpty(t, files, "nothing is stored in %s", replica)
	if kind == StaleFile {
		if files = slices.DeleteFunc(files, func(file string) bool { return n.older(file) == nil }); len(files) == 0 {
			files, kind = n.stored(replica), FlippedBit
		}
	}
	file := files[random.IntN(len(files))]
	what = fmt.Sprintf("%s: %s", strings.TrimPrefix(file, n.data), kind)
	switch kind {
	case MissingFile:
		require.NoError(t, os.Remove(file))
	case StaleFile:
		require.NoError(t, os.WriteFile(file, n.older(file), 0o644))
	case FlippedBit:
		what += fmt.Sprintf(" in byte %d", flip(t, file, random))
	}
	n.note("damaged " + what)
	return what
}

// stored are the files that a replica rests on.
func (n *disk) stored(replica string) (files []string) {
	require.NoError(n.cluster.t, filepath.WalkDir(replica, func(path string, _ fs.DirEntry, err error) error {
		if suffix := filepath.Ext(path); suffix == ".seg" || suffix == ".snap" || suffix == ".begin" {
			files = append(files, path)
		}
		return err
	}))
	return files
}

// older is what a file held when KeepCopy was called, if it held something else.
func (n *disk) older(file string) []byte {
	before, err := os.ReadFile(filepath.Join(n.copied(), strings.TrimPrefix(file, n.data)))
	if err != nil {
		return nil
	}
	now, err := os.ReadFile(file)
	require.NoError(n.cluster.t, err)
	if bytes.Equal(before, now) {
		return nil
	}
	return before
}

// FlipValue flips a bit of a value of the first writer where a replica has
// stored it; its node may run.
func (n *disk) FlipValue(replica string, number int, random *rand.Rand) (what string) {
	n.cluster.t.Helper()
	segments, err := filepath.Glob(filepath.Join(replica, "*.seg"))
	require.NoError(n.cluster.t, err)
	value := valueOf(0, number, minValueBytes*4)
	for _, file := range segments {
		data, err := os.ReadFile(file)
		require.NoError(n.cluster.t, err)
		if at := bytes.Index(data, value); at >= 0 {
			at += random.IntN(len(value))
			flipAt(n.cluster.t, file, at, data[at]^1<<random.IntN(8))
			what = fmt.Sprintf("%s: %s in byte %d", strings.TrimPrefix(file, n.data), FlippedBit, at)
			n.note("damaged " + what)
			return what
		}
	}
	require.Fail(n.cluster.t, "it is not there", "value %d in %s", number, replica)
	return ""
}

// flip changes a bit at random in front of the zeros that end a file.
func flip(t T, file string, random *rand.Rand) (at int) {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	if len(data) == 0 {
		data = []byte{0}
	}
	at = random.IntN(max(len(bytes.TrimRight(data, "\x00")), 1))
	flipAt(t, file, at, data[at]^1<<random.IntN(8))
	return at
}

func flipAt(t T, file string, at int, to byte) {
	t.Helper()
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteAt([]byte{to}, int64(at))
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

func (n *disk) requireStopped() {
	n.cluster.t.Helper()
	require.False(n.cluster.t, n.Running(), "node %s runs: stop it before its files are touched", n.name)
}

// Data is its data directory. Touch it only while the node is not running.
func (n *disk) Data() string { return n.data }

// Wipe removes the data of a node that does not run: its disk is lost.
func (n *disk) Wipe() {
	n.cluster.t.Helper()
	require.False(n.cluster.t, n.Running(), "node %s runs: kill it before its disk is lost", n.name)
	require.NoError(n.cluster.t, os.RemoveAll(n.data))
	n.note("wiped")
}

// Log returns the log output of the node from all its runs.
func (n *disk) Log() string {
	text, err := os.ReadFile(n.log.Name())
	require.NoError(n.cluster.t, err)
	return string(text)
}

// note writes what the harness does into the node's log, between its lines.
func (n *disk) note(what string) {
	_, _ = fmt.Fprintf(n.log, "---- %s %s\n", time.Now().Format("15:04:05.000"), what)
}
