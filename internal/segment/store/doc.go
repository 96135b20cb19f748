// Package store keeps one log in segment files. A Store consists of parts, each in a file of its
// name: list (the segments), loader (their open files, headers and indexes), reader, writer and
// newest (the end of the newest segment), snapshots, spares and filler (the files that become
// segments), WatermarkFile, Dir and Files (names).
//
// An append runs through write.go, roll.go and newest.go; a read through cursor.go, load.go and
// lookup.go; a restart through recover.go and scan.go. What a restart cannot detect by itself is
// in watermark.go.
package store
