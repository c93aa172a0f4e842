package cli

import (
	"archive/zip"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/app/attest"
	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/flow/parse"
	"github.com/plait-run/plait/internal/record/history"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/transfer"
	"github.com/plait-run/plait/internal/record/verify"
	"github.com/plait-run/plait/internal/sys/lock"
	"github.com/plait-run/plait/internal/sys/text"
	"github.com/plait-run/plait/internal/ui/cli/heap"
	"github.com/plait-run/plait/internal/view"
	"github.com/plait-run/plait/internal/view/taskdir"
)

// A transferred is what import and export print.
type transferred struct {
	From     string `json:"from"`
	To       string `json:"to"`
	Verified int    `json:"verified"` // objects, before anything was transferred
	transfer.Report
}

func (a *app) importCmd() *cobra.Command {
	var workspace string
	var trust bool
	cmd := &cobra.Command{
		Use:   "import FILE.zip|DIR",
		Short: "Import an exported task, or all tasks of another record",
		Long: `Import a task from plait task export or plait attest (the file, or the directory that it was unpacked into), or all
tasks and named flows of another record, in a directory such as ~/.local/share/plait.

The source is verified first; if anything is altered or missing, or the log of a record does not
continue what the last import saw of it, nothing is imported and the exit code is 6. A task is imported
completely or not at all. Nothing is overwritten: a task that differs from the one here is refused (exit
code 7), as is a flow that has the name of a built-in one, and the others are imported. After an
interruption, run it again: it continues where it stopped.

Imported tasks can be read, verified and forked like any other. They run nothing until you continue
them with plait resume --trust. A task from a file belongs to this workspace, and tasks of another record
to the same directories as there, unless --workspace names one. Files of workspaces are not part of a
record, nor are the raw logs of attempts that never ended.`,
		Example: `  plait import 01K0ABCDEFGHJKMNPQRSTVWXYZ.zip
  plait import /mnt/old/plait --workspace .`,
		Args: exactly(1, "a file or a directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			w, err := a.open(ctx, "")
			if err != nil {
				return err
			}
			src, err := a.openSource(ctx, w, args[0])
			switch {
			case errors.Is(err, store.ErrNewer):
				return view.Advise(err, "update Plait")
			case errors.Is(err, store.ErrCorrupt):
				return view.Advise(err, "copy it again, or export the task again")
			case err != nil:
				return err
			}
			defer src.close()
			cfg := transfer.Config{
				From: src.store, To: w.store, By: gate.Person(), Now: time.Now, Progress: a.progress("tasks imported"),
			}
			if !trust {
				cfg.Source, cfg.Reserved = src.name, builtIn
			}
			if src.task != "" {
				cfg.Workspace = w.workspace
			}
			if workspace != "" {
				if cfg.Workspace, err = a.workspaceHere(w, workspace); err != nil {
					return err
				}
			}
			res, err := a.transfer(ctx, cfg, verify.Config{Store: src.store, Home: src.home}, src.task, w.home)
			res.From, res.To = src.name, w.home
			if err != nil {
				return err
			}
			for log, proof := range src.origins {
				if len(res.Refused()) > 0 {
					break
				}
				err := taskdir.At(cfg.Workspace, src.task).KeepOrigin(log, proof)
				if errors.Is(err, fs.ErrExist) {
					fmt.Fprintf(a.err, "%s; the one from before stays\n", text.Safe(err.Error()))
				} else if err != nil {
					return err
				}
			}
			return a.printTransferred(cmd, res, "imported")
		},
	}
	cmd.Flags().StringVar(&workspace, "workspace", "", "the `directory` that the tasks belong to here")
	cmd.Flags().BoolVar(&trust, "trust", false, "resume its tasks without --trust: they are your own")
	cmd.MarkFlagDirname("workspace")
	return cmd
}

