package task

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"

	"github.com/plait-run/plait/internal/view"
)

// Places in shared/.
const (
	notesFile    = "shared/human-notes.md"
	manifestFile = "shared/context-manifest.yaml"
	evidenceFile = "shared/evidence/index.json"
)

// sharedDirs are where reports and the like lie.
var sharedDirs = []string{"shared/reports", "shared/contracts", "shared/decisions"}

const readme = `# Task %s

Plain files about one task: agents that do a piece of work together, each step of
which is on record. The record is in Plait's store; what is here is drawn from it for
people and for tools like grep. Begin with task.yaml, or with shared/state-board.md.

| file | what it is |
|---|---|
| task.yaml | where the task stands: its state, who works on it, what waits for a person |
| events.jsonl | everything that happened, one JSON object a line, numbered by seq |
| shared/state-board.md | who does what now, as a table |
| shared/human-notes.md | for people: what is written there answers questions, or goes to the agents |
| shared/context-manifest.yaml | for people: files and snippets to hand to every agent |
| shared/evidence/index.json | what claims in reports are proved by |
| shared/decisions, contracts, reports | of a task that a model plans: its plans, what each agent was asked, what it came to; and what people put there |
| agents/NAME/session.json | an agent and its session |
| agents/NAME/runtime/ | what it said, byte for byte: events.jsonl, stderr.log, requests.jsonl; attempts.jsonl: which bytes are which attempt's |
| agents/NAME/artifacts/ | the files its last attempt left, and final.json: what it handed back |
| agents/NAME/context/ | what it was lent of the record |

A hash of 64 digits names something in the record: ` + "`plait cas get HASH`" + ` prints it, and
` + "`plait cas get HASH | sha256sum`" + ` shows that it is what its name says.

What is changed here is drawn over, but for human-notes.md, context-manifest.yaml, what
stands in state-board.md outside of its markers, and people's own files in the last three. All of it but those and runtime/
can be deleted: ` + "`plait task redraw %s`" + ` draws it again.
` + "`plait thread show %s`" + ` prints the steps.
`

const notes = `# Notes

What people write below goes to the agents of this task: it answers the question
that is open (an input gate), else their next prompts tell it. Of several questions,
write the line "gate ID" above the answer; the command ` + "`gate list`" + ` shows the ids.

Nothing that stands here approves anything: that takes the command ` + "`approve`" + `.
Plait made this file once, reads it while the task runs, and never changes it.

`

// earlierNotes is what files of earlier versions say: nobody's words either.
const earlierNotes = `
write the line "gate ID" above the answer; ` + "`plait gate list`" + ` shows the ids.

Nothing that stands here approves anything: that takes ` + "`plait approve`" + `. Plait
made this file once, reads it while the task runs, and never changes it.

This file is for people. Plait made it once and never changes it.

Nothing that stands here approves anything: that takes ` + "`plait approve`" + `. A question
is answered with ` + "`plait answer`" + `; ` + "`plait gate list`" + ` shows what is open.
`

const manifest = `# Files and snippets for every agent of this task. Plait made this once and never
# changes it. Entries:
#   - {id: api, kind: file, path: docs/api.md, range: [1, 40], reason: what to keep to}
#   - {id: style, kind: snippet, text: "No globals.", reason: house style}
attachments: []
`

// lay makes what is made once, and the README.
func lay(root *os.Root, p view.Program, task string) error {
	err := draw(root, "README.md", fmt.Appendf(nil, p.Says(readme), task, task, task))
	dirs := append([]string{"shared/evidence", "agents"}, sharedDirs...)
	for _, dir := range dirs {
		err = errors.Join(err, folder(root, dir))
	}
	for _, dir := range []string{".", "shared"} {
		sweep(root, dir)
	}
	return errors.Join(err, once(root, notesFile, notes), once(root, manifestFile, manifest),
		once(root, evidenceFile, "[]\n"))
}

// reports lists the files in shared/reports, contracts and decisions, by their path
// inside the directory of the task. What is no plain file is left out, and what is below
// no plain directory.
func (d Dir) reports() ([]string, error) {
	names := []string{}
	c, err := d.Browse()
	if errors.Is(err, fs.ErrNotExist) {
		return names, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list reports: %w", err)
	}
	defer c.Close()
	for _, dir := range sharedDirs {
		entries, _ := c.list(dir, maxDocuments)
		for _, e := range entries {
			if e.Type().IsRegular() {
				names = append(names, path.Join(dir, e.Name()))
			}
		}
	}
	return names, nil
}
