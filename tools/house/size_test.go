package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/record/event"

	"github.com/plait-run/plait/internal/testing/rooms"
)

func TestCodeLines(t *testing.T) {
	for _, tt := range []struct {
		name, src string
		want      int
	}{
		{"nothing", "", 0},
		{"comments and blank lines", "// a\n\n/* b\nc */\npackage p\n", 1},
		{"a comment beside code", "package p // b\n\nvar a = 1 /* c\nd */\n", 2},
		{"one statement on three lines", "package p\n\nvar a = []int{\n\t1,\n}\n", 4},
		{"two statements on one line", "package p; var a int\n", 1},
		{"a text of several lines, one blank", "package p\n\nvar a = `b\n\nc`\n", 3},
		{"a comment in a text", "package p\n\nvar a = `\n// b\n`\n", 4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := codeLines([]byte(tt.src)); got != tt.want {
				t.Errorf("%d lines, want %d", got, tt.want)
			}
		})
	}
}

func TestSizes(t *testing.T) {
	h := &house{lines: map[rooms.Room]int{
		{Folder: "engine", Name: "engine"}: 5, {Folder: "engine", Name: "gate"}: 6, {Folder: "app", Name: "control"}: 7,
		{Folder: "record", Name: "dag"}: 9,
	}}
	got := map[string]int{}
	for _, m := range sizes(h) {
		got[m.what] = m.now
	}
	want := map[string]int{
		"lines of code": 27, "  engine": 11, "    engine": 5, "    gate": 6, "  app": 7, "    control": 7, "  record": 9, "    dag": 9,
		"engine+app": 18,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestLongFunctions(t *testing.T) {
	function := func(head string, lines int) string {
		return head + " {\n" + strings.Repeat("\tx()\n", lines-2) + "}\n"
	}
	h := build(t, source{"p", []string{"package p\n\n// x is\n// short.\nfunc x() {}\n\n" +
		function("func most()", maxLength) + function("func long()", maxLength+1) +
		function("var lit = func()", maxLength+2)}})
	m := longFunctions(h)
	want := []string{"p/0.go:87 long: 81 lines", "p/0.go:168 func: 82 lines"}
	if diff := cmp.Diff(want, m.list); diff != "" || m.now != 2 {
		t.Errorf("%d, -want +got\n%s", m.now, diff)
	}
}

func TestLargeStructs(t *testing.T) {
	fields := func(n int, tag string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "\tF%d int %s\n", i, tag)
		}
		return b.String()
	}
	structs := "package p\n\ntype E struct{}\n" +
		"type Most struct {\n" + fields(maxFields, "") + "}\n" +
		"type Large struct {\n\tE\n" + fields(maxFields-1, "") + "\ta, b int\n}\n" +
		"type Object struct {\n" + fields(maxFields+1, "`json:\"f\"`") + "}\n" +
		"func f() {\n\ttype local struct {\n" + fields(maxFields+2, "") + "\t}\n}\n"
	rows := strings.Replace(structs, "package p", "package store", 1)
	h := build(t, source{"p", []string{structs}}, source{"record/store", []string{rows}})
	var names []string
	m := largeStructs(h)
	for _, line := range m.list {
		_, name, _ := strings.Cut(line, " ")
		names = append(names, name)
	}
	if diff := cmp.Diff([]string{"p.Large: 22 fields", "p.local: 22 fields"}, names); diff != "" || m.now != 2 {
		t.Errorf("%d, -want +got\n%s", m.now, diff)
	}
}

