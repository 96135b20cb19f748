package guard

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net"
	"strings"

	"github.com/xdg-go/scram"

	"strandline.dev/internal/budget"
	"strandline.dev/internal/cluster/access"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
	"strandline.dev/internal/server/audit"
	"strandline.dev/internal/transport/secure"
)

// The SASL mechanisms for passwords.
const (
	ScramSHA256 = "SCRAM-SHA-256"
	ScramSHA512 = "SCRAM-SHA-512"
	Plain       = "PLAIN"
)

// Mechanisms are all supported mechanisms, the best first.
var Mechanisms = []string{ScramSHA512, ScramSHA256, Plain}

// verifierOf names the mechanism whose verifier another one is compared with.
var verifierOf = map[string]string{Plain: ScramSHA256}

var scrams = map[string]scram.HashGeneratorFcn{ScramSHA256: scram.SHA256, ScramSHA512: scram.SHA512}

const (
	// passwordIterations is the number of iterations of the key derivation. It slows down guesses
	// of a password, including guesses from a stolen catalog.
	passwordIterations = 15_000
	saltBytes          = 16
	// maxLogin bounds a message of a login, in bytes.
	maxLogin = 4 << 10
	// maxSteps bounds the messages of one.
	maxSteps = 4
)

// administrators is the key under which callers that set passwords wait for their turn.
const administrators = "administrators"

// derive returns the verifiers of a password.
func (g *Guard) derive(ctx context.Context, password string) (map[string]access.Verifier, error) {
	verifiers := map[string]access.Verifier{}
	for name := range scrams {
		salt := make([]byte, saltBytes)
		_, _ = rand.Read(salt) // never fails
		kept, err := g.deriveWith(ctx, administrators, name, password, scram.KeyFactors{Salt: string(salt), Iters: passwordIterations})
		if err != nil {
			return nil, err
		}
		verifiers[name] = access.Verifier{Salt: salt, Iterations: passwordIterations, StoredKey: kept.StoredKey, ServerKey: kept.ServerKey}
	}
	return verifiers, nil
}

// deriveWith derives a key, which takes some milliseconds of processor time. It waits for a turn
// under the key whose.
func (g *Guard) deriveWith(ctx context.Context, whose, mechanism, password string, by scram.KeyFactors) (scram.StoredCredentials, error) {
	if err := g.logins.deriving.Acquire(ctx, whose); err != nil {
		return scram.StoredCredentials{}, err
	}
	defer g.logins.deriving.Release()
	client, err := scrams[mechanism].NewClient("user", password, "")
	if err != nil {
		// The library's text could show a part of the password.
		return scram.StoredCredentials{}, record.Refuse(record.Invalid, "the password contains characters that are not allowed, such as control characters")
	}
	stored, err := client.GetStoredCredentialsWithError(by)
	if err != nil {
		return scram.StoredCredentials{}, record.Refuse(record.Invalid, "SCRAM credentials cannot be derived: invalid salt or iteration count")
	}
	return stored, nil
}

// logins is the state of all authentications by password.
type logins struct {
	// secret makes answers about unknown users look like answers about others, while the cluster
	// has no such secret that is the same on all nodes.
	secret [32]byte
	// deriving allows one key derivation at a time; addresses get turns in rotation. So guessing
	// clients use one processor at most, and delay a login by one guess.
	deriving *budget.Turns
}

// Login is one attempt of a user to authenticate with a password, message by message.
type Login struct {
	guard     *Guard
	from      net.Addr
	mechanism string
	scram     *scram.ServerConversation
	steps     int
	user      string
	verifier  access.Verifier // that the password is compared with
}

// errLogin is the error for every failed login, because the reason would help an attacker.
var errLogin = errors.New("the user name or the password is wrong")

// errTooFast ends an attempt whose connection is closed.
var errTooFast = errors.New("too many failed logins from this address; try again later")

// Login begins an attempt. Plain passwords are accepted only on encrypted connections.
func (g *Guard) Login(mechanism string, from net.Addr) (*Login, error) {
	l := &Login{guard: g, from: from, mechanism: mechanism}
	generate := scrams[mechanism]
	switch {
	case generate != nil:
		server, err := generate.NewServer(l.credentials)
		if err != nil {
			return nil, err
		}
		l.scram = server.NewConversation()
	case mechanism == Plain && !secure.Encrypted(from):
		return nil, errors.New("PLAIN sends the password itself, so it is allowed on encrypted connections only: use SCRAM-SHA-256")
	case mechanism != Plain:
		return nil, errors.New("unknown SASL mechanism: use " + strings.Join(Mechanisms, ", "))
	}
	return l, nil
}

