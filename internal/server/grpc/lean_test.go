package grpcserver

import "testing"

// leanTest is the test under which streams have connections of their own.
const leanTest = "TestStreamsOnConnectionsOfTheirOwnAreTheSame"

func TestStreamsOnConnectionsOfTheirOwnAreTheSame(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(*testing.T){
		"answers come in order":         TestAnswersComeInTheOrderOfRequests,
		"requests reach the log":        TestARequestReachesTheLogAsItWasSent,
		"where the time went":           TestAnAnswerSaysWhereTheTimeOfARequestWent,
		"a refusal ends no stream":      TestARefusedRequestDoesNotEndTheStream,
		"malformed requests":            TestMalformedRequestsNeverReachTheLog,
		"one stream, one log":           TestAStreamBelongsToOneLog,
		"an oversized message":          TestAnOversizedMessageEndsTheStream,
		"an oversized record":           TestAnOversizedRecordIsRefusedWithTheLimit,
		"requests without a right":      TestWhatACallerMayNotAppendIsNotLookedInto,
		"compressed batches":            TestCompressedBatchesAreCheckedInTurns,
		"plain records":                 TestPlainRecordsBecomeBatches,
		"many plain records":            TestManyPlainRecordsAreCutIntoBatchesThatFitAnEntry,
		"too much to decode":            TestARequestThatDecodesIntoTooMuchIsRefused,
		"an exhausted budget":           TestAnExhaustedBudgetHoldsClientsUp,
		"answers that nobody fetches":   TestAnswersThatNobodyFetchesHoldNoBudget,
		"a client that goes away":       TestAnAppendInFlightOutlivesAClientThatGoesAway,
		"a server that stops":           TestAStoppingServerAnswersWhatIsInFlight,
		"stored batches":                TestBatchesAreSentAsTheyAreStored,
		"records are cut":               TestRecordsAreCutExactly,
		"small frames":                  TestDecodedFramesStaySmallHoweverLargeTheBatch,
		"signs of life":                 TestAReadThatFollowsShowsSignsOfLife,
		"behind a trim":                 TestAReaderBehindATrimGetsTheNewStart,
		"a read while the server stops": TestAFollowingReadEndsWhenTheServerStops,
		"reads that make no sense":      TestAReadThatMakesNoSenseIsRefused,
		"a log that is not there":       TestALogThatIsNotThereIsNotFound,
		"changes are watched":           TestAWatchSendsTheStateAtOnceAndThenChanges,
	} {
		t.Run(name, test)
	}
}
