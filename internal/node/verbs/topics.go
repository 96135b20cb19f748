package verbs

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/catalog"
	"strandline.dev/internal/node/hosted"
	"strandline.dev/internal/node/peers"
	"strandline.dev/internal/node/replicas"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/record"
)

// TopicAdmin shows and changes logs as Kafka topics.
type TopicAdmin struct {
	catalog   *catalog.Shared
	logs      *hosted.Logs
	self      *peers.Self
	peers     *peers.Peers
	opener    *replicas.Opener
	logAdmin  *LogAdmin
	awaiter   *Awaiter
	describer *Describer
}

// NewTopicAdmin returns the verbs of Kafka's topics.
func NewTopicAdmin(
	catalog *catalog.Shared, logs *hosted.Logs, self *peers.Self, peers *peers.Peers, opener *replicas.Opener,
	describer *Describer, awaiter *Awaiter, logAdmin *LogAdmin,
) *TopicAdmin {
	return &TopicAdmin{
		catalog: catalog, logs: logs, self: self, peers: peers, opener: opener, describer: describer, awaiter: awaiter, logAdmin: logAdmin,
	}
}

// Topic is one or several logs as Kafka's clients see them.
type Topic struct {
	Name string
	// Partitions are the topic's logs from 0 on, at least one.
	Partitions []Info
}

// checkName refuses a name that the caller may not use for a log.
func checkName(c Caller, name string) *record.Refusal {
	switch {
	case !validName.MatchString(name) || name == "." || name == "..":
		return record.Refuse(record.Invalid, "invalid log name %q: use 1 to 249 characters out of a-z A-Z 0-9 . _ -", name)
	case IsSystem(name) && !c.System:
		return record.Refuse(record.Invalid, "invalid log name %q: it is reserved for the system", name)
	}
	return nil
}

// IsSystem reports whether a name belongs to the system, see record.IsSystemLog.
func IsSystem(log string) bool { return record.IsSystemLog(log) }

// CreateTopic creates a topic with a number of partitions, each with the config, and returns when
// they accept appends. on has the nodes of each partition, the first of which leads it; if it is
// nil, they are chosen.
func (tp *TopicAdmin) CreateTopic(ctx context.Context, c Caller, name string, partitions int32, config settings.Config, on [][]uint64) (Topic, error) {
	if r := checkName(Caller{}, name); r != nil {
		return Topic{}, r
	}
	return tp.createPartitions(ctx, c, name, 0, partitions, config, on)
}

// AddPartitions adds partitions to a topic, with the configuration of its first. on has the nodes
// of the new partitions, as for CreateTopic.
func (tp *TopicAdmin) AddPartitions(ctx context.Context, c Caller, name string, partitions int32, on [][]uint64) error {
	t, err := tp.Topic(ctx, c, name)
	if err != nil {
		return err
	}
	config := t.Partitions[0].Config
	_, err = tp.createPartitions(ctx, c, name, int32(len(t.Partitions)), partitions, config, on)
	return err
}

func (tp *TopicAdmin) createPartitions(ctx context.Context, caller Caller, topic string, from, until int32, config settings.Config, on [][]uint64) (Topic, error) {
	t := Topic{Name: topic}
	if on != nil && len(on) != int(until-from) {
		return t, record.Refuse(record.Invalid, "nodes are given for %d partitions, but %d are to be created", len(on), until-from)
	}
	if err := checkConfig(config); err != nil {
		return t, err
	}
	c := tp.catalog.Load()
	if c == nil {
		return t, tp.self.NotMember()
	}
	q := cluster.NewPartitions{Topic: topic, From: from, Until: until, Config: settings.EncodeConfig(config), Created: tp.self.Now().UnixMilli(), Nodes: on, Creator: caller.Creator}
	err := c.Change(ctx, func(s *cluster.State) (cluster.Change, error) {
		return catalog.Refusable(cluster.CreatePartitions(s, q, tp.peers.Reaches))
	})
	if err != nil {
		return t, err
	}
	t.Partitions = make([]Info, until-from)
	var waiting sync.WaitGroup
	for i := range t.Partitions {
		waiting.Go(func() { t.Partitions[i] = tp.awaiter.created(ctx, cluster.PartitionLog(topic, from+int32(i))) })
	}
	waiting.Wait()
	return t, nil
}

