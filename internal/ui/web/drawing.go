package web

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/plait-run/plait/internal/sys/text"
	"github.com/plait-run/plait/internal/view"
)

// A drawing is a graph laid out for a page, without markup.
type drawing struct {
	Name  string // for screen readers
	W, H  int
	Boxes []node
	Lines []arrow
	Large bool // it is too large to draw

	Folded []listedNode // the graph as a list
}

// A listedNode is a node in the list that replaces a drawing.
type listedNode struct {
	Text, Kind, Link string
	To               []graphLink
}

// graphLink is an edge in the list: its target and label.
type graphLink struct{ Label, To string }

// maxFolded limits the list that replaces a drawing.
const maxFolded = 500

// Size returns the width of the drawing as a CSS class: on narrow screens, where its text would
// be too small, the list is shown instead.
func (d drawing) Size() string {
	switch {
	case d.Large || d.W > 2000:
		return "huge"
	case d.W > 1300:
		return "large"
	case d.W > 560:
		return "middle"
	}
	return "small"
}

// fold lists the nodes in the order in which they can be reached.
func (d *drawing) fold(g *view.Graph, link func(view.GraphNode) string) {
	by := map[string]view.GraphNode{}
	for _, n := range g.Nodes {
		by[n.ID] = n
	}
	to := map[string][]graphLink{}
	for _, e := range g.Edges {
		to[e.From] = append(to[e.From], graphLink{e.Label, by[e.To].Label})
	}
	for _, id := range g.Reached() {
		if len(d.Folded) == maxFolded {
			return
		}
		n := by[id]
		d.Folded = append(d.Folded, listedNode{n.Label, n.Kind, link(n), to[id]})
	}
}

// A node is drawn as a box.
type node struct {
	view.GraphNode
	X, Y, W, H int    // in px
	Text, Sub  string // shortened to fit
	Link       string
	Title      string // the full text
}

// An arrow is drawn for an edge.
type arrow struct {
	D, Head string // SVG path, and the points of its head
	Kind    string
	Back    bool
	Label   string
	X, Y    int // middle of the label
	Title   string
}

// Sizes in px and characters.
const (
	nodeText  = 14
	smallText = 12
	nodeTall  = 46
	dotTall   = 28
	labelTall = 16
	maxText   = 26
	maxLabel  = 30
)

// draw lays out a graph. link returns the URL of a node, "" for none.
func draw(g *view.Graph, link func(view.GraphNode) string) drawing {
	d := drawing{Name: "The graph of " + g.Flow}
	d.fold(g, link)
	var l layout
	at := map[string]int{}
	for _, n := range g.Nodes {
		b := node{GraphNode: n, H: nodeTall, Text: text.FirstLine(n.Label, maxText),
			Sub: text.FirstLine(madeBy(n), maxText+4), Link: link(n)}
		if b.Sub == "" {
			b.H = dotTall
		}
		b.W = max(56, textWidth(b.Text, nodeText)+24, textWidth(b.Sub, smallText)+24)
		b.Title = titled(n)
		at[n.ID] = len(l.boxes)
		l.boxes = append(l.boxes, box{w: b.W, h: b.H})
		d.Boxes = append(d.Boxes, b)
	}
	merged := map[[2]int]int{} // statuses with the same target share an arrow
	var all [][]string
	for _, e := range g.Edges {
		from, known := at[e.From]
		to, ok := at[e.To]
		if !ok || !known {
			continue
		}
		i, known := merged[[2]int{from, to}]
		if !known {
			i = len(l.edges)
			merged[[2]int{from, to}] = i
			l.edges = append(l.edges, edge{from: from, to: to, label: -1})
			d.Lines = append(d.Lines, arrow{Kind: e.Kind})
			all = append(all, nil)
		}
		if e.Label != "" {
			all[i] = append(all[i], e.Label)
		}
	}
	if d.Large = len(l.boxes)+len(l.edges) > maxBoxes; d.Large {
		return d
	}
	for i, w := range l.edges {
		label := strings.Join(all[i], ", ")
		from, to := g.Nodes[w.from], g.Nodes[w.to]
		d.Lines[i].Title = strings.TrimSuffix(from.Label+" → "+to.Label+": "+label, ": ")
		d.Lines[i].Label = text.FirstLine(label, maxLabel)
		if label == "" {
			continue
		}
		if w.from == w.to {
			b := &l.boxes[w.from]
			b.port = b.w / 2
			b.w += 34 + textWidth(d.Lines[i].Label, smallText) // room for its loop
			continue
		}
		l.edges[i].label = len(l.boxes)
		l.boxes = append(l.boxes, box{w: textWidth(d.Lines[i].Label, smallText) + 8, h: labelTall})
	}
	if !l.place() {
		d.Large = true
		return d
	}
	d.W, d.H = l.w, l.h
	for i := range d.Boxes {
		d.Boxes[i].X, d.Boxes[i].Y = l.boxes[i].x, l.boxes[i].y
	}
	for i, w := range l.edges {
		d.line(&l, w, i)
	}
	return d
}

