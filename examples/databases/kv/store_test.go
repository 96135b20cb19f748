package main

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/client"
)

// testLog is the id of the log in tests of the store alone.
const testLog = 7

func open(t *testing.T, folder string) *store {
	t.Helper()
	s, err := openStore(folder, testLog)
	require.NoError(t, err)
	return s
}

func apply(t *testing.T, s *store, c command, key, value string) result {
	t.Helper()
	r := c.record([]byte(key), []byte(value))
	r.Offset = s.at.Next
	found, err := s.Apply(r)
	require.NoError(t, err)
	return found
}

func TestAConditionDecidesOnTheVersionOfTheKey(t *testing.T) {
	s := open(t, t.TempDir())
	defer s.close()
	for i, row := range []struct {
		c    command
		want result
	}{
		{command{delete: true}, result{false, -1}},
		{command{condition: "0"}, result{false, -1}},
		{command{condition: ifAbsent}, result{true, 2}},
		{command{condition: ifAbsent}, result{false, 2}},
		{command{condition: "1"}, result{false, 2}},
		{command{condition: "02"}, result{false, 2}},
		{command{condition: "2"}, result{true, 6}},
		{command{}, result{true, 7}},
		{command{condition: "6", delete: true}, result{false, 7}},
		{command{condition: "7", delete: true}, result{true, -1}},
		{command{condition: "7"}, result{false, -1}},
	} {
		require.Equal(t, row.want, apply(t, s, row.c, "key", "value"), "row %d", i)
	}
}

func TestADatabaseThatIsOpenedAgainHasItsRecordsAndTheirPosition(t *testing.T) {
	folder := t.TempDir()
	s := open(t, folder)
	apply(t, s, command{}, "a", "1")
	apply(t, s, command{}, "b", "2")
	at := s.at
	require.NoError(t, s.close())
	s = open(t, folder)
	require.Equal(t, at, s.at)
	require.Equal(t, int64(2), s.at.Next)
	require.NoError(t, s.close())
	_, err := openStore(folder, testLog+1)
	require.ErrorContains(t, err, "the log has id 8")
}

func TestASnapshotIsTheStateOfItsMomentHoweverLateItIsWritten(t *testing.T) {
	s := open(t, t.TempDir())
	defer s.close()
	apply(t, s, command{}, "a", "1")
	digest := s.Digest()
	snapshot, err := s.Snapshot()
	require.NoError(t, err)
	apply(t, s, command{}, "a", "2")
	apply(t, s, command{}, "b", "2")
	var text bytes.Buffer
	_, err = snapshot.WriteTo(&text)
	require.NoError(t, err)

	folder := t.TempDir()
	other := open(t, folder)
	apply(t, other, command{}, "c", "is replaced")
	require.Error(t, other.Restore(bytes.NewReader(text.Bytes()[:text.Len()/2])), "a part of a snapshot")
	require.NoError(t, other.Restore(bytes.NewReader(text.Bytes())))
	require.Equal(t, digest, other.Digest())
	found, err := other.list("", "", 10)
	require.NoError(t, err)
	require.Equal(t, []item{{"a", 0, []byte("1")}}, found)

	// The checksum of a snapshot comes last: until a record is applied, it is not known to be whole.
	require.NoError(t, other.close())
	other = open(t, folder)
	require.Equal(t, position{}, other.at, "begins with an empty database")
	require.NoError(t, other.Restore(bytes.NewReader(text.Bytes())))
	apply(t, other, command{}, "d", "3")
	require.NoError(t, other.close())
	other = open(t, folder)
	defer other.close()
	require.Equal(t, int64(2), other.at.Next)
}

func TestEqualStatesHaveEqualDigestsAndOthersHaveNot(t *testing.T) {
	one, two := open(t, t.TempDir()), open(t, t.TempDir())
	defer one.close()
	defer two.close()
	for _, s := range []*store{one, two} {
		for i := range 20 {
			apply(t, s, command{delete: i%5 == 4}, fmt.Sprint("key", i%3), fmt.Sprint(i))
		}
	}
	require.Equal(t, one.Digest(), two.Digest())
	apply(t, one, command{}, "key", "1")
	apply(t, two, command{}, "key", "2")
	require.NotEqual(t, one.Digest(), two.Digest())
	apply(t, one, command{delete: true}, "key", "")
	apply(t, two, command{delete: true}, "key", "")
	require.Equal(t, one.Digest(), two.Digest(), "what was replaced leaves no trace")
}

func TestOldChangesAreForgottenAtTheSameOffsetsByAll(t *testing.T) {
	s := open(t, t.TempDir())
	defer s.close()
	apply(t, s, command{}, "a", "1")
	_, err := s.Apply(client.Record{Key: []byte("b"), Offset: maxHistory + maxTrimmed})
	require.NoError(t, err)
	require.Zero(t, s.at.Forgotten)
	_, err = s.Apply(client.Record{Key: []byte("c"), Offset: maxHistory + maxTrimmed + 1})
	require.NoError(t, err)
	require.Equal(t, int64(maxTrimmed+1), s.at.Forgotten)
	found, err := s.changes(0, 10)
	require.NoError(t, err)
	require.Len(t, found, 2)
}