func TestFunctionFields(t *testing.T) {
	h := build(t,
		source{"agent", []string{"package agent\n\ntype Agent struct{ Do func() }\n"}},
		source{"engine", []string{`package engine

import "agent"

type clock func() int64

type Config struct {
	Now   clock
	Name  string
	Parts []*Part
	Other agent.Agent
	Desk  interface{ Open() }
	Inner struct{ F func() }
}

type Part struct {
	A, B  func()
	Below Below
}

type Below struct{ C func() }

type Unused struct{ D func() }
`}})
	m := functionFields(h)[0]
	if diff := cmp.Diff([]string{"Config.Now", "Part.A", "Part.B"}, m.list); diff != "" || m.now != 3 || m.kept() {
		t.Errorf("%d, -want +got\n%s", m.now, diff)
	}
	if m := functionFields(build(t, source{"engine", []string{"package engine\n"}})); m[0].kept() {
		t.Error("an engine without a Config is well")
	}
}

func TestEventLiterals(t *testing.T) {
	src := "\n\n// task.ended\nvar a, b, c = \"task.ended\", `task.ended`, \"the task.ended\"\n"
	h := build(t, source{"record/event", []string{"package event" + src}}, source{"view", []string{"package view; import _ \"record/event\"" + src}},
		source{"codex", []string{"package codex" + src}})
	m := eventLiterals(h, []string{"task.created", "task.ended"})
	want := []string{`view/0.go:4 "task.ended"`, "view/0.go:4 `task.ended`"}
	if diff := cmp.Diff(want, m.list); diff != "" || m.now != 2 {
		t.Errorf("%d, -want +got\n%s", m.now, diff)
	}
}

func TestReport(t *testing.T) {
	for _, tt := range []struct {
		name string
		of   []measure
		kept bool
		want string
	}{
		{"all kept", []measure{
			{what: "a", now: 3, limit: none, list: []string{"x"}}, {what: "b", now: 2, limit: 2}}, true,
			"measure  now  held  limit  \na        3    -     -      \nb        2    -     2      ok\n\na:\n  x\n"},
		{"one is not", []measure{{what: "a", now: 1}, {what: "b", limit: 2}}, false,
			"measure  now  held  limit  \na        1    -     0      not ok\nb        0    -     2      ok\n"},
		{"one is over its limit", []measure{
			{what: "a", now: 3, limit: 2, ratchet: ratchet{3, "since it is"}}, {what: "b", now: 1, limit: none, ratchet: ratchet{most: 1}},
		}, true,
			"measure  now  held  limit  \na        3    3     2      over\nb        1    1     -      ok\n\n" +
				"over the limit:\n  a: since it is\n"},
		{"one has grown", []measure{
			{what: "a", now: 4, limit: 2, ratchet: ratchet{3, "since it is"}}, {what: "b", now: 2, limit: 3, ratchet: ratchet{most: 1}},
		}, false,
			"measure  now  held  limit  \na        4    3     2      not ok\nb        2    1     3      not ok\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out strings.Builder
			if kept := report(&out, tt.of); kept != tt.kept {
				t.Errorf("the limits are kept: %t, want %t", kept, tt.kept)
			}
			if diff := cmp.Diff(tt.want, out.String()); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

// TestHouse checks that no figure grows unnoticed, and that each one that is held is measured.
func TestHouse(t *testing.T) {
	if testing.Short() {
		t.Skip("it checks the types of the whole repository")
	}
	h, err := load(".")
	if err != nil {
		t.Fatal(err)
	}
	ms, err := measureAll(h, event.All(), journeys)
	if err != nil {
		t.Fatal(err)
	}
	left := maps.Clone(held)
	for _, m := range hold(ms) {
		delete(left, m.what)
		if !m.kept() {
			t.Errorf("%s: %d, at most %d; go run ./tools/house shows it, held.go says more\n%s",
				m.what, m.now, max(m.most, m.limit), strings.Join(m.list, "\n"))
		}
		if m.limit != none && m.now > m.limit && m.why == "" {
			t.Errorf("%s: %d is over the limit of %d, and held.go does not say why", m.what, m.now, m.limit)
		}
	}
	if len(left) > 0 {
		t.Errorf("these are held, but not measured: %v", slices.Sorted(maps.Keys(left)))
	}
}
