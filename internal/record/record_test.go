package record_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

func TestAFlowIsReadOnceFromItsBundle(t *testing.T) {
	c := newChain(t)
	row := c.begin("T")
	def, err := c.record.Flow(t.Context(), row.Bundle, "work")
	c.must(err)
	if def.Name != "work" || len(def.Roles) != 5 {
		t.Errorf("got flow %q with %d roles", def.Name, len(def.Roles))
	}
	if !c.store.Lose(row.Bundle) {
		t.Fatal("the bundle is not there")
	}
	again, err := c.record.Flow(t.Context(), row.Bundle, "work")
	if err != nil || again != def {
		t.Errorf("a second read: %p, %v, want %p", again, err, def)
	}
}

func TestAnUnknownFlowIsNotFound(t *testing.T) {
	c := newChain(t)
	row := c.begin("T")
	for _, tt := range []struct {
		name   string
		bundle dag.Hash
		flow   string
	}{
		{"a flow that the bundle has not", row.Bundle, "play"},
		{"a bundle that is not there", dag.Sum([]byte("nothing")), "work"},
		{"a node that is no bundle", row.Start, "work"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if def, err := c.record.Flow(t.Context(), tt.bundle, tt.flow); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("got %v, %v", def, err)
			}
		})
	}
}

func TestADefinitionIsThatOfTheThreadsAction(t *testing.T) {
	c := newChain(t)
	root := c.planned("T")
	x, y := c.spawn(root, "x", 1), c.path(root, "boss", thread.RoleJoin, "y", 1)
	split := c.path(c.step(c.begin("S"), "writer", "forks", "x"), "split", "gathered", "a", 1)
	byHand := c.add(nil, thread.Fork(x, "F", thread.Step{Hash: x.Head}, 0, c.now()))
	for _, tt := range []struct {
		name       string
		row        store.Thread
		flow, acts string
		roles      []string // some of the definition's
	}{
		{"a task", root, "work", "", []string{"writer", "boss"}},
		{"a path of the flow", split, "work", "", []string{"left"}},
		{"a spawned action", x, flow.WorkerFlow, "x", []string{"x"}},
		{"a forked action", y, "work", "y", []string{"y"}},
		{"a fork by hand of an action", byHand, flow.WorkerFlow, "x", []string{"x"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			def, err := c.record.Definition(t.Context(), tt.row)
			if err != nil {
				t.Fatal(err)
			}
			if def.Name != tt.flow || def.ActionID() != tt.acts {
				t.Errorf("got flow %q for the action %q, want %q, %q", def.Name, def.ActionID(), tt.flow, tt.acts)
			}
			for _, role := range tt.roles {
				if _, ok := def.Roles[role]; !ok {
					t.Errorf("it has no role %q", role)
				}
			}
			if again, err := c.record.Definition(t.Context(), tt.row); err != nil || again != def {
				t.Errorf("a second read gives another definition: %v", err)
			}
		})
	}
}

// TestOlderStartsTakeTheActionFromRows writes starts without the field action, as older versions
// did: a manual fork then carries out the action of the thread that it was forked from.
func TestOlderStartsTakeTheActionFromRows(t *testing.T) {
	c := newChain(t)
	root := c.planned("T")
	x := c.older(c.spawn(root, "x", 1))
	fork := c.add(nil, thread.Fork(x, "F", thread.Step{Hash: x.Head}, 0, c.now()))
	again := c.add(nil, thread.Fork(fork, "G", thread.Step{Hash: x.Head}, 0, c.now()))
	called := c.older(c.call(root))
	orphan := thread.Fork(x, "H", thread.Step{Hash: x.Head}, 0, c.now())
	orphan.ForkedFrom.Thread = "removed"
	for _, tt := range []struct {
		name string
		row  store.Thread
		acts string
	}{
		{"the action itself", x, "x"},
		{"a fork by hand of it", fork, "x"},
		{"a fork of that fork", again, "x"},
		{"a call of the flow of workers", called, ""},
		{"a fork of a thread that was removed", orphan, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			// Use a new reader: forks of one start would share its cache.
			def, err := record.New(c.nodes, c.store).Definition(t.Context(), tt.row)
			if err != nil || def.ActionID() != tt.acts {
				t.Errorf("got the action %q, %v, want %q", def.ActionID(), err, tt.acts)
			}
		})
	}
}

// call adds a thread in which row calls the worker flow.
func (c *chain) call(row store.Thread) store.Thread {
	c.Helper()
	objects, child, err := thread.Call(thread.Child{
		Parent: row, Since: c.clock, Role: "writer", N: 1, Flow: flow.WorkerFlow, Depth: 1, Prompt: "help", Now: c.now(),
	})
	c.must(err)
	return c.add(objects, child)
}

// older gives a thread without steps a start that does not name its action.
func (c *chain) older(row store.Thread) store.Thread {
	c.Helper()
	start, err := c.nodes.Start(c.Context(), row.Start)
	c.must(err)
	old := *start
	old.Action = thread.Name{}
	node, err := thread.NewNode(dag.TypeStart, old)
	c.must(err)
	was := row.State()
	row.Start, row.Head = node.Hash, node.Hash
	c.commit(store.Batch{
		Objects: []store.Object{node}, Threads: []store.ThreadChange{{Row: row, From: was}},
	})
	return row
}

