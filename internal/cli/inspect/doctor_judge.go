package inspect

import (
	"fmt"
	"time"

	"strandline.dev/bench/limit"
	"strandline.dev/internal/cli/terminal"
)

// What the doctor holds against a machine. Each bound is where a careful
// operator would begin to ask.
const (
	roomBad  = 1 << 30  // a few segments and their spares
	roomWarn = 10 << 30 // minutes of appends at full speed

	// No disk without a power-safe cache writes through in less: a flash page
	// alone takes longer to program.
	syncDoubtful = 15 * time.Microsecond
	syncSlow     = 10 * time.Millisecond

	openFilesWarn = 4096 // 1,000 logs with a few segments each
)

func judgeFileSystem(d limit.Disk) finding {
	f := finding{Check: "file system", Verdict: fine, Found: fmt.Sprintf("%s at %s", d.FileSystem, d.Directory)}
	switch d.FileSystem {
	case "tmpfs", "ramfs":
		f.Verdict = bad
		f.Advice = "this is memory: nothing here survives a power cut or a reboot; choose a directory on a disk"
	case "overlay":
		f.Verdict = warn
		f.Advice = "this is a container's own layer, which goes away with it; mount a volume for the data"
	case "nfs", "cifs", "fuse":
		f.Verdict = warn
		f.Advice = "what fsync promises here depends on another program or machine; a local disk is safer and faster"
	}
	return f
}

func judgeRoom(d limit.Disk) finding {
	f := finding{Check: "room", Verdict: fine, Found: fmt.Sprintf("%v free of %v", terminal.Size(d.Free), terminal.Size(d.Total))}
	switch {
	case d.Total == 0:
		f.Verdict, f.Found = warn, "unknown on this system"
	case d.Free < roomBad:
		f.Verdict = bad
		f.Advice = fmt.Sprintf("appends would soon be refused with FULL; make at least %v free", terminal.Size(roomBad))
	case d.Free < roomWarn:
		f.Verdict = warn
		f.Advice = "give logs a --retention-bytes that fits, or make room"
	}
	return f
}

func judgeHonesty(cost limit.SyncCost) finding {
	synced, written := cost.Synced.ValueAtQuantile(50), cost.Written.ValueAtQuantile(50)
	f := finding{
		Check: "fdatasync is honest", Verdict: fine,
		Found: fmt.Sprintf("write alone %v, with fdatasync %v (2 KiB, p50)", rounded(written), rounded(synced)),
	}
	if time.Duration(synced) < syncDoubtful {
		f.Verdict = warn
		f.Advice = "suspiciously fast: fine with a disk whose cache is safe without power, else acknowledged records " +
			"can be lost in a power cut; look for nobarrier, eatmydata, libvirt cache=unsafe or a write-back cache"
	}
	return f
}

func judgeCost(cost limit.SyncCost) finding {
	p50, p99 := cost.Synced.ValueAtQuantile(50), cost.Synced.ValueAtQuantile(99)
	f := finding{
		Check: fmt.Sprintf("fdatasync of %v", terminal.Size(cost.Bytes)), Verdict: fine,
		Found: fmt.Sprintf("p50 %v, p99 %v", rounded(p50), rounded(p99)),
	}
	if time.Duration(p50) > syncSlow {
		f.Verdict = warn
		f.Advice = "every append waits at least this long; throughput holds, because waiting appends share a sync, " +
			"but a faster disk makes each one faster"
	}
	return f
}

// judgeOpenFiles: limit is 0 where it is unknown.
func judgeOpenFiles(limit uint64) finding {
	f := finding{Check: "open files", Verdict: fine, Found: fmt.Sprintf("%d allowed", limit)}
	switch {
	case limit == 0:
		f.Found = "limit unknown on this system"
	case limit < openFilesWarn:
		f.Verdict = warn
		f.Advice = fmt.Sprintf("connections and segments need them; allow %d (ulimit -n, or LimitNOFILE of the service)", 16*openFilesWarn)
	}
	return f
}

func judgeClock(synchronized, known bool) finding {
	f := finding{Check: "clock", Verdict: fine, Found: "synchronized"}
	switch {
	case !known:
		f.Found = "cannot tell here whether it is synchronized"
	case !synchronized:
		f.Verdict, f.Found = warn, "not synchronized"
		f.Advice = "order and safety never depend on clocks, but retention by age and --since do: run an NTP client"
	}
	return f
}

func rounded(ns int64) time.Duration {
	return time.Duration(ns).Round(100 * time.Nanosecond)
}
