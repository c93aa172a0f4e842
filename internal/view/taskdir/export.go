package taskdir

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/atomicfile"
	"github.com/plait-run/plait/internal/view"
)

// exportSchema names the format of an export, with its version.
const exportSchema = "plait.export/1"

// A Manifest is an export's manifest.json.
type Manifest struct {
	Schema  string     `json:"schema"`
	Task    string     `json:"task"`
	Head    dag.Hash   `json:"head"`
	Files   int        `json:"files"`   // in task/
	Objects int        `json:"objects"` // in objects/
	Events  int        `json:"events"`  // in index/events.jsonl
	Skipped []Skipped  `json:"skipped"` // of the directory
	Missing []dag.Hash `json:"missing"` // objects that the record refers to but does not have
	// Redacted has the SHA-256 of what is kept of objects that were redacted, by their hashes.
	Redacted map[string]dag.Hash `json:"redacted"`
}

// A Skipped is something in the directory that was left out.
type Skipped struct {
	Name string `json:"name"`
	Why  string `json:"why"`
}

// A Record is what an export reads.
type Record interface {
	store.Objects
	store.Index
	store.Journal
}

// Export writes a task to w as a ZIP file that can be read without Plait:
//
//	task/           its directory, regular files only
//	objects/<hash>  the bytes of every object that the task reaches
//	index/          threads.json, attempts.json, gates.json, requests.json, events.jsonl: the rows;
//	                nodes.json: which objects are nodes
//	manifest.json   see [Manifest]
//
// The same task always yields the same bytes. The error matches store.ErrNotFound if there is none.
func Export(ctx context.Context, record Record, w io.Writer, task string) (Manifest, error) {
	p := packer{ctx: ctx, record: record, zip: zip.NewWriter(w), manifest: Manifest{
		Schema: exportSchema, Task: task, Skipped: []Skipped{}, Missing: []dag.Hash{}, Redacted: map[string]dag.Hash{},
	}}
	err := p.pack(task)
	if err == nil {
		err = p.zip.Close()
	}
	if err != nil {
		return Manifest{}, fmt.Errorf("export task %s: %w", task, err)
	}
	return p.manifest, nil
}

type packer struct {
	ctx      context.Context
	record   Record
	zip      *zip.Writer
	manifest Manifest
}

func (p *packer) pack(task string) error {
	row, err := view.RootOf(p.ctx, p.record, task)
	if err != nil {
		return err
	}
	p.manifest.Head = row.Head
	if err := p.directory(At(row.Workspace, task)); err != nil {
		return err
	}
	rows, err := p.rows(task)
	if err != nil {
		return err
	}
	var roots []dag.Hash
	add := func(names []store.Name) {
		for _, n := range names {
			if !n.Maybe {
				roots = append(roots, n.Hash)
			}
		}
	}
	for _, t := range rows.threads {
		add(t.Names())
	}
	for _, a := range rows.attempts {
		add(a.Names())
	}
	for _, g := range rows.gates {
		add(g.Names())
	}
	if err := p.objects(roots); err != nil {
		return err
	}
	for _, list := range []struct {
		name string
		rows any
	}{{"threads", orEmpty(rows.threads)}, {"attempts", orEmpty(rows.attempts)}, {"gates", orEmpty(rows.gates)},
		{"requests", orEmpty(rows.requests)}} {
		data, err := pretty(list.rows)
		if err == nil {
			err = p.add("index/"+list.name+".json", bytes.NewReader(data))
		}
		if err != nil {
			return err
		}
	}
	if err := p.events(task, rows.pos); err != nil {
		return err
	}
	data, err := pretty(p.manifest)
	if err != nil {
		return err
	}
	return p.add("manifest.json", bytes.NewReader(data))
}

// orEmpty returns an empty list for nil.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// create begins a file without a time, so that the same task always yields the same bytes.
func (p *packer) create(name string) (io.Writer, error) {
	h := &zip.FileHeader{Name: name, Method: zip.Deflate}
	h.SetMode(0o644)
	return p.zip.CreateHeader(h)
}

func (p *packer) add(name string, r io.Reader) error {
	w, err := p.create(name)
	if err == nil {
		_, err = io.Copy(w, r)
	}
	if err != nil {
		return fmt.Errorf("pack %s: %w", name, err)
	}
	return nil
}

