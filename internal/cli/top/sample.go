package top

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"strandline.dev/client"
	"strandline.dev/internal/cli/terminal"
	"strandline.dev/internal/transport"
)

const (
	// maxAsked is of how many logs a node is asked for the metrics: those that grow or lag most.
	maxAsked = 100
	// maxQuery is how many bytes of names go into one request; the line of a request is limited.
	maxQuery = 8 << 10
	// maxGroups is of how many groups the offsets are read, by name.
	maxGroups = 100
	// groupsEvery is how long offsets of groups are shown before they are read again.
	groupsEvery = 5 * time.Second
	// nodeTime is how long a node may take for its metrics.
	nodeTime = 3 * time.Second
	// callsAtOnce is how many nodes or groups are asked at a time.
	callsAtOnce = 16
)

// sample is what the cluster shows at one time.
type sample struct {
	at       time.Time
	took     time.Duration // to take it
	status   client.ClusterStatus
	pages    map[string]*page // by node; those that answered
	asked    []string         // logs of which there are metrics
	groups   groups
	problems []string // what is missing, and why
}

// groups are those whose offsets were read at a time.
type groups struct {
	at      time.Time
	offsets map[string][]client.GroupOffset
	more    int // groups that were not asked for
	problem string
}

// sampler asks a cluster.
type sampler struct {
	admin *client.Admin
	pages *terminal.Pages
}

// take returns what the cluster shows now; before is what it showed last, or nil.
func (s sampler) take(ctx context.Context, before *sample) (*sample, error) {
	begin := time.Now()
	status, err := s.admin.ClusterStatus(ctx)
	if err != nil {
		return nil, err
	}
	now := &sample{at: time.Now(), status: status, pages: map[string]*page{}}
	var previous client.ClusterStatus
	if before != nil {
		previous, now.groups = before.status, before.groups
	}
	now.asked = choose(status, previous)
	var mu sync.Mutex
	each(status.Nodes, func(n client.NodeStatus) {
		if !n.Alive {
			return
		}
		p, err := s.page(ctx, n, now.asked)
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			now.problems = append(now.problems, fmt.Sprintf("no metrics of node %s: %v", n.Name, err))
			return
		}
		now.pages[n.Name] = p
	})
	slices.Sort(now.problems)
	if time.Since(now.groups.at) >= groupsEvery {
		now.groups = s.groups(ctx)
	}
	if now.groups.problem != "" {
		now.problems = append(now.problems, now.groups.problem)
	}
	now.took = time.Since(begin)
	return now, ctx.Err()
}

// each calls f for each element, some at a time.
func each[E any](all []E, f func(E)) {
	var running sync.WaitGroup
	places := make(chan struct{}, callsAtOnce)
	for _, e := range all {
		places <- struct{}{}
		running.Go(func() {
			defer func() { <-places }()
			f(e)
		})
	}
	running.Wait()
}

// choose returns the logs whose metrics are worth asking for: all, or those that have grown most since before and
// those that lag most.
func choose(now, before client.ClusterStatus) []string {
	ends := make(map[uint64]int64, len(before.Logs))
	for _, l := range before.Logs {
		ends[l.ID] = l.End
	}
	grown := func(l client.LogStatus) int64 { return l.End - ends[l.ID] }
	logs := slices.Clone(now.Logs)
	by := func(much func(client.LogStatus) int64) func(a, b client.LogStatus) int {
		return func(a, b client.LogStatus) int {
			return cmp.Or(cmp.Compare(much(b), much(a)), cmp.Compare(a.Name, b.Name))
		}
	}
	take := min(len(logs), maxAsked)
	var names []string
	slices.SortFunc(logs, by(grown))
	for _, l := range logs[:take] {
		names = append(names, l.Name)
	}
	if take == len(logs) {
		return names
	}
	names = names[:take/2]
	slices.SortFunc(logs, by(statusLag))
	for _, l := range logs {
		if len(names) == take {
			break
		}
		if !slices.Contains(names, l.Name) {
			names = append(names, l.Name)
		}
	}
	return names
}

// page gets the metrics of a node, and of logs on it.
func (s sampler) page(ctx context.Context, n client.NodeStatus, logs []string) (*page, error) {
	ctx, cancel := context.WithTimeout(ctx, nodeTime)
	defer cancel()
	port, err := httpPort(n)
	if err != nil {
		return nil, err
	}
	text, err := s.pages.GetFrom(ctx, port, "/metrics")
	at := time.Now()
	if err != nil {
		return nil, err
	}
	texts := [][]byte{text}
	for _, query := range queries(logs) {
		text, err := s.pages.GetFrom(ctx, port, "/metrics/logs?"+query)
		var refused *terminal.PageError
		switch {
		case errors.As(err, &refused) && refused.Status == http.StatusNotFound: // it has none of them
		case err != nil:
			return nil, err
		default:
			texts = append(texts, text)
		}
	}
	return parse(at, texts...)
}

// queries name logs, some in each.
func queries(logs []string) (all []string) {
	var b strings.Builder
	for _, name := range logs {
		one := "name=" + url.QueryEscape(name)
		if b.Len() > 0 && b.Len()+len(one) >= maxQuery {
			all = append(all, b.String())
			b.Reset()
		}
		if b.Len() > 0 {
			b.WriteByte('&')
		}
		b.WriteString(one)
	}
	if b.Len() > 0 {
		all = append(all, b.String())
	}
	return all
}

// httpPort is the HOST:PORT at which the HTTP port of a node can be reached.
func httpPort(n client.NodeStatus) (string, error) {
	if n.HTTPAddress == "" {
		return "", errors.New("it has no HTTP port")
	}
	host, port, err := net.SplitHostPort(n.HTTPAddress)
	if err != nil {
		return "", err
	}
	if transport.IsWildcard(host) {
		if host, _, err = net.SplitHostPort(n.Address); err != nil {
			return "", err
		}
	}
	return net.JoinHostPort(host, port), nil
}

// groups reads the offsets of consumer groups.
func (s sampler) groups(ctx context.Context) groups {
	g := groups{at: time.Now(), offsets: map[string][]client.GroupOffset{}}
	listed, err := s.admin.ListGroups(ctx)
	if err != nil {
		g.problem = fmt.Sprintf("no consumer groups: %v", err)
		return g
	}
	slices.SortFunc(listed, func(a, b client.GroupInfo) int { return cmp.Compare(a.Group, b.Group) })
	g.more = max(0, len(listed)-maxGroups)
	var mu sync.Mutex
	each(listed[:len(listed)-g.more], func(one client.GroupInfo) {
		offsets, err := s.admin.GroupOffsets(ctx, one.Group)
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			g.problem = fmt.Sprintf("no offsets of group %s: %v", one.Group, err)
			return
		}
		g.offsets[one.Group] = offsets
	})
	return g
}
