package scenarios_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/clients/scenarios"
)

// javaProgram returns the folder of the Java client, and a command that runs a program there with
// the client at hand: a class or a source file.
func javaProgram(t *testing.T) (directory string, run func(program string) []string) {
	t.Helper()
	java := tool(t, "java", "java")
	directory = built(t, "java", "target/reports/apidocs/index.html") // made last
	return directory, func(program string) []string {
		return []string{java, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", "target/test-classes:target/classes:target/lib/*", program}
	}
}

func TestTheProgramsOfTheJavaPageRun(t *testing.T) {
	t.Parallel()
	directory, run := javaProgram(t)
	playPage(t, "java", func(program string) *exec.Cmd {
		file := filepath.Join(t.TempDir(), "Example.java")
		require.NoError(t, os.WriteFile(file, []byte(program), 0o600))
		arguments := run(file)
		command := exec.Command(arguments[0], arguments[1:]...)
		command.Dir = directory
		return command
	})
}

func startJava(t *testing.T) *scenarios.Runner {
	t.Helper()
	directory, run := javaProgram(t)
	r, err := scenarios.Start("java", directory, run("dev.strandline.scenarios.Runner")...)
	require.NoError(t, err)
	return r
}
