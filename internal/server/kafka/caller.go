package kafkaserver

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"strandline.dev/internal/cluster/access"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
	"strandline.dev/internal/server/guard"
)

const (
	// proveTime and proveBytes limit a connection until its client has authenticated, if it must.
	proveTime  = 10 * time.Second
	proveBytes = 16 << 10
)

// login is the state of an authentication by password. It belongs to the goroutine that sends
// answers.
type login struct {
	attempt *guard.Login
	// bare is set while the client logs in by version 0 of SASLHandshake, whose messages have no
	// header.
	bare atomic.Bool
	// user is the principal that the client has proved to be first, which later logins must prove
	// again (KIP-368).
	user string
	// failed: the connection ends behind the answer.
	failed bool
}

var (
	errLoginFailed = errors.New("the client is not authenticated")
	errOtherUser   = errors.New("another user than before on this connection: log in on another one")
	errNoMember    = errors.New("the client's certificate is that of a node that is not a member of the cluster")
)

// identify closes the connection later, unless forget is called, if the client must authenticate
// and its certificate does not suffice.
func (c *connection) identify() (forget func() bool) {
	if !c.mustProve() {
		return func() bool { return false }
	}
	return c.awaitProof()
}

// awaitProof closes the connection if its client does not authenticate in time, unless forget is
// called.
func (c *connection) awaitProof() (forget func() bool) {
	return time.AfterFunc(proveTime, func() {
		if c.mustProve() {
			_ = c.conn.Close()
		}
	}).Stop
}

// kafkaPort is the name of the port in lists of connections.
const kafkaPort = "kafka"

// count counts the connection until left is called. The error refuses a client that has too many
// and has authenticated with a certificate.
func (c *connection) count() (left func(), err error) {
	s := c.server
	c.prove, left = s.node.Connected(kafkaPort, s.options.MaxConnections, c.conn.RemoteAddr(), func() { s.cut(func(one *connection) bool { return one == c }) })
	return left, c.prove(guard.With(c.ctx, c.holder.Load()))
}

// caller returns the client as the caller of the node.
func (c *connection) caller() verbs.Caller {
	if h := c.holder.Load(); h != nil {
		return verbs.Caller{By: h}
	}
	return verbs.Caller{}
}

// holderName returns the key by which the client's share of common resources is counted: its
// principal, or else its address.
func (c *connection) holderName() string {
	if h := c.holder.Load(); h != nil && h.Principal != "" {
		return h.Principal
	}
	return c.from
}

// mustProve reports whether the client must authenticate before any other request.
func (c *connection) mustProve() bool {
	h := c.holder.Load()
	return (h == nil || h.Principal == "") && c.server.node.Enforced()
}

// admits returns an error for a request of the given size that an unauthenticated client may not
// send.
func admits(c *connection, key int16, size int) error {
	if !c.mustProve() {
		return nil
	}
	switch key {
	case apiVersionsKey, kmsg.SASLHandshake.Int16(), kmsg.SASLAuthenticate.Int16():
		if c.unproved += 4 + size; c.unproved <= proveBytes {
			return nil
		}
		return fmt.Errorf("the client sent more than %d bytes before authenticating", proveBytes)
	}
	err := record.Refuse(record.Unauthenticated, "%s before the client is authenticated: it needs a certificate or SASL", kmsg.NameForKey(key))
	c.server.node.Audit(c.caller(), guard.Connect, "", err)
	return err
}

// mayLarge reports whether the client may send a request of this kind that costs more than a small
// one. If it holds the required right on no object, the whole request would be refused after it was
// decoded.
func (q *call) mayLarge() bool {
	n := q.connection.server.node
	if !n.Enforced() {
		return true
	}
	return q.api.verb.Right != access.None && n.HoldsSome(q.connection.caller(), q.api.verb.Right, q.api.verb.On)
}

