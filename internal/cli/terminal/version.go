package terminal

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
)

type versionJSON struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Date     string `json:"date,omitempty"`     // of the revision, as in RFC 3339
	Modified bool   `json:"modified,omitempty"` // beyond the revision
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func (v versionJSON) String() string {
	return fmt.Sprintf("strandline %s, %s, %s", v.Version, v.Go, v.Platform)
}

// buildVersion, buildRevision and buildDate are set where a program is built without version control:
//
//	go build -ldflags "-X strandline.dev/internal/cli/terminal.buildVersion=v1.2.3 -X strandline.dev/internal/cli/terminal.buildRevision=0123abc"
var buildVersion, buildRevision, buildDate string

// unversioned is what Go calls a program that it built without version control.
const unversioned = "(devel)"

const unknownVersion = "unknown"

// ReadVersion returns what the Go linker wrote into the program. The version is "unknown"
// where it wrote none.
func ReadVersion() versionJSON {
	v := versionJSON{Version: cmp.Or(buildVersion, unknownVersion), Revision: buildRevision, Date: buildDate, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if buildVersion == "" && info.Main.Version != "" && info.Main.Version != unversioned {
		v.Version = info.Main.Version
	}
	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.revision":
			v.Revision = setting.Value
		case "vcs.time":
			v.Date = setting.Value
		case "vcs.modified":
			v.Modified = setting.Value == "true"
		}
	}
	return v
}

// Exact is the version with the revision of the sources: what figures are of.
func (v versionJSON) Exact() string {
	switch {
	case v.Revision == "":
		return v.Version + " of an unknown revision (go build -buildvcs=true writes it into the program)"
	case v.Modified:
		return v.Version + ", revision " + v.Revision + " with changes"
	}
	return v.Version + ", revision " + v.Revision
}
