package sequence

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/record"
)

// checking is a leader that keeps keys, whose appends commit when commit is called.
type checking struct {
	*Sequencer
	t *testing.T
}

func newChecking(t *testing.T) checking {
	s := New(NewTable())
	s.StartLeading(1, 0)
	s.KeepKeys()
	return checking{s, t}
}

func (c checking) commit() {
	for _, p := range c.Propose(0) {
		require.NoError(c.t, c.Committed(bytes.Clone(p.Data), p.CRC))
	}
	require.NoError(c.t, c.CheckInvariants())
}

// keys appends a record for each key.
func (c checking) keys(keys ...string) Answer {
	return c.Append(measured(&Append{ExpectedEnd: NoExpectation, Batches: []record.Batch{keyedBatchOf(c.t, keys...)}}))
}

// checked appends a record with a key on the condition of a check.
func (c checking) checked(key string, check *Check) Answer {
	answer := c.Append(measured(&Append{ExpectedEnd: NoExpectation, Atomic: true, Check: check, Batches: []record.Batch{keyedBatchOf(c.t, key)}}))
	require.NoError(c.t, c.CheckInvariants())
	return answer
}

func forKeys(since record.Offset, keys ...string) *Check {
	c, err := NewCheck(since, texts(keys), nil, nil)
	if err != nil {
		panic(err)
	}
	return c
}

func texts(of []string) (all [][]byte) {
	for _, text := range of {
		all = append(all, []byte(text))
	}
	return all
}

func TestACheckRefusesForARecordThatMatchesSinceItsOffset(t *testing.T) {
	header := func(name string, value []byte) []record.Header { return []record.Header{{Key: name, Value: value}} }
	for _, codec := range []record.Codec{record.None, record.Zstd, record.Snappy} {
		var builder record.Builder
		for _, r := range []record.Record{
			{Key: []byte("acc/7"), Headers: header("tag", []byte("red"))},                           // 0
			{Headers: header("tag", []byte("blue"))},                                                // 1
			{Key: []byte("acc/8"), Headers: append(header("tag", nil), header("tag", []byte{})...)}, // 2
			{Key: []byte{}},        // 3
			{Key: []byte("acc/7")}, // 4
		} {
			require.NoError(t, builder.Add(r))
		}
		batch, err := builder.Finish(codec)
		require.NoError(t, err)
		for _, test := range []struct {
			since          record.Offset
			keys, prefixes []string
			headers        []record.Header
			at             record.Offset // -1: accepted
			key            string
		}{
			{0, []string{"acc/7"}, nil, nil, 4, "acc/7"},
			{4, []string{"acc/7"}, nil, nil, 4, "acc/7"},
			{5, []string{"acc/7"}, nil, nil, -1, ""},
			{0, []string{"acc/"}, nil, nil, -1, ""},
			{0, []string{"other", "acc/8"}, nil, nil, 2, "acc/8"},
			{0, nil, []string{"acc/"}, nil, 4, "acc/7"},
			{0, nil, []string{"acc/8", "b"}, nil, 2, "acc/8"},
			{3, nil, []string{"acc/8"}, nil, -1, ""},
			{3, nil, []string{""}, nil, 4, "acc/7"},
			{0, []string{""}, nil, nil, 3, ""},
			{0, nil, nil, header("tag", []byte("red")), 0, "acc/7"},
			{1, nil, nil, header("tag", []byte("red")), -1, ""},
			{0, nil, nil, header("tag", []byte("blue")), 1, ""},
			{0, nil, nil, header("tag", nil), 2, "acc/8"},
			{0, nil, nil, header("tag", []byte{}), 2, "acc/8"},
			{0, nil, nil, header("ta", []byte("gred")), -1, ""},
			{0, []string{"acc/8"}, nil, header("tag", []byte("red")), 2, "acc/8"},
		} {
			name := fmt.Sprintf("%v: %+v", codec, test)
			c := newChecking(t)
			require.Nil(t, c.Append(measured(&Append{ExpectedEnd: NoExpectation, Batches: []record.Batch{batch}})).Refusal)
			check, err := NewCheck(test.since, texts(test.keys), texts(test.prefixes), test.headers)
			require.NoError(t, err)
			requireSearchAgrees(t, batch, check, test.at, name)
			answer := c.checked("x", check)
			if test.at < 0 {
				require.Nil(t, answer.Refusal, name)
				continue
			}
			require.NotNil(t, answer.Refusal, name)
			require.Equal(t, record.Conflict, answer.Refusal.Reason, name)
			require.Equal(t, test.at, answer.Refusal.At, name)
			require.Equal(t, test.key, string(answer.Refusal.Key), name)
			require.Equal(t, c.newest(), answer.RestsOn, "it rests on what is in flight: %s", name)
		}
	}
}

