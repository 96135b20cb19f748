package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"
)

// entry is a file of an archive.
type entry struct {
	name string // with slashes
	from string // a file, or a folder with all below it
	mode int64
}

// archives writes strandline-VERSION-SYSTEM-ARCHITECTURE.tar.gz for each target: what a machine without packages needs.
func (r *release) archives(targets []target) error {
	for _, t := range targets {
		top := fmt.Sprintf("strandline-%s-%v", r.version, t)
		entries := []entry{
			{"LICENSES", filepath.Join(r.work, "LICENSES"), 0o644},
			{"CHANGELOG.md", filepath.Join(r.root, "CHANGELOG.md"), 0o644},
			{"man/man1", filepath.Join(r.work, "man1"), 0o644},
			{"completions", filepath.Join(r.work, "completions"), 0o644},
		}
		for _, name := range programs {
			entries = append(entries, entry{"bin/" + name, r.program(t, name), 0o755})
		}
		if t.system == "linux" {
			entries = append(entries, entry{"systemd", filepath.Join(r.root, "deploy", "systemd"), 0o644})
		}
		if err := r.archive(filepath.Join(r.out, top+".tar.gz"), top, entries); err != nil {
			return err
		}
	}
	return nil
}

// archive writes a compressed archive whose files are below top, are of the release's date and belong to root.
func (r *release) archive(to, top string, entries []entry) error {
	file, err := os.Create(to)
	if err != nil {
		return err
	}
	defer file.Close()
	packed, err := gzip.NewWriterLevel(file, gzip.BestCompression)
	if err != nil {
		return err
	}
	return errors.Join(r.pile(packed, top, entries), packed.Close(), file.Close())
}

// pile writes an archive that is not compressed.
func (r *release) pile(to io.Writer, top string, entries []entry) error {
	archive := tar.NewWriter(to)
	for _, e := range entries {
		err := filepath.WalkDir(e.from, func(from string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			below, err := filepath.Rel(e.from, from)
			if err != nil {
				return err
			}
			return add(archive, path.Join(top, e.name, filepath.ToSlash(below)), from, e.mode, r.date)
		})
		if err != nil {
			return fmt.Errorf("archive %s: %w", e.from, err)
		}
	}
	return archive.Close()
}

// add copies a file into an archive.
func add(archive *tar.Writer, name, from string, mode int64, date time.Time) error {
	file, err := os.Open(from)
	if err != nil {
		return err
	}
	defer file.Close()
	size, err := file.Stat()
	if err != nil {
		return err
	}
	if err := archive.WriteHeader(&tar.Header{Name: name, Mode: mode, Size: size.Size(), ModTime: date, Format: tar.FormatPAX}); err != nil {
		return err
	}
	_, err = io.Copy(archive, file)
	return err
}
