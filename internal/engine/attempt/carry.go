package attempt

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// maxSession is how many bytes of a session are carried, including the sessions that it continues.
const maxSession = 1 << 30

// sizesName is the first entry of a session's archive: the size of each file once the archive is unpacked, as
// JSON.
const sizesName = "sizes.json"

// keepSession records the session in which a step was done, if the task keeps its files and the agent's
// sessions can be carried. It keeps only what the files have gained since the previous step in the session.
// Files that cannot be read or are too large are not kept: an agent can cause that, and its step counts anyway.
func (e *Runner) keepSession(ctx context.Context, c *Thread, p *Prepared, session string) error {
	carrier, ok := p.worker.Agent.(agent.SessionExporter)
	home := e.home(c.Row.Task)
	if !c.Options.KeepFiles || !ok || session == "" || home == "" {
		return nil
	}
	fail := func(err error) error { return fmt.Errorf("keep session %s: %w", session, err) }
	prev, err := e.sessionBefore(ctx, c, p.Row.Role, session)
	if err != nil {
		return fail(err)
	}
	sizes := map[string]int64{}
	if !prev.IsZero() {
		if sizes, err = e.sessionSizes(ctx, prev); err != nil {
			return fail(err)
		}
	}
	dir, files := carrier.SessionFiles(home, session)
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil
	}
	defer root.Close()
	more, err := grown(root, files, sizes)
	if err != nil {
		return nil
	}
	if len(more) == 0 {
		p.kept.session = prev
		return nil
	}
	r, w := io.Pipe()
	packed := make(chan error, 1)
	go func() {
		err := e.packSession(w, root, more, sizes)
		w.CloseWithError(err)
		packed <- err
	}()
	blob, _, err := p.kept.bytes.Stage(ctx, r)
	r.Close()
	if packErr := <-packed; packErr != nil && !errors.Is(packErr, io.ErrClosedPipe) { // that is an error of Stage
		return nil
	}
	if err != nil {
		return fail(err)
	}
	kept := thread.Session{Agent: p.worker.Name, ID: session, Prev: prev, Bytes: blob}
	node, err := thread.NewNode(dag.TypeSession, kept)
	if err != nil {
		return fail(err)
	}
	p.kept.session = node.Hash
	p.kept.bytes.Objects = append(p.kept.bytes.Objects, node)
	return nil
}

// keepFiles records the files that a step left, if the task wants that.
func (e *Runner) keepFiles(ctx context.Context, c *Thread, p *Prepared) error {
	if !c.Options.KeepFiles || p.kept.after == "" {
		return nil
	}
	files, objects, err := e.cfg.Trees.Keep(ctx, c.Row, p.kept.after, c.Row.Head, func(r io.Reader) (dag.Hash, error) {
		blob, _, err := p.kept.bytes.Stage(ctx, r)
		return blob, err
	})
	p.kept.files, p.kept.bytes.Objects = files, append(p.kept.bytes.Objects, objects...)
	return err
}

// sessionBefore returns the session node of a role's newest step, if that step was done in the same session.
func (e *Runner) sessionBefore(ctx context.Context, c *Thread, role, session string) (dag.Hash, error) {
	for s, err := range e.cfg.Record.Nodes().Walk(ctx, c.Row.Head) {
		if err != nil {
			return dag.Hash{}, err
		}
		if s.State.Role != role {
			continue
		}
		d, err := e.cfg.Record.Nodes().Detail(ctx, s.State.Detail)
		if err != nil || d == nil || d.Session != session {
			return dag.Hash{}, err
		}
		return d.SessionFiles, nil
	}
	return dag.Hash{}, nil
}

// sessionSizes reads the sizes that a session's files have at a node.
func (e *Runner) sessionSizes(ctx context.Context, h dag.Hash) (sizes map[string]int64, err error) {
	s, err := e.cfg.Record.Nodes().Session(ctx, h)
	if err != nil {
		return nil, err
	}
	r, _, err := e.cfg.Store.Open(ctx, s.Bytes)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	_, sizes, err = openSession(r)
	return sizes, err
}

// A part is the new content of a session's file.
type part struct {
	name     string
	from, to int64
}