func (a *app) exportCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "export DIR",
		Short: "Export the whole record into a directory",
		Long: `Write all tasks and named flows to a record in a directory, which plait reads with --home DIR. The
record is verified first, and its log must continue what the last export there saw of it. A record in
the directory is kept, and what it lacks is added, so run it
again after an interruption. Tasks that differ there are refused (exit code 7).
For a single task use plait task export.`,
		Example: `  plait export /mnt/backup/plait`,
		Args:    exactly(1, "one directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			w, err := a.open(ctx, "")
			if err != nil {
				return err
			}
			dir, err := filepath.Abs(args[0])
			if err != nil {
				return err
			}
			if err := a.mayExport(w, dir); err != nil {
				return err
			}
			to, err := a.program.OpenHome(ctx, dir)
			if err != nil {
				return fmt.Errorf("open the record in %s: %w", dir, err)
			}
			defer to.Close()
			cfg := transfer.Config{From: w.store, To: to, Now: time.Now, Progress: a.progress("tasks exported")}
			res, err := a.transfer(ctx, cfg, verify.Config{Store: w.store}, "", dir)
			res.From, res.To = w.home, dir
			if err != nil {
				return err
			}
			return a.printTransferred(cmd, res, "exported")
		},
	}
}

// mayExport refuses a directory that has no record and is not empty, and the record's own directory.
func (a *app) mayExport(w *workplace, dir string) error {
	if sameDir(dir, w.home) {
		return usagef("%s is where the record is; choose another directory", text.Safe(dir))
	}
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return usagef("export: %w", err)
	case len(entries) > 0 && !exists(filepath.Join(dir, "plait.db")):
		return usagef("%s is not empty and has no record; choose another directory", text.Safe(dir))
	}
	return nil
}

// meet keeps in a record's directory what was seen last of the log of another record. That must continue what was seen
// before; the first time it is trusted.
func (a *app) meet(ctx context.Context, other store.Store, home string) error {
	log, err := other.Log(ctx)
	if err != nil {
		return err
	}
	kept := history.Kept{File: filepath.Join(home, "peers", log.Origin), Accepts: a.accepting}
	_, err = kept.Extend(ctx, other, func(head history.Checkpoint) ([]byte, error) { return []byte(head.String()), nil })
	if errors.Is(err, history.ErrShorter) || errors.Is(err, history.ErrRewritten) {
		err = fmt.Errorf("nothing was copied: %w: %w", err, store.ErrCorrupt)
	}
	return err
}

// transfer verifies what is to be transferred, a single task or everything, and transfers it into the record in a
// directory.
func (a *app) transfer(
	ctx context.Context, cfg transfer.Config, check verify.Config, task, to string,
) (transferred, error) {
	heap.UseDefaults()
	check.Progress = a.progress("verified")
	var res transferred
	var report verify.Report
	var err error
	if task != "" {
		report, err = verify.Thread(ctx, check, task)
	} else {
		report, err = verify.All(ctx, check)
	}
	if err != nil {
		return res, err
	}
	if !report.OK() {
		for _, p := range report.Problems {
			fmt.Fprintln(a.err, p.Hash.String()+"  "+text.Safe(p.What))
		}
		return res, fmt.Errorf("integrity %s, completeness %s, history %s, %s; nothing was copied: %w",
			report.Integrity, report.Completeness, report.History, text.Count(len(report.Problems), "problem"), store.ErrCorrupt)
	}
	if n := report.Unproven; n > 0 {
		fmt.Fprintf(a.err, "warning: nothing proves what is kept of %s: it may be anything\n",
			text.Count(n, "redacted object"))
	}
	if task == "" { // the log of an export is not that of its record
		if err := a.meet(ctx, cfg.From, to); err != nil {
			return res, err
		}
	}
	res.Verified = report.Objects
	res.Report, err = transfer.Tasks(ctx, cfg)
	return res, err
}

func (a *app) printTransferred(cmd *cobra.Command, res transferred, done string) error {
	if len(res.Refused()) > 0 {
		a.code = exitConflict
	}
	return a.print(cmd, res, func(out page) {
		count := map[string]int{}
		for _, it := range res.Tasks {
			count[it.State]++
			if it.State == transfer.Imported {
				out.line("%s  %s", it.Short, it.ID)
			}
		}
		for _, it := range res.Flows {
			if it.State == transfer.Imported {
				out.line("flow %s  %s", text.Safe(it.ID), it.Head.Short())
			}
		}
		for _, it := range res.Refused() {
			fmt.Fprintf(a.err, "not %s: %s: %s\n", done, text.Safe(it.ID), text.Safe(it.Why))
		}
		out.line("%s %s, %d already there, %d refused; %s, %s", text.Count(count[transfer.Imported], "task"), done,
			count[transfer.There], len(res.Refused()), text.Count(res.Objects, "object"), text.Size(res.Bytes))
	})
}

