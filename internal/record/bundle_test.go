package record_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/flow/parse"
	"github.com/plait-run/plait/internal/record"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/testing/housetest"
	"github.com/plait-run/plait/internal/testing/mem"
)

// FuzzBundle checks that any recorded bundle is either read or refused, that a definition that was read is
// unchanged when it is written again, and that its methods can be called safely.
func FuzzBundle(f *testing.F) {
	add := func(b thread.Bundle) {
		data, err := json.Marshal(b)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	add(housetest.Bundle(f, flowFile))
	for _, name := range []string{flow.ChatFlow, flow.WorkerFlow, "solo", "orchestrate"} {
		def, ok := parse.BuiltIn(name)
		if !ok {
			f.Fatalf("there is no flow %s", name)
		}
		data, err := json.Marshal(def)
		if err != nil {
			f.Fatal(err)
		}
		add(thread.Bundle{Name: name, Flows: map[string]json.RawMessage{name: data}})
	}
	files, err := filepath.Glob("../../examples/*.yaml")
	if err != nil || len(files) == 0 {
		f.Fatalf("examples: %v, %v", files, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		if def, _ := parse.Parse(nil, file, data); def != nil {
			add(housetest.Bundle(f, string(data)))
		}
	}
	for _, odd := range []string{`{}`, `{"flows":{"":null}}`,
		`{"name":"x","flows":{"x":{"graph":{"$START":null},"roles":{"a":null}}}}`,
		`{"name":"x","flows":{"x":{"roles":{"a":{"frontmatter":{"$ref":"#"}}},"graph":{"a":{"b":{"role":"a","prompt":"{{ x ` +
			`| join }}"}}}}}}`,
		`{"name":"x","flows":{"x":{"forks":{"f":{"paths":[{}]}},"joins":{"j":{"paths":["y"]}},` +
			`"gates":{"g":{"timeout":"-1ns"}}}}}`} {
		f.Add([]byte(odd))
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		data, err := dag.Encode(dag.TypeFlow, json.RawMessage(payload))
		if err != nil {
			return
		}
		s := mem.New(mem.Config{})
		hash := dag.Sum(data)
		if err := s.Commit(t.Context(), store.Batch{Objects: []store.Object{{Hash: hash, Kind: store.Node,
			Data: data}}}); err != nil {
			t.Fatal(err)
		}
		nodes := thread.NewReader(s)
		b, err := nodes.Bundle(t.Context(), hash)
		if err != nil {
			return
		}
		r := record.New(nodes, s)
		for name := range b.Flows {
			if def, err := r.Flow(t.Context(), hash, name); err == nil {
				ask(t, def)
			}
		}
	})
}

// ask calls the methods of a recorded definition that are called while a thread follows it.
func ask(t *testing.T, def *flow.Definition) {
	t.Helper()
	once, err := json.Marshal(def)
	if err != nil {
		t.Fatalf("%+v is not written: %v", def, err)
	}
	back := new(flow.Definition)
	if err := json.Unmarshal(once, back); err != nil {
		t.Fatalf("%s is not read: %v", once, err)
	}
	if twice, err := json.Marshal(back); err != nil || !bytes.Equal(once, twice) {
		t.Errorf("written as %s, then as %s: %v", once, twice, err)
	}
	at := flow.At{Flow: def.Name, Prompt: "p"}
	flow.Next(def, at, nil)
	for from, routes := range def.Graph {
		for status := range routes {
			flow.Next(def, at, []flow.Step{{Role: from, Meta: map[string]any{"$status": status}, Body: "b"}})
		}
	}
	for role := range def.Roles {
		_ = def.Validate(role, map[string]any{"$status": "x"})
		def.Statuses(role)
	}
	for _, fork := range def.Forks {
		for _, p := range fork.Paths {
			flow.Next(def, flow.At{Flow: def.Name, Prompt: "p", Path: p.ID}, nil)
			def.Inside(p.ID)
		}
	}
	def.Plans()
}
