package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
)

// A readOnlyStore is the directory that holds what an agent may read of the record: nodes in one file, see
// [agent.Objects], and blobs in files named by hash. It is all that cas get and walk see inside
// an agent.
type readOnlyStore struct {
	dir     string
	objects map[dag.Hash][]byte
	names   []dag.Hash // of objects and blobs
}

func openReadOnlyStore(dir string) (readOnlyStore, error) {
	l := readOnlyStore{dir: dir, objects: map[dag.Hash][]byte{}}
	data, err := os.ReadFile(filepath.Join(dir, agent.Objects))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return l, err
	}
	for len(data) > 0 {
		head, rest, _ := bytes.Cut(data, []byte("\n"))
		name, size, _ := strings.Cut(string(head), " ")
		h, err := dag.ParseHash(name)
		n, sizeErr := strconv.Atoi(size)
		if err != nil || sizeErr != nil || n < 0 || n >= len(rest) {
			return l, fmt.Errorf("%s: %w", filepath.Join(dir, agent.Objects), store.ErrCorrupt)
		}
		l.objects[h], data = rest[:n], rest[n+1:]
		l.names = append(l.names, h)
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		return l, err
	}
	for _, f := range files {
		if h, err := dag.ParseHash(f.Name()); err == nil && l.objects[h] == nil {
			l.names = append(l.names, h)
		}
	}
	return l, nil
}

func (l readOnlyStore) Get(ctx context.Context, h dag.Hash) (store.Object, error) {
	data, ok := l.objects[h]
	obj := store.Object{Hash: h, Data: data}
	if ok {
		obj.Kind = store.Node
	} else {
		var err error
		obj.Data, err = os.ReadFile(filepath.Join(l.dir, h.String()))
		if errors.Is(err, os.ErrNotExist) {
			return store.Object{}, fmt.Errorf("%s is not part of this agent's input: %w", h.Short(), store.ErrNotFound)
		}
		if err != nil {
			return store.Object{}, err
		}
	}
	return store.Checked(h, obj.Kind, obj.Data)
}

func (l readOnlyStore) Many(ctx context.Context, hs []dag.Hash) (all []store.Object, err error) {
	for _, h := range hs {
		o, err := l.Get(ctx, h)
		if err != nil {
			return nil, err
		}
		all = append(all, o)
	}
	return all, nil
}

func (l readOnlyStore) Open(ctx context.Context, h dag.Hash) (io.ReadCloser, store.Entry, error) {
	obj, err := l.Get(ctx, h)
	if err != nil {
		return nil, store.Entry{}, err
	}
	e := store.Entry{Hash: h, Kind: obj.Kind, Size: int64(len(obj.Data))}
	return io.NopCloser(bytes.NewReader(obj.Data)), e, nil
}

func (l readOnlyStore) Has(ctx context.Context, h dag.Hash) (bool, error) {
	return slices.Contains(l.names, h), nil
}

func (l readOnlyStore) Resolve(ctx context.Context, prefix string, max int) ([]dag.Hash, error) {
	var out []dag.Hash
	for _, h := range l.names {
		if strings.HasPrefix(h.String(), prefix) && len(out) < max {
			out = append(out, h)
		}
	}
	return out, nil
}

func (l readOnlyStore) Stage(context.Context, string, io.Reader) (dag.Hash, int64, error) {
	return dag.Hash{}, 0, errors.New("an agent cannot write to the record")
}
