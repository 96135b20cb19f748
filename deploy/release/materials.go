package main

import (
	"context"
	"path/filepath"
)

// lister makes bills of materials. It is run and not linked: it needs much that nothing else here does.
const lister = "github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0"

// materials writes a bill of materials for each program of each target, in CycloneDX's JSON: the modules that it links,
// as they are recorded in it, with their versions, sums and licences.
func (r *release) materials(ctx context.Context, targets []target) error {
	for _, t := range targets {
		for _, name := range programs {
			to := filepath.Join(r.out, name+"-"+r.version+"-"+t.String()+".cdx.json")
			_, err := output(ctx, r.root, "go", "run", lister, "bin", "-json", "-licenses", "-noserial", "-notimestamp",
				"-version", "v"+r.version, "-output", to, r.program(t, name))
			if err != nil {
				return err
			}
		}
	}
	return nil
}
