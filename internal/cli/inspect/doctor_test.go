package inspect

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/bench/limit"
)

func syncCost(synced, written time.Duration) limit.SyncCost {
	c := limit.SyncCost{Bytes: 2048, Synced: limit.NewHistogram(), Written: limit.NewHistogram()}
	limit.Observe(c.Synced, synced)
	limit.Observe(c.Written, written)
	return c
}

func TestTheDoctorsVerdicts(t *testing.T) {
	const us = time.Microsecond
	for name, c := range map[string]struct {
		found  finding
		want   verdict
		advice string
	}{
		"a disk":                 {judgeFileSystem(limit.Disk{FileSystem: "ext4"}), fine, ""},
		"memory":                 {judgeFileSystem(limit.Disk{FileSystem: "tmpfs"}), bad, "choose a directory on a disk"},
		"a container's layer":    {judgeFileSystem(limit.Disk{FileSystem: "overlay"}), warn, "mount a volume"},
		"a network's disk":       {judgeFileSystem(limit.Disk{FileSystem: "nfs"}), warn, "local disk"},
		"room":                   {judgeRoom(limit.Disk{Free: 100 << 30, Total: 200 << 30}), fine, ""},
		"little room":            {judgeRoom(limit.Disk{Free: 5 << 30, Total: 200 << 30}), warn, "--retention-bytes"},
		"no room":                {judgeRoom(limit.Disk{Free: 1 << 20, Total: 200 << 30}), bad, "FULL"},
		"an honest sync":         {judgeHonesty(syncCost(60*us, 3*us)), fine, ""},
		"a sync that does not":   {judgeHonesty(syncCost(4*us, 3*us)), warn, "suspiciously fast"},
		"an ordinary sync":       {judgeCost(syncCost(2*time.Millisecond, 3*us)), fine, ""},
		"a slow sync":            {judgeCost(syncCost(20*time.Millisecond, 3*us)), warn, "share a sync"},
		"files":                  {judgeOpenFiles(1 << 20), fine, ""},
		"few files":              {judgeOpenFiles(1024), warn, "ulimit -n"},
		"a clock":                {judgeClock(true, true), fine, ""},
		"a clock that drifts":    {judgeClock(false, true), warn, "NTP"},
		"a clock nobody can ask": {judgeClock(false, false), fine, ""},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, c.found.Verdict)
			require.Contains(t, c.found.Advice, c.advice)
			require.Equal(t, c.want == fine, c.found.Advice == "", "what is not fine has advice")
		})
	}
}

func TestTheDoctorExaminesADirectoryThatIsNotThereYet(t *testing.T) {
	findings, err := examine(t.Context(), t.TempDir()+"/not/yet/there", 10*time.Millisecond)
	require.NoError(t, err)
	require.Len(t, findings, 7)
	for _, f := range findings {
		require.NotEmpty(t, f.Found, f.Check)
	}
}
