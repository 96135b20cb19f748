package grpcserver

import (
	"cmp"
	"context"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/internal/digest"
	"strandline.dev/internal/node/reading"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
	"strandline.dev/internal/sequence"
	"strandline.dev/internal/server/rpc"
)

// verbNode answers each verb with values that a test can tell apart, or with
// refusal, if that is set.
type verbNode struct {
	*fakeNode
	refusal error
	changes chan verbs.Info
}

func (v *verbNode) Trim(_ context.Context, _ verbs.Caller, log string, before record.Offset, fastForward bool) (record.Offset, record.Offset, error) {
	if !fastForward {
		return 0, 0, v.refusal
	}
	return before, before + record.Offset(len(log)), v.refusal
}

func (v *verbNode) Seal(_ context.Context, _ verbs.Caller, log string) (record.Offset, record.Offset, error) {
	return 1, record.Offset(len(log)), v.refusal
}

func (v *verbNode) AcquireWriter(context.Context, verbs.Caller, string) (record.WriterTerm, record.Offset, error) {
	return 3, 4, v.refusal
}

// SetHold puts a hold at the end, which is 9, and refuses any other than sent in the tests.
func (v *verbNode) SetHold(_ context.Context, _ verbs.Caller, log string, h record.Hold, at reading.FromKind) (verbs.HoldPlace, error) {
	want := record.Hold{Name: "backup", Offset: 7, Owner: "ops", Lease: 2000, MaxBytes: 8, MaxAge: 3000, Pointer: []byte("here")}
	switch {
	case v.refusal != nil:
		return verbs.HoldPlace{}, v.refusal
	case log != "orders" || !reflect.DeepEqual(h, want):
		return verbs.HoldPlace{}, record.Refuse(record.Invalid, "%v", h)
	case at == reading.FromTail:
		return verbs.HoldPlace{Log: 4, Offset: 9, End: 9}, nil
	case at == reading.FromStart:
		return verbs.HoldPlace{Log: 4, Offset: 3, End: 9}, nil
	}
	return verbs.HoldPlace{Log: 4, Offset: h.Offset, End: 9}, nil
}

func (v *verbNode) KeepHold(_ context.Context, _ verbs.Caller, _, name string) error {
	return cmp.Or(v.refusal, isBackup(name))
}

func (v *verbNode) ReleaseHold(_ context.Context, _ verbs.Caller, _, name string) error {
	return cmp.Or(v.refusal, isBackup(name))
}

// LeaseWriter grants a term to whoever waits for it as in the tests, and shows to others who has it.
func (v *verbNode) LeaseWriter(_ context.Context, _ verbs.Caller, log string, w record.Writer, wait time.Duration) (verbs.WriterGrant, error) {
	grant := verbs.WriterGrant{Log: 4, State: writerState}
	if log == "orders" && wait == 3*time.Second && reflect.DeepEqual(w, record.Writer{Name: "a", Payload: []byte("there"), Lease: 2000}) {
		grant.Term, grant.End = 5, 9
	}
	return grant, v.refusal
}

var writerState = verbs.WriterState{
	Holder: sequence.Holder{Writer: record.Writer{Name: "b", Payload: []byte("here"), Lease: 7000}, Term: 8, Leased: 1_700_000_000_000}, Left: 6000, Waiting: 3,
}

func (v *verbNode) KeepWriter(_ context.Context, _ verbs.Caller, _ string, term record.WriterTerm) error {
	return cmp.Or(v.refusal, isFive(term))
}

func (v *verbNode) ReleaseWriter(_ context.Context, _ verbs.Caller, _ string, term record.WriterTerm, to string) error {
	return cmp.Or(v.refusal, isFive(term), isBackup(to))
}

func isFive(term record.WriterTerm) error {
	if term != 5 {
		return record.Refuse(record.Fenced, "%d", term)
	}
	return nil
}

