package verify

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/history"
	"github.com/plait-run/plait/internal/record/merkle"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/sshsig"
)

// A Seen is a state of the log that someone keeps outside the record. A record that was only appended to since begins
// with it.
type Seen struct {
	By   string // who keeps it, as a noun: "this machine"
	Size int64  // entries
	Root dag.Hash
	// Standing says what its signatures are worth; empty: it has none.
	Standing history.Standing
}

// A Log is how far the entries of a record were checked.
type Log struct {
	Size  int64    `json:"size"` // entries
	Root  dag.Hash `json:"root"`
	Since int64    `json:"since"` // the last entry of before the log began: unproven up to here
	// Verdict is what is known of the history: the first of these that holds.
	//
	//	rewritten at N                       entry N, or one after it, is not what was filed
	//	shorter than seen                    someone has seen more entries
	//	signed by a key nobody vouches for   and by no other that counts
	//	unsigned since N                     nobody signed entry N and those after it
	//	unproven before N                    those entries are from before there was a log
	//	ok
	//
	// The first two are problems.
	Verdict string `json:"verdict"`
}

// judge sets the verdict. rewritten is the first entry that is not what was filed, zero if all are; shorter says that
// some that were seen are gone.
func (l *Log) judge(rewritten int64, shorter bool, seen []Seen) {
	var vouched, signed int64
	for _, s := range seen {
		switch s.Standing {
		case history.Vouched:
			vouched = max(vouched, s.Size)
		case history.Unvouched, history.Revoked:
			signed = max(signed, s.Size)
		}
	}
	switch {
	case rewritten > 0:
		l.Verdict = fmt.Sprint("rewritten at ", rewritten)
	case shorter:
		l.Verdict = "shorter than seen"
	case vouched == 0 && signed > 0:
		l.Verdict = history.Unvouched.Says("")
	case vouched < l.Size:
		l.Verdict = fmt.Sprint("unsigned since ", vouched+1)
	case l.Since > 0:
		l.Verdict = fmt.Sprint("unproven before ", l.Since+1)
	default:
		l.Verdict = OK
	}
}

// An Accepted is a person's word for why the log does not continue what was seen of it.
type Accepted struct {
	Pos int64 `json:"pos"` // of the entry
	history.Acceptance
	Key   string `json:"key"`             // the fingerprint of the person's key
	Doubt string `json:"doubt,omitempty"` // why their word does not count
}

// logPage is how many entries are read at a time.
const logPage = 1000

// A logCheck reads the log from its beginning.
type logCheck struct {
	*check
	tree    merkle.Tree
	seen    []Seen              // still to be reached, by size
	reached int64               // size of the last that was, and was as seen
	first   int64               // the first entry that is not what was filed; zero: none
	shorter bool                // than seen
	holes   []int64             // positions of entries that were removed, in order
	altered map[int64]dag.Hash  // redacted events, by position: the SHA-256 of what is there now
	removed []removal           // what entries say about others
	allowed map[string]dag.Hash // what redactions made of events, as proofs name them
	fits    []Seen              // what was seen, and is so
	misfits []misfit            // what was seen, and is not
	accepts []store.Event       // entries that accept that
}

// A misfit is a state that the log does not continue, and how.
type misfit struct {
	Seen
	from int64 // the first entry that may not be what was filed; zero: entries are gone
	what string
}

// A removal is an entry that says that others were taken out: count of those from first to last.
type removal struct{ at, first, last, count int64 }

// checkLog compares the entries with the tree over them, and the tree with what others have seen of it. Every entry
// that is not there, or is not as it was, must be one that a later entry says was removed or redacted.
func (c *check) checkLog(ctx context.Context) error {
	log, err := c.cfg.Store.Log(ctx)
	if err != nil {
		return c.unreadable(ctx, "the log", err)
	}
	c.log = &Log{Size: log.Tree.Size(), Root: log.Tree.Root(), Since: log.Since}
	seen, err := c.signers(ctx, history.Origin(log.Origin))
	if err != nil {
		return c.unreadable(ctx, "the answers", err)
	}
	seen = slices.SortedFunc(slices.Values(append(seen, c.cfg.Seen...)),
		func(a, b Seen) int { return cmp.Compare(a.Size, b.Size) })
	l := &logCheck{check: c, altered: map[int64]dag.Hash{}, allowed: map[string]dag.Hash{}, seen: seen}
	defer func() { c.log.judge(l.first, l.shorter, l.fits) }()
	whole, err := l.read(ctx, log.Tree.Size())
	if err != nil || !whole {
		return c.unreadable(ctx, "the log", err)
	}
	if from, to, ok := l.tree.Differ(&log.Tree); ok {
		l.rewritten(from+1, "entries %d to %d are not those that were written", from+1, to)
	}
	for _, s := range l.seen { // not reached
		l.misfits = append(l.misfits, misfit{s, 0, fmt.Sprintf("it has %d entries, but %s has seen %d: the last %d are gone",
			log.Tree.Size(), s.By, s.Size, s.Size-log.Tree.Size())})
	}
	l.accept()
	// Entries beyond say what was removed during the check.
	now, err := c.cfg.Store.Log(ctx)
	if err == nil && len(l.holes) > 0 {
		_, err = l.read(ctx, now.Tree.Size())
	}
	if err != nil {
		return c.unreadable(ctx, "the log", err)
	}
	l.explain()
	return nil
}

