package cluster

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestARemedyForEachDamage(t *testing.T) {
	rows := []struct {
		what             string
		damage           Damage
		running, stopped Remedy
	}{
		{"one full segment", Damage{Corrupt: true, Full: true, Shared: true}, RepairSegment, Repair},
		{"the newest segment", Damage{Corrupt: true, Shared: true}, TakeOut, Repair},
		{"it has forgotten what it promised", Damage{Lost: true, Shared: true}, TakeOut, Renew},
		{"it has forgotten, and a full segment is damaged", Damage{Lost: true, Corrupt: true, Full: true, Shared: true}, TakeOut, Renew},
		{"the only copy is damaged", Damage{Corrupt: true, Full: true}, KeepServing, Refuse},
		{"the only copy is lost", Damage{Lost: true}, KeepServing, Refuse},
		{"the files cannot be opened at the moment", Damage{Shared: true}, TakeOut, Retry},
		{"the files of the only copy cannot be opened at the moment", Damage{}, KeepServing, Retry},
	}
	for _, row := range rows {
		require.Equal(t, row.running, row.damage.RunningRemedy(), "%s, while it runs", row.what)
		require.Equal(t, row.stopped, row.damage.StoppedRemedy(), "%s, when it does not run", row.what)
	}
}

func TestWhatAllOthersHaveTrimmedIsWaitedForOnlyWhereATrimRemovesIt(t *testing.T) {
	rows := []struct {
		what   string
		gone   TrimmedElsewhere
		remedy Remedy
	}{
		{"it has to apply them", TrimmedElsewhere{Last: 20, Applied: 19, Start: 5}, TakeOut},
		{"it has begun anew, and its own trim is behind them", TrimmedElsewhere{Last: 20, Applied: 10, Start: 5, Trimmed: true}, TakeOut},
		{"the trim is on its way", TrimmedElsewhere{Last: 20, Applied: 20, Start: 5}, KeepServing},
		{"the trim is on its way, an earlier one has come", TrimmedElsewhere{Last: 20, Applied: 30, Start: 20, Trimmed: true}, KeepServing},
		{"the trim has come", TrimmedElsewhere{Last: 20, Applied: 30, Start: 21}, Trim},
		{"the trim has come, and the segment stays", TrimmedElsewhere{Last: 20, Applied: 30, Start: 21, Trimmed: true}, TakeOut},
	}
	for _, row := range rows {
		require.Equal(t, row.remedy, row.gone.Remedy(), row.what)
	}
}

func TestARepairSkipsOnlyWhatEverybodyHasTrimmed(t *testing.T) {
	rows := []struct {
		what   string
		others []Beginning
		lowest Beginning
	}{
		{"nobody answers", nil, Beginning{}},
		{"all begin behind it", []Beginning{{20, 3}, {15, 2}, {30, 4}}, Beginning{15, 2}},
		{"one has it", []Beginning{{20, 3}, {10, 2}}, Beginning{}},
		{"of one it is not known", []Beginning{{20, 3}, {}}, Beginning{}},
	}
	for _, row := range rows {
		lowest, trimmed := TrimmedBy(10, row.others)
		require.Equal(t, row.lowest, lowest, row.what)
		require.Equal(t, row.lowest != Beginning{}, trimmed, row.what)
	}
}
