package web

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/testing/housetest"
)

// planOf returns a plan: an action for each name, title and, if it has one, the action that it depends on.
func planOf(goal string, actions ...[3]string) string {
	var list []map[string]any
	for _, a := range actions {
		one := map[string]any{"id": a[0], "title": a[1], "prompt": a[1] + ".", "access": "read"}
		if a[2] != "" {
			one["dependsOn"] = []string{a[2]}
		}
		list = append(list, one)
	}
	return string(mustJSON(map[string]any{"sessionGoal": goal, "actions": list}))
}

// fixers returns the agents of a small fix: one has found the cause, one waits for an approval, one for an answer.
func fixers() map[string]scripted {
	return map[string]scripted{
		"planner": say(planOf("The failing test passes.", [3]string{"find-cause", "Why the test fails"},
			[3]string{"fix", "Fix the sum"}, [3]string{"settle-port", "Settle the port"})),
		"find-cause": say(`{"status":"success","summary":"The loop begins at 1 and leaves out the first number."}`),
		"fix": func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
			zero := 0
			for _, e := range []agent.Event{
				{Kind: agent.EventMessage, ID: "m1", Phase: "completed", Text: "I read the code before I change it."},
				{Kind: agent.EventCommand, ID: "c1", Phase: "completed", Text: "cat sum.go", Exit: &zero,
					Output: "package sum\n\nfunc Sum(n []int) (sum int) {\n\tfor _, v := range n[1:] {\n\t\tsum += v\n\t}\n\treturn sum\n}\n"},
				{Kind: agent.EventMessage, ID: "m2", Phase: "completed",
					Text: "The loop leaves out the first number. I let it range over all of them."},
			} {
				if err := emit(e); err != nil {
					return agent.Result{}, err
				}
			}
			_, err := req.Ask(ctx, agent.Question{Text: "The test needs a cache to build in.",
				Action: agent.Action{Type: "command", Command: "/bin/bash -lc 'go test ./...'"}})
			return agent.Result{Output: []byte(`{"status":"success","summary":"It is fixed."}`)}, err
		},
		"settle-port": say(`{"status":"blocked","summary":"Nothing in the module says which port to use.",` +
			`"questions":["Which port is the example server to use?"]}`),
	}
}

// reviewers returns the agents of thirty actions: 24 end, one of them badly, three work until ctx ends, and
// three wait for one of these.
func reviewers(ctx context.Context) map[string]scripted {
	agents := map[string]scripted{}
	var actions [][3]string
	for i := 1; i <= 30; i++ {
		id := fmt.Sprintf("review-f%d", i)
		after := ""
		if i > 27 {
			after = "review-f23"
		}
		actions = append(actions, [3]string{id, fmt.Sprintf("Review f%d.go", i), after})
		switch {
		case i == 7:
			agents[id] = say(`{"status":"failed","summary":"f7.go does not compile: missing return at line 12."}`)
		case i <= 22 || i > 25:
			agents[id] = say(fmt.Sprintf(`{"status":"success","summary":"No defect in the %d functions of f%d.go."}`, i, i))
		default:
			agents[id] = func(_ context.Context, _ agent.Request, emit func(agent.Event) error) (agent.Result, error) {
				err := emit(agent.Event{Kind: agent.EventCommand, ID: "c1", Phase: "started", Text: "go vet ./" + id})
				<-ctx.Done()
				return agent.Result{}, errors.Join(err, &agent.Failure{Kind: agent.Interrupted, Message: "stopped"})
			}
		}
	}
	agents["planner"] = say(planOf("Every file is reviewed.", actions...))
	return agents
}

// summed is the file that a task changes.
const summed = `package sum

// Sum returns the sum of all numbers.
func Sum(numbers ...int) int {
	total := 0
	for _, n := range numbers {
		total += n
	}
	return total
}
`

// orchestrated begins a task of orchestrate on a site, and waits until wrong is nil.
func (s *site) orchestrated(prompt string, wrong func(id string) error) string {
	s.t.Helper()
	id := s.begun(string(mustJSON(map[string]string{"flow": "orchestrate", "prompt": prompt})))
	eventually(s.t, prompt, func() error { return wrong(id) })
	return id
}

