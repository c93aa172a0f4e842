// Package attest proves a change to people who were not there: what was done, on which files, by which agent and model,
// under which prompt, what was tested on exactly those files, who approved it, and what is not known.
//
// A Statement says so. It is an in-toto Statement in a DSSE envelope, signed with a person's SSH key, and names the
// change in three ways, so that neither a rebase nor a squash loses it. A Bundle is a ZIP file with the envelope, the
// entries of the task in the log of its record, a checkpoint of that log, and the record of the task. Verify checks a
// bundle against a Policy: what the policy does not ask for, it does not promise.
//
// Bundles and policies come from strangers. Whatever is not exactly as it is written here is refused, with the reason:
// the error matches ErrRefused. The package commits nothing and starts nothing but git.
package attest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/text"
)

// ErrRefused is matched by errors about a bundle, or a part of one, that is not as it must be.
var ErrRefused = errors.New("refused")

func refused(format string, args ...any) error {
	return fmt.Errorf(format+": %w", append(args, ErrRefused)...)
}

// The types of statements, as they name themselves.
const (
	statementType = "https://in-toto.io/Statement/v1"
	predicateType = "https://plait.run/attestation/change/v0.1"
)

// A Statement is an in-toto Statement, version 1, about a change.
type Statement struct {
	Type          string    `json:"_type"`
	Subject       []Subject `json:"subject"`
	PredicateType string    `json:"predicateType"`
	Predicate     Change    `json:"predicate"`
}

// A Subject is one name of the change: a commit, a tree or a patch.
type Subject struct {
	Digest map[string]string `json:"digest"` // one of the Digest constants to hex digits
	Name   string            `json:"name"`
}

// The digests of subjects.
const (
	DigestCommit = "gitCommit"
	DigestTree   = "gitTree"            // of the files after the change
	DigestPatch  = "gitPatchIdVerbatim" // git patch-id --verbatim of the change: a rebase keeps it
	digestLoose  = "gitPatchId"         // of earlier versions: patches that differ in white space share it
)

// A Change is the predicate: how the change was made.
type Change struct {
	Approvals []Approval          `json:"approvals"`
	Files     map[string]dag.Hash `json:"files"` // other files of the bundle, by name
	Log       Log                 `json:"log"`
	NotKnown  []Unknown           `json:"notKnown"`
	Steps     []Step              `json:"steps"`
	Task      Task                `json:"task"`
}

// A Task is the task that made the change.
type Task struct {
	Bundle    dag.Hash     `json:"bundle"`       // of the flow
	By        string       `json:"by,omitempty"` // who asked for it, as its first entry says
	CreatedAt int64        `json:"createdAt"`
	Digest    dag.Hash     `json:"digest"` // of the outcome
	EndedAt   int64        `json:"endedAt"`
	Flow      string       `json:"flow"`
	Head      dag.Hash     `json:"head"`
	ID        string       `json:"id"`
	Prompt    dag.Hash     `json:"prompt"`    // content: what was asked for
	StartedBy string       `json:"startedBy"` // "person", or "mcp": a model's program
	Status    store.Status `json:"status"`
}

// A Log is the head of the log that has the entries of the task, and what it says of how many there are.
type Log struct {
	Entries int64    `json:"entries"` // of the task, up to its end
	Origin  string   `json:"origin"`
	Root    dag.Hash `json:"root"`
	Size    int64    `json:"size"`
}

// A Step is one step of the task.
type Step struct {
	Agent      *Agent      `json:"agent,omitempty"` // nil if no agent made it
	Approvals  []dag.Hash  `json:"approvals,omitempty"`
	By         string      `json:"by,omitempty"` // the person who made it
	EndedAt    int64       `json:"endedAt,omitempty"`
	Evidence   []Evidence  `json:"evidence,omitempty"`
	Exit       *int        `json:"exit,omitempty"`
	Node       dag.Hash    `json:"node"`
	Path       string      `json:"path,omitempty"`
	Prompt     dag.Hash    `json:"prompt,omitzero"`
	Role       string      `json:"role"`
	Sandbox    string      `json:"sandbox,omitempty"` // as it was enforced
	StartedAt  int64       `json:"startedAt,omitempty"`
	Transcript dag.Hash    `json:"transcript,omitzero"`
	TreeAfter  string      `json:"treeAfter,omitempty"`
	TreeBefore string      `json:"treeBefore,omitempty"`
	Usage      store.Usage `json:"usage,omitzero"`
}

// An Agent is who made a step.
type Agent struct {
	Model string `json:"model,omitempty"`
	// ModelBy says who says so: ModelByGateway or ModelByAgent.
	ModelBy string `json:"modelBy,omitempty"`
	Name    string `json:"name"`
	// Version is that of its program, as the entry of its attempt says.
	Version string `json:"version,omitempty"`
}

// Who says what the model was: the gateway, which saw the requests, or the agent.
const (
	ModelByGateway = "gateway"
	ModelByAgent   = "agent"
)

