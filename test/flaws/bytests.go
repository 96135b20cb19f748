package flaws

// ByTests are flaws that no simulated cluster shows, or that are to be noticed more closely than there, each with a test
// that fails for it, the room of that, and what the test says then, with single blanks.
var ByTests = []struct{ Flaw, Test, Room, Says string }{
	{"cut-at-bad-checksum", "TestRecovery", "internal/segment", "--- FAIL: TestRecovery/a_flip_in_the_first_frame"},
	{"gone-is-wiped", "TestAReaderThatReceivesLateGetsWhatItsOffsetsHeldWhateverReplacesTheirFiles", "internal/server", "the answer is another one"},
	{"highest-hold-counts", "TestTranscripts", "internal/sequence", `expected: HELD: hold "backup" keeps all records from offset 2 on rests on proposal 3 found: ok log [3,5)`},
	{"kept-hold-expires", "TestTranscripts", "internal/sequence", "expired-holds expected: [] found: [desk]"},
	{"offsets-not-written", "TestTheOffsetsOfADeletedTopicAreForgotten", "internal/server/kafka/coordinator", "actual : int64(-1)"},
	{"scrub-trusts-checksums", "TestAWalkerNamesAForgedBatch", "internal/digest", "actual : []*digest.ForgedError(nil)"},
	{"sent-is-recycled", "TestAReaderThatReceivesLateGetsWhatItsOffsetsHeld", "internal/server", "the answer is another one"},
	{"sent-is-recycled", "TestBytesThatWereSentByReferenceAreNeverWrittenAgain", "internal/segment", "was sent by reference and is overwritten"},
	{"stopped-log-shows-all", "TestALogIsReadAsFarAsItIsKnownToBeCommitted", "internal/node/stopped", "actual : []record.Offset{0, 3}"},
	{"trims-need-room", "TestAFullDiskLetsAProgramThatWasRestartedResume", "internal/sequence", "too few replicas have free disk space for anything but trims"},
	{"writer-keep-renews-nothing", "TestTranscripts", "internal/sequence", "expired-writer expected: term 0, 50 ms are left found: term 1, 0 ms are left"},
	{"writer-lease-for-two", "TestTranscripts", "internal/sequence", `expected: BUSY: "a" has the writer lease rests on proposal 2 found: ok writer 2`},
}