// Step processes a message of the client and returns the answer. The holder is nil until the user
// has authenticated.
func (l *Login) Step(ctx context.Context, message []byte) (answer []byte, proved *Holder, err error) {
	if l.steps++; l.steps == 1 && l.scram != nil {
		if answer, ok := l.challenge(message); ok {
			return answer, nil, nil
		}
	}
	ended, ok := secure.BeginLogin(ctx, l.from)
	if !ok {
		return nil, nil, errTooFast
	}
	answer, right, err := l.compare(ctx, message)
	ended(!right && err == nil)
	switch {
	case err != nil:
		return nil, nil, err
	case !right:
		return nil, nil, l.failed()
	}
	return answer, l.proved(), nil
}

// challenge returns the answer to the first message of SCRAM, which proves nothing yet. One that has none counts as a
// wrong password.
func (l *Login) challenge(message []byte) (answer []byte, ok bool) {
	if len(message) > maxLogin {
		return nil, false
	}
	text, err := l.scram.Step(string(message))
	return []byte(text), err == nil
}

// compare compares the password in a message, or its proof, with that of the user. The error is that of ctx.
func (l *Login) compare(ctx context.Context, message []byte) (answer []byte, right bool, err error) {
	if len(message) > maxLogin || l.steps > maxSteps {
		return nil, false, nil
	}
	if l.scram == nil {
		right, err = l.plain(ctx, string(message))
		return nil, right, err
	}
	text, failure := l.scram.Step(string(message))
	right = failure == nil && l.scram.Valid() && (l.scram.AuthzID() == "" || l.scram.AuthzID() == l.user)
	return []byte(text), right, nil
}

func (l *Login) proved() *Holder {
	h := newHolder(access.OfUser(l.user), l.from)
	h.User, h.proof = l.user, proof{cmp.Or(verifierOf[l.mechanism], l.mechanism), l.verifier.StoredKey}
	secure.Proved(l.from)
	l.audit(h, nil)
	return h
}

func (l *Login) failed() error {
	l.audit(newHolder("", l.from), record.Refuse(record.Unauthenticated, "%s", errLogin))
	return errLogin
}

// audit records the outcome with the name that was tried.
func (l *Login) audit(h *Holder, err error) {
	l.guard.record(&verbs.Caller{By: h}, audit.Authenticate, triedAs("user", l.user), err)
}

// credentials returns the stored verifier of a user. For an unknown user it returns one that
// matches no password and is always the same, so that an attacker cannot find out which users exist.
func (l *Login) credentials(user string) (scram.StoredCredentials, error) {
	l.user = user
	v, ok := l.kept(l.mechanism)
	if !ok {
		rules, _ := l.guard.node.Rules()
		v = access.Verifier{Salt: l.guard.madeUp(rules, "salt", user)[:saltBytes], Iterations: passwordIterations, StoredKey: l.guard.madeUp(rules, "stored", user), ServerKey: l.guard.madeUp(rules, "server", user)}
	}
	l.verifier = v
	return scram.StoredCredentials{
		KeyFactors: scram.KeyFactors{Salt: string(v.Salt), Iters: v.Iterations}, StoredKey: v.StoredKey, ServerKey: v.ServerKey,
	}, nil
}

// kept returns the stored verifier of the user for a mechanism.
func (l *Login) kept(mechanism string) (access.Verifier, bool) {
	rules, _ := l.guard.node.Rules()
	u, _ := rules.User(l.user)
	v, ok := u.Verifiers[mechanism]
	return v, ok
}

func (g *Guard) madeUp(rules *access.Rules, what, user string) []byte {
	key := rules.List().Secret
	if len(key) == 0 {
		key = g.logins.secret[:]
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(what + "\x00" + user))
	return mac.Sum(nil)
}

// plain reports whether a PLAIN message has the password of a user. The message contains the
// identity to act for, the user and the password, separated by zero bytes.
func (l *Login) plain(ctx context.Context, message string) (bool, error) {
	parts := strings.Split(message, "\x00")
	if len(parts) != 3 || len(parts[2]) > maxPassword || parts[0] != "" && parts[0] != parts[1] {
		return false, nil
	}
	l.user = parts[1]
	var known bool
	if l.verifier, known = l.kept(ScramSHA256); !known {
		l.verifier = access.Verifier{Salt: l.guard.logins.secret[:saltBytes], Iterations: passwordIterations} // derived from as slowly
	}
	derived, err := l.guard.deriveWith(ctx, secure.Whereabouts(l.from), ScramSHA256, parts[2], scram.KeyFactors{Salt: string(l.verifier.Salt), Iters: l.verifier.Iterations})
	return known && err == nil && subtle.ConstantTimeCompare(derived.StoredKey, l.verifier.StoredKey) == 1, ctx.Err()
}
