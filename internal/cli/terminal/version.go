package terminal

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

type versionJSON struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Modified bool   `json:"modified,omitempty"` // beyond the revision
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func (v versionJSON) String() string {
	return fmt.Sprintf("strandline %s, %s, %s", v.Version, v.Go, v.Platform)
}

// ReadVersion returns what the Go linker wrote into the program.
func ReadVersion() versionJSON {
	v := versionJSON{Version: "unknown", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	v.Version = info.Main.Version
	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.revision":
			v.Revision = setting.Value
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
