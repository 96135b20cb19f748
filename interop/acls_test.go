package interop

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

const secret = "a-password-for-all"

// enforced is a node that refuses what is not granted: root may administer it, alice what is granted.
func enforced(t *testing.T, toAlice ...[2]string) *cluster {
	t.Helper()
	c := start(t, 1)
	c.enforce(toAlice...)
	return c
}

// enforce adds root, who may do all, alice, who may do what is granted, and the log "orders". A grant is the
// rights and what they are on.
func (c *cluster) enforce(toAlice ...[2]string) {
	c.Helper()
	file := filepath.Join(c.TempDir(), "password")
	require.NoError(c, os.WriteFile(file, []byte(secret), 0o600))
	for _, user := range []string{"root", "alice"} {
		c.strandline("", "user", "add", user, "--password-file", file)
	}
	c.strandline("", "log", "create", "orders")
	for _, g := range toAlice {
		c.strandline("", "grant", "add", "user/alice", g[0], g[1])
	}
	c.strandline("", "grant", "enforce", "--administrator", "user/root")
}

func (c *cluster) loggedIn(user string) *kgo.Client {
	return c.franz(kgo.SASL(scram.Auth{User: user, Pass: secret}.AsSha256Mechanism()))
}

func TestFranzACLs(t *testing.T) {
	c := enforced(t)
	root, alice := kadm.NewClient(c.loggedIn("root")), kadm.NewClient(c.loggedIn("alice"))
	read := kadm.NewACLs().Allow("User:alice").AllowHosts().Topics("orders").ResourcePatternType(kadm.ACLPatternLiteral).Operations(kadm.OpRead, kadm.OpWrite)
	all := kadm.NewACLs().AnyResource().Allow().AllowHosts().Deny().DenyHosts().ResourcePatternType(kadm.ACLPatternAny).Operations()
	list := func() (shown []string) {
		found, err := root.DescribeACLs(t.Context(), all)
		require.NoError(t, err)
		for _, one := range found {
			require.NoError(t, one.Err)
			for _, d := range one.Described {
				shown = append(shown, fmt.Sprint(d.Principal, " ", d.Operation, " ", d.Type, " ", d.Name))
			}
		}
		return shown
	}
	before := list()
	require.Equal(t, []string{"User:root ALL CLUSTER kafka-cluster"}, before)

	found, err := alice.DescribeACLs(t.Context(), all)
	if err == nil {
		err = found[0].Err
	}
	require.ErrorIs(t, err, kerr.ClusterAuthorizationFailed)
	made, err := alice.CreateACLs(t.Context(), read)
	require.NoError(t, err)
	require.ErrorIs(t, made[0].Err, kerr.ClusterAuthorizationFailed)
	topics, err := alice.ListTopics(t.Context())
	require.NoError(t, err)
	require.Empty(t, topics)

	made, err = root.CreateACLs(t.Context(), read)
	require.NoError(t, err)
	for _, one := range made {
		require.NoError(t, one.Err)
	}
	require.ElementsMatch(t, append(before, "User:alice READ TOPIC orders", "User:alice WRITE TOPIC orders"), list())
	require.NoError(t, c.loggedIn("alice").ProduceSync(t.Context(), &kgo.Record{Topic: "orders", Value: []byte("one")}).FirstErr())

	gone, err := root.DeleteACLs(t.Context(), read)
	require.NoError(t, err)
	for _, one := range gone {
		require.NoError(t, one.Err)
		require.Len(t, one.Deleted, 1)
	}
	require.Equal(t, before, list())
	require.ErrorIs(t, c.loggedIn("alice").ProduceSync(t.Context(), &kgo.Record{Topic: "orders", Value: []byte("two")}).FirstErr(), kerr.TopicAuthorizationFailed)
}

// kafka-acls.sh, which is this class.
func TestJavaACLs(t *testing.T) {
	java, dir := jars(t)
	c := enforced(t)
	acls := func(user string, args ...string) (string, error) {
		config := properties(t, map[string]string{
			"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-512", "default.api.timeout.ms": "30000",
			"sasl.jaas.config": fmt.Sprintf("org.apache.kafka.common.security.scram.ScramLoginModule required username=%q password=%q;", user, secret),
		})
		command := exec.Command(java, append([]string{"-Xmx256m", "-cp", "lib/*", "org.apache.kafka.tools.AclCommand", "--bootstrap-server", c.bootstrap, "--command-config", config}, args...)...)
		command.Dir = dir
		out, err := command.CombinedOutput()
		t.Logf("%s: kafka-acls.sh %v\n%s", user, args, out)
		return string(out), err
	}
	grant := []string{"--allow-principal", "User:alice", "--operation", "Read", "--operation", "Describe", "--topic", "orders"}
	out, err := acls("root", append([]string{"--add"}, grant...)...)
	require.NoError(t, err)
	require.NotContains(t, out, "Exception")
	out, err = acls("root", "--list", "--topic", "orders")
	require.NoError(t, err)
	require.Contains(t, out, "principal=User:alice, host=*, operation=READ, permissionType=ALLOW")

	out, err = acls("alice", "--list")
	require.Error(t, err)
	require.Contains(t, out, "ClusterAuthorizationException")
	out, err = acls("alice", append([]string{"--add"}, grant...)...)
	require.Error(t, err)
	require.Contains(t, out, "ClusterAuthorizationException")

	_, err = acls("root", append([]string{"--remove", "--force"}, grant...)...)
	require.NoError(t, err)
	out, err = acls("root", "--list", "--topic", "orders")
	require.NoError(t, err)
	require.NotContains(t, out, "User:alice")
}