// grown returns what the files have beyond sizes, and updates sizes. A file that became shorter was replaced,
// and is taken whole.
func grown(root *os.Root, names []string, sizes map[string]int64) (parts []part, err error) {
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

// packSession writes the parts as a tar: first the sizes, then the new content of each file.
func (e *Runner) packSession(w io.Writer, root *os.Root, parts []part, sizes map[string]int64) error {
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
		err = e.packPart(t, root, p)
	}
	return errors.Join(err, t.Close())
}

func (e *Runner) packPart(t *tar.Writer, root *os.Root, p part) error {
	f, err := agent.OpenIn(root, p.name)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := t.WriteHeader(&tar.Header{Name: filepath.ToSlash(p.name), Mode: 0o600, Size: p.to - p.from}); err != nil {
		return err
	}
	w := e.cfg.Host.Secrets.Even(t) // the sizes say where the next part begins
	if _, err = io.Copy(w, io.NewSectionReader(f, p.from, p.to-p.from)); err != nil {
		return err
	}
	return w.Flush()
}

// openSession reads the sizes at the beginning of a session's bytes.
func openSession(r io.Reader) (*tar.Reader, map[string]int64, error) {
	t := tar.NewReader(r)
	h, err := t.Next()
	if err != nil || h.Name != sizesName || h.Size > 1<<20 {
		return nil, nil, fmt.Errorf("a session's bytes do not begin with the sizes of its files: %w",
			errors.Join(err, store.ErrCorrupt))
	}
	var sizes map[string]int64
	if err := json.NewDecoder(t).Decode(&sizes); err != nil {
		return nil, nil, fmt.Errorf("sizes of a session's files: %w: %w", err, store.ErrCorrupt)
	}
	return t, sizes, nil
}

// restoreSession puts the recorded files of a session where its agent looks for them. The session began in
// another home, or was lost from this one.
func (e *Runner) restoreSession(ctx context.Context, h dag.Hash, home string) error {
	fail := func(err error) error { return fmt.Errorf("restore session %s: %w", h.Short(), err) }
	var chain []dag.Hash
	for next := h; !next.IsZero(); {
		s, err := e.cfg.Record.Nodes().Session(ctx, next)
		if err != nil {
			return fail(err)
		}
		chain, next = append(chain, s.Bytes), s.Prev
	}
	if err := os.MkdirAll(home, 0o700); err != nil {
		return fail(err)
	}
	root, err := os.OpenRoot(home)
	if err != nil {
		return fail(err)
	}
	defer root.Close()
	files := map[string][]byte{}
	for _, blob := range slices.Backward(chain) {
		if err := e.readSession(ctx, blob, files); err != nil {
			return fail(err)
		}
	}
	for name, data := range files {
		if err := writeBelow(root, name, data); err != nil {
			return fail(err)
		}
	}
	return nil
}

// readSession adds a blob's content to a session's files.
func (e *Runner) readSession(ctx context.Context, blob dag.Hash, files map[string][]byte) error {
	r, _, err := e.cfg.Store.Open(ctx, blob)
	if err != nil {
		return err
	}
	defer r.Close()
	t, sizes, err := openSession(r)
	if err != nil {
		return err
	}
	for {
		h, err := t.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return fmt.Errorf("%w: %w", err, store.ErrCorrupt)
		}
		name := filepath.FromSlash(h.Name)
		if !filepath.IsLocal(name) || h.Typeflag != tar.TypeReg || sizes[h.Name] > maxSession || h.Size > sizes[h.Name] {
			return fmt.Errorf("entry %q: %w", h.Name, store.ErrCorrupt)
		}
		old := files[name]
		if h.Size == sizes[h.Name] {
			old = nil // the part has the whole file
		}
		b := bytes.NewBuffer(old)
		if _, err := io.Copy(b, t); err != nil {
			return fmt.Errorf("%w: %w", err, store.ErrCorrupt)
		}
		if files[name] = b.Bytes(); int64(b.Len()) != sizes[h.Name] {
			return fmt.Errorf("file %q has %d bytes, not %d: %w", name, b.Len(), sizes[h.Name], store.ErrCorrupt)
		}
	}
	_, err = io.Copy(io.Discard, r) // read to the end, where the hash is checked
	return err
}

// writeBelow writes a new file, and its directories. It leaves an existing file unchanged.
func writeBelow(root *os.Root, name string, data []byte) error {
	if _, err := root.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return agent.ReplaceIn(root, name, bytes.NewReader(data))
}
