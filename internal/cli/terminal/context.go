package terminal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/knadh/koanf/parsers/toml/v2"
	"github.com/knadh/koanf/v2"
)

// Contexts are a user's clusters by name: how to reach each, and as whom. A context is a
// file of settings beside others, and the name of the one in use is in a file too:
//
//	~/.config/strandline/contexts/prod.toml    server = [...], tls-ca = "..."
//	~/.config/strandline/current               prod
//
// Commands that reach a cluster take what the flags, the environment and --config leave
// open from there. A node does not.
type Contexts struct{ dir string }

// contextKeys are the settings that a context may have.
var contextKeys = map[string]bool{"server": true, "tls-ca": true, "tls-cert": true, "tls-key": true, "token-file": true, "insecure": true}

// Contexts returns those of the user, in the directory that the environment names.
func (c *Terminal) Contexts() (Contexts, error) {
	variable := func(name string) string {
		for _, entry := range c.Environ {
			if value, ok := strings.CutPrefix(entry, name+"="); ok {
				return value
			}
		}
		return ""
	}
	if dir := variable("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return Contexts{filepath.Join(dir, "strandline")}, nil
	}
	if home := variable("HOME"); home != "" {
		return Contexts{filepath.Join(home, ".config", "strandline")}, nil
	}
	return Contexts{}, errors.New("no directory for contexts: neither XDG_CONFIG_HOME nor HOME is set")
}

// Names are those of all contexts, sorted.
func (cs Contexts) Names() ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(cs.dir, "contexts"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ".toml"); ok && contextName.MatchString(name) {
			names = append(names, name)
		}
	}
	return names, nil
}

// Current is the name of the context in use, or empty.
func (cs Contexts) Current() (string, error) {
	name, err := os.ReadFile(filepath.Join(cs.dir, "current"))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return strings.TrimSpace(string(name)), err
}

// Use makes a context the one in use; none with an empty name.
func (cs Contexts) Use(name string) error {
	if name == "" {
		if err := os.Remove(filepath.Join(cs.dir, "current")); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	if _, err := cs.settings(name); err != nil {
		return err
	}
	return writeWhole(filepath.Join(cs.dir, "current"), []byte(name+"\n"))
}

// Create writes a context, in place of one of the same name.
func (cs Contexts) Create(name string, settings map[string]any) error {
	if !contextName.MatchString(name) {
		return fmt.Errorf("context name %q: use letters, digits, dots, dashes and underscores", name)
	}
	text, err := toml.Parser().Marshal(settings)
	if err != nil {
		return err
	}
	return writeWhole(cs.file(name), text)
}

// Delete removes a context, and has none used if it was in use.
func (cs Contexts) Delete(name string) error {
	if _, err := cs.settings(name); err != nil {
		return err
	}
	current, err := cs.Current()
	if err == nil && current == name {
		err = cs.Use("")
	}
	return errors.Join(err, os.Remove(cs.file(name)))
}

var contextName = regexp.MustCompile(`^[\w-][\w.-]*$`)

func (cs Contexts) file(name string) string { return filepath.Join(cs.dir, "contexts", name+".toml") }

// settings reads a context.
func (cs Contexts) settings(name string) (*koanf.Koanf, error) {
	settings := koanf.New(".")
	if _, err := os.Stat(cs.file(name)); err != nil || !contextName.MatchString(name) {
		names, _ := cs.Names()
		return nil, fmt.Errorf("unknown context %q; existing contexts: %s", name, orNone(names))
	}
	if err := loadFile(settings, cs.file(name), contextKeys); err != nil {
		return nil, err
	}
	return settings, nil
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "none, make one with \"strandline context create\""
	}
	return strings.Join(names, ", ")
}

// writeWhole writes a file completely or not at all. Only the current user may read it.
func writeWhole(path string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
