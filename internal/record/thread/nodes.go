package thread

import (
	"encoding/json"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
)

// A Start is the beginning of a chain.
type Start struct {
	Name        string   `json:"name"` // the flow in the bundle
	Hash        dag.Hash `json:"hash"` // the bundle
	Depth       int      `json:"depth"`
	ParentState dag.Hash `json:"parentState"` // the caller's head at the call
	Prompt      dag.Hash `json:"prompt"`      // content node
	MaxRounds   *int     `json:"maxRounds"`   // the limit when the thread began, nil: none
	Action      Name     `json:"action,omitzero"`
}

// A Name is the id of a path or of a planned action, "" for none. Nodes of older versions lack
// it.
type Name struct {
	ID      string
	Present bool
}

// Named returns a name that is written, even if it is "".
func Named(id string) Name { return Name{id, true} }

// MarshalJSON writes the id, or null.
func (n Name) MarshalJSON() ([]byte, error) {
	if n.ID == "" {
		return []byte("null"), nil
	}
	return json.Marshal(n.ID)
}

// UnmarshalJSON reads an id, or null.
func (n *Name) UnmarshalJSON(data []byte) error {
	var id *string
	if err := json.Unmarshal(data, &id); err != nil {
		return err
	}
	*n = Named("")
	if id != nil {
		n.ID = *id
	}
	return nil
}

// A State is one step: one role did one thing.
type State struct {
	Role        string          `json:"role"`
	Meta        json.RawMessage `json:"meta"` // canonical JSON object
	Start       dag.Hash        `json:"start"`
	Content     dag.Hash        `json:"content"`
	Ancestors   []dag.Hash      `json:"ancestors"` // newest first; [0] is the parent
	Compact     dag.Hash        `json:"compact"`
	Timestamp   int64           `json:"timestamp"` // Unix ms
	ChildThread dag.Hash        `json:"childThread"`
	Detail      dag.Hash        `json:"detail"`
	Fork        dag.Hash        `json:"fork"`
	Paths       []PathHead      `json:"paths"` // nil unless the step is a join
	Path        Name            `json:"path,omitzero"`
}

// A PathHead is how one path of a fork ended, as its join records it.
type PathHead struct {
	ID     string       `json:"id"`
	Thread string       `json:"thread"`
	Head   dag.Hash     `json:"head"`
	Status store.Status `json:"status"`
}

// A Content is a text and the artifacts that came with it.
type Content struct {
	Text      string
	Artifacts []dag.Hash
}

// An Artifact names a blob.
type Artifact struct {
	Name      string   `json:"name"`
	MediaType string   `json:"mediaType"`
	Size      int64    `json:"size"` // bytes
	Blob      dag.Hash `json:"blob"`
}

// A Bundle is a flow and every flow reachable from it by calls, each parsed and with its defaults
// filled in.
type Bundle struct {
	Name  string                     `json:"name"`
	Flows map[string]json.RawMessage `json:"flows"`
}

// A Detail says how a step was made.
type Detail struct {
	Agent      string           `json:"agent"`
	Model      string           `json:"model"`
	Instance   string           `json:"instance"`
	Session    string           `json:"session"`
	Attempt    string           `json:"attempt"`
	Attempts   []EarlierAttempt `json:"attempts"` // earlier attempts, which failed
	StartedAt  int64            `json:"startedAt"`
	EndedAt    int64            `json:"endedAt"`
	Prompt     dag.Hash         `json:"prompt"` // the prompt as sent: a prompt node, in older records a content
	Context    []ContextUse     `json:"context"`
	Usage      store.Usage      `json:"usage"` // of all attempts
	Transcript dag.Hash         `json:"transcript"`
	Stderr     dag.Hash         `json:"stderr"`
	TreeBefore *string          `json:"treeBefore"` // git trees
	TreeAfter  *string          `json:"treeAfter"`
	Exit       *int             `json:"exit"`
	Sandbox    string           `json:"sandbox"`
	By         *string          `json:"by"` // a person, for human steps
	Approvals  Answers          `json:"approvals,omitzero"`
	// Evidence names the evidence nodes of the step. It is left out if empty, so details from
	// before there was evidence encode to the same bytes.
	Evidence []dag.Hash `json:"evidence,omitempty"`
	// Merge is set on joins only: how files that its paths changed were merged.
	Merge *Merge `json:"merge,omitempty"`
	// Failures is set on joins only: why paths failed, in order. Older joins lack it.
	Failures []PathFailure `json:"failures,omitempty"`
	// Memory is set if Session is. Older details lack it.
	Memory *Memory `json:"memory,omitempty"`

	Calls        dag.Hash `json:"calls"`        // calls node: the recorded traffic with the model
	Files        dag.Hash `json:"files"`        // tree node after the step
	SessionFiles dag.Hash `json:"sessionFiles"` // session node
}

