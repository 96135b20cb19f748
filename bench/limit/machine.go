package limit

import (
	"fmt"
	"os"
	"runtime"
	"strings"
)

// Disk is what the kernel tells of the file system that holds a directory.
type Disk struct {
	Directory  string
	FileSystem string // its type, such as ext4
	Free       int64  // bytes that an ordinary user can still take
	Total      int64
}

// Machine describes this computer in one line.
func Machine() string {
	return fmt.Sprintf("%d x %s, %s %s, %s", runtime.NumCPU(), processor(), runtime.GOOS, kernel(), runtime.Version())
}

// processor is the processor's name as Linux tells it, or its architecture.
func processor() string {
	data, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	for line := range strings.Lines(string(data)) {
		name, value, _ := strings.Cut(line, ":")
		if strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

func kernel() string {
	data, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}
