package taskdir

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

// sharedDirs hold reports and the like.
var sharedDirs = []string{"shared/reports", "shared/contracts", "shared/decisions"}

const readme = `# Task %[1]s

Plain files about one task: agents that do a piece of work together, each step of
which is on record. The record is in Plait's store; what is here is drawn from it for
people and for tools like grep. Begin with task.yaml, or with shared/state-board.md.

| file | what it is |
|---|---|
| task.yaml | where the task stands: its state, who works on it, what waits for a person |
| events.jsonl | everything that happened, one JSON object a line, numbered by seq |
| shared/state-board.md | who does what now, as a table |
| shared/human-notes.md | %[2]s |
| shared/context-manifest.yaml | %[3]s |
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
can be deleted: ` + "`plait task redraw %[1]s`" + ` draws it again.
` + "`plait thread show %[1]s`" + ` prints the steps.
`

const notes = `# Notes

What people write below goes to the agents of this task: it answers the question
that is open (an input gate), else their next prompts tell it. Of several questions,
write the line "gate ID" above the answer; the command ` + "`gate list`" + ` shows the ids.

Nothing that stands here approves anything: that takes the command ` + "`approve`" + `.
Plait made this file once, reads it while the task runs, and never changes it.

`

// earlierNotes is the text that earlier versions put into the file. It was not written by a person
// either.
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

// The text of the same files for a task that the workers of a team drive: each worker has its own task directory.
const (
	teamNotes = `# Notes

Nothing that is written here is read: the workers of a team do this task. Say it with
` + "`plait resume %s -p TEXT`" + `, which reaches agents at work too. Questions are answered
with ` + "`plait answer`" + `; ` + "`plait gate list`" + ` shows them.
`
	teamManifest = `# Nothing that is written here is read: the workers of a team do this task. What its agents
# should know belongs into the repository, or is said with
#   plait resume %s -p TEXT
attachments: []
`
)

const leftReadme = `# Task %[1]s

The workers of a team do this task now. What is here is from before it was handed to them:
` + "`plait show %[1]s`" + ` prints how it is now, and ` + "`plait task pull %[1]s`" + ` brings its files.
`

// Leave marks the directory as left to a team: its workers drive the task from now on, and it is drawn elsewhere. What
// people wrote is kept.
func (d Dir) Leave(p view.Program) error {
	root, err := d.openExisting()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		defer root.Close()
		err = errors.Join(notRead(root, p, d.task), draw(root, "README.md", fmt.Appendf(nil, p.Says(leftReadme), d.task)))
	}
	if err != nil {
		return fmt.Errorf("leave task directory: %w", err)
	}
	return nil
}

// notRead writes into each of the files for people that it is not read, unless a person has changed the file.
func notRead(root *os.Root, p view.Program, task string) error {
	var errs error
	for name, text := range map[string][2]string{notesFile: {notes, teamNotes}, manifestFile: {manifest, teamManifest}} {
		said := fmt.Sprintf(p.Says(text[1]), task)
		if old, _, err := readPlain(root, name, maxNotesFile); err == nil && string(old) == text[0] {
			errs = errors.Join(errs, replace(root, name, []byte(said)))
		} else {
			errs = errors.Join(errs, createOnce(root, name, said))
		}
	}
	return errs
}

// createFiles creates the files that are made once, and the README. team means that a team's workers drive the task.
func createFiles(root *os.Root, p view.Program, task string, team bool) error {
	people := []any{task, "for people: what is written there answers questions, or goes to the agents",
		"for people: files and snippets to hand to every agent"}
	if team {
		people = []any{task, "not read: the workers of a team do this task", "not read"}
	}
	err := draw(root, "README.md", fmt.Appendf(nil, p.Says(readme), people...))
	dirs := append([]string{"shared/evidence", "agents"}, sharedDirs...)
	for _, dir := range dirs {
		err = errors.Join(err, makeDir(root, dir))
	}
	for _, dir := range []string{".", "shared"} {
		sweep(root, dir)
	}
	if err = errors.Join(err, createOnce(root, evidenceFile, "[]\n")); team {
		return errors.Join(err, notRead(root, p, task))
	}
	return errors.Join(err, createOnce(root, notesFile, notes), createOnce(root, manifestFile, manifest))
}

// reports lists the regular files in shared/reports, contracts and decisions, by their path
// inside the task directory. Links are not followed.
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
