// Package store keeps one log in segment files. Store is made of owners, each in a file
// of its name: list (which segments there are), loader (their open files, headers and
// indexes), reader, writer and newest (the end of the newest segment), snapshots, spares
// and filler (the files that become segments), WatermarkFile, Dir and Files (names).
//
// An append goes write.go, roll.go, sync.go; a read cursor.go, load.go, lookup.go; a
// restart recover.go, scan.go; what a restart cannot see by itself is in
// watermark.go.
package store
