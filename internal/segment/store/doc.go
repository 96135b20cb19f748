// Package store keeps one log in segment files: it writes, syncs, reads, recovers
// and recycles them.
//
// An append goes write.go, roll.go, sync.go; a read load.go, lookup.go, cursor.go; a
// restart recover.go, scan.go; what a restart cannot see by itself is in
// watermark.go.
package store