// screens starts servers with a task in each state.
func screens(t *testing.T) (walls []wall) {
	ctx, end := context.WithCancel(t.Context())
	fix := newHouse(t, fixers()).open("")
	thirty := newHouse(t, reviewers(ctx)).open("")
	t.Cleanup(end)
	asks := fix.orchestrated("Find and fix the failing test", func(id string) error {
		open, err := fix.store.Gates(ctx, store.GateFilter{Task: id, State: store.GateOpen})
		if err == nil && len(open) != 2 {
			err = fmt.Errorf("%d gates are open", len(open))
		}
		return err
	})
	many := thirty.orchestrated("Review the thirty files of this package", func(id string) error {
		list, err := thirty.store.Threads(ctx, store.ThreadFilter{Task: id})
		ended := 0
		for _, row := range list {
			if row.Ended() {
				ended++
			}
		}
		if err == nil && ended != 24 {
			err = fmt.Errorf("%d have ended", ended)
		}
		return err
	})
	done := newHouse(t, map[string]scripted{})
	done.mends("note.txt", "Sum adds.\n")
	done.agents["left"] = func(_ context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
		err := os.WriteFile(filepath.Join(req.Dir, "sum.go"), []byte(summed), 0o644)
		zero := 0
		err = errors.Join(err, emit(agent.Event{Kind: agent.EventCommand, ID: "c1", Phase: "completed", Text: "go test ./...",
			Output: "ok  \tsum\t0.002s\n", Exit: &zero}))
		if err != nil {
			return agent.Result{}, err
		}
		return housetest.Answer(req, emit, "---\n$status: done\n---\nThe sum ranges over all numbers.\n")
	}
	done.agents["last"] = say("---\n$status: done\n---\n# The sum\n\n- The loop of `Sum` left out the first number.\n" +
		"- It ranges over all of them now, and its test was run.\n")
	changed := done.run(strings.Replace(mendFlow, "prompt: over", `prompt: "{{ _body }}"`, 1), "Fix Sum, and say what was wrong")
	asked := done.run(mendFlow, "Document the flags")
	done.agents["left"] = func(context.Context, agent.Request, func(agent.Event) error) (agent.Result, error) {
		return agent.Result{}, &agent.Failure{Kind: agent.Infra, Message: "the agent is not logged in"}
	}
	failed := done.run(mendFlow, "Fix Sum without an account")
	done.asksMore(asked, 30)
	at := done.open("")
	walls = append(walls, more(t)...)
	return append(walls, []wall{
		{fix, []framed{{"task-asks", "/tasks/" + asks}, {"inbox", "/"}}},
		{thirty, []framed{{"task-30", "/tasks/" + many}}},
		{at, []framed{{"task-changes", "/tasks/" + changed.ID}, {"task-failed", "/tasks/" + failed.ID},
			{"task-step", "/tasks/" + changed.ID + "?at=" + done.did(t, changed, "left").String()},
			{"inbox-merge", "/?at=g-0000000001"}, {"inbox-failed", "/?at=" + failed.ID}, {"tasks", "/tasks"}}},
	}...)
}

// more starts servers with an empty inbox, a change with a comment, a long task, and costs.
func more(t *testing.T) []wall {
	empty := newHouse(t, nil)
	empty.demo = &Demo{Codex: true}
	h := newHouse(t, map[string]scripted{})
	before, after := sample(t)
	row := h.rewrites(before, after, "done")
	s := h.open("")
	at := s.changesOf(row)
	from := strings.TrimPrefix(regexp.MustCompile(`from=\w+`).FindString(at), "from=")
	fork := s.asks("/api/v1/threads/"+row.ID+"/fork", `{"text":"Why is it gone? Keep it, or say where it went.",`+
		`"about":"docs/old.md:1-3","tree":"`+from+`"}`)
	h.ends(fork.Thread, store.Completed)
	steps := 300
	if os.Getenv("PLAIT_PICTURES") != "" {
		steps = 1000
	}
	said := make([]string, 0, steps)
	for i := range steps - 2 {
		said = append(said, fmt.Sprintf("---\n$status: more\n---\nFile %d has no defect.\n", i+1))
	}
	long := newHouse(t, map[string]scripted{"work": say(append(said, `{"$status":"done"}`)...)})
	many := long.run(strings.Replace(chatty, "maxRounds: 100", fmt.Sprint("maxRounds: ", 2*steps), 1), "Read every file of the archive")
	spent := newHouse(t, nil)
	spent.spends("codex", 1_840_000, 3_120_000, 0)
	spent.spends("claude", 620_000, 4_410_000, 0)
	spent.spends("codex", 940_000, 1_570_000, 1)
	spent.spends("copilot", 210_000, 0, 2)
	spent.spends("claude", 380_000, 2_700_000, 4)
	return []wall{
		{empty.open(""), []framed{{"inbox-empty", "/"}}},
		{s, []framed{{"diff-comment", strings.Replace(at, row.ID, fork.Thread, 1) + "&file=" + url.QueryEscape("docs/old.md")}}},
		{long.open(""), []framed{{"task-1000", "/tasks/" + many.ID}, {"thread-1000", "/threads/" + many.ID}}},
		{spent.open(""), []framed{{"cost", "/cost"}}},
	}
}

