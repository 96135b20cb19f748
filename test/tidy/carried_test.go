package tidy

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// carried names, for each limit on the size of something that travels or is stored, the test that has the
// largest pass what carries it. Where a limit is raised and one of its carriers is not, that test fails.
var carried = map[string]string{
	"record.MaxRecordBytes":         "TestTheLargestOfEverythingPassesWhatCarriesIt",
	"record.MaxBatchBytes":          "TestTheLargestOfEverythingPassesWhatCarriesIt",
	"record.MaxEntryBytes":          "TestTheLargestOfEverythingPassesWhatCarriesIt",
	"record.MaxHoldBytes":           "TestTheLargestOfEverythingPassesWhatCarriesIt",
	"record.MaxHoldName":            "TestARefusalWithTheLargestHoldFitsIntoHeaders",
	"record.MaxHoldOwner":           "TestARefusalWithTheLargestHoldFitsIntoHeaders",
	"record.MaxHoldPointer":         "TestARefusalWithTheLargestHoldFitsIntoHeaders",
	"rpc.MaxRequestBytes":           "TestTheLargestRequestPassesEveryPort",
	"kafkaserver.MaxProduceBytes":   "TestTheLargestRequestPassesEveryPort",
	"record.MaxInflatedBytes":       "TestTheBatchThatInflatesToTheMostPassesEveryPort",
	"record.MaxConflictKey":         "TestARefusedCheckHasOffsetAndKeyAmongItsMetadata",
	"sequence.MaxConfigBytes":       "TestTheLargestOfEverythingPassesWhatCarriesIt",
	"sequence.MaxSnapshotBytes":     "TestTheLargestSnapshotAboveTheLargestMessageIsCarried",
	"cluster.MaxCheckpointBytes":    "TestTheLargestCatalogIsWrittenAnewAndRead",
	"peer.MaxMessage":               "TestAnUrgentMessageOfTheGreatestSizeArrivesAndAGreaterOneIsDropped",
	"peer.MaxLargeMessage":          "TestTheLargestSnapshotAboveTheLargestMessageIsCarried",
	"peer.maxAsked":                 "TestANodeThatOnlyAsksIsBrief",
	"grpcserver.maxPageBytes":       "TestTheLongestListsComeInParts",
	"grpcserver.maxListBytes":       "TestTheLongestListsComeInParts",
	"grpcserver.maxMetadata":        "TestWhatIsKnownOfAGroupComesInAnswersOfALimitedSize",
	"coordinator.MaxCommitMetadata": "TestLargeCommitsShareNoAppend",
	"kafkaserver.MaxFetchBytes":     "TestALongLogIsFetchedPieceByPieceWithoutAGap",
	"verbs.MaxRequestName":          "TestACreateThatIsMadeAgainReturnsTheLogThatItCreated",
	"filter.maxRead":                "TestAnExpressionReadsTheLargestThatItMay",
	"durablestreams.maxText":        "TestTheLargestNoteIsRead",
	"durablestreams.maxNote":        "TestTheLargestNoteIsRead",
	"statemachine.maxNameBytes":     "TestTheLargestDigestFitsIntoAReportAndASnapshot",
	"statemachine.maxDigestBytes":   "TestTheLargestDigestFitsIntoAReportAndASnapshot",
	"archive.MaxObjectBytes":        "TestTheLargestObjectIsWrittenAndRead",
	"audit.maxText":                 "TestAnEntryIsSmallWhateverItsCallerCallsThings",
}

// inCalls are limits on the size of something that travels in a call, beside names and numbers: in JSON or
// base64 too, a call has room for a few of the largest.
var inCalls = []string{
	"access.maxName", "access.MaxObjectName", "identity.maxName", "guard.maxToken", "guard.maxPassword", "guard.maxLogin",
	"filter.MaxExpressionBytes", "filter.maxPatternBytes", "verbs.maxSettingsBytes", "record.MaxHoldPrincipal", "peer.maxKind",
	"record.MaxWriterName", "record.MaxWriterPayload", "record.MaxWriterBytes",
}

