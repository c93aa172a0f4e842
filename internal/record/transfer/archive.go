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
const (
	archiveSchema = "plait.export/1"
	maxIndexFile  = 64 << 20 // bytes
	maxEventsFile = 1 << 30
	maxNode       = 8 << 20
)

// A Manifest is the part of an export's manifest.json that is read.
type Manifest struct {
	Schema  string     `json:"schema"`
	Task    string     `json:"task"`
	Head    dag.Hash   `json:"head"`
	Objects int        `json:"objects"`
	Events  int        `json:"events"`
	Missing []dag.Hash `json:"missing"`
}

// Unpack reads an export of a task, a ZIP file or an unpacked directory, into an empty store, and
// returns its manifest. The error matches store.ErrCorrupt if the export is damaged. The content
// of nodes and rows is not checked: verify does that.
func Unpack(ctx context.Context, from fs.FS, to store.Store) (Manifest, error) {
	u := unpacker{ctx: ctx, from: from, to: to}
	if err := u.unpack(); err != nil {
		return u.manifest, fmt.Errorf("read export: %w", err)
	}
	return u.manifest, nil
}

type unpacker struct {
	ctx      context.Context
	from     fs.FS
	to       store.Store
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
	if err := u.json("manifest.json", &u.manifest); err != nil {
		return err
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

func (u *unpacker) json(name string, into any) error {
	f, err := u.from.Open(name)
	if err != nil {
		return damaged("there is no %s", name)
	}
	defer f.Close()
	if err := json.NewDecoder(io.LimitReader(f, maxIndexFile)).Decode(into); err != nil {
		return damaged("%s: %v", name, err)
	}
	return nil
}

// list calls do with each item of a list. It holds one at a time: many items need far fewer bytes in a file than in
// memory.
func list[T any](u *unpacker, name string, do func(T) error) error {
	f, err := u.from.Open(name)
	if err != nil {
		return damaged("there is no %s", name)
	}
	defer f.Close()
	dec := json.NewDecoder(io.LimitReader(f, maxIndexFile))
	begin, err := dec.Token()
	if err != nil {
		return damaged("%s: %v", name, err)
	}
	if begin == nil { // null
		return nil
	}
	if begin != json.Delim('[') {
		return damaged("%s is not a list", name)
	}
	for dec.More() {
		var item T
		if err := dec.Decode(&item); err != nil {
			return damaged("%s: %v", name, err)
		}
		if err := do(item); err != nil {
			return err
		}
	}
	if _, err := dec.Token(); err != nil {
		return damaged("%s: %v", name, err)
	}
	return nil
}

// readNodes reads the list of nodes.
func (u *unpacker) readNodes() error {
	if _, err := fs.Stat(u.from, "index/nodes.json"); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	u.nodes = make(map[dag.Hash]bool)
	return list(u, "index/nodes.json", func(h dag.Hash) error {
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
	f, err := u.from.Open(name)
	if err != nil {
		return damaged("%s: %v", name, err)
	}
	defer f.Close()
	head, err := io.ReadAll(io.LimitReader(f, maxNode+1))
	if err != nil {
		return damaged("%s: %v", name, err)
	}
	node := u.nodes[h]
	if u.nodes == nil && len(head) <= maxNode {
		data, _ := store.Unredacted(head)
		_, err := dag.Decode(data)
		node = err == nil
	}
	if store.MayBeRedacted(head) {
		rest, err := io.ReadAll(f)
		if err != nil {
			return damaged("%s: %v", name, err)
		}
		head = append(head, rest...)
	} else if len(head) > maxSmall && !node {
		got, _, err := u.to.Stage(u.ctx, u.manifest.Task, io.MultiReader(bytes.NewReader(head), f))
		if err == nil && got != h {
			err = damaged("object %s: its bytes have the hash %s", h.Short(), got.Short())
		}
		return err
	}
	if _, err := store.Checked(h, store.Blob, head); err != nil {
		return damaged("object %s: its bytes have the hash %s", h.Short(), dag.Sum(head).Short())
	}
	o := store.Object{Hash: h, Kind: store.Blob, Data: head}
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
	if err := u.to.Commit(u.ctx, store.Batch{Objects: u.batch}); err != nil {
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
	err := list(u, "index/threads.json", func(t store.Thread) error {
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
	err = list(u, "index/attempts.json", func(a store.Attempt) error {
		if !of[a.Thread] {
			return damaged("attempt %q belongs to none of its threads", a.ID)
		}
		r.attempts = append(r.attempts, a)
		return nil
	})
	if err != nil {
		return err
	}
	err = list(u, "index/gates.json", func(g store.Gate) error {
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
		err := list(u, "index/requests.json", func(w store.Request) error {
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
	c := copier{cfg: Config{To: u.to, Now: time.Now}, to: u.to}
	err = c.commit(u.ctx, r, seen{})
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrInvalid) || errors.Is(err, store.ErrConflict) {
		return damaged("its rows: %v", err)
	}
	return err
}

// unset makes values nil that are null in an export, as they were: json.RawMessage would keep the word.
func unset(values ...*json.RawMessage) {
	for _, v := range values {
		if string(*v) == "null" {
			*v = nil
		}
	}
}

func (u *unpacker) events(r *taskRows) error {
	f, err := u.from.Open("index/events.jsonl")
	if err != nil {
		return damaged("there is no index/events.jsonl")
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
