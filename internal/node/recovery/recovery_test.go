package recovery

import (
	"io/fs"
	"log/slog"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/recovery/recoverytest"
	"strandline.dev/internal/record"
	"strandline.dev/internal/segment"
	"strandline.dev/test/disk/faultdisk"
)

const dir = "data"

// member is the data directory of node 1 of three.
func member(t *testing.T, disk *faultdisk.Disk) *Directory {
	t.Helper()
	recoverytest.Member(t, disk, dir, 1, 3)
	return opened(t, disk)
}

func opened(t *testing.T, disk *faultdisk.Disk) *Directory {
	t.Helper()
	d, err := Open(disk, dir, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	return d
}

func taken(t *testing.T, d *Directory) cluster.Remains {
	t.Helper()
	s, err := d.Take()
	require.NoError(t, err)
	s.Taken, s.Nonce = 2000, "nonce"
	return s
}

func recoverWith(d *Directory, plan *cluster.RecoveryPlan, now cluster.Remains) error {
	if err := d.Begin(plan, now); err != nil {
		return err
	}
	_, err := d.Finish()
	return err
}

// After a crash at any operation the directory is as it was, or as it is to be once the node is
// started. Nothing that was stored is gone in either case.
func TestACrashAtEveryStepLeavesBeforeOrAfter(t *testing.T) {
	t.Parallel()
	for _, remains := range []faultdisk.Remains{faultdisk.Nothing, faultdisk.Everything, faultdisk.Some} {
		befores, afters := 0, 0
		every := 1
		if remains == faultdisk.Some {
			every = 4 // writes in part, for some of the steps
		}
		for n := 1; ; n += every {
			disk := faultdisk.New(uint64(n))
			d := member(t, disk)
			before := taken(t, d)
			plan, err := cluster.PlanRecovery([]cluster.Remains{before})
			require.NoError(t, err)
			disk.StopAt(n)
			if recoverWith(d, plan, before) == nil {
				require.Positive(t, befores, "%v", remains)
				require.Greater(t, afters, 20/every, "%v", remains)
				break
			}
			disk.PowerCut(remains)
			// The same command once more, or the next start.
			if d = opened(t, disk); n%2 == 0 && d.Pending() != nil {
				require.NoError(t, d.Begin(plan, cluster.Remains{}), "operation %d", n)
				_, err := d.Finish()
				require.NoError(t, err, "operation %d", n)
			}
			require.NoError(t, Resume(disk, dir, d.Logger), "operation %d", n)
			d = opened(t, disk)
			if d.ClusterID() == "OLD" {
				befores++
				require.True(t, taken(t, d).Same(before), "operation %d", n)
				require.NoError(t, recoverWith(d, plan, taken(t, d)), "operation %d", n)
			} else {
				afters++
			}
			requireRecovered(t, opened(t, disk), plan)
		}
	}
}

func requireRecovered(t *testing.T, d *Directory, plan *cluster.RecoveryPlan) {
	t.Helper()
	require.Equal(t, plan.Cluster, d.ClusterID())
	require.Equal(t, "OLD", d.me.FilesOf())
	s := taken(t, d)
	require.Len(t, s.Replicas, 2, "the one that no log has is set aside")
	require.Len(t, s.Catalog.Nodes, 1)
	require.Equal(t, []cluster.Replica{{ID: 11, Node: 1}}, s.Catalog.Logs["orders"].Replicas)
	for _, r := range s.Replicas {
		require.Empty(t, r.Problem)
		require.Len(t, r.Voters, 1)
		require.Equal(t, r.End, r.Committed, "all that is left counts")
		require.Greater(t, r.Term, uint64(1<<16))
	}
	require.EqualValues(t, 2, s.Replicas[1].End)
	require.Equal(t, []string{"one", "two"}, valuesOf(t, d, recoverytest.Log, 11))
	require.GreaterOrEqual(t, writerTermOf(t, d, recoverytest.Log, 11), record.WriterTerm(cluster.RecoveryWriterTerms))
	aside, err := d.Disk.List(d.files.AsideDir(recoverytest.Unused, 71))
	require.NoError(t, err)
	require.NotEmpty(t, aside)
	require.Nil(t, d.Pending())
	again, err := d.Done()
	require.NoError(t, err)
	require.Equal(t, plan.Cluster, again.Cluster, "nodes that are recovered later find it")
	require.NoError(t, d.Begin(again, s), "done again it does nothing")
	kept, err := d.Finish()
	require.NoError(t, err)
	require.Empty(t, kept)
}

func valuesOf(t *testing.T, d *Directory, id, replica uint64) (values []string) {
	t.Helper()
	s, err := d.open(id, replica)
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	entries, err := s.Entries(s.FirstIndex(), s.LastIndex()+1, 1<<20)
	require.NoError(t, err)
	for _, e := range entries {
		if e.Count == 0 {
			continue
		}
		parsed, err := record.ParseEntry(e.Payload)
		require.NoError(t, err)
		for r, err := range record.Batch(parsed.Body).Records {
			require.NoError(t, err)
			values = append(values, string(r.Value))
		}
	}
	return values
}

// writerTermOf is the newest writer term of a replica.
func writerTermOf(t *testing.T, d *Directory, id, replica uint64) (newest record.WriterTerm) {
	t.Helper()
	s, err := d.open(id, replica)
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	for next := s.FirstIndex(); next <= s.LastIndex(); {
		entries, err := s.Entries(next, s.LastIndex()+1, 1<<20)
		require.NoError(t, err)
		for _, e := range entries {
			if parsed, err := record.ParseEntry(e.Payload); err == nil && parsed.Kind == record.EntryCommand {
				c, err := record.ParseCommand(parsed.Body)
				require.NoError(t, err)
				newest = max(newest, c.WriterTerm)
			}
		}
		next += uint64(len(entries))
	}
	return newest
}

// planned is a plan for what a directory has.
func planned(t *testing.T, d *Directory, nonce string) (*cluster.RecoveryPlan, cluster.Remains) {
	t.Helper()
	s := taken(t, d)
	s.Nonce = nonce
	plan, err := cluster.PlanRecovery([]cluster.Remains{s})
	require.NoError(t, err)
	return plan, s
}

func TestADirectoryThatHasChangedIsNotRecoveredByAnOldPlan(t *testing.T) {
	t.Parallel()
	disk := faultdisk.New(1)
	d := member(t, disk)
	plan, before := planned(t, d, "nonce")
	s, err := d.open(recoverytest.Log, 11)
	require.NoError(t, err)
	_, err = s.Write([]segment.Write{{HardState: &segment.HardState{Term: 3, Commit: 1}, MustSync: true}})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	require.ErrorContains(t, d.Begin(plan, taken(t, d)), "has run since")
	plan.Remains[0].Node = 2
	require.ErrorContains(t, d.Check(plan, before), "is not part of the recovery")
	plan.Was = "OTHER"
	require.ErrorContains(t, d.Check(plan, before), "belongs to cluster OLD, and the plan is for cluster OTHER")
	require.Equal(t, "OLD", opened(t, disk).ClusterID())
}

// After a crash at any operation while a plan is replaced, the directory has one of the two,
// and can be recovered by it.
func TestAPlanThatWasNotStartedIsReplacedByAnother(t *testing.T) {
	t.Parallel()
	found := map[string]int{}
	for n, replaced := 1, false; !replaced; n++ {
		disk := faultdisk.New(uint64(n))
		d := member(t, disk)
		old, before := planned(t, d, "one")
		other, _ := planned(t, d, "two")
		require.NoError(t, d.Begin(old, before))
		require.Equal(t, Planned, d.Progress(old))
		require.ErrorContains(t, d.Begin(other, before), "has another plan", "only if that is asked for")
		require.NoError(t, d.Disregard())
		disk.StopAt(n)
		replaced = d.Begin(other, before) == nil
		disk.PowerCut(faultdisk.Some)
		d = opened(t, disk)
		require.Contains(t, []string{old.Cluster, other.Cluster}, d.Pending().Cluster, "operation %d", n)
		found[d.Pending().Cluster]++
		plan := old
		if d.Pending().Cluster == other.Cluster {
			plan = other
		}
		require.NoError(t, Resume(disk, dir, d.Logger))
		requireRecovered(t, opened(t, disk), plan)
	}
	require.Len(t, found, 2, "crashes come before and after the file has its name")
}

// A plan that is being carried out is never replaced, whatever the crash has left of it.
func TestAPlanThatWasStartedIsNotReplaced(t *testing.T) {
	t.Parallel()
	started := 0
	for n := 1; ; n++ {
		disk := faultdisk.New(uint64(n))
		d := member(t, disk)
		plan, before := planned(t, d, "one")
		require.NoError(t, d.Begin(plan, before))
		disk.StopAt(n)
		_, err := d.Finish()
		if err == nil {
			break
		}
		disk.PowerCut(faultdisk.Everything)
		d = opened(t, disk)
		switch d.Progress(plan) {
		case Planned:
			require.True(t, taken(t, d).Same(before), "operation %d: nothing else has changed", n)
			require.NoError(t, d.Disregard())
		case Started:
			started++
			require.ErrorContains(t, d.Disregard(), "can only be finished")
			require.Equal(t, plan.Cluster, d.Pending().Cluster)
		default:
			require.Equal(t, Committed, d.Progress(plan), "operation %d", n)
		}
	}
	require.Greater(t, started, 5)
}

// What fails is reported as it is on the disk, and is done by the same command later.
func TestAFailureAtEveryStepIsReportedAsItIsAndFinishedLater(t *testing.T) {
	t.Parallel()
	seen := map[Progress]int{}
	for n := 1; ; n++ {
		disk := faultdisk.New(uint64(n))
		d := member(t, disk)
		plan, before := planned(t, d, "one")
		disk.FailNth(faultdisk.Any, n, syscall.ENOSPC)
		err := recoverWith(d, plan, before)
		if disk.Armed() {
			require.NoError(t, err)
			break
		}
		disk.Disarm()
		reported := d.Progress(plan)
		seen[reported]++
		d = opened(t, disk)
		require.Equal(t, d.Progress(plan), reported, "operation %d: %v", n, err)
		if reported == Untouched {
			before = taken(t, d)
		}
		require.NoError(t, recoverWith(d, plan, before), "operation %d", n)
		requireRecovered(t, opened(t, disk), plan)
	}
	require.Len(t, seen, 4, "each of them was reported")
}

// A disk that cannot be read or written for now says nothing about the replicas: they are not
// left out of a plan for that.
func TestAReplicaIsLeftOutForDamageOnly(t *testing.T) {
	t.Parallel()
	for _, why := range []error{fs.ErrPermission, syscall.EROFS, syscall.EMFILE, syscall.ENOSPC} {
		disk := faultdisk.New(1)
		d := member(t, disk)
		disk.FailNthBelow("data/logs/1", faultdisk.Open, 1, why)
		_, err := d.Take()
		require.ErrorIs(t, err, why)
		require.ErrorContains(t, err, "data/logs/1/11")
		require.False(t, disk.Armed())
	}
	disk := faultdisk.New(1)
	d := member(t, disk)
	files, err := disk.List("data/logs/1/11")
	require.NoError(t, err)
	for _, f := range files {
		disk.FlipBit("data/logs/1/11/"+f.Name, 10)
	}
	s := taken(t, d)
	require.Len(t, s.Replicas, 3)
	require.NotEmpty(t, s.Replicas[1].Problem)
	elsewhere := s
	elsewhere.Replicas = slices.Clone(s.Replicas)
	elsewhere.Replicas[1].Problem = "the same by another path"
	require.True(t, s.Same(elsewhere))
}

func TestPlansAndRemainsThatAreDamagedAreRefused(t *testing.T) {
	t.Parallel()
	disk := faultdisk.New(1)
	d := member(t, disk)
	plan, before := planned(t, d, "nonce")
	file, err := EncodeRemains(before)
	require.NoError(t, err)
	s, err := DecodeRemains(file)
	require.NoError(t, err)
	require.True(t, s.Same(before))
	for _, bad := range [][]byte{nil, []byte("null"), []byte("{}"), []byte(`{"content":null,"sum":0}`), file[:len(file)/2], append([]byte("{"), file...)} {
		_, err := DecodeRemains(bad)
		require.Error(t, err, "%s", bad)
	}
	for i := range file {
		bad := append([]byte(nil), file...)
		bad[i] ^= 1
		_, err := DecodeRemains(bad)
		require.Error(t, err, "byte %d", i)
	}
	asPlan, err := encodeSummed(plan)
	require.NoError(t, err)
	_, err = DecodeRemains(asPlan)
	require.ErrorContains(t, err, "not a report of a node's data")
	require.NoError(t, d.Begin(plan, before))
	disk.FlipBit("data/recovery.json", 40)
	_, err = Open(disk, dir, d.Logger)
	require.ErrorContains(t, err, "copy the plan from another node")
	require.ErrorContains(t, Resume(disk, dir, d.Logger), "copy the plan from another node", "nor is the node started")

	other := faultdisk.New(1)
	recoverytest.Member(t, other, dir, 1, 3)
	foreign := opened(t, other)
	plan.Was = "OTHER"
	foreign.me.ClusterID = "OTHER"
	require.NoError(t, foreign.Begin(plan, before))
	_, err = Open(other, dir, d.Logger)
	require.ErrorContains(t, err, "move the plan away")
}
