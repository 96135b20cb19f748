// Package guard is the layer between the servers of the protocols and the node: it identifies the
// caller, refuses calls without the right, calls the node's verb, and writes changes and refusals
// to the audit log.
//
// The servers can reach the node only through the Guard, which has no verb without a row in its
// table: a call of a verb that the Guard lacks does not compile. Begin with the table in verbs.go,
// and with Holder, which represents the caller.
package guard

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	"strandline.dev/internal/budget"
	"strandline.dev/internal/cluster/access"
	"strandline.dev/internal/identity"
	"strandline.dev/internal/node"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
	"strandline.dev/internal/server/audit"
	"strandline.dev/internal/transport/secure"
)

// Guard is a node as the servers of the protocols see it. It has the verbs of node.Node, and checks
// the rights of their callers.
type Guard struct {
	node     *node.Node
	o        Options
	tasks    sync.WaitGroup
	stopping context.Context
	stop     context.CancelFunc

	refusals    *refusals
	paces       paces
	connections connections
	logins      logins
	meters      *budget.Meters // of what quotas limit

	mu      sync.Mutex
	streams map[*stream]struct{}
	held    map[string]int // streams by whose they are
}

// Options of a Guard.
type Options struct {
	// Audit receives changes and refusals. It may be nil.
	Audit *audit.Log
	// Careful refuses all calls until the node knows the rules of its cluster. It is for nodes that
	// are reachable from other machines.
	Careful bool
	// Administrator is settings.Options.Administrator, which may form a cluster.
	Administrator string
	// RefusedRate is the number of refusals per second for a caller before it must wait; 0 means
	// refusedRate.
	RefusedRate int
	// QuotaWait is how long a call or a request to append waits for a quota; 0 means quotaWait.
	QuotaWait time.Duration
	// Logger gets one message if an Administrator is named and the cluster enforces no rights.
	Logger *slog.Logger
}

// New returns a guard for a node. It runs no goroutine before Start.
func New(n *node.Node, o Options) *Guard {
	o.QuotaWait = cmp.Or(o.QuotaWait, quotaWait)
	g := &Guard{
		node: n, o: o, streams: map[*stream]struct{}{}, refusals: newRefusals(cmp.Or(o.RefusedRate, refusedRate)), paces: newPaces(),
		connections: connections{open: map[uint64]*connected{}, held: map[holding]int{}},
		logins:      logins{deriving: budget.NewTurns(1)}, meters: budget.NewMeters(), held: map[string]int{},
	}
	g.stopping, g.stop = context.WithCancel(context.Background())
	_, _ = rand.Read(g.logins.secret[:]) // never fails
	return g
}

// lookEvery is how often the guard looks whether streams and connections that are open still may be.
const lookEvery = 100 * time.Millisecond

// Start starts to end the streams of holders that lose their rights, and the connections of those that are no longer
// believed, until Stop.
func (g *Guard) Start() {
	g.tasks.Go(func() {
		ticker := time.NewTicker(lookEvery)
		defer ticker.Stop()
		warned := g.o.Administrator == ""
		for {
			select {
			case <-ticker.C:
				g.endLost(time.Now())
				warned = warned || g.warnOpen()
			case <-g.stopping.Done():
				return
			}
		}
	})
}

// warnOpen logs that rights are not enforced although other machines can reach this node. It
// returns false while this is not known.
func (g *Guard) warnOpen() (known bool) {
	rules, known := g.node.Rules()
	if known = known && g.node.ClusterID() != ""; known && !rules.Enforced {
		g.o.Logger.Warn("rights are not enforced in this cluster: whoever has a certificate can read and change everything, until `strandline grant enforce`")
	}
	return known
}

// Stop ends the work of Start.
func (g *Guard) Stop() {
	g.stop()
	g.tasks.Wait()
}

// endLost ends what is open for callers that have lost it: first streams, then connections. at is the
// present.
func (g *Guard) endLost(at time.Time) {
	rules, _ := g.node.Rules()
	if !rules.Enforced {
		return
	}
	g.endStreams(rules, at)
	for _, end := range g.connections.unbelieved(g.Believed, at) {
		end()
	}
}

func now() int64 { return time.Now().UnixMilli() }

type holderKey struct{}

// With returns a context with a caller.
func With(ctx context.Context, h *Holder) context.Context {
	return context.WithValue(ctx, holderKey{}, h)
}

// CallerOf returns the caller of a context, see With.
func CallerOf(ctx context.Context) verbs.Caller {
	h, _ := ctx.Value(holderKey{}).(*Holder)
	if h == nil {
		return verbs.Caller{}
	}
	return verbs.Caller{By: h}
}

