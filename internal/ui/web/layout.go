package web

import (
	"cmp"
	"math"
	"slices"
)

// A layout arranges boxes in layers (the Sugiyama method): cycles are broken so that edges lead
// downwards, each box gets the layer after the lowest of its predecessors, the boxes of a layer are
// ordered by their neighbors, and then aligned vertically with them. It is deterministic, and its
// time is limited by maxBoxes and maxBends.
//
// A label is a separate box on its edge, so that nothing overlaps it.
type layout struct {
	boxes []box
	edges []edge
	w, h  int // total, in px
}

// Limits of a drawing.
const (
	maxBoxes = 2000 // larger drawings are not laid out
	maxBends = 6000 // of all long edges; any more are drawn straight
)

// Distances, in px.
const (
	boxGap   = 22 // between boxes of a layer
	layerGap = 26 // between layers
	margin   = 12
	bendSize = 14 // room for an edge that passes through a layer
)

// A box is placed in the layout: a node of the drawing, a label, or a bend of a long edge.
type box struct {
	w, h  int
	x, y  int // of its upper left corner, once laid out
	port  int // where edges attach, from its left; 0 for the middle
	layer int
	order int  // in its layer
	bend  bool // of a long edge
}

// mid returns where edges attach, from the left of the box.
func (b box) mid() int {
	if b.port != 0 {
		return b.port
	}
	return b.w / 2
}

// An edge leads from one box to another.
type edge struct {
	from, to int
	label    int  // index of the label's box, or -1
	back     bool // reversed: it closes a cycle
	via      []int
}

// A link is an edge between adjacent layers, downwards.
type link struct{ up, down int }

// place lays out the boxes. Edges from a box to itself are ignored. It reports false if there are
// too many boxes.
func (l *layout) place() bool {
	if len(l.boxes) > maxBoxes {
		return false
	}
	n := len(l.boxes)
	l.breakCycles()
	l.rank(n)
	links := l.split()
	layers := l.layers()
	l.order(layers, links)
	l.coordinates(layers, links)
	return true
}

// breakCycles reverses the edges that close a cycle: those that lead to a box on the current path of
// a depth-first walk.
func (l *layout) breakCycles() {
	out := make([][]int, len(l.boxes)) // edges, by source
	for i, w := range l.edges {
		if w.from != w.to {
			out[w.from] = append(out[w.from], i)
		}
	}
	const open, closed = 1, 2
	state := make([]int, len(l.boxes))
	for start := range l.boxes {
		if state[start] != 0 {
			continue
		}
		type place struct{ box, next int }
		stack := []place{{start, 0}}
		state[start] = open
		for len(stack) > 0 {
			at := &stack[len(stack)-1]
			if at.next == len(out[at.box]) {
				state[at.box] = closed
				stack = stack[:len(stack)-1]
				continue
			}
			w := &l.edges[out[at.box][at.next]]
			at.next++
			switch state[w.to] {
			case open:
				w.back = true
			case 0:
				state[w.to] = open
				stack = append(stack, place{w.to, 0})
			}
		}
	}
}

// ends returns the boxes of an edge, the upper one first.
func (w edge) ends() (up, down int) {
	if w.back {
		return w.to, w.from
	}
	return w.from, w.to
}

// rank assigns each of the first n boxes to the layer after the lowest of its predecessors. Between
// layers of boxes there is one for labels.
func (l *layout) rank(n int) {
	above := make([]int, n)
	below := make([][]int, n)
	for _, w := range l.edges {
		if up, down := w.ends(); up != down {
			above[down]++
			below[up] = append(below[up], down)
		}
	}
	var todo []int
	for i := range n {
		if above[i] == 0 {
			todo = append(todo, i)
		}
	}
	for ; len(todo) > 0; todo = todo[1:] {
		for _, b := range below[todo[0]] {
			l.boxes[b].layer = max(l.boxes[b].layer, l.boxes[todo[0]].layer+2)
			above[b]--
			if above[b] == 0 {
				todo = append(todo, b)
			}
		}
	}
}

// split puts each label and the bends of long edges into the layers that they pass.
func (l *layout) split() []link {
	var links []link
	bends := 0
	for i := range l.edges {
		w := &l.edges[i]
		up, down := w.ends()
		if up == down {
			continue
		}
		at := l.boxes[up].layer + 1
		if w.back {
			at = l.boxes[down].layer - 1 // a label is placed where its edge begins
		}
		prev := up
		for layer := l.boxes[up].layer + 1; layer < l.boxes[down].layer; layer++ {
			var b int
			switch {
			case layer == at && w.label >= 0:
				b = w.label
				l.boxes[b].layer = layer
			case bends < maxBends:
				bends++
				b = len(l.boxes)
				l.boxes = append(l.boxes, box{w: bendSize, layer: layer, bend: true})
			default:
				continue
			}
			links = append(links, link{prev, b})
			w.via = append(w.via, b)
			prev = b
		}
		links = append(links, link{prev, down})
	}
	return links
}

// layers returns the boxes of each layer in insertion order.
func (l *layout) layers() [][]int {
	var layers [][]int
	for i, b := range l.boxes {
		for len(layers) <= b.layer {
			layers = append(layers, nil)
		}
		layers[b.layer] = append(layers[b.layer], i)
	}
	l.number(layers)
	return layers
}

func (l *layout) number(layers [][]int) {
	for _, layer := range layers {
		for i, b := range layer {
			l.boxes[b].order = i
		}
	}
}

// sweeps is how often layers are reordered, alternating between down and up.
const sweeps = 12

