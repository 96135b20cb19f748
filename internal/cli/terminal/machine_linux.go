package terminal

import (
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// OpenFileLimit is what this process may hold open; Go has raised it to the
// hard limit when it started.
func OpenFileLimit() uint64 {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return 0
	}
	return l.Cur
}

// ClockSynchronized asks the kernel whether something keeps its clock right.
func ClockSynchronized() (synchronized, known bool) {
	var t unix.Timex
	if _, err := unix.Adjtimex(&t); err != nil {
		return false, false
	}
	return t.Status&unix.STA_UNSYNC == 0, true
}

// IgnoreInterrupts keeps the terminal's Ctrl-C from a child.
func IgnoreInterrupts(command *exec.Cmd) {
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}
