package taskdir

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// TestFinalOfAnAction checks that the final.json of an action is what its agent returned, valid against the
// published schema, and nothing else.
func TestFinalOfAnAction(t *testing.T) {
	w := newWorld(t)
	output := `{"$status":"success","artifacts":["a.txt"],"nextActions":["rest"],"status":"success","summary":"It is done."}`
	a := w.attempt(1)
	w.step(a, output, output)
	acts := w.row
	acts.Path = &store.Path{ID: "plan", Join: thread.RoleJoin}
	f, err := readStep(t.Context(), thread.NewReader(w.store), acts, a, w.row.Head)
	if err != nil {
		t.Fatal(err)
	}
	data, err := pretty(f.final)
	if err != nil {
		t.Fatal(err)
	}
	published, err := os.Open("../../../docs/schemas/worker-output.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	defer published.Close()
	doc, err := jsonschema.UnmarshalJSON(published)
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("worker.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("worker.json")
	if err != nil {
		t.Fatal(err)
	}
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(string(data)))
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(value); err != nil {
		t.Errorf("%v\n%s", err, data)
	}
	var got, want any
	if json.Unmarshal(data, &got) != nil || json.Unmarshal([]byte(output), &want) != nil || !equal(got, want) {
		t.Errorf("final.json is %s", data)
	}
	if f, err = readStep(t.Context(), thread.NewReader(w.store), w.row, a, w.row.Head); err != nil {
		t.Fatal(err)
	}
	if _, wrapped := f.final.(Final); !wrapped {
		t.Errorf("of a role that is no action: %+v", f.final)
	}
}

// TestFinalHasNoAddedStatus checks that final.json has the $status of an answer only if the agent wrote one.
func TestFinalHasNoAddedStatus(t *testing.T) {
	bare := `{"status":"failed","summary":"No."}`
	meta := `{"$status":"failed","status":"failed","summary":"No."}`
	for text, want := range map[string]string{
		bare: bare, meta: meta, "{not JSON": bare, "What followed front matter.": bare,
	} {
		if got := returned(json.RawMessage(meta), text); string(got) != want {
			t.Errorf("%s: final.json is %s, want %s", text, got, want)
		}
	}
}

func equal(a, b any) bool {
	one, _ := json.Marshal(a)
	other, _ := json.Marshal(b)
	return string(one) == string(other)
}

// TestFinalOfTheAgent checks that a final.json left by the agent is not overwritten.
func TestFinalOfTheAgent(t *testing.T) {
	w := newWorld(t)
	w.draw(w.board())
	root, err := os.OpenRoot(w.dir.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := root.WriteFile(finalFile, []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := drawFinal(root, Step{Artifacts: []thread.Artifact{{Name: finalFile}}}); err != nil || w.file(finalFile) != "mine" {
		t.Errorf("the agent's final.json became %q, %v", w.file(finalFile), err)
	}
	if err := drawFinal(root, Step{}); err != nil || w.file(finalFile) == "mine" {
		t.Errorf("a stale final.json stayed: %v", err)
	}
}
