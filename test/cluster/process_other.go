//go:build !linux

package cluster

import "syscall"

// attributes has nothing to give where a child cannot be tied to its parent:
// a node outlives a test that is killed.
func attributes() *syscall.SysProcAttr { return nil }
