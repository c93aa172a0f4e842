package tui

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/text"
	"github.com/plait-run/plait/internal/view"
)

// A branch is a line of a task's tree: an agent, or a part of the task that has no agent yet.
type branch struct {
	guide  string // line drawing to its left
	name   string
	agent  string
	state  view.DisplayState
	doing  string // its current or last activity
	by     string // the instance
	tokens int64
	micro  int64  // millionths of a dollar, 0 if no price is known
	thread string // thread of its step, "" if there is none yet
	role   string
}

// A part is a thread of a task with its agents.
type part struct {
	name    string
	thread  *view.TaskThread
	members []view.Member
	waits   string // why it has not begun
	below   []*part
}

// tree renders a task as branches: its agents below the parts of the task that they work in.
// doing is each instance's last activity.
func tree(t view.Task, doing map[string]string) []branch {
	root := &part{}
	limbs := map[string]*part{"": root}
	var at func(label string) *part
	at = func(label string) *part {
		if l := limbs[label]; l != nil {
			return l
		}
		above, name := "", label
		if i := strings.LastIndexByte(label, '/'); i >= 0 {
			above, name = label[:i], label[i+1:]
		}
		l := &part{name: name}
		limbs[label] = l
		parent := at(above)
		parent.below = append(parent.below, l)
		return l
	}
	for i, th := range t.Threads {
		at(th.Label).thread = &t.Threads[i]
	}
	for _, m := range t.Roster {
		l := at(m.Label)
		l.members = append(l.members, m)
	}
	for _, m := range t.Milestones {
		if m.Action && m.Thread == "" && m.State == view.MilestonePending {
			l := &part{name: m.ID, waits: "queued"}
			if len(m.DependsOn) > 0 {
				l.waits = "waits for " + strings.Join(m.DependsOn, ", ")
			}
			root.below = append(root.below, l)
		}
	}
	var out []branch
	for _, m := range root.members {
		out = append(out, agentBranch(m, "", m.Role, doing))
	}
	addBranches(&out, root.below, "", doing)
	return out
}

// addBranches adds the branches of parts below the one that lead belongs to.
func addBranches(out *[]branch, limbs []*part, lead string, doing map[string]string) {
	// By start time; parts that have not begun come last.
	slices.SortStableFunc(limbs, func(a, b *part) int { return cmp.Compare(a.began(), b.began()) })
	for i, l := range limbs {
		guide, next := "├ ", "│ "
		if i == len(limbs)-1 {
			guide, next = "└ ", "  "
		}
		if len(l.members) == 1 { // most parts have one agent, which shares their line
			b := agentBranch(l.members[0], lead+guide, l.name, doing)
			if role := l.members[0].Role; role != l.name && role != "worker" {
				b.name += "/" + role
			}
			if l.thread != nil && l.thread.Display.State != view.DisplayRunning {
				b.state = l.thread.Display.State
			}
			*out = append(*out, b)
			addBranches(out, l.below, lead+next, doing)
			continue
		}
		*out = append(*out, l.head(lead+guide))
		for j, m := range l.members {
			g := "├ "
			if j == len(l.members)-1 && len(l.below) == 0 {
				g = "└ "
			}
			*out = append(*out, agentBranch(m, lead+next+g, m.Role, doing))
		}
		addBranches(out, l.below, lead+next, doing)
	}
}

// began returns when the first agent of a limb began, or a time in the far future.
func (l *part) began() int64 {
	first := int64(math.MaxInt64)
	for _, m := range l.members {
		first = min(first, int64(m.StartedAt))
	}
	for _, b := range l.below {
		first = min(first, b.began())
	}
	return first
}

// head returns the branch of a limb that has several agents, or none yet.
func (l *part) head(guide string) branch {
	b := branch{guide: guide, name: l.name, state: view.DisplayQueued, doing: l.waits}
	if l.thread != nil {
		b.state, b.thread, b.doing = l.thread.Display.State, l.thread.ID, l.thread.Display.Reason
	}
	return b
}

// agentBranch returns the branch of an agent.
func agentBranch(m view.Member, guide, name string, doing map[string]string) branch {
	b := branch{guide: guide, name: name, agent: m.Agent, state: memberState(m.State), doing: doing[m.Instance],
		tokens: m.Tokens, micro: m.CostMicroUSD, thread: m.Thread, role: m.Role, by: m.Instance}
	if m.Title != "" && b.doing == "" {
		b.doing = m.Title
	}
	return b
}

// memberState returns the display state of an agent.
func memberState(s store.Status) view.DisplayState {
	if s == store.Blocked {
		return view.DisplayNeedsYou // only a person can unblock an agent
	}
	return view.NewDisplay(s, nil, nil).State
}

// treeLines renders branches as lines of n columns: name, agent, activity, cost and work. If
// there is little room, the least important columns are dropped first.
func treeLines(all []branch, took view.Times, n int) []string {
	names, agents, costs := 0, 0, 0
	for _, b := range all {
		names = max(names, ansi.StringWidth(b.guide+b.name))
		agents = max(agents, ansi.StringWidth(b.agent))
		costs = max(costs, len(cost(b.tokens, b.micro)))
	}
	names, agents = min(names, 26, n/3), min(agents, 12)
	if n < 70 {
		agents = 0
	}
	out := make([]string, len(all))
	for i, b := range all {
		out[i] = b.line(took.Agents[b.by], n, names, agents, costs)
	}
	return out
}

func (b branch) line(work int64, n, names, agents, costs int) string {
	took := ""
	if b.by != "" {
		took = elapsed(work)
	}
	head := dim.Render(b.guide) + mark(b.state) + " " + text.OneLine(b.name, 80)
	head = pad(head, names+2)
	tail := strings.Repeat(" ", max(7-len(took), 1)) + took
	if costs > 0 {
		tail = pad("", costs-len(cost(b.tokens, b.micro))) + cost(b.tokens, b.micro) + tail
	}
	if agents > 0 {
		head += "  " + dim.Render(pad(text.OneLine(b.agent, 80), agents))
	}
	room := n - ansi.StringWidth(head) - len(tail) - 3
	if room < 8 {
		return fit(head+" "+dim.Render(tail), n)
	}
	doing := b.doing
	if doing == "" && b.state != view.DisplayRunning {
		doing = string(b.state)
	}
	return head + "  " + pad(line(doing, room), room) + " " + dim.Render(tail)
}
