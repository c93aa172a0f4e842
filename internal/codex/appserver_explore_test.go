package codex

import (
	"testing"
	"context"
	"time"
)

func TestExplore(t *testing.T) {
	l := newLab(t, `
turns:
- when: {contains: [long]}
  steps:
  - items:
    - run: {cmd: sleep 60, yield_ms: 30000}
  - items:
    - answer: slept
- steps:
  - items:
    - run: env | sort | grep -i -e plait -e codex
  - items:
    - answer: "{{output 1}}"
`)
	ctx, cancel := context.WithCancel(t.Context())
	long := l.try(t, "long")
	over := make(chan bool)
	go func() { defer close(over); long.run(ctx, t, l.agent) }()
	eventually(t, "a command runs", func() bool { return len(long.requests.String()) > 0 && running(t, "sleep\x0060") })
	one := l.try(t, "look")
	one.req.Env = []string{"PLAIT_ATTEMPT=one"}
	t.Logf("%s", one.works(t, l.agent).Output)
	two := l.try(t, "look")
	two.req.Env = []string{"PLAIT_ATTEMPT=two"}
	two.req.Session = one.session
	t.Logf("%s", two.works(t, l.agent).Output)
	t.Logf("%s", two.raw.String())
	cancel()
	at := time.Now()
	<-over
	t.Log(time.Since(at))
	t.Log(running(t, "sleep\x0060"))
}
