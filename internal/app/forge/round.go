package forge

import (
	"slices"
	"strings"
)

// An Item is something that a check or a person says of a change, and that an agent is to deal with.
type Item struct {
	ID     string
	Who    string
	Text   string
	File   string
	Line   int
	Commit string // whose line that is
}

// A Round is a task that deals with items.
type Round struct {
	Task    string
	For     []string // ids of items
	State   State
	Settled bool   // the branch has its change, or it changed nothing
	Commit  string // that has its change, or ""
}

// A State is what has become of a round.
type State string

// States of a round.
const (
	Working State = "working" // another process drives it
	Stopped State = "stopped" // it can go on
	Asks    State = "asks"    // a person has to answer
	Done    State = "done"
	Over    State = "over" // it failed or was cancelled: a person has to look, and may retry or remove it
)

// A Situation is what the forge and the record hold of a request.
type Situation struct {
	Request  Request
	Comments []Comment
	Checks   []Check // of Request.Head
	Rounds   []Round // oldest first
	Tip      string  // the commit that the branch points at here
	Named    []string
	Most     int // rounds
}

// A Kind is what is done next.
type Kind string

// Kinds of moves.
const (
	Continue Kind = "continue" // drive Move.Round
	Await    Kind = "await"    // a person has to see to Move.Round, or another process drives it
	Settle   Kind = "settle"   // commit the change of Move.Round
	Hand     Kind = "hand"     // give Move.Items to the agents that wrote the lines
	Push     Kind = "push"     // the branch, if a person agrees
	Respond  Kind = "respond"  // reply to Move.Comment: Move.Round dealt with it
	Wait     Kind = "wait"     // for checks, or for people
	Ready    Kind = "ready"    // all checks passed, and nothing is left to answer
	Failing  Kind = "failing"  // a check fails that agents have dealt with
	Spent    Kind = "spent"    // there are items, and no more rounds
	Ended    Kind = "ended"    // the request is merged or closed
)

// A Move is what is done next.
type Move struct {
	Kind    Kind
	Round   Round
	Items   []Item
	Comment Comment
}

// Next decides what is done next. It asks for one deed at a time, so that whatever is killed, the next look at forge
// and record finds what was done.
func Next(s Situation) Move {
	if s.Request.State != Open {
		return Move{Kind: Ended}
	}
	for _, r := range s.Rounds {
		switch {
		case r.State == Stopped:
			return Move{Kind: Continue, Round: r}
		case r.State == Working || r.State == Asks:
			return Move{Kind: Await, Round: r}
		case r.State == Done && !r.Settled:
			return Move{Kind: Settle, Round: r}
		}
	}
	items, over := s.items()
	if len(items) > 0 && len(s.Rounds) < s.Most {
		return Move{Kind: Hand, Items: items}
	}
	if s.Tip != s.Request.Head {
		return Move{Kind: Push}
	}
	if m, ok := s.unanswered(); ok {
		return m
	}
	if len(items) > 0 {
		return Move{Kind: Spent, Items: items}
	}
	if over.Task != "" {
		return Move{Kind: Await, Round: over}
	}
	states := map[string]bool{}
	for _, c := range s.Checks {
		states[c.State] = true
	}
	switch {
	case states[Pending]:
		return Move{Kind: Wait}
	case states[Failed]:
		return Move{Kind: Failing}
	case len(s.Checks) == 0:
		return Move{Kind: Wait}
	}
	return Move{Kind: Ready}
}

// items returns what no round has dealt with, or deals with, and has no reply: those of a round that is not on record
// here have one. over is a round that is over with such an item, if no other round has it.
func (s Situation) items() (list []Item, over Round) {
	in, replied := map[string]Round{}, s.replied()
	for _, r := range s.Rounds {
		for _, id := range r.For {
			if in[id].Task == "" || r.State != Over {
				in[id] = r
			}
		}
	}
	add := func(it Item) {
		switch r := in[it.ID]; {
		case replied[it.ID]:
		case r.Task == "":
			list = append(list, it)
		case r.State == Over:
			over = r
		}
	}
	for _, c := range s.Checks {
		if c.State == Failed {
			add(Item{ID: c.ID, Who: "The check " + c.Name, Text: c.Log, File: c.File, Line: c.Line, Commit: s.Request.Head})
		}
	}
	for _, c := range s.Comments {
		if s.Steers(c) {
			add(Item{ID: c.ID, Who: c.Author, Text: c.Body, File: c.File, Line: c.Line, Commit: c.Commit})
		}
	}
	return list, over
}

// Steers reports whether agents are to deal with a comment: its author may write to the repository, or is named, and it
// is none of Plait's own.
func (s Situation) Steers(c Comment) bool {
	return !ours(c) && strings.TrimSpace(c.Body) != "" && (c.Writes || slices.ContainsFunc(s.Named, func(n string) bool {
		return strings.EqualFold(n, c.Author)
	}))
}

// Others returns what people said who do not steer. It is for the person.
func (s Situation) Others() (list []Comment) {
	for _, c := range s.Comments {
		if !s.Steers(c) && !ours(c) && strings.TrimSpace(c.Body) != "" {
			list = append(list, c)
		}
	}
	return list
}

// ours reports whether a comment is one of Plait's own. Others cannot make it look so.
func ours(c Comment) bool { return c.Mine && Marked("reply", c.Body) != "" }

// replied returns the comments that have a reply of ours.
func (s Situation) replied() map[string]bool {
	replied := map[string]bool{}
	for _, c := range s.Comments {
		if ours(c) {
			replied[Marked("reply", c.Body)] = true
		}
	}
	return replied
}

// unanswered returns the first comment that a round dealt with and that has no reply.
func (s Situation) unanswered() (Move, bool) {
	replied := s.replied()
	for _, r := range s.Rounds {
		if r.State != Done {
			continue
		}
		for _, c := range s.Comments {
			if slices.Contains(r.For, c.ID) && !replied[c.ID] {
				return Move{Kind: Respond, Round: r, Comment: c}, true
			}
		}
	}
	return Move{}, false
}
