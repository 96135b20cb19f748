package durablestreams

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/internal/record"
)

// oneLog is a log as a node shows it, in memory.
type oneLog struct {
	strandlinev1.LogServiceClient
	records []*strandlinev1.Record
	// before is called before the next append.
	before func()
	// after is called when the next answer is lost.
	after func()
	// lost is what becomes of the next appends whose answers are lost: they are appended, or not.
	lost []bool
	// blind: it cannot be read.
	blind bool
	// cut is after how many records a read fails; 0: it does not.
	cut int
}

type frames struct {
	grpc.ServerStreamingClient[strandlinev1.ReadResponse]
	left []*strandlinev1.ReadResponse
	last error
}

func (f *frames) Recv() (*strandlinev1.ReadResponse, error) {
	if len(f.left) == 0 {
		return nil, f.last
	}
	one := f.left[0]
	f.left = f.left[1:]
	return one, nil
}

func (l *oneLog) Read(_ context.Context, q *strandlinev1.ReadRequest, _ ...grpc.CallOption) (grpc.ServerStreamingClient[strandlinev1.ReadResponse], error) {
	if l.blind {
		return nil, record.Refuse(record.NotLeader, "nobody knows")
	}
	from, end := q.GetOffset(), int64(len(l.records))
	f := &frames{last: io.EOF}
	if q.GetFollow() {
		f.left = append(f.left, &strandlinev1.ReadResponse{LogId: 1, FirstOffset: from, EndOffset: end})
	}
	if read := end - from; l.cut > 0 && read > int64(l.cut) {
		end, f.last = from+int64(l.cut), record.Refuse(record.Busy, "cut off")
	}
	if from < end {
		f.left = append(f.left, &strandlinev1.ReadResponse{LogId: 1, FirstOffset: from, EndOffset: end, RecordCount: int32(end - from), Records: l.records[from:end]})
	}
	return f, nil
}

type appending struct {
	grpc.BidiStreamingClient[strandlinev1.AppendRequest, strandlinev1.AppendResponse]
	log *oneLog
	q   *strandlinev1.AppendRequest
}

func (l *oneLog) Append(context.Context, ...grpc.CallOption) (grpc.BidiStreamingClient[strandlinev1.AppendRequest, strandlinev1.AppendResponse], error) {
	return &appending{log: l}, nil
}

func (a *appending) Send(q *strandlinev1.AppendRequest) error {
	a.q = q
	return nil
}

func (a *appending) Recv() (*strandlinev1.AppendResponse, error) {
	l := a.log
	if before := l.before; before != nil {
		l.before = nil
		before()
	}
	if a.q.ExpectedEnd != nil && a.q.GetExpectedEnd() != int64(len(l.records)) {
		return &strandlinev1.AppendResponse{Result: &strandlinev1.AppendResponse_Refused{Refused: &strandlinev1.Refusal{Reason: "END_MISMATCH"}}}, nil
	}
	lost, appends := len(l.lost) > 0, true
	if lost {
		appends, l.lost = l.lost[0], l.lost[1:]
	}
	first := int64(len(l.records))
	if appends {
		for _, r := range a.q.GetRecords() {
			r.Offset = int64(len(l.records))
			l.records = append(l.records, r)
		}
	}
	if lost {
		if after := l.after; after != nil {
			l.after = nil
			after()
		}
		return &strandlinev1.AppendResponse{Result: &strandlinev1.AppendResponse_Refused{Refused: &strandlinev1.Refusal{Reason: "OUTCOME_UNKNOWN"}}}, nil
	}
	return &strandlinev1.AppendResponse{Result: &strandlinev1.AppendResponse_Appended{Appended: &strandlinev1.Appended{FirstOffset: first, EndOffset: int64(len(l.records))}}}, nil
}

// nodeOf is a node of its own in front of a log.
func nodeOf(l *oneLog) func(method, body string, headers ...string) *httptest.ResponseRecorder {
	streams := NewStreams()
	return func(method, body string, headers ...string) *httptest.ResponseRecorder {
		w, q := httptest.NewRecorder(), httptest.NewRequest(method, "/streams/s", nil)
		q.Header = headersOf(append(headers, "Content-Type: text/plain")...)
		Handler{
			Logs: l, Streams: streams,
			Refuse: func(w http.ResponseWriter, status int, err error) {
				if status == 0 {
					status = http.StatusServiceUnavailable
				}
				w.WriteHeader(status)
				_, _ = io.WriteString(w, err.Error())
			},
			Body: func(int64, int64) ([]byte, error) { return []byte(body), nil },
			May:  func(context.Context, string, string) error { return nil },
			Able: func(context.Context, string, string) bool { return true },
		}.Serve(w, q, "s")
		return w
	}
}

