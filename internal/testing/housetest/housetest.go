// Package housetest has what the tests of several packages share: agents that play roles, desks that keep
// nothing, flows parsed from text, a task in a store, and a home directory for git.
//
// It imports no package above thread, so that tests inside record, attempt, engine and control can use it.
package housetest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/app/config"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/flow/parse"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// A T is a test, of package testing or of rapid.
type T interface {
	Helper()
	Fatalf(format string, args ...any)
}

// A Role plays a role in place of an agent.
type Role func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error)

// Run implements agent.Agent.
func (r Role) Run(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
	return r(ctx, req, emit)
}

// Say returns a role that gives its answers by visit, and the last one for all further visits.
func Say(answers ...string) Role {
	return func(_ context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
		return Answer(req, emit, answers[min(req.Visit, len(answers)-1)])
	}
}

// Answer is the result of an attempt whose agent says a text and nothing else.
func Answer(req agent.Request, emit func(agent.Event) error, text string) (agent.Result, error) {
	if req.Desk.Raw != nil {
		fmt.Fprint(req.Desk.Raw, text)
	}
	return agent.Result{Output: []byte(text), Sandbox: "none", Usage: agent.Usage{InputTokens: 10, OutputTokens: 2}},
		emit(agent.Event{Kind: agent.EventMessage, Text: text})
}

// Status returns an answer that has only a status.
func Status(s string) string { return `{"$status":"` + s + `"}` }

// A Cast is an agent that plays roles by their names. It refuses any other role.
type Cast map[string]Role

// Run implements agent.Agent.
func (c Cast) Run(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
	if play := c[req.Role]; play != nil {
		return play(ctx, req, emit)
	}
	return agent.Result{}, &agent.Failure{Kind: agent.Refused, Message: "nobody plays " + req.Role}
}

// BareDesks opens desks for agents that write nothing: they are not on disk.
type BareDesks struct {
	Empty *os.Root // the artifacts directory of every desk
}

// Open returns a BareDesk.
func (d BareDesks) Open(store.Thread, string, string, agent.Vendor) (agent.Directory, error) {
	return BareDesk(d), nil
}

// Left reads nothing.
func (BareDesks) Left(store.Thread, string, string, func(events, stderr io.Reader) error) error {
	return nil
}

// Attached returns nothing.
func (BareDesks) Attached(store.Thread) []agent.Attachment { return nil }

// A BareDesk keeps nothing.
type BareDesk struct{ Empty *os.Root }

func (BareDesk) Agent() agent.Desk { return agent.Desk{} }
func (BareDesk) Transcript() (io.ReadCloser, int64, error) {
	return io.NopCloser(strings.NewReader("")), 0, nil
}
func (d BareDesk) StderrLog() (io.ReadCloser, int64, error) { return d.Transcript() }
func (d BareDesk) Artifacts() *os.Root                      { return d.Empty }
func (BareDesk) Keep(string, []byte) error                  { return nil }
func (BareDesk) Copy(string, io.Reader) error               { return nil }
func (BareDesk) Link(string, string) error                  { return nil }
func (BareDesk) Close(string) error                         { return nil }

// Flow parses the text of a flow.
func Flow(t T, text string) *flow.Definition {
	t.Helper()
	def, problems := parse.Parse(nil, "test.yaml", []byte(text))
	if def == nil {
		t.Fatalf("flow: %v", problems)
	}
	return def
}

// Bundle returns a bundle of the flows in texts, the first of which is run, with the worker flow if one of them plans.
func Bundle(t T, texts ...string) thread.Bundle {
	t.Helper()
	var defs []*flow.Definition
	for _, text := range texts {
		defs = append(defs, Flow(t, text))
	}
	if slices.ContainsFunc(defs, func(d *flow.Definition) bool { return len(d.Plans()) > 0 }) {
		worker, ok := parse.BuiltIn(flow.WorkerFlow)
		if !ok {
			t.Fatalf("there is no flow of workers")
		}
		defs = append(defs, worker)
	}
	b := thread.Bundle{Name: defs[0].Name, Flows: map[string]json.RawMessage{}}
	for _, def := range defs {
		raw, err := json.Marshal(def)
		if err != nil {
			t.Fatalf("flow %s: %v", def.Name, err)
		}
		b.Flows[def.Name] = raw
	}
	return b
}

// Commits is the part of a store that commits a task.
type Commits interface {
	Commit(ctx context.Context, b store.Batch) error
}