// builtIn reports whether a flow is built in.
func builtIn(name string) bool {
	_, ok := parse.LoadBuiltIn(name)
	return ok
}

// A source is an opened record to import from.
type source struct {
	name  string // for people
	task  string // of an export, "" for a record
	home  string // of a record
	store store.Store
	close func()

	origins map[string][]byte // of a bundle: what proves it, by log
}

// openSource opens what a person wants to import. An export is first unpacked into its own record.
func (a *app) openSource(ctx context.Context, w *workplace, typed string) (source, error) {
	path, err := filepath.Abs(typed)
	if err != nil {
		return source{}, err
	}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return source{}, fmt.Errorf("no such file or directory: %s: %w", text.Safe(typed), store.ErrNotFound)
	}
	if err != nil {
		return source{}, usagef("import: %w", err)
	}
	switch {
	case !info.IsDir():
		z, err := zip.OpenReader(path)
		if err != nil {
			return source{}, fmt.Errorf("read %s: %w: %w", text.Safe(typed), err, store.ErrCorrupt)
		}
		defer z.Close()
		var origins map[string][]byte
		if attest.Sealed(z.Comment) {
			if origins, err = readOrigins(ctx, path); err != nil {
				return source{}, fmt.Errorf("import %s: %w", text.Safe(typed), err)
			}
		}
		src, err := a.unpack(ctx, w, path, z)
		src.origins = origins
		return src, err
	case exists(filepath.Join(path, "manifest.json")):
		return a.unpack(ctx, w, path, os.DirFS(path))
	case !exists(filepath.Join(path, "plait.db")):
		return source{}, usagef("%s is neither an exported task nor a record", text.Safe(typed))
	case sameDir(path, w.home):
		return source{}, usagef("%s is the record itself", text.Safe(typed))
	}
	s, err := a.program.OpenHome(ctx, path)
	if err != nil {
		return source{}, fmt.Errorf("open the record in %s: %w", path, err)
	}
	return source{name: path, home: path, store: s, close: func() { s.Close() }}, nil
}

// readOrigins checks the bundle in a file, and returns what it proves.
func readOrigins(ctx context.Context, path string) (map[string][]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return attest.Origins(ctx, f, info.Size())
}

// unpack puts an export into a temporary record in home, which the source's close removes.
func (a *app) unpack(ctx context.Context, w *workplace, path string, files fs.FS) (source, error) {
	if err := os.MkdirAll(w.home, 0o700); err != nil {
		return source{}, err
	}
	locks := lock.Locks{Dir: filepath.Join(w.home, "locks")}
	removeDead(w.home, locks)
	name := "import-" + rand.Text()
	held, err := locks.Acquire(name)
	if err != nil {
		return source{}, err
	}
	dir := filepath.Join(w.home, name)
	remove := func() { os.RemoveAll(dir); held.Release() }
	s, err := a.program.OpenHome(ctx, dir)
	if err != nil {
		remove()
		return source{}, err
	}
	src := source{name: path, store: s, close: func() { s.Close(); remove() }}
	m, err := transfer.Unpack(ctx, files, s)
	if err != nil {
		src.close()
		return source{}, fmt.Errorf("import %s: %w", text.Safe(path), err)
	}
	src.task = m.Task
	return src, nil
}

// removeDead removes what killed imports left in home. A directory that another import uses is locked.
func removeDead(home string, locks lock.Locks) {
	left, _ := filepath.Glob(filepath.Join(home, "import-*"))
	for _, dir := range left {
		if held, err := locks.Acquire(filepath.Base(dir)); err == nil {
			os.RemoveAll(dir) // what stays only takes space
			held.Release()
		}
	}
}

// sameDir reports whether two paths name the same directory.
func sameDir(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}
