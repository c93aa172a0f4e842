// Package session keeps the conversations that agents have with their vendors: which one an attempt works in, what it
// holds, and its files, so that it can go on elsewhere.
//
// Sessions are what is known of a thread's conversations, role by role. From them, Choose says in which one an attempt
// works: the instance's own, a branch of one that it inherited, or a new one. Export records the files of a session
// with a step; Choose restores them where they are missing.
//
// Laws:
//
//   - A session is continued only in its own thread. Others branch off it.
//   - What a session may not have read does not count as known: the prompt repeats it.
//   - A session begins where a prompt would: at the last summary, or at the beginning.
//   - What an agent did to its own files is no error: such a session is not exported, and its step counts anyway.
//
// The package starts no agent and moves no head. What a prompt says, it leaves to others.
package session

import (
	"maps"

	"github.com/plait-run/plait/internal/record"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// Sessions are the conversations of a thread.
type Sessions struct {
	own   map[string]session // by role: the one to continue, or to branch off
	steps map[string]session // by role: the session of its last step in the chain
}

// New returns no sessions.
func New() Sessions { return Sessions{own: make(map[string]session), steps: make(map[string]session)} }

// A session is a vendor's conversation, and the last step of ours that it knows.
type session struct {
	id    string
	turn  string   // its last turn, if known
	gone  bool     // it cannot be continued
	knows dag.Hash // zero: unknown
	by    string   // the attempt from which it knows that, or ""
	from  dag.Hash // the head at which its last attempt began
	last  dag.Hash // the last step that was done in it, zero for none

	memory *thread.Memory // after last; nil: not recorded

	foreign bool   // it belongs to another thread: it can only be branched off
	home    string // directory of a foreign one
	agent   string // agent of a foreign one
	role    string // role that a foreign one worked as
}

// Clone returns a copy that can change independently.
func (s Sessions) Clone() Sessions {
	return Sessions{own: maps.Clone(s.own), steps: maps.Clone(s.steps)}
}

// Branch returns the sessions of a path that begins at the head.
func (s Sessions) Branch() Sessions {
	return Sessions{own: maps.Clone(s.steps), steps: maps.Clone(s.steps)}
}

// Add adds the session of an attempt. step is the step that the attempt became, if any. An attempt that was cut off or
// failed may not have read its prompt: then only what the session knew before counts.
func (s Sessions) Add(a store.Attempt, step dag.Hash) {
	was := s.own[a.Role]
	if a.Session == "" {
		if was.id != "" && a.Failure != nil {
			was.gone = true
			s.own[a.Role] = was
		}
		return
	}
	now := session{id: a.Session, turn: a.Turn, from: a.From}
	if was.id == a.Session {
		now.last, now.memory = was.last, was.memory
	}
	switch {
	case a.Status == store.AttemptDone && !step.IsZero():
		now.knows, now.by, now.last, now.memory = step, a.ID, step, nil
	case a.Failure != nil && a.Failure.Kind == store.FailureInvalidOutput:
		now.knows, now.by = a.From, a.ID
	case was.id == a.Session && !was.foreign:
		now.knows, now.by = was.knows, was.by
	}
	if a.Turn == "" && was.id == a.Session {
		now.turn = was.turn
	}
	s.own[a.Role] = now
}

// Inherit gives a thread the sessions in which other threads did the steps of its chain, for the roles that have not
// worked in it.
func (s Sessions) Inherit(at *record.Position) {
	for role, step := range s.steps {
		s.inherit(role, step)
	}
	// A forked action continues the conversation, never the session that planned it.
	id := at.Def.ActionID()
	if step, ok := s.steps[at.Main]; ok && id != "" && at.Main != id {
		s.inherit(id, step)
	}
}

func (s Sessions) inherit(role string, step session) {
	if own, ok := s.own[role]; !ok || own.foreign {
		s.own[role] = step
	}
}
