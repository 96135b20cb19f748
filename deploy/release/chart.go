package main

import (
	"os"
	"path/filepath"
	"regexp"
)

// versionLines are the lines of Chart.yaml that name the version of the chart and that of the program.
var versionLines = regexp.MustCompile(`(?m)^(version|appVersion): .*$`)

// chart writes the Helm chart as `helm package` does, with the release's version.
func (r *release) chart() error {
	from, copied := filepath.Join(r.root, "deploy", "helm", "strandline"), filepath.Join(r.work, "chart")
	if err := os.CopyFS(copied, os.DirFS(from)); err != nil {
		return err
	}
	described := filepath.Join(copied, "Chart.yaml")
	text, err := os.ReadFile(described)
	if err != nil {
		return err
	}
	text = versionLines.ReplaceAll(text, []byte(`$1: "`+r.version+`"`))
	if err := os.WriteFile(described, text, 0o644); err != nil {
		return err
	}
	return r.archive(filepath.Join(r.out, "strandline-chart-"+r.version+".tgz"), "strandline", []entry{{".", copied, 0o644}})
}
