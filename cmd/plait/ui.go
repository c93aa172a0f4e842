package main

import (
	"fmt"
	"io"
	"maps"
	"os/exec"
	"os/user"
	"runtime"
	"slices"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/task"
	"github.com/plait-run/plait/internal/web"
)

func (a *app) uiCmd() *cobra.Command {
	addr := "127.0.0.1:0"
	var open, only bool
	var copied string
	cmd := &cobra.Command{
		Use:   "ui",
		Short: "Show tasks in a browser, and answer there what waits for a person",
		Long: `Show tasks in a browser, on an address of this machine: what waits for a person, what
runs, what happened and why. The address that is printed works once: it makes this
browser known. Tasks that are resumed or answered there are driven by this process, and
stop with it, to be resumed. --read-only lets nothing be changed. --task shows the copy of
a task's directory by its files alone, and nothing else: there need be no record of it, and
nothing is made or changed.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, done, err := a.pages(cmd, copied, only)
			if err != nil {
				return err
			}
			defer done()
			l, err := web.Listen(addr)
			if err != nil {
				return usagef("%w", err)
			}
			return s.Serve(cmd.Context(), l, func(url string) {
				a.print(cmd, map[string]any{"url": url}, func(out io.Writer) { fmt.Fprintln(out, url) })
				if open {
					a.browse(url)
				}
			})
		},
	}
	cmd.Flags().StringVar(&addr, "addr", addr, "address to listen on, of this machine; port 0 is any that is free")
	cmd.Flags().BoolVar(&open, "open", false, "open it in a browser")
	cmd.Flags().BoolVar(&only, "read-only", false, "only show: nothing can be answered, resumed or cancelled")
	cmd.Flags().StringVar(&copied, "task", "", "show this copy of a task's directory, and only that")
	return cmd
}

// pages returns the server of the record, or of the copy of a task's directory, and what
// to call when it has ended.
func (a *app) pages(cmd *cobra.Command, copied string, only bool) (*web.Server, func(), error) {
	if cmd.Flags().Changed("task") {
		c, err := task.OpenCopy(copied)
		if err != nil {
			return nil, nil, usagef("%w", err)
		}
		return web.NewCopy(web.CopyConfig{Copy: c}), func() { c.Close() }, nil
	}
	w, err := a.open(cmd.Context(), "")
	if err != nil {
		return nil, nil, err
	}
	by := ""
	if u, err := user.Current(); err == nil {
		by = u.Username
	}
	v := w.view()
	return web.New(web.Config{
		Store: w.store, Control: w.control, Reader: v.Reader, Board: v.Board, Workspace: w.workspace, Home: w.home, ReadOnly: only, Person: by,
		Agents: slices.Sorted(maps.Keys(w.settings.Agents)),
	}), func() {}, nil
}

// browse asks the desktop to open a page. That there is none is no error: the address was
// printed.
func (a *app) browse(url string) {
	with := "xdg-open"
	if runtime.GOOS == "darwin" {
		with = "open"
	}
	if err := exec.Command(with, url).Start(); err != nil {
		fmt.Fprintln(a.err, "no browser was opened:", err)
	}
}
