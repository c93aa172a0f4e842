package view

import (
	"cmp"
	"slices"
)

// An Axis is a stretch of time as it is drawn: time in which agents work has its length,
// long waits between are cut short. Shares are of the whole width, from 0 to 1.
type Axis struct {
	Pieces []Piece `json:"pieces"` // in order, without gaps
}

// A Piece of an axis.
type Piece struct {
	From  int64   `json:"from"` // Unix ms
	To    int64   `json:"to"`
	At    float64 `json:"at"`    // where it begins
	Width float64 `json:"width"` // how much it takes
	Cut   bool    `json:"cut"`   // it is drawn shorter than it was: nobody worked
}

// A Stretch is from one time to another, Unix ms.
type Stretch struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
}

// The most that all waits together, and each by itself, may take of an axis beside the time in which agents work.
const (
	waitShare  = 8 // each an eighth
	waitsShare = 2 // all together half
)

// newAxis lays out the time from one moment to another, during busy of which agents worked.
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
	longest := float64(to - from) // that a wait may look
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

// union is the stretches within two times, in order, as ones that do not touch.
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

// without is what is left of s outside holes.
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

// A Tick is a time that is written on an axis.
type Tick struct {
	Since int64   `json:"since"` // ms since the axis begins
	At    float64 `json:"at"`
}

// steps are what lies between two ticks, in ms.
var steps = []int64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 15_000, 30_000, 60_000, 120_000,
	300_000, 600_000, 900_000, 1_800_000, 3_600_000, 7_200_000, 10_800_000, 21_600_000, 43_200_000, 86_400_000}

// Ticks are about n round times, none of them in a wait that is cut short.
func (a Axis) Ticks(n int) []Tick {
	if len(a.Pieces) == 0 {
		return nil
	}
	scale := 0.0 // ms that the whole width would be without cuts
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
				continue // it would be written over the one before
			}
			out = append(out, Tick{t, at})
		}
	}
	return out
}
