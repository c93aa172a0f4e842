package bisect_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/agent/command"
	"github.com/plait-run/plait/internal/agent/sandbox"
	"github.com/plait-run/plait/internal/app/bisect"
	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/testing/housetest"
	"github.com/plait-run/plait/internal/testing/mem"
	"github.com/plait-run/plait/internal/testing/soak"
	"github.com/plait-run/plait/internal/view"
)

// TestMain gives git its own home directory: the configuration of the machine's user must not matter.
func TestMain(m *testing.M) {
	flag.Parse()
	home := housetest.GitHome(testing.Short(), "")
	if home == "" {
		return
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		os.RemoveAll(home)
		os.Exit(code)
	}))
}

// A plot is a flow that is being written: a row of steps and forks.
type plot struct {
	*rand.Rand
	roles, graph, forks, joins strings.Builder
	last                       string // the node whose route is to be written
	writers                    []string
	joined                     bool
}

// to writes the route of the last node.
func (p *plot) to(next string) {
	switch status := "done"; {
	case p.last == "":
		fmt.Fprintf(&p.graph, "  $START: {new: {role: %s, prompt: go}}\n", next)
	case strings.HasPrefix(p.last, "j"):
		status = "joined"
		fallthrough
	default:
		fmt.Fprintf(&p.graph, "  %s: {%s: {role: %s, prompt: go}}\n", p.last, status, next)
	}
}

// step adds a step. Some change nothing.
func (p *plot) step() string {
	name := fmt.Sprintf("w%d", len(p.writers))
	script := "echo " + name + " >> " + name + ".txt; echo " + name + " > notes-" + name
	if p.IntN(5) == 0 {
		script = "true"
	}
	p.writers = append(p.writers, name)
	fmt.Fprintf(&p.roles, "  %s: {access: write, agent: {kind: command, command: [sh, -ec, %q]}}\n", name,
		script+"; PLANT-"+name+"-")
	p.to(name)
	p.last = name
	return name
}

// fork adds a fork of several paths of up to three steps, and their join.
func (p *plot) fork(n int) {
	fork, join := fmt.Sprintf("f%d", n), fmt.Sprintf("j%d", n)
	p.to(fork)
	var paths, ids []string
	for i := range 2 + p.IntN(2) {
		id := fmt.Sprintf("p%d-%d", n, i)
		p.last = "begin" // written over
		was := p.graph.String()
		first := p.step()
		p.graph.Reset()
		p.graph.WriteString(was)
		for range p.IntN(3) {
			p.step()
		}
		fmt.Fprintf(&p.graph, "  %s: {done: {role: %s}}\n", p.last, join)
		paths, ids = append(paths, fmt.Sprintf("{pathId: %s, childNodeId: %s}", id, first)), append(ids, id)
	}
	fmt.Fprintf(&p.forks, "  %s: {forkPaths: [%s]}\n", fork, strings.Join(paths, ", "))
	fmt.Fprintf(&p.joins, "  %s: {forkPathIds: [%s]}\n", join, strings.Join(ids, ", "))
	p.last, p.joined = join, true
}

// yaml returns the flow, in which one step does what breaks it.
func (p *plot) yaml(culprit, plant string) string {
	p.to("$END")
	text := "version: 1\nname: plot\nlimits: {maxRounds: 100}\nroles:\n" + p.roles.String() + "graph:\n" + p.graph.String()
	if p.joined {
		text += "forks:\n" + p.forks.String() + "joins:\n" + p.joins.String()
	}
	for _, w := range p.writers {
		does := "true"
		if w == culprit {
			does = plant
		}
		text = strings.Replace(text, "PLANT-"+w+"-", does, 1)
	}
	return text
}

// world is a repository in which a controller runs tasks whose agents are programs.
type world struct {
	*testing.T
	dir     string
	control *control.Controller
	view    *view.Reader
}

