package cli

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/plait-run/plait/internal/sys/text"
)

// announce says what a worker can run.
func (a *app) announce(ctx context.Context, f workerFlags, w *workplace) {
	most := "any number of agents at once"
	if n := agentsOf(f, w); n > 0 {
		most = "agents at once: " + fmt.Sprint(n)
	}
	if len(f.labels) > 0 {
		most += ", labels: " + strings.Join(f.labels, ", ")
	}
	fmt.Fprintf(a.err, "worker %s: %s\n", f.name, most)
	for _, found := range append(a.examineTeam(ctx, w.home), a.examineAgents(ctx)...) {
		if found.Unused || ctx.Err() != nil {
			continue
		}
		line := found.What + ": " + found.Text
		if found.Do != "" && !found.OK {
			line += ": " + found.Do
		}
		fmt.Fprintf(a.err, "worker %s: %s\n", f.name, text.Safe(a.keys.secrets.Text(a.says(line))))
	}
}

// lowDisk is less than a few tasks' files need.
const lowDisk = 1 << 30

// examineTeam looks for what a worker on this machine has besides agents.
func (a *app) examineTeam(ctx context.Context, home string) []Finding {
	var out []Finding
	say := sayer(&out)
	version, err := exec.CommandContext(ctx, "git", "version").Output()
	say("git version", err, strings.TrimSpace(strings.TrimPrefix(string(version), "git version")), "install git")
	for _, dir := range a.teamDirs(home) {
		out = append(out, examineDisk(dir))
	}
	return out
}

// teamDirs returns where a worker writes.
func (a *app) teamDirs(home string) []string {
	if a.place == nil {
		return []string{home}
	}
	return []string{home, a.place.Dir()}
}

// examineDisk reports what is left where a directory is, or will be.
func examineDisk(dir string) Finding {
	at := dir
	for !exists(at) && filepath.Dir(at) != at {
		at = filepath.Dir(at)
	}
	f := Finding{What: "disk"}
	var fs syscall.Statfs_t
	if err := syscall.Statfs(at, &fs); err != nil {
		f.Text = (&os.PathError{Op: "statfs", Path: at, Err: err}).Error()
		return f
	}
	left := int64(fs.Bavail) * int64(fs.Bsize)
	f.OK, f.Text = left >= lowDisk, text.Size(left)+" left for "+dir
	if !f.OK {
		f.Warning, f.Do = true, "make room: agents and the files of tasks need it"
	}
	return f
}
