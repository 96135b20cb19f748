// Package identity identifies the other end of a connection: the principals of a
// cluster, the name that a certificate gives to each, and an authority that issues such
// certificates for those who have none of their own.
//
// It opens no file and no connection. Begin with Principal.
package identity

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// Kind is what a principal is.
type Kind string

const (
	// Node is a node of the cluster.
	Node Kind = "node"
	// User is a person or a program that uses the cluster.
	User Kind = "user"
)

// Principal is an identity that can be authenticated. The zero value is not authenticated. It is
// written node/a or user/alice; in a certificate it is a URI among the subject
// alternative names, with the cluster as its host:
//
//	strandline://CLUSTER/node/a
type Principal struct {
	// Cluster is the name under which the certificates of a cluster are issued. A
	// certificate of another cluster proves nothing in this one.
	Cluster string
	Kind    Kind
	Name    string
}

const scheme = "strandline"

// maxName is the longest name of a principal and of a cluster, in bytes.
const maxName = 63

// errNoPrincipal is the error of a certificate that names none.
var errNoPrincipal = errors.New("the certificate names no principal: its subject alternative names must have one URI strandline://CLUSTER/node/NAME or strandline://CLUSTER/user/NAME")

func (p Principal) String() string {
	if p == (Principal{}) {
		return "anonymous"
	}
	return string(p.Kind) + "/" + p.Name
}

// URI is how a certificate names the principal.
func (p Principal) URI() *url.URL {
	return &url.URL{Scheme: scheme, Host: p.Cluster, Path: "/" + string(p.Kind) + "/" + p.Name}
}

// OfCertificate returns the principal that a certificate names. Whether the certificate
// can be believed is for the caller to verify.
func OfCertificate(c *x509.Certificate) (Principal, error) {
	var found []*url.URL
	for _, u := range c.URIs {
		if u.Scheme == scheme {
			found = append(found, u)
		}
	}
	switch len(found) {
	case 0:
		return Principal{}, errNoPrincipal
	case 1:
		return parse(found[0])
	}
	return Principal{}, fmt.Errorf("the certificate names %d principals, the limit is 1", len(found))
}

func parse(u *url.URL) (Principal, error) {
	kind, name, _ := strings.Cut(strings.TrimPrefix(u.Path, "/"), "/")
	p := Principal{Cluster: u.Host, Kind: Kind(kind), Name: name}
	if err := p.check(); err != nil || p.URI().String() != u.String() {
		return Principal{}, fmt.Errorf("the certificate names the principal %q, which is not strandline://CLUSTER/node/NAME or strandline://CLUSTER/user/NAME", u)
	}
	return p, nil
}

// check returns an error if the principal cannot be named in a certificate.
func (p Principal) check() error {
	if err := CheckCluster(p.Cluster); err != nil {
		return err
	}
	if p.Kind != Node && p.Kind != User {
		return fmt.Errorf("a principal must be a node or a user, not %q", p.Kind)
	}
	return CheckName(p.Name)
}

// CheckName returns an error unless a name can be that of a node or a user.
func CheckName(name string) error {
	const known = lower + "ABCDEFGHIJKLMNOPQRSTUVWXYZ" + "._-"
	if name == "" || len(name) > maxName || strings.Trim(name, known) != "" || name == "." || name == ".." {
		return fmt.Errorf("name %q: 1 to %d characters out of a-z A-Z 0-9 . _ -", name, maxName)
	}
	return nil
}

// CheckCluster returns an error unless a name can be that of a cluster in certificates.
func CheckCluster(name string) error {
	if name == "" || len(name) > maxName || strings.Trim(name, lower+".-") != "" ||
		strings.Trim(name, ".-") != name || strings.Contains(name, "..") {
		return fmt.Errorf("cluster %q: 1 to %d characters out of a-z 0-9 . -, with a letter or digit at both ends", name, maxName)
	}
	return nil
}

const lower = "abcdefghijklmnopqrstuvwxyz0123456789"
