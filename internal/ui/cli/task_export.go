package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/sys/atomicfile"
	"github.com/plait-run/plait/internal/sys/text"
	"github.com/plait-run/plait/internal/view/taskdir"
)

// An exportResult is what task export prints.
type exportResult struct {
	File string `json:"file"`
	Size int64  `json:"size"`
	taskdir.Manifest
}

func (a *app) taskExportCmd() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "export [TASK] [-o FILE.zip]",
		Short: "Pack a task's directory and its record into a ZIP file",
		Long: `Pack a task into a ZIP file that can be read without Plait: its directory in task/, all its
objects in objects/HASH, its rows and events in index/. The same task always gives the same
bytes. Symbolic links are not followed; manifest.json lists them.`,
		Example: `  plait task export k7f2
  plait task export last -o review.zip`,
		Args:              atMost(1, "one task"),
		ValidArgsFunction: a.completeThreads(),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			w, row, err := a.openTask(ctx, newest(args))
			if err != nil {
				return err
			}
			if file == "" {
				file = row.ID + ".zip"
			}
			if _, err := os.Lstat(file); err == nil {
				return usagef("%s already exists; choose another file with -o", text.Safe(file))
			}
			if err := w.control.Redraw(ctx, row.ID); err != nil {
				fmt.Fprintln(a.err, "warning: the directory is exported as it is: "+text.Safe(err.Error()))
			}
			res := exportResult{File: file}
			res.Size, err = writeNew(file, func(out io.Writer) error {
				res.Manifest, err = taskdir.Export(ctx, w.store, out, row.ID)
				return err
			})
			if err != nil {
				return err
			}
			for _, s := range res.Skipped {
				fmt.Fprintf(a.err, "left out %s: %s\n", text.Safe(s.Name), s.Why)
			}
			if n := len(res.Missing); n > 0 {
				fmt.Fprintf(a.err, a.says("warning: %d objects are missing from the record; see plait verify\n"), n)
			}
			return a.print(cmd, res, func(out page) {
				out.line("%s  %s, %s, %s", text.Safe(file), text.Count(res.Files, "file"), text.Count(res.Objects, "object"),
					text.Count(int(res.Size), "byte"))
			})
		},
	}
	cmd.Flags().StringVarP(&file, "output", "o", "", "the `file` to write (default TASK.zip)")
	cmd.MarkFlagFilename("output", "zip")
	return cmd
}

// writeNew writes a file that did not exist, wholly or not at all, and returns its size.
func writeNew(file string, write func(io.Writer) error) (size int64, err error) {
	if _, err := os.Stat(filepath.Dir(file)); errors.Is(err, fs.ErrNotExist) {
		return 0, usagef("%s: no such directory", text.Safe(filepath.Dir(file)))
	}
	err = atomicfile.Replace(file, 0o600, func(f *os.File) error {
		if err := write(f); err != nil {
			return err
		}
		size, err = f.Seek(0, io.SeekCurrent)
		return errors.Join(err, f.Sync())
	})
	return size, err
}