// WatchWriter answers with the holder first, and then that it is gone, if that is asked for with the
// least interval.
func (v *verbNode) WatchWriter(_ context.Context, _ verbs.Caller, _ string, seen *verbs.WriterState, after time.Duration) (verbs.WriterState, error) {
	switch {
	case v.refusal != nil:
		return verbs.WriterState{}, v.refusal
	case seen == nil:
		return writerState, nil
	case seen.Holder.Term == 8 && after == 100*time.Millisecond:
		return verbs.WriterState{Holder: sequence.Holder{Term: 9}}, nil
	}
	return verbs.WriterState{}, record.Refuse(record.NotLeader, "it leads no longer")
}

func (v *verbNode) Digest(_ context.Context, _ verbs.Caller, _ string, q verbs.DigestRequest) (verbs.Digest, error) {
	d := verbs.Digest{Log: 4, At: q.At, From: 1, Covered: 6, Batches: 3, Root: digest.Hash{7}, Start: 2, End: 9}
	if q.Stale {
		d.End = 8
	}
	return d, v.refusal
}

func (v *verbNode) Prove(ctx context.Context, c verbs.Caller, log string, offset record.Offset, q verbs.DigestRequest) (digest.Proof, verbs.Digest, error) {
	d, err := v.Digest(ctx, c, log, q)
	return digest.Proof{Batch: record.Batch("batch"), Number: uint64(offset), Batches: 3, Path: []digest.Hash{{1}, {2}}}, d, err
}

func isBackup(name string) error {
	if name != "backup" {
		return record.Refuse(record.HoldNotFound, "%q", name)
	}
	return nil
}

func (v *verbNode) Info(_ context.Context, _ verbs.Caller, log string) (verbs.Info, error) {
	return verbs.Info{Name: log, End: 1}, v.refusal
}

func (v *verbNode) KnownHolds(verbs.Caller, string) ([]verbs.Hold, error) {
	return []verbs.Hold{{Hold: record.Hold{Name: "backup", Offset: 7, Pointer: []byte("here")}, Kept: 5}}, v.refusal
}

func (v *verbNode) KnownInfo(_ verbs.Caller, log string) (verbs.Info, error) {
	return verbs.Info{Name: log, End: 0}, v.refusal
}

func (v *verbNode) WatchInfo(ctx context.Context, _ verbs.Caller, _ string, since verbs.Info) (verbs.Info, error) {
	select {
	case i := <-v.changes:
		i.Start = since.End
		return i, nil
	case <-ctx.Done():
		return verbs.Info{}, ctx.Err()
	}
}

func (v *verbNode) OpenSession(_ context.Context, _ verbs.Caller, _ string, lease time.Duration) (verbs.Session, error) {
	return verbs.Session{ID: 5, Epoch: 6, Lease: lease}, v.refusal
}

func (v *verbNode) KeepSession(context.Context, verbs.Caller, string, record.SessionID) error {
	return v.refusal
}

func (v *verbNode) CloseSession(context.Context, verbs.Caller, string, record.SessionID) error {
	return v.refusal
}

func (v *verbNode) Resolve(_ context.Context, _ verbs.Caller, _ string, id record.SessionID, e record.Epoch, s record.Sequence, final bool) (sequence.Outcome, record.Epoch, error) {
	if final {
		return sequence.Outcome{State: sequence.Never}, e + 1, v.refusal
	}
	return sequence.Outcome{State: sequence.Committed, Offset: record.Offset(id) + record.Offset(s)}, e, v.refusal
}

func (v *verbNode) CreateLog(_ context.Context, _ verbs.Caller, name string, c settings.Config) (verbs.Info, error) {
	return verbs.Info{Name: name, Config: c}, v.refusal
}

func (v *verbNode) ConfigureLog(_ context.Context, _ verbs.Caller, name string, c settings.Config) (verbs.Info, error) {
	return verbs.Info{Name: name, Config: c}, v.refusal
}

