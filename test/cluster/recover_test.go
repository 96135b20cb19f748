package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/client"
)

// Two of three are lost for good, and the third continues with all that was acknowledged, since it
// had it. One of the lost comes back, and learns that the cluster goes on without it.
func TestAClusterThatHasLostItsMajorityIsRecovered(t *testing.T) {
	c, l := underLoad(t)
	l.Await(500)
	result := l.Stop()
	require.Zero(t, result.FailedCalls())
	c.AwaitHealthy() // all have all
	a, b, back := c.Node("a"), c.Node("b"), c.Node("c")
	before, err := a.Client().Admin().Info(t.Context(), "orders")
	require.NoError(t, err)
	ctx, cancel := WithPatience()
	defer cancel()
	granted, _, err := a.Client().Admin().AcquireWriter(ctx, "orders")
	require.NoError(t, err)
	out, err := c.Run(ctx, "cluster", "recover", "--data", a.Data())
	require.ErrorContains(t, err, "stop the node that runs on it first")
	require.Empty(t, out)
	a.Kill()
	b.Kill()
	_, err = c.Run(ctx, "cluster", "recover", "--data", a.Data())
	require.ErrorContains(t, err, "the address of node c: if that runs it is not lost")
	require.NotContains(t, err.Error(), "the address of node b")
	back.Kill()
	b.Wipe()
	c.Forget("b")

	out, err = c.Run(ctx, "cluster", "recover", "--data", a.Data())
	require.ErrorContains(t, err, "--i-accept-loss", "it does nothing that nobody asked for")
	require.Contains(t, out+err.Error(), "records from offset")
	out, err = c.Run(ctx, "cluster", "recover", "--data", a.Data(), "--i-accept-loss", "--json")
	require.NoError(t, err)
	plan, _ := recovered(t, out)
	require.ElementsMatch(t, []string{"b", "c"}, plan.Lost)

	a.Start()
	admin := a.Client().Admin()
	var info client.LogInfo
	require.Eventually(t, func() bool {
		info, err = admin.Info(ctx, "orders")
		return err == nil
	}, Patience, 20*time.Millisecond)
	require.Equal(t, before.Start, info.Start)
	require.GreaterOrEqual(t, info.End, before.End, "all that was acknowledged is there")
	term, _, err := admin.AcquireWriter(ctx, "orders")
	require.NoError(t, err)
	require.Greater(t, term, granted+1<<30, "above all that the lost nodes may have granted")
	l.Verify()
	p, err := a.Client().Producer(ctx, "orders")
	require.NoError(t, err)
	last, err := p.Append(ctx, []byte("after the recovery"))
	require.NoError(t, err)
	require.NoError(t, p.Close(ctx))
	require.GreaterOrEqual(t, last, info.End)

	back.Start()
	require.Eventually(t, func() bool { return strings.Contains(back.Log(), "was recovered without node") }, Patience, 20*time.Millisecond, "an old node is refused, and says so")
	require.True(t, back.Running(), "what another node says stops nobody")
	status, err := admin.ClusterStatus(ctx)
	require.NoError(t, err)
	require.NotEqual(t, plan.Was, status.ClusterID)
	require.Len(t, status.Nodes, 1)
	back.Kill()
	c.Forget("c")
	c.Join("d")
	c.Join("e")
	c.AwaitReplicas("orders", "a", "d", "e")
}