// spends begins a task in which an agent used tokens some days ago.
func (h *house) spends(by string, tokens, micro int64, days int) {
	h.t.Helper()
	row := h.begin(asking, "Look at "+by)
	at := time.Now().AddDate(0, 0, -days).UnixMilli()
	a := store.Attempt{ID: row.ID + ".7", Thread: row.ID, N: 7, From: dag.Sum([]byte(row.ID)), Role: "plan", Agent: by,
		Status: store.AttemptDone, StartedAt: at - 90_000, EndedAt: at,
		Usage: store.Usage{InputTokens: tokens, OutputTokens: tokens / 20, CostMicroUSD: micro}}
	if err := h.store.Commit(h.t.Context(), store.Batch{Attempts: []store.AttemptChange{{Row: a}}}); err != nil {
		h.t.Fatal(err)
	}
}

// TestScreens draws the screens that people live in, at three sizes, in light and dark mode. With PLAIT_PICTURES=DIR the
// pictures are kept in DIR.
func TestScreens(t *testing.T) {
	source := axe(t)
	for _, w := range screens(t) {
		b := w.site.browse()
		for _, p := range w.pages {
			for _, size := range [][2]int64{{1440, 900}, {1024, 768}, {390, 844}} {
				b.do(chromedp.EmulateViewport(size[0], size[1]))
				b.visit(p.path)
				b.screen(p.name, size, source)
			}
		}
	}
}

// screen checks what each screen must meet, and takes its pictures.
func (b *browser) screen(name string, size [2]int64, source string) {
	t := b.t
	t.Helper()
	if over := js[int](b, "document.documentElement.scrollWidth - innerWidth"); over > 0 {
		t.Errorf("%s, %d px: %d px too wide", name, size[0], over)
	}
	if bad := b.audit(source); len(bad) > 0 {
		t.Errorf("%s, %d px: %s", name, size[0], strings.Join(bad, "\n\t"))
	}
	if size[0] == 1440 && strings.HasPrefix(name, "task-") {
		got := js[[]int](b, `(() => {
		  const top = document.querySelector("[data-timeline]").getBoundingClientRect().top, pane = document.querySelector(".pane").getBoundingClientRect();
		  const lanes = [...document.querySelectorAll(".names li")].filter((e) => e.getBoundingClientRect().bottom <= pane.bottom + 1);
		  const code = document.querySelector(".beside").appendChild(Object.assign(document.createElement("pre"), { textContent: "x".repeat(80) }));
		  Object.assign(code.style, { whiteSpace: "pre", width: "max-content", margin: "0 1.25rem" });
		  const room = document.querySelector(".beside").clientWidth - 40 - code.offsetWidth;
		  code.remove();
		  return [top, lanes.length, room, document.documentElement.scrollHeight - innerHeight].map(Math.round);
		})()`)
		if got[0] >= 300 || got[2] < 0 || got[3] > 0 || name == "task-30" && got[1] < 24 {
			t.Errorf("%s: the timeline begins at %d px, has %d lanes on the screen, the panel is %d px wider than 80 columns, "+
				"and the page %d px taller than the window", name, got[0], got[1], got[2], got[3])
		}
	}
	if name == "task-changes" {
		if n := strings.Count(js[string](b, "document.body.innerText"), "It ranges over all of them now"); n != 1 {
			t.Errorf("%s: the result is on the page %d times", name, n)
		}
	}
	for _, look := range []string{"light", "dark"} {
		js[string](b, `document.documentElement.className = "`+look+`"`)
		data, err := inTime(b, chromedp.CaptureScreenshot())
		if err != nil {
			t.Fatal(err)
		}
		to := os.Getenv("PLAIT_PICTURES")
		if to == "" || to == "docs" {
			continue
		}
		file := filepath.Join(to, fmt.Sprintf("%s-%s-%d.png", name, look, size[0]))
		if err := os.WriteFile(file, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