// Begin commits a task that no process drives yet. row has its id and creation time.
func Begin(ctx context.Context, t T, s Commits, row store.Thread, b thread.Bundle, prompt string) store.Thread {
	t.Helper()
	objects, row, err := thread.Begin(thread.NewTask{Row: row, Bundle: b, Prompt: prompt})
	if err == nil {
		err = s.Commit(ctx, store.Batch{Objects: objects, Threads: []store.ThreadChange{{Row: row}},
			Events: []store.Event{event.New(row, row.CreatedAt, event.TaskCreated{Flow: row.Flow, Start: row.Start})}})
	}
	if err != nil {
		t.Fatalf("begin thread %s: %v", row.ID, err)
	}
	return row
}

// Append commits a step after a thread's head, with more objects that the step names, and returns the thread's row.
func Append(ctx context.Context, t T, s interface {
	store.Objects
	Commits
}, row store.Thread, d thread.Draft, more ...store.Object) store.Thread {
	t.Helper()
	tip, err := thread.NewReader(s).Tip(ctx, row.Head)
	if err != nil {
		t.Fatalf("append to thread %s: %v", row.ID, err)
	}
	ch, err := thread.Append(row, tip, d)
	if err == nil {
		err = s.Commit(ctx, store.Batch{
			Objects: append(ch.Objects, more...), Threads: []store.ThreadChange{{Row: ch.Row, From: row.State()}},
			Events: []store.Event{event.New(row, d.At, event.AttemptCompleted{Role: d.Role, Step: ch.Step.Hash})},
		})
	}
	if err != nil {
		t.Fatalf("append to thread %s: %v", row.ID, err)
	}
	return ch.Row
}

// TwoSteps returns a flow of two steps, the second of which has the given access to files.
func TwoSteps(access string) string {
	return `
version: 1
name: test
roles:
  first: {description: d}
  second: {description: d, access: ` + access + `}
graph:
  $START: {new: {role: first, prompt: "{{ prompt }}"}}
  first: {done: {role: second, prompt: "on"}}
  second: {done: {role: $END}}
`
}

// Settings returns settings that define agents with these names, the first of which is the default.
func Settings(agents ...string) *config.Settings {
	s := &config.Settings{Default: config.Value[string]{V: agents[0]}, Agents: map[string]config.Value[flow.Agent]{}}
	for _, name := range agents {
		s.Agents[name] = config.Value[flow.Agent]{V: flow.Agent{Kind: "replay"}}
	}
	return s
}

// GitHome gives git its own home directory, with a configuration to which more is appended: the configuration of
// the machine's user must not matter. New repositories have none of git's twenty sample files, which no test reads.
// GitHome returns "" for short tests, and if git is missing, except where CI is true: there it ends the tests.
func GitHome(short bool, more string) string {
	if _, err := exec.LookPath("git"); err != nil || short {
		if err != nil && os.Getenv("CI") == "true" {
			fmt.Println("git is missing")
			os.Exit(1)
		}
		fmt.Println("NOT TESTED: with -short or without git")
		return ""
	}
	home, err := os.MkdirTemp("", "plait-git-home-")
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	for _, kv := range os.Environ() {
		if key, _, _ := strings.Cut(kv, "="); strings.HasPrefix(key, "GIT_") || strings.HasPrefix(key, "XDG_") {
			os.Unsetenv(key)
		}
	}
	os.Setenv("HOME", home)
	os.Setenv("XDG_CACHE_HOME", filepath.Join(home, ".cache"))
	os.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	config := "[user]\n\tname = user\n\temail = user@localhost\n[init]\n\tdefaultBranch = main\n\ttemplateDir =\n" +
		"[maintenance]\n\tauto = false\n" + more
	if err := os.WriteFile(filepath.Join(home, ".gitconfig"), []byte(config), 0o600); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	return home
}

// RunWatched runs a program until it ends. Meanwhile it passes look the command line of each process on the
// machine, every 50 ms. It returns what the program printed, and fails t if the program fails.
func RunWatched(t T, cmd *exec.Cmd, look func(line []byte)) []byte {
	t.Helper()
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatalf("run %s: %v", cmd, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case err := <-ended:
			if err != nil {
				t.Fatalf("%v: %s", err, &out)
			}
			return out.Bytes()
		case <-time.After(50 * time.Millisecond):
			names, _ := filepath.Glob("/proc/[0-9]*/cmdline")
			for _, name := range names {
				line, _ := os.ReadFile(name) // the process may have ended
				look(line)
			}
		}
	}
}
