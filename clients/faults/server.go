package faults

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	"strandline.dev/test/proxy"
)

// Server stands in front of all nodes of a cluster. It is safe for concurrent use.
type Server struct {
	nodes []*node

	mu      sync.Mutex
	rules   []*counted
	seen    map[string]int
	atOnce  map[string]int // calls of a method that have no answer yet
	session uint64         // of the newest append
	batches map[batch]bool // that were appended in sessions
}

// batch is what a request in a session appends, which it names again if it is sent again.
type batch struct {
	session uint64
	epoch   uint32
	first   uint64
}

// counted is a rule with how many messages it has counted.
type counted struct {
	Rule
	count int
}

// node is what stands in front of one.
type node struct {
	server   *Server
	number   int
	link     *proxy.Proxy
	grpc     *grpc.Server
	target   *grpc.ClientConn
	upstream string
	serving  sync.WaitGroup
}

// Start stands in front of the nodes whose gRPC ports are at the addresses. With security
// its own ports are encrypted.
func Start(addresses []string, security *tls.Config) (*Server, error) {
	s := &Server{seen: map[string]int{}, atOnce: map[string]int{}, batches: map[batch]bool{}}
	for i, address := range addresses {
		n, err := s.front(i+1, address, security)
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		s.nodes = append(s.nodes, n)
	}
	return s, nil
}

func (s *Server) front(number int, address string, security *tls.Config) (*node, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	link, err := proxy.Listen("127.0.0.1:0", listener.Addr().String())
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	target, err := grpc.NewClient("passthrough:///"+address,
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy(),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(rawCodec{}), grpc.MaxCallRecvMsgSize(maxMessage)))
	if err != nil {
		return nil, errors.Join(err, link.Close(), listener.Close())
	}
	n := &node{server: s, number: number, link: link, target: target, upstream: address}
	options := []grpc.ServerOption{
		grpc.ForceServerCodecV2(rawCodec{}), grpc.UnknownServiceHandler(n.handle), grpc.MaxRecvMsgSize(maxMessage),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second, PermitWithoutStream: true}),
	}
	if security != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(security)))
	}
	n.grpc = grpc.NewServer(options...)
	n.serving.Go(func() { _ = n.grpc.Serve(listener) })
	return n, nil
}

// maxMessage is what one message may be: as much as the nodes take.
const maxMessage = 64 << 20

// Close ends all connections.
func (s *Server) Close() error {
	var errs []error
	for _, n := range s.nodes {
		errs = append(errs, n.link.Close())
		n.grpc.Stop()
		n.serving.Wait()
		errs = append(errs, n.target.Close())
	}
	return errors.Join(errs...)
}

// Addresses are where clients connect to, in the order of the nodes.
func (s *Server) Addresses() []string {
	var all []string
	for _, n := range s.nodes {
		all = append(all, n.link.Address())
	}
	return all
}

// Links are the TCP links to the nodes, in their order: to delay, to stall, to cut.
func (s *Server) Links() []*proxy.Proxy {
	var all []*proxy.Proxy
	for _, n := range s.nodes {
		all = append(all, n.link)
	}
	return all
}

// Add makes faults by a rule, beside those that there are. Of several rules that cover
// a message the first counts.
func (s *Server) Add(r Rule) error {
	if err := r.Check(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rules = append(s.rules, &counted{Rule: r})
	return nil
}

// Clear forgets all rules.
func (s *Server) Clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rules = nil
}

// Seen is how often each thing has happened: requests by method, and by method and node
// as "Read@1"; "Frame"; "batches" that were appended, however often they were sent; "duplicates" that a node has recognised; the most appends of one
// stream that were "in flight"; the most calls of a method that were "Trim at once"; and calls that their client has
// left before their end, as "Read left".
func (s *Server) Seen() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make(map[string]int, len(s.seen))
	for name, n := range s.seen {
		all[name] = n
	}
	return all
}

// Session is the session of the newest append; 0: none.
func (s *Server) Session() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.session
}

// meet counts a message to or from a node and returns the rule that covers it; its Do is
// empty if none does.
func (s *Server) meet(on string, node int) Rule {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen[on]++
	s.seen[fmt.Sprintf("%s@%d", on, node)]++
	var found Rule
	for _, r := range s.rules {
		if r.On != on || r.Node != 0 && r.Node != node {
			continue
		}
		if r.count++; r.covers(r.count) && found.Do == "" {
			found = r.Rule
		}
	}
	return found
}

// noteBatch counts a batch that has not come before. Without a session it is not known whether it has.
func (s *Server) noteBatch(b batch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b.session != 0 {
		s.session = b.session
	}
	if b.session == 0 || !s.batches[b] {
		s.seen["batches"]++
	}
	s.batches[b] = true
}

func (s *Server) count(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen[what]++
}

// enter counts a call that has no answer yet, and the most of its method "at once". What it
// returns takes the call off; only its first use does.
func (s *Server) enter(method string) (left func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.atOnce[method]++
	most := method + " at once"
	s.seen[most] = max(s.seen[most], s.atOnce[method])
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.atOnce[method]--
	})
}

// noteLeft counts a call that its client has left before its end.
func (s *Server) noteLeft(method string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen[method+" left"]++
}

// most raises a count to n.
func (s *Server) most(what string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen[what] = max(s.seen[what], n)
}