func newWorld(t *testing.T) *world {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, dir: dir}
	w.git("init", "-q")
	if err := os.WriteFile(filepath.Join(dir, "first.txt"), []byte("first\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.git("add", "-A")
	w.git("commit", "-qm", "first")
	s := mem.New(mem.Config{})
	t.Cleanup(func() { s.Close() })
	settings := housetest.Settings("command")
	settings.Files.V = true
	w.control = control.New(control.Config{Store: s, Home: t.TempDir(), Settings: settings, PollNotes: true,
		Agent: func(_ string, def flow.Agent, _ control.AgentOptions) (agent.Agent, error) {
			return command.New(command.Config{Command: def.Command})
		}})
	w.view = &view.Reader{Store: s, Nodes: thread.NewReader(s), Workspace: dir}
	return w
}

func (w *world) git(args ...string) string {
	w.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = w.dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		w.Fatalf("git %q: %v: %s", args, err, out)
	}
	return string(out)
}

// start runs a flow until it needs a person, or to its end.
func (w *world) start(yaml string) store.Thread {
	w.Helper()
	found, err := control.Pack(housetest.Flow(w, yaml))
	if err != nil {
		w.Fatal(err)
	}
	row, err := w.control.Begin(w.Context(), control.Spec{Bundle: found.Bundle, Prompt: "do it", Workspace: w.dir})
	if err != nil {
		w.Fatal(err)
	}
	return w.resume(row)
}

func (w *world) resume(row store.Thread) store.Thread {
	w.Helper()
	row, err := w.control.Drive(w.Context(), row.ID, control.Resume{})
	if err != nil {
		w.Fatal(err)
	}
	return row
}

// run runs a flow to its end.
func (w *world) run(yaml string) store.Thread {
	w.Helper()
	row := w.start(yaml)
	if row.Status != store.Completed {
		w.Fatalf("%s %+v\n%s", row.Status, row.Reason, yaml)
	}
	return row
}

// finder returns a finder that runs a command.
func (w *world) finder(command ...string) *bisect.Finder {
	bench := &bisect.Bench{Host: sandbox.NewHost(sandbox.Config{Getenv: os.Getenv}), Control: w.control, Workspace: w.dir,
		Command: command}
	return &bisect.Finder{Reader: w.view, Try: bench.Try}
}

// wantClean checks that no worktree is left.
func (w *world) wantClean() {
	w.Helper()
	left, _ := filepath.Glob(filepath.Join(w.dir, ".plait", "worktrees", "trial-*"))
	if len(left) > 0 || strings.Contains(w.git("worktree", "list"), "trial-") {
		w.Errorf("worktrees are left: %q", left)
	}
}

// TestPlanted finds the step that was made to break something, in tasks with forks among them.
func TestPlanted(t *testing.T) {
	joins := 0
	tasks := soak.Rounds(t, soak.Tries(20, 5))
	for seed := range tasks {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			p := &plot{Rand: rand.New(rand.NewPCG(uint64(seed), 38))}
			p.step()
			for n := range 2 + p.IntN(2) {
				if p.IntN(2) == 0 {
					p.fork(n)
				} else {
					p.step()
				}
			}
			if p.joined {
				joins++
			}
			culprit := p.writers[p.IntN(len(p.writers))]
			plants := []string{"echo bug > bug.txt", "rm first.txt", "echo broken >> first.txt"}
			w := newWorld(t)
			row := w.run(p.yaml(culprit, plants[p.IntN(len(plants))]))
			found, err := w.finder("sh", "-c", `test "$(cat first.txt)" = first && ! test -e bug.txt`).Find(t.Context(), row)
			if err != nil || found.Bad.Role != culprit || len(found.Between) > 0 {
				t.Errorf("it is %+v, want %s: %v", found, culprit, err)
			}
			w.wantClean()
		})
	}
	if joins == 0 || joins < tasks/4 {
		t.Errorf("only %d of the tasks have joins", joins)
	}
}
