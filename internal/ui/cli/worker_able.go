package cli

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/plait-run/plait/internal/app/config"
	"github.com/plait-run/plait/internal/record/history"
	"github.com/plait-run/plait/internal/sys/proc"
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
	memory := memoryLimit()
	if memory == "" {
		memory = "not limited by a control group"
	}
	fmt.Fprintf(a.err, "worker %s: %s, memory: %s\n", f.name, most, memory)
	if key := unvouched(ctx, w); key != "" {
		fmt.Fprintf(a.err, "worker %s: nobody vouches for its log key: %s %s --host %s\n", f.name,
			a.says("plait proof sign"), key, f.name)
	}
	// Of its own: otherwise the keys that it meets would be masked in all that agents say, as if they were in use.
	look := &app{program: a.program, in: a.in, out: a.out, err: a.err, getenv: a.getenv, flags: a.flags, cell: a.cell,
		verb: a.verb, named: a.named, log: a.log, place: a.place}
	for _, found := range append(look.examineTeam(ctx, w.home), look.examineAgents(ctx)...) {
		if found.Unused || ctx.Err() != nil {
			continue
		}
		line := found.What + ": " + found.Text
		if found.Do != "" && !found.OK {
			line += ": " + found.Do
		}
		fmt.Fprintf(a.err, "worker %s: %s\n", f.name, text.Safe(look.keys.secrets.Text(a.says(line))))
	}
}

// unvouched returns the log key of this machine if nobody vouches for it, else "".
func unvouched(ctx context.Context, w *workplace) string {
	log, err := w.store.Log(ctx)
	if err != nil {
		return "" // for others to say
	}
	keys, err := w.view().LogKeys(ctx)
	if err != nil {
		return ""
	}
	if key, err := ownKey(history.Origin(log.Origin)); err == nil && !keys.Has(key) {
		return key
	}
	return ""
}

// lowDisk is less than a few tasks' files need.
const lowDisk = 1 << 30

// examineTeam looks for what a worker on this machine has besides agents.
func (a *app) examineTeam(ctx context.Context, home string) []Finding {
	var out []Finding
	say := sayer(&out)
	version, err := exec.CommandContext(ctx, "git", "version").Output()
	say("git version", err, strings.TrimSpace(strings.TrimPrefix(string(version), "git version")), "install git")
	if set, err := config.Load(config.UserFile(), "", a.getenv); err == nil { // else the settings are what is wrong
		out = append(out, a.examineLimits(set.Team.V.Limits))
	}
	for _, dir := range a.teamDirs(home) {
		out = append(out, examineDisk(dir))
	}
	return out
}

// examineLimits says what bounds an agent in a cell.
func (a *app) examineLimits(l config.Limits) Finding {
	processes, memory, files := "any number of processes", "any memory", "files of any size"
	if l.Processes > 0 {
		processes = fmt.Sprintf("%d processes", l.Processes)
	}
	if l.MemoryGB > 0 {
		memory = text.Size(int64(l.MemoryGB)<<30) + " of memory"
	}
	if l.FileGB > 0 {
		files = "files of " + text.Size(int64(l.FileGB)<<30)
	}
	f := Finding{What: "limits", OK: true,
		Text: "an agent can have " + processes + " and " + memory + ", and write " + files}
	switch {
	case l == config.Limits{}:
	case proc.Prlimit() == "":
		f.OK, f.Text, f.Do = false, "prlimit is not installed", "install util-linux"
	case a.cell != nil && a.cell.Ungrouped != nil:
		f.Text += "; each of its programs is counted by itself: " + a.cell.Ungrouped.Error()
	}
	return f
}

// memoryLimit returns what bounds the memory of this process and its agents together, "" if nothing is known to.
func memoryLimit() string {
	group, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return ""
	}
	least := int64(0)
	for line := range strings.Lines(string(group)) {
		at, is := strings.CutPrefix(strings.TrimSpace(line), "0::") // of version 2
		for last := ""; is && at != last; last, at = at, filepath.Dir(at) {
			most, _ := os.ReadFile(filepath.Join("/sys/fs/cgroup", at, "memory.max"))
			n, err := strconv.ParseInt(strings.TrimSpace(string(most)), 10, 64)
			if err == nil && (least == 0 || n < least) {
				least = n
			}
		}
	}
	if least == 0 {
		return ""
	}
	return text.Size(least)
}

// teamDirs returns where a worker and all its agents write: each is there, or will be made there. A task in a directory
// of the configuration that this worker may not write is given back; others are not concerned.
func (a *app) teamDirs(home string) (dirs []string) {
	all := []string{home, os.TempDir(), config.ScratchDir()}
	if a.place != nil {
		all = slices.Insert(all, 1, a.place.Dir())
	}
	for _, dir := range all {
		for !exists(dir) && filepath.Dir(dir) != dir {
			dir = filepath.Dir(dir)
		}
		if !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// examineDisk reports what is left where a directory is.
func examineDisk(dir string) Finding {
	f := Finding{What: "disk"}
	left, err := freeIn(dir)
	if err != nil {
		f.Text = err.Error()
		return f
	}
	f.OK, f.Text = left >= lowDisk, text.Size(left)+" left for "+dir
	if !f.OK {
		f.Warning, f.Do = true, "make room: agents and the files of tasks need it"
	}
	return f
}
