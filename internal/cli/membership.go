package cli

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"strandline.dev/internal/node"
)

// membership is how a node gets into a cluster.
type membership struct {
	name      string
	peers     peerFlag
	join      []string
	token     string
	advertise string // empty: the address that it listens on
}

func (m *membership) register(flags *pflag.FlagSet) {
	flags.StringVar(&m.name, "node-name", node.DefaultName, "`name` of this node in its cluster: unique, and for ever")
	flags.Var(&m.peers, "peers", "the nodes that form the cluster, this one among them: a=HOST:PORT,b=...")
	flags.StringSliceVar(&m.join, "join", nil, "`addresses` of nodes of a running cluster, to be taken into it")
	flags.StringVar(&m.token, "join-token", "", "`token` of \"cluster token\", to join without being announced; rather in STRANDLINE_SERVE_JOIN_TOKEN")
	flags.StringVar(&m.advertise, "advertise", "", "`address` at which clients and other nodes reach this one (default: its own in --peers, or --grpc)")
}

// alone: a new node forms a cluster of itself.
func (m membership) alone() bool { return len(m.peers) == 0 && len(m.join) == 0 }

// reachedAt is the address that others are told, of a node that listens at one.
func (m membership) reachedAt(listens string) string {
	if m.advertise != "" {
		return m.advertise
	}
	return listens
}

// settleMembership refuses what cannot work, and takes from --peers what was
// not said otherwise: where to listen and what to advertise.
func (s *serveSettings) settleMembership(grpcGiven, insecure bool) error {
	if err := checkNodeName(s.name); err != nil {
		return err
	}
	if len(s.peers) > 0 && len(s.join) > 0 {
		return errors.New("--peers forms a new cluster and --join enters one that runs: give one of them")
	}
	if s.token != "" && len(s.join) == 0 {
		return errors.New("--join-token is for --join")
	}
	for _, address := range slices.Concat(slices.Sorted(maps.Values(s.peers)), s.join) {
		if err := checkReachable(address, insecure); err != nil {
			return err
		}
	}
	if len(s.peers) > 0 {
		own, named := s.peers[s.name]
		if !named {
			return fmt.Errorf("--peers names %s, but not this node, %s: say which one it is with --node-name",
				strings.Join(slices.Sorted(maps.Keys(s.peers)), ", "), s.name)
		}
		if !grpcGiven {
			s.grpc = own
		}
		if s.advertise == "" {
			if !agree(s.grpc, own) {
				return fmt.Errorf("--peers says that %s is at %s, but --grpc listens at %s: make them agree, or say with --advertise where others reach it",
					s.name, own, s.grpc)
			}
			s.advertise = own
		}
	}
	if s.advertise != "" {
		return checkReachable(s.advertise, insecure)
	}
	if host, _, err := net.SplitHostPort(s.grpc); err == nil && !s.alone() && isWildcard(host) {
		return fmt.Errorf("--grpc %s is no address that other nodes can connect to: say with --advertise HOST:PORT where they reach this one", s.grpc)
	}
	return nil
}

// checkNodeName keeps names to what is the same on every terminal.
func checkNodeName(name string) error {
	const known = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
	if name == "" || len(name) > 63 || strings.Trim(name, known) != "" {
		return fmt.Errorf("node name %q: 1 to 63 characters out of a-z A-Z 0-9 . _ -", name)
	}
	return nil
}

// checkReachable refuses an address that nobody could connect to, and one
// beyond this machine unless that is wanted.
func checkReachable(address string, insecure bool) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("%q is not HOST:PORT: %w", address, err)
	}
	if port == "0" || port == "" || isWildcard(host) {
		return fmt.Errorf("nobody can connect to %s: others need a host and a port that stay", address)
	}
	if insecure || isLoopback(host) {
		return nil
	}
	return hintedError{
		fmt.Errorf("address %s is beyond this machine, and nothing is encrypted or checked yet", address),
		"to use it all the same: --insecure",
	}
}

// agree: whoever listens at an address is reached at the other.
func agree(listens, reached string) bool {
	host, port, err := net.SplitHostPort(listens)
	reachedHost, reachedPort, reachedErr := net.SplitHostPort(reached)
	return err == nil && reachedErr == nil && port == reachedPort && (host == reachedHost || isWildcard(host))
}

func isWildcard(host string) bool {
	ip := net.ParseIP(host)
	return host == "" || ip != nil && ip.IsUnspecified()
}

// isLoopback: a host that only this machine reaches.
func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// peerFlag is a list of names and addresses: a=HOST:PORT,b=HOST:PORT.
type peerFlag map[string]string

func (p *peerFlag) Set(text string) error {
	found, addresses := peerFlag{}, map[string]string{}
	for entry := range strings.SplitSeq(text, ",") {
		name, address, both := strings.Cut(strings.TrimSpace(entry), "=")
		switch {
		case !both:
			return fmt.Errorf("%q is not NAME=HOST:PORT", entry)
		case checkNodeName(name) != nil:
			return checkNodeName(name)
		case found[name] != "":
			return fmt.Errorf("%s is there twice: a node has one name", name)
		case addresses[address] != "":
			return fmt.Errorf("%s and %s are both at %s", addresses[address], name, address)
		}
		found[name], addresses[address] = address, name
	}
	*p = found
	return nil
}

func (p peerFlag) String() string {
	entries := make([]string, 0, len(p))
	for _, name := range slices.Sorted(maps.Keys(p)) {
		entries = append(entries, name+"="+p[name])
	}
	return strings.Join(entries, ",")
}

func (*peerFlag) Type() string { return "nodes" }
