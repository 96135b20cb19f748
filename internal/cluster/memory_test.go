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
	joint := func(outgoing []uint64, voters ...uint64) Kept {
		return Kept{Made: true, Runs: true, Candidacy: Candidacy{Term: 2, Last: 10, LastTerm: 2, Voters: voters, Outgoing: outgoing}}
	}
	runs := func(voters ...uint64) Kept { return joint(nil, voters...) }
	upTo := func(k Kept, lastTerm, last uint64) Kept {
		k.LastTerm, k.Last = lastTerm, last
		return k
	}
	leads := func(k Kept) Kept {
		k.Leads = true
		return k
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
		{"one of two has a majority, and less than the other", []Replica{fresh(5), at(2), fresh(6)}, []Replica{at(1), lost(3)},
			map[uint64]Kept{1: old, 2: upTo(joint([]uint64{1, 2, 3}, 5, 2, 6), 2, 11), 5: {}, 6: {}}, FateStuck},
		{"and less of the newest term", []Replica{fresh(5), at(2), fresh(6)}, []Replica{at(1), lost(3)},
			map[uint64]Kept{1: upTo(old, 1, 99), 2: joint([]uint64{1, 2, 3}, 5, 2, 6), 5: {}, 6: {}}, FateStuck},
		{"and as much as the other", []Replica{fresh(5), at(2), fresh(6)}, []Replica{at(1), lost(3)},
			map[uint64]Kept{1: old, 2: joint([]uint64{1, 2, 3}, 5, 2, 6), 5: {}, 6: {}}, FateAlive},
		{"and the other leads, who may send it what it lacks", []Replica{fresh(5), at(2), fresh(6)}, []Replica{at(1), lost(3)},
			map[uint64]Kept{1: old, 2: leads(upTo(joint([]uint64{1, 2, 3}, 5, 2, 6), 2, 11)), 5: {}, 6: {}}, FateUnknown},
		{"and leads", []Replica{fresh(5), at(2), fresh(6)}, []Replica{at(1), lost(3)},
			map[uint64]Kept{1: leads(old), 2: upTo(joint([]uint64{1, 2, 3}, 5, 2, 6), 2, 11), 5: {}, 6: {}}, FateAlive},
		{"and a third may have as much", []Replica{fresh(5), at(2), fresh(6)}, []Replica{at(1), at(3)},
			map[uint64]Kept{1: old, 2: upTo(joint([]uint64{1, 2, 3}, 5, 2, 6), 2, 11), 5: {}, 6: {}}, FateUnknown},
		{"and its node is of an earlier version", []Replica{fresh(5), at(2), fresh(6)}, []Replica{at(1), lost(3)},
			map[uint64]Kept{1: upTo(old, 0, 0), 2: upTo(joint([]uint64{1, 2, 3}, 5, 2, 6), 2, 11), 5: {}, 6: {}}, FateAlive},
		{"it has ended, and the other has no majority", []Replica{fresh(5), at(2), fresh(6)}, []Replica{at(1), lost(3)},
			map[uint64]Kept{1: {Ended: true}, 2: upTo(joint([]uint64{1, 2, 3}, 5, 2, 6), 2, 11), 5: {}, 6: {}}, FateLost},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			p := Placement{Founders: []uint64{11, 12, 13}, Replicas: row.replicas, Leaving: row.leaving}
			require.Equal(t, row.fate, p.Fate(row.kept, func(node uint64) bool { return node == 99 }))
		})
	}
}

func TestAnswersAreThoseOfOneMomentIfNothingHasHappenedBetweenTwoRounds(t *testing.T) {
	p := Placement{Replicas: []Replica{{ID: 1}, {ID: 2}, {ID: 3, Lost: true}, {ID: 4}}}
	answers := func(change func(*Kept)) map[uint64]Kept {
		k := Kept{Made: true, Runs: true, Candidacy: Candidacy{Term: 3, Last: 9, LastTerm: 2, Applied: 8, Voters: []uint64{1, 2}, Outgoing: []uint64{1, 3}}}
		first := k
		change(&k)
		return map[uint64]Kept{1: first, 2: k, 4: {}}
	}
	first := answers(func(*Kept) {})
	require.True(t, p.SameAnswers(first, answers(func(*Kept) {})))
	for what, change := range map[string]func(*Kept){
		"another leader may have been elected":   func(k *Kept) { k.Term = 4 },
		"entries have come":                      func(k *Kept) { k.Last = 10 },
		"others have come in their place":        func(k *Kept) { k.LastTerm = 3 },
		"one that was committed counts now":      func(k *Kept) { k.Applied = 9 },
		"it has won":                             func(k *Kept) { k.Leads = true },
		"the voters are others":                  func(k *Kept) { k.Voters = []uint64{1} },
		"those that leave have left":             func(k *Kept) { k.Outgoing = nil },
		"it has ended":                           func(k *Kept) { *k = Kept{Ended: true} },
		"its process has ended, and begun again": func(k *Kept) { *k = Kept{Made: true} },
	} {
		require.False(t, p.SameAnswers(first, answers(change)), what)
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
