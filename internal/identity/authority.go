package identity

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"time"
)

// Pair is a certificate and its private key, both in PEM.
type Pair struct{ Certificate, Key []byte }

// Period is how long a certificate is valid.
type Period struct{ From, To time.Time }

// Authority issues the certificates of one cluster.
type Authority struct {
	cluster     string
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// NewAuthority returns the certificate and key of a new authority for a cluster.
func NewAuthority(cluster string, valid Period) (Pair, error) {
	if err := CheckCluster(cluster); err != nil {
		return Pair{}, err
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "Strandline authority of " + cluster},
		URIs:                  []*url.URL{{Scheme: scheme, Host: cluster}},
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		IsCA:                  true,
		BasicConstraintsValid: true,
		MaxPathLenZero:        true,
	}
	return sign(template, nil, valid)
}

// OpenAuthority returns the authority of a certificate and key that NewAuthority made.
func OpenAuthority(p Pair) (*Authority, error) {
	block, _ := pem.Decode(p.Certificate)
	if block == nil || block.Type != pemCertificate {
		return nil, errors.New("the certificate of the authority is not PEM")
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("the certificate of the authority: %w", err)
	}
	if !certificate.IsCA || len(certificate.URIs) != 1 || certificate.URIs[0].Scheme != scheme || CheckCluster(certificate.URIs[0].Host) != nil {
		return nil, errors.New("the certificate is not that of a Strandline authority")
	}
	// What is wrong with a key is not said in detail: the text could show a part of it.
	errKey := errors.New("the key of the authority is unreadable, or does not match its certificate")
	if block, _ = pem.Decode(p.Key); block == nil {
		return nil, errKey
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, errKey
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok || !key.PublicKey.Equal(certificate.PublicKey) {
		return nil, errKey
	}
	return &Authority{cluster: certificate.URIs[0].Host, certificate: certificate, key: key}, nil
}

// Cluster is the name under which the authority issues certificates.
func (a *Authority) Cluster() string { return a.cluster }

// Node issues a certificate for a node that is reached at hosts, names or addresses. It
// identifies the node to clients and to other nodes.
func (a *Authority) Node(name string, hosts []string, valid Period) (Pair, error) {
	usage := []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	return a.issue(Principal{Cluster: a.cluster, Kind: Node, Name: name}, hosts, usage, valid)
}

// User issues a certificate for a user. No server can use it.
func (a *Authority) User(name string, valid Period) (Pair, error) {
	return a.issue(Principal{Cluster: a.cluster, Kind: User, Name: name}, nil, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, valid)
}

func (a *Authority) issue(p Principal, hosts []string, usage []x509.ExtKeyUsage, valid Period) (Pair, error) {
	if err := p.check(); err != nil {
		return Pair{}, err
	}
	if valid.To.After(a.certificate.NotAfter) {
		valid.To = a.certificate.NotAfter // it is not valid longer than its authority
	}
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: p.String()},
		URIs:        []*url.URL{p.URI()},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: usage,
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	return sign(template, a, valid)
}

const (
	pemCertificate = "CERTIFICATE"
	pemKey         = "PRIVATE KEY"
)

// sign makes a key and has it certified by an authority, or by itself.
func sign(template *x509.Certificate, by *Authority, valid Period) (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, fmt.Errorf("generate a key: %w", err)
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)); err != nil {
		return Pair{}, fmt.Errorf("draw a serial number: %w", err)
	}
	template.NotBefore, template.NotAfter = valid.From, valid.To
	if by == nil {
		by = &Authority{certificate: template, key: key}
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, by.certificate, key.Public(), by.key)
	if err != nil {
		return Pair{}, fmt.Errorf("sign the certificate: %w", err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return Pair{}, fmt.Errorf("encode the key: %w", err)
	}
	return Pair{
		Certificate: pem.EncodeToMemory(&pem.Block{Type: pemCertificate, Bytes: certificate}),
		Key:         pem.EncodeToMemory(&pem.Block{Type: pemKey, Bytes: encoded}),
	}, nil
}
