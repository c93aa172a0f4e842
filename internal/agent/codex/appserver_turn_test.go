package codex

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/agent"
)

func TestAppPatch(t *testing.T) {
	l := newLab(t, `
turns:
- steps:
  - items:
    - reason: I look
    - say: I change a file.
    - patch: |
        *** Begin Patch
        *** Update File: a.txt
        @@
        -one
        +two
        *** Add File: new/b.txt
        +fresh
        *** End Patch
  - items:
    - answer: all done
`)
	y := l.try(t, "change it")
	file := filepath.Join(y.req.Dir, "a.txt")
	if err := os.WriteFile(file, []byte("one\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	res := y.works(t, l.agent)
	if data, err := os.ReadFile(file); err != nil || string(data) != "two\n" {
		t.Errorf("the file holds %q, %v", data, err)
	}
	changes := y.of(agent.EventFile, "completed")
	if len(changes) != 1 || len(changes[0].Files) != 2 {
		t.Fatalf("got changes %+v", changes)
	}
	files := changes[0].Files
	slices.SortFunc(files, func(a, b agent.File) int { return strings.Compare(a.Path, b.Path) })
	for i := range files {
		files[i].Path, _ = filepath.Rel(y.req.Dir, files[i].Path)
	}
	want := []agent.File{{Path: "a.txt", Change: "update", Diff: "@@ -1 +1 @@\n-one\n+two\n"},
		{Path: "new/b.txt", Change: "add", Diff: "fresh\n"}}
	if diff := cmp.Diff(want, files); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	patch, err := os.ReadFile(filepath.Join(y.req.Desk.Artifacts, "patch.diff"))
	if err != nil || !strings.Contains(string(patch), "-one\n+two\n") || !strings.Contains(string(patch), "+fresh\n") {
		t.Errorf("patch.diff holds %q, %v", patch, err)
	}
	if string(res.Output) != "all done" || res.Sandbox != "workspace-write" || res.Session == "" || res.Turn == "" ||
		res.Model != "plait-scripted" {
		t.Errorf("got result %+v", res)
	}
	if res.Session != y.session || y.process.PID == 0 || y.process.Tag != y.req.Tag {
		t.Errorf("Opened got %q and Started %+v", y.session, y.process)
	}
	if said := y.of(agent.EventThought, "completed"); len(said) != 1 || said[0].Text != "I look" {
		t.Errorf("got reasoning %+v", said)
	}
}

func TestAppCommands(t *testing.T) {
	l := newLab(t, `
turns:
- steps:
  - items:
    - run: echo first; exit 3
    - run: echo second; sleep 0.4; echo third
  - items:
    - answer: "{{output 1}} {{output 2}}"
`)
	y := l.try(t, "go")
	res := y.works(t, l.agent)
	contains(t, "the answer", string(res.Output), "third")
	byID := map[string][]agent.Event{}
	for _, e := range y.of(agent.EventCommand, "") {
		byID[e.ID] = append(byID[e.ID], e)
	}
	if len(byID) != 2 {
		t.Fatalf("got commands %+v", byID)
	}
	exits := map[int]string{}
	for id, events := range byID {
		first, last := events[0], events[len(events)-1]
		if first.Phase != "started" || !strings.Contains(first.Text, "echo") || last.Exit == nil {
			t.Fatalf("command %s: %+v", id, events)
		}
		if (last.Phase == "failed") != (*last.Exit != 0) {
			t.Errorf("command %s ended %+v", id, last)
		}
		exits[*last.Exit] = last.Output
		updates := ""
		for _, e := range events[1 : len(events)-1] {
			if e.Phase != "updated" {
				t.Errorf("command %s: %+v", id, e)
			}
			updates += e.Output
		}
		if *last.Exit == 0 && !strings.Contains(updates, "third") {
			t.Errorf("command %s was updated with %q", id, updates)
		}
	}
	contains(t, "the output of the first", exits[3], "first\n")
	contains(t, "the output of the second", exits[0], "second\nthird\n")
}

// use is a scenario in which a turn makes two model calls.
const use = `
turns:
- steps:
  - items:
    - run: "true"
    usage: {input: 100, cached: 10, output: 20, reasoning: 5}
  - items:
    - answer: all done
    usage: {input: 1000, cached: 100, output: 200, reasoning: 50}
`

func TestAppUsageAndSessions(t *testing.T) {
	l := newLab(t, use)
	want := agent.Usage{InputTokens: 1100, CachedInputTokens: 110, OutputTokens: 220, ReasoningTokens: 55}
	first := l.try(t, "the first prompt")
	one := first.works(t, l.agent)
	if diff := cmp.Diff(want, one.Usage); diff != "" {
		t.Errorf("usage of the first turn (-want +got):\n%s", diff)
	}
	last := first.of(agent.EventUsage, "")
	if n := len(last); n != 2 || *last[1].Usage != want {
		t.Errorf("got usage events %+v", last)
	}
	first.req.Session = one.Session
	if !l.agent.Continues(first.req) {
		t.Fatal("the session cannot be gone on with")
	}

	// That server has ended; this is another one.
	second := l.try(t, "the second prompt")
	second.req.Session, second.req.Dir = one.Session, first.req.Dir
	two := second.works(t, l.agent)
	if two.Session != one.Session || two.Turn == one.Turn || two.Sandbox != "workspace-write" {
		t.Errorf("the second turn is %+v after %+v", two, one)
	}
	if diff := cmp.Diff(want, two.Usage); diff != "" {
		t.Errorf("usage of the second turn (-want +got):\n%s", diff)
	}
	asked := l.asked()
	prompts := asked[len(asked)-1].Prompts
	if diff := cmp.Diff([]string{"the first prompt", "the second prompt"}, prompts); diff != "" {
		t.Errorf("prompts (-want +got):\n%s", diff)
	}

	for name, home := range map[string]string{"same home": l.home, "other home": t.TempDir()} {
		t.Run("fork in the "+name, func(t *testing.T) {
			y := l.try(t, "the forked prompt")
			y.req.Home, y.req.From = home, &agent.Branch{Home: l.home, Session: one.Session, Turn: one.Turn}
			if !l.agent.Forks(y.req) {
				t.Fatal("the session cannot be forked")
			}
			forked := y.works(t, l.agent)
			if forked.Session == one.Session || forked.Session == "" || y.session != forked.Session ||
				forked.Sandbox != "workspace-write" {
				t.Errorf("got result %+v", forked)
			}
			if diff := cmp.Diff(want, forked.Usage); diff != "" {
				t.Errorf("usage of the fork (-want +got):\n%s", diff)
			}
			asked := l.asked()
			prompts := asked[len(asked)-1].Prompts
			if diff := cmp.Diff([]string{"the first prompt", "the forked prompt"}, prompts); diff != "" {
				t.Errorf("prompts (-want +got):\n%s", diff)
			}
			// A fork can be continued like any other session.
			again := l.try(t, "after the fork")
			again.req.Home, again.req.Session = home, forked.Session
			again.works(t, l.agent)
			asked = l.asked()
			if diff := cmp.Diff(append(prompts, "after the fork"), asked[len(asked)-1].Prompts); diff != "" {
				t.Errorf("prompts (-want +got):\n%s", diff)
			}
		})
	}
}

// shared is a scenario for several attempts on one server.
const shared = `
turns:
- when: {contains: [stay]}
  steps:
  - items:
    - run: {cmd: "echo staying; while ! test -e go; do sleep 0.05; done", yield_ms: 20000}
  - items:
    - answer: stayed
- steps:
  - items:
    - run: echo "look $PLAIT_ATTEMPT $PLAIT_TAG"
  - items:
    - answer: "{{output 1}}"
`

// background runs an attempt that does not end until its directory has the file go.
func background(t *testing.T, l *lab) (y *appTry, end func() agent.Result) {
	t.Helper()
	y = l.try(t, "stay")
	var once sync.Once
	begun, over := make(chan struct{}), make(chan struct{})
	y.on = func(e agent.Event) {
		if e.Kind == agent.EventCommand {
			once.Do(func() { close(begun) })
		}
	}
	var res agent.Result
	go func() {
		defer close(over)
		res = y.mayWork(t, l.agent)
	}()
	select {
	case <-begun:
	case <-over:
		t.Fatal("the attempt in the background has ended")
	}
	return y, func() agent.Result {
		if err := os.WriteFile(filepath.Join(y.req.Dir, "go"), nil, 0o600); err != nil {
			t.Error(err)
		}
		<-over
		return res
	}
}

func TestAppSharedServer(t *testing.T) {
	l := newLab(t, shared)
	stay, end := background(t, l)
	one := l.try(t, "look")
	one.req.Env = []string{"PLAIT_ATTEMPT=one"}
	first := one.works(t, l.agent)
	contains(t, "the first answer", string(first.Output), "look one "+one.req.Tag)
	if one.process != stay.process || one.process.Tag != stay.req.Tag {
		t.Errorf("the servers are %+v and %+v", one.process, stay.process)
	}
	// On the same server the session is still loaded, with the settings of one.
	two := l.try(t, "look")
	two.req.Env, two.req.Session, two.req.Access = []string{"PLAIT_ATTEMPT=two"}, first.Session, agent.Read
	second := two.works(t, l.agent)
	contains(t, "the second answer", string(second.Output), "look two "+two.req.Tag)
	if second.Sandbox != "read-only" || second.Session != first.Session || two.process != stay.process {
		t.Errorf("got result %+v of %+v", second, two.process)
	}
	// A session in which an attempt works is not available to another one.
	three := l.try(t, "look")
	three.req.Session = stay.session
	if f := three.fails(t.Context(), t, l.agent, agent.Infra); !strings.Contains(f.Message,
		"in use by another attempt") || f.Final {
		t.Errorf("got failure %+v", f)
	}
	if string(end().Output) != "stayed" {
		t.Error("the attempt in the background did not end well")
	}
	if _, err := os.Stat(filepath.Join("/proc", jsonOf(t, stay.process.PID))); err == nil {
		t.Error("the server is there after its last attempt")
	}
	for name, y := range map[string]*appTry{"stay": stay, "one": one, "two": two} {
		other := stay.session
		if y == stay {
			other = one.session
		}
		if strings.Contains(y.raw.String(), other) {
			t.Errorf("the raw log of %s speaks of session %s", name, other)
		}
		if !strings.Contains(y.raw.String(), y.session) {
			t.Errorf("the raw log of %s lacks its own session", name)
		}
	}
}

// TestAppSharedServerLeavesNothing checks that processes end with their attempt, even if its server continues.
func TestAppSharedServerLeavesNothing(t *testing.T) {
	const marker = "plait-left-sleeper"
	l := newLab(t, `
turns:
- when: {contains: [leave]}
  steps:
  - items:
    - run: setsid bash -c 'trap "" INT TERM HUP; exec -a `+marker+` sleep 600' >/dev/null 2>&1 & until tr '\0' ' ' </proc/$!/cmdline | grep -q '^`+marker+` 600'; do sleep 0.02; done
  - items:
    - answer: left
`+strings.TrimPrefix(shared, "\nturns:\n"))
	_, end := background(t, l)
	y := l.try(t, "leave")
	y.req.Access = agent.Full
	seen := false
	y.on = func(e agent.Event) { seen = seen || running(t, marker+"\x00600") }
	y.works(t, l.agent)
	if !seen {
		t.Error("the process that is to be left was not seen")
	}
	if running(t, marker+"\x00600") {
		t.Error("it runs on")
	}
	end()
}

func jsonOf(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestAppShaped(t *testing.T) {
	l := newLab(t, `
turns:
- when: {schema: true}
  steps:
  - items:
    - answer: {auto: true, text: "the text", with: {$status: done, count: 7}}
`)
	schema := json.RawMessage(`{"type":"object","properties":{"$status":{"enum":["done"]},` +
		`"count":{"type":"integer"}},"required":["$status","count"]}`)
	y := l.try(t, "shape it")
	y.req.Schema, y.req.Shaped = schema, true
	if !l.agent.Shapes(schema) {
		t.Fatal("the schema cannot be asked for")
	}
	res := y.works(t, l.agent)
	out := string(res.Output)
	if !strings.HasPrefix(out, "---\n{") || !strings.HasSuffix(out, "\n---\n\nthe text") ||
		!strings.Contains(out, `"count": 7`) {
		t.Errorf("got output %q", out)
	}
	said := y.of(agent.EventMessage, "completed")
	if len(said) != 1 || said[0].Text != "the text" {
		t.Errorf("got messages %+v", said)
	}
	if updates := y.of(agent.EventMessage, "updated"); len(updates) > 0 {
		t.Errorf("pieces of JSON were shown: %+v", updates)
	}
}

func TestAppSteer(t *testing.T) {
	l := newLab(t, shared)
	y := l.try(t, "stay")
	more := make(chan agent.Addition, 1)
	heard := 0
	y.req.Additions = more
	y.on = func(e agent.Event) {
		switch {
		case e.Kind == agent.EventCommand && e.Phase == "started" && strings.Contains(e.Text, "staying"):
			more <- agent.Addition{Text: "look at this too", Delivered: func() { heard++ }}
			close(more)
		case e.Kind == agent.EventProgress && strings.HasPrefix(e.Text, "told: "):
			os.WriteFile(filepath.Join(y.req.Dir, "go"), nil, 0o600)
		}
	}
	y.works(t, l.agent)
	prompts := []string{}
	for _, r := range l.asked() {
		prompts = r.Prompts
	}
	if diff := cmp.Diff([]string{"stay", "look at this too"}, prompts); diff != "" {
		t.Errorf("prompts (-want +got):\n%s", diff)
	}
	if heard != 1 {
		t.Errorf("it was heard %d times", heard)
	}
	if n := strings.Count(y.raw.String(), `"method":"turn/completed"`); n != 1 {
		t.Errorf("there were %d turns", n)
	}
}
