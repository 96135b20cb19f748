package kafka

import (
	"io/fs"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEveryBrokerKnowsTheOthers(t *testing.T) {
	brokers := []string{"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"}
	controllers := []string{"127.0.0.1:4", "127.0.0.1:5", "127.0.0.1:6"}
	lines := strings.Split(serverProperties(1, brokers, controllers, "/data"), "\n")
	require.Subset(t, lines, []string{
		"node.id=2",
		"advertised.listeners=BROKER://127.0.0.1:2",
		"controller.quorum.voters=1@127.0.0.1:4,2@127.0.0.1:5,3@127.0.0.1:6",
		"offsets.topic.replication.factor=3",
		"transaction.state.log.min.isr=2",
		"log.dirs=/data",
	})
}

func TestTheRecipeIsInTheBinary(t *testing.T) {
	for _, name := range []string{"fetch.sh", "pom.xml", "preload/slowsync.c"} {
		_, err := fs.Stat(recipe, name)
		require.NoError(t, err)
	}
	script, err := recipe.ReadFile("fetch.sh")
	require.NoError(t, err)
	require.Contains(t, string(script), DefaultVersion, "the script fetches the same version when it is run by hand")
}

func TestASlowDiskNeedsItsLibrary(t *testing.T) {
	_, err := Start(t.Context(), Config{Installation: Installation{Directory: t.TempDir()}, Directory: t.TempDir(), Host: "127.0.0.1", Brokers: 1, SyncDelay: 1})
	require.ErrorContains(t, err, "C compiler")
}
