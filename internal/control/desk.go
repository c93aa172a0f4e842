package control

import (
	"io"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/attempt"
	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/task"
	"github.com/plait-run/plait/internal/worktree"
)

// desks hands the directories of tasks to attempts.
type desks struct{}

func (desks) Open(row store.Thread, instance, id string, v attempt.Vendor) (attempt.Desk, error) {
	d, err := task.At(row.Workspace, row.Task).Open(row, instance, id, task.Vendor(v))
	if err != nil {
		return nil, err
	}
	return desk{d}, nil
}

func (desks) Left(row store.Thread, instance, attempt string, read func(events, stderr io.Reader) error) error {
	return task.At(row.Workspace, row.Task).Left(instance, attempt, read)
}

func (desks) Attached(row store.Thread) []attempt.Attachment {
	var out []attempt.Attachment
	for _, a := range task.At(row.Workspace, row.Task).Attachments(worktree.Of(row)) {
		out = append(out, attempt.Attachment(a))
	}
	return out
}

// desk is the directory of one instance, open for one attempt.
type desk struct{ *task.Desk }

func (d desk) Agent() agent.Desk {
	return agent.Desk{
		Dir: d.Dir, Artifacts: d.ArtifactsDir(), Context: d.ContextDir(),
		Raw: d.Raw, Stderr: d.Desk.Stderr, Requests: d.Requests,
	}
}

func (d desk) Stderr() (io.ReadCloser, int64, error) { return d.StderrLog() }
