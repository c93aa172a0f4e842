package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/sys/text"
	"github.com/plait-run/plait/internal/view/taskdir"
)

var evidenceKinds = []string{thread.FileAnchor, thread.CommandExecution, thread.RuntimeEventRange}

func (a *app) taskEvidenceCmd() *cobra.Command {
	cmd := group(&cobra.Command{Use: "evidence", Short: "List, show and check the evidence for agents' claims"})
	cmd.AddCommand(a.evidenceListCmd(), a.evidenceShowCmd(), a.evidenceCheckCmd())
	return cmd
}

func (a *app) evidenceListCmd() *cobra.Command {
	var instance, kind string
	cmd := &cobra.Command{
		Use:   "list [TASK]",
		Short: "List the evidence of a task, oldest first",
		Example: `  plait task evidence list
  plait task evidence list k7f2 --kind file-anchor`,
		Args: atMost(1, "one task"), ValidArgsFunction: a.completeThreads(),
		PreRunE: func(*cobra.Command, []string) error { return oneOf("kind", kind, evidenceKinds...) },
		RunE: readTask(a, func(ctx context.Context, w *workplace, row store.Thread) (evidenceList, error) {
			entries, err := w.dirs().Evidence(ctx, row.ID)
			return evidenceList{slices.DeleteFunc(entries, func(e taskdir.Entry) bool {
				return instance != "" && e.By != instance || kind != "" && e.Kind != kind
			})}, err
		}, evidenceTable),
	}
	cmd.Flags().StringVar(&instance, "instance", "", "only of this `instance`")
	cmd.Flags().StringVar(&kind, "kind", "", "only of this `kind`")
	completeFlag(cmd, "kind", evidenceKinds...)
	return cmd
}

// An evidenceList is what task evidence list prints.
type evidenceList struct {
	Evidence []taskdir.Entry `json:"evidence"`
}

func evidenceTable(out page, v evidenceList) {
	if len(v.Evidence) == 0 {
		out.line("no such evidence in this task")
		return
	}
	t := table{head: []string{"EVIDENCE", "KIND", "WHEN", "TITLE"}}
	for _, e := range v.Evidence {
		title := text.FirstLine(e.Title, 80)
		switch {
		case e.Broken != "":
			title = "(cannot be read) " + title
		case e.Unfinished:
			title = "(unfinished) " + title
		}
		t.add(entryName(e), text.FirstLine(e.Kind, 30), text.Ago(e.CreatedAt, time.Now()), title)
	}
	out.table(t)
}

// entryName returns the name of an entry. An unreadable one may have no id left.
func entryName(e taskdir.Entry) string { return text.FirstLine(cmp.Or(e.ID, e.Node.Short()), 100) }

func (a *app) evidenceShowCmd() *cobra.Command {
	var raw bool
	cmd := &cobra.Command{
		Use:   "show TASK ID",
		Short: "Show a piece of evidence: its source and its content",
		Long: `Show a piece of evidence: its source and its content. ID is as plait task evidence list prints
it; the part after the full stop is enough if it is unique. --raw writes the content alone,
byte for byte.`,
		Example: `  plait task evidence show k7f2 fix.cmd-2
  plait task evidence show k7f2 fix.cmd-2 --raw > test.log`,
		Args: exactly(2, "a task and the id of an entry"), ValidArgsFunction: a.completeEvidence,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			w, row, err := a.openTask(ctx, args[0])
			if err != nil {
				return err
			}
			entries, err := w.dirs().Evidence(ctx, row.ID)
			if err != nil {
				return err
			}
			id := strings.TrimPrefix(args[1], "evidence:")
			e, ok := taskdir.Resolve(id, "", entries)
			switch {
			case !ok:
				return fmt.Errorf("task %s has no evidence %q, or more than one of that name; "+
					"`plait task evidence list %s` shows all: %w", row.ID, text.Safe(id), row.ID, store.ErrNotFound)
			case e.Broken != "":
				return fmt.Errorf("evidence %s: %s: %w", entryName(e), e.Broken, store.ErrCorrupt)
			case raw && !a.json:
				return writeKept(ctx, a.out, w.store, e)
			}
			printErr := a.print(cmd, e, func(out page) { err = showEvidence(out, w.store, e) })
			return errors.Join(err, printErr)
		},
	}
	cmd.Flags().BoolVar(&raw, "raw", false, "write the content alone, byte for byte")
	return cmd
}

