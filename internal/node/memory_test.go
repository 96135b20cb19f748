package node

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/record"
)

func TestAMemoryLogIsLostWithTheMajorityOfItsVoters(t *testing.T) {
	at := func(id uint64) catalogReplica { return catalogReplica{ID: id, Node: id} }
	fresh := func(id uint64) catalogReplica { return catalogReplica{ID: id, Node: id, New: true} }
	gone := func(id uint64) catalogReplica { return catalogReplica{ID: id, Node: id, Lost: true} }
	rows := []struct {
		name              string
		replicas, leaving []catalogReplica
		lost              uint64
		survives          bool
	}{
		{"the only replica", []catalogReplica{at(1)}, nil, 1, false},
		{"one of three", []catalogReplica{at(1), at(2), at(3)}, nil, 2, true},
		{"the second of three, before the first votes again", []catalogReplica{at(1), fresh(5), at(3)}, []catalogReplica{gone(2)}, 3, false},
		{"one of three while another is moved", []catalogReplica{at(1), at(2), fresh(4)}, []catalogReplica{at(3)}, 1, true},
		{"the one that is moved", []catalogReplica{at(1), at(2), fresh(4)}, []catalogReplica{at(3)}, 3, true},
		{"a new one that has no voice yet", []catalogReplica{at(1), at(2), fresh(4)}, []catalogReplica{at(3)}, 4, true},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			l := catalogLog{Placement: cluster.Placement{Replicas: row.replicas, Leaving: row.leaving}, Ceiling: memoryBlock}
			next := renewMemory(&l, row.lost, 10)
			require.Greater(t, next, uint64(10)-1)
			if row.survives {
				require.Zero(t, l.Lost)
				return
			}
			require.Equal(t, record.Offset(memoryBlock), l.Lost)
			require.Equal(t, int64(2*memoryBlock), l.Ceiling)
			require.Empty(t, l.Leaving)
			require.Equal(t, l.Wanted(), l.Founders)
			require.True(t, l.Settled())
		})
	}
}
