package limit

import (
	"fmt"
	"os"
	"runtime"
	"strings"
)

// Disk is what the kernel reports of the file system that holds a directory.
type Disk struct {
	Directory  string
	FileSystem string // its type, such as ext4
	Device     string // that it lies on, such as /dev/sda1; empty: unknown
	Free       int64  // bytes that an ordinary user can still take
	Total      int64
}

// Machine describes this computer in one line.
func Machine() string {
	const gib = 1 << 30
	memory := "memory of unknown size"
	if bytes := memorySize(); bytes > 0 {
		memory = fmt.Sprintf("%.1f GiB of memory", float64(bytes)/gib)
	}
	return fmt.Sprintf("%d x %s, %s, %s %s, %s", runtime.NumCPU(), processor(), memory, runtime.GOOS, kernel(), runtime.Version())
}

// String is the disk in a line: its directory, file system, device and size.
func (d Disk) String() string {
	const gib = 1 << 30
	about := d.FileSystem
	if d.Device != "" {
		about += " on " + d.Device
	}
	if d.Total > 0 {
		about += fmt.Sprintf(", %.1f GiB, %.1f GiB free", float64(d.Total)/gib, float64(d.Free)/gib)
	}
	return d.Directory + " (" + about + ")"
}

// processor is the processor's name as Linux names it, or its architecture.
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
