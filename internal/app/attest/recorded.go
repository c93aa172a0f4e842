package attest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/record/transfer"
)

// record checks the record of the task, if it is there: that no byte of it was changed, and that what it says of the
// task is what the statement says.
func (v *verifier) record(ctx context.Context) error {
	if v.files.files["manifest.json"] == nil {
		return v.shown()
	}
	sums, err := v.named(fileSums, maxSums)
	if err != nil {
		return err
	}
	if err := v.sums(ctx, sums); err != nil {
		return err
	}
	r, err := v.files.record()
	if err != nil {
		return err
	}
	got, err := r.Change(ctx)
	if err != nil {
		return refused("record: %v", err)
	}
	said := v.change
	got.Files, got.Log, got.Task.By = said.Files, said.Log, said.Task.By // what entries say was compared with them
	for i, step := range got.Steps[:min(len(got.Steps), len(said.Steps))] {
		if step.Agent != nil && said.Steps[i].Agent != nil {
			step.Agent.Version = said.Steps[i].Agent.Version
		}
		for j, e := range step.Evidence[:min(len(step.Evidence), len(said.Steps[i].Evidence))] {
			if e.Tree == "" { // earlier versions named the one that the step left
				said.Steps[i].Evidence[j].Tree = ""
			}
		}
	}
	for _, c := range []*Change{&got, &said} { // no record has the commit, and earlier versions did not compare steps
		c.NotKnown = slices.DeleteFunc(slices.Clone(c.NotKnown), func(u Unknown) bool { return u.What == GapByHand })
	}
	a, err := dag.Marshal(got)
	if err != nil {
		return refused("record: %v", err)
	}
	b, err := dag.Marshal(said)
	if err != nil || !bytes.Equal(a, b) {
		return refused("record: it does not say what the statement says")
	}
	v.report.Record = true
	return nil
}

// sums checks every file of the record: that its bytes have the sum that SHA256SUMS or its name says, or of an object
// that was redacted, its manifest. That all objects which the record had are there, it says too.
func (v *verifier) sums(ctx context.Context, list []byte) error {
	want := map[string]dag.Hash{}
	for line := range strings.Lines(string(list)) {
		sum, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		h, err := dag.ParseHash(sum)
		if !ok || err != nil || !want[name].IsZero() {
			return refused("bundle: %s has a line that is none: %q", fileSums, clip(line))
		}
		want[name] = h
	}
	m, err := v.files.manifest()
	if err != nil {
		return err
	}
	objs := 0
	for name, f := range v.files.files {
		if err := ctx.Err(); err != nil {
			return err
		}
		if slices.Contains([]string{fileEnvelope, fileCheckpoint, fileEntries, fileSums}, name) {
			continue
		}
		if object, is := strings.CutPrefix(name, objects); is {
			objs++
			want[name], _ = dag.ParseHash(object)
			if kept, redacted := m.Redacted[object]; redacted {
				want[name] = kept
				v.report.Redacted++
			}
		}
		if want[name].IsZero() {
			return refused("bundle: %s has no line in %s", clip(name), fileSums)
		}
		got, err := sumFile(f, &v.files.left)
		if err != nil {
			return err
		}
		if got != want[name] {
			return refused("bundle: %s is not what it was: its bytes have another sum", clip(name))
		}
		delete(want, name)
	}
	for name := range want {
		return refused("bundle: %s is not there, but in %s", clip(name), fileSums)
	}
	if objs != m.Objects || len(m.Missing) > 0 {
		return refused("record: %d objects are there, it had %d, and %d were missing", objs, m.Objects, len(m.Missing))
	}
	return nil
}

func (o *opened) manifest() (m transfer.Manifest, err error) {
	data, err := o.read("manifest.json", maxSums)
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(data, &m); err != nil {
		return m, refused("record: manifest.json: %v", err)
	}
	return m, nil
}

// record returns the rows and nodes of the record in a bundle.
func (o *opened) record() (Record, error) {
	r := Record{Nodes: thread.NewReader(o)}
	err := rows(o, "index/threads.json", &r.Threads)
	if err == nil {
		err = rows(o, "index/gates.json", &r.Gates)
	}
	return r, err
}

func rows[T any](o *opened, name string, into *[]T) error {
	data, err := o.read(name, 64<<20)
	if err != nil {
		return err
	}
	err = transfer.List(bytes.NewReader(data), transfer.MaxRows, func(row T) error {
		*into = append(*into, row)
		return nil
	})
	if err != nil {
		return refused("record: %s: %v", name, err)
	}
	return nil
}

// Get returns an object of the record in a bundle: o is a store.Objects. It takes for a node what can be one, since it
// is asked for nodes only.
func (o *opened) Get(_ context.Context, h dag.Hash) (store.Object, error) {
	name := objects + h.String()
	if o.files[name] == nil {
		return store.Object{}, store.ErrNotFound
	}
	data, err := o.read(name, 2*dag.MaxBytes)
	if err != nil {
		return store.Object{}, err
	}
	return store.Checked(h, store.Node, data)
}

// Many returns objects, see Get.
func (o *opened) Many(ctx context.Context, hs []dag.Hash) ([]store.Object, error) {
	all := make([]store.Object, len(hs))
	for i, h := range hs {
		var err error
		if all[i], err = o.Get(ctx, h); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Has reports whether an object is there.
func (o *opened) Has(_ context.Context, h dag.Hash) (bool, error) {
	return o.files[objects+h.String()] != nil, nil
}

// Open, Resolve and Stage are for stores that are written and searched.
func (o *opened) Open(ctx context.Context, h dag.Hash) (io.ReadCloser, store.Entry, error) {
	obj, err := o.Get(ctx, h)
	return io.NopCloser(bytes.NewReader(obj.Data)), store.Entry{Hash: h, Kind: obj.Kind, Size: int64(len(obj.Data))}, err
}

func (o *opened) Resolve(context.Context, string, int) ([]dag.Hash, error) {
	return nil, errors.ErrUnsupported
}

func (o *opened) Stage(context.Context, string, io.Reader) (dag.Hash, int64, error) {
	return dag.Hash{}, 0, errors.ErrUnsupported
}
