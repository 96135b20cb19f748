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

func TestARepairSkipsOnlyWhatIsTrimmedAndNobodyHas(t *testing.T) {
	begins := func(index, term uint64) Holder { return Holder{Begins: Beginning{index, term}} }
	damaged, unknown := Holder{Begins: Beginning{5, 1}, Lacks: true}, Holder{}
	rows := []struct {
		what   string
		others []Holder
		lowest Beginning
	}{
		{"nobody answers", nil, Beginning{}},
		{"all begin behind it", []Holder{begins(20, 3), begins(15, 2), begins(30, 4)}, Beginning{15, 2}},
		{"one has it", []Holder{begins(20, 3), begins(10, 2)}, Beginning{}},
		{"of one it is not known", []Holder{begins(20, 3), unknown}, Beginning{}},
		{"another one is damaged there too, or ends before it", []Holder{damaged, begins(20, 3)}, Beginning{20, 3}},
		{"another one under repair lacks it", []Holder{begins(20, 3), {Lacks: true}}, Beginning{20, 3}},
		{"all others lack it, and nobody has trimmed it", []Holder{damaged, damaged}, Beginning{}},
		{"one lacks it, one has it", []Holder{begins(20, 3), damaged, begins(10, 2)}, Beginning{}},
	}
	for _, row := range rows {
		lowest, trimmed := TrimmedBy(10, row.others)
		require.Equal(t, row.lowest, lowest, row.what)
		require.Equal(t, row.lowest != Beginning{}, trimmed, row.what)
	}
}
