package node

import (
	"context"
	"io"

	"strandline.dev/internal/budget"
	"strandline.dev/internal/node/background"
	"strandline.dev/internal/node/catalog"
	"strandline.dev/internal/node/datadir"
	"strandline.dev/internal/node/hosted"
	"strandline.dev/internal/node/membership"
	"strandline.dev/internal/node/metrics"
	"strandline.dev/internal/node/peers"
	"strandline.dev/internal/node/replicas"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/node/tracing"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/replica/runtime"
)

// newNode creates the parts of a node in the order of start, from the common ones to the verbs. The
// parameters of each constructor are the parts that it uses, which were created above it.
func newNode(o settings.Options, lock io.Closer, me *datadir.Me, created *datadir.ReplicaList, incarnations *datadir.Incarnations) *Node {
	options, logger, disk := &o, o.Logger, o.Disk
	metrics, memory := metrics.New(o.Version), budget.New(o.Memory)
	catalog, logs := new(catalog.Shared), hosted.NewLogs()
	files := datadir.NewFiles(disk, created, datadir.FilesOptions{
		Dir: o.DataDir, SegmentBytes: o.SegmentBytes, SyncDelay: o.SyncDelay, Cluster: func() string { return me.Load().FilesOf() }, Logger: logger,
	})
	tasks, ticking := background.NewTasks(), background.NewTasks()
	due := new(background.Bell) // rung when the members or the connections have changed
	deciding, stopDeciding := context.WithCancel(context.Background())
	waiting, stopWaiting := context.WithCancel(context.Background())
	slow := background.NewSlowWork(o.DiskStall, waiting, replicas.OpenAtOnce)

	// The other nodes: incoming messages, connections, outgoing messages.
	self := peers.NewSelf(options, me)
	status, unknown := peers.NewStatus(), peers.NewUnknown()
	router := peers.NewRouter(catalog)
	admission := peers.NewAdmission(logger, me, catalog, incarnations, self, status, unknown)
	receiver := peers.NewReceiver(logger, metrics, logs, incarnations, due, router, status)
	answers := peers.NewAnswers(self, catalog)
	mesh := peers.NewMesh(options, logger, metrics, memory.Sending, memory.Received, incarnations, self, router, admission, receiver, answers)
	sender := peers.NewSender(mesh, router)
	caller := peers.NewCaller(logger, me, mesh, answers)
	space := peers.NewSpace(options, disk, logger, me, catalog, logs, incarnations, router, status)
	trips := peers.NewTrips(me, catalog, status, caller)
	peers := peers.NewPeers(options, me, catalog, incarnations, self, router, status, unknown, admission, mesh, caller, space, trips)

	// The replicas on this node.
	retention := replicas.NewRetention(logger, metrics, catalog, logs, self, tasks)
	leaderNews := replicas.NewLeaderNews(logger, metrics, router)
	wheel := runtime.NewWheel()
	starter := replicas.NewStarter(options, disk, logger, metrics, memory, me, files, router, sender, space, leaderNews, retention, wheel)
	renewals := replicas.NewRenewals()
	repairs := replicas.NewRepairs(disk, logger, me, catalog, files, peers, caller)
	catalogRepairer := replicas.NewCatalogRepairer(options, disk, logger, me, catalog, logs, files, self, caller, repairs)
	repairer := replicas.NewRepairer(logger, metrics, me, catalog, logs, tasks, repairs, catalogRepairer, renewals)
	catalogMaker := replicas.NewCatalogMaker(logger, me, files, tasks, due, deciding, self, router, peers, caller)
	opener := replicas.NewOpener(logger, metrics, me, catalog, logs, files, slow, receiver, peers, space, starter, renewals, repairer, catalogMaker)
	entryGiver := replicas.NewEntryGiver(logs, self)
	renewer := replicas.NewRenewer(logger, me, catalog, logs, files, peers, caller, renewals)
	rejoin := replicas.NewRejoin(logger, me, catalog, logs, files, incarnations, admission, repairer)
	cleaner := replicas.NewCleaner(options, disk, logger, me, catalog, files, tasks, opener)
	scrubber := replicas.NewScrubber(options, disk, logger, metrics, me, logs, files, incarnations)

	// Membership, and the tasks that keep the cluster in its wanted state.
	ages := new(hosted.Ages)
	clock := membership.NewClock(wheel, ages, peers, space, leaderNews)
	follower := membership.NewFollower(logger, catalog, peers, opener, cleaner)
	controller := membership.NewController(logger, catalog, due, peers)
	stretching := membership.NewStretching(logger, catalog, trips)
	spread := membership.NewSpread(logger, catalog, logs, caller, space)
	handovers := membership.NewHandovers(logger, logs, spread)
	roll := membership.NewRoll(options, me, catalog, self, peers)
	reshaper := membership.NewReshaper(logger, me, catalog, logs, due, roll, handovers)
	runs := []func(context.Context){
		follower.Run, renewer.Run, reshaper.Run, controller.Run, stretching.Run, peers.Query, trips.Run, opener.Run, scrubber.Run, rejoin.Run,
	}
	if o.Archive != nil {
		runs = append(runs, replicas.NewArchiver(options, logger, metrics, logs, self).Run)
	}
	if !o.KeepLeaders {
		runs = append(runs, spread.Run)
	}
	beginning := newBeginning(logger, me, catalog, logs, incarnations, tasks, self, mesh, opener, renewer, cleaner, roll, reshaper, runs)
	joiner := membership.NewJoiner(options, disk, logger, me, logs, files, caller, beginning)
	former := membership.NewFormer(options, logger, me, logs, self, caller, roll, joiner, beginning)
	clusterAdmin := membership.NewClusterAdmin(options, me, catalog, self, peers, caller, roll)

	// The verbs.
	finder := verbs.NewFinder(me, catalog, logs, self, router, peers)
	reads := verbs.NewReads(metrics, memory, ages, finder)
	appends := verbs.NewAppends(metrics, tracing.New(o.Tracing, tasks), finder, reads, retention)
	sessions := verbs.NewSessions(catalog, self, finder)
	holds := verbs.NewHolds(finder)
	writers := verbs.NewWriters(finder)
	describer := verbs.NewDescriber(options, me, catalog, logs, self, router, space, finder, holds)
	statuses := verbs.NewStatuses(options, logger, memory, catalog, logs, self, caller, router, space)
	transfers := verbs.NewTransfers(me, catalog, logs, self, caller, router, finder)
	rights := verbs.NewRights(catalog, self)
	awaiter := verbs.NewAwaiter(logger, me, catalog, logs, caller, opener, finder, describer)
	logAdmin := verbs.NewLogAdmin(logger, catalog, logs, self, caller, peers, opener, describer, awaiter)
	topicAdmin := verbs.NewTopicAdmin(catalog, logs, self, peers, opener, describer, awaiter, logAdmin)
	series := newSeries(metrics, memory, logs, space, clusterAdmin, statuses, describer, holds)

	n := &Node{
		Appends: appends, Reads: reads, Sessions: sessions, Holds: holds, Writers: writers, Describer: describer, LogAdmin: logAdmin, TopicAdmin: topicAdmin,
		Statuses: statuses, Transfers: transfers, Rights: rights, ClusterAdmin: clusterAdmin, Former: former, Handovers: handovers, series: series,
		Answers: answers,

		options: options, lock: lock, disk: disk, metrics: metrics, memory: memory, me: me, catalog: catalog, logs: logs, files: files,
		incarnations: incarnations, tasks: tasks, ticking: ticking, slow: slow, stopWaiting: stopWaiting, stopDeciding: stopDeciding,

		self: self, admission: admission, receiver: receiver, router: router, mesh: mesh, caller: caller, space: space, peers: peers,
		retention: retention, leaderNews: leaderNews, opener: opener, catalogRepairer: catalogRepairer, entryGiver: entryGiver, renewer: renewer,
		rejoin: rejoin, roll: roll, spread: spread, clock: clock, joiner: joiner, finder: finder, awaiter: awaiter, beginning: beginning,
	}
	n.register()
	return n
}
