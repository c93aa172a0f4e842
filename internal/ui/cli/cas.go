package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/text"
)

func (a *app) casCmd() *cobra.Command {
	cmd := group(&cobra.Command{Use: "cas", Short: "Read and write objects by their hash"})
	cmd.AddCommand(a.casGetCmd(), a.casPutCmd(), a.casRefsCmd(), a.casWalkCmd(), a.casLsCmd())
	return cmd
}

// An ambiguousHash is the error if the hashes of several objects begin with what was typed.
type ambiguousHash struct{ error }

func (e ambiguousHash) Unwrap() error { return e.error }

// findObject finds the one object whose hash begins with what was typed.
func findObject(ctx context.Context, s store.Objects, typed string) (dag.Hash, error) {
	if len(typed) < dag.MinPrefix {
		return dag.Hash{}, usagef("hash %q is too short: give at least %d digits", text.Safe(typed), dag.MinPrefix)
	}
	if strings.Trim(typed, "0123456789abcdef") != "" || len(typed) > 2*dag.Size {
		return dag.Hash{}, usagef("invalid hash %q: use lower-case hex digits", text.Safe(typed))
	}
	found, err := s.Resolve(ctx, typed, 5)
	if err != nil {
		return dag.Hash{}, err
	}
	switch len(found) {
	case 0:
		return dag.Hash{}, fmt.Errorf("no object begins with %s: %w", typed, store.ErrNotFound)
	case 1:
		return found[0], nil
	}
	var names []string
	for _, h := range found {
		names = append(names, h.String()[:min(len(typed)+6, 64)])
	}
	return dag.Hash{}, ambiguousHash{usagef("%s is not unique: %s", typed, strings.Join(names, ", "))}
}

// openObject opens the store or, inside an agent, the directory that the agent was lent, and finds the one object in it
// whose hash begins with what was typed.
func (a *app) openObject(ctx context.Context, typed string) (s store.Objects, h dag.Hash, err error) {
	if dir := a.getenv("PLAIT_CONTEXT"); dir != "" {
		s, err = openReadOnlyStore(dir)
	} else {
		s, err = a.openStore(ctx)
	}
	if err != nil {
		return nil, dag.Hash{}, err
	}
	h, err = findObject(ctx, s, typed)
	return s, h, err
}

func (a *app) casGetCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "get HASH",
		Short: "Print the exact bytes of an object",
		Long: `Print the bytes of an object exactly as they were hashed: "plait cas get HASH | sha256sum"
prints HASH. Inside an agent (PLAIT_CONTEXT is set), only the agent's input can be read.`,
		Example: `  plait cas get 9008c3d1
  plait cas get 9008c3d1 | sha256sum`,
		Args: exactly(1, "one hash"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			s, h, err := a.openObject(ctx, args[0])
			if err != nil {
				return err
			}
			if a.json {
				obj, err := s.Get(ctx, h)
				if err != nil {
					return err
				}
				data := map[string]any{"hash": h, "kind": obj.Kind.String(), "size": len(obj.Data), "bytes": obj.Data}
				if n, err := dag.Decode(obj.Data); err == nil && obj.Kind == store.Node {
					data["node"] = map[string]any{"type": n.Type, "payload": rawJSON(n.Payload), "refs": n.Refs}
					delete(data, "bytes")
				}
				return a.print(cmd, data, nil)
			}
			r, _, err := s.Open(ctx, h)
			if err != nil {
				return err
			}
			defer r.Close()
			_, err = io.Copy(a.out, r)
			return err
		},
	}
}

// rawJSON is JSON that is printed unchanged.
type rawJSON []byte

func (r rawJSON) MarshalJSON() ([]byte, error) { return r, nil }

func (a *app) casPutCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "put [FILE]",
		Short: "Store a file as a blob and print its hash",
		Long: `Store a file, or standard input, as a blob and print its hash. As long as nothing refers to
the blob, plait gc may delete it after the grace period (an hour by default).`,
		Example: `  plait cas put report.md
  git diff | plait cas put`,
		Args: atMost(1, "one file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			in := a.in
			if len(args) == 1 && args[0] != "-" {
				f, err := os.Open(args[0])
				if err != nil {
					return badUsage{err}
				}
				defer f.Close()
				if info, err := f.Stat(); err == nil && info.IsDir() {
					return usagef("%s is a directory, not a file", text.Safe(args[0]))
				}
				in = f
			}
			s, err := a.openStore(ctx)
			if err != nil {
				return err
			}
			pin := fmt.Sprintf("cas-put-%d", os.Getpid())
			h, n, err := s.Stage(ctx, pin, in)
			if err != nil {
				return err
			}
			if err := s.Commit(ctx, store.Batch{Unpin: []string{pin}}); err != nil {
				return err
			}
			return a.print(cmd, map[string]any{"hash": h, "size": n}, func(out page) { out.line("%s", h) })
		},
	}
}

