package workload

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/bench/limit"
)

func TestALineMakesEveryCombination(t *testing.T) {
	all, err := ParseConfigurations(strings.NewReader(`
# a remark
mode=async acks=-1,0 compression=none,zstd batch=5000 flush=100ms once=no requests=5 # and another
mode=sync bytes=4096 once=yes requests=auto`))
	require.NoError(t, err)
	require.Len(t, all, 5)
	require.Equal(t, Configuration{
		Name: "mode=async acks=0 compression=zstd batch=5000 flush=100ms once=no requests=5",
		Sending: Sending{
			Acks: AcksNone, Compression: "zstd", RequestRecords: 5000, Linger: 100 * time.Millisecond,
			Once: OnceNo, InFlight: 5,
		},
	}, all[3])
	require.Equal(t, Configuration{
		Name: "mode=sync bytes=4096 once=yes requests=auto", Sync: true,
		Sending: Sending{RequestBytes: 4096, Once: OnceYes},
	}, all[4])
}

func TestAListThatMakesNoSenseSaysWhere(t *testing.T) {
	for text, expected := range map[string]string{
		"":                          "no configuration",
		"mode=sync\nmood=good":      "line 2",
		"mode=slow":                 "one of sync, async",
		"compression=lzma":          "one of none, gzip",
		"flush=5":                   "flush=5",
		"once":                      "must be NAME=VALUE",
		"mode=sync acks=everybody":  "-1 (all), 0 or 1",
		"mode=async requests=a few": "requests=a",
	} {
		_, err := ParseConfigurations(strings.NewReader(text))
		require.ErrorContains(t, err, expected, text)
	}
}

func TestTheDefaultListIsOne(t *testing.T) {
	all, err := ParseConfigurations(strings.NewReader(DefaultConfigurations))
	require.NoError(t, err)
	require.Greater(t, len(all), 10)
}

func TestTheMatrixSendsSamplesAndReadsThemBack(t *testing.T) {
	m := Matrix{Samples: Samples(), Span: limit.Span{Duration: 20 * time.Millisecond}, Check: true}
	require.Len(t, m.Samples, 50)
	require.Equal(t, m.Samples, Samples(), "the same every time")
	for _, sync := range []bool{true, false} {
		target := &memoryTarget{}
		for ; len(target.records()) < 10; m.Span.Duration *= 2 { // the machine may be busy
			require.Less(t, m.Span.Duration, time.Minute)
			target = &memoryTarget{}
			result, err := m.Run(t.Context(), target, Configuration{Sync: sync, Sending: Sending{InFlight: 3}}, 1)
			require.NoError(t, err)
			require.True(t, result.Checked)
			if len(target.records()) >= 10 {
				require.Positive(t, result.Count)
			}
		}
		require.Equal(t, 3, target.sending.InFlight)
		for _, r := range target.records()[:10] {
			require.Contains(t, m.Samples, r)
		}
	}
}
