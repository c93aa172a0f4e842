package taskdir

import (
	_ "embed" // templates of files that are made once
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Places in shared/.
const (
	notesFile    = "shared/human-notes.md"
	manifestFile = "shared/context-manifest.yaml"
	evidenceFile = "shared/evidence/index.json"
)

// maxNotesFile limits a person's notes, in bytes.
const maxNotesFile = 4 << 20

// sharedDirs hold reports and the like.
var sharedDirs = []string{"shared/reports", "shared/contracts", "shared/decisions"}

// The files that are made once for people. earlierNotes is the text that earlier versions put into human-notes.md: it
// was not written by a person either.
var (
	//go:embed templates/notes.md
	notes string
	//go:embed templates/earlier-notes.md
	earlierNotes string
	//go:embed templates/manifest.yaml
	manifest string
)

// An about is what the files about the directory itself say.
type about struct {
	Task string
	Team bool // its workers drive the task, and each has its own task directory
}

// says fills in the template of a file for people who run Plait as p.
func (a about) says(p Program, template string) (string, error) {
	data, err := page(template, a)
	return p.Says(string(data)), err
}

// Create makes the directory with its initial files, for people who run Plait as p. team means that the workers of a
// team drive the task.
func (d Dir) Create(p Program, team bool) error {
	root, err := d.open()
	if err != nil {
		return fmt.Errorf("create task directory: %w", err)
	}
	defer root.Close()
	if err := createFiles(root, p, d.task, team); err != nil {
		return fmt.Errorf("create task directory: %w", err)
	}
	return nil
}

// Leave marks the directory as left to a team: its workers drive the task from now on, and it is drawn elsewhere. What
// people wrote is kept.
func (d Dir) Leave(p Program) error {
	root, err := d.openExisting()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		defer root.Close()
		err = errors.Join(notRead(root, p, d.task), drawReadme(root, p, "left.md", about{d.task, true}))
	}
	if err != nil {
		return fmt.Errorf("leave task directory: %w", err)
	}
	return nil
}

// notRead writes into each of the files for people that it is not read, unless a person has changed the file.
func notRead(root *os.Root, p Program, task string) error {
	var errs error
	for _, file := range []struct{ name, made, template string }{
		{notesFile, notes, "team-notes.md"}, {manifestFile, manifest, "team-manifest.yaml"},
	} {
		said, err := about{task, true}.says(p, file.template)
		if err != nil {
			return err
		}
		if old, _, err := readPlain(root, file.name, maxNotesFile); err == nil && string(old) == file.made {
			errs = errors.Join(errs, replace(root, file.name, []byte(said)))
		} else {
			errs = errors.Join(errs, createOnce(root, file.name, said))
		}
	}
	return errs
}

func drawReadme(root *os.Root, p Program, template string, a about) error {
	said, err := a.says(p, template)
	if err != nil {
		return err
	}
	return draw(root, "README.md", []byte(said))
}

// createFiles creates the files that are made once, and the README. team means that a team's workers drive the task.
func createFiles(root *os.Root, p Program, task string, team bool) error {
	err := drawReadme(root, p, "readme.md", about{task, team})
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