// A casLine is an object in refs, walk and ls.
type casLine struct {
	Hash dag.Hash `json:"hash"`
	Kind string   `json:"kind"`
	Type string   `json:"type,omitempty"`
	Size int64    `json:"size"`
	What string   `json:"what,omitempty"`
}

// casRefs and casLines are what refs, and walk and ls print.
type (
	casRefs struct {
		Hash dag.Hash   `json:"hash"`
		Refs []dag.Hash `json:"refs"`
	}
	casLines struct {
		Objects []casLine `json:"objects"`
	}
)

// readLine reads what a line shows of an object, and its refs.
func readLine(ctx context.Context, s store.Objects, h dag.Hash) (casLine, []dag.Hash, error) {
	r, e, err := s.Open(ctx, h)
	if err != nil {
		return casLine{}, nil, err
	}
	r.Close()
	l := casLine{Hash: h, Kind: e.Kind.String(), Size: e.Size}
	if e.Kind != store.Node {
		return l, nil, nil
	}
	obj, err := s.Get(ctx, h)
	if err != nil {
		return l, nil, err
	}
	n, err := dag.Decode(obj.Data)
	if err != nil {
		return l, nil, fmt.Errorf("read %s: %w: %w", h.Short(), store.ErrCorrupt, err)
	}
	l.Type = n.Type
	l.What = whatIs(n)
	return l, n.Refs, nil
}

func (a *app) casRefsCmd() *cobra.Command {
	return &cobra.Command{
		Use: "refs HASH", Short: "List the objects that a node refers to, in order", Args: exactly(1, "one hash"),
		Example: "  plait cas refs 9008c3d1",
		RunE: func(cmd *cobra.Command, args []string) error {
			s, h, err := a.openObject(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			_, refs, err := readLine(cmd.Context(), s, h)
			return show(a, cmd, casRefs{h, append([]dag.Hash{}, refs...)}, err, func(out page, v casRefs) {
				for _, r := range v.Refs {
					out.line("%s", r)
				}
			})
		},
	}
}

func (a *app) casWalkCmd() *cobra.Command {
	return &cobra.Command{
		Use: "walk HASH", Short: "List every object that can be reached from one", Args: exactly(1, "one hash"),
		Example: "  plait cas walk 9008c3d1",
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			s, h, err := a.openObject(ctx, args[0])
			if err != nil {
				return err
			}
			lines := []casLine{}
			var w dag.Walker
			_, inside := s.(readOnlyStore)
			err = w.Walk([]dag.Hash{h}, func(h dag.Hash) ([]dag.Hash, error) {
				l, refs, err := readLine(ctx, s, h)
				if inside && errors.Is(err, store.ErrNotFound) {
					return nil, nil // not lent
				}
				if err != nil {
					return nil, err
				}
				lines = append(lines, l)
				return refs, nil
			})
			return show(a, cmd, casLines{lines}, err, writeObjects)
		},
	}
}

func writeObjects(out page, v casLines) {
	for _, l := range v.Objects {
		out.line("%s  %-8s %9d  %s", l.Hash, cmp.Or(l.Type, l.Kind), l.Size, l.What)
	}
}

// whatIs says briefly what a node holds.
func whatIs(n dag.Node) string {
	var p struct{ Role, Name, Agent string }
	switch n.Type {
	case dag.TypeContent:
		var said string
		if unmarshal(n.Payload, &said) {
			return text.FirstLine(said, 60)
		}
	case dag.TypeState, dag.TypeStart, dag.TypeFlow, dag.TypeArtifact, dag.TypeDetail:
		if unmarshal(n.Payload, &p) {
			return text.FirstLine(p.Role+p.Name+p.Agent, 60)
		}
	}
	return ""
}

func (a *app) casLsCmd() *cobra.Command {
	var kind string
	cmd := &cobra.Command{
		Use: "ls", Short: "List all objects in the store", Args: exactly(0, "no arguments"),
		Example: "  plait cas ls --kind blob",
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			if err := oneOf("kind", kind, "node", "blob"); err != nil {
				return err
			}
			s, err := a.openStore(ctx)
			if err != nil {
				return err
			}
			lines := []casLine{}
			for e, err := range s.List(ctx) {
				if err != nil {
					return err
				}
				if kind == "" || kind == e.Kind.String() {
					lines = append(lines, casLine{Hash: e.Hash, Kind: e.Kind.String(), Size: e.Size})
				}
			}
			return show(a, cmd, casLines{lines}, nil, writeObjects)
		},
	}
	cmd.Flags().StringVar(&kind, "kind", "", "only objects of this `kind`: node or blob")
	completeFlag(cmd, "kind", "node", "blob")
	return cmd
}
