// Package scenarios says what every client has to do, whatever its language, and plays it.
// The scenarios are the YAML files beside this one; README.md is their format and the
// protocol of the runners. Start with Scenario (scenario.go); play.go plays one with a
// client, in front of which environment.go makes the faults, and judge.go checks that the
// log agrees with the answers that the client got.
package scenarios

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"go.yaml.in/yaml/v3"

	"strandline.dev/clients/faults"
)

// Scenario is what happens and what has to be seen.
type Scenario struct {
	// Name is unique, and what reports call it. Says is the rule that it checks.
	Name string `yaml:"name"`
	Says string `yaml:"says"`
	// Dial changes how the client connects.
	Dial Dial `yaml:"dial"`
	// Token is what the client shows; nil: rights are not enforced.
	Token *Token `yaml:"token"`
	// Create is the configuration of the scenario's log.
	Create Create `yaml:"create"`
	// Put are records that are in the log before.
	Put    any           `yaml:"put"`
	Faults []faults.Rule `yaml:"faults"`
	Steps  []Step        `yaml:"steps"`
	// Log is what the log holds at the end, in order; absent: whatever agrees with the
	// answers that the client got.
	Log any `yaml:"log"`
	// Seen is how often the server in front has seen things.
	Seen map[string]any `yaml:"seen"`
	// Hasty: clients leave a node that takes longer than a second to connect or to answer, or the node
	// ends what a revoked token has open, and then the result is not what the scenario says. It may be
	// played again.
	Hasty bool `yaml:"hasty"`
}

// Dial says how a client connects.
type Dial struct {
	// Nodes are those whose addresses it is given, from 1; none: all.
	Nodes     []int  `yaml:"nodes"`
	RetryTime *int64 `yaml:"retry_ms"`
	TLS       bool   `yaml:"tls"`
	// Certificate: the nodes demand one of the client, which has it, or not if it is missing.
	Certificate Certificate `yaml:"certificate"`
	// Foreign: it is given the certificate of another authority than the nodes'.
	Foreign bool `yaml:"foreign_authority"`
	// Environment: variables alone set its addresses, certificates and token. TokenFunction: its token comes from a function.
	Environment   bool `yaml:"environment"`
	TokenFunction bool `yaml:"token_function"`
	// OwnAuthority: its file of the authority is of this scenario alone, and holds another one's at first.
	OwnAuthority bool `yaml:"own_authority"`
}

// Certificate selects the certificate that a client presents where nodes require one; empty: they do not.
type Certificate string

const (
	Shown   Certificate = "shown"
	Missing Certificate = "missing"
	Foreign Certificate = "foreign" // of an authority that the nodes do not believe
)

// Create configures a log.
type Create struct {
	Not      bool `yaml:"not"` // there is no log
	Replicas int  `yaml:"replicas"`
	Leader   int  `yaml:"leader"` // the node that is to lead it; 0: the first
	Fenced   bool `yaml:"fenced"`
	// ReadReplica is the label of the node that has a read replica; empty: there is none.
	ReadReplica string `yaml:"read_replica"`
}

// Step is one command to the client, or something that happens around it.
type Step struct {
	Do   string         `yaml:"do"`
	With map[string]any `yaml:"with"`
	// Gives is what the answer has to hold, and Fails what the error has to.
	Gives map[string]any `yaml:"gives"`
	Fails map[string]any `yaml:"fails"`
	// Save keeps values of the answer under names, for $NAME in later steps.
	Save map[string]string `yaml:"save"`
	// Later does not wait for the answer: a step {do: await, with: {for: NAME}} does.
	Later string `yaml:"later"`
}

// Load reads all scenarios of a directory.
func Load(directory string) ([]Scenario, error) {
	paths, err := filepath.Glob(filepath.Join(directory, "*.yaml"))
	if err != nil {
		return nil, err
	}
	slices.Sort(paths)
	var all []Scenario
	names := map[string]bool{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		var some []Scenario
		decoder := yaml.NewDecoder(bytes.NewReader(text))
		decoder.KnownFields(true)
		if err := decoder.Decode(&some); err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		for _, s := range some {
			if err := s.check(names); err != nil {
				return nil, fmt.Errorf("%s: scenario %q: %w", path, s.Name, err)
			}
			all = append(all, s)
		}
	}
	return all, nil
}

func (s Scenario) check(names map[string]bool) error {
	switch {
	case s.Name == "" || s.Says == "" || len(s.Steps) == 0:
		return errors.New("a name, what it says, and steps are needed")
	case names[s.Name]:
		return errors.New("there are two of that name")
	}
	names[s.Name] = true
	if c := s.Dial.Certificate; c != "" && (c != Shown && c != Missing && c != Foreign || !s.Dial.TLS) {
		return fmt.Errorf("certificate %q, which needs tls, is shown or missing", c)
	}
	for _, r := range s.Faults {
		if err := r.Check(); err != nil {
			return err
		}
	}
	return nil
}