func TestAPlanIsReadFromTheStepThatPlanned(t *testing.T) {
	c := newChain(t)
	row := c.planned("T")
	plan, err := c.record.Plan(t.Context(), row.Head)
	c.must(err)
	var ids []string
	for _, a := range plan.Actions {
		ids = append(ids, a.ID)
	}
	if !slices.Equal(ids, []string{"x", "y"}) {
		t.Errorf("got the actions %q", ids)
	}
	again, err := c.record.Plan(t.Context(), row.Head)
	if err != nil || again != plan {
		t.Errorf("a second read gives another plan: %v", err)
	}
}

func TestAStepWithoutAPlanIsErrNoPlan(t *testing.T) {
	c := newChain(t)
	row := c.begin("T")
	writes := c.step(row, "writer", "planned", "not a role that plans")
	finished := c.step(writes, "boss", "finished", "nothing left")
	for _, tt := range []struct {
		name string
		at   dag.Hash
	}{
		{"the start", row.Head},
		{"another role", writes.Head},
		{"another status", finished.Head},
		{"no node at all", dag.Sum([]byte("nothing"))},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if plan, err := c.record.Plan(t.Context(), tt.at); !errors.Is(err, record.ErrNoPlan) {
				t.Errorf("got %v, %v", plan, err)
			}
		})
	}
}

func TestActionIsThePathOfAPlansJoin(t *testing.T) {
	for _, tt := range []struct {
		name string
		path *store.Path
		want string
	}{
		{"no path", nil, ""},
		{"a path of the flow", &store.Path{ID: "a", Join: "gathered"}, ""},
		{"an action", &store.Path{ID: "x", Join: thread.RoleJoin}, "x"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := record.Action(store.Thread{Path: tt.path}); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestInstanceNames(t *testing.T) {
	def := &flow.Definition{Roles: map[string]flow.Role{
		"Code Review": {}, "code-review": {}, "code_review": {}, "über": {}, "日本": {}, "compact": {},
		strings.Repeat("long", 20): {},
	}}
	root := store.Thread{ID: "01JDROOT", Root: "01JDROOT", Kind: store.KindRoot}
	path := store.Thread{
		ID: "01JDABCDEFGH", Root: root.ID, Kind: store.KindPath,
		Parent: &store.Parent{Thread: root.ID}, Path: &store.Path{ID: "Left Side", N: 1},
	}
	child := path
	child.Kind, child.Path = store.KindCall, nil
	far := path
	far.Path = &store.Path{ID: strings.Repeat("p", 60), N: 1}
	for _, tt := range []struct {
		name string
		row  store.Thread
		role string
		want string
	}{
		{"letters, digits and hyphens only", root, "über", "ber"},
		{"nothing left of a name", root, "日本", "role"},
		{"the first of a collision", root, "Code Review", "code-review"},
		{"the second of a collision", root, "code-review", "code-review-2"},
		{"the third of a collision", root, "code_review", "code-review-3"},
		{"a reserved role with the name of a role", root, thread.RoleCompact, "compact-2"},
		{"no more than 63 characters", root, strings.Repeat("long", 20), strings.Repeat("long", 20)[:63]},
		{"a path", path, "compact", "compact-left-side-abcdefgh"},
		{"a call", child, "compact", "compact-abcdefgh"},
		{"a path with a long id", far, "compact", "compact-" + strings.Repeat("p", 24) + "-abcdefgh"},
		{"a long role in a path", path, strings.Repeat("long", 20),
			strings.Repeat("long", 20)[:63-len("-left-side-abcdefgh")] + "-left-side-abcdefgh"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := record.Instance(tt.row, def, tt.role)
			if got != tt.want || len(got) > 63 {
				t.Errorf("got %q of %d characters, want %q", got, len(got), tt.want)
			}
		})
	}
}

// TestInstancesOfOneFlow checks that their names are unique and have only the characters of instance names.
func TestInstancesOfOneFlow(t *testing.T) {
	long := strings.Repeat("a", 100)
	def := &flow.Definition{Roles: map[string]flow.Role{
		"planner": {}, "Read_API": {}, "  ": {}, "日本": {}, "a.b": {}, "a-b": {}, "a_b": {}, "-x-": {}, long: {}, long +
			"b": {},
	}}
	want := map[string]string{
		"planner": "planner", "Read_API": "read-api", "  ": "role", "日本": "role-2", "a-b": "a-b", "a.b": "a-b-2",
		"a_b": "a-b-3", "-x-": "x",
		long: long[:63], long + "b": long[:61] + "-2",
	}
	for role, name := range want {
		if got := record.Instance(store.Thread{}, def, role); got != name {
			t.Errorf("record.Instance(%q) = %q, want %q", role, got, name)
		}
	}
}

func TestAnActionsInstanceIsItsIDUntilItIsTriedAgain(t *testing.T) {
	c := newChain(t)
	root := c.planned("T")
	x := c.spawn(root, "x", 1)
	def, err := c.record.Definition(t.Context(), x)
	c.must(err)
	second := c.spawn(root, "x", 2)
	nested := x
	nested.Parent = &store.Parent{Thread: "a path of the task"}
	for _, tt := range []struct {
		name string
		row  store.Thread
		want string
	}{
		{"the first try", x, "x"},
		{"the second try", second, "x-" + strings.ToLower(second.ID[len(second.ID)-8:])},
		{"an action that a path planned", nested, "x-" + strings.ToLower(x.ID[len(x.ID)-8:])},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, record.Instance(tt.row, def, "x")); diff != "" {
				t.Errorf("instance (-want +got):\n%s", diff)
			}
		})
	}
}
