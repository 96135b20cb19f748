// Package resident reads the resident memory of a process.
package resident

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"testing"
)

var line = regexp.MustCompile(`(?m)^(VmRSS|VmHWM):\s+(\d+) kB$`)

// Of returns the resident memory of a process in bytes: the current value, and the peak since it
// started. Where there is no /proc the test ends.
func Of(t testing.TB, pid int) (now, most int64) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]int64{}
	for _, found := range line.FindAllStringSubmatch(string(text), -1) {
		kib, err := strconv.ParseInt(found[2], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		values[found[1]] = kib << 10
	}
	if len(values) != 2 {
		t.Fatalf("process %d says nothing of its memory:\n%s", pid, text)
	}
	return values["VmRSS"], values["VmHWM"]
}
