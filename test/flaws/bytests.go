package flaws

// ByTests are flaws that no simulated cluster shows, or that are to be noticed more closely than there, each with a test
// that fails for it, and the room of that.
var ByTests = []struct{ Flaw, Test, Room string }{
	{"cut-at-bad-checksum", "TestRecovery", "internal/segment"},
	{"gone-is-wiped", "TestAReaderThatReceivesLateGetsWhatItsOffsetsHeldWhateverReplacesTheirFiles", "internal/server"},
	{"highest-hold-counts", "TestTranscripts", "internal/sequence"},
	{"kept-hold-expires", "TestTranscripts", "internal/sequence"},
	{"offsets-not-written", "TestTheOffsetsOfADeletedTopicAreForgotten", "internal/server/kafka/coordinator"},
	{"scrub-trusts-checksums", "TestAWalkerNamesAForgedBatch", "internal/digest"},
	{"sent-is-recycled", "TestAReaderThatReceivesLateGetsWhatItsOffsetsHeld", "internal/server"},
	{"sent-is-recycled", "TestBytesThatWereSentByReferenceAreNeverWrittenAgain", "internal/segment"},
	{"stopped-log-shows-all", "TestALogIsReadAsFarAsItIsKnownToBeCommitted", "internal/node/stopped"},
	{"trims-need-room", "TestAFullDiskLetsAProgramThatWasRestartedResume", "internal/sequence"},
}
