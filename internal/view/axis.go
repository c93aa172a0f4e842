package view

import (
	"cmp"
	"slices"
)

// An Axis is a period of time as it is drawn. Time in which agents work is drawn to scale; long
// waits in between are compressed. Positions and widths are fractions of the whole width, from 0
// to 1.
type Axis struct {
	Pieces []Piece `json:"pieces"` // in order, without gaps
}

// A Piece of an axis.
type Piece struct {
	From  int64   `json:"from"` // Unix ms
	To    int64   `json:"to"`
	At    float64 `json:"at"`    // where it begins
	Width float64 `json:"width"` // how much it takes
	Cut   bool    `json:"cut"`   // compressed: no agent was working
}

// A Stretch is a period of time, in Unix ms.
type Stretch struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
}

// Limits on the part of an axis that waits may take, relative to the time in which agents work.
const (
	waitShare  = 8 // each an eighth
	waitsShare = 2 // all together half
)

// newAxis lays out the time between from and to. busy is when agents worked.
func newAxis(from, to int64, busy []Stretch) Axis {
	to = max(to, from+1)
	busy = union(busy, from, to)
	var worked int64
	var pieces []Piece
	at, waits := from, 0
	for _, b := range busy {
		if b.From > at {
			pieces = append(pieces, Piece{From: at, To: b.From, Cut: true})
			waits++
		}
		pieces = append(pieces, Piece{From: b.From, To: b.To})
		worked, at = worked+b.To-b.From, b.To
	}
	if at < to {
		pieces = append(pieces, Piece{From: at, To: to, Cut: true})
		waits++
	}
	longest := float64(to - from) // how long a wait may be as drawn
	if worked > 0 {
		longest = float64(worked) / float64(max(waitShare, waitsShare*waits))
	}
	total := 0.0
	for i := range pieces {
		p := &pieces[i]
		p.Width = float64(p.To - p.From)
		if p.Cut = p.Cut && p.Width > longest; p.Cut {
			p.Width = longest
		}
		total += p.Width
	}
	x := 0.0
	for i := range pieces {
		pieces[i].Width /= total
		pieces[i].At = x
		x += pieces[i].Width
	}
	return Axis{pieces}
}

// union returns the parts of list between from and to, merged and in order.
func union(list []Stretch, from, to int64) []Stretch {
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b Stretch) int { return cmp.Compare(a.From, b.From) })
	var out []Stretch
	for _, s := range list {
		s.From, s.To = max(s.From, from), min(s.To, to)
		if s.From >= s.To {
			continue
		}
		if n := len(out); n > 0 && s.From <= out[n-1].To {
			out[n-1].To = max(out[n-1].To, s.To)
			continue
		}
		out = append(out, s)
	}
	return out
}

// without returns the parts of s outside holes.
func (s Stretch) without(holes []Stretch) []Stretch {
	var out []Stretch
	for _, h := range union(holes, s.From, s.To) {
		if h.From > s.From {
			out = append(out, Stretch{s.From, h.From})
		}
		s.From = h.To
	}
	if s.From < s.To {
		out = append(out, s)
	}
	return out
}

// Place returns the position of a time on the axis.
func (a Axis) Place(t int64) float64 {
	if len(a.Pieces) == 0 || t <= a.Pieces[0].From {
		return 0
	}
	for _, p := range a.Pieces {
		if t < p.To {
			return p.At + p.Width*float64(t-p.From)/float64(p.To-p.From)
		}
	}
	return 1
}

// A Tick is a labeled time on an axis.
type Tick struct {
	Since int64   `json:"since"` // ms since the axis begins
	At    float64 `json:"at"`
}

// steps are the possible distances between ticks, in ms.
var steps = []int64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 15_000, 30_000, 60_000, 120_000,
	300_000, 600_000, 900_000, 1_800_000, 3_600_000, 7_200_000, 10_800_000, 21_600_000, 43_200_000, 86_400_000}

// Ticks returns about n round times. None is in a compressed wait.
func (a Axis) Ticks(n int) []Tick {
	if len(a.Pieces) == 0 {
		return nil
	}
	scale := 0.0 // ms in the whole width if nothing were compressed
	for _, p := range a.Pieces {
		if !p.Cut {
			scale = max(scale, float64(p.To-p.From)/p.Width)
		}
	}
	step := steps[len(steps)-1]
	for _, s := range slices.Backward(steps) {
		if float64(s)*float64(n) >= scale {
			step = s
		}
	}
	begin := a.Pieces[0].From
	var out []Tick
	for _, p := range a.Pieces {
		if p.Cut {
			continue
		}
		first := (p.From - begin + step - 1) / step * step
		for t := first; t <= p.To-begin; t += step {
			at := a.Place(begin + t)
			if k := len(out); k > 0 && at-out[k-1].At < 0.7/float64(n) {
				continue // it would overlap the previous tick
			}
			out = append(out, Tick{t, at})
		}
	}
	return out
}

func length(list []Stretch) (ms int64) {
	for _, s := range list {
		ms += s.To - s.From
	}
	return ms
}
