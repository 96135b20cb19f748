package main

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// archive is a folder of files that is written as a tar archive, and then removed.
type archive string

func (a archive) WriteTo(w io.Writer) (int64, error) {
	out := tar.NewWriter(w)
	err := out.AddFS(os.DirFS(string(a)))
	return 0, errors.Join(err, out.Close(), os.RemoveAll(string(a)))
}

// unpack makes a folder of an archive.
func unpack(r io.Reader, folder string) error {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	in := tar.NewReader(r)
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return syncFolder(folder)
		}
		if err != nil {
			return err
		}
		switch {
		case !filepath.IsLocal(h.Name):
			return fmt.Errorf("the archive has a file %q", h.Name)
		case h.Typeflag == tar.TypeDir:
			err = os.MkdirAll(filepath.Join(folder, h.Name), 0o700)
		case h.Typeflag == tar.TypeReg:
			err = unpackFile(in, filepath.Join(folder, h.Name))
		default:
			err = fmt.Errorf("the archive has a file %q of type %q", h.Name, h.Typeflag)
		}
		if err != nil {
			return err
		}
	}
}

// unpackFile makes a file that is durable, except for its name.
func unpackFile(r io.Reader, path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if _, err = io.Copy(f, r); err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// syncFolder makes the names of the files in a folder durable.
func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
