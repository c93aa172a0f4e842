package cli

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/record/history"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/text"
)

func (a *app) proofExportCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "export DIR",
		Short: "Write the tree over the log into a directory, for other programs",
		Long: `Write a checkpoint, signed by the log key of this machine, and the tree over the log into DIR, in the
format that public logs have (C2SP tlog-tiles). With these files others can prove that the log has an
event, or continues an older checkpoint. They have hashes only, and say nothing about the events. An
older export in DIR is extended, unless the log does not continue it.`,
		Example: "  plait proof export proof",
		Args:    exactly(1, "a directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, dir := cmd.Context(), args[0]
			w, err := a.open(ctx, "")
			if err != nil {
				return err
			}
			var signed []byte
			head, err := a.keptOf(w.store, w.home).Extend(ctx, w.store, func(head history.Checkpoint) ([]byte, error) {
				signed, err = signHead(head)
				return signed, err
			})
			if err == nil {
				err = history.Kept{File: filepath.Join(dir, "checkpoint")}.Check(ctx, w.store)
			}
			if err == nil {
				err = history.Export(ctx, w.store, head, signed, dir)
			}
			if errors.Is(err, history.ErrShorter) || errors.Is(err, history.ErrRewritten) {
				return fmt.Errorf("nothing was exported: %w: %w", err, store.ErrCorrupt)
			}
			if err != nil {
				return err
			}
			return a.print(cmd, map[string]any{"size": head.Size, "root": head.Root}, func(out page) {
				out.line("%s in %s", text.Count(int(head.Size), "event"), text.Safe(dir))
			})
		},
	}
}