// A datacenter with three of five is lost for good. The two nodes that survive are on different machines, which
// have nothing in common but the files that were copied between them. One of them is behind the other. Two of the lost
// nodes come back as they were: they are refused, acknowledge nothing, and keep what they have.
func TestSurvivorsOnSeveralMachinesAreRecoveredEachOnItsOwn(t *testing.T) {
	t.Parallel()
	place := map[string]string{"a": "fra", "b": "fra", "c": "ams", "d": "ams", "e": "ams"}
	c := Start(t, Options{Nodes: 5, Place: func(node string) string { return place[node] }})
	c.CreateLog("orders", client.LogConfig{Replicas: 5})
	c.CreateLog("elsewhere", client.LogConfig{Rule: &client.PlacementRule{VotersIn: []string{"dc=ams"}}})
	l := c.Load(LoadOptions{Log: "orders"})
	l.Await(100)
	c.Node("b").Kill()
	l.Await(100)
	l.Stop()
	c.Await("node a to have all", func(s *client.ClusterStatus) string {
		log := FindLog(s, "orders")
		if log == nil || log.Leader == "" {
			return "it has no leader"
		}
		for _, r := range log.Replicas {
			if r.Node == "a" && r.End == log.End {
				return ""
			}
		}
		return fmt.Sprintf("%+v", log)
	})
	for _, name := range []string{"a", "c", "d", "e"} {
		c.Node(name).Kill()
	}
	c.Node("e").Wipe()
	c.Forget("e")
	ctx, cancel := WithPatience()
	defer cancel()

	files := map[string][]byte{}
	for _, name := range []string{"a", "b"} {
		path := filepath.Join(t.TempDir(), name+".json")
		_, err := c.Run(ctx, "cluster", "recover", "--data", c.Node(name).Data(), "--write-remains", path)
		require.NoError(t, err)
		files[name], err = os.ReadFile(path)
		require.NoError(t, err)
	}
	id := ""
	for _, name := range []string{"a", "b"} {
		machine := t.TempDir()
		var remains []string
		for of, content := range files {
			path := filepath.Join(machine, of+".json")
			require.NoError(t, os.WriteFile(path, content, 0o600))
			remains = append(remains, path)
		}
		out, err := c.Run(ctx, "cluster", "recover", "--data", c.Node(name).Data(), "--remains", strings.Join(remains, ","), "--i-accept-loss", "--json")
		require.NoError(t, err)
		plan, done := recovered(t, out)
		require.ElementsMatch(t, []string{"c", "d", "e"}, plan.Lost)
		require.Equal(t, "a", plan.log("orders").Survivors[0].Name, "b is behind")
		require.Empty(t, plan.log("elsewhere").Survivors)
		require.True(t, id == "" || id == plan.Cluster, "both machines come to the same plan")
		id = plan.Cluster
		require.Equal(t, id, done.Cluster)
		require.Len(t, done.Elsewhere, 1)
		require.NotEmpty(t, done.Kept)
		for _, path := range done.Kept {
			_, err := os.Stat(path)
			require.NoError(t, err)
		}
	}
	a, b := c.Node("a"), c.Node("b")
	c.StartTogether(a, b)
	admin := a.Client().Admin()
	require.Eventually(t, func() bool {
		_, err := admin.Info(ctx, "orders")
		return err == nil
	}, Patience, 20*time.Millisecond)
	_, end := l.Verify()
	p, err := a.Client().Producer(ctx, "orders")
	require.NoError(t, err)
	last, err := p.Append(ctx, []byte("after the recovery"))
	require.NoError(t, err)
	require.NoError(t, p.Close(ctx))
	require.GreaterOrEqual(t, last, end)
	require.NoError(t, admin.DeleteLog(ctx, "elsewhere"), "of which nothing is left but its name")

	c.StartTogether(c.Node("c"), c.Node("d"))
	for _, name := range []string{"c", "d"} {
		old := c.Node(name)
		refusal := fmt.Sprintf("was recovered without node %q", name)
		refused := func() bool { return strings.Contains(strings.ReplaceAll(old.Log(), `\"`, `"`), refusal) }
		require.Eventually(t, refused, Patience, 20*time.Millisecond, "node %s is refused, and says so", name)
		brief, done := context.WithTimeout(ctx, time.Second)
		p, err := old.Client().Producer(brief, "orders")
		if err == nil {
			_, err = p.Append(brief, []byte("to an old node"))
			_ = p.Close(brief)
		}
		done()
		require.Error(t, err, "it acknowledges nothing")
		require.True(t, old.Running(), "it is refused, and not stopped")
		out, err := c.Run(ctx, "read", "orders", "--from-start", "--consistency", "any", "--server", old.Address())
		require.NoError(t, err)
		require.NotEmpty(t, out, "what it has can be read")
	}
	status, err := admin.ClusterStatus(ctx)
	require.NoError(t, err)
	require.Equal(t, id, status.ClusterID)
	require.Len(t, status.Nodes, 2)
	for _, n := range c.Nodes() {
		n.Kill()
	}
	for _, name := range []string{"c", "d"} {
		_, err := c.Run(ctx, "verify", c.Node(name).Data())
		require.NoError(t, err)
	}
	require.Positive(t, c.RequireSameReplicas(), "what the old nodes have committed is still there, and what the new cluster has")
}

