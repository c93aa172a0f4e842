package transfer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
)

// Where things are in an export of a task: see package task, which writes it.
const archiveSchema = "plait.export/1"

// Limits on an export, which a stranger may have made: in bytes, but for rows and events.
const (
	maxUnpacked   = 8 << 30 // of all files
	maxManifest   = 8 << 20
	maxIndexFile  = 64 << 20
	maxEventsFile = 256 << 20
	maxNode       = 8 << 20
	MaxRows       = 100_000 // of a kind
	maxJournal    = 1 << 20 // events
)

// maxRedacted is how many bytes a redacted object may have: they are in memory. A variable for tests.
var maxRedacted = 256 << 20

// A Manifest is the part of an export's manifest.json that is read.
type Manifest struct {
	Schema  string     `json:"schema"`
	Task    string     `json:"task"`
	Head    dag.Hash   `json:"head"`
	Objects int        `json:"objects"`
	Events  int        `json:"events"`
	Missing []dag.Hash `json:"missing"`
	// Redacted has the SHA-256 of what is kept of redacted objects, by their hashes.
	Redacted map[string]dag.Hash `json:"redacted"`
}

// Unpack reads an export of a task, a ZIP file or an unpacked directory, into an empty store, and
// returns its manifest. The error matches store.ErrCorrupt if the export is damaged. The content
// of nodes and rows is not checked: verify does that.
func Unpack(ctx context.Context, from fs.FS, to store.Store) (Manifest, error) {
	u := unpacker{ctx: ctx, from: from, to: to, left: maxUnpacked}
	if err := u.unpack(); err != nil {
		return u.manifest, fmt.Errorf("read export: %w", err)
	}
	return u.manifest, nil
}

type unpacker struct {
	ctx      context.Context
	from     fs.FS
	to       store.Store
	left     int64 // bytes that may still be read
	manifest Manifest
	nodes    map[dag.Hash]bool // nil: an older export, which does not list its nodes
	batch    []store.Object
	held     int
}

// damaged returns the error for an export that is not what was written.
func damaged(format string, args ...any) error {
	return fmt.Errorf(format+": %w", append(args, store.ErrCorrupt)...)
}

func (u *unpacker) unpack() error {
	f, err := u.open("manifest.json")
	if err != nil {
		return err
	}
	defer f.Close()
	if err := json.NewDecoder(io.LimitReader(f, maxManifest)).Decode(&u.manifest); err != nil {
		return damaged("manifest.json: %v", err)
	}
	if u.manifest.Schema != archiveSchema {
		if strings.HasPrefix(u.manifest.Schema, "plait.export/") {
			return fmt.Errorf("it is %s, this version reads %s: %w", u.manifest.Schema, archiveSchema, store.ErrNewer)
		}
		return damaged("manifest.json is not that of a task export")
	}
	if n := len(u.manifest.Missing); n > 0 {
		return damaged("%d objects were missing when it was made, the first %s", n, u.manifest.Missing[0].Short())
	}
	if err := u.readNodes(); err != nil {
		return err
	}
	if err := u.objects(); err != nil {
		return err
	}
	return u.rows()
}

// open opens a file.
func (u *unpacker) open(name string) (fs.File, error) {
	f, err := u.from.Open(name)
	if err != nil {
		return nil, damaged("there is no %s", name)
	}
	return counted{f, &u.left}, nil
}

// A counted is a file whose bytes count against a limit that files share.
type counted struct {
	fs.File
	left *int64
}

var errTooMuch = fmt.Errorf("more than %d bytes unpacked", int64(maxUnpacked))

func (c counted) Read(p []byte) (int, error) {
	n, err := c.File.Read(p)
	if *c.left -= int64(n); *c.left < 0 {
		return 0, errTooMuch
	}
	return n, err
}

// list calls do with each item of a file that is a list.
func list[T any](u *unpacker, name string, most int, do func(T) error) error {
	f, err := u.open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	err = List(io.LimitReader(f, maxIndexFile), most, do)
	if err != nil && !errors.Is(err, store.ErrCorrupt) {
		err = damaged("%s: %w", name, err)
	}
	return err
}

// rows is list for rows.
func rows[T any](u *unpacker, name string, do func(T) error) error { return list(u, name, MaxRows, do) }

// List calls do with each item of a JSON list, which has at most some. It holds one at a time: many items need far
// fewer bytes in a file than in memory. Errors of do are returned as they are.
func List[T any](in io.Reader, most int, do func(T) error) error {
	dec := json.NewDecoder(in)
	begin, err := dec.Token()
	if err != nil || begin == nil { // null
		return err
	}
	if begin != json.Delim('[') {
		return errors.New("it is not a list")
	}
	for ; dec.More(); most-- {
		if most == 0 {
			return errors.New("the list is too long")
		}
		var item T
		if err := dec.Decode(&item); err != nil {
			return err
		}
		if err := do(item); err != nil {
			return err
		}
	}
	_, err = dec.Token()
	return err
}

// readNodes reads the list of nodes.
func (u *unpacker) readNodes() error {
	if _, err := fs.Stat(u.from, "index/nodes.json"); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	u.nodes = make(map[dag.Hash]bool)
	return list(u, "index/nodes.json", u.manifest.Objects, func(h dag.Hash) error {
		u.nodes[h] = true
		return nil
	})
}

func (u *unpacker) objects() error {
	entries, err := fs.ReadDir(u.from, "objects")
	if err != nil {
		return damaged("there is no directory objects")
	}
	if len(entries) != u.manifest.Objects {
		return damaged("it has %d objects, its manifest says %d", len(entries), u.manifest.Objects)
	}
	for _, e := range entries {
		if err := u.ctx.Err(); err != nil {
			return err
		}
		h, err := dag.ParseHash(e.Name())
		if err != nil || !e.Type().IsRegular() {
			return damaged("%q is not an object", "objects/"+e.Name())
		}
		if err := u.object(h); err != nil {
			return err
		}
	}
	return u.flush()
}

