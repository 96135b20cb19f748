package client

import (
	"context"

	"google.golang.org/grpc"

	strandlinev1 "strandline.dev/api/strandline/v1"
)

// AppendStored appends whole record batches of format v2, one after the other and at most 64 MiB, as
// another log has stored them, and returns the end of the log behind them. A copy of a log that has
// the same batches at the same offsets has the same digest; a Producer would make other batches. The
// log must end at the offset at: otherwise the error is ErrEndMismatch, and Error.End is the end. After
// an error with outcome MaybeDone, some or all of the batches are in the log, from the first on.
func (a *Admin) AppendStored(ctx context.Context, log string, batches []byte, at int64) (end int64, err error) {
	request := &strandlinev1.AppendRequest{Log: log, Batches: batches, ExpectedEnd: &at}
	err = a.call(ctx, log, once, func(ctx context.Context, conn *grpc.ClientConn) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stream, err := strandlinev1.NewLogServiceClient(conn).Append(ctx)
		if err != nil {
			return err
		}
		if err := stream.Send(request); err != nil {
			_, err = stream.Recv() // the reason
			return err
		}
		answer, err := stream.Recv()
		if err != nil {
			return err
		}
		if r := answer.GetRefused(); r != nil {
			return fromRefusal(r)
		}
		end = answer.GetAppended().GetEndOffset()
		return nil
	})
	return end, err
}
