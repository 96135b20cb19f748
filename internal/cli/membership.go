package cli

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	"strandline.dev/internal/transport"
)

// alone: a new node forms a cluster of itself.
func (s *serveSettings) alone() bool { return len(s.Node.Peers) == 0 && len(s.Node.Join) == 0 }

// check refuses what cannot work, and takes from --peers what was not said otherwise:
// where to listen and what to advertise.
func (s *serveSettings) check(grpcGiven, insecure bool) error {
	if err := s.checkMembership(grpcGiven, insecure); err != nil {
		return err
	}
	if err := s.checkKafka(insecure); err != nil {
		return err
	}
	return cmp.Or(checkListen(s.grpc, insecure), checkListen(s.http, insecure))
}

func (s *serveSettings) checkMembership(grpcGiven, insecure bool) error {
	n := &s.Node
	if err := checkNodeName(n.Name); err != nil {
		return err
	}
	if len(n.Peers) > 0 && len(n.Join) > 0 {
		return errors.New("--peers forms a new cluster and --join enters one that runs: give one of them")
	}
	if n.JoinToken != "" && len(n.Join) == 0 {
		return errors.New("--join-token is for --join")
	}
	for _, address := range slices.Concat(slices.Sorted(maps.Values(n.Peers)), n.Join) {
		if err := checkReachable(address, insecure); err != nil {
			return err
		}
	}
	if len(n.Peers) > 0 {
		own, named := n.Peers[n.Name]
		if !named {
			return fmt.Errorf("--peers names %s, but not this node, %s: say which one it is with --node-name",
				strings.Join(slices.Sorted(maps.Keys(n.Peers)), ", "), n.Name)
		}
		if !grpcGiven {
			s.grpc = own
		}
		if n.GRPCAddress == "" {
			if !agree(s.grpc, own) {
				return fmt.Errorf("--peers says that %s is at %s, but --grpc listens at %s: make them agree, or say with --advertise where others reach it",
					n.Name, own, s.grpc)
			}
			n.GRPCAddress = own
		}
	}
	if n.GRPCAddress != "" {
		return checkReachable(n.GRPCAddress, insecure)
	}
	if host, _, err := net.SplitHostPort(s.grpc); err == nil && !s.alone() && transport.IsWildcard(host) {
		return fmt.Errorf("--grpc %s is no address that other nodes can connect to: say with --advertise HOST:PORT where they reach this one", s.grpc)
	}
	return nil
}

// checkKafka refuses a Kafka port that others can reach, unless that is wanted,
// and an address to tell them that is none.
func (s *serveSettings) checkKafka(insecure bool) error {
	told := s.Node.KafkaAddress
	if s.kafka == noKafka {
		if told != "" {
			return errors.New("--kafka none serves no port that --kafka-advertise could tell of: give one of them")
		}
		return nil
	}
	if err := checkListen(s.kafka, insecure); err != nil || told == "" {
		return err
	}
	if err := checkReachable(told, insecure); err != nil {
		return err
	}
	_, port, _ := net.SplitHostPort(told)
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("--kafka-advertise %s: Kafka's clients are told a number for a port", told)
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
	if port == "0" || port == "" || transport.IsWildcard(host) {
		return fmt.Errorf("nobody can connect to %s: others need a host and a port that stay", address)
	}
	if insecure || transport.IsLoopback(host) {
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
	return err == nil && reachedErr == nil && port == reachedPort && (host == reachedHost || transport.IsWildcard(host))
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
