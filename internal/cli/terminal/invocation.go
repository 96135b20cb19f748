package terminal

import (
	"os"
	"path/filepath"
	"strings"
)

// Invocation returns how this program was started, for commands that we suggest:
// a user of "go run ./cmd/strandline" may have no "strandline" to run.
func Invocation() string {
	executable, err := os.Executable()
	if err == nil && builtByGoRun(executable) {
		return "go run ./cmd/strandline"
	}
	return os.Args[0]
}

// builtByGoRun knows the place where go run puts what it builds, such as
// /tmp/go-build3271/b001/exe/strandline or, cached, .../go-build/ab/abcd-d/strandline.
func builtByGoRun(executable string) bool {
	for directory := range strings.SplitSeq(filepath.ToSlash(filepath.Dir(executable)), "/") {
		if strings.HasPrefix(directory, "go-build") {
			return true
		}
	}
	return false
}
