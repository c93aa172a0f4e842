package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// three returns a house of three rooms, each on top of the one before it.
func three(t *testing.T) *house {
	h := build(t,
		source{"store", []string{`package store

type Store struct{}

func (*Store) Commit() { apply() }

func apply() {}
`}},
		source{"engine", []string{`package engine

type Engine struct {
	store interface{ Commit() }
	make  func()
}

type Config struct{ Make func() }

func New(c Config) *Engine { return &Engine{make: c.Make} }

func (e *Engine) Run() {
	go func() { e.step() }()
	e.make()
	e.store.Commit()
}

func (e *Engine) step() {}
`}},
		source{"cli", []string{`package main

import "engine"

func main() {
	do := build().Run
	do()
}

func build() *engine.Engine { return engine.New(engine.Config{Make: agent}) }

func agent() {}
`}})
	return h
}

func TestWalk(t *testing.T) {
	ms, err := walk(three(t), `
# all of it
journey run hops=6 rooms=2 up=0
cli.main
cli.build
engine.New # named by the one before
engine.Engine.Run
	engine.Engine.step
cli.agent as Make make
store.Store.Commit
store.apply

journey other
cli.main
engine.Engine.step
store.Store.Rollback
cli.agent
cli.agent as Run
store.apply apart
`)
	if err != nil {
		t.Fatal(err)
	}
	want := []measure{
		{what: "run: hops", now: 8, limit: 6},
		{what: "run: changes of room", now: 3, limit: 2},
		{what: "run: goes up again", now: 1, limit: 0, list: []string{"engine.Engine.Run → cli.agent"}},
		{what: "other: hops", now: 6, limit: none},
		{what: "other: changes of room", now: 4, limit: none},
		{what: "other: goes up again", now: 0, limit: none},
		{what: "hops that the code does not make", now: 5, list: []string{
			"other, line 15: engine.Engine.step is named by no hop before it",
			"other, line 16: store.Store.Rollback does not exist",
			"other, line 17: cli.agent is named by no hop before it",
			"other, line 18: cli.agent is not in Run: nothing sets that to agent",
			"other, line 18: cli.agent is named by no hop before it",
		}},
	}
	if diff := cmp.Diff(want, ms, cmp.AllowUnexported(measure{}, ratchet{})); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestReadJourneys(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"a.B\n", "line 1: a hop of no journey"},
		{"journey\n", "line 1: a journey has a name"},
		{"\njourney a hops=many\n", "line 2: hops=many: want a number"},
		{"journey a steps=1\n", "line 1: steps=1: there are hops, rooms and up"},
		{"journey a\nb.C d\n", "line 2: want FUNCTION"},
		{"journey a\nb.C as\n", "line 2: want FUNCTION"},
	} {
		_, err := readJourneys(tt.text)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: %v, want %s", tt.text, err, tt.want)
		}
	}
	js, err := readJourneys(journeys)
	if err != nil || len(js) != 5 {
		t.Errorf("the tool has %d journeys: %v", len(js), err)
	}
}
