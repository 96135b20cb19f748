//go:build !linux

package store

import "time"

// delay waits like a slow disk.
func delay(d time.Duration) { time.Sleep(d) }
