package process

import (
	"os/exec"
	"syscall"
)

// alone keeps the terminal's Ctrl-C from the child, which the benchmark stops
// in its own time, and has the kernel end the child if the benchmark dies.
func alone(command *exec.Cmd) {
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