// requireSearchAgrees proves that a search through the records finds the same newest match.
func requireSearchAgrees(t *testing.T, b record.Batch, check *Check, at record.Offset, name string) {
	found := record.Offset(-1)
	var w record.Walk
	_, err := w.Begin(b, nil, record.MaxInflatedBytes)
	require.NoError(t, err)
	for o := record.Offset(0); w.Next(); o++ {
		if o >= check.Since && check.Matches(&w) {
			found = o
		}
	}
	require.NoError(t, w.Err())
	require.Equal(t, at, found, name)
}

// What a refusal names may be in flight, and is undone: then it was never there.
func TestAMatchThatRaftDropsDoesNotRefuse(t *testing.T) {
	c := newChecking(t)
	c.keys("a", "b")
	c.commit()
	first := c.keys("a", "c")
	c.Propose(0)
	require.Equal(t, record.Conflict, c.checked("x", forKeys(2, "a")).Refusal.Reason)
	require.Equal(t, record.Offset(2), c.checked("x", forKeys(0, "a")).Refusal.At, "the newest is named")
	c.Drop(first.RestsOn)
	require.Equal(t, record.Offset(0), c.checked("x", forKeys(0, "a")).Refusal.At, "the one before is the newest again")
	require.Nil(t, c.checked("a", forKeys(2, "a", "c")).Refusal)
	require.Equal(t, record.Offset(2), c.checked("a", forKeys(2, "a")).Refusal.At, "the append itself is a match for the next")
}

func TestACheckedAppendThatIsSentAgainIsADuplicateAndNoConflict(t *testing.T) {
	c := newChecking(t)
	c.Command(record.Command{Kind: record.OpenSession, Session: 1, Lease: 1000})
	send := func(first record.Sequence, check *Check) Answer {
		return c.Append(measured(&Append{Session: 1, First: first, ExpectedEnd: NoExpectation, Atomic: true, Check: check, Batches: []record.Batch{keyedBatchOf(t, "a")}}))
	}
	require.Nil(t, send(0, forKeys(0, "a")).Refusal)
	for range 2 {
		again := send(0, forKeys(0, "a"))
		require.Nil(t, again.Refusal)
		require.True(t, again.Duplicate)
		require.Equal(t, Run{First: 0, Count: 1}, again.First)
		found := forKeys(0, "a")
		found.Search.Found = &Match{Offset: 0, Key: []byte("a")}
		require.Nil(t, send(0, found).Refusal, "not even if a search of the log has found it")
		c.commit()
	}
	refused := send(1, forKeys(0, "a"))
	require.Equal(t, record.Conflict, refused.Refusal.Reason)
	require.Equal(t, record.NotDone, refused.Refusal.Reason.Outcome())
	require.Nil(t, send(1, forKeys(1, "a")).Refusal, "a refused append has not taken its sequence")
}

// The oldest keys make room for new ones. A check since before is refused with the offset from
// which on keys are there, and one since that offset is decided.
func TestACheckBelowTheKeysThatAreKeptIsRefusedAndNotGuessed(t *testing.T) {
	c := newChecking(t)
	const ten = 10 * (bytesOfName + bytesOfRecent + 10)
	c.BoundKeys(ten)
	for i := range 100 {
		c.keys(fmt.Sprintf("key/%05d", i))
		c.commit()
	}
	require.LessOrEqual(t, c.KeyBytes(), ten)
	refused := c.checked("x", forKeys(0, "never")).Refusal
	require.Equal(t, record.CheckTooOld, refused.Reason)
	require.Equal(t, c.KeysFrom(), refused.Start)
	require.Equal(t, record.Offset(90), refused.Start)
	require.Equal(t, record.Offset(90), c.checked("x", forKeys(90, "key/00090")).Refusal.At)
	require.Nil(t, c.checked("x", forKeys(90, "key/00089")).Refusal)
	beyond := c.checked("x", forKeys(102, "x")).Refusal
	require.Equal(t, record.OffsetBeyondEnd, beyond.Reason)
	require.Equal(t, record.Offset(101), beyond.End)
}