// Identify returns the caller: the principal of the token in an Authorization header; without a
// header, the principal of the connection's certificate; or an anonymous caller. It refuses an
// invalid token regardless of the certificate.
func (g *Guard) Identify(certified identity.Principal, from net.Addr, authorization string) (*Holder, *record.Refusal) {
	var principal string
	if certified != (identity.Principal{}) {
		principal = certified.String()
	}
	if authorization == "" {
		return newHolder(principal, from), nil
	}
	h := newHolder("", from)
	scheme, secret, _ := strings.Cut(authorization, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return nil, g.unauthenticated(h, "", "the Authorization header is not of the form `Bearer TOKEN`")
	}
	rules, _ := g.node.Rules()
	t, ok := tokenOf(rules, strings.TrimSpace(secret))
	if !ok {
		return nil, g.unauthenticated(h, idOf(secret), "the token is not valid: it was revoked, has expired, or is of another cluster")
	}
	h = newHolder(t.Principal, from)
	h.Token = t.ID
	secure.Proved(from)
	return h, nil
}

// Enforced reports whether callers need rights.
func (g *Guard) Enforced() bool {
	rules, _ := g.node.Rules()
	return rules.Enforced
}

// may refuses a call of a verb if the caller lacks the right on the named object. If rights are
// enforced, it also sets the principal of sessions that the call opens.
func (g *Guard) may(c *verbs.Caller, v *Verb, name string) *record.Refusal {
	return g.mayDo(c, v.Name, v.Right, v.Of(name))
}

// mayDo is like may, for a call without a row in the table.
func (g *Guard) mayDo(c *verbs.Caller, verb string, need access.Rights, o access.Object) *record.Refusal {
	if c.System {
		return nil
	}
	rules, known := g.node.Rules()
	return g.mayBy(rules, known, c, verb, need, o)
}

// mayBy is like mayDo, with the given rules. known reports that they are the rules of the cluster.
func (g *Guard) mayBy(rules *access.Rules, known bool, c *verbs.Caller, verb string, need access.Rights, o access.Object) *record.Refusal {
	if !rules.Enforced && (known || !g.o.Careful) {
		return nil
	}
	h, _ := c.By.(*Holder)
	if h == nil {
		h = &Holder{}
	}
	if !known && g.o.Careful && !strings.HasPrefix(h.Principal, "node/") {
		return record.Refuse(record.NotLeader,
			"this node does not know yet who may do what: since its start it has not reached a majority of the nodes that vote on the catalog. Ask another node, or start those (`strandline cluster status` with a node's certificate names them)")
	}
	d := h.on(rules, o, now)
	if !d.holds() || d.rights&need != need {
		return g.refused(c, h, verb, need, o, rules)
	}
	c.PrincipalNumber, c.Principal = h.number, h.Principal
	if need == access.Create || need == access.Configure {
		c.Creator = h.Principal
		if h.on(rules, access.OfCluster, now).rights&access.Administer != 0 {
			c.Creator = ""
		}
	}
	return nil
}

// mayUse is like may, for a verb about a session. A session belongs to the principal that opened
// it.
func (g *Guard) mayUse(c *verbs.Caller, v *Verb, log string, session record.SessionID) *record.Refusal {
	if refusal := g.may(c, v, log); refusal != nil || c.PrincipalNumber == 0 {
		return refusal
	}
	// A session that was opened before rights were enforced belongs to no principal.
	if number := session.Principal(); number != 0 && number != c.PrincipalNumber {
		refusal := record.Refuse(record.Denied, "session %d belongs to another principal, not to %s", session, c.By)
		g.record(c, v.Name, v.Of(log), refusal)
		return refusal
	}
	return nil
}

// mayAnywhere is may for a right on any object of its kind.
func (g *Guard) mayAnywhere(c *verbs.Caller, v *Verb) *record.Refusal {
	rules, _ := g.node.Rules()
	if h, _ := c.By.(*Holder); h != nil && rules.Enforced {
		if scope, _, valid := h.shown(rules, now); valid && rules.HoldsAnywhere(h.Principal, scope, v.On, v.Right) {
			c.PrincipalNumber = h.number
			return nil
		}
	}
	return g.mayDo(c, v.Name, v.Right, access.OfCluster)
}

// mayList refuses callers that have not authenticated. Others get a list of the objects that they
// may observe, which may be empty.
func (g *Guard) mayList(c *verbs.Caller) *record.Refusal {
	if g.Sees(*c, access.OfCluster) {
		return nil
	}
	rules, _ := g.node.Rules()
	if h, _ := c.By.(*Holder); h != nil && rules.Enforced {
		if _, _, valid := h.shown(rules, now); valid {
			return nil
		}
	}
	return g.mayDo(c, List.Name, access.Observe, access.OfCluster)
}

