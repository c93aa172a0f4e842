package web

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/plait-run/plait/internal/view"
	"github.com/plait-run/plait/internal/view/taskdir"
)

// drawLayout draws boxes and edges of every kind: cycles, loops, many between the same two boxes.
func drawLayout(t *rapid.T) layout {
	var l layout
	n := rapid.IntRange(1, 30).Draw(t, "boxes")
	for range n {
		l.boxes = append(l.boxes, box{w: rapid.IntRange(1, 300).Draw(t, "w"), h: rapid.IntRange(1, 60).Draw(t, "h")})
	}
	for range rapid.IntRange(0, 60).Draw(t, "ways") {
		l.edges = append(l.edges, edge{from: rapid.IntRange(0, n-1).Draw(t, "from"), to: rapid.IntRange(0, n-1).Draw(t, "to"),
			label: -1})
	}
	for i, w := range l.edges {
		if w.from != w.to && rapid.Bool().Draw(t, "labeled") {
			l.edges[i].label = len(l.boxes)
			l.boxes = append(l.boxes, box{w: rapid.IntRange(1, 200).Draw(t, "w"), h: labelTall})
		}
	}
	return l
}

func TestLayout(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawLayout(t)
		again := layout{boxes: slices.Clone(l.boxes), edges: slices.Clone(l.edges)}
		given := len(l.boxes)
		if !l.place() {
			t.Fatal("few boxes are too many")
		}
		again.place()
		if diff := cmp.Diff(again, l, cmp.AllowUnexported(layout{}, box{}, edge{})); diff != "" {
			t.Fatalf("the same comes out otherwise:\n%s", diff)
		}
		for i, a := range l.boxes {
			if a.x < 0 || a.y < 0 || a.x+a.w > l.w || a.y+a.h > l.h {
				t.Fatalf("box %d lies outside: %+v of %d, %d", i, a, l.w, l.h)
			}
			for j, b := range l.boxes[:i] {
				if a.x < b.x+b.w && b.x < a.x+a.w && a.y < b.y+b.h && b.y < a.y+a.h {
					t.Fatalf("boxes %d and %d overlap: %+v %+v", i, j, a, b)
				}
			}
		}
		back := false
		for i, w := range l.edges {
			if w.from == w.to {
				continue
			}
			up, down := l.boxes[w.from], l.boxes[w.to]
			if back = back || w.back; w.back {
				up, down = down, up
			}
			if up.y+up.h >= down.y {
				t.Fatalf("way %d does not lead down: %+v %+v", i, up, down)
			}
			y := up.y
			for _, v := range w.via {
				if l.boxes[v].y < y {
					t.Fatalf("way %d goes up on its way", i)
				}
				y = l.boxes[v].y
			}
			if w.label >= 0 && (!slices.Contains(w.via, w.label) || w.label >= given) {
				t.Fatalf("way %d does not pass its label", i)
			}
		}
		if back && !circle(l) {
			t.Fatal("a way is turned round, and there is no circle")
		}
	})
}

// circle reports whether there is a cycle.
func circle(l layout) bool {
	above := map[int]int{}
	for _, w := range l.edges {
		if w.from != w.to {
			above[w.to]++
		}
	}
	gone := map[int]bool{}
	for again := true; again; {
		again = false
		for i := range l.boxes {
			if !gone[i] && above[i] == 0 {
				gone[i], again = true, true
				for _, w := range l.edges {
					if w.from == i && w.to != i {
						above[w.to]--
					}
				}
			}
		}
	}
	return len(gone) < len(l.boxes)
}

// TestLayoutLarge checks that the largest drawings take no noticeable time.
func TestLayoutLarge(t *testing.T) {
	for name, to := range map[string]func(i int) int{
		"a chain":     func(i int) int { return i + 1 },
		"a star":      func(int) int { return 0 },
		"back to all": func(i int) int { return i * 7919 % maxBoxes },
		"far":         func(i int) int { return maxBoxes - 1 - i },
	} {
		t.Run(name, func(t *testing.T) {
			l := layout{boxes: make([]box, maxBoxes)}
			for i := range l.boxes {
				l.boxes[i].w, l.boxes[i].h = 100, 40
				l.edges = append(l.edges, edge{from: i, to: (i + 1) % maxBoxes, label: -1},
					edge{from: i, to: to(i) % maxBoxes, label: -1})
			}
			if !l.place() {
				t.Fatal("it is too large")
			}
		})
	}
	l := layout{boxes: make([]box, maxBoxes+1)}
	if l.place() {
		t.Error("there is no bound")
	}
}

// svg renders a graph as a page does.
func svg(t interface{ Fatal(...any) }, d drawing) string {
	all, err := parseTemplates(taskdir.Program{})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := all["flow"].ExecuteTemplate(&out, "graph", d); err != nil {
		t.Fatal(err)
	}
	return visible(out.String())
}

var attribute = regexp.MustCompile(`^(class|role|aria-label|width|height|viewBox|d|points|x|y|rx|href)$`)

// harmlessSVG parses a drawing strictly: it may have only the expected elements and attributes.
func harmlessSVG(text string) error {
	dec := xml.NewDecoder(strings.NewReader(text))
	for {
		tok, err := dec.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		el, ok := tok.(xml.StartElement)
		if !ok {
			continue
		}
		if !slices.Contains([]string{"div", "p", "svg", "g", "title", "path", "polygon", "text", "rect", "a", "ol", "li",
			"span"}, el.Name.Local) {
			return fmt.Errorf("it has a %s", el.Name.Local)
		}
		for _, a := range el.Attr {
			if !attribute.MatchString(a.Name.Local) || a.Name.Local == "href" && !strings.HasPrefix(a.Value, "/steps/") &&
				!strings.HasPrefix(a.Value, "/threads/") {
				return fmt.Errorf("it has %s=%q", a.Name.Local, a.Value)
			}
		}
	}
}

func TestHostileDrawing(t *testing.T) {
	texts := append(payloads(t), strings.Repeat("W", 5000), "\u202eabc\x1b[31m\x00", "\xff\xfe", strings.Repeat("漢", 200),
		"")
	text := rapid.OneOf(rapid.SampledFrom(texts), rapid.String())
	rapid.Check(t, func(t *rapid.T) {
		g := &view.Graph{Flow: text.Draw(t, "flow")}
		for i := range rapid.IntRange(1, 8).Draw(t, "nodes") {
			g.Nodes = append(g.Nodes, view.GraphNode{ID: fmt.Sprint(i), Kind: view.NodeRole, Label: text.Draw(t, "label"),
				Note: text.Draw(t, "note"), Agent: text.Draw(t, "agent")})
		}
		for range rapid.IntRange(0, 12).Draw(t, "edges") {
			end := rapid.IntRange(0, len(g.Nodes)) // may be one that does not exist
			g.Edges = append(g.Edges, view.GraphEdge{From: fmt.Sprint(end.Draw(t, "from")), To: fmt.Sprint(end.Draw(t, "to")),
				Label: text.Draw(t, "label"), Kind: view.EdgeRoute})
		}
		d := draw(g, func(view.GraphNode) string { return "/steps/x" })
		if err := harmlessSVG(svg(t, d)); err != nil {
			t.Fatal(err)
		}
		for _, b := range d.Boxes {
			if b.W > 900 {
				t.Fatalf("%q makes a box of %d px", b.Text, b.W)
			}
		}
	})
}