func (v *verbNode) ListLogs(_ context.Context, _ verbs.Caller, internal bool) ([]verbs.Info, error) {
	logs := []verbs.Info{{Name: "orders"}}
	if internal {
		logs = append(logs, verbs.Info{Name: "_catalog"})
	}
	return logs, v.refusal
}

func (v *verbNode) DeleteLog(context.Context, verbs.Caller, string) error { return v.refusal }

func TestEachCallAsksItsVerb(t *testing.T) {
	ctx := context.Background()
	d := serve(t, &verbNode{fakeNode: newFakeNode()}, rpc.Options{})
	log := strandlinev1.NewLogServiceClient(d.conn)
	session := strandlinev1.NewSessionServiceClient(d.conn)
	catalog := strandlinev1.NewCatalogServiceClient(d.conn)

	trim, err := log.Trim(ctx, &strandlinev1.TrimRequest{Log: "orders", Before: 10, FastForward: true})
	require.NoError(t, err)
	require.EqualValues(t, 10, trim.StartOffset)
	require.EqualValues(t, 16, trim.EndOffset)

	sealed, err := log.Seal(ctx, &strandlinev1.SealRequest{Log: "orders"})
	require.NoError(t, err)
	require.EqualValues(t, 1, sealed.StartOffset)
	require.EqualValues(t, 6, sealed.EndOffset)

	writer, err := log.AcquireWriter(ctx, &strandlinev1.AcquireWriterRequest{Log: "orders"})
	require.NoError(t, err)
	require.EqualValues(t, 3, writer.WriterTerm)
	require.EqualValues(t, 4, writer.EndOffset)

	leased, err := log.LeaseWriter(ctx, &strandlinev1.LeaseWriterRequest{
		Log: "orders", Name: "a", Payload: []byte("there"), Lease: durationpb.New(2 * time.Second), Wait: durationpb.New(3 * time.Second),
	})
	require.NoError(t, err)
	require.Equal(t, []uint64{5, 9, 4}, []uint64{leased.WriterTerm, uint64(leased.EndOffset), leased.LogId})
	held := &strandlinev1.WriterState{
		WriterTerm: 8, Name: "b", Payload: []byte("here"), Lease: durationpb.New(7 * time.Second),
		Since: &timestamppb.Timestamp{Seconds: 1_700_000_000}, Left: durationpb.New(6 * time.Second), Waiting: 3,
	}
	require.Equal(t, held.String(), leased.State.String())
	vain, err := log.LeaseWriter(ctx, &strandlinev1.LeaseWriterRequest{Log: "orders", Name: "a"})
	require.NoError(t, err)
	require.Zero(t, vain.WriterTerm)
	for what, wrong := range map[string]*strandlinev1.LeaseWriterRequest{
		"negative lease": {Lease: durationpb.New(-1)}, "long wait": {Wait: durationpb.New(time.Minute + 1)}, "no duration": {Wait: &durationpb.Duration{Nanos: -1, Seconds: 1}},
	} {
		_, err := log.LeaseWriter(ctx, wrong)
		require.Equal(t, codes.InvalidArgument, status.Code(err), what)
	}
	_, err = log.KeepWriter(ctx, &strandlinev1.KeepWriterRequest{Log: "orders", WriterTerm: 5})
	require.NoError(t, err)
	_, err = log.ReleaseWriter(ctx, &strandlinev1.ReleaseWriterRequest{Log: "orders", WriterTerm: 5, To: "backup"})
	require.NoError(t, err)
	watch, err := log.WatchWriter(ctx, &strandlinev1.WatchWriterRequest{Log: "orders", Interval: durationpb.New(time.Nanosecond)})
	require.NoError(t, err)
	shown, err := watch.Recv()
	require.NoError(t, err)
	require.Equal(t, held.String(), shown.State.String())
	shown, err = watch.Recv()
	require.NoError(t, err)
	require.Equal(t, (&strandlinev1.WriterState{WriterTerm: 9}).String(), shown.State.String())
	_, err = watch.Recv()
	require.Equal(t, codes.Unavailable, status.Code(err))

	hold := &strandlinev1.Hold{
		Name: "backup", Offset: 7, Owner: "ops", Lease: durationpb.New(2 * time.Second), MaxBytes: 8, MaxAge: durationpb.New(3 * time.Second), Pointer: []byte("here"),
	}
	for want, position := range map[int64]*strandlinev1.ReadPosition{
		7: nil, 3: strandlinev1.ReadPosition_READ_POSITION_START.Enum(), 9: strandlinev1.ReadPosition_READ_POSITION_TAIL.Enum(),
	} {
		set, err := log.SetHold(ctx, &strandlinev1.SetHoldRequest{Log: "orders", Hold: hold, Position: position})
		require.NoError(t, err)
		require.Equal(t, want, set.Offset)
		require.EqualValues(t, 9, set.EndOffset)
		require.EqualValues(t, 4, set.LogId)
	}
	for what, wrong := range map[string]*strandlinev1.Hold{
		"negative lease": {Lease: durationpb.New(-1)}, "lease of centuries": {Lease: &durationpb.Duration{Seconds: 1 << 35}},
		"no duration": {MaxAge: &durationpb.Duration{Nanos: -1, Seconds: 1}}, "negative age": {MaxAge: durationpb.New(-time.Hour)},
	} {
		_, err := log.SetHold(ctx, &strandlinev1.SetHoldRequest{Log: "orders", Hold: wrong})
		require.Equal(t, codes.InvalidArgument, status.Code(err), what)
	}
	_, err = log.SetHold(ctx, &strandlinev1.SetHoldRequest{Log: "orders", Hold: hold, Position: strandlinev1.ReadPosition(77).Enum()})
	require.Equal(t, codes.Unimplemented, status.Code(err))
	_, err = log.KeepHold(ctx, &strandlinev1.KeepHoldRequest{Log: "orders", Name: "backup"})
	require.NoError(t, err)
	_, err = log.ReleaseHold(ctx, &strandlinev1.ReleaseHoldRequest{Log: "orders", Name: "backup"})
	require.NoError(t, err)

	for at, want := range map[*int64]int64{nil: -1, new(int64(7)): 7} {
		d, err := log.Digest(ctx, &strandlinev1.DigestRequest{Log: "orders", At: at, AllowStale: at != nil})
		require.NoError(t, err)
		require.Equal(t, []int64{want, 1, 6, 3, 2, 9 - min(want+1, 1)}, []int64{d.At, d.From, d.Covered, int64(d.Batches), d.StartOffset, d.EndOffset})
		require.Equal(t, byte(7), d.Digest[0])
		p, err := log.Prove(ctx, &strandlinev1.ProveRequest{Log: "orders", Offset: 2, At: at, AllowStale: at != nil})
		require.NoError(t, err)
		require.Equal(t, d.String(), p.Digest.String())
		require.Equal(t, "batch", string(p.Batch))
		require.EqualValues(t, 2, p.Number)
		require.Equal(t, []byte{1, 2}, []byte{p.Path[0][0], p.Path[1][0]})
	}
	_, err = log.Digest(ctx, &strandlinev1.DigestRequest{Log: "orders", At: new(int64(-1))})
	require.Equal(t, codes.InvalidArgument, status.Code(err))

	fresh, err := log.GetInfo(ctx, &strandlinev1.GetInfoRequest{Log: "orders"})
	require.NoError(t, err)
	require.EqualValues(t, 1, fresh.Info.EndOffset)
	require.Len(t, fresh.Info.Holds, 1)
	require.Equal(t, (&strandlinev1.Hold{Name: "backup", Offset: 7, Pointer: []byte("here"), KeptBytes: 5}).String(), fresh.Info.Holds[0].String())
	stale, err := log.GetInfo(ctx, &strandlinev1.GetInfoRequest{Log: "orders", AllowStale: true})
	require.NoError(t, err)
	require.EqualValues(t, 0, stale.Info.EndOffset)

	opened, err := session.OpenSession(ctx, &strandlinev1.OpenSessionRequest{Log: "orders", Lease: durationpb.New(time.Second)})
	require.NoError(t, err)
	require.EqualValues(t, 5, opened.SessionId)
	require.EqualValues(t, 6, opened.Epoch)
	require.Equal(t, time.Second, opened.Lease.AsDuration())
	_, err = session.KeepSession(ctx, &strandlinev1.KeepSessionRequest{Log: "orders", SessionId: 5})
	require.NoError(t, err)
	_, err = session.CloseSession(ctx, &strandlinev1.CloseSessionRequest{Log: "orders", SessionId: 5})
	require.NoError(t, err)
	resolved, err := session.Resolve(ctx, &strandlinev1.ResolveRequest{Log: "orders", SessionId: 5, Epoch: 1, Sequence: 2})
	require.NoError(t, err)
	require.Equal(t, strandlinev1.ResolveState_RESOLVE_STATE_COMMITTED, resolved.State)
	require.EqualValues(t, 7, resolved.Offset)
	require.EqualValues(t, 1, resolved.Epoch)
	resolved, err = session.Resolve(ctx, &strandlinev1.ResolveRequest{Log: "orders", SessionId: 5, Epoch: 1, Sequence: 2, Final: true})
	require.NoError(t, err)
	require.Equal(t, strandlinev1.ResolveState_RESOLVE_STATE_NEVER, resolved.State)
	require.EqualValues(t, 2, resolved.Epoch)

	config := &strandlinev1.LogConfig{
		Durability: strandlinev1.Durability_DURABILITY_MEMORY, Retention: durationpb.New(time.Minute), RetentionBytes: 9, Replicas: 1,
	}
	created, err := catalog.CreateLog(ctx, &strandlinev1.CreateLogRequest{Name: "orders", Config: config})
	require.NoError(t, err)
	require.Equal(t, config.String(), created.Info.Config.String())
	configured, err := catalog.ConfigureLog(ctx, &strandlinev1.ConfigureLogRequest{Name: "orders", Config: config})
	require.NoError(t, err)
	require.Equal(t, config.String(), configured.Info.Config.String())
	listed, err := catalog.ListLogs(ctx, &strandlinev1.ListLogsRequest{IncludeInternal: true})
	require.NoError(t, err)
	require.Len(t, listed.Logs, 2)
	_, err = catalog.DeleteLog(ctx, &strandlinev1.DeleteLogRequest{Name: "orders"})
	require.NoError(t, err)
}