// A check below the keys that are kept could be decided by a search that gets further: it is worth sending
// again where the search had too little of something, and not where it has done what it may.
func TestACheckIsWorthSendingAgainWhereItsSearchLackedSomething(t *testing.T) {
	newest := func() checking {
		c := newChecking(t)
		c.keys("a", "b", "c", "d")
		c.commit()
		c.ForgetKeys()
		c.KeepKeys()
		return c
	}
	for _, test := range []struct {
		search Search
		reason record.Reason
	}{
		{Search{}, record.CheckTooOld},
		{Search{To: 3}, record.CheckTooOld},
		{Search{To: 1, Lacked: LackedMemory}, record.Busy},
		{Search{To: 3, Lacked: LackedTime}, record.Busy},
		{Search{To: 3, Lacked: LackedTime, Found: &Match{Offset: 3, Key: []byte("d")}}, record.Conflict},
		{Search{To: 4, Lacked: LackedTime}, 0},
		{Search{To: 4}, 0},
	} {
		check := forKeys(1, "d")
		check.Search = test.search
		r := newest().checked("x", check).Refusal
		if test.reason == 0 {
			require.Nil(t, r)
			continue
		}
		require.NotNil(t, r, "%v", test.search)
		require.Equal(t, test.reason, r.Reason, "%v", r)
		require.Equal(t, record.NotDone, r.Reason.Outcome())
		require.Equal(t, test.reason == record.Busy, r.Reason.Retryable())
		if test.reason == record.Busy && test.search.To > 1 {
			require.Equal(t, test.search.To, r.Start, "a check since there is the same")
		} else if test.reason == record.Busy {
			require.Zero(t, r.Start, "the search got nowhere")
		}
		if test.search.Lacked != "" && test.search.Found == nil {
			require.Contains(t, r.Detail, string(test.search.Lacked))
			require.Contains(t, r.Detail, "offset 4", "reading up to there helps as well")
		}
	}
}

// The client knows the offset that it has sent, and not where a search has ended.
func TestARefusalNamesTheOffsetThatTheClientHasSent(t *testing.T) {
	c := newChecking(t)
	c.keys("a", "b", "c", "d")
	c.commit()
	searched := func(keys ...string) *Check {
		check := forKeys(1, keys...)
		check.Search.To = 3
		return check
	}
	require.Contains(t, c.checked("x", searched("d")).Refusal.Detail, "since offset 1:")
	require.Nil(t, c.checked("e", searched("b")).Refusal, "what was searched is not looked at again")
	c.commit()
	c.ForgetKeys()
	c.KeepKeys()
	r := c.checked("x", searched("z")).Refusal
	require.Equal(t, record.CheckTooOld, r.Reason)
	require.Contains(t, r.Detail, "since offset 1,")
}

func TestAKeyLargerThanTheMemoryForKeysIsForgottenWithItsRecord(t *testing.T) {
	c := newChecking(t)
	c.BoundKeys(1000)
	c.keys("a", strings.Repeat("b", 2000), "c")
	require.NoError(t, c.CheckInvariants())
	require.Equal(t, record.Offset(2), c.KeysFrom())
	require.Equal(t, record.Offset(2), c.checked("x", forKeys(2, "c")).Refusal.At)
}

// A batch that inflates to more than is looked into may have any key.
func TestKeysBeginAnewBehindABatchThatIsTooLargeToLookInto(t *testing.T) {
	c := newChecking(t)
	c.keys("a")
	c.commit()
	var builder record.Builder
	require.NoError(t, builder.Add(record.Record{Key: []byte("b"), Value: make([]byte, maxRecentInflated+1)}))
	batch, err := builder.Finish(record.Zstd)
	require.NoError(t, err)
	require.Nil(t, c.Append(measured(&Append{ExpectedEnd: NoExpectation, Batches: []record.Batch{batch}})).Refusal)
	require.Equal(t, record.Offset(2), c.KeysFrom())
	require.Equal(t, record.CheckTooOld, c.checked("x", forKeys(1, "z")).Refusal.Reason)
	c.Drop(c.newest())
	require.Equal(t, record.Offset(1), c.KeysFrom(), "what was undone is not in the log")
	require.NoError(t, c.CheckInvariants())
}

func TestANewLeaderKnowsKeysFromItsFirstCheckOn(t *testing.T) {
	c := newChecking(t)
	c.keys("a", "b")
	c.commit()
	c.StopLeading()
	require.Equal(t, record.Offset(-1), c.KeysFrom())
	c.StartLeading(2, 0)
	c.keys("c")
	require.Equal(t, record.Offset(-1), c.KeysFrom(), "nothing is kept until somebody checks")
	require.Zero(t, c.KeyBytes())
	refused := c.checked("a", forKeys(2, "a")).Refusal
	require.Equal(t, record.CheckTooOld, refused.Reason)
	require.Equal(t, record.Offset(3), refused.Start)
	require.Nil(t, c.checked("a", forKeys(3, "a")).Refusal)
}

func TestKeysAreKeptForAMinuteAfterTheLastCheck(t *testing.T) {
	c := newChecking(t)
	tick := func(from, to int64) {
		for now := from; now <= to; now += TickMs {
			c.Tick(now)
		}
	}
	tick(0, keepKeysMs/2)
	c.checked("a", forKeys(0, "a"))
	tick(keepKeysMs/2, keepKeysMs+keepKeysMs/2-TickMs)
	require.Equal(t, record.Offset(0), c.KeysFrom())
	tick(keepKeysMs+keepKeysMs/2, keepKeysMs*2)
	require.Equal(t, record.Offset(-1), c.KeysFrom())
	require.Zero(t, c.KeyBytes())
}

