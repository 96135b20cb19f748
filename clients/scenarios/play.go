package scenarios

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"strandline.dev/clients/faults"
)

// play is one scenario as one client plays it.
type play struct {
	environment *Environment
	scenario    Scenario
	runner      *Runner
	front       *faults.Server
	log         string
	saved       map[string]any
	later       map[string]begun
	sent        sentRecords
	open        map[string]string // "producer p": the command that closes it
	token       string            // that the client shows; empty: none
	tokenID     string
}

// begun is a command whose answer is waited for later.
type begun struct {
	step Step
	with map[string]any
	*pending
}

// patience is how long a client looks for a node unless a scenario says otherwise: on a
// busy machine a log may be without a leader for some seconds.
const patience = 4 * time.Minute

// scenarioTime bounds a scenario.
const scenarioTime = 5 * time.Minute

// Play plays a scenario with a client. The error says what was not as it has to be.
func (e *Environment) Play(ctx context.Context, s Scenario, r *Runner) (err error) {
	ctx, cancel := context.WithTimeout(ctx, scenarioTime)
	defer cancel()
	if s.Token != nil {
		if e, err = e.withRights(ctx); err != nil {
			return fmt.Errorf("have rights enforced: %w", err)
		}
	}
	p := &play{
		environment: e, scenario: s, runner: r, log: strings.ToLower(strings.ReplaceAll(s.Name+"-"+r.name, " ", "-")),
		saved: map[string]any{}, later: map[string]begun{}, open: map[string]string{},
	}
	if !s.Create.Not {
		if err := e.create(ctx, p.log, s.Create); err != nil {
			return fmt.Errorf("create the log: %w", err)
		}
	}
	if s.Put != nil {
		if err := e.put(ctx, p.log, s.Put); err != nil {
			return fmt.Errorf("put records: %w", err)
		}
		if err := e.replicated(ctx, p.log, s.Create); err != nil {
			return fmt.Errorf("have the records on all replicas: %w", err)
		}
	}
	if s.Token != nil {
		if p.token, p.tokenID, err = e.grant(ctx, p.log, *s.Token); err != nil {
			return fmt.Errorf("make the token: %w", err)
		}
	}
	if p.front, err = e.front(s); err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, p.front.Close())
		// What is left of the log is of no use; a scenario may have deleted it.
		_ = e.client.Admin().DeleteLog(context.WithoutCancel(ctx), p.log)
	}()
	for _, rule := range s.Faults {
		if err := p.front.Add(rule); err != nil {
			return err
		}
	}
	if err := p.dial(ctx); err != nil {
		return fmt.Errorf("dial: %w", err)
	}
	certs := p.environment.certs
	p.saved["authority"], p.saved["certificate"], p.saved["key"] = certs.authority, certs.user, certs.userKey
	p.saved["token"], p.saved["principal"] = p.token, "user/"+p.log
	p.saved["one"], p.saved["other"] = p.log+"-one", p.log+"-other"
	for i, step := range s.Steps {
		if err := p.step(ctx, step); err != nil {
			err = fmt.Errorf("step %d, %s: %w", i+1, step.Do, err)
			return errors.Join(err, p.hangUp(ctx))
		}
	}
	if err := p.hangUp(ctx); err != nil {
		return err
	}
	return p.judge(ctx)
}

// dial has the client connect as the scenario says.
func (p *play) dial(ctx context.Context) error {
	d, all := p.scenario.Dial, p.front.Addresses()
	with := map[string]any{"addresses": all, "retry_ms": patience.Milliseconds()}
	if len(d.Nodes) > 0 {
		var some []string
		for _, n := range d.Nodes {
			some = append(some, all[n-1])
		}
		with["addresses"] = some
	}
	if d.RetryTime != nil {
		with["retry_ms"] = *d.RetryTime
	}
	if d.TLS {
		with["authority"] = p.environment.certs.authority
	}
	if d.Certificate == Shown {
		with["certificate"], with["key"] = p.environment.certs.user, p.environment.certs.userKey
	}
	if d.Certificate == Foreign {
		with["certificate"], with["key"] = p.environment.certs.foreignUser, p.environment.certs.foreignKey
	}
	if d.Foreign {
		with["authority"] = p.environment.certs.foreign
	}
	if d.OwnAuthority {
		with["authority"] = p.ownAuthority()
		if err := p.holdAuthority(p.environment.certs.foreign); err != nil {
			return err
		}
	}
	switch {
	case d.Environment:
		variables, err := p.variables(with)
		if err != nil {
			return err
		}
		with = map[string]any{"environment": variables, "retry_ms": with["retry_ms"]}
	case d.TokenFunction:
		with["token_function"] = p.token
	case p.token != "":
		with["token"] = p.token
	}
	return p.step(ctx, Step{Do: "dial", With: with})
}

// variables gives a client as environment variables what dial gives it as options. Its token is in a file.
func (p *play) variables(dial map[string]any) (map[string]any, error) {
	variables := map[string]any{"STRANDLINE_SERVER": strings.Join(dial["addresses"].([]string), ", ")}
	for name, what := range map[string]string{"TLS_CA": "authority", "TLS_CERT": "certificate", "TLS_KEY": "key"} {
		if path, given := dial[what]; given {
			variables["STRANDLINE_"+name] = path
		}
	}
	if p.token == "" {
		return variables, nil
	}
	variables["STRANDLINE_TOKEN_FILE"] = p.tokenFile()
	return variables, p.holdToken(p.token)
}