// Trees returns the git trees before and after the step, "" for one that is not known.
func (d *Detail) Trees() (before, after string) {
	if d.Merge != nil && d.Merge.From != "" {
		return d.Merge.From, d.Merge.To
	}
	if d.TreeBefore != nil {
		before = *d.TreeBefore
	}
	if d.TreeAfter != nil {
		after = *d.TreeAfter
	}
	return before, after
}

// RanOn returns the git tree on which all commands of the step ran, "" if nobody can say: a command is noted when it
// ends, and trees only before and after an attempt, which may change files later and goes on with what earlier ones did.
func (d *Detail) RanOn() string {
	if before, after := d.Trees(); before == after && len(d.Attempts) == 0 {
		return after
	}
	return ""
}

// Memory is what a vendor's session holds of the conversation after a step.
type Memory struct {
	Bare    int64    `json:"bare"`    // tokens that its requests have besides it
	Summary dag.Hash `json:"summary"` // the step whose summary it begins with; not a ref
	Tokens  int64    `json:"tokens"`
}

// NewDetail returns the detail of a step that was made without an attempt.
func NewDetail(from, to int64) *Detail {
	return &Detail{StartedAt: from, EndedAt: to, Attempts: []EarlierAttempt{}, Context: []ContextUse{},
		Approvals: Answers{Present: true}}
}

// ByPerson returns the detail of a step that a person made. by is their name, or "".
func ByPerson(by string, from, to int64) *Detail {
	d := NewDetail(from, to)
	if by != "" {
		d.By = &by
	}
	return d
}

// A PathFailure says why a path failed.
type PathFailure struct {
	Path    string            `json:"path"` // the path's id
	Kind    store.FailureKind `json:"kind"`
	Message string            `json:"message"`
}

// An EarlierAttempt is an attempt that did not become the step.
type EarlierAttempt struct {
	ID         string         `json:"id"`
	Failure    *store.Failure `json:"failure"`
	Transcript dag.Hash       `json:"transcript"`
	Calls      dag.Hash       `json:"calls"`
}

// Forms in which a step is included in a prompt.
const (
	FormFull    = "full"
	FormBrief   = "brief" // of a join: without what its main path said, which is not in the prompt
	FormMeta    = "meta"
	FormSummary = "summary"
	FormSession = "session" // the vendor session already has it
	FormLossy   = "lossy"   // a vendor session had it, and everything before it, but is lost
	FormOmitted = "omitted"
)

// A ContextUse gives the form in which the consecutive steps From to To of the chain, the newest
// last, were included in a prompt. Of steps that were omitted, or that a session had or lost, only
// the newest is named: it represents all before it.
type ContextUse struct {
	From dag.Hash `json:"from"`
	To   dag.Hash `json:"to"`
	Form string   `json:"form"`
}

// UnmarshalJSON decodes a use. Details of older versions name each step.
func (u *ContextUse) UnmarshalJSON(data []byte) error {
	var v struct {
		From, To, Step dag.Hash
		Form           string
	}
	if err := json.Unmarshal(data, &v); err != nil {
		return err
	}
	if !v.Step.IsZero() {
		v.From, v.To = v.Step, v.Step
	}
	*u = ContextUse{From: v.From, To: v.To, Form: v.Form}
	return nil
}

// object returns encoded node bytes as an object of a batch.
func object(data []byte) store.Object {
	return store.Object{Hash: dag.Sum(data), Kind: store.Node, Data: data}
}

// NewNode encodes payload as a node of type typ.
func NewNode(typ string, payload any) (store.Object, error) {
	data, err := dag.Encode(typ, payload)
	if err != nil {
		return store.Object{}, err
	}
	return object(data), nil
}

// NewContent encodes a text and its artifacts.
func NewContent(text string, artifacts []dag.Hash) (store.Object, error) {
	data, err := dag.EncodeContent(text, artifacts)
	if err != nil {
		return store.Object{}, err
	}
	return object(data), nil
}
