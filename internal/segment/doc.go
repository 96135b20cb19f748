// Package segment keeps the entries of one replica's log: on disk in segment
// files (Store), or in memory (Memory). It appends, syncs, reads, looks up,
// recovers and recycles. Entries are opaque bytes with an index, a term and a
// first offset; the package knows no rules of Raft, and no network. It
// reaches the disk through FS only, so tests can put a bad one behind it.
//
// Start with Log (log.go) for what a log does, Store (store.go) for the files,
// frame.go and header.go for the bytes. Then an append goes write.go, roll.go,
// sync.go; a read load.go, lookup.go, cursor.go; a restart recover.go, scan.go;
// what it cannot see by itself witness.go. What is damaged goes walk.go,
// picture.go, survey.go; mending it mend.go, mendgive.go, mendwrite.go,
// mendswap.go.
package segment

var (
	_ Log = (*Store)(nil)
	_ Log = (*Memory)(nil)
)
