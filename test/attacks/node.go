package main

import (
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"strandline.dev/internal/identity"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/server"
	"strandline.dev/internal/transport/secure"
)

// auditLog is the file of a node below a directory.
func auditLog(directory string) string { return filepath.Join(directory, "audit.log") }

// optionsOf are those of a node with three ports, and the authority that has signed its certificate.
func optionsOf(directory string, memory int64, encrypted bool) (o server.Options, by Authority, err error) {
	o = server.Options{
		Node:     settings.Options{DataDir: filepath.Join(directory, "node"), Name: "a", FormAlone: true, Memory: memory, Logger: slog.New(slog.DiscardHandler)},
		AuditLog: auditLog(directory), Whence: whence,
	}
	if err := os.MkdirAll(o.Node.DataDir, 0o700); err != nil {
		return o, by, err
	}
	if encrypted {
		if o.Credentials, by, err = certify(directory); err != nil {
			return o, by, err
		}
	}
	for _, l := range []*net.Listener{&o.GRPC, &o.HTTP, &o.Kafka} {
		if *l, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			o.CloseListeners()
			return o, by, err
		}
	}
	return o, by, nil
}

// whence has connections from elsewhere count for another machine's address: those of this machine have no limit.
func whence(c net.Conn) net.Addr {
	at, ok := c.RemoteAddr().(*net.TCPAddr)
	if !ok || !at.IP.Equal(elsewhere.IP) {
		return c.RemoteAddr()
	}
	return &net.TCPAddr{IP: net.IPv4(10, 1, 0, 1), Port: at.Port}
}

// certify makes an authority and a certificate of the node. Clients need none.
func certify(directory string) (*secure.Credentials, Authority, error) {
	valid := identity.Period{From: time.Now().Add(-time.Hour), To: time.Now().Add(24 * time.Hour)}
	pair, err := identity.NewAuthority("attacked", valid)
	if err != nil {
		return nil, unencrypted, err
	}
	signs, err := identity.OpenAuthority(pair)
	if err != nil {
		return nil, unencrypted, err
	}
	node, err := signs.Node("a", []string{"127.0.0.1"}, valid)
	if err != nil {
		return nil, unencrypted, err
	}
	f := secure.Files{Authority: filepath.Join(directory, "ca.crt"), Certificate: filepath.Join(directory, "node.crt"), Key: filepath.Join(directory, "node.key")}
	for file, text := range map[string][]byte{f.Authority: pair.Certificate, f.Certificate: node.Certificate, f.Key: node.Key} {
		if err := os.WriteFile(file, text, 0o600); err != nil {
			return nil, unencrypted, err
		}
	}
	credentials, err := secure.OpenNode("a", f, nil)
	return credentials, Authority(pair.Certificate), err
}
