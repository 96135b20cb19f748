package terminal

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/knadh/koanf/parsers/toml/v2"
	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/providers/rawbytes"
	"github.com/knadh/koanf/v2"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const environmentPrefix = "STRANDLINE_"

// ApplySettings gives the flags that were not typed their values from the
// environment, the configuration file and the context, in this order. A flag's key is the
// path of its command and its name, joined by dots.
func (c *Terminal) ApplySettings(command *cobra.Command) error {
	known := KnownKeys(command.Root())
	environment, err := readEnvironment(c.Environ, known)
	if err != nil {
		return err
	}
	file := c.ConfigFile
	if file == "" {
		file, _ = environment["config"].(string)
	}
	beside := koanf.New(".")
	if file != "" {
		if err := loadFile(beside, file, known); err != nil {
			return err
		}
	}
	settings, inUse, err := c.contextSettings(command, environment)
	if err == nil && settings.Exists("server") {
		settings, err = c.ofItsServers(settings, command, environment, beside, inUse)
	}
	if err != nil {
		return err
	}
	fromContext := settings.Keys()
	if err := settings.Merge(beside); err != nil {
		return err
	}
	if err := settings.Load(confmap.Provider(environment, "."), nil); err != nil {
		return fmt.Errorf("settings in the environment: %w", err)
	}

	var failed error
	command.Flags().VisitAll(func(flag *pflag.Flag) {
		key := keyOf(command, flag)
		if flag.Changed || failed != nil || !settings.Exists(key) || key == "config" || key == "context" {
			return
		}
		// Set, not flag.Value.Set: required and exclusive flags look at Changed.
		if err := command.Flags().Set(flag.Name, textOf(settings.Get(key))); err != nil {
			failed = fmt.Errorf("setting %s: %w", key, err)
		}
		if _, there := environment[key]; there || inUse && slices.Contains(fromContext, key) {
			c.inEnvironment = append(c.inEnvironment, flag.Name)
		}
	})
	return failed
}

// ofItsServers returns the settings of a context, or none where something else names the servers: what a
// context knows, such as a token, is shown to its own servers, unless the command line names both. A context
// that was asked for and servers that were not typed contradict each other.
func (c *Terminal) ofItsServers(settings *koanf.Koanf, command *cobra.Command, environment map[string]any, file *koanf.Koanf, inUse bool) (*koanf.Koanf, error) {
	var other string
	if _, there := environment["server"]; there {
		other = VariableOf("server")
	} else if file.Exists("server") {
		other = "the configuration file"
	}
	switch typed := command.Flags().Changed("server"); {
	case typed && c.Context != "", !typed && other == "":
		return settings, nil
	case typed, inUse:
		return koanf.New("."), nil
	}
	return nil, fmt.Errorf("a context and %s both give servers: leave one out, or give --server with --context", other)
}

// contextSettings are those of a context, of which a command that runs a node takes none.
// InUse: nobody has named it.
func (c *Terminal) contextSettings(command *cobra.Command, environment map[string]any) (settings *koanf.Koanf, inUse bool, err error) {
	name := c.Context
	if name == "" {
		name, _ = environment["context"].(string)
	}
	switch path := strings.Fields(command.CommandPath()); {
	case len(path) > 1 && (path[1] == "context" || path[1] == "serve" || path[1] == "dev"):
		return koanf.New("."), false, nil
	}
	contexts, err := c.Contexts()
	if err == nil && name == "" {
		inUse = true
		name, err = contexts.Current()
	}
	switch {
	case name == "":
		return koanf.New("."), false, nil // none is requested
	case err != nil:
		return nil, false, err
	}
	settings, err = contexts.settings(name)
	return settings, inUse, err
}

