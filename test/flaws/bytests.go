package flaws

// ByTests are the flaws that no simulated cluster shows, each with a test that fails for it, and the room of that.
var ByTests = []struct{ Flaw, Test, Room string }{
	{"highest-hold-counts", "TestTranscripts", "internal/sequence"},
	{"scrub-trusts-checksums", "TestAWalkerNamesAForgedBatch", "internal/digest"},
	{"sent-is-recycled", "TestBytesThatWereSentByReferenceAreNeverWrittenAgain", "internal/segment"},
	{"stopped-log-shows-all", "TestALogIsReadAsFarAsItIsKnownToBeCommitted", "internal/node/stopped"},
}
