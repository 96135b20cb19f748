package serve

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"

	"strandline.dev/internal/cli/terminal"
	"strandline.dev/internal/cluster"
	"strandline.dev/internal/transport"
)

// alone reports whether a new node forms a cluster of one.
func (s *serveSettings) alone() bool { return len(s.Node.Peers) == 0 && len(s.Node.Join) == 0 }

// check refuses what cannot work, and takes from --peers what was not said otherwise:
// where to listen and what to advertise.
func (s *serveSettings) check(grpcGiven bool) error {
	if err := s.checkMembership(grpcGiven); err != nil {
		return err
	}
	if err := s.checkKafka(); err != nil {
		return err
	}
	return cmp.Or(s.checkListen(s.grpc), s.checkListen(s.http), s.checkAdvertised())
}

func (s *serveSettings) checkMembership(grpcGiven bool) error {
	n := &s.Node
	if err := terminal.CheckNodeName(n.Name); err != nil {
		return err
	}
	if len(n.Peers) > 0 && len(n.Join) > 0 {
		return errors.New("--peers forms a new cluster and --join joins a running one: give one of them")
	}
	if (n.JoinToken != "" || s.joinTokenFile != "") && len(n.Join) == 0 {
		return errors.New("--join-token and --join-token-file need --join")
	}
	if err := s.readJoinToken(); err != nil {
		return err
	}
	for _, address := range slices.Concat(slices.Sorted(maps.Values(n.Peers)), n.Join) {
		if err := s.checkReachable(address); err != nil {
			return err
		}
	}
	if len(n.Peers) > 0 {
		own, named := n.Peers[n.Name]
		if !named {
			return fmt.Errorf("--peers names %s, but not this node, %s: give its name with --node-name",
				strings.Join(slices.Sorted(maps.Keys(n.Peers)), ", "), n.Name)
		}
		if !grpcGiven {
			s.grpc = own
		}
		if n.GRPCAddress == "" {
			if !agree(s.grpc, own) {
				return fmt.Errorf("--peers has %s at %s, but --grpc listens at %s: give both the same address, or give the address for other nodes with --advertise",
					n.Name, own, s.grpc)
			}
			n.GRPCAddress = own
		}
	}
	if n.GRPCAddress != "" {
		return s.checkReachable(n.GRPCAddress)
	}
	if host, _, err := net.SplitHostPort(s.grpc); err == nil && !s.alone() && transport.IsWildcard(host) {
		return fmt.Errorf("other nodes cannot connect to --grpc %s: give an address at which they reach this node with --advertise HOST:PORT", s.grpc)
	}
	return nil
}

// readJoinToken takes the token from its file.
func (s *serveSettings) readJoinToken() error {
	if s.joinTokenFile == "" {
		return nil
	}
	if s.Node.JoinToken != "" {
		return errors.New("--join-token and --join-token-file both give the token: give one of them")
	}
	text, err := os.ReadFile(s.joinTokenFile)
	if err != nil {
		return fmt.Errorf("--join-token-file: %w", err)
	}
	if s.Node.JoinToken = strings.TrimSpace(string(text)); s.Node.JoinToken == "" {
		return fmt.Errorf("--join-token-file %s is empty", s.joinTokenFile)
	}
	return nil
}

// checkKafka refuses a Kafka port that others can reach, unless that is allowed, and an
// invalid address to advertise to them.
func (s *serveSettings) checkKafka() error {
	advertised := s.Node.KafkaAddress
	if s.kafka == noKafka {
		if advertised != "" {
			return errors.New("--kafka-advertise needs a Kafka port, but --kafka none disables it: leave one of them out")
		}
		return nil
	}
	if err := s.checkListen(s.kafka); err != nil || advertised == "" {
		return err
	}
	if err := s.checkReachable(advertised); err != nil {
		return err
	}
	_, port, _ := net.SplitHostPort(advertised)
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("--kafka-advertise %s: the port must be a number", advertised)
	}
	return nil
}

// agree reports whether a listener at one address can be reached at the other.
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
		case terminal.CheckNodeName(name) != nil:
			return terminal.CheckNodeName(name)
		case found[name] != "":
			return fmt.Errorf("%s is given twice: a node has one name", name)
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

// labelFlag is a list of labels, KEY=VALUE, given one or several at a time.
type labelFlag []cluster.Label

func (l *labelFlag) Set(text string) error {
	found := *l
	for label := range strings.SplitSeq(text, ",") {
		found = append(found, cluster.Label(label))
	}
	if refusal := cluster.CheckLabels(found); refusal != nil {
		return errors.New(refusal.Detail)
	}
	*l = found
	return nil
}

func (l labelFlag) String() string {
	texts := make([]string, len(l))
	for i, label := range l {
		texts[i] = string(label)
	}
	return strings.Join(texts, ",")
}

func (*labelFlag) Type() string { return "label" }