// directory packs the files of the task's directory, by name. A link could lead anywhere, so it
// is not followed, and a file with a second link may belong to another user.
func (p *packer) directory(d Dir) error {
	root, err := d.openExisting()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer root.Close()
	skip := func(name, why string) error {
		p.manifest.Skipped = append(p.manifest.Skipped, Skipped{strings.ToValidUTF8(name, "\ufffd"), why})
		return nil
	}
	return fs.WalkDir(root.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case p.ctx.Err() != nil:
			return p.ctx.Err()
		case err != nil:
			return skip(name, "cannot be read")
		case e.IsDir():
			return nil
		case atomicfile.IsTemp(path.Base(name)):
			return nil
		case !utf8.ValidString(name) || strings.ContainsAny(name, `\:`):
			return skip(name, "its name is not safe everywhere")
		case e.Type()&fs.ModeSymlink != 0:
			return skip(name, "a link")
		}
		f, info, err := openPlain(root, name, os.O_RDONLY)
		if err != nil {
			if errors.Is(err, errNotPlain) {
				return skip(name, errNotPlain.Error())
			}
			return skip(name, "cannot be read")
		}
		defer f.Close()
		p.manifest.Files++
		return p.add("task/"+name, io.LimitReader(f, info.Size())) // a log may be growing
	})
}

// objects packs everything reachable from roots.
func (p *packer) objects(roots []dag.Hash) error {
	var walker dag.Walker
	var all []dag.Hash
	nodes := []dag.Hash{}
	err := walker.Walk(roots, func(h dag.Hash) ([]dag.Hash, error) {
		r, entry, err := p.record.Open(p.ctx, h)
		if errors.Is(err, store.ErrNotFound) {
			p.manifest.Missing = append(p.manifest.Missing, h)
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		defer r.Close()
		all = append(all, h)
		if entry.Kind != store.Node {
			return nil, nil
		}
		kept, err := io.ReadAll(r)
		if err != nil {
			return nil, err
		}
		data, _ := store.Unredacted(kept)
		n, err := dag.Decode(data)
		if err != nil {
			return nil, fmt.Errorf("read node %s: %w: %w", h.Short(), store.ErrCorrupt, err)
		}
		nodes = append(nodes, h)
		return n.Refs, nil
	})
	if err != nil {
		return err
	}
	byHash := func(a, b dag.Hash) int { return bytes.Compare(a[:], b[:]) }
	slices.SortFunc(all, byHash)
	slices.SortFunc(p.manifest.Missing, byHash)
	p.manifest.Objects = len(all)
	for _, h := range all {
		if err := p.object(h); err != nil {
			return err
		}
	}
	slices.SortFunc(nodes, byHash)
	data, err := pretty(nodes)
	if err != nil {
		return err
	}
	return p.add("index/nodes.json", bytes.NewReader(data))
}

func (p *packer) object(h dag.Hash) error {
	r, _, err := p.record.Open(p.ctx, h)
	if err != nil {
		return err
	}
	defer r.Close()
	sum := sha256.New()
	if err := p.add("objects/"+h.String(), io.TeeReader(r, sum)); err != nil {
		return err
	}
	if kept := dag.Hash(sum.Sum(nil)); kept != h {
		p.manifest.Redacted[h.String()] = kept
	}
	return nil
}

// exported are the rows of a task.
type exported struct {
	threads  []store.Thread
	attempts []store.Attempt
	gates    []store.Gate
	requests []store.Request
	pos      int64 // of the last event that they reflect
}

// rows reads the rows of a task as they were after one of its events, which it has no event after.
func (p *packer) rows(task string) (r exported, err error) {
	for r.pos = -1; ; {
		last, err := p.record.Events(p.ctx, 0, store.EventFilter{Task: task, Newest: true, Limit: 1})
		pos := int64(0)
		if len(last) > 0 {
			pos = last[0].Pos
		}
		if err != nil || pos == r.pos {
			return r, err
		}
		r.pos = pos
		if r.attempts, err = p.record.Attempts(p.ctx, store.AttemptFilter{Task: task}); err != nil {
			return r, err
		}
		if r.gates, err = p.record.Gates(p.ctx, store.GateFilter{Task: task}); err != nil {
			return r, err
		}
		if r.requests, err = p.record.Requests(p.ctx, store.RequestFilter{Task: task}); err != nil {
			return r, err
		}
		if r.threads, err = p.record.Threads(p.ctx, store.ThreadFilter{Task: task}); err != nil {
			return r, err
		}
	}
}

// events packs the journal up to a position, with its positions and proofs, one event per line.
func (p *packer) events(task string, last int64) error {
	w, err := p.create("index/" + eventsFile)
	if err != nil {
		return err
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	f := store.EventFilter{Task: task, Before: last + 1}
	return event.Each(p.ctx, p.record, f, new(int64), func(ev store.Event) error {
		if err := enc.Encode(store.ExportedEvent{Event: ev, Proof: ev.Proof}); err != nil {
			return fmt.Errorf("spell event %d: %w", ev.Pos, err)
		}
		p.manifest.Events++
		return nil
	})
}
