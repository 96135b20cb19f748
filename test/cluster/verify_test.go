package cluster

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Two writers: 0 was told offsets 0 and 2 for its records, and that record 2
// failed; 1 was told 1, and does not know of its record 1.
func toldStory() *Load {
	l := &Load{}
	l.writers = []*writer{
		{load: l, number: 0, fates: []fate{0, 2, failed}},
		{load: l, number: 1, fates: []fate{1, unknown}},
	}
	return l
}

type stored struct {
	offset         int64
	writer, number int
}

func read(l *Load, start int64, records ...stored) error {
	r := newReading(l)
	r.begin(start)
	for _, s := range records {
		if err := r.take(s.offset, valueOf(s.writer, s.number, 40)); err != nil {
			return err
		}
	}
	return r.finish()
}

func TestWhatWasToldIsAccepted(t *testing.T) {
	require.NoError(t, read(toldStory(), 0, stored{0, 0, 0}, stored{1, 1, 0}, stored{2, 0, 1}))
	require.NoError(t, read(toldStory(), 0, stored{0, 0, 0}, stored{1, 1, 0}, stored{2, 0, 1}, stored{3, 1, 1}),
		"what is unknown may be there")
	require.NoError(t, read(toldStory(), 2, stored{2, 0, 1}), "what was trimmed is not missed")
}

func TestEachRuleOfVerifyHasTeeth(t *testing.T) {
	for claim, broken := range map[string][]stored{
		"only 2 are in":            {{0, 0, 0}, {1, 1, 0}},
		"offset 2 follows 0":       {{0, 0, 0}, {2, 0, 1}},
		"was acknowledged at 2":    {{0, 0, 1}},
		"comes after its record 0": {{0, 0, 0}, {1, 0, 0}},
		"comes after its record 1": {{0, 1, 1}, {1, 1, 0}},
		"failed for certain":       {{0, 0, 0}, {1, 1, 0}, {2, 0, 1}, {3, 0, 2}},
		"was never sent":           {{0, 0, 7}},
		"of writer 5":              {{0, 5, 0}},
	} {
		require.ErrorContains(t, read(toldStory(), 0, broken...), claim)
	}
}

func TestAValueThatNoWriterMadeIsRecognised(t *testing.T) {
	value := valueOf(3, 70000, 100)
	writer, number, err := parseValue(value)
	require.NoError(t, err)
	require.Equal(t, []int{3, 70000}, []int{writer, number})
	for i := range value {
		value[i] ^= 4
		_, _, err := parseValue(value)
		require.Error(t, err, "byte %d", i)
		value[i] ^= 4
	}
	_, _, err = parseValue(value[:10])
	require.Error(t, err)
}

func TestNodesThatDifferHaveDifferentSums(t *testing.T) {
	l := &Load{}
	l.writers = []*writer{{load: l, fates: []fate{unknown, unknown}}, {load: l, number: 1, fates: []fate{unknown}}}
	sums := map[uint64]bool{}
	for _, records := range [][]stored{
		{{0, 0, 0}, {1, 0, 1}},
		{{0, 0, 0}, {1, 1, 0}},
		{{0, 1, 0}, {1, 0, 0}},
	} {
		r := newReading(l)
		r.begin(0)
		for _, s := range records {
			require.NoError(t, r.take(s.offset, valueOf(s.writer, s.number, 40)))
		}
		sums[r.sum] = true
	}
	require.Len(t, sums, 3)
}