func TestEachCallReturnsARefusal(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	d := serve(t, &verbNode{fakeNode: newFakeNode(), refusal: record.Refuse(record.Fenced, "fenced")}, rpc.Options{})
	log := strandlinev1.NewLogServiceClient(d.conn)
	session := strandlinev1.NewSessionServiceClient(d.conn)
	catalog := strandlinev1.NewCatalogServiceClient(d.conn)
	for name, call := range map[string]func() error{
		"Digest":        func() error { _, err := log.Digest(ctx, &strandlinev1.DigestRequest{}); return err },
		"Prove":         func() error { _, err := log.Prove(ctx, &strandlinev1.ProveRequest{}); return err },
		"Trim":          func() error { _, err := log.Trim(ctx, &strandlinev1.TrimRequest{}); return err },
		"Seal":          func() error { _, err := log.Seal(ctx, &strandlinev1.SealRequest{}); return err },
		"AcquireWriter": func() error { _, err := log.AcquireWriter(ctx, &strandlinev1.AcquireWriterRequest{}); return err },
		"SetHold":       func() error { _, err := log.SetHold(ctx, &strandlinev1.SetHoldRequest{}); return err },
		"KeepHold":      func() error { _, err := log.KeepHold(ctx, &strandlinev1.KeepHoldRequest{}); return err },
		"ReleaseHold":   func() error { _, err := log.ReleaseHold(ctx, &strandlinev1.ReleaseHoldRequest{}); return err },
		"LeaseWriter":   func() error { _, err := log.LeaseWriter(ctx, &strandlinev1.LeaseWriterRequest{}); return err },
		"KeepWriter":    func() error { _, err := log.KeepWriter(ctx, &strandlinev1.KeepWriterRequest{}); return err },
		"ReleaseWriter": func() error { _, err := log.ReleaseWriter(ctx, &strandlinev1.ReleaseWriterRequest{}); return err },
		"WatchWriter": func() error {
			s, err := log.WatchWriter(ctx, &strandlinev1.WatchWriterRequest{})
			require.NoError(t, err)
			_, err = s.Recv()
			return err
		},
		"GetInfo":       func() error { _, err := log.GetInfo(ctx, &strandlinev1.GetInfoRequest{}); return err },
		"known GetInfo": func() error { _, err := log.GetInfo(ctx, &strandlinev1.GetInfoRequest{AllowStale: true}); return err },
		"WatchInfo": func() error {
			s, err := log.WatchInfo(ctx, &strandlinev1.WatchInfoRequest{})
			require.NoError(t, err)
			_, err = s.Recv()
			return err
		},
		"OpenSession":  func() error { _, err := session.OpenSession(ctx, &strandlinev1.OpenSessionRequest{}); return err },
		"KeepSession":  func() error { _, err := session.KeepSession(ctx, &strandlinev1.KeepSessionRequest{}); return err },
		"CloseSession": func() error { _, err := session.CloseSession(ctx, &strandlinev1.CloseSessionRequest{}); return err },
		"Resolve":      func() error { _, err := session.Resolve(ctx, &strandlinev1.ResolveRequest{}); return err },
		"CreateLog":    func() error { _, err := catalog.CreateLog(ctx, &strandlinev1.CreateLogRequest{}); return err },
		"ListLogs":     func() error { _, err := catalog.ListLogs(ctx, &strandlinev1.ListLogsRequest{}); return err },
		"ConfigureLog": func() error { _, err := catalog.ConfigureLog(ctx, &strandlinev1.ConfigureLogRequest{}); return err },
		"DeleteLog":    func() error { _, err := catalog.DeleteLog(ctx, &strandlinev1.DeleteLogRequest{}); return err },
	} {
		require.Equal(t, codes.Aborted, status.Code(call()), name)
	}
}

