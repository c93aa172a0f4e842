package hosts

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/plaitd/pgtest"
)

// writer is a role whose agent changes its own file, prints which files there are, and then waits.
func writer(m *team, name, wait string) string {
	does := fmt.Sprintf(`echo %s >> %q; %s echo %s >> of-%s; cat of-* new README; echo cached > cache`, name,
		m.path("log"), wait, name, name)
	return fmt.Sprintf(`{description: d, access: write, retry: {interrupted: true}, agent: {kind: command, command: [sh,`+
		` -c, '%s']}}`, does)
}

// writers is a flow whose roles change files, in forks and in a flow that it calls, and merges them.
func (h *host) writers() {
	gate := fmt.Sprintf("while [ ! -e %s ]; do sleep 0.01; done;", h.path("go"))
	h.write("shop.yaml", `version: 1
name: shop
roles:
  plan: `+writer(h.team, "plan", "")+`
  left: `+writer(h.team, "left", "")+`
  more: `+writer(h.team, "more", gate)+`
  right: `+writer(h.team, "right", "")+`
  dig: {flow: dig}
  report: `+writer(h.team, "report", "")+`
forks: {both: {forkPaths: [{pathId: a, childNodeId: left}, {pathId: b, childNodeId: right}]}}
joins: {met: {forkPathIds: [a, b]}}
graph:
  $START: {new: {role: plan, prompt: "{{ prompt }}"}}
  plan: {done: {role: both}}
  left: {done: {role: more, prompt: go on}}
  more: {done: {role: met}}
  right: {done: {role: met}}
  met: {joined: {role: dig, prompt: call}}
  dig: {done: {role: report, prompt: go on}}
  report: {done: {role: $END}}
`)
	h.write("dig.yaml", `version: 1
name: dig
roles: {deep: `+writer(h.team, "deep", "")+`}
graph:
  $START: {new: {role: deep, prompt: "{{ prompt }}"}}
  deep: {done: {role: $END}}
`)
	h.write("README", "read me\n")
	h.write(".gitignore", "cache\n*.yaml\n")
	os.Remove(filepath.Join(h.path(h.name, "ws"), ".git"))
	h.git("init", "-q")
	h.git("add", ".")
	h.git("commit", "-q", "-m", "all of it")
	h.write("new", "not committed\n")
}

// git runs git in the workspace of a host, as its user would.
func (h *host) git(args ...string) string {
	h.t.Helper()
	cmd := exec.Command("git", append([]string{"-C", h.path(h.name, "ws"), "-c", "user.name=Ada", "-c",
		"user.email=ada@example.com"}, args...)...)
	cmd.Env = append(os.Environ(), "GIT_AUTHOR_DATE=2026-01-01T00:00:00Z", "GIT_COMMITTER_DATE=2026-01-01T00:00:00Z",
		"GIT_CONFIG_GLOBAL=/dev/null")
	out, err := cmd.CombinedOutput()
	if err != nil {
		h.t.Fatalf("git %v: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// pulled returns the git tree of the branch that task pull creates on a host.
func (h *host) pulled() string {
	h.t.Helper()
	var p struct {
		Data struct {
			Branch string
			Parts  []struct{ Branch, Path string }
		}
	}
	if err := json.Unmarshal([]byte(h.must("task", "pull", taskID, "--all", "--json")), &p); err != nil {
		h.t.Fatal(err)
	}
	var parts []string
	for _, part := range p.Data.Parts {
		parts = append(parts, part.Path+" "+strings.Join(strings.Fields(h.git("ls-tree", "--name-only", part.Branch)), ","))
	}
	slices.Sort(parts)
	if want := []string{"a .gitignore,README,new,of-left,of-more,of-plan",
		"b .gitignore,README,new,of-plan,of-right"}; !slices.Equal(parts, want) {
		h.t.Errorf("%s: the parts are %q, want %q", h.name, parts, want)
	}
	return h.git("rev-parse", p.Data.Branch+"^{tree}")
}

// TestPlaces has three workers, which have nothing of a person's project but the record, change its files. One is
// killed midway and its disk is removed. The outcome and the files are those of a run on one machine, and the person's
// directory is unchanged.
func TestPlaces(t *testing.T) {
	server := pgtest.Shared(t)
	needHosts(t)
	args := []string{"run", "shop.yaml", "-p", "go", "-q", "--id", taskID, "--trust"}
	one := newTeam(t).host("alone")
	one.writers()
	one.write("../../go", "")
	one.must(append(slices.Clone(args), "--keep-files")...)
	want, tree := digest(one), one.pulled()

	m := newTeam(t, newRecord(t, server), impatient+"=2s")
	person := m.host("person")
	person.writers()
	person.must(append(slices.Clone(args), "-d", "--on", control.OnTeam)...)
	before := person.git("status", "--porcelain")
	workers := map[string]*process{}
	for _, name := range []string{"a", "b", "c"} {
		workers[name] = m.host(name).worker()
	}
	m.until("an agent waits", func() bool { return slices.Contains(m.log(), "more") })
	lost := person.worksOn("more")
	workers[lost].kill()
	if err := os.RemoveAll(m.path(lost)); err != nil {
		t.Fatal(err)
	}
	person.write("../../go", "")
	m.until("the task ends", func() bool { return person.status() == "completed" })
	if got := digest(person); got != want {
		t.Errorf("digest %s, on one machine %s", got, want)
	}
	if got := person.pulled(); got != tree {
		t.Errorf("files %s, on one machine %s", got, tree)
	}
	if after := person.git("status", "--porcelain"); after != before {
		t.Errorf("the person's directory was\n%s\nand is\n%s", before, after)
	}
	if got := person.git("rev-parse", "HEAD"); got != person.git("rev-parse",
		"plait/"+taskID+"/files-"+person.head()[:12]+"^") {
		t.Errorf("the branch does not follow HEAD, %s", got)
	}
	if got := person.must("ls", "-q"); !strings.Contains(got, strings.ToLower(taskID[len(taskID)-4:])) {
		t.Errorf("the person's directory does not list the task: %q", got)
	}
	person.must("verify")
	// A completed task continues in a fork, for which no machine needs to have the files.
	person.must("resume", taskID, "-p", "more", "-q", "-d")
	person.must("verify")
}

// worksOn returns the worker that begins a role.
func (h *host) worksOn(role string) string {
	h.t.Helper()
	var list struct {
		Data struct {
			Threads []struct{ ID string }
		}
	}
	h.read(&list, "thread", "list", "--all", "--json")
	for name := range map[string]bool{"a": true, "b": true, "c": true} {
		found, _ := filepath.Glob(h.path(name, "home-places", "tasks", "*", taskID, ".plait", "worktrees", "*", "of-left"))
		if len(found) > 0 {
			return name
		}
	}
	h.t.Fatalf("nobody works on %s", role)
	return ""
}

// head returns the head of the task.
func (h *host) head() string {
	var one struct{ Data struct{ Head string } }
	h.read(&one, "thread", "show", taskID, "--json")
	return one.Data.Head
}
