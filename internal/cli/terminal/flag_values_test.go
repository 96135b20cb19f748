package terminal

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSizesAreReadAsPeopleWriteThem(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "4096": 4096, "12B": 12, "64KiB": 64 << 10, "1.5GiB": 3 << 29, "10GiB": 10 << 30,
		"10gib": 10 << 30, "10 GiB": 10 << 30, "10GB": 1e10, "2TiB": 2 << 40, "1TB": 1e12, "1.5KB": 1500,
	} {
		var s Size
		require.NoError(t, s.Set(text), text)
		require.EqualValues(t, want, s, text)
	}
}

func TestWrongSizesSayWhatIsRight(t *testing.T) {
	for text, want := range map[string]string{
		"":         "a number and a unit",
		"GiB":      "a number and a unit",
		"10G":      "use GiB for powers of 1024 or GB",
		"10parsec": `unknown unit "parsec"`,
		"-1":       "between 0 and",
		"1e30":     "between 0 and",
		"9EiB":     "unknown unit",
		"0.5B":     "whole number of bytes",
		"nan":      "unknown unit",
		"0x10":     "a number and a unit",
	} {
		var s Size
		require.ErrorContains(t, s.Set(text), want, text)
	}
}

func TestSizesAreWrittenShort(t *testing.T) {
	for want, s := range map[string]Size{
		"0": 0, "512B": 512, "2KiB": 2 << 10, "256KiB": 256 << 10, "1.5GiB": 3 << 29, "83.19TiB": 91468563767296,
	} {
		require.Equal(t, want, s.String())
	}
}

func TestDurationsKnowDays(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0s": 0, "500ms": 500 * time.Millisecond, "1m": time.Minute, "1h30m": 90 * time.Minute,
		"7d": 7 * 24 * time.Hour, "1d12h": 36 * time.Hour, "0": 0,
	} {
		var d Duration
		require.NoError(t, d.Set(text), text)
		require.EqualValues(t, want, d, text)
	}
	for _, text := range []string{"", "d", "-1s", "1", "soon", "1.5d", "1d-5h", "200000d", "65535d1000000h"} {
		require.Error(t, new(Duration).Set(text), text)
	}
}

func TestDurationsAreWrittenAsTheyAreRead(t *testing.T) {
	for _, text := range []string{"0", "500ms", "1m", "1h", "1h30m", "7d", "1d12h", "1m1s", "10m", "20h"} {
		var d Duration
		require.NoError(t, d.Set(text))
		require.Equal(t, text, d.String())
	}
}

func TestAMomentIsATimeOrHowLongAgo(t *testing.T) {
	var m Moment
	require.NoError(t, m.Set("2030-01-31T08:00:00.5+01:00"))
	require.True(t, m.Equal(time.Date(2030, 1, 31, 7, 0, 0, 5e8, time.UTC)))

	before := time.Now()
	require.NoError(t, m.Set("5m"))
	require.WithinRange(t, m.Time, before.Add(-5*time.Minute), time.Now().Add(-5*time.Minute))

	require.ErrorContains(t, m.Set("yesterday"), "how long ago")
}