// Trims change nothing: keys of trimmed records are known as long as they are kept, and offsets
// that a fast-forward has left out have no records.
func TestAChecksOffsetMayBeTrimmed(t *testing.T) {
	c := newChecking(t)
	c.keys("a", "b")
	require.Nil(t, c.Command(record.Command{Kind: record.Trim, Offset: 1}).Refusal)
	require.Equal(t, record.Offset(0), c.checked("x", forKeys(0, "a")).Refusal.At)
	require.Nil(t, c.Command(record.Command{Kind: record.Trim, Offset: 100, Flags: record.FlagFastForward}).Refusal)
	require.Equal(t, record.Offset(0), c.checked("x", forKeys(0, "a")).Refusal.At)
	require.Nil(t, c.checked("x", forKeys(50, "a")).Refusal)
	c.commit()
	require.Equal(t, record.Offset(100), c.checked("y", forKeys(50, "x")).Refusal.At)
}

func TestACheckThatCannotBeRightIsRefused(t *testing.T) {
	many := make([]string, MaxCheckConditions+1)
	for i := range many {
		many[i] = fmt.Sprint(i)
	}
	for name, test := range map[string]struct {
		since          record.Offset
		keys, prefixes []string
		reason         record.Reason
	}{
		"negative":         {-1, []string{"a"}, nil, record.Invalid},
		"nothing":          {0, nil, nil, record.Invalid},
		"many keys":        {0, many, nil, record.TooLarge},
		"many prefixes":    {0, nil, many[:MaxCheckPrefixes+1], record.TooLarge},
		"long":             {0, []string{strings.Repeat("a", MaxCheckBytes+1)}, nil, record.TooLarge},
		"as many and long": {0, append([]string{strings.Repeat("a", MaxCheckBytes-1000)}, many[:MaxCheckConditions-1-MaxCheckPrefixes]...), many[:MaxCheckPrefixes], 0},
	} {
		_, err := NewCheck(test.since, texts(test.keys), texts(test.prefixes), nil)
		if test.reason == 0 {
			require.NoError(t, err, name)
			continue
		}
		require.Equal(t, test.reason, record.RefusalOf(err).Reason, name)
	}
	c := newChecking(t)
	apart := measured(&Append{ExpectedEnd: NoExpectation, Check: forKeys(0, "a"), Batches: []record.Batch{keyedBatchOf(t, "a")}})
	require.Equal(t, record.Invalid, c.Append(apart).Refusal.Reason, "it is not atomic")
}

// A refusal has a key only if it is short, and the text never has all of a long one.
func TestTheRefusalOfACheckIsShort(t *testing.T) {
	for _, size := range []int{10, record.MaxConflictKey, record.MaxConflictKey + 1, 50_000} {
		c := newChecking(t)
		key := strings.Repeat("k", size)
		c.keys(key)
		r := c.checked("x", forKeys(0, key)).Refusal
		require.Equal(t, size <= record.MaxConflictKey, r.Key != nil, size)
		require.Less(t, len(r.Detail), 300, size)
	}
}

func TestChecksThatDifferHaveDigestsThatDiffer(t *testing.T) {
	check := func(since record.Offset, keys, prefixes [][]byte, headers ...record.Header) [32]byte {
		c, err := NewCheck(since, keys, prefixes, headers)
		require.NoError(t, err)
		return c.Digest()
	}
	texts := func(of ...string) (all [][]byte) {
		for _, s := range of {
			all = append(all, []byte(s))
		}
		return all
	}
	all := [][32]byte{
		check(1, texts("ab", "c"), nil), check(1, texts("a", "bc"), nil),
		check(1, texts("a", "b"), nil), check(2, texts("a", "b"), nil), check(1, texts("ab"), nil), check(1, texts("a"), texts("b")),
		check(1, nil, texts("a", "b")), check(1, nil, nil, record.Header{Key: "a", Value: []byte("b")}), check(1, texts("a"), nil, record.Header{Key: "b"}),
		check(1, nil, nil, record.Header{Key: "a"}), check(1, nil, nil, record.Header{Key: "a", Value: []byte{}}),
		check(1, nil, nil, record.Header{Key: "ab"}), check(1, nil, nil, record.Header{Key: "a"}, record.Header{Key: "b"}),
	}
	different := map[[32]byte]bool{}
	for _, d := range all {
		different[d] = true
	}
	require.Len(t, different, len(all))
	require.Equal(t, all[0], check(1, texts("ab", "c"), nil))
}