// notCarried are limits on sizes that no carrier has to have room for, with the reason.
var notCarried = map[string]string{
	"rpc.MaxCallBytes":            "carries what is in inCalls",
	"budget.mostTexts":            "carries requests as JSON: TestTheLargestRequestPassesAsJSON",
	"kafkaserver.MaxCallBytes":    "carries names and numbers",
	"kafkaserver.MaxGroupBytes":   "carries what members of a group say, of which more is refused",
	"rpc.maxMetadataBytes":        "carries refusals: TestARefusalWithTheLargestHoldFitsIntoHeaders",
	"lean.maxCallBytes":           "carries the metadata of a call",
	"lean.maxEndBytes":            "carries refusals, as metadata does",
	"httpserver.maxHeaderBytes":   "carries a token",
	"peer.maxHello":               "carries names and addresses of one node",
	"peer.maxReason":              "a text, of which more is cut",
	"peer.maxNotice":              "a text in a log, of which more is cut",
	"filter.maxText":              "a text, of which more is cut",
	"durablestreams.maxAnswer":    "records, of which the next ones come in another answer",
	"durablestreams.maxFolded":    "is kept in memory; beyond it the least recently used are forgotten",
	"durablestreams.maxBody":      "a part of what an append request takes: TestTheLargestWritesOfAStreamAreReadBack",
	"archive.MaxManifestBytes":    "has room for archive.MaxObjects; beyond it the archive is not extended",
	"archive.maxHeadBytes":        "carries a name and a tree of at most digest.MaxStateBytes",
	"terminal.maxPage":            "a page, of which more is cut",
	"top.maxQuery":                "names of logs; the others go into the next request",
	"inspect.maxReadyAnswer":      "a page, of which more is cut",
	"segment.MaxKeyFilterBytes":   "a summary that would be larger is not made",
	"coordinator.MaxListedBytes":  "ends an answer, whose rest is asked for again",
	"rpc.maxOutboxBytes":          "waits; beyond it requests do",
	"core.maxQueuedBytes":         "waits; beyond it is BUSY",
	"sequence.MaxCheckBytes":      "travels with batches in a request, which take half of it",
	"sequence.MaxRecentBytes":     "is kept in memory; beyond it the oldest are forgotten",
	"sequence.maxRecentInflated":  "is looked into in memory; a larger batch is not",
	"reading.maxLookBytes":        "is read; beyond it the search ends",
	"sequence.MaxUncovered":       "waits to be hashed; beyond it appends do",
	"runtime.mostArrivals":        "waits; beyond it messages are dropped, and one is taken always",
	"tail.mostBytes":              "waits; beyond it messages are dropped, and one is taken always",
	"peer.maxAnsweringBytes":      "waits; beyond it a call fails",
	"peer.maxVisitorBytes":        "waits; beyond it a call fails",
	"guard.maxNamed":              "is remembered; beyond it rights are looked up again",
	"peers.maxEarlyBytes":         "a longer message is not held, and sent again",
	"lagging.mostRate":            "a rate",
	"statemachine.maxReportBytes": "carries a digest and a name: TestTheLargestDigestFitsIntoAReportAndASnapshot",
}

var largest = regexp.MustCompile(`\.(max|Max|most|Most)[A-Z]\w*$`)

// What has a limit on its size passes everything that may have to carry it. Sizes are the limits of which
// a document gives the value in bytes.
func TestTheLargestOfWhateverIsLimitedIsCarriedByATest(t *testing.T) {
	declared, seen := declarations(t), map[string]bool{}
	for path, rows := range limitRows(t) {
		for _, row := range rows {
			for _, name := range row.names {
				value, isDuration, ok := declared.value(declared[name])
				size := ok && !isDuration && row.saysBytes(value) || strings.HasSuffix(name, "Bytes")
				if !size || !largest.MatchString(name) {
					continue
				}
				seen[name] = true
				places := 0
				for _, there := range []bool{carried[name] != "", slices.Contains(inCalls, name), notCarried[name] != ""} {
					if there {
						places++
					}
				}
				if places != 1 {
					t.Errorf("%s has %s, the limit on a size: name the test that has the largest pass what carries it, or say why nothing has to", path, name)
				}
			}
		}
	}
	tests := testsByName(t)
	for name, test := range carried {
		bare := name[strings.LastIndex(name, ".")+1:]
		if !seen[name] || !regexp.MustCompile(`\b`+bare+`\b`).MatchString(tests[test]) {
			t.Errorf("%s is no limit on a size any more, or %s does not use it", name, test)
		}
	}
	call, _, _ := declared.value(declared["rpc.MaxCallBytes"])
	for _, name := range inCalls {
		if value, _, _ := declared.value(declared[name]); 16*value > call {
			t.Errorf("%s is %d: a call of %d bytes may have no room for it", name, value, call)
		}
	}
	for _, name := range append(slices.Collect(maps.Keys(notCarried)), inCalls...) {
		if !seen[name] {
			t.Errorf("%s is no limit on a size any more", name)
		}
	}
}

// saysBytes reports whether the row gives the value as a number of bytes or characters.
func (r limitRow) saysBytes(value int64) bool {
	var spellings []string
	for unit, size := range map[string]int64{"(, [\\d,]+)*( and [\\d,]+)? (bytes|characters)": 1, " KiB": 1 << 10, " MiB": 1 << 20, " GiB": 1 << 30} {
		if value%size == 0 {
			spellings = append(spellings, thousands(value/size)+unit)
		}
	}
	if mib, rest := value>>20, value%(1<<20); rest > 0 && rest%(1<<10) == 0 {
		spellings = append(spellings, thousands(mib)+` MiB \+ `+thousands(rest>>10)+" KiB")
	}
	for _, s := range spellings {
		if regexp.MustCompile(`(^|[^\d,.^])` + s + `($|[^\d\w])`).MatchString(r.text) {
			return true
		}
	}
	return false
}

// testsByName are the sources of all tests.
func testsByName(t *testing.T) map[string]string {
	t.Helper()
	found, begins := map[string]string{}, regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	for path, text := range files(t, "_test.go") {
		if strings.HasPrefix(path, "../../test/tidy/") {
			continue
		}
		at := begins.FindAllStringSubmatchIndex(text, -1)
		for i, m := range at {
			end := len(text)
			if i+1 < len(at) {
				end = at[i+1][0]
			}
			found[text[m[2]:m[3]]] += text[m[0]:end]
		}
	}
	return found
}