// The node with it stays a member, and follows the catalog of the other one.
func TestASurvivorWithADamagedCatalogGetsAnother(t *testing.T) {
	t.Parallel()
	c := Start(t, Options{Nodes: 5})
	c.CreateLog("orders", client.LogConfig{Replicas: 5})
	l := c.Load(LoadOptions{Log: "orders"})
	l.Await(100)
	l.Stop()
	c.AwaitHealthy()
	for _, n := range c.Nodes() {
		n.Kill()
	}
	for _, name := range []string{"c", "d", "e"} {
		c.Forget(name)
	}
	ctx, cancel := WithPatience()
	defer cancel()
	a, b := c.Node("a"), c.Node("b")
	segments, err := filepath.Glob(filepath.Join(b.Data(), "logs", "0", "*", "*.seg"))
	require.NoError(t, err)
	require.NotEmpty(t, segments)
	for _, s := range segments {
		require.NoError(t, os.Truncate(s, 100))
	}
	out, err := c.Run(ctx, "cluster", "recover", "--data", a.Data()+","+b.Data(), "--i-accept-loss")
	require.NoError(t, err)
	require.Contains(t, out, "of log 0: open log in", "what cannot be used is named")
	c.StartTogether(a, b)
	c.Await("both to have the catalog and the log", func(s *client.ClusterStatus) string {
		for _, name := range []string{"_catalog", "orders"} {
			l := FindLog(s, name)
			if l == nil || len(l.Replicas) < 2 {
				return name + " is missing"
			}
			voters := 0
			for _, r := range l.Replicas {
				if r.Role == client.Voter && r.Lag == 0 && r.State != client.Unreachable {
					voters++
				}
			}
			if voters < 2 {
				return name
			}
		}
		return ""
	})
	l.Verify()
}

// One of five is lost, and with it the only replica of one log. The other four are the majority of the rest, which
// goes on without a record less, whichever of them are started first.
func TestARecoveryForOneLogLosesNothingOfTheOthers(t *testing.T) {
	t.Parallel()
	c := Start(t, Options{Nodes: 5, Place: func(node string) string { return node }})
	c.CreateLog("orders", client.LogConfig{Replicas: 5})
	c.CreateLog("alone", client.LogConfig{Replicas: 1, Rule: &client.PlacementRule{VotersIn: []string{"dc=e"}}})
	l := c.Load(LoadOptions{Log: "orders"})
	l.Await(100)
	l.Stop()
	c.AwaitHealthy()
	var data []string
	for _, n := range c.Nodes() {
		n.Kill()
		if n.Name() != "e" {
			data = append(data, n.Data())
		}
	}
	c.Node("e").Wipe()
	c.Forget("e")
	ctx, cancel := WithPatience()
	defer cancel()
	out, err := c.Run(ctx, "cluster", "recover", "--data", strings.Join(data, ","), "--i-accept-loss", "--json")
	require.NoError(t, err)
	plan, _ := recovered(t, out)
	require.Len(t, plan.log("orders").Survivors, 4)
	require.Len(t, plan.log("_catalog").Survivors, 1, "the other three would elect a leader without it")
	first := c.Node(plan.log("_catalog").Survivors[0].Name)
	var others []*Node
	for _, n := range c.Nodes() {
		if n != first {
			others = append(others, n)
		}
	}
	for _, n := range others {
		n.launch()
	}
	c.StartTogether(first)
	l.Verify()
	require.NoError(t, first.Client().Admin().DeleteLog(ctx, "alone"))
	c.Join("f")
	c.AwaitReplicas("orders", "a", "b", "c", "d", "f")
	c.CreateLog("invoices", client.LogConfig{Replicas: 3})
}

// recoveryPlan and recoveryDone are what cluster recover prints.
type (
	recoveryPlan struct {
		Was     string              `json:"was"`
		Cluster string              `json:"cluster"`
		Lost    []string            `json:"lost_nodes"`
		Logs    []recoveryPlanOfLog `json:"logs"`
	}
	recoveryPlanOfLog struct {
		Name      string `json:"name"`
		Survivors []struct {
			Name string `json:"name"`
		} `json:"survivors"`
	}
	recoveryDone struct {
		Cluster   string   `json:"recovered"`
		Kept      []string `json:"kept"`
		Elsewhere []string `json:"elsewhere"`
	}
)

func (p *recoveryPlan) log(name string) recoveryPlanOfLog {
	i := slices.IndexFunc(p.Logs, func(l recoveryPlanOfLog) bool { return l.Name == name })
	return p.Logs[i]
}

func recovered(t *testing.T, out string) (plan recoveryPlan, done recoveryDone) {
	t.Helper()
	objects := json.NewDecoder(strings.NewReader(out))
	require.NoError(t, objects.Decode(&plan))
	require.NoError(t, objects.Decode(&done))
	return plan, done
}
