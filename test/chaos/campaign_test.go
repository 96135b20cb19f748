package chaos

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/test/cluster"
)

func TestMain(m *testing.M) {
	ServeAsClient()
	cluster.Main(m)
}

func TestACampaignOfAFewFaultsBreaksNoRule(t *testing.T) {
	report, err := Run(t.Context(), Options{
		Seed: rand.Uint64(), Faults: 6, Nodes: 3, Of: []string{"kill", "isolate", "power-cut-all", "client-kill", "transfer", "lose-datacenter"},
		Race: raceEnabled, Dir: t.TempDir(), Logf: t.Logf,
	})
	require.NoError(t, err)
	if !report.Holds() {
		var text strings.Builder
		report.Explain(&text)
		require.Fail(t, "the campaign failed", text.String())
	}
	require.Equal(t, 6, report.Faults)
	require.Len(t, report.Kinds, 6)
	require.Positive(t, report.ReadBack)
	require.Positive(t, report.Entries)
	require.NoDirExists(t, report.Left)
}

func TestASeedGivesTheSameScheduleAgain(t *testing.T) {
	describe := func(seed uint64) (text string) {
		for _, s := range plan(seed, table(), 100) {
			text += fmt.Sprintln(s.number, s.kind.Name, s.hold, s.rest, s.impatient, s.dice.Uint64())
		}
		return text
	}
	require.Equal(t, describe(7), describe(7))
	require.NotEqual(t, describe(7), describe(8))
}

func TestALongerScheduleBeginsAsAShorterOne(t *testing.T) {
	short, long := plan(7, table(), 10), plan(7, table(), 60)
	for i := range short {
		require.Equal(t, short[i].kind.Name, long[i].kind.Name)
		require.Equal(t, short[i].hold, long[i].hold)
	}
}

func TestEveryKindComesOnceBeforeAnyComesAgain(t *testing.T) {
	kinds := table()
	seen := map[string]int{}
	for _, s := range plan(7, kinds, 3*len(kinds)) {
		seen[s.kind.Name]++
	}
	for _, k := range kinds {
		require.Equal(t, 3, seen[k.Name], k.Name)
	}
}

func TestWhatTheMachineDoesNotAllowIsLeftOutAndSaid(t *testing.T) {
	none := abilities{errors.New("no loop"), errors.New("no strace")}
	chosen, left, err := choose(nil, none)
	require.NoError(t, err)
	for _, k := range chosen {
		require.Equal(t, nothing, k.needs, k.Name)
	}
	require.Contains(t, left, "dead-disk: no loop")
	require.Contains(t, left, "sync-eio: no strace")

	_, _, err = choose([]string{"dead-disk"}, none)
	require.ErrorContains(t, err, "no loop")
	_, _, err = choose([]string{"meteor"}, abilities{})
	require.ErrorContains(t, err, "meteor")

	chosen, _, err = choose([]string{"flip-bit"}, abilities{})
	require.NoError(t, err, "damage is done to whom it is asked for")
	require.Len(t, chosen, 1)
}

func TestAStageThatFailsStillCleansUp(t *testing.T) {
	s := &stage{dir: t.TempDir(), logf: t.Logf}
	var done []string
	s.perform(func() {
		s.Cleanup(func() { done = append(done, "first") })
		s.Cleanup(func() { require.Fail(s, "the cleanup fails, too") })
		s.Cleanup(func() { done = append(done, "last") })
		require.Fail(s, "here it ends")
	})
	require.Equal(t, []string{"last", "first"}, done)
	require.Len(t, s.failures(), 2)
	require.True(t, s.Failed())
}

func TestAGapLastsUntilTheNextAcknowledgement(t *testing.T) {
	var p pace
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	p.Begin(at(0))
	p.acked(at(1))
	p.acked(at(5))
	require.Equal(t, 4*time.Second, p.Gap(at(6)))
	require.Equal(t, 10*time.Second, p.Gap(at(15)), "the one that lasts counts")
	p.Begin(at(20))
	require.Equal(t, time.Second, p.Gap(at(21)))
}

func TestServingIsMeasuredToTheFirstAcknowledgement(t *testing.T) {
	var p pace
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	p.acked(at(1))
	p.recover(at(2))
	_, came := p.serving()
	require.False(t, came)
	p.acked(at(5))
	p.acked(at(9))
	took, came := p.serving()
	require.True(t, came)
	require.Equal(t, 3*time.Second, took)
}

func TestAFailedCampaignSaysHowToSeeItAgain(t *testing.T) {
	r := newReport(Options{Seed: 7, Faults: 30, Nodes: 5, Again: "go run ./campaign --of=kill"}, nil)
	r.Problems, r.Left = []string{"lost a record"}, "/somewhere"
	var text strings.Builder
	r.Explain(&text)
	require.Contains(t, text.String(), "strandline check /somewhere/history*.jsonl")
	require.Contains(t, text.String(), "go run ./campaign --of=kill --seed 7 --faults 30 --nodes 5 --campaigns 1")
}
