package process

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

func ownTime() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return Unknown
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// clockTick is the unit of times in /proc, the same on all of Linux's platforms that Go
// runs on.
const clockTick = 10 * time.Millisecond

// timeOf reads what a process has taken, its threads that have ended included.
func timeOf(id int) (time.Duration, bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", id))
	if err != nil {
		return 0, false
	}
	// The second field is a name, which may have anything in it but ends at the last ")".
	_, rest, _ := strings.Cut(string(text[strings.LastIndexByte(string(text), ')')+1:]), " ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, false
	}
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * clockTick, true
}

// residentOf reads how much memory of a process is resident.
func residentOf(id int) (bytes int64, ok bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", id))
	if err != nil {
		return 0, false
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0, false
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize()), err == nil
}

// listener finds the process that listens at an address of this machine.
func listener(address string) (id int, ok bool) {
	host, port, err := net.SplitHostPort(address)
	if err != nil || !here(host) {
		return 0, false
	}
	sockets := listening(port)
	links, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, link := range links {
		if to, err := os.Readlink(link); err == nil && sockets[to] {
			id, err = strconv.Atoi(strings.Split(link, "/")[2])
			return id, err == nil
		}
	}
	return 0, false
}

func here(host string) bool {
	addresses, err := net.LookupIP(host)
	if err != nil {
		return false
	}
	for _, a := range addresses {
		if !a.IsLoopback() {
			return false
		}
	}
	return true
}

// listening are the sockets that listen at a port, as links in /proc name them.
func listening(port string) map[string]bool {
	number, _ := strconv.Atoi(port)
	sockets := map[string]bool{}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, _ := os.ReadFile(table)
		for line := range strings.Lines(string(text)) {
			f := strings.Fields(line)
			if len(f) > 9 && f[3] == "0A" && strings.HasSuffix(f[1], fmt.Sprintf(":%04X", number)) {
				sockets["socket:["+f[9]+"]"] = true
			}
		}
	}
	return sockets
}