// DeleteTopic removes a topic with all its records.
func (tp *TopicAdmin) DeleteTopic(ctx context.Context, _ Caller, name string) error {
	c := tp.catalog.Load()
	if c == nil {
		return tp.self.NotMember()
	}
	if r := checkName(Caller{}, name); r != nil {
		return r
	}
	var gone []cluster.Log
	err := c.Change(ctx, func(s *cluster.State) (cluster.Change, error) {
		gone = cluster.TopicLogs(s, name)
		return catalog.Refusable(cluster.DeleteTopic(s, name))
	})
	if err == nil {
		tp.awaiter.deleted(ctx, gone...)
	}
	return err
}

// ConfigureTopic changes the settings of all partitions of a topic in one step. The
// revision is that of partition 0.
func (tp *TopicAdmin) ConfigureTopic(ctx context.Context, _ Caller, name string, config settings.Config) error {
	c := tp.catalog.Load()
	if c == nil {
		return tp.self.NotMember()
	}
	if err := checkConfig(config); err != nil {
		return err
	}
	err := c.Change(ctx, func(s *cluster.State) (cluster.Change, error) {
		return catalog.Refusable(cluster.ReconfigureTopic(s, name, settings.EncodeConfig(config)))
	})
	if logs := cluster.TopicLogs(c.Shown.Load(), name); err == nil && len(logs) > 0 {
		tp.awaiter.configured(ctx, logs...)
	}
	return err
}

// Topic describes a topic according to this node. Before it reports that there is none, it confirms
// this with the newest catalog. For a partition that this node does not hold it returns the
// catalog's data.
func (tp *TopicAdmin) Topic(ctx context.Context, _ Caller, name string) (Topic, error) {
	c := tp.catalog.Load()
	if c == nil {
		return Topic{}, tp.self.NotMember()
	}
	state := c.Shown.Load()
	if _, ok := state.Logs[name]; !ok {
		if err := c.Refresh(ctx); err != nil {
			return Topic{}, err
		}
		tp.opener.Rehost()
		state = c.Shown.Load()
	}
	if _, ok := state.Logs[name]; !ok || checkName(Caller{}, name) != nil {
		return Topic{}, record.Refuse(record.LogNotFound, "there is no topic %q", name)
	}
	hosted := tp.logs.All()
	t := Topic{Name: name}
	for {
		l, ok := state.Logs[cluster.PartitionLog(name, int32(len(t.Partitions)))]
		if !ok {
			return t, nil
		}
		if h := hosted[l.Name]; h != nil {
			t.Partitions = append(t.Partitions, tp.describer.Describe(h))
		} else {
			t.Partitions = append(t.Partitions, tp.describer.describeElsewhere(l, state))
		}
	}
}

// Topics describes all topics, by name.
func (tp *TopicAdmin) Topics(ctx context.Context, _ Caller, shown func(log string) bool) ([]Topic, error) {
	logs, _, err := tp.logAdmin.listLogs(ctx, false, shown)
	if err != nil {
		return nil, err
	}
	byName := map[string]*Topic{}
	var names []string
	for _, l := range logs {
		name := cmp.Or(l.Config.Topic, l.Name)
		if byName[name] == nil {
			byName[name] = &Topic{Name: name}
			names = append(names, name)
		}
		byName[name].Partitions = append(byName[name].Partitions, l)
	}
	slices.Sort(names)
	topics := make([]Topic, len(names))
	for i, name := range names {
		topics[i] = *byName[name]
		slices.SortFunc(topics[i].Partitions, func(a, b Info) int { return cmp.Compare(a.Config.Partition, b.Config.Partition) })
	}
	return topics, nil
}
