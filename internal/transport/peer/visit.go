package peer

import (
	"context"
	"fmt"
	"net"
)

// Accept serves an incoming connection. It does not block. If Options.Prove refuses the
// connection, Accept closes it before it counts and before anything is sent.
func (m *Mesh) Accept(conn net.Conn) {
	raw, _ := unread(conn)
	proved, refusal := m.options.proved(raw, opening{})
	if refusal.judgement != welcome {
		m.reportUnproved(raw, refusal.reason)
		closeNow(raw)
		return
	}
	places, from := &m.unproved, whereabouts(raw)
	if proved != "" {
		places, from = &m.proved, proved
	}
	if !m.start(func() {
		place := places.enter(m.context, raw, from, m.pace.handshake/2)
		if place == nil {
			closeNow(raw)
			return
		}
		m.receiveVisitor(conn, func() { places.leave(place) })
	}) {
		closeNow(raw)
	}
}

// receiveVisitor performs the handshake with the node that dialled, and serves the connection.
func (m *Mesh) receiveVisitor(conn net.Conn, leave func()) {
	var theirs opening
	var of *link
	c, err := m.open(m.context, conn, false, func(o opening) (v verdict) {
		theirs = o
		v, of = m.judgeVisitor(o)
		return v
	})
	switch {
	case err != nil:
		leave()
		m.reportVisitor(theirs.Node, err)
	case of != nil:
		leave()
		of.carry(c)
	default:
		_ = c.run() // the node that asks detects the end
		leave()
	}
}

// judgeVisitor returns the verdict on a node that dialled and, unless the node only asks, the
// link that the connection belongs to.
func (m *Mesh) judgeVisitor(theirs opening) (verdict, *link) {
	_, self := m.identity()
	switch {
	case theirs.Ask:
		v := m.judgeAsking(theirs)
		if l := m.link(theirs.Node.ID); l != nil && v.judgement == welcome {
			l.dialNow() // the node can be reached
		}
		return v, nil
	case self.ID == 0:
		return verdict{notYet, "this node has not joined a cluster yet"}, nil
	case theirs.Node.ID == 0:
		return verdict{refused, "a node that has not joined a cluster may only ask"}, nil
	}
	if v := m.admit(theirs); v.judgement != welcome {
		return v, nil
	}
	of := m.link(theirs.Node.ID)
	switch {
	case theirs.Node.ID == self.ID:
		return verdict{refused, fmt.Sprintf("%d is the id of the answering node itself: an address given for another node leads to this one, or two nodes run on copies of one data directory; correct the address, or give one of them an empty directory", self.ID)}, nil
	case theirs.Node.ID > self.ID:
		return verdict{refused, fmt.Sprintf("node %v must wait for a connection from node %v, whose id is lower", theirs.Node, self)}, nil
	case of == nil:
		return verdict{notYet, fmt.Sprintf("node %v is not known here yet", theirs.Node)}, nil
	}
	return verdict{}, of
}

// judgeAsking returns the verdict on the other side of a connection for questions, on either
// side.
func (m *Mesh) judgeAsking(theirs opening) verdict {
	cluster, self := m.identity()
	if theirs.Cluster == cluster && theirs.Node == self {
		return verdict{} // the other side is this node
	}
	return m.admit(theirs)
}

// Ask is Call over a short connection to an address. It needs no cluster, and may ask this node
// itself. A refusal by either side is a *RefusedError. After a refusal, or if there is no
// connection, nothing was asked.
func (m *Mesh) Ask(ctx context.Context, address, kind string, request []byte) ([]byte, error) {
	if size := 1 + len(kind) + len(request); size > maxAsked {
		return nil, fmt.Errorf("call %s has %d bytes, the limit on a connection for one call is %d", kind, size, maxAsked)
	}
	c, err := m.openToAsk(ctx, address)
	if err != nil {
		return nil, err
	}
	if !m.start(func() { _ = c.run() }) { // the reason of its end is the error of the call
		_ = c.conn.Close()
		return nil, ErrClosed
	}
	defer func() {
		c.close(errAsked)
		<-c.done
	}()
	return c.call(ctx, kind, request)
}

func (m *Mesh) openToAsk(ctx context.Context, address string) (*connection, error) {
	ctx, cancel := context.WithTimeout(ctx, m.pace.handshake)
	defer cancel()
	stop := context.AfterFunc(m.context, cancel)
	defer stop()
	conn, err := m.options.Dial(ctx, address)
	if err != nil {
		return nil, err
	}
	c, err := m.open(ctx, conn, true, m.judgeAsking)
	if err != nil && ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return c, err
}