func (l *oneLog) text() string {
	var all strings.Builder
	for _, r := range l.records {
		all.Write(r.GetValue())
	}
	return all.String()
}

// Two nodes decide at the same end, and one is first: the other one decides again.
func TestAWriteIsDecidedAgainWhereTheLogHasGrown(t *testing.T) {
	l := new(oneLog)
	a, b := nodeOf(l), nodeOf(l)
	l.before = func() { require.Equal(t, http.StatusCreated, b(http.MethodPut, "").Code) }
	require.Equal(t, http.StatusOK, a(http.MethodPut, "").Code)
	for _, c := range []struct {
		first, second []string // headers
		want          int
	}{
		{nil, nil, 204},
		{[]string{"Producer-Id: p", "Producer-Epoch: 0", "Producer-Seq: 0"}, []string{"Producer-Id: p", "Producer-Epoch: 0", "Producer-Seq: 0"}, 204},
		{[]string{"Producer-Id: p", "Producer-Epoch: 0", "Producer-Seq: 1"}, []string{"Producer-Id: q", "Producer-Epoch: 0", "Producer-Seq: 0"}, 200},
		{[]string{"Producer-Id: p", "Producer-Epoch: 1", "Producer-Seq: 0"}, []string{"Producer-Id: p", "Producer-Epoch: 0", "Producer-Seq: 2"}, 403},
		{[]string{"Stream-Seq: b"}, []string{"Stream-Seq: a"}, 409},
		{[]string{"Stream-Closed: true"}, nil, 409},
	} {
		l.before = func() { require.Less(t, b(http.MethodPost, "b", c.first...).Code, 300) }
		require.Equal(t, c.want, a(http.MethodPost, "a", c.second...).Code, "%v behind %v", c.second, c.first)
	}
	require.Equal(t, "babbabbb", l.text())
}

func TestAWriteWhoseAnswerIsLostIsThereOnceAndAnsweredWell(t *testing.T) {
	l := new(oneLog)
	a, b := nodeOf(l), nodeOf(l)
	l.lost = []bool{false, true}
	require.Equal(t, http.StatusCreated, a(http.MethodPut, "0").Code)
	l.lost = []bool{true}
	w := a(http.MethodPost, "1")
	require.Equal(t, http.StatusNoContent, w.Code)
	require.Equal(t, formatOffset(2), w.Header().Get("Stream-Next-Offset"))
	l.lost = []bool{false}
	require.Equal(t, http.StatusNoContent, a(http.MethodPost, "2").Code)
	l.lost = []bool{true}
	w = a(http.MethodPost, "3", "Producer-Id: p", "Producer-Epoch: 0", "Producer-Seq: 0")
	require.Equal(t, http.StatusOK, w.Code)
	l.lost = []bool{false}
	l.after = func() { require.Equal(t, http.StatusNoContent, b(http.MethodPost, "4").Code) }
	require.Equal(t, http.StatusNoContent, a(http.MethodPost, "5").Code, "another one is where it was to be")
	require.Equal(t, "012345", l.text())

	l.lost, l.before = []bool{false}, func() { l.blind = true }
	w = a(http.MethodPost, "6")
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.Contains(t, w.Body.String(), "OUTCOME_UNKNOWN", "what nobody can look for is not known")
}

func TestAFoldThatFailsContinuesWhereItWas(t *testing.T) {
	l := new(oneLog)
	a, b := nodeOf(l), nodeOf(l)
	require.Equal(t, http.StatusCreated, a(http.MethodPut, "0").Code)
	for range 9 {
		require.Equal(t, http.StatusNoContent, a(http.MethodPost, "1").Code)
	}
	l.cut = 4
	require.Equal(t, http.StatusServiceUnavailable, b(http.MethodHead, "").Code)
	require.Equal(t, http.StatusServiceUnavailable, b(http.MethodHead, "").Code)
	w := b(http.MethodHead, "")
	require.Equal(t, http.StatusOK, w.Code)
	require.Equal(t, formatOffset(10), w.Header().Get("Stream-Next-Offset"))
}

func TestReasonsOfErrorsAreFoundInThem(t *testing.T) {
	require.Equal(t, record.Busy, reasonOf(record.Refuse(record.Busy, "x")))
	require.Zero(t, reasonOf(errors.New("x")))
	require.Zero(t, reasonOf(nil))
}