func TestAWatchSendsTheStateAtOnceAndThenChanges(t *testing.T) {
	t.Parallel()
	n := &verbNode{fakeNode: newFakeNode(), changes: make(chan verbs.Info, 1)}
	d := serve(t, n, rpc.Options{})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	w, err := strandlinev1.NewLogServiceClient(d.conn).WatchInfo(ctx, &strandlinev1.WatchInfoRequest{
		Log: "orders", MinInterval: durationpb.New(time.Nanosecond),
	})
	require.NoError(t, err)
	first, err := w.Recv()
	require.NoError(t, err)
	require.EqualValues(t, 1, first.Info.EndOffset)
	n.changes <- verbs.Info{End: 2}
	second, err := w.Recv()
	require.NoError(t, err)
	require.EqualValues(t, 2, second.Info.EndOffset)
	require.EqualValues(t, 1, second.Info.StartOffset, "the node was not told what is known already")
}

func TestSettingsThatCannotBeSaidAreRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]*strandlinev1.LogConfig{
		"unknown durability": {Durability: 77},
		"bad retention":      {Retention: &durationpb.Duration{Seconds: 1, Nanos: -1}},
	} {
		_, refusal := decodeConfig(c)
		require.NotNil(t, refusal, name)
	}
}

func TestEveryResolveStateHasANumber(t *testing.T) {
	t.Parallel()
	for s := sequence.Committed; s <= sequence.Forgotten; s++ {
		require.NotZero(t, resolveStates[s], s)
	}
}
