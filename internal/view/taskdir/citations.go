package taskdir

import (
	"errors"
	"fmt"
	"io/fs"
	"path"

	"github.com/plait-run/plait/internal/flow"
)

// A Citation is a reference to an entry in a file of the task.
type Citation struct {
	File     string `json:"file"`     // relative to the directory
	Instance string `json:"instance"` // whose file it is, or ""
	ID       string `json:"id"`       // as written
}

// Citations lists the citations in the reports, contracts and decisions of the task, and in each
// final.json. Anything but a regular file, and files larger than 16 MiB, are left out.
func (d Dir) Citations() ([]Citation, error) {
	names, err := d.reports()
	if err != nil {
		return nil, err
	}
	c, err := d.Browse()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list citations: %w", err)
	}
	defer c.Close()
	agents, err := c.list("agents", maxWorkers)
	if err != nil {
		return nil, fmt.Errorf("list citations: %w", err)
	}
	var all []Citation
	look := func(name, instance string) {
		data, err := c.read(name, maxView)
		if err != nil {
			return
		}
		for _, id := range flow.Citations(string(data)) {
			all = append(all, Citation{name, instance, id})
		}
	}
	for _, name := range names {
		look(name, "")
	}
	for _, a := range agents {
		look(path.Join("agents", a.Name(), "artifacts", finalFile), a.Name())
	}
	return all, nil
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
