package cli

import (
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// openFileLimit is what this process may hold open; Go has raised it to the
// hard limit when it started.
func openFileLimit() uint64 {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return 0
	}
	return l.Cur
}

// clockSynchronized asks the kernel whether something keeps its clock right.
func clockSynchronized() (synchronized, known bool) {
	var t unix.Timex
	if _, err := unix.Adjtimex(&t); err != nil {
		return false, false
	}
	return t.Status&unix.STA_UNSYNC == 0, true
}

// ignoreInterrupts puts a child out of reach of the terminal's Ctrl-C.
func ignoreInterrupts(command *exec.Cmd) {
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}
