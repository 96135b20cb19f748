package guard

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"net"
	"strings"
	"sync"
	"sync/atomic"

	"strandline.dev/internal/cluster/access"
	"strandline.dev/internal/record"
)

// Holder is the caller of one connection or one call, with the decisions about its rights: one for
// each object, valid until the rules change.
type Holder struct {
	// Principal is the principal as grants name it. It is empty if the caller has not
	// authenticated.
	Principal string
	// Token is the id of the presented token; User is the user with the presented password. Both
	// are empty for a certificate or an unauthenticated caller.
	Token, User string
	// proof is of the password that was proved, when User is not empty. A user that was removed and
	// added again, or has another password, is not the one that proved it.
	proof proof
	// From is the address of the client, without a port.
	From string

	// connection is that on which the holder has authenticated, see Guard.Connected. It may be nil.
	connection atomic.Pointer[connected]

	number  uint32               // of the principal, see verbs.Caller.PrincipalNumber
	refused atomic.Bool          // something was refused, see SlowRefused
	last    atomic.Pointer[held] // the newest decision

	mu    sync.Mutex
	rules *access.Rules // of all in of
	of    map[access.Object]*held
	named int // bytes of the names in of
}

// proof identifies one password of a user. Each stored password has its own salt, even if the same
// password is set again.
type proof struct {
	mechanism string
	storedKey []byte
}

// of reports whether it is the password that the user has now.
func (p proof) of(u access.User) bool {
	v, ok := u.Verifiers[p.mechanism]
	return ok && bytes.Equal(p.storedKey, v.StoredKey)
}

// same reports whether both callers authenticated as the same principal with the same credentials.
func (h *Holder) same(other *Holder) bool {
	return h.Principal == other.Principal && h.Token == other.Token && h.User == other.User &&
		h.proof.mechanism == other.proof.mechanism && bytes.Equal(h.proof.storedKey, other.proof.storedKey)
}

// withoutDecisions returns a small copy with the principal and its credentials only.
func (h *Holder) withoutDecisions() *Holder {
	return &Holder{Principal: h.Principal, Token: h.Token, User: h.User, proof: h.proof}
}

// held are the rights on one object.
type held struct {
	rules  *access.Rules
	on     access.Object
	rights access.Rights
	// valid reports that the holder's credentials are valid until expires, in unix ms; 0: for ever.
	valid   bool
	expires int64
}

// holds reports whether the holder's credentials are valid now.
func (h *held) holds() bool { return h.valid && (h.expires == 0 || now() < h.expires) }

// maxDecisions bounds the cached decisions of one holder, and maxNamed the bytes of the names of
// their objects. A decision about a name that is longer than any object's name is not cached,
// because clients choose the names in their requests.
const (
	maxDecisions = 1024
	maxNamed     = 32 << 10
)

func newHolder(principal string, from net.Addr) *Holder {
	h := &Holder{Principal: principal, From: from.String()}
	if host, _, err := net.SplitHostPort(h.From); err == nil {
		h.From = host
	}
	if principal != "" {
		h.number = numberOf(principal)
	}
	return h
}

// numberOf returns the number of a principal in the ids of its sessions: a hash of its name.
func numberOf(principal string) uint32 {
	sum := sha256.Sum256([]byte(principal))
	return max(1, binary.BigEndian.Uint32(sum[:])&record.MaxSessionPrincipal)
}

// String returns the principal in a form for people.
func (h *Holder) String() string {
	if h == nil || h.Principal == "" {
		return "anonymous"
	}
	return h.Principal
}

// on returns the rights on an object under rules, at a time that now gives.
func (h *Holder) on(rules *access.Rules, o access.Object, now func() int64) *held {
	if l := h.last.Load(); l != nil && l.rules == rules && l.on == o {
		return l
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.rules != rules || len(h.of) >= maxDecisions || h.named > maxNamed {
		h.rules, h.of, h.named = rules, map[access.Object]*held{}, 0
	}
	d := h.of[o]
	if d == nil {
		if len(o.Name) > access.MaxObjectName {
			return h.decide(rules, o, now)
		}
		o.Name = strings.Clone(o.Name) // it may be a part of a request
		d = h.decide(rules, o, now)
		h.of[o] = d
		h.named += len(o.Name)
	}
	h.last.Store(d)
	return d
}

func (h *Holder) decide(rules *access.Rules, o access.Object, now func() int64) *held {
	d := &held{rules: rules, on: o}
	scope, expires, valid := h.shown(rules, now)
	if d.valid, d.expires = valid, expires; valid {
		d.rights = rules.Of(h.Principal, scope, o)
	}
	return d
}

// shown reports whether the holder's credentials are still valid and when they expire, and returns
// the scope to which they restrict the rights of the principal.
func (h *Holder) shown(rules *access.Rules, now func() int64) (scope []access.Scope, expires int64, valid bool) {
	switch {
	case h.Token != "":
		t, ok := rules.Token(h.Token, now())
		return t.Scope, t.Expires, ok
	case h.User != "":
		u, ok := rules.User(h.User)
		return nil, 0, ok && h.proof.of(u)
	}
	return nil, 0, rules.Believes(h.Principal)
}
