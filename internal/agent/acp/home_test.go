package acp

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/agent/host"
	"github.com/plait-run/plait/internal/sys/proc"
)

// plants are what a command in the sandbox can put under a name in the agent's home.
var plants = map[string]func(file, victim string) error{
	"link":          func(file, victim string) error { return os.Symlink(victim, file) },
	"dangling link": func(file, victim string) error { return os.Symlink(victim+"-2", file) },
	"FIFO":          func(file, _ string) error { return syscall.Mkfifo(file, 0o600) },
	"directory":     func(file, _ string) error { return os.MkdirAll(filepath.Join(file, "sub"), 0o700) },
}

// plant puts something under a name in the home, with a victim outside.
func plant(t *testing.T, how, home, name string) (victim string) {
	t.Helper()
	dir, file := t.TempDir(), filepath.Join(home, name)
	victim = filepath.Join(dir, "victim")
	if err := errors.Join(os.WriteFile(victim, []byte(`{"$status":"secret"}`), 0o600),
		os.MkdirAll(filepath.Dir(file), 0o700),
		plants[how](file, victim)); err != nil {
		t.Fatal(err)
	}
	return victim
}

// unharmed checks that nothing was written outside of the home.
func unharmed(t *testing.T, victim string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(victim))
	got, err2 := os.ReadFile(victim)
	if err := errors.Join(err, err2); err != nil || len(entries) != 1 || string(got) != `{"$status":"secret"}` {
		t.Errorf("outside are %v with %q: %v", entries, got, err)
	}
}

// TestPlanted checks that the files of a home are written in it, whatever a command planted there.
func TestPlanted(t *testing.T) {
	for how := range plants {
		t.Run(how, func(t *testing.T) {
			home := t.TempDir()
			a := &Agent{kind: Kind{Package: host.Package{Name: "x", Title: "X"},
				Files: map[string]string{"conf/a.json": "settings"}}}
			own := a.SessionHome(home)
			config, spec := plant(t, how, own, "conf/a.json"), plant(t, how, own, "deliver/A.offered.json")
			s := &setup{Setup: &host.Setup{Vars: map[string]string{}}, agent: a, home: own}
			if _, err := a.prepareHome(s); err != nil {
				t.Fatal(err)
			}
			if got, err := os.ReadFile(filepath.Join(own, "conf/a.json")); err != nil || string(got) != "settings" {
				t.Errorf("the settings are %q: %v", got, err)
			}
			d := &delivery{Schema: json.RawMessage("{}"), Tool: json.RawMessage("{}")}
			if err := d.offer(own, "A"); err != nil {
				t.Fatal(err)
			}
			if got, err := os.ReadFile(filepath.Join(own, "deliver/A.offered.json")); err != nil || !json.Valid(got) {
				t.Errorf("the offer is %q: %v", got, err)
			}
			session := plant(t, how, own, "plait-sessions/s")
			if err := a.known(agent.Request{Home: home}, "s"); err != nil {
				t.Fatal(err)
			}
			for _, victim := range []string{config, spec, session} {
				unharmed(t, victim)
			}
		})
	}
}

// TestPlantedAnswer checks that an answer is only taken from a file of some size in the home.
func TestPlantedAnswer(t *testing.T) {
	for how := range plants {
		if what := plantedAnswer(t, func(home, name string) { plant(t, how, home, name) }); what == "" {
			t.Errorf("%s: it was taken", how)
		}
	}
	what := plantedAnswer(t, func(home, name string) {
		if err := os.WriteFile(filepath.Join(home, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(filepath.Join(home, name), 1<<40); err != nil {
			t.Fatal(err)
		}
	})
	if !strings.Contains(what, "it has over") {
		t.Errorf("a huge file: %s", what)
	}
}

// plantedAnswer plants an answer and returns the message of the failure, "" for none.
func plantedAnswer(t *testing.T, plant func(home, name string)) string {
	t.Helper()
	d := &delivery{}
	home := t.TempDir()
	if err := d.offer(home, "A"); err != nil {
		t.Fatal(err)
	}
	plant(home, "deliver/A.json")
	x := &Agent{kind: Kind{Package: host.Package{Title: "X"}}}
	c := newConversation(&setup{Setup: &host.Setup{}, agent: x, delivery: d}, agent.Request{}, nil)
	res, err := c.ended(&agent.Failure{}, func(kind, format string, args ...any) (agent.Result, error) {
		return agent.Result{}, &agent.Failure{Kind: kind, Message: format + " " + args[0].(error).Error()}
	}, ending{}, proc.Result{})
	var f *agent.Failure
	if !errors.As(err, &f) || f.Kind != agent.InvalidOutput {
		t.Errorf("it ends with %q, %v", res.Output, err)
		return ""
	}
	return f.Message
}
