package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"strandline.dev/client"
	"strandline.dev/internal/transport/secure"
)

// withToken is a client that shows a token and no certificate.
func (a *authority) withToken(t testing.TB, token string, addresses ...string) *client.Client {
	t.Helper()
	c, err := client.Dial(addresses, client.WithCertificates(filepath.Join(a.dir, "ca.crt"), "", ""), client.WithToken(token), client.WithRetryTime(time.Minute))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// enforced has alice's client enforce rights, with herself as the administrator.
func enforced(t testing.TB, c *client.Client, grants ...client.Grant) *client.Admin {
	t.Helper()
	admin := c.Admin()
	if len(grants) > 0 {
		require.NoError(t, admin.Access().AddGrants(t.Context(), grants...))
	}
	require.NoError(t, admin.Access().EnforceRights(t.Context(), true, "user/alice"))
	return admin
}

// heard waits until a node knows that rights are enforced.
func heard(t testing.TB, nodes ...*Server) {
	t.Helper()
	for _, n := range nodes {
		require.Eventually(t, n.enforced, time.Minute, time.Millisecond)
	}
}

func TestATokenThatIsRevokedIsRefusedByAllNodesAndNobodyElseIs(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	cluster, err := StartCluster(t.Context(), secured(t, a, t.TempDir(), "a", "b", "c"))
	require.NoError(t, err)
	defer func() { require.NoError(t, cluster.Close()) }()
	var addresses []string
	for _, n := range cluster.Nodes {
		addresses = append(addresses, n.GRPC())
	}
	alice := a.dial(t, addresses...)
	defer alice.Close()
	_, err = alice.Admin().CreateLog(t.Context(), "orders", client.LogConfig{Replicas: 3})
	require.NoError(t, err)
	admin := enforced(t, alice, client.Grant{Principal: "user/bob", Object: "log/orders", Rights: []string{"append", "read"}})
	heard(t, cluster.Nodes...)
	text, token, err := admin.Access().CreateAccessToken(t.Context(), "bob", time.Hour)
	require.NoError(t, err)
	require.Equal(t, "user/bob", token.Principal)
	for _, address := range addresses { // the token is known to a majority
		one := a.withToken(t, text, address)
		require.Eventually(t, func() bool {
			_, err := one.Admin().Access().WhoAmI(t.Context())
			return err == nil
		}, time.Minute, time.Millisecond)
	}

	bob := a.withToken(t, text, addresses...)
	me, err := bob.Admin().Access().WhoAmI(t.Context())
	require.NoError(t, err)
	require.Equal(t, client.Identity{Principal: "user/bob", TokenID: token.ID, Enforced: true}, me)
	p, err := bob.Producer(t.Context(), "orders")
	require.NoError(t, err)
	_, err = p.Append(t.Context(), []byte("one"))
	require.NoError(t, err)
	reader, err := bob.Reader(t.Context(), "orders", client.WithStartOffset(0), client.WithFollow())
	require.NoError(t, err)
	defer reader.Close()
	_, err = reader.Next(t.Context())
	require.NoError(t, err)
	_, _, err = bob.Admin().Trim(t.Context(), "orders", 1, false)
	require.ErrorIs(t, err, client.ErrPermissionDenied)
	selects, err := bob.Reader(t.Context(), "orders", client.WithFollow(), client.WithFilter(client.Filter{Keys: [][]byte{[]byte("nobody")}}))
	require.NoError(t, err)
	defer selects.Close()
	ended := make(chan error, 1)
	go func() {
		_, err := selects.Next(t.Context())
		ended <- err
	}()

	stop := appending(t, alice)
	require.NoError(t, admin.Access().RevokeAccessToken(t.Context(), token.ID))
	began := time.Now()
	for _, address := range addresses {
		one := a.withToken(t, text, address)
		require.Eventually(t, func() bool {
			_, err := one.Admin().Access().WhoAmI(t.Context())
			return err != nil && strings.Contains(err.Error(), "UNAUTHENTICATED")
		}, time.Minute, time.Millisecond)
	}
	t.Logf("all nodes refuse the token after %v", time.Since(began))
	for { // what was appended until then comes first
		if _, err = reader.Next(t.Context()); err != nil {
			break
		}
	}
	require.ErrorIs(t, err, client.ErrUnauthenticated, "a read that is under way ends")
	require.ErrorIs(t, <-ended, client.ErrUnauthenticated, "also one that selects nothing")
	_, err = p.Append(t.Context(), []byte("two"))
	require.ErrorIs(t, err, client.ErrUnauthenticated)
	stop()
	require.Error(t, p.Close(t.Context()))
}

func TestASessionBelongsToWhoOpenedIt(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	o := alone(t, t.TempDir())
	o.Node.Name, o.Credentials = "a", a.credentials("a")
	n, err := Start(o)
	require.NoError(t, err)
	defer func() { require.NoError(t, n.Close()) }()
	alice := a.dial(t, n.GRPC())
	defer alice.Close()
	_, err = alice.Admin().CreateLog(t.Context(), "orders", client.LogConfig{})
	require.NoError(t, err)
	before, err := alice.Admin().OpenSession(t.Context(), "orders", time.Minute)
	require.NoError(t, err)
	admin := enforced(t, alice, client.Grant{Principal: "user/bob", Object: "log/*", Rights: []string{"append"}})
	text, _, err := admin.Access().CreateAccessToken(t.Context(), "bob", time.Hour)
	require.NoError(t, err)
	bob := a.withToken(t, text, n.GRPC()).Admin()
	hers, err := admin.OpenSession(t.Context(), "orders", time.Minute)
	require.NoError(t, err)
	require.ErrorIs(t, bob.CloseSession(t.Context(), "orders", hers), client.ErrPermissionDenied)
	require.ErrorIs(t, bob.KeepSession(t.Context(), "orders", hers), client.ErrPermissionDenied)
	require.NoError(t, bob.KeepSession(t.Context(), "orders", before), "one of the time before belongs to nobody")
	require.NoError(t, admin.CloseSession(t.Context(), "orders", hers))
}

// A connection takes little from a client before it has proved who it is; the token is looked
// at before the rest of its call is received.
func TestTheFirstCallWithATokenMayBeLarge(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	o := alone(t, t.TempDir())
	o.Node.Name, o.Credentials = "a", a.credentials("a")
	n, err := Start(o)
	require.NoError(t, err)
	defer func() { require.NoError(t, n.Close()) }()
	alice := a.dial(t, n.GRPC())
	defer alice.Close()
	admin := enforced(t, alice, client.Grant{Principal: "user/bob", Object: "cluster", Rights: []string{"administer"}})
	text, _, err := admin.Access().CreateAccessToken(t.Context(), "bob", time.Hour)
	require.NoError(t, err)
	large := make([]client.Grant, 500)
	for i := range large {
		large[i] = client.Grant{Principal: "user/carol", Object: fmt.Sprintf("log/%0250d", i), Rights: []string{"read"}}
	}
	require.NoError(t, a.withToken(t, text, n.GRPC()).Admin().Access().AddGrants(t.Context(), large...))
}

func TestThePointerOfAHoldIsForThoseWhoReadOrTrimAndWhoSetItForThoseWhoMaySet(t *testing.T) {
	t.Parallel()
	o := alone(t, t.TempDir())
	n, err := Start(o)
	require.NoError(t, err)
	defer func() { require.NoError(t, n.Close()) }()
	open, err := client.Dial([]string{n.GRPC()})
	require.NoError(t, err)
	defer open.Close()
	_, err = open.Admin().CreateLog(t.Context(), "orders", client.LogConfig{})
	require.NoError(t, err)
	_, _, err = open.Admin().SetHold(t.Context(), "orders", client.HoldInfo{Name: "a", Pointer: []byte("s3://secret")})
	require.NoError(t, err)
	tokens := map[string]string{}
	for _, right := range []string{"append", "observe", "read", "trim"} {
		require.NoError(t, open.Admin().Access().AddGrants(t.Context(), client.Grant{Principal: "user/" + right, Object: "log/orders", Rights: []string{right}}))
		tokens[right], _, err = open.Admin().Access().CreateAccessToken(t.Context(), right, time.Hour)
		require.NoError(t, err)
	}
	require.NoError(t, open.Admin().Access().EnforceRights(t.Context(), true, "user/alice"))
	for right, token := range tokens {
		c, err := client.Dial([]string{n.GRPC()}, client.WithToken(token))
		require.NoError(t, err)
		info, err := c.Admin().Info(t.Context(), "orders")
		require.NoError(t, err)
		require.Len(t, info.Holds, 1)
		require.Equal(t, right == "read" || right == "trim", len(info.Holds[0].Pointer) > 0, right)
		require.Empty(t, info.Holds[0].Principal, "it was set where rights were not enforced")
		require.NoError(t, c.Close())
	}

	for _, right := range []string{"trim", "read", "observe"} { // trim moves it
		c, err := client.Dial([]string{n.GRPC()}, client.WithToken(tokens[right]))
		require.NoError(t, err)
		_, _, err = c.Admin().SetHold(t.Context(), "orders", client.HoldInfo{Name: "a", Principal: "user/mallory"})
		require.Equal(t, right == "trim", err == nil, right)
		info, err := c.Admin().Info(t.Context(), "orders")
		require.NoError(t, err)
		require.Equal(t, map[string]string{"trim": "user/trim"}[right], info.Holds[0].Principal, right)
		require.NoError(t, c.Close())
	}
}

func TestAFilterIsLookedAtOnlyForThoseWhoMayRead(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	o := alone(t, t.TempDir())
	o.Node.Name, o.Credentials = "a", a.credentials("a")
	n, err := Start(o)
	require.NoError(t, err)
	defer func() { require.NoError(t, n.Close()) }()
	alice := a.dial(t, n.GRPC())
	defer alice.Close()
	_, err = alice.Admin().CreateLog(t.Context(), "orders", client.LogConfig{})
	require.NoError(t, err)
	admin := enforced(t, alice, client.Grant{Principal: "user/bob", Object: "log/*", Rights: []string{"append"}})
	text, _, err := admin.Access().CreateAccessToken(t.Context(), "bob", time.Hour)
	require.NoError(t, err)
	read := func(c *client.Client, log string) error {
		r, err := c.Reader(t.Context(), log, client.WithFilter(client.Filter{Where: "key =="}))
		require.NoError(t, err)
		defer r.Close()
		_, err = r.Next(t.Context())
		return err
	}
	require.ErrorIs(t, read(a.withToken(t, text, n.GRPC()), "orders"), client.ErrPermissionDenied)
	require.ErrorIs(t, read(alice, "nowhere"), client.ErrLogNotFound)
	require.ErrorIs(t, read(alice, "orders"), client.ErrFilterInvalid)
}

func TestKafkasClientsProveTheirPasswords(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	o := alone(t, t.TempDir())
	o.Node.Name, o.Credentials, o.Kafka = "a", a.credentials("a"), listen(t)
	n, err := Start(o)
	require.NoError(t, err)
	defer func() { require.NoError(t, n.Close()) }()
	alice := a.dial(t, n.GRPC())
	defer alice.Close()
	_, err = alice.Admin().CreateLog(t.Context(), "orders", client.LogConfig{})
	require.NoError(t, err)
	admin := enforced(t, alice, client.Grant{Principal: "user/bob", Object: "log/orders", Rights: []string{"append"}})
	password, existed, err := admin.Access().PutUser(t.Context(), "bob", "")
	require.NoError(t, err)
	require.False(t, existed)

	files, err := secure.OpenClient(secure.Files{Authority: filepath.Join(a.dir, "ca.crt")})
	require.NoError(t, err)
	produce := func(topic string, mechanism sasl.Mechanism, tls bool) error {
		options := []kgo.Opt{kgo.SeedBrokers(n.Kafka()), kgo.RetryTimeout(time.Minute), kgo.RecordRetries(1), kgo.MetadataMinAge(50 * time.Millisecond)}
		if tls {
			options = append(options, kgo.DialTLSConfig(files.Client("127.0.0.1")))
		}
		if mechanism != nil {
			options = append(options, kgo.SASL(mechanism))
		}
		c, err := kgo.NewClient(options...)
		require.NoError(t, err)
		defer c.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		return c.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte("x")}).FirstErr()
	}
	right := scram.Auth{User: "bob", Pass: password}
	for name, m := range map[string]sasl.Mechanism{
		"256": right.AsSha256Mechanism(), "512": right.AsSha512Mechanism(), "plain": plain.Auth{User: "bob", Pass: password}.AsMechanism(),
	} {
		require.NoError(t, produce("orders", m, true), name)
		require.ErrorIs(t, produce("audit", m, true), kerr.TopicAuthorizationFailed, name)
	}
	for name, m := range map[string]sasl.Mechanism{
		"256":       scram.Auth{User: "bob", Pass: "wrong-password"}.AsSha256Mechanism(),
		"512":       scram.Auth{User: "bob", Pass: "wrong-password"}.AsSha512Mechanism(),
		"plain":     plain.Auth{User: "bob", Pass: "wrong-password"}.AsMechanism(),
		"a user":    plain.Auth{User: "eve", Pass: password}.AsMechanism(),
		"no user":   scram.Auth{User: "eve", Pass: password}.AsSha256Mechanism(),
		"other one": plain.Auth{Zid: "alice", User: "bob", Pass: password}.AsMechanism(),
	} {
		require.ErrorIs(t, produce("orders", m, true), kerr.SaslAuthenticationFailed, name)
	}
	require.Error(t, produce("orders", nil, true), "nobody is let in who proves nothing")

	require.NoError(t, admin.Access().RemoveUser(t.Context(), "bob"))
	require.ErrorIs(t, produce("orders", right.AsSha256Mechanism(), true), kerr.SaslAuthenticationFailed)
}