// tokenFile is the file of the token of the scenario's client.
func (p *play) tokenFile() string {
	return filepath.Join(p.environment.directory, p.log+".token")
}

// holdToken replaces that file.
func (p *play) holdToken(text string) error {
	next := p.tokenFile() + ".next"
	return errors.Join(os.WriteFile(next, []byte(text+"\n"), 0o600), os.Rename(next, p.tokenFile()))
}

// ownAuthority is the file of the scenario's client alone.
func (p *play) ownAuthority() string {
	return filepath.Join(p.environment.directory, p.log+".pem")
}

// holdAuthority replaces that file with what another one holds.
func (p *play) holdAuthority(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	next := p.ownAuthority() + ".next"
	return errors.Join(os.WriteFile(next, text, 0o600), os.Rename(next, p.ownAuthority()))
}

// hangUp closes the client and what is open. How an end that the scenario says nothing of
// goes is not compared.
func (p *play) hangUp(ctx context.Context) error {
	for what, do := range p.open {
		kind, name, _ := strings.Cut(what, " ")
		pending, err := p.runner.send(do, map[string]any{"client": p.log, kind: name, "timeout_ms": 3000})
		if err != nil {
			return err
		}
		if _, err := pending.wait(ctx); err != nil {
			return fmt.Errorf("close %s: %w", what, err)
		}
	}
	return p.step(ctx, Step{Do: "hang-up"})
}

// step takes one step.
func (p *play) step(ctx context.Context, s Step) error {
	filled, err := fill(map[string]any(s.With), p.saved)
	if err != nil {
		return err
	}
	s.With = filled.(map[string]any)
	if s.Do == "await" {
		b, known := p.later[fmt.Sprint(s.With["for"])]
		if !known {
			return fmt.Errorf("nothing called %v was begun", s.With["for"])
		}
		b.step.Gives, b.step.Fails, b.step.Save = s.Gives, s.Fails, s.Save
		return p.finish(ctx, b)
	}
	if err := p.act(ctx, s); !errors.Is(err, errUnknown) {
		return err
	}
	with, err := p.arguments(s)
	if err != nil {
		return err
	}
	if s.Do == "producer" && with["no_session"] == true {
		p.sent.noSession = true
	}
	pending, err := p.runner.send(s.Do, with)
	if err != nil {
		return err
	}
	b := begun{s, with, pending}
	if s.Later != "" {
		p.later[s.Later] = b
		return nil
	}
	return p.finish(ctx, b)
}

// arguments are those of a command, with what goes without saying.
func (p *play) arguments(s Step) (map[string]any, error) {
	with := map[string]any{"client": p.log, "producer": "p", "reader": "r", "log": p.log}
	maps.Copy(with, s.With)
	// Several scenarios are played at once.
	for _, what := range []string{"producer", "reader"} {
		with[what] = fmt.Sprintf("%s/%v", p.log, with[what])
	}
	for _, name := range lists {
		if with[name] == nil {
			continue
		}
		all, err := list(with[name])
		if err != nil {
			return nil, err
		}
		with[name] = append([]string{}, all...) // never null
	}
	if values, ok := with["values"].([]string); ok {
		with["values"] = padded(values, intOf(with["size"]))
	}
	return with, nil
}

// lists are the arguments of commands that are lists.
var lists = []string{"values", "keys", "prefixes", "drop", "json_fields", "near"}

// finish waits for the answer to a command and compares it.
func (p *play) finish(ctx context.Context, b begun) error {
	a, err := b.wait(ctx)
	if err != nil {
		return err
	}
	p.sent.note(b, a)
	s := b.step
	if a.Error == nil {
		switch s.Do {
		case "producer":
			p.open["producer "+fmt.Sprint(b.with["producer"])] = "close"
		case "reader":
			p.open["reader "+fmt.Sprint(b.with["reader"])] = "close-reader"
		case "close":
			delete(p.open, "producer "+fmt.Sprint(b.with["producer"]))
		case "close-reader":
			delete(p.open, "reader "+fmt.Sprint(b.with["reader"]))
		}
	}
	if a.Error != nil {
		if s.Fails == nil {
			return fmt.Errorf("failed: %s", show(a.Error))
		}
		return differs(match("the error", s.Fails, a.Error))
	}
	if s.Fails != nil {
		return fmt.Errorf("gave %s, and has to fail with %s", show(a.Value), show(s.Fails))
	}
	for what, name := range s.Save {
		value, ok := a.Value[what]
		if !ok {
			return fmt.Errorf("there is no %q to be saved in %s", what, show(a.Value))
		}
		p.saved[name] = value
	}
	if s.Gives == nil {
		return nil
	}
	want, err := fill(s.Gives, p.saved)
	if err != nil {
		return err
	}
	if how := match("the answer", want, a.Value); how != "" {
		return fmt.Errorf("%s, in %.2000s", how, show(a.Value))
	}
	return nil
}

func differs(how string) error {
	if how == "" {
		return nil
	}
	return errors.New(how)
}

// ruleOf reads a fault rule out of a step.
func ruleOf(with map[string]any) (faults.Rule, error) {
	var r faults.Rule
	text, err := yaml.Marshal(with)
	if err != nil {
		return r, err
	}
	return r, yaml.Unmarshal(text, &r)
}