// signers returns what people have seen of the log who signed their answers.
func (c *check) signers(ctx context.Context, origin string) ([]Seen, error) {
	gates, err := c.cfg.Store.Gates(ctx, store.GateFilter{})
	if err != nil {
		return nil, err
	}
	var seen []Seen
	for _, g := range gates {
		// One that is not valid is reported with the answer. An imported answer is of another log.
		if a, _, err := history.OpenApproval(g); err == nil && a.Origin == origin {
			seen = append(seen, Seen{By: "who answered gate " + g.ID, Size: a.Size, Root: a.Root})
		}
	}
	return seen, nil
}

// rewritten adds a problem against the history, from an entry on.
func (l *logCheck) rewritten(at int64, format string, args ...any) {
	if l.first == 0 || at < l.first {
		l.first = at
	}
	l.problem(format, args...)
}

// problem adds a problem against the history.
func (l *logCheck) problem(format string, args ...any) {
	l.problems = append(l.problems, Problem{What: fmt.Sprintf(format, args...), Kind: History})
}

// read appends the entries up to a size to the tree, and reports whether there is one at each position.
func (l *logCheck) read(ctx context.Context, size int64) (whole bool, err error) {
	l.reach()
	for l.tree.Size() < size {
		page, err := l.cfg.Store.Entries(ctx, l.tree.Size(), int(min(logPage, size-l.tree.Size())))
		if err != nil {
			return false, err
		}
		if len(page) == 0 || page[0].Pos != l.tree.Size()+1 {
			l.rewritten(l.tree.Size()+1, "entry %d is missing", l.tree.Size()+1)
			return false, nil
		}
		for i := range page {
			if page[i].Pos != l.tree.Size()+1 {
				break // reported by the next page
			}
			l.entry(&page[i])
			l.reach()
		}
	}
	return true, nil
}

// entry appends an entry.
func (l *logCheck) entry(e *store.LogEntry) {
	leaf := e.Hash()
	l.tree.Append(leaf)
	switch {
	case leaf.IsZero():
		l.rewritten(e.Pos, "entry %d is gone", e.Pos)
		return
	case e.Event == nil:
		l.holes = append(l.holes, e.Pos)
		return
	}
	if !e.Leaf.IsZero() {
		l.altered[e.Pos] = dag.Sum(e.Event.Payload)
	}
	switch {
	case event.Is(*e.Event, event.ThreadRemoved{}):
		p, _ := event.Read(*e.Event).(event.ThreadRemoved)
		l.removed = append(l.removed, removal{e.Pos, p.First, p.Last, int64(p.Count)})
	case event.Is(*e.Event, event.HistoryAccepted{}):
		l.accepts = append(l.accepts, *e.Event)
	case event.Is(*e.Event, event.TaskRedacted{}):
		maps.Copy(l.allowed, store.ReadProof(e.Event.Proof))
	}
}

// reach compares the tree with those that were seen of its size.
func (l *logCheck) reach() {
	for len(l.seen) > 0 && l.seen[0].Size == l.tree.Size() {
		if s := l.seen[0]; l.tree.Root() != s.Root {
			l.misfits = append(l.misfits, misfit{s, l.reached + 1,
				fmt.Sprintf("the first %d entries are not those that %s has seen", s.Size, s.By)})
		} else {
			l.reached, l.fits = s.Size, append(l.fits, s)
		}
		l.seen = l.seen[1:]
	}
}

// accept adds a problem for what was seen and is not so, unless a person whose word counts has accepted it.
func (l *logCheck) accept() {
	for _, m := range l.misfits {
		ok, err := history.Accept(l.accepts, m.Size, m.Root, l.cfg.Accepts)
		if ok {
			continue
		}
		if err != nil {
			m.what += "; " + err.Error()
		}
		if l.diverged = append(l.diverged, m.Seen); m.from > 0 {
			l.rewritten(m.from, "%s", m.what)
			continue
		}
		l.shorter = true
		l.problem("%s", m.what)
	}
	for _, ev := range l.accepts {
		a, key, err := history.OpenAcceptance(ev)
		if err != nil {
			l.problem("entry %d accepts a history, and is not signed as it says: %v", ev.Pos, err)
			continue
		}
		x := Accepted{Pos: ev.Pos, Acceptance: a, Key: sshsig.Fingerprint(key)}
		if err := l.cfg.Accepts.Of(key, a.At); err != nil {
			x.Doubt = err.Error()
		}
		l.accepted = append(l.accepted, x)
	}
}

// explain adds a problem for what is gone or changed although no entry says so.
func (l *logCheck) explain() {
	// Each hole takes the removal that ends first, so that as many as possible are explained.
	slices.SortStableFunc(l.removed, func(a, b removal) int { return cmp.Compare(a.last, b.last) })
	var out []int64
	for _, at := range l.holes {
		i := slices.IndexFunc(l.removed, func(r removal) bool {
			return r.count > 0 && r.first <= at && at <= r.last && at < r.at
		})
		switch {
		case i >= 0:
			l.removed[i].count--
		case at > l.log.Since: // before the log began, removals left nothing
			out = append(out, at)
		}
	}
	for len(out) > 0 {
		n := 1
		for n < len(out) && out[n] == out[n-1]+1 {
			n++
		}
		if n == 1 {
			l.rewritten(out[0], "entry %d was taken out, and no entry says so", out[0])
		} else {
			l.rewritten(out[0], "entries %d to %d were taken out, and no entry says so", out[0], out[n-1])
		}
		out = out[n:]
	}
	for at, digest := range l.altered {
		if l.allowed[fmt.Sprint(store.ProofEvent, at)] != digest {
			l.rewritten(at, "entry %d was changed, and no entry says so", at)
		}
	}
}
