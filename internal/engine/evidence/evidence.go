// Package evidence turns what an agent did, and what it points out, into entries that others can cite and check.
//
// There are three sources. Activities are observed while the agent works: commands, changes of files, calls of tools.
// Entries are submitted in the answer. Both become nodes of the step. Citations name entries, of this answer or of
// earlier ones. Ids have one grammar, see ids.go.
//
// Laws:
//
//   - An entry proves only what ended: what was declined or interrupted is kept, marked, and must not be cited.
//   - An id is given once. What it means does not change, whatever is tried again.
//   - What an agent does wrong is an *agent.Failure that says what to fix. Any other error means that the record could
//     not be read or kept.
//
// The package commits nothing: the caller adds what Record returns to the step. It never follows a link out of the
// working tree.
package evidence

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/sys/secret"
)

// Config configures a Collector.
type Config struct {
	Store interface {
		store.Objects
		store.Index
		store.Journal
	}
	Nodes   *thread.Reader
	Secrets *secret.Set // what is not kept
	Now     func() time.Time
}

// A Collector collects evidence. Methods may be called concurrently, for different threads.
type Collector struct {
	cfg Config

	mu    sync.Mutex
	tasks map[string]*Index
}

// New returns a collector; it touches nothing.
func New(cfg Config) *Collector { return &Collector{cfg: cfg, tasks: make(map[string]*Index)} }

// An Answer is what an attempt answered, and what is known about how.
type Answer struct {
	Attempt  store.Attempt
	Task     string
	Turn     Turn
	Earlier  []store.Attempt // attempts at the same step
	Seen     *Activities     // of this attempt and of those that it continues
	Meta     json.RawMessage // canonical
	Text     string
	Strict   bool // each citation has to resolve, whatever its form
	Plan     bool // the answer is a plan
	Chat     bool // the answer is a turn of a conversation
	Plain    bool // the agent is a program, and the answer its output
	Desk     agent.Directory
	Tree     string     // the working tree
	Location string     // of the agent in the tree, with slashes
	After    string     // git tree that the attempt left, "" if its role cannot write
	Names    []string   // of artifacts of the step
	Nodes    []dag.Hash // of these artifacts
	Bytes    *store.Staging
	// Accepted reports whether the answer was accepted with its citations when it was recorded.
	Accepted func() (bool, error)
}

// Kept is the evidence of a step: nodes, and the events that announce them.
type Kept struct {
	Nodes []dag.Hash
	Added []event.EvidenceAdded
}

// A recorder makes the evidence of one answer.
type recorder struct {
	*Collector
	Answer
	kept  Kept
	files *files
	said  dag.Hash // of the transcript, once known
	known *Index
	cited map[string]bool // ids as in the answer: those of its own instance lack the instance's name
	at    int64
	own   map[string]*thread.Evidence // local ids of this answer; nil: submitted
	ran   map[string]*thread.Evidence // commands of this answer by id
	lines map[string]*thread.Evidence // and by command line: the newest that ended, otherwise the first
}

// Record makes evidence of what an attempt did and of what its answer points out. Nodes and bytes go into a.Bytes. A
// model's answer must not cite a command or a tool call that was declined or interrupted, or is not there, except in a
// chat. If the evidence is wrong, the error is an *agent.Failure that tells the agent what to fix.
func (c *Collector) Record(ctx context.Context, a Answer) (Kept, error) {
	entries, cited, problems := readSubmitted(a.Meta, a.Strict)
	cited = append(cited, a.citations()...)
	if len(entries)+len(cited)+len(problems)+len(a.Seen.activities) == 0 {
		return Kept{}, nil
	}
	known, err := c.Index(ctx, a.Task)
	if err != nil {
		return Kept{}, err
	}
	r := &recorder{
		Collector: c, Answer: a, known: known, cited: map[string]bool{}, at: c.cfg.Now().UnixMilli(),
		own: map[string]*thread.Evidence{}, ran: map[string]*thread.Evidence{}, lines: map[string]*thread.Evidence{},
		files: openFiles(a.Tree, a.Location),
	}
	defer r.files.close()
	problems, err = r.record(ctx, entries, cited, problems)
	if err != nil {
		return Kept{}, fmt.Errorf("keep evidence of attempt %s: %w", a.Attempt.ID, err)
	}
	if len(problems) > 0 {
		return Kept{}, refused(problems)
	}
	return r.kept, nil
}

// record makes the entries, and returns what is wrong with the evidence.
func (r *recorder) record(ctx context.Context, entries []submitted, cited, problems []string) ([]string, error) {
	for _, h := range entries { // they may be cited even if they are not kept
		r.own[h.ID] = nil
	}
	for _, id := range cited {
		r.cited[strings.TrimPrefix(id, r.Attempt.Instance+".")] = true
	}
	made, err := r.observed(ctx)
	if err != nil {
		return nil, err
	}
	for _, h := range entries {
		ev, problem, err := r.submitted(ctx, h)
		if err != nil {
			return nil, err
		}
		if problem != "" {
			problems = append(problems, h.ID+": "+problem)
			continue
		}
		made = append(made, ev)
	}
	accepted, err := r.Accepted()
	if err != nil {
		return nil, err
	}
	faults, err := r.check(ctx, cited, accepted)
	if err != nil {
		return nil, err
	}
	if problems = append(problems, faults...); len(problems) > 0 {
		return problems, nil
	}
	for _, ev := range made {
		if err := r.add(ev); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// refused returns the failure that tells an agent what is wrong with its evidence.
func refused(problems []string) error {
	const most = 10
	if over := len(problems) - most; over > 0 {
		problems = append(slices.Clip(problems[:most]), fmt.Sprintf("and %d more", over))
	}
	return &agent.Failure{Kind: agent.InvalidOutput, Message: event.Brief("the evidence does not hold: " +
		strings.Join(problems, "; "))}
}

// add adds an entry to the step.
func (r *recorder) add(ev *thread.Evidence) error {
	obj, err := thread.NewNode(dag.TypeEvidence, ev)
	if err != nil {
		return err
	}
	r.Bytes.Objects = append(r.Bytes.Objects, obj)
	r.kept.Nodes = append(r.kept.Nodes, obj.Hash)
	r.kept.Added = append(r.kept.Added, event.EvidenceAdded{ID: thread.FullID(ev.By, ev.ID), Kind: ev.Kind,
		Title: ev.Title, Hash: obj.Hash})
	return nil
}

func (r *recorder) entry(id, kind, title, summary string) *thread.Evidence {
	return &thread.Evidence{
		ID: id, Kind: kind, Title: title, Summary: event.Brief(strings.ToValidUTF8(summary, "\ufffd")), CreatedAt: r.at,
		By:      r.Attempt.Instance,
		Sources: []thread.EvidenceSource{}, ArtifactRefs: []dag.Hash{},
	}
}

// tree returns the git tree that the attempt left, or found and did not change.
func (r *recorder) tree() *string {
	if r.After == "" {
		return nil
	}
	return &r.After
}
