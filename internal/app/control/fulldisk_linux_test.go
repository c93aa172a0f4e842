package control

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/engine/dispatch"
	"github.com/plait-run/plait/internal/record/store"
)

// A step that does not fit on the worker's disk is not the agent's fault, although by now there is room again.
func TestAStepThatDoesNotFit(t *testing.T) {
	agents := surveyAgents()
	h := newHouse(t, agents)
	h.clock = time.Now
	disk := func(flags uintptr, size string) {
		t.Helper()
		if err := syscall.Mount("none", h.dir, "tmpfs", flags, "mode=755,size="+size); err != nil {
			if os.Getenv("CI") != "" {
				t.Fatalf("mount a small disk: %v", err)
			}
			t.Skipf("NOT TESTED: mounting a small disk takes root: %v", err)
		}
	}
	disk(0, "6m")
	t.Cleanup(func() { syscall.Unmount(h.dir, syscall.MNT_DETACH) })
	h.repository()
	agents["api"] = func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
		large := make([]byte, 4<<20)
		rand.NewChaCha8([32]byte{}).Read(large)
		if err := os.WriteFile(filepath.Join(req.Dir, "large"), large, 0o644); err != nil {
			t.Error(err)
		}
		return say(status("done"))(ctx, req, emit)
	}
	task := h.team(writing("api"))
	a := h.ailing("a")
	a.cfg.Ready = func(context.Context) error { return nil }
	if err := a.Drive(t.Context(), task, new(dispatch.Slot)); err != nil {
		t.Fatal(err)
	}
	path := ""
	for _, r := range a.looks(t, task).Drive {
		if row := h.row(r.Thread); row.Path.ID == "a" {
			path = row.ID
		}
	}
	a.gives(t, path)
	row := h.row(path)
	if all := h.attempts(row); len(all) != 1 || all[0].Status != store.AttemptFailed || !all[0].Failure.Void {
		t.Fatalf("attempts: %+v", all)
	}
	if r := row.Reason; r == nil || !strings.Contains(r.Workers["a"], "No space left on device") {
		t.Errorf("the thread is %s, %+v", row.Status, r)
	}
	disk(syscall.MS_REMOUNT, "32m")
	if err := a.Drive(t.Context(), path, new(dispatch.Slot)); err != nil {
		t.Fatal(err)
	}
	if row := h.row(path); row.Status != store.Completed {
		t.Errorf("the path is %s, %+v", row.Status, row.Reason)
	}
}