// An Evidence is a command that an agent ran, and its result in the words of in-toto's test-result.
type Evidence struct {
	Command string   `json:"command"`
	Exit    int      `json:"exit"`
	ID      string   `json:"id"`
	Node    dag.Hash `json:"node"`
	Output  dag.Hash `json:"output,omitzero"` // of what is kept of it
	Result  string   `json:"result"`          // PASSED or FAILED
	Tree    string   `json:"tree,omitempty"`  // of the files that it ran on, if the step left them as it found them
}

// The results of commands.
const (
	resultPassed = "PASSED"
	resultFailed = "FAILED"
)

// An Approval is an answer to a question or to a request for approval.
type Approval struct {
	At      int64           `json:"at"`
	By      string          `json:"by"`
	Digest  dag.Hash        `json:"digest"` // of the action that was approved
	Gate    string          `json:"gate"`
	Grant   store.Grant     `json:"grant,omitempty"`
	Hash    dag.Hash        `json:"hash"`             // by which steps name it
	Signed  string          `json:"signed,omitempty"` // the message and the person's signature
	Verdict store.GateState `json:"verdict"`
	Via     store.Via       `json:"via"`
}

// An Unknown is something that the record cannot say, and the steps of which it cannot say so.
type Unknown struct {
	Steps []dag.Hash `json:"steps,omitempty"`
	What  Gap        `json:"what"`
}

// A Gap is a kind of what is not known.
type Gap string

// The gaps.
const (
	GapDirect    Gap = "direct"     // the agent talked to its model without the gateway: its model is its own word
	GapNoSandbox Gap = "no-sandbox" // nothing kept it from what it should not do
	GapNoTree    Gap = "no-tree"    // which files it left is not recorded
	GapUnsigned  Gap = "unsigned"   // approvals that nobody signed
	GapOtherLog  Gap = "other-log"  // approvals signed where the task was before, which the bundle does not prove
	GapByHand    Gap = "by-hand"    // the steps found files, or the commit has changes, that no step made
)

func gaps() []Gap {
	return []Gap{GapDirect, GapNoSandbox, GapNoTree, GapUnsigned, GapOtherLog, GapByHand}
}

// Subject returns the digest of a kind, "" if the statement has none.
func (s *Statement) subject(kind string) string {
	for _, x := range s.Subject {
		if d := x.Digest[kind]; d != "" {
			return d
		}
	}
	return ""
}

// maxStatement is the largest statement, in bytes.
const maxStatement = 4 << 20

// Marshal returns the canonical form of s, which is what is signed.
func (s *Statement) Marshal() ([]byte, error) {
	data, err := dag.Marshal(s)
	if err == nil && len(data) > maxStatement {
		err = fmt.Errorf("its %d steps take more than %d bytes", len(s.Predicate.Steps), maxStatement)
	}
	if err != nil {
		return nil, fmt.Errorf("write statement: %w", err)
	}
	return data, nil
}

// ParseStatement reads a statement. It refuses any that [Statement.Marshal] would not write: one with other keys, or
// the same key twice, or another form of the same values.
func ParseStatement(data []byte) (*Statement, error) {
	s := new(Statement)
	if err := strictly("statement", data, maxStatement, s); err != nil {
		return nil, err
	}
	switch {
	case s.Type != statementType:
		return nil, refused("statement: its type is %q", s.Type)
	case s.PredicateType != predicateType:
		return nil, refused("statement: its predicate is of type %q", s.PredicateType)
	case s.Predicate.Task.ID == "":
		return nil, refused("statement: it names no task")
	}
	return s, s.checkSubjects()
}

// checkSubjects checks that there is at most one of each kind, and one at all.
func (s *Statement) checkSubjects() error {
	kinds := []string{DigestCommit, DigestTree, DigestPatch, digestLoose}
	seen := map[string]bool{}
	for _, x := range s.Subject {
		if len(x.Digest) != 1 {
			return refused("statement: subject %q has %d digests, want one", x.Name, len(x.Digest))
		}
		for kind, d := range x.Digest {
			switch {
			case !slices.Contains(kinds, kind):
				return refused("statement: subject %q: unknown digest %q", x.Name, kind)
			case seen[kind]:
				return refused("statement: two subjects have a %s", kind)
			case len(d) != 40 && len(d) != 64 || !text.IsHex(d, 0, len(d)):
				return refused("statement: subject %q: %q is no %s", x.Name, d, kind)
			}
			seen[kind] = true
		}
	}
	if len(seen) == 0 {
		return refused("statement: it has no subject")
	}
	return nil
}

// strictly reads canonical JSON into v. It refuses whatever v is not written as: extra keys, doubled ones, missing
// ones, and other spellings.
func strictly(what string, data []byte, most int, v any) error {
	if len(data) > most {
		return refused("%s: longer than %d bytes", what, most)
	}
	canonical, err := dag.CanonicalWithin(data, most)
	if err != nil {
		return refused("%s: %v", what, err)
	}
	if !bytes.Equal(canonical, data) {
		return refused("%s: it is not in canonical form", what)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return refused("%s: %v", what, err)
	}
	again, err := dag.MarshalWithin(v, most)
	if err != nil || !bytes.Equal(again, data) {
		return refused("%s: it has a key too few, or one that is spelled otherwise", what)
	}
	return nil
}
