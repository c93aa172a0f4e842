package replay_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/agent/command"
	"github.com/plait-run/plait/internal/agent/replay"
	"github.com/plait-run/plait/internal/files/worktree"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/testing/housetest"
	"github.com/plait-run/plait/internal/testing/mem"
)

// A recorded is a task whose only step was made by a program, and a replay of it that has not begun.
type recorded struct {
	*testing.T
	store    *mem.Store
	nodes    *thread.Reader
	task, do store.Thread
	player   *replay.Player
}

// record begins a task and commits a step of the role check, asked prompt, that printed text and left an artifact.
func record(t *testing.T, prompt, text string) recorded {
	t.Helper()
	s := mem.New(mem.Config{})
	t.Cleanup(func() { s.Close() })
	r := recorded{T: t, store: s, nodes: thread.NewReader(s)}
	objects, row, err := thread.Begin(thread.NewTask{
		Row:    store.Thread{ID: "01JAZ5R9W1C8Q2V6H3K7M4N0PX", Workspace: t.TempDir(), CreatedAt: 1},
		Bundle: thread.Bundle{Name: "f", Flows: map[string]json.RawMessage{"f": json.RawMessage("{}")}}, Prompt: "x",
	})
	r.must(err)
	r.must(s.Commit(t.Context(), store.Batch{Objects: objects, Threads: []store.ThreadChange{{Row: row}}}))
	asked, err := thread.NewContent(prompt, nil)
	r.must(err)
	printed := store.Object{Hash: dag.Sum([]byte(text)), Data: []byte(text)}
	artifact, err := thread.NewNode(dag.TypeArtifact, thread.Artifact{Name: "sub/a.txt", Blob: printed.Hash})
	r.must(err)
	one := 1
	r.do = row
	r.task = housetest.Append(t.Context(), t, s, row, thread.Draft{
		Role: "check", Meta: json.RawMessage(`{"$status":"failed"}`), Text: text, Artifacts: []dag.Hash{artifact.Hash}, At: 2,
		Detail: &thread.Detail{Agent: "command", Attempt: row.ID + ".1", Attempts: []thread.EarlierAttempt{},
			Context: []thread.ContextUse{}, Prompt: asked.Hash, Transcript: printed.Hash, Exit: &one},
	}, asked, printed, artifact)
	r.do.ID, r.do.Root, r.do.Task = "01K0000000000000000000000A", "01K0000000000000000000000A",
		"01K0000000000000000000000A"
	r.player, err = replay.NewPlayer(t.Context(), replay.PlayerConfig{Store: s, Nodes: r.nodes,
		Trees: worktree.New(worktree.Config{Store: s, Reader: r.nodes}), Task: r.task, Home: "/h"})
	r.must(err)
	return r
}

func (r recorded) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// play has the program make an attempt.
func (r recorded) play(prompt string, visit, try int) (agent.Result, string, error) {
	r.Helper()
	program, err := command.New(command.Config{Command: []string{"false"}, Exit: map[string]string{"1": "failed"}})
	r.must(err)
	req := agent.Request{Place: agent.Place{Role: "check", Visit: visit, Try: try}, Prompt: prompt,
		Desk: agent.Desk{Artifacts: r.TempDir()}}
	a, req, err := r.player.Play(r.Context(), r.do, program, req)
	if err != nil {
		return agent.Result{}, "", err
	}
	var said []string
	res, err := a.Run(r.Context(), req, func(e agent.Event) error {
		said = append(said, e.Phase+" "+e.Text)
		return nil
	})
	left, _ := os.ReadFile(filepath.Join(req.Desk.Artifacts, "sub", "a.txt")) // "" if there is none
	return res, strings.Join(said, ", ") + ", left " + string(left), err
}

func TestAProgramSaysWhatItSaid(t *testing.T) {
	const then = "the step 0123456789ab of 01JAZ5R9W1C8Q2V6H3K7M4N0PX, in /h/homes/01JAZ5R9W1C8Q2V6H3K7M4N0PX"
	const now = "the step ba9876543210 of 01K0000000000000000000000A, in /h/homes/01K0000000000000000000000A"
	res, said, err := record(t, then, "printed").play(now, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	if string(res.Output) != "printed" || res.Status != "failed" || *res.Exit != 1 || res.Sandbox != "none, via: replay" {
		t.Errorf("result %+v", res)
	}
	if said != "started false, completed false, left printed" {
		t.Errorf("it says %q", said)
	}

	r := record(t, then, "printed")
	if res, _, err := r.play("another step", 0, 1); err != nil || string(res.Output) != "printed" {
		t.Errorf("asked something else, it prints %q: %v", res.Output, err)
	}
	drifts := r.player.Drifts()
	if len(drifts) != 1 || !strings.HasPrefix(drifts[0].String(), `its prompt differs: recorded "the step <hash> of <`) {
		t.Errorf("drifts %+v", drifts)
	}

	_, _, err = record(t, then, "printed").play(then, 1, 1)
	want := "replay: nothing is recorded of role check at visit 2 of this thread"
	if f := (*agent.Failure)(nil); !errors.As(err, &f) || !f.Final || f.Message != want {
		t.Errorf("once more: got %v, want %s", err, want)
	}
}
