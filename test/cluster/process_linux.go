package cluster

import "syscall"

// attributes let a node die with the test, also when the test is killed.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