// refuseLarge returns the refusal of such a request. It ends the connection, because an answer
// would require decoding the request.
func (c *connection) refuseLarge(a *api, size int) error {
	reason := record.Denied
	if a.verb.Right == access.None {
		reason = record.Invalid
	}
	err := record.Refuse(reason, "a %s request of %d bytes by %s, which has no right to any of its objects: such a request may have %d bytes and %d fields and elements", a.name, size, c.caller().By, smallRequest, smallParts)
	c.server.node.Audit(c.caller(), guard.Connect, "", err)
	return err
}

// saslHandshake begins a login, or one that confirms an earlier one.
func (q *call) saslHandshake(m *kmsg.SASLHandshakeRequest) *kmsg.SASLHandshakeResponse {
	c := q.connection
	r := kmsg.NewPtrSASLHandshakeResponse()
	r.SupportedMechanisms = guard.Mechanisms
	var err error
	if c.login.attempt, err = c.server.node.Login(m.Mechanism, c.conn.RemoteAddr()); err != nil {
		r.ErrorCode = kerr.UnsupportedSaslMechanism.Code
	}
	c.login.bare.Store(q.version == 0 && err == nil)
	return r
}

// saslAuthenticate continues it. Whoever fails is disconnected: an attempt costs a
// connection.
func (q *call) saslAuthenticate(m *kmsg.SASLAuthenticateRequest) *kmsg.SASLAuthenticateResponse {
	c := q.connection
	r := kmsg.NewPtrSASLAuthenticateResponse()
	r.SASLAuthBytes = []byte{}
	if c.login.attempt == nil {
		r.ErrorCode, r.ErrorMessage = kerr.IllegalSaslState.Code, new("SaslHandshake comes first")
		return r
	}
	answer, proved, err := c.login.attempt.Step(c.ctx, m.SASLAuthBytes)
	if proved != nil && c.login.user != "" && c.login.user != proved.Principal {
		err, proved = errOtherUser, nil
	}
	if proved != nil {
		c.login.user = proved.Principal
		// Kept before it is looked at: whoever changes the rules after the look finds it.
		if c.holder.Store(proved); !c.server.node.Believed(proved) {
			err = errLoginFailed
		} else if err = c.prove(guard.With(c.ctx, proved)); err != nil {
			answer = nil
		} else {
			c.leaveUnproved()
		}
	}
	switch {
	case err != nil:
		r.ErrorCode, r.ErrorMessage = kerr.SaslAuthenticationFailed.Code, new(err.Error())
		c.login.attempt, c.login.failed = nil, true
		return r
	case proved != nil:
		c.login.attempt = nil
	}
	if answer != nil {
		r.SASLAuthBytes = answer
	}
	return r
}

// nextToken receives a message of a login by version 0 of SASLHandshake, which has a length and no
// header.
func (c *connection) nextToken(size int) (*call, error) {
	q := &call{connection: c, key: kmsg.SASLAuthenticate.Int16(), bare: true}
	q.place.Value = q
	if err := admits(c, q.key, size); err != nil {
		return nil, err
	}
	if size > smallRequest {
		return nil, errSize(size)
	}
	token, err := c.receiveFrame(make([]byte, size), size)
	if err != nil {
		return nil, err
	}
	m := kmsg.NewPtrSASLAuthenticateRequest()
	m.SASLAuthBytes = token
	q.api, q.request = apis[q.key], m
	return q, nil
}

// answerToken answers such a message. A login that fails has no answer: the connection ends.
func (q *call) answerToken() error {
	c := q.connection
	r := q.saslAuthenticate(q.request.(*kmsg.SASLAuthenticateRequest))
	if r.ErrorCode != 0 {
		return errLoginFailed
	}
	if c.login.attempt == nil {
		c.login.bare.Store(false) // before the client knows
	}
	c.out = binary.BigEndian.AppendUint32(c.out, uint32(len(r.SASLAuthBytes)))
	c.out = append(c.out, r.SASLAuthBytes...)
	return nil
}