func loadFile(settings *koanf.Koanf, file string, known map[string]bool) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("configuration file: %w", err)
	}
	if err := settings.Load(rawbytes.Provider(data), toml.Parser()); err != nil {
		return fmt.Errorf("configuration file %s: %w", file, err)
	}
	for _, key := range settings.Keys() {
		if first, _, _ := strings.Cut(key, "."); !known[key] && !known[first+"."] {
			return fmt.Errorf("configuration file %s: unknown setting %q%s", file, key, nearest(key, known))
		}
	}
	return nil
}

// readEnvironment picks our variables out of the environment.
func readEnvironment(environ []string, known map[string]bool) (map[string]any, error) {
	keys := make(map[string]string, len(known))
	for key := range known {
		keys[VariableOf(key)] = key
	}
	found := map[string]any{}
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, environmentPrefix) || name == TokenVariable {
			continue
		}
		key, ok := keys[name]
		first, _, _ := strings.Cut(strings.TrimPrefix(name, environmentPrefix), "_")
		if _, elsewhere := keys[VariableOf(first+".")]; elsewhere || !ok && isServiceLink(name, value) {
			continue
		}
		if !ok {
			return nil, fmt.Errorf("unknown environment variable %s", name)
		}
		found[key] = value
	}
	return found, nil
}

// serviceLinks are the variables that Kubernetes and Docker give every container
// about the services beside it. For a service whose name begins with "strandline"
// they begin like ours.
var serviceLinks = regexp.MustCompile(`_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$`)

// servicePort is the value of such a link's NAME_PORT; a port that a person meant
// for a setting has another.
var servicePort = regexp.MustCompile(`^(tcp|udp|sctp)://`)

func isServiceLink(name, value string) bool {
	return serviceLinks.MatchString(name) || strings.HasSuffix(name, "_PORT") && servicePort.MatchString(value)
}

// VariableOf is the environment variable of a key: log.create.retention-bytes
// is STRANDLINE_LOG_CREATE_RETENTION_BYTES.
func VariableOf(key string) string {
	return environmentPrefix + strings.ToUpper(strings.NewReplacer(".", "_", "-", "_").Replace(key))
}

// keyOf is the key of a command's flag. The flags that every command has stand
// at the top.
func keyOf(command *cobra.Command, flag *pflag.Flag) string {
	root := command.Root()
	if root.PersistentFlags().Lookup(flag.Name) == flag {
		return flag.Name
	}
	path := strings.Fields(strings.TrimPrefix(command.CommandPath(), root.Name()))
	return strings.Join(append(path, flag.Name), ".")
}

// KnownKeys returns the keys that a settings file may have. That of a command whose flags another program
// parses ends with a dot: every key below it is that program's to check.
func KnownKeys(root *cobra.Command) map[string]bool {
	known := map[string]bool{}
	EveryCommand(root, func(command *cobra.Command) {
		if command.DisableFlagParsing {
			known[command.Name()+"."] = true
			return
		}
		add := func(flag *pflag.Flag) {
			if flag.Name != "help" {
				known[keyOf(command, flag)] = true
			}
		}
		command.LocalFlags().VisitAll(add)
		command.PersistentFlags().VisitAll(add)
	})
	return known
}

// textOf is a setting as a flag takes it: a list is written with commas.
func textOf(value any) string {
	list, ok := value.([]any)
	if !ok {
		return fmt.Sprint(value)
	}
	words := make([]string, len(list))
	for i, v := range list {
		words[i] = fmt.Sprint(v)
	}
	return strings.Join(words, ",")
}

// nearest suggests known keys that end like the unknown one: the usual mistake
// is the right name in the wrong table.
func nearest(key string, known map[string]bool) string {
	name := key[strings.LastIndex(key, ".")+1:]
	var near []string
	for k := range known {
		if k == name || strings.HasSuffix(k, "."+name) {
			near = append(near, k)
		}
	}
	if len(near) == 0 {
		return ""
	}
	slices.Sort(near)
	return ", did you mean " + strings.Join(near, " or ") + "?"
}
