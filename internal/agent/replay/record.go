package replay

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/thread"
)

// Record returns a recording of what agents answered in the steps up to head: the answers that became steps, without
// attempts that failed before.
func Record(ctx context.Context, nodes *thread.Reader, head dag.Hash) (Recording, error) {
	s, err := read(ctx, nodes, head)
	if err != nil {
		return Recording{}, err
	}
	rec, where := Recording{}, map[place]int{}
	for _, t := range s.all {
		if t.Role == thread.RoleCompact {
			continue
		}
		text, err := nodes.Text(ctx, t.State.Content)
		if err != nil {
			return Recording{}, fmt.Errorf("read the answer of role %s: %w", t.Role, err)
		}
		one, err := answered(t.State.Meta, text)
		if err != nil {
			return Recording{}, fmt.Errorf("read the answer of role %s: %w", t.Role, err)
		}
		one.Role, one.Visit, one.Model = t.Role, t.at.visit, t.Detail.Model
		i, ok := where[one.place()]
		if !ok {
			where[one.place()] = len(rec.Attempts)
			rec.Attempts = append(rec.Attempts, one)
		} else if !bytes.Equal(rec.Attempts[i].Output, one.Output) {
			return Recording{}, fmt.Errorf("role %s answered differently in two paths, which a recording cannot tell apart",
				t.Role)
		}
	}
	return rec, nil
}

var plainKey = regexp.MustCompile(`^[$A-Za-z][\w-]*$`)

// answered returns an attempt with this meta and text: a plain text, or a text below front matter.
func answered(meta []byte, text string) (Attempt, error) {
	var plain struct {
		Status string `json:"$status"`
		Exit   *int   `json:"exitCode"`
		Tree   string `json:"tree"`
	}
	err := json.Unmarshal(meta, &plain, json.RejectUnknownMembers(true))
	if err == nil && bytes.Contains(meta, []byte(`"exitCode":`)) {
		return Attempt{Output: Bytes(text), Plain: true, Exit: plain.Exit, Status: plain.Status, Tree: plain.Tree}, nil
	}
	var b strings.Builder
	b.WriteString("---\n")
	d := jsontext.NewDecoder(bytes.NewReader(meta))
	_, err = d.ReadToken()
	for err == nil && d.PeekKind() != '}' {
		var key string
		var value jsontext.Value
		if err = json.UnmarshalDecode(d, &key); err == nil {
			value, err = d.ReadValue()
		}
		if !plainKey.MatchString(key) {
			quoted, _ := json.Marshal(key) // a string can be quoted
			key = string(quoted)
		}
		fmt.Fprintf(&b, "%s: %s\n", key, value)
	}
	return Attempt{Output: Bytes(b.String() + "---\n" + text)}, err
}
