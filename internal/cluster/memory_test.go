package cluster

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/record"
)

func TestAMemoryLogIsDoubtfulToWhoseLeaderIsLost(t *testing.T) {
	p := Placement{Replicas: []Replica{{ID: 5, Node: 2, New: true}}, Leaving: []Replica{{ID: 1, Node: 1}}}
	require.True(t, p.Doubtful(0))
	require.False(t, p.Doubtful(1))
	require.False(t, p.Renew(1, 6), "it leaves, and gets no other")
	require.True(t, p.Doubtful(1), "its process has ended, and only a learner is left")
	require.True(t, p.Doubtful(4), "it was taken away")
}

func TestAMemoryLogIsLostWithTheMajorityOfItsVoters(t *testing.T) {
	at := func(id uint64) Replica { return Replica{ID: id, Node: id} }
	fresh := func(id uint64) Replica { return Replica{ID: id, Node: id, New: true} }
	lost := func(id uint64) Replica { return Replica{ID: id, Node: id, Lost: true} }
	runs := func(voters ...uint64) Kept { return Kept{Made: true, Runs: true, Voters: voters} }
	joint := func(outgoing []uint64, voters ...uint64) Kept {
		return Kept{Made: true, Runs: true, Voters: voters, Outgoing: outgoing}
	}
	began := Kept{Made: true}
	old := runs(1, 2, 3)
	rows := []struct {
		name              string
		replicas, leaving []Replica
		kept              map[uint64]Kept
		fate              Fate
	}{
		{"all run", []Replica{at(1), at(2), at(3)}, nil, map[uint64]Kept{1: old, 2: old, 3: old}, FateAlive},
		{"the only replica", []Replica{fresh(5)}, []Replica{lost(1)}, map[uint64]Kept{5: {}}, FateLost},
		{"one of three", []Replica{at(1), fresh(5), at(3)}, []Replica{lost(2)}, map[uint64]Kept{1: old, 3: old, 5: {}}, FateAlive},
		{"the second of three, before the first votes again", []Replica{at(1), fresh(5), fresh(6)}, []Replica{lost(2), lost(3)},
			map[uint64]Kept{1: old, 5: old, 6: {}}, FateLost},
		{"the second of three, after the first votes again", []Replica{at(1), fresh(5), fresh(6)}, []Replica{lost(2), lost(3)},
			map[uint64]Kept{1: runs(1, 5, 3), 5: runs(1, 5, 3), 6: {}}, FateAlive},
		{"and only the one that learned knows", []Replica{at(1), fresh(5), fresh(6)}, []Replica{lost(2), lost(3)},
			map[uint64]Kept{1: old, 5: runs(1, 5, 3), 6: {}}, FateAlive},
		{"two old ones, when all replicas have moved", []Replica{fresh(4), fresh(5), fresh(6)}, []Replica{lost(1), lost(2), at(3)},
			map[uint64]Kept{3: old, 4: runs(4, 5, 6), 5: old, 6: old}, FateAlive},
		{"two new ones, when all replicas have moved", []Replica{fresh(7), fresh(8), fresh(6)}, []Replica{at(1), at(2), at(3)},
			map[uint64]Kept{1: runs(4, 5, 6), 2: runs(4, 5, 6), 3: runs(4, 5, 6), 6: runs(4, 5, 6), 7: old, 8: old}, FateLost},
		{"two old ones in between", []Replica{fresh(4), fresh(5), fresh(6)}, []Replica{lost(1), lost(2), at(3)},
			map[uint64]Kept{3: joint([]uint64{1, 2, 3}, 4, 5, 6), 4: joint([]uint64{1, 2, 3}, 4, 5, 6), 5: old, 6: old}, FateLost},
		{"one old one in between", []Replica{fresh(4), fresh(5), fresh(6)}, []Replica{lost(1), at(2), at(3)},
			map[uint64]Kept{2: old, 3: joint([]uint64{1, 2, 3}, 4, 5, 6), 4: old, 5: old, 6: old}, FateAlive},
		{"one does not answer, who may know more", []Replica{at(1), fresh(5), fresh(6)}, []Replica{lost(2), lost(3)},
			map[uint64]Kept{5: old, 6: {}}, FateUnknown},
		{"one was restarted too, and has not said so", []Replica{at(1), fresh(5), fresh(6)}, []Replica{lost(2), lost(3)},
			map[uint64]Kept{1: began, 5: old, 6: {}}, FateUnknown},
		{"one does not answer, which does not matter", []Replica{at(1), at(2), at(3)}, nil, map[uint64]Kept{2: old, 3: old}, FateAlive},
		{"one is gone with its node", []Replica{fresh(5), fresh(6)}, []Replica{lost(2), lost(3), {ID: 1, Node: 99}},
			map[uint64]Kept{5: old, 6: {}}, FateLost},
		{"one has a vote as soon as it begins", []Replica{at(11), at(12), fresh(5)}, []Replica{lost(13)},
			map[uint64]Kept{11: runs(11, 12, 13), 12: {}, 5: {}}, FateUnknown},
		{"one has ended that had begun as a voter", []Replica{at(11), at(12), fresh(5)}, []Replica{lost(13)},
			map[uint64]Kept{11: runs(11, 12, 13), 12: {Ended: true}, 5: {}}, FateLost},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			p := Placement{Founders: []uint64{11, 12, 13}, Replicas: row.replicas, Leaving: row.leaving}
			require.Equal(t, row.fate, p.Fate(row.kept, func(node uint64) bool { return node == 99 }))
		})
	}
}

func TestALogThatBeginsAnewUsesNothingTwice(t *testing.T) {
	l := Log{Placement: three()}
	l.Reserve(0, 0)
	l.Renew(2, 8)
	before := l
	require.Equal(t, uint64(13), l.BeginAnew(10))
	require.Equal(t, record.Offset(before.Ceiling), l.Lost)
	require.Equal(t, before.TermCeiling, l.LostTerm)
	require.Greater(t, l.Ceiling, before.Ceiling)
	require.Greater(t, l.TermCeiling, before.TermCeiling)
	require.Equal(t, []uint64{10, 11, 12}, l.Founders)
	require.Equal(t, l.Founders, idsOf(l.Replicas))
	require.True(t, l.Settled())
	require.Equal(t, uint64(8), before.Replicas[1].ID, "what others hold is not changed")
}

func TestANodeIsGoneWhenItWasRemovedOrLeavesAndIsLost(t *testing.T) {
	s := members(3)
	leaving := s.Nodes[2]
	leaving.Leaving = true
	s.Nodes[2] = leaving
	for _, row := range []struct {
		what string
		node uint64
		lost bool
		gone bool
	}{
		{"a member", 1, false, false},
		{"a member that is lost may come back", 1, true, false},
		{"one on its way out that may only be slow", 2, false, false},
		{"one on its way out that is lost", 2, true, true},
		{"one that was removed", 9, false, true},
	} {
		require.Equal(t, row.gone, IsGone(s, row.node, func(uint64) bool { return row.lost }), row.what)
	}
}
