package record_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/record"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/testing/housetest"
)

// TestReturned checks that a role returns the output of the flow it called, if the role's schema accepts it.
func TestReturned(t *testing.T) {
	def := housetest.Flow(t, `version: 1
name: calls
roles:
  asks:
    flow: other
    frontmatter: {properties: {$status: {const: found}, n: {type: number}}, required: [$status, n]}
  trusts: {flow: other}
graph:
  $START: {new: {role: asks, prompt: "{{ prompt }}"}}
  asks:
    found: {role: trusts, prompt: "on"}
    done: {role: trusts, prompt: "on"}
    failed: {role: $END, code: 1, prompt: "no"}
    cancelled: {role: $END, code: 1, prompt: "no"}
  trusts: {done: {role: $END, prompt: "done"}}
`)
	const fits, not = `{"$status":"found","n":3}`, `{"$status":"found"}`
	for _, tt := range []struct {
		name, role string
		ended      store.Status
		last       string // "": the called thread has no step
		meta       string
		status     string
	}{
		{"what fits", "asks", store.Completed, fits, fits, "found"},
		{"what fits, of a thread that failed", "asks", store.Failed, fits, fits, "found"},
		{"what fits, of a thread that was cancelled", "asks", store.Cancelled, fits,
			`{"$status":"cancelled","returnCode":0,"summary":"over"}`, "cancelled"},
		{"what does not fit", "asks", store.Completed, not, `{"$status":"done","returnCode":0,"summary":"over"}`, "done"},
		{"nothing", "asks", store.Failed, "", `{"$status":"failed","returnCode":0,"summary":"over"}`, "failed"},
		{"a role without a schema", "trusts", store.Completed, fits,
			`{"$status":"done","returnCode":0,"summary":"over"}`, "done"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var last *thread.State
			if tt.last != "" {
				last = &thread.State{Meta: json.RawMessage(tt.last)}
			}
			end := json.RawMessage(`{"returnCode":0,"summary":"over"}`)
			meta, status, err := record.Returned(def, tt.role, tt.ended, end, last)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{tt.meta, tt.status}, []string{string(meta), status}); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}
