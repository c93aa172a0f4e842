package session

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/record"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// maxSession is how many bytes of a session are exported, including the sessions that it continues.
const maxSession = 1 << 30

// sizesName is the first entry of a session's archive: the size of each file once the archive is unpacked, as
// JSON.
const sizesName = "sizes.json"

// An Export names the session in which a step was done.
type Export struct {
	Role      string
	Agent     agent.Agent
	AgentName string
	Session   string
	Bytes     *store.Staging // takes the node of the session, and what it names
}

// Export records the session in which a step at a position was done, and returns its node; zero if there is none, or
// the agent's sessions cannot be exported. It keeps only what the files have gained since the previous step in the
// session. Files that cannot be read or are too large are not kept: an agent can cause that, and its step counts
// anyway.
func (k *Keeper) Export(ctx context.Context, at *record.Position, x Export) (dag.Hash, error) {
	exporter, ok := x.Agent.(agent.SessionExporter)
	home := k.cfg.Home(at.Row.Task)
	if !ok || x.Session == "" || home == "" {
		return dag.Hash{}, nil
	}
	node, err := k.export(ctx, at, x, exporter, home)
	if err != nil {
		return dag.Hash{}, fmt.Errorf("keep session %s: %w", x.Session, err)
	}
	return node, nil
}

func (k *Keeper) export(ctx context.Context, at *record.Position, x Export, exporter agent.SessionExporter,
	home string) (dag.Hash, error) {
	none := dag.Hash{}
	prev, err := k.before(ctx, at.Row.Head, x)
	if err != nil {
		return none, err
	}
	sizes := map[string]int64{}
	if !prev.IsZero() {
		if sizes, err = k.sizes(ctx, prev); err != nil {
			return none, err
		}
	}
	dir, files := exporter.SessionFiles(home, x.Session)
	root, err := os.OpenRoot(dir)
	if err != nil {
		return none, nil
	}
	defer root.Close()
	more, err := appended(root, files, sizes)
	if err != nil {
		return none, nil
	}
	if len(more) == 0 {
		return prev, nil
	}
	r, w := io.Pipe()
	packed := make(chan error, 1)
	go func() {
		err := k.pack(w, root, more, sizes)
		w.CloseWithError(err)
		packed <- err
	}()
	blob, _, err := x.Bytes.Stage(ctx, r)
	r.Close()
	if packErr := <-packed; packErr != nil && !errors.Is(packErr, io.ErrClosedPipe) { // that is an error of Stage
		return none, nil
	}
	if err != nil {
		return none, err
	}
	node, err := thread.NewNode(dag.TypeSession,
		thread.Session{Agent: x.AgentName, ID: x.Session, Prev: prev, Bytes: blob})
	if err != nil {
		return none, err
	}
	x.Bytes.Objects = append(x.Bytes.Objects, node)
	return node.Hash, nil
}

// before returns the session node of a role's newest step, if that step was done in the same session.
func (k *Keeper) before(ctx context.Context, head dag.Hash, x Export) (dag.Hash, error) {
	for s, err := range k.cfg.Nodes.Walk(ctx, head) {
		if err != nil {
			return dag.Hash{}, err
		}
		if s.State.Role != x.Role {
			continue
		}
		d, err := k.cfg.Nodes.Detail(ctx, s.State.Detail)
		if err != nil || d == nil || d.Session != x.Session {
			return dag.Hash{}, err
		}
		return d.SessionFiles, nil
	}
	return dag.Hash{}, nil
}

// sizes reads the sizes that a session's files have at a node.
func (k *Keeper) sizes(ctx context.Context, h dag.Hash) (sizes map[string]int64, err error) {
	s, err := k.cfg.Nodes.Session(ctx, h)
	if err != nil {
		return nil, err
	}
	r, _, err := k.cfg.Store.Open(ctx, s.Bytes)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	_, sizes, err = openArchive(r)
	return sizes, err
}

// A part is the new content of a session's file.
type part struct {
	name     string
	from, to int64
}

// appended returns what the files have beyond sizes, and updates sizes. A file that became shorter was replaced,
// and is taken whole.
func appended(root *os.Root, names []string, sizes map[string]int64) (parts []part, err error) {
	slices.Sort(names)
	total := int64(0)
	for _, name := range names {
		info, err := root.Stat(name)
		if err != nil {
			return nil, err
		}
		from := sizes[name]
		if info.Size() < from {
			from = 0
		}
		if total += info.Size(); total > maxSession {
			return nil, fmt.Errorf("it has over %d bytes", maxSession)
		}
		if info.Size() > from {
			parts = append(parts, part{name, from, info.Size()})
			sizes[name] = info.Size()
		}
	}
	return parts, nil
}

// pack writes the parts as a tar: first the sizes, then the new content of each file.
func (k *Keeper) pack(w io.Writer, root *os.Root, parts []part, sizes map[string]int64) error {
	t := tar.NewWriter(w)
	list, err := json.Marshal(sizes)
	if err == nil {
		err = t.WriteHeader(&tar.Header{Name: sizesName, Mode: 0o600, Size: int64(len(list))})
	}
	if err == nil {
		_, err = t.Write(list)
	}
	for _, p := range parts {
		if err != nil {
			return err
		}
		err = k.packPart(t, root, p)
	}
	return errors.Join(err, t.Close())
}

func (k *Keeper) packPart(t *tar.Writer, root *os.Root, p part) error {
	f, err := agent.OpenIn(root, p.name)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := t.WriteHeader(&tar.Header{Name: filepath.ToSlash(p.name), Mode: 0o600, Size: p.to - p.from}); err != nil {
		return err
	}
	w := k.cfg.Secrets.Even(t) // the sizes say where the next part begins
	if _, err = io.Copy(w, io.NewSectionReader(f, p.from, p.to-p.from)); err != nil {
		return err
	}
	return w.Flush()
}
