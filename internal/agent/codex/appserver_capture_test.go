package codex

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/plait-run/plait/internal/agent"
)

// captures are the scenarios whose streams are kept in testdata/appserver.
var captures = []struct{ name, scenario string }{
	{"work", `
turns:
- steps:
  - items:
    - reason: I look first
    - say: I will run two commands and change a file.
    - run: echo first; exit 3
    - run: echo second
    - patch: |
        *** Begin Patch
        *** Update File: a.txt
        @@
        -one
        +two
        *** End Patch
  - items:
    - answer: all done
`},
	{"approve", `
turns:
- steps:
  - items:
    - run: {cmd: echo outside, escalate: true, justification: May I?}
    - patch: |
        *** Begin Patch
        *** Add File: ../beside.txt
        +planted
        *** End Patch
  - items:
    - answer: all done
`},
	{"limited", `
turns:
- steps:
  - fail: {status: 429, body: '{"error":{"message":"scripted: too many requests"}}'}
`},
	{"retried", `
turns:
- steps:
  - cut: {times: 1}
    items:
    - answer: a text that is long enough to be cut in the middle of it
`},
}

var ids = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// TestCapture recreates the streams in testdata/appserver if PLAIT_CAPTURE is set.
func TestCapture(t *testing.T) {
	if os.Getenv("PLAIT_CAPTURE") == "" {
		t.Skip("set PLAIT_CAPTURE to make the captured streams anew")
	}
	for _, c := range captures {
		l := newLab(t, c.scenario)
		y := l.try(t, "go")
		if err := os.WriteFile(filepath.Join(y.req.Dir, "a.txt"), []byte("one\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		y.req.Ask = func(context.Context, agent.Question) (agent.Answer, error) { return agent.Answer{}, nil }
		res, err := y.run(t.Context(), t, l.agent)
		t.Logf("%s: %v", c.name, err)
		text := y.raw.String()
		turn := res.Turn
		if turn == "" {
			turn = regexp.MustCompile(`"result":\{"turn":\{"id":"([^"]*)"`).FindStringSubmatch(text)[1]
		}
		_, text, _ = strings.Cut(text, "turn/started") // what comes before does not matter here
		text = `{"method":"turn/started` + text
		names := map[string]string{y.session: "thread-1", turn: "turn-1"}
		text = strings.NewReplacer(y.req.Dir, "/work", filepath.Dir(y.req.Dir), "/outer", l.home, "/home",
			l.model.URL(), "http://endpoint").Replace(text)
		text = ids.ReplaceAllStringFunc(text, func(id string) string {
			if names[id] == "" {
				names[id] = "00000000-0000-0000-0000-" + strings.Repeat("0", 12-len(jsonOf(t, len(names)))) +
					jsonOf(t, len(names))
			}
			return names[id]
		})
		if err := os.WriteFile(filepath.Join("testdata", "appserver", c.name+".jsonl"), []byte(text),
			0o644); err != nil {
			t.Fatal(err)
		}
	}
}
