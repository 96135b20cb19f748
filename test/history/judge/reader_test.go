package judge

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/test/history"
)

func checkText(files ...string) (*Report, error) {
	var inputs []history.Input
	for i, text := range files {
		inputs = append(inputs, history.Input{Name: string(rune('a' + i)), Reader: strings.NewReader(text)})
	}
	return Check(history.NewReader(inputs...), Options{})
}

const (
	invokeLine = `{"t":5,"event":"invoke","client":"a","call":1,"do":"append","log":"orders","hashes":"0000000000000001"}` + "\n"
	returnLine = `{"t":9,"event":"return","client":"a","call":1,"outcome":"ok","first":0}` + "\n"
)

func TestAHistoryThatMakesNoSenseIsRefusedWithItsLine(t *testing.T) {
	for claim, text := range map[string]string{
		"a:1: event is missing":             `{"t":1}`,
		`a:1: no such event: "invok"`:       `{"t":1,"event":"invok"}`,
		`a:1: json: unknown field "clint"`:  `{"t":1,"event":"crash","clint":"a"}`,
		"a:1: hashes is missing":            `{"t":1,"event":"invoke","client":"a","call":1,"do":"append","log":"l"}`,
		"a:1: do is missing":                `{"t":1,"event":"invoke","client":"a","call":1,"log":"l"}`,
		"a:1: client is missing":            `{"t":1,"event":"invoke","call":1,"do":"info","log":"l"}`,
		"a:2: time goes back from 5 to 4":   invokeLine + strings.Replace(returnLine, "9", "4", 1),
		"a:1: call 1 of client a is not":    returnLine,
		"a:2: call 1 of client a does not":  invokeLine + invokeLine,
		"a:2: an append that is ok has one": invokeLine + strings.Replace(returnLine, `,"first":0`, "", 1),
		"a:2: 1 records were appended":      invokeLine + strings.Replace(returnLine, `"first":0`, `"ranges":[[0,2]]`, 1),
		"a:2: 1 records were appended, the ranges hold more": invokeLine + strings.Replace(returnLine, `"first":0`,
			`"ranges":[[0,4611686018427387904],[0,4611686018427387904],[0,4611686018427387904],[0,4611686018427387905]]`, 1),
		"a:2: range [2, 1)":                  invokeLine + strings.Replace(returnLine, `"first":0`, `"ranges":[[2,1]]`, 1),
		"a:2: a frame for call 1":            invokeLine + `{"t":9,"event":"frame","client":"a","call":1,"first":0}`,
		"a:1: after the event":               `{"t":1,"event":"crash","client":"a"} {}`,
		"a:1: hashes of 3 digits":            strings.Replace(invokeLine, "0000000000000001", "001", 1),
		"a:2: 1 records from offset 9223372": invokeLine + strings.Replace(returnLine, `"first":0`, `"first":9223372036854775807`, 1),
	} {
		_, err := checkText(text + "\n")
		require.ErrorContains(t, err, claim)
	}
}

func TestALineThatIsTooLongIsRefusedWithoutReadingItAll(t *testing.T) {
	endless := io.MultiReader(strings.NewReader(`{"t":1,"event":"`), forever{})
	_, err := Check(history.NewReader(history.Input{Name: "a", Reader: endless}), Options{})
	require.ErrorContains(t, err, "a:1: a line of more than 16777216 bytes")
}

type forever struct{}

func (forever) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 'x'
	}
	return len(b), nil
}

func TestHalfALineAtTheEndIsLeftOut(t *testing.T) {
	in := history.NewReader(history.Input{Name: "a", Reader: strings.NewReader(invokeLine + returnLine[:20])})
	report, err := Check(in, Options{})
	require.NoError(t, err)
	require.Equal(t, 1, in.Torn())
	require.Equal(t, 1, report.Open)
	require.Equal(t, 1, report.Unknown)

	report, err = checkText(invokeLine + strings.TrimSpace(returnLine))
	require.NoError(t, err, "only its end is missing")
	require.Equal(t, 1, report.Acked)
}

func TestSeveralFilesAreOneHistoryInTheOrderOfTime(t *testing.T) {
	other := `{"t":5,"event":"frame","client":"b","call":1,"first":0,"hashes":"0000000000000001"}` + "\n"
	begun := `{"t":1,"event":"invoke","client":"b","call":1,"do":"read","log":"orders"}` + "\n"
	report, err := checkText(begun+other, invokeLine+returnLine)
	require.NoError(t, err)
	require.Empty(t, report.Violations, "at the same time, the append begins first")
	require.Equal(t, 1, report.ReadBack)

	in := history.NewReader(history.Input{Name: "a", Reader: strings.NewReader(begun + other)}, history.Input{Name: "b", Reader: strings.NewReader(invokeLine + returnLine)})
	var places []history.Place
	for {
		_, at, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		places = append(places, at)
	}
	require.Equal(t, []history.Place{{File: 0, Line: 1}, {File: 1, Line: 1}, {File: 0, Line: 2}, {File: 1, Line: 2}}, places)
}

func TestWhatIsNotListedIsCounted(t *testing.T) {
	h := newHistoryWriter()
	for range 25 {
		h.acked(0, history.Event{Hashes: history.Hashes{uint64(h.now)}, Deadline: 1})
	}
	report := check(t, h)
	listed := 0
	for _, v := range report.Violations {
		if v.Rule == "deadline" {
			listed++
		}
	}
	require.Equal(t, 10, listed)
	require.Equal(t, 15, report.Unlisted["deadline"])
}
