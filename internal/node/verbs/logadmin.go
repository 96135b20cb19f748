package verbs

import (
	"context"
	"log/slog"
	"regexp"
	"slices"
	"time"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/catalog"
	"strandline.dev/internal/node/hosted"
	"strandline.dev/internal/node/peers"
	"strandline.dev/internal/node/replicas"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/record"
)

// LogAdmin creates, lists, configures and deletes logs.
type LogAdmin struct {
	logger    *slog.Logger
	catalog   *catalog.Shared
	logs      *hosted.Logs
	self      *peers.Self
	peers     *peers.Peers
	caller    *peers.Caller
	opener    *replicas.Opener
	describer *Describer
	awaiter   *Awaiter
}

// NewLogAdmin returns the verbs that create, list, configure and delete logs.
func NewLogAdmin(
	logger *slog.Logger, catalog *catalog.Shared, logs *hosted.Logs, self *peers.Self, caller *peers.Caller, peers *peers.Peers, opener *replicas.Opener,
	describer *Describer, awaiter *Awaiter,
) *LogAdmin {
	return &LogAdmin{
		logger: logger, catalog: catalog, logs: logs, self: self, caller: caller, peers: peers, opener: opener, describer: describer, awaiter: awaiter,
	}
}

// validName matches the valid names of a log, which are those of Kafka's topics.
var validName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,249}$`)

// MaxRequestName is the limit on Caller.Request, which the catalog stores, in bytes.
const MaxRequestName = 64

func checkConfig(c settings.Config) error {
	switch {
	case c.Retention < 0 || c.RetentionBytes < 0 || c.MaxBatchBytes < 0 || c.Replicas < 0:
		return record.Refuse(record.Invalid, "retention, largest batch and replicas must not be negative")
	case c.MaxBatchBytes > record.MaxBatchBytes:
		return record.Refuse(record.Invalid, "the largest batch has %d bytes, the limit is %d", c.MaxBatchBytes, record.MaxBatchBytes)
	case c.Retention > 0 && c.Retention < time.Second:
		return record.Refuse(record.Invalid, "a retention must be at least 1s, not %v", c.Retention)
	case settingsBytes(c.Settings) > maxSettingsBytes:
		return record.Refuse(record.Invalid, "the settings have %d bytes, the limit is %d", settingsBytes(c.Settings), maxSettingsBytes)
	case c.Replicas > cluster.MaxReplicas:
		return record.Refuse(record.Invalid, "%d replicas requested, the limit is %d", c.Replicas, cluster.MaxReplicas)
	}
	return nil
}

// maxSettingsBytes bounds Config.Settings: every node holds those of every log.
const maxSettingsBytes = 4 << 10

func settingsBytes(settings map[string]string) (n int) {
	for name, value := range settings {
		n += len(name) + len(value)
	}
	return n
}

// CreateLog creates a log, and returns when it has a leader. Appends at the leader then wait at
// most for its first entry. If this takes longer than createTime, CreateLog returns an Info whose
// Problem gives the reason; the log exists nevertheless. A repeated call with the same
// caller.Request returns the log that the first call created.
func (a *LogAdmin) CreateLog(ctx context.Context, caller Caller, name string, config settings.Config) (Info, error) {
	if r := checkName(caller, name); r != nil {
		return Info{}, r
	}
	if err := checkConfig(config); err != nil {
		return Info{}, err
	}
	if len(caller.Request) > MaxRequestName {
		return Info{}, record.Refuse(record.Invalid, "the request id has %d bytes, the limit is %d", len(caller.Request), MaxRequestName)
	}
	c := a.catalog.Load()
	if c == nil {
		return Info{}, a.self.NotMember()
	}
	err := c.Change(ctx, func(s *cluster.State) (cluster.Change, error) {
		if l, there := s.Logs[name]; there && caller.Request != "" && l.Request == caller.Request {
			return cluster.Change{}, nil
		}
		created, refusal := cluster.CreateLog(s, cluster.NewLog{
			Name: name, Config: settings.EncodeConfig(config), Created: a.self.Now().UnixMilli(), Request: caller.Request, Creator: caller.Creator,
		}, a.peers.Reaches)
		if refusal != nil {
			return cluster.Change{}, refusal
		}
		return cluster.Change{Put: []cluster.Log{created}}, nil
	})
	if err != nil {
		return Info{}, err
	}
	return a.awaiter.created(ctx, name), nil
}

// ListLogs describes the logs of the cluster, by name, with internal also the system's logs. Unless
// shown is nil, it selects the logs to describe. The Problem of a log says if it has no leader, or
// if none of its nodes answers.
func (a *LogAdmin) ListLogs(ctx context.Context, _ Caller, internal bool, shown func(log string) bool) ([]Info, error) {
	infos, confirmed, err := a.listLogs(ctx, internal, shown)
	if err != nil {
		return nil, err
	}
	if confirmed != nil && len(infos) == 0 {
		return nil, record.Refuse(record.NotLeader, "this node cannot get the list of logs from the catalog's leader: %v", confirmed)
	}
	a.askForUnknown(ctx, infos)
	for i := range infos {
		switch info := &infos[i]; {
		case info.Problem != "":
		case info.Unknown:
			info.Problem = "no node that holds it answers"
		case info.Leader == "" && !a.leads(info.Name):
			info.Problem = "it has no leader at the moment"
		case confirmed != nil:
			info.Problem = "this may be old: the catalog's leader cannot be reached"
		}
	}
	return infos, nil
}

// listLogs describes the logs that are shown as far as this node knows. Confirmed is nil if it
// knows all that there are, or why not.
func (a *LogAdmin) listLogs(ctx context.Context, internal bool, shown func(log string) bool) (infos []Info, confirmed, err error) {
	c := a.catalog.Load()
	if c == nil {
		return nil, nil, a.self.NotMember()
	}
	if confirmed = c.Refresh(ctx); confirmed != nil {
		a.logger.Debug("listing logs without the catalog's leader", "error", confirmed)
	}
	state := c.Shown.Load()
	if shown == nil {
		shown = func(string) bool { return true }
	}
	names := namesOf(state.Logs, func(name string) bool { return (internal || !IsSystem(name)) && shown(name) })
	if confirmed == nil && len(names) > 0 {
		a.opener.Rehost()
	}
	if internal && shown(cluster.CatalogName) {
		infos = append(infos, a.describer.Describe(c.Host()))
	}
	for _, name := range names {
		switch h := a.logs.Named(name); {
		case h != nil:
			infos = append(infos, a.describer.Describe(h))
		default:
			infos = append(infos, a.describer.describeElsewhere(state.Logs[name], state))
		}
	}
	return infos, confirmed, nil
}

// namesOf returns the sorted names of the logs that are wanted: a list of few costs little, however many there are.
func namesOf[L any](logs map[string]L, wanted func(name string) bool) (names []string) {
	for name := range logs {
		if wanted(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// askForUnknown asks the other nodes about logs that this one does not hold.
func (a *LogAdmin) askForUnknown(ctx context.Context, infos []Info) {
	if !slices.ContainsFunc(infos, func(i Info) bool { return i.Unknown }) {
		return
	}
	state := a.catalog.Load().Shown.Load()
	reports := AskAll(ctx, a.caller, state)
	for i := range infos {
		info := &infos[i]
		if !info.Unknown {
			continue
		}
		var best hosted.LogReport
		for node, r := range reports {
			at, holds := r.Logs[info.ID]
			if !holds || at.Problem != "" || !info.Unknown && !at.Newer(&best) {
				continue
			}
			best, info.Unknown = at, false
			if info.Leader = ""; at.Leading {
				info.Leader = state.Nodes[node].Address
			}
		}
		info.Start, info.End, info.BytesUsed, info.LeaderTerm = best.Start, best.End, best.Used, best.Term
		info.Replicas = replicasOf(state, info.Name, info.Leader)
	}
}

// leads reports whether this node leads a log.
func (a *LogAdmin) leads(log string) bool {
	h := a.logs.Named(log)
	return h != nil && h.Replica != nil && h.Replica.Status().Leading
}

// ConfigureLog changes a log's retention. It changes MaxBatchBytes if that is not 0 or there are
// Settings, and the Settings unless they are nil. If Replicas is not 0, it changes the wanted
// number of replicas, which are added and removed afterwards as nodes allow. Durability cannot
// change. ConfigureLog returns when the reachable nodes that hold the log have applied the change.
func (a *LogAdmin) ConfigureLog(ctx context.Context, caller Caller, name string, config settings.Config) (Info, error) {
	c := a.catalog.Load()
	if c == nil {
		return Info{}, a.self.NotMember()
	}
	if err := checkConfig(config); err != nil {
		return Info{}, err
	}
	refenced := false
	err := c.Change(ctx, func(s *cluster.State) (cluster.Change, error) {
		refenced = refenced || s.Logs[name].Config.Fenced != config.Fenced
		return catalog.Refusable(cluster.ReconfigureLog(s, name, caller.Log, settings.EncodeConfig(config)))
	})
	if err != nil {
		return Info{}, err
	}
	state := c.Shown.Load()
	a.awaiter.configured(ctx, state.Logs[name])
	if refenced {
		return a.awaiter.ready(ctx, name, "the log has been configured, but does not go by it yet"), nil
	}
	if h := a.logs.Named(name); h != nil {
		return a.describer.Describe(h), nil
	}
	return a.describer.describeElsewhere(state.Logs[name], state), nil
}

// DeleteLog removes a log with all its records. Each node removes its files when it receives the
// change. DeleteLog returns when the reachable nodes that hold the log have done so. A call with
// the log's id may be repeated: LogNotFound or LogReplaced then means that the log was deleted.
func (a *LogAdmin) DeleteLog(ctx context.Context, caller Caller, name string) error {
	c := a.catalog.Load()
	if c == nil {
		return a.self.NotMember()
	}
	if IsSystem(name) {
		return record.Refuse(record.Invalid, "log %q belongs to the system", name)
	}
	var gone cluster.Log
	err := c.Change(ctx, func(s *cluster.State) (cluster.Change, error) {
		gone = s.Logs[name]
		return catalog.Refusable(cluster.DeleteLog(s, name, caller.Log))
	})
	if err == nil {
		a.awaiter.deleted(ctx, gone)
	}
	return err
}