// Sees reports whether the caller may observe an object. It is not audited.
func (g *Guard) Sees(c verbs.Caller, o access.Object) bool { return g.has(c, access.Observe, o) }

// has reports whether the caller has a right. It is not audited.
func (g *Guard) has(c verbs.Caller, right access.Rights, o access.Object) bool {
	rules, known := g.node.Rules()
	return g.hasBy(rules, known, c, right, o)
}

// hasBy is like has, with the given rules. known reports that they are the rules of the cluster.
func (g *Guard) hasBy(rules *access.Rules, known bool, c verbs.Caller, right access.Rights, o access.Object) bool {
	if !rules.Enforced && (known || !g.o.Careful) || c.System {
		return true
	}
	h, _ := c.By.(*Holder)
	if h == nil {
		return false
	}
	d := h.on(rules, o, now)
	return d.holds() && d.rights&right != 0
}

// shownTo returns a function that reports whether the caller may observe a log; other logs are not
// even described. It does not cache the decisions: there may be many logs, and a list asks once for
// each.
func (g *Guard) shownTo(c verbs.Caller) func(log string) bool {
	rules, known := g.node.Rules()
	if !rules.Enforced && (known || !g.o.Careful) || c.System {
		return func(string) bool { return true }
	}
	h, _ := c.By.(*Holder)
	if h == nil {
		return func(string) bool { return false }
	}
	scope, _, valid := h.shown(rules, now)
	return func(log string) bool {
		return valid && rules.Of(h.Principal, scope, access.OfLog(log))&access.Observe != 0
	}
}

// refused is the refusal of a call, which is audited.
func (g *Guard) refused(c *verbs.Caller, h *Holder, verb string, need access.Rights, o access.Object, rules *access.Rules) *record.Refusal {
	_, expires, valid := h.shown(rules, now)
	if valid && expires != 0 && now() >= expires {
		valid = false
	}
	var refusal *record.Refusal
	switch {
	case h.Principal == "":
		refusal = record.Refuse(record.Unauthenticated, "%s %s: the caller is not authenticated; present a certificate, a token or a password", verb, o)
	case !valid && h.Token != "":
		refusal = record.Refuse(record.Unauthenticated, "the token %s is no longer valid: it was revoked or has expired", h.Token)
	case !valid && h.User == "":
		refusal = record.Refuse(record.Unauthenticated, "%s is not a member of the cluster", h)
	case !valid:
		refusal = record.Refuse(record.Unauthenticated, "%s was removed, or its password was changed; authenticate again", h)
	default:
		refusal = record.Refuse(record.Denied, "%s may not %s %s: it needs the right to %s", h, verb, o, need)
	}
	g.record(&verbs.Caller{By: h, Refused: c.Refused}, verb, o, refusal)
	return refusal
}

// unauthenticated refuses a proof. tried is the id of the token that was shown, or empty.
func (g *Guard) unauthenticated(h *Holder, tried, why string) *record.Refusal {
	refusal := record.Refuse(record.Unauthenticated, "%s", why)
	g.record(&verbs.Caller{By: h}, audit.Authenticate, triedAs("token", tried), refusal)
	return refusal
}

// triedAs is the object of a proof in the audit log.
func triedAs(kind access.Kind, name string) access.Object {
	if name == "" {
		return access.OfCluster
	}
	return access.Object{Kind: kind, Name: name}
}

// record writes a line of the audit log, and notes whom something was refused.
func (g *Guard) record(c *verbs.Caller, verb string, o access.Object, err error) {
	if c.System {
		return
	}
	h, _ := c.By.(*Holder)
	var r *record.Refusal
	if errors.As(err, &r) && (r.Reason == record.Denied || r.Reason == record.Unauthenticated) && (c.Refused == nil || (c.Refused.Add(1)-1)%refusedTogether == 0) {
		g.wasRefused(h)
	}
	if g.o.Audit == nil {
		return
	}
	e := audit.Entry{Principal: "anonymous", Verb: verb, Object: o.String(), Outcome: audit.Done}
	if h != nil {
		e.Principal, e.Token, e.From = h.String(), h.Token, h.From
	}
	if err != nil {
		e.Outcome, e.Reason = audit.Failed, err.Error()
		switch {
		case r == nil:
		case r.Reason == record.Denied || r.Reason == record.Unauthenticated:
			e.Outcome = audit.Refused
		case r.Reason.Outcome() != record.NotDone:
			e.Outcome = audit.Unknown
		}
	}
	g.o.Audit.Record(e)
}
