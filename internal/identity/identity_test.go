package identity

import (
	"crypto/tls"
	"crypto/x509"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var year = Period{From: time.Now().Add(-time.Hour), To: time.Now().AddDate(1, 0, 0)}

func authority(t *testing.T, cluster string) (*Authority, *x509.CertPool) {
	t.Helper()
	pair, err := NewAuthority(cluster, Period{From: year.From, To: time.Now().AddDate(2, 0, 0)})
	require.NoError(t, err)
	a, err := OpenAuthority(pair)
	require.NoError(t, err)
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM(pair.Certificate))
	return a, pool
}

func leaf(t *testing.T, p Pair, err error) *x509.Certificate {
	t.Helper()
	require.NoError(t, err)
	pair, err := tls.X509KeyPair(p.Certificate, p.Key)
	require.NoError(t, err)
	return pair.Leaf
}

func TestANodesCertificateNamesItAndServesItsHosts(t *testing.T) {
	a, pool := authority(t, "prod")
	pair, err := a.Node("a", []string{"10.0.0.1", "a.example", "::1"}, year)
	c := leaf(t, pair, err)
	p, err := OfCertificate(c)
	require.NoError(t, err)
	require.Equal(t, Principal{Cluster: "prod", Kind: Node, Name: "a"}, p)
	require.Equal(t, "node/a", p.String())
	require.Equal(t, "strandline://prod/node/a", c.URIs[0].String())
	for _, host := range []string{"10.0.0.1", "a.example", "::1"} {
		_, err := c.Verify(x509.VerifyOptions{Roots: pool, DNSName: host})
		require.NoError(t, err, host)
	}
	_, err = c.Verify(x509.VerifyOptions{Roots: pool, DNSName: "b.example"})
	require.Error(t, err)
	_, err = c.Verify(x509.VerifyOptions{Roots: pool, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	require.NoError(t, err, "a node calls others")
}

func TestAUsersCertificateServesNobody(t *testing.T) {
	a, pool := authority(t, "prod")
	pair, err := a.User("alice", year)
	c := leaf(t, pair, err)
	p, err := OfCertificate(c)
	require.NoError(t, err)
	require.Equal(t, "user/alice", p.String())
	_, err = c.Verify(x509.VerifyOptions{Roots: pool, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	require.NoError(t, err)
	_, err = c.Verify(x509.VerifyOptions{Roots: pool})
	require.Error(t, err, "it is not for servers")
}

func TestACertificateDoesNotOutliveItsAuthority(t *testing.T) {
	a, _ := authority(t, "prod")
	pair, err := a.User("alice", Period{From: year.From, To: time.Now().AddDate(50, 0, 0)})
	require.Equal(t, a.certificate.NotAfter, leaf(t, pair, err).NotAfter)
}

func TestOnlyWellFormedURIsNameAPrincipal(t *testing.T) {
	for _, text := range []string{
		"strandline://prod/node/", "strandline://prod/admin/a", "strandline://prod/node/a/b", "strandline:///node/a",
		"strandline://prod/node/a?x=1", "strandline://prod/node/a#x", "strandline://me@prod/node/a", "strandline://prod:1/node/a",
		"strandline://PROD/node/a", "strandline://prod/node/a%2Fb", "strandline://prod/node/a%20b", "strandline://prod//node/a", "strandline:node/a",
		"strandline://prod/node/" + strings.Repeat("a", maxName+1), "strandline://-prod/node/a", "strandline://prod/node/..",
	} {
		u, err := url.Parse(text)
		require.NoError(t, err)
		_, err = OfCertificate(&x509.Certificate{URIs: []*url.URL{u}})
		require.Error(t, err, text)
	}
	good := Principal{Cluster: "prod", Kind: User, Name: "alice"}.URI()
	other := &url.URL{Scheme: "spiffe", Host: "prod", Path: "/alice"}
	p, err := OfCertificate(&x509.Certificate{URIs: []*url.URL{other, good}})
	require.NoError(t, err)
	require.Equal(t, "user/alice", p.String())
	_, err = OfCertificate(&x509.Certificate{URIs: []*url.URL{good, good}})
	require.ErrorContains(t, err, "names 2 principals")
	_, err = OfCertificate(&x509.Certificate{})
	require.ErrorIs(t, err, errNoPrincipal)
}

func TestAnAuthorityIsOpenedWithItsOwnKeyOnly(t *testing.T) {
	one, err := NewAuthority("one", year)
	require.NoError(t, err)
	two, err := NewAuthority("two", year)
	require.NoError(t, err)
	for name, p := range map[string]Pair{
		"another's key":      {one.Certificate, two.Key},
		"no key":             {one.Certificate, []byte("none")},
		"a damaged key":      {one.Certificate, []byte(strings.Replace(string(one.Key), "M", "N", 5))},
		"no certificate":     {[]byte("none"), one.Key},
		"not an authority's": func() Pair { a, _ := OpenAuthority(one); p, _ := a.User("alice", year); return p }(),
	} {
		_, err := OpenAuthority(p)
		require.Error(t, err, name)
		require.NotContains(t, err.Error(), string(p.Key[:4]), "%s: no part of a key is shown", name)
	}
	for _, cluster := range []string{"", "a b", "UPPER", "a/b", "a..b", "-a", strings.Repeat("a", maxName+1)} {
		_, err := NewAuthority(cluster, year)
		require.Error(t, err, cluster)
	}
}

// A principal has one form: what a certificate names is written as it was read.
func FuzzPrincipal(f *testing.F) {
	for _, seed := range []string{"strandline://prod/node/a", "strandline://prod/user/alice", "strandline://prod/node/a%2fb", "strandline://p:1/node/a", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		u, err := url.Parse(text)
		if err != nil {
			return
		}
		p, err := OfCertificate(&x509.Certificate{URIs: []*url.URL{u}})
		if err != nil {
			require.Equal(t, Principal{}, p)
			return
		}
		require.NoError(t, p.check())
		require.Equal(t, u.String(), p.URI().String())
		require.Equal(t, []string{string(p.Kind), p.Name}, strings.Split(p.String(), "/"))
	})
}