// madeBy describes a node: who performs it, or what a join needs.
func madeBy(n view.GraphNode) string {
	switch {
	case strings.HasPrefix(n.Agent, "command ["):
		return "a program"
	case n.Agent != "":
		return n.Agent
	case n.Kind == view.NodeJoin:
		return strings.ToLower(strings.ReplaceAll(n.Note, "_", " "))
	case n.Kind == view.NodeGate:
		return map[string]string{"input": "question", "approval": "approval"}[n.Note]
	}
	return n.Note
}

// line draws an edge: curved between layers, straight within them.
func (d *drawing) line(l *layout, w edge, i int) {
	out := &d.Lines[i]
	from := d.Boxes[w.from]
	if w.from == w.to {
		x, y := from.X+from.W, from.Y+from.H/2
		out.D = fmt.Sprintf("M%d %dC%d %d %d %d %d %d", x, y-8, x+26, y-18, x+26, y+18, x+8, y+8)
		out.Head = fmt.Sprintf("%d,%d %d,%d %d,%d", x, y+8, x+9, y+4, x+8, y+12)
		out.X, out.Y = x+30+textWidth(out.Label, smallText)/2, y+4
		return
	}
	const head = 8
	up, down := w.ends()
	upper, lower := d.Boxes[up], d.Boxes[down]
	x, y := upper.X+l.boxes[up].mid(), upper.Y+upper.H
	endX, endY := lower.X+l.boxes[down].mid(), lower.Y
	out.Back = w.back
	if w.back {
		out.Head = fmt.Sprintf("%d,%d %d,%d %d,%d", x, y, x-4, y+head, x+4, y+head)
		y += head
	} else {
		out.Head = fmt.Sprintf("%d,%d %d,%d %d,%d", endX, endY, endX-4, endY-head, endX+4, endY-head)
		endY -= head
	}
	var p strings.Builder
	fmt.Fprintf(&p, "M%d %d", x, y)
	curve := func(toX, toY int) {
		mid := (y + toY) / 2
		fmt.Fprintf(&p, "C%d %d %d %d %d %d", x, mid, toX, mid, toX, toY)
		x, y = toX, toY
	}
	for _, v := range w.via {
		b := l.boxes[v]
		curve(b.x+b.mid(), b.y)
		if b.h > 0 {
			fmt.Fprintf(&p, "V%d", b.y+b.h)
			y = b.y + b.h
		}
	}
	curve(endX, endY)
	out.D = p.String()
	if w.label >= 0 {
		b := l.boxes[w.label]
		out.X, out.Y = b.x+b.w/2, b.y+b.h-4
	}
}

// titled returns the full description of a node.
func titled(n view.GraphNode) string {
	return strings.TrimSuffix(n.Label+" ("+n.Kind+") · "+madeBy(n), " · ")
}

// Middle returns the horizontal middle of the texts.
func (n node) Middle() int { return n.X + n.W/2 }

// Base returns the baseline of the name.
func (n node) Base() int { return n.Y + 19 }

// Below returns the baseline of the description.
func (n node) Below() int { return n.Y + 36 }

// textWidth estimates the width of a text in px at a font size. Wide and unknown characters count
// twice.
func textWidth(text string, size int) int {
	units := 0
	for _, r := range text {
		switch {
		case r < 0x2000 && (unicode.IsLower(r) || unicode.IsDigit(r) || unicode.IsPunct(r) || r == ' '):
			units += 58
		case r < 0x2000:
			units += 72
		default:
			units += 115
		}
	}
	return (units*size + 99) / 100
}