// object stores one object, if its bytes match its name.
func (u *unpacker) object(h dag.Hash) error {
	name := path.Join("objects", h.String())
	f, err := u.open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	head, err := io.ReadAll(io.LimitReader(f, maxNode+1))
	if err != nil {
		return damaged("%s: %w", name, err)
	}
	node := u.nodes[h]
	if u.nodes == nil && len(head) <= maxNode {
		data, _ := store.Unredacted(head)
		_, err := dag.Decode(data)
		node = err == nil
	}
	if store.MayBeRedacted(head) {
		rest, err := io.ReadAll(io.LimitReader(f, int64(maxRedacted-len(head)+1)))
		if head = append(head, rest...); err == nil && len(head) > maxRedacted {
			err = fmt.Errorf("it was redacted, and has more than %d bytes", maxRedacted)
		}
		if err != nil {
			return damaged("%s: %w", name, err)
		}
	} else if len(head) > maxSmall && !node {
		got, _, err := u.to.Stage(u.ctx, u.manifest.Task, io.MultiReader(bytes.NewReader(head), f))
		switch {
		case errors.Is(err, errTooMuch):
			err = damaged("%s: %w", name, err)
		case err == nil && got != h:
			err = damaged("object %s: its bytes have the hash %s", h.Short(), got.Short())
		}
		return err
	}
	o, err := store.Checked(h, store.Blob, head)
	if err != nil {
		return damaged("object %s: its bytes have the hash %s", h.Short(), dag.Sum(head).Short())
	}
	o.Redacted = o.Redacted && u.manifest.Redacted[h.String()] == dag.Sum(head) // verify reports others
	if node {
		o.Kind = store.Node
	}
	u.batch = append(u.batch, o)
	if u.held += len(head); len(u.batch) >= maxObjects || u.held >= maxObjectBytes {
		return u.flush()
	}
	return nil
}

func (u *unpacker) flush() error {
	if err := u.copier().write(u.ctx, u.batch); err != nil {
		return err
	}
	u.batch, u.held = nil, 0
	return nil
}

// rows stores the rows and events of the task, and refuses those of any other.
func (u *unpacker) rows() error {
	var r taskRows
	task := u.manifest.Task
	of := make(map[string]bool)
	err := rows(u, "index/threads.json", func(t store.Thread) error {
		if t.Task != task || t.Root != task {
			return damaged("thread %q does not belong to task %q", t.ID, task)
		}
		if t.ID == "" || of[t.ID] {
			return damaged("thread %q is there twice, or has no id", t.ID)
		}
		of[t.ID] = true
		unset(&t.Decision, &t.Options)
		r.threads = append(r.threads, t)
		return nil
	})
	if err != nil {
		return err
	}
	if !of[task] || r.root().Head != u.manifest.Head {
		return damaged("its rows are not those of task %q as the manifest names it", task)
	}
	err = rows(u, "index/attempts.json", func(a store.Attempt) error {
		if !of[a.Thread] {
			return damaged("attempt %q belongs to none of its threads", a.ID)
		}
		r.attempts = append(r.attempts, a)
		return nil
	})
	if err != nil {
		return err
	}
	err = rows(u, "index/gates.json", func(g store.Gate) error {
		if g.Task != task || !of[g.Thread] {
			return damaged("gate %q belongs to none of its threads", g.ID)
		}
		unset(&g.Action, &g.Edited)
		r.gates = append(r.gates, g)
		return nil
	})
	if err != nil {
		return err
	}
	if _, err := fs.Stat(u.from, "index/requests.json"); err == nil { // older exports have none
		err := rows(u, "index/requests.json", func(w store.Request) error {
			if w.Task != task {
				return damaged("request %q belongs to another task", w.ID)
			}
			unset(&w.Options)
			r.requests = append(r.requests, w)
			return nil
		})
		if err != nil {
			return err
		}
	}
	if err := u.events(&r); err != nil {
		return err
	}
	err = u.copier().commit(u.ctx, r, seen{})
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrInvalid) || errors.Is(err, store.ErrConflict) {
		return damaged("its rows: %v", err)
	}
	return err
}

func (u *unpacker) copier() *copier { return &copier{cfg: Config{To: u.to, Now: time.Now}, to: u.to} }

// unset makes values nil that are null in an export, as they were: json.RawMessage would keep the word.
func unset(values ...*json.RawMessage) {
	for _, v := range values {
		if string(*v) == "null" {
			*v = nil
		}
	}
}

func (u *unpacker) events(r *taskRows) error {
	f, err := u.open("index/events.jsonl")
	if err != nil {
		return err
	}
	defer f.Close()
	dec := json.NewDecoder(io.LimitReader(f, maxEventsFile))
	for {
		var line store.ExportedEvent
		err := dec.Decode(&line)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return damaged("index/events.jsonl: %v", err)
		}
		ev := line.Event
		ev.Proof = line.Proof
		if len(r.events) == maxJournal {
			return damaged("it has more than %d events", maxJournal)
		}
		if ev.Task != u.manifest.Task || ev.Seq != int64(len(r.events)+1) {
			return damaged("event %d is out of sequence", len(r.events)+1)
		}
		r.events = append(r.events, ev)
	}
	if len(r.events) != u.manifest.Events {
		return damaged("it has %d events, its manifest says %d", len(r.events), u.manifest.Events)
	}
	return nil
}