func TestThePasswordItselfIsTakenOnEncryptedConnectionsOnly(t *testing.T) {
	t.Parallel()
	o := alone(t, t.TempDir())
	o.Kafka = listen(t)
	n, err := Start(o)
	require.NoError(t, err)
	defer func() { require.NoError(t, n.Close()) }()
	c, err := client.Dial([]string{n.GRPC()})
	require.NoError(t, err)
	defer c.Close()
	password, _, err := c.Admin().Access().PutUser(t.Context(), "bob", "")
	require.NoError(t, err)
	for _, m := range []sasl.Mechanism{plain.Auth{User: "bob", Pass: password}.AsMechanism(), scram.Auth{User: "bob", Pass: password}.AsSha256Mechanism()} {
		k, err := kgo.NewClient(kgo.SeedBrokers(n.Kafka()), kgo.SASL(m), kgo.RetryTimeout(time.Second))
		require.NoError(t, err)
		err = k.Ping(t.Context())
		k.Close()
		if m.Name() == "PLAIN" {
			require.Error(t, err)
			continue
		}
		require.NoError(t, err)
	}
}

// written is what a server logs.
type written struct {
	mu sync.Mutex
	bytes.Buffer
}

func (w *written) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.Buffer.Write(b)
}

func TestTheAuditLogHasWhatChangesAndWhatIsRefusedAndNoSecretIsAnywhere(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	path := filepath.Join(t.TempDir(), "audit.log")
	o := alone(t, t.TempDir())
	logged := &written{}
	o.Node.Name, o.Credentials, o.Kafka, o.AuditLog = "a", a.credentials("a"), listen(t), path
	o.HTTP = listen(t)
	o.Node.Logger = slog.New(slog.NewTextHandler(logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
	n, err := Start(o)
	require.NoError(t, err)
	alice := a.dial(t, n.GRPC())
	_, err = alice.Admin().CreateLog(t.Context(), "orders", client.LogConfig{})
	require.NoError(t, err)
	admin := enforced(t, alice, client.Grant{Principal: "user/bob", Object: "log/orders", Rights: []string{"read"}})
	const chosen = "chosen-password-of-bob"
	_, _, err = admin.Access().PutUser(t.Context(), "bob", chosen)
	require.NoError(t, err)
	made, _, err := admin.Access().PutUser(t.Context(), "carol", "")
	require.NoError(t, err)
	text, token, err := admin.Access().CreateAccessToken(t.Context(), "bob", time.Hour)
	require.NoError(t, err)
	join, err := admin.CreateToken(t.Context(), time.Hour, false)
	require.NoError(t, err)
	bob := a.withToken(t, text, n.GRPC())
	_, _, err = bob.Admin().Trim(t.Context(), "orders", 0, false)
	require.ErrorIs(t, err, client.ErrPermissionDenied)
	said := []string{err.Error()}
	p, err := bob.Producer(t.Context(), "orders")
	if err == nil {
		_, err = p.Append(t.Context(), []byte("a record"))
		_ = p.Close(t.Context())
	}
	require.ErrorIs(t, err, client.ErrPermissionDenied)
	forged := text[:len(text)-1] + "A"
	if forged == text {
		forged = text[:len(text)-1] + "B"
	}
	_, err = a.withToken(t, forged, n.GRPC()).Admin().Access().WhoAmI(t.Context())
	require.ErrorIs(t, err, client.ErrUnauthenticated)
	said = append(said, err.Error())
	files, err := secure.OpenClient(secure.Files{Authority: filepath.Join(a.dir, "ca.crt")})
	require.NoError(t, err)
	for _, pass := range []string{made + "x", "no-such-password"} {
		k, err := kgo.NewClient(kgo.SeedBrokers(n.Kafka()), kgo.SASL(plain.Auth{User: "carol", Pass: pass}.AsMechanism()), kgo.DialTLSConfig(files.Client("127.0.0.1")), kgo.RetryTimeout(time.Second))
		require.NoError(t, err)
		err = k.Ping(t.Context())
		k.Close()
		require.ErrorIs(t, err, kerr.SaslAuthenticationFailed)
		said = append(said, err.Error())
	}
	_, metrics, err := a.get(t, n.HTTP(), "/metrics", a.user("alice"))
	require.NoError(t, err)
	users, err := admin.Access().ListUsers(t.Context())
	require.NoError(t, err)
	tokens, err := admin.Access().ListAccessTokens(t.Context())
	require.NoError(t, err)
	listed, err := json.Marshal([]any{users, tokens})
	require.NoError(t, err)

	// As a tool does that rotates logs.
	require.NoError(t, os.Rename(path, path+".1"))
	require.NoError(t, n.ReopenAuditLog())
	require.NoError(t, admin.Access().RevokeAccessToken(t.Context(), token.ID))
	require.NoError(t, alice.Close())
	require.NoError(t, n.Close())

	first, err := os.ReadFile(path + ".1")
	require.NoError(t, err)
	second, err := os.ReadFile(path)
	require.NoError(t, err)
	type line struct{ Principal, Verb, Object, Outcome, Token, From, Time string }
	find := func(text []byte, want line) (found bool) {
		for _, one := range bytes.Split(bytes.TrimSpace(text), []byte("\n")) {
			var l line
			require.NoError(t, json.Unmarshal(one, &l), "%s", one)
			require.NotEmpty(t, l.Time)
			found = found || l.Principal == want.Principal && l.Verb == want.Verb && l.Object == want.Object && l.Outcome == want.Outcome && l.Token == want.Token
		}
		return found
	}
	for _, want := range []line{
		{Principal: "user/alice", Verb: "create-log", Object: "log/orders", Outcome: "done"},
		{Principal: "user/alice", Verb: "add-grants", Object: "cluster", Outcome: "done"},
		{Principal: "user/alice", Verb: "enforce-rights", Object: "cluster", Outcome: "done"},
		{Principal: "user/alice", Verb: "put-user", Object: "cluster", Outcome: "done"},
		{Principal: "user/alice", Verb: "create-token", Object: "cluster", Outcome: "done"},
		{Principal: "user/alice", Verb: "create-join-token", Object: "cluster", Outcome: "done"},
		{Principal: "user/bob", Verb: "trim", Object: "log/orders", Outcome: "refused", Token: token.ID},
		{Principal: "anonymous", Verb: "authenticate", Object: "user/carol", Outcome: "refused"},
		{Principal: "anonymous", Verb: "authenticate", Object: "token/" + token.ID, Outcome: "refused"},
	} {
		require.True(t, find(first, want), "%v in %s", want, first)
	}
	require.True(t, find(second, line{Principal: "user/alice", Verb: "revoke-token", Object: "cluster", Outcome: "done"}), "%s", second)
	require.NotContains(t, string(first), "a record", "appends that are allowed are not in it")

	all := strings.Join(append(said, logged.String(), string(first), string(second), metrics, string(listed)), "\n")
	for name, secret := range map[string]string{
		"a token": text, "its secret": text[strings.LastIndex(text, "_")+1:], "a password": chosen, "one that was made up": made, "a token to join": join.Token,
		"a wrong password": "no-such-password", "a wrong token": forged,
	} {
		require.NotContains(t, all, secret, name)
	}
	key, err := os.ReadFile(a.node("a").Key)
	require.NoError(t, err)
	require.NotContains(t, all, strings.Split(string(key), "\n")[1])
}

func TestHTTPShowsWhatItsCallersMayObserve(t *testing.T) {
	t.Parallel()
	o := alone(t, t.TempDir())
	o.HTTP, o.Profiles = listen(t), true
	n, err := Start(o)
	require.NoError(t, err)
	defer func() { require.NoError(t, n.Close()) }()
	c, err := client.Dial([]string{n.GRPC()})
	require.NoError(t, err)
	defer c.Close()
	admin := c.Admin()
	tokens := map[string]string{"nobody": ""}
	for user, grant := range map[string]client.Grant{
		"observer": {Principal: "user/observer", Object: "cluster", Rights: []string{"observe"}},
		"reader":   {Principal: "user/reader", Object: "log/*", Rights: []string{"append", "read", "trim", "configure", "observe", "create", "delete"}},
		"root":     {Principal: "user/root", Object: "cluster", Rights: []string{"administer"}},
	} {
		require.NoError(t, admin.Access().AddGrants(t.Context(), grant))
		tokens[user], _, err = admin.Access().CreateAccessToken(t.Context(), user, time.Hour)
		require.NoError(t, err)
	}
	get := func(path, token string) int {
		q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+n.HTTP()+path, nil)
		require.NoError(t, err)
		if token != "" {
			q.Header.Set("Authorization", "Bearer "+token)
		}
		transport := new(http.Transport)
		defer transport.CloseIdleConnections()
		r, err := (&http.Client{Transport: transport}).Do(q)
		require.NoError(t, err)
		_, _ = io.Copy(io.Discard, r.Body)
		require.NoError(t, r.Body.Close())
		return r.StatusCode
	}
	require.Equal(t, http.StatusOK, get("/metrics", ""), "as long as rights are not enforced")
	require.NoError(t, admin.Access().EnforceRights(t.Context(), true, ""))
	for _, path := range []string{"/metrics", "/metrics/logs?name=*", "/debug/pprof/cmdline"} {
		ofProfiles := strings.HasPrefix(path, "/debug")
		want := map[string]int{"nobody": http.StatusUnauthorized, "reader": http.StatusForbidden, "observer": http.StatusOK, "root": http.StatusOK}
		if ofProfiles {
			want["observer"] = http.StatusForbidden
		}
		for user, code := range want {
			got := get(path, tokens[user])
			if path == "/metrics/logs?name=*" && got == http.StatusNotFound {
				got = http.StatusOK // there is no log
			}
			require.Equal(t, code, got, "%s as %s", path, user)
		}
		require.Equal(t, http.StatusUnauthorized, get(path, "strandline_x_y"))
	}
	for _, path := range []string{"/livez", "/readyz"} {
		require.Equal(t, http.StatusOK, get(path, ""))
	}
}

// A refused check says what is in the log, so it takes the right to read it.
func TestACheckedAppendTakesTheRightToRead(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	o := alone(t, t.TempDir())
	o.Node.Name, o.Credentials = "a", a.credentials("a")
	n, err := Start(o)
	require.NoError(t, err)
	defer func() { require.NoError(t, n.Close()) }()
	alice := a.dial(t, n.GRPC())
	defer alice.Close()
	_, err = alice.Admin().CreateLog(t.Context(), "orders", client.LogConfig{})
	require.NoError(t, err)
	admin := enforced(t, alice, client.Grant{Principal: "user/bob", Object: "log/orders", Rights: []string{"append"}})
	heard(t, n)
	text, _, err := admin.Access().CreateAccessToken(t.Context(), "bob", time.Hour)
	require.NoError(t, err)
	p, err := a.withToken(t, text, n.GRPC()).Producer(t.Context(), "orders")
	require.NoError(t, err)
	defer func() { _ = p.Close(t.Context()) }()
	record := []client.Record{{Key: []byte("a"), Value: []byte("one")}}
	_, err = p.AppendBatch(t.Context(), record)
	require.NoError(t, err)
	check := client.WithCheck(client.Check{Keys: [][]byte{[]byte("a")}})
	_, err = p.AppendBatch(t.Context(), record, check)
	require.ErrorIs(t, err, client.ErrPermissionDenied)
	require.ErrorContains(t, err, "read")
	require.NoError(t, admin.Access().AddGrants(t.Context(), client.Grant{Principal: "user/bob", Object: "log/orders", Rights: []string{"read"}}))
	require.Eventually(t, func() bool {
		_, err = p.AppendBatch(t.Context(), record, check)
		return errors.Is(err, client.ErrConflict)
	}, time.Minute, 10*time.Millisecond)
}