// order sorts each layer by the average position of its neighbors in the adjacent layer, and
// keeps the order with the fewest crossings.
func (l *layout) order(layers [][]int, links []link) {
	ups, downs := l.neighbors(links)
	best, least := clone(layers), l.crossings(links)
	for i := 0; i < sweeps && least > 0; i++ {
		next := ups
		if i%2 == 1 {
			next = downs
		}
		for k := range layers {
			if i%2 == 1 {
				k = len(layers) - 1 - k
			}
			middle := map[int]float64{}
			for _, b := range layers[k] {
				middle[b] = float64(l.boxes[b].order)
				if len(next[b]) > 0 {
					sum := 0
					for _, o := range next[b] {
						sum += l.boxes[o].order
					}
					middle[b] = float64(sum) / float64(len(next[b]))
				}
			}
			slices.SortStableFunc(layers[k], func(a, b int) int {
				return cmp.Compare(middle[a], middle[b])
			})
			for j, b := range layers[k] {
				l.boxes[b].order = j
			}
		}
		if n := l.crossings(links); n < least {
			best, least = clone(layers), n
		}
	}
	copy(layers, best)
	l.number(layers)
}

func clone(layers [][]int) [][]int {
	out := make([][]int, len(layers))
	for i := range layers {
		out[i] = slices.Clone(layers[i])
	}
	return out
}

// neighbors returns the boxes above and below each box.
func (l *layout) neighbors(links []link) (ups, downs [][]int) {
	ups, downs = make([][]int, len(l.boxes)), make([][]int, len(l.boxes))
	for _, k := range links {
		ups[k.down] = append(ups[k.down], k.up)
		downs[k.up] = append(downs[k.up], k.down)
	}
	return ups, downs
}

// crossings counts the links that cross, layer by layer. Links that skip layers are left out.
func (l *layout) crossings(links []link) int {
	between := map[int][]link{}
	most := 0
	for _, k := range links {
		if up := l.boxes[k.up]; l.boxes[k.down].layer == up.layer+1 {
			between[up.layer] = append(between[up.layer], link{up.order, l.boxes[k.down].order})
			most = max(most, l.boxes[k.down].order)
		}
	}
	n := 0
	tree := make([]int, most+2)
	for _, list := range between {
		slices.SortFunc(list, func(a, b link) int {
			return cmp.Or(cmp.Compare(a.up, b.up), cmp.Compare(a.down, b.down))
		})
		clear(tree)
		for seen, k := range list {
			left := 0 // links so far that do not end further right
			for i := k.down + 1; i > 0; i -= i & -i {
				left += tree[i]
			}
			n += seen - left
			for i := k.down + 1; i < len(tree); i += i & -i {
				tree[i]++
			}
		}
	}
	return n
}

// coordinates places layers below each other, and boxes as close to their neighbors as the order
// allows.
func (l *layout) coordinates(layers [][]int, links []link) {
	y := margin
	for _, layer := range layers {
		tall := 0
		for _, b := range layer {
			tall = max(tall, l.boxes[b].h)
		}
		x := 0
		for _, b := range layer {
			if l.boxes[b].bend {
				l.boxes[b].h = tall // it passes through the layer
			}
			l.boxes[b].x, l.boxes[b].y = x, y+(tall-l.boxes[b].h)/2
			x += l.boxes[b].w + boxGap
		}
		y += tall + layerGap
		if tall == 0 {
			y -= layerGap * 2 / 3 // an empty layer needs less space
		}
	}
	ups, downs := l.neighbors(links)
	for i := range sweeps {
		next := ups
		if i%2 == 1 {
			next = downs
		}
		for k := range layers {
			if i%2 == 1 {
				k = len(layers) - 1 - k
			}
			l.settle(layers[k], next)
		}
	}
	left := 0
	for i, b := range l.boxes {
		if i == 0 || b.x < left {
			left = b.x
		}
	}
	for i := range l.boxes {
		b := &l.boxes[i]
		b.x += margin - left
		l.w, l.h = max(l.w, b.x+b.w+margin), max(l.h, b.y+b.h+margin)
	}
}

// settle moves the boxes of a layer towards the average of their neighbors, without changing
// their order or overlapping. Conflicting positions are averaged.
func (l *layout) settle(layer []int, next [][]int) {
	type pool struct{ sum, weight, first float64 }
	var pools []pool
	offset := make([]float64, len(layer))
	for i, b := range layer {
		if i > 0 {
			offset[i] = offset[i-1] + float64(l.boxes[layer[i-1]].w+boxGap)
		}
		target, weight := float64(l.boxes[b].x), 0.1
		if len(next[b]) > 0 {
			sum := 0
			for _, o := range next[b] {
				sum += l.boxes[o].x + l.boxes[o].mid()
			}
			target, weight = float64(sum)/float64(len(next[b]))-float64(l.boxes[b].mid()), 1
			if l.boxes[b].bend {
				weight = 4 // to keep long edges straight
			}
		}
		pools = append(pools, pool{(target - offset[i]) * weight, weight, float64(i)})
		for len(pools) > 1 {
			a, z := pools[len(pools)-2], pools[len(pools)-1]
			if a.sum/a.weight <= z.sum/z.weight {
				break
			}
			pools = append(pools[:len(pools)-2], pool{a.sum + z.sum, a.weight + z.weight, a.first})
		}
	}
	for p, i := 0, 0; i < len(layer); i++ {
		for p+1 < len(pools) && float64(i) >= pools[p+1].first {
			p++
		}
		at := int(math.Round(pools[p].sum/pools[p].weight + offset[i]))
		if i > 0 { // whole pixels
			before := l.boxes[layer[i-1]]
			at = max(at, before.x+before.w+boxGap)
		}
		l.boxes[layer[i]].x = at
	}
}
