package faults

import (
	"errors"
	"io"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	strandlinev1 "strandline.dev/api/strandline/v1"
)

// appending is one append stream. One goroutine takes the client's requests and gives
// each a turn; the handler's goroutine answers them in that order.
type appending struct {
	node        *node
	client      grpc.ServerStream
	target      grpc.ClientStream
	turns       chan turn // closed when the client has sent its last request
	log         string    // as the client's first request names it
	named       bool      // to the node
	outstanding atomic.Int64
}

// turn is one request that is to be answered.
type turn struct {
	rule Rule
}

// forwarded reports whether the node gets the request.
func (t turn) forwarded() bool {
	switch t.rule.Do {
	case CutBefore, Refuse, Status, End, Hold:
		return false
	}
	return true
}

func (a *appending) run() error {
	go a.receive()
	for t := range a.turns {
		if err := a.answer(t); err != nil {
			if errors.Is(err, errEnd) {
				return nil
			}
			return err
		}
	}
	// The client has no more requests, or is gone.
	var nothing []byte
	if err := a.target.RecvMsg(&nothing); !errors.Is(err, io.EOF) {
		return a.node.server.failure(err)
	}
	return nil
}

// receive takes requests until the client's stream ends.
func (a *appending) receive() {
	defer close(a.turns)
	for {
		var request []byte
		if err := a.client.RecvMsg(&request); err != nil {
			_ = a.target.CloseSend()
			return
		}
		a.node.server.most("in flight", int(a.outstanding.Add(1)))
		t := turn{a.node.server.meet("Append", a.node.number)}
		request = a.note(request, t.forwarded())
		times := 0
		if t.forwarded() {
			times = 1
		}
		if t.rule.Do == Twice {
			times = 2
		}
		for range times {
			if a.target.SendMsg(&request) != nil {
				break // the answering goroutine gets the reason
			}
		}
		select {
		case a.turns <- t:
		case <-a.client.Context().Done():
			return
		}
	}
}

// note keeps what tests ask for of a request. It returns the request as the node is to get
// it: the first one names the log, which the client's first may not have reached.
func (a *appending) note(request []byte, forwarded bool) []byte {
	var q strandlinev1.AppendRequest
	if proto.Unmarshal(request, &q) != nil {
		return request
	}
	a.node.server.noteBatch(batch{q.SessionId, q.Epoch, q.FirstSequence})
	if q.Log != "" {
		a.log = q.Log
	}
	if forwarded && !a.named {
		a.named, q.Log = true, a.log
		if named, err := proto.Marshal(&q); err == nil {
			return named
		}
	}
	return request
}

// answer answers one request.
func (a *appending) answer(t turn) error {
	var data []byte
	if t.forwarded() {
		var err error
		if data, err = a.fromNode(t.rule.Do); err != nil {
			return err
		}
	}
	switch t.rule.Do {
	case CutBefore, CutAfter:
		return a.node.cut()
	case Status, StatusAfter:
		return t.rule.status()
	case End:
		return errEnd
	case Hold:
		return hold(a.client)
	case Delay:
		if err := wait(a.client, t.rule.delay()); err != nil {
			return err
		}
	case Refuse, RefuseAfter:
		for a.outstanding.Load() <= int64(t.rule.Behind) {
			if err := wait(a.client, time.Millisecond); err != nil {
				return err
			}
		}
		refused, err := t.rule.refusal()
		if err != nil {
			return err
		}
		data = refused
	}
	a.outstanding.Add(-1)
	return a.client.SendMsg(&data)
}

// fromNode receives the node's answer, and with Twice that to the same request again.
func (a *appending) fromNode(fault Fault) ([]byte, error) {
	var data, again []byte
	if err := a.target.RecvMsg(&data); err != nil {
		return nil, a.node.server.failure(err)
	}
	if fault == Twice {
		if err := a.target.RecvMsg(&again); err != nil {
			return nil, a.node.server.failure(err)
		}
	}
	for _, d := range [][]byte{data, again} {
		var r strandlinev1.AppendResponse
		if proto.Unmarshal(d, &r) == nil && r.GetAppended().GetDuplicate() {
			a.node.server.count("duplicates")
		}
	}
	return a.node.server.answer("Append", data, fault)
}