// writeKept writes the bytes that an entry kept, in the order of its sources.
func writeKept(ctx context.Context, out io.Writer, objects store.Objects, e taskdir.Entry) error {
	seen := map[dag.Hash]bool{}
	for _, s := range e.Sources {
		for _, h := range []dag.Hash{s.Blob, s.StdoutRef, s.StderrRef, s.EventsRef} {
			if h.IsZero() || seen[h] {
				continue
			}
			seen[h] = true
			r, _, err := s.Open(ctx, objects, h)
			if err != nil {
				return err
			}
			_, err = io.Copy(out, r)
			if err = errors.Join(err, r.Close()); err != nil {
				return err
			}
		}
	}
	return nil
}

// maxShown limits how much of kept bytes is shown.
const maxShown = 64 << 10

// showEvidence prints an entry.
func showEvidence(out page, objects store.Objects, e taskdir.Entry) error {
	line := func(label, s string) { out.field(label, strings.TrimSpace(s)) }
	line("evidence", e.ID)
	line("kind", e.Kind)
	line("title", e.Title)
	line("summary", e.Summary)
	line("by", e.By)
	line("made", clock(e.CreatedAt))
	line("node", e.Node.String())
	for _, h := range e.ArtifactRefs {
		line("artifact", h.String())
	}
	for i, s := range e.Sources {
		out.line("\nsource %d", i+1)
		line("  path", lineRange(s))
		if !s.EventsRef.IsZero() && s.StartLine != nil && s.EndLine != nil {
			line("  lines", fmt.Sprintf("%d-%d of the transcript", *s.StartLine, *s.EndLine))
		}
		line("  command", strings.Join(s.Command, " "))
		if s.Cwd != nil {
			line("  in", *s.Cwd)
		}
		if s.ExitCode != nil {
			line("  exit", fmt.Sprint(*s.ExitCode))
		}
		line("  hash", s.Hash.String())
		if s.Tree != nil {
			line("  tree", *s.Tree)
		}
		for _, kept := range []struct {
			what string
			h    dag.Hash
		}{{"kept", s.Blob}, {"output", s.StdoutRef}, {"errors", s.StderrRef}, {"events", s.EventsRef}} {
			if kept.h.IsZero() {
				continue
			}
			line("  "+kept.what, kept.h.String())
			if err := showBytes(out, objects, s, kept.h); err != nil {
				return err
			}
		}
	}
	return nil
}

// lineRange returns the place in a file that a source refers to.
func lineRange(s thread.EvidenceSource) string {
	switch {
	case s.Path == nil:
		return ""
	case s.StartLine == nil || s.EndLine == nil:
		return *s.Path
	case *s.StartLine == *s.EndLine:
		return fmt.Sprintf("%s:%d", *s.Path, *s.StartLine)
	}
	return fmt.Sprintf("%s:%d-%d", *s.Path, *s.StartLine, *s.EndLine)
}

func showBytes(out page, objects store.Objects, s thread.EvidenceSource, h dag.Hash) error {
	r, size, err := s.Open(out.ctx, objects, h)
	if err != nil {
		return err
	}
	defer r.Close()
	data, err := io.ReadAll(io.LimitReader(r, maxShown))
	if err != nil {
		return err
	}
	for line := range bytes.Lines(data) {
		out.line("    %s", text.Safe(strings.TrimSuffix(string(line), "\n")))
	}
	if over := size - int64(len(data)); over > 0 {
		out.line("    … %d more bytes: plait cas get %s", over, h.Short())
	}
	return nil
}

// completeEvidence completes a task, then an entry of it.
func (a *app) completeEvidence(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return a.completeThreads()(cmd, args, typed)
	}
	return a.completeFirst(keepOrder, func(ctx context.Context, w *workplace, typed string) (out []string) {
		row, err := w.task(ctx, args[0])
		if err != nil {
			return nil
		}
		entries, _ := w.dirs().Evidence(ctx, row.ID)
		for _, e := range entries {
			if strings.HasPrefix(e.ID, typed) {
				out = append(out, e.ID+"\t"+text.FirstLine(e.Title, 60))
			}
		}
		return out
	})(cmd, args[1:], typed)
}
