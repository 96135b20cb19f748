package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // a format
	_ "github.com/goreleaser/nfpm/v2/rpm" // another
)

var formats = []string{"deb", "rpm"}

// packages writes what deploy/packages describes, in each format and for each target.
func (r *release) packages(targets []target) error {
	for _, t := range targets {
		for _, name := range programs {
			for _, format := range formats {
				if err := r.pack(t, name, format); err != nil {
					return fmt.Errorf("%s of %s for %v: %w", format, name, t, err)
				}
			}
		}
	}
	return nil
}

func (r *release) pack(t target, name, format string) error {
	described, err := os.Open(filepath.Join(r.root, "deploy", "packages", name+".yaml"))
	if err != nil {
		return err
	}
	defer described.Close()
	config, err := nfpm.ParseWithEnvMapping(described, func(variable string) string {
		return map[string]string{
			"VERSION": r.version, "ARCHITECTURE": t.architecture,
			"ROOT": r.root, "WORK": r.work, "PROGRAM": r.program(t, name),
		}[variable]
	})
	if err != nil {
		return err
	}
	config.MTime = r.date // of all files too
	for _, script := range []*string{&config.Scripts.PostInstall, &config.Scripts.PreRemove, &config.Scripts.PostRemove} {
		if *script != "" {
			*script = filepath.Join(r.root, *script)
		}
	}
	info, err := config.Get(format)
	if err != nil {
		return err
	}
	packager, err := nfpm.Get(format)
	if err != nil {
		return err
	}
	file, err := os.Create(filepath.Join(r.out, packager.ConventionalFileName(info)))
	if err != nil {
		return err
	}
	return errors.Join(packager.Package(info, file), file.Close())
}
