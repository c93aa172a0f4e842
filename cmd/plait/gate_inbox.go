package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/plait-run/plait/internal/gate"
	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/view"
)

// An inbox shows open gates on a terminal, and takes answers line by line.
type inbox struct {
	*app
	w     *workplace
	feed  *view.GateFeed
	style style
	width int
	moves bool // the cursor can be moved

	entries  []*entry // the newest last
	numbers  int      // given so far
	selected *entry
	drawn    int    // lines above the prompt that can be drawn anew
	text     string // that stands there
}

// An entry is a gate in an inbox. Its number is never another's: who types it means
// the gate that was seen under it.
type entry struct {
	n       int
	gate    store.Gate
	seen    bool   // whole: what is approved must have been seen
	message string // to go with the approval or denial
}

func (a *app) newInbox(w *workplace, f *view.GateFeed) *inbox {
	return &inbox{app: a, w: w, feed: f, style: a.style(a.out), width: width(a.out), moves: a.getenv("TERM") != "dumb"}
}

// ages is how long an inbox is shown before its times are looked at again.
const ages = 30 * time.Second

// maxTyped bounds a line that is typed, in bytes.
const maxTyped = 1 << 20

// run shows the inbox until it is left, or ctx ends.
func (b *inbox) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	typed := make(chan string)
	go func() {
		defer close(typed)
		in := bufio.NewScanner(b.in)
		in.Buffer(nil, maxTyped)
		for in.Scan() {
			select {
			case typed <- in.Text():
			case <-ctx.Done():
				return
			}
		}
	}()
	type news struct {
		gates []store.Gate
		over  bool
		err   error
	}
	heard := make(chan news)
	go func() {
		for first := true; ; first = false {
			var n news
			if !first {
				n.err = b.feed.Wait(ctx, ages)
			}
			if n.err == nil {
				n.over, n.err = b.feed.Over(ctx)
			}
			if n.err == nil {
				n.gates, n.err = b.feed.Next(ctx)
			}
			select {
			case heard <- n:
			case <-ctx.Done():
				return
			}
			if n.err != nil || n.over {
				return
			}
		}
	}()
	var orders <-chan string // taken once there is something to see
	for {
		select {
		case <-ctx.Done():
			fmt.Fprintln(b.out)
			return ctx.Err()
		case n := <-heard:
			if n.err != nil {
				return n.err
			}
			b.hear(n.gates)
			orders = typed
			if n.over {
				fmt.Fprintln(b.out, "\nthe task has ended")
				return nil
			}
		case line, ok := <-orders:
			if !ok {
				fmt.Fprintln(b.out)
				return nil
			}
			b.drawn, b.text = 0, "" // the line that was typed stands below by now
			if quit, err := b.do(ctx, line); err != nil || quit {
				return err
			}
		}
	}
}

// hear takes in what has happened to gates.
func (b *inbox) hear(gates []store.Gate) {
	for _, g := range gates {
		at := slices.IndexFunc(b.entries, func(l *entry) bool { return l.gate.ID == g.ID })
		switch {
		case g.State == store.GateOpen && at < 0:
			b.numbers++
			b.entries = append(b.entries, &entry{n: b.numbers, gate: g})
		case g.State != store.GateOpen && at >= 0:
			if b.selected == b.entries[at] {
				b.selected = nil
				fmt.Fprintf(b.out, "\n%s  %s\n", g.ID, closed(g))
			}
			b.entries = slices.Delete(b.entries, at, at+1)
		}
	}
	if b.selected == nil {
		b.draw()
	}
}

// maxEntries is how many gates are shown at once: the newest.
const maxEntries = 8

// draw shows what waits, over what was shown before where it can.
func (b *inbox) draw() {
	var text strings.Builder
	lines := 1
	switch n := len(b.entries); n {
	case 0:
		text.WriteString("nothing waits for you\n")
	case 1:
		text.WriteString("1 gate waits for you\n")
	default:
		fmt.Fprintf(&text, "%d gates wait for you\n", n)
	}
	from := max(len(b.entries)-maxEntries, 0)
	if from > 0 {
		fmt.Fprintf(&text, "     … and %d older ones; number %d is the first\n", from, b.entries[0].n)
		lines++
	}
	for _, l := range b.entries[from:] {
		lines += writeGateBrief(&text, b.style, l.n, l.gate, b.width)
	}
	text.WriteString("number, or q: ")
	if text.String() == b.text {
		return // nothing has changed; what is being typed stays
	}
	if b.moves && b.drawn > 0 {
		fmt.Fprint(b.out, strings.Repeat("\x1b[A", b.drawn)+"\r\x1b[J")
	} else if b.text != "" {
		fmt.Fprintln(b.out)
	}
	b.drawn, b.text = lines, text.String()
	io.WriteString(b.out, b.text)
}

// An order is a line that was typed: [NUMBER] [VERB] [TEXT].
type order struct {
	n    int // zero: none
	verb string
	text string
}

// verbs are the words of an inbox, and how they may be cut short.
var verbs = map[string]string{
	"a": "approve", "approve": "approve", "d": "deny", "deny": "deny", "answer": "answer", "s": "show", "show": "show",
	"m": "message", "message": "message",
	"b": "back", "back": "back", "q": "quit", "quit": "quit", "h": "help", "help": "help", "?": "help",
}

// parseOrder reads a line; ok is false for one that is no command. Only a line that has
// nothing else approves or denies: a sentence may begin with "a" too.
func parseOrder(line string) (o order, ok bool) {
	line = strings.TrimSpace(strings.ToValidUTF8(line, "\ufffd"))
	word, rest, _ := strings.Cut(line, " ")
	if n, err := strconv.Atoi(word); err == nil && n > 0 {
		o.n = n
		line = strings.TrimSpace(rest)
		word, rest, _ = strings.Cut(line, " ")
	}
	if line == "" {
		return o, true
	}
	o.verb, o.text = verbs[strings.ToLower(word)], strings.TrimSpace(rest)
	return o, o.verb != "" && (o.text == "" || o.verb == "message" || o.verb == "answer")
}

const inboxHelp = `  NUMBER        show a gate whole
  a             approve exactly what is shown     d  deny it
  m TEXT        send TEXT along with a or d       m  alone: send no text
  answer TEXT   answer the question that is shown
  s             show it again     b  back     q  end`

// do carries out what was typed.
func (b *inbox) do(ctx context.Context, line string) (quit bool, err error) {
	o, ok := parseOrder(line)
	l := b.selected
	if o.n > 0 {
		at := slices.IndexFunc(b.entries, func(l *entry) bool { return l.n == o.n })
		if at < 0 {
			fmt.Fprintf(b.out, "number %d does not wait here\n", o.n)
			b.prompt()
			return false, nil
		}
		l = b.entries[at]
	}
	switch {
	case !ok:
		fmt.Fprintln(b.out, "not a command; nothing was approved, denied or answered\n"+inboxHelp)
	case o.verb == "quit":
		return true, nil
	case o.verb == "help":
		fmt.Fprintln(b.out, inboxHelp)
	case o.verb == "back", l == nil && o.verb == "":
		b.selected = nil
	case l == nil:
		fmt.Fprintln(b.out, "which one? Type its number first")
	case o.verb == "" && o.n == 0: // Enter goes back
		b.selected = nil
	case o.verb == "" || o.verb == "show":
		err = b.show(ctx, l)
	case !l.seen:
		if err = b.show(ctx, l); err == nil && b.selected != nil {
			fmt.Fprintln(b.out, "look at it first; then answer")
		}
	default:
		err = b.answer(ctx, l, o)
	}
	if err == nil {
		b.prompt()
	}
	return false, err
}

// prompt asks for the next line.
func (b *inbox) prompt() {
	switch {
	case b.selected == nil:
		b.draw()
	case b.selected.gate.Kind == store.GateInput:
		fmt.Fprintf(b.out, "%d  answer TEXT, s(how), b(ack), q(uit): ", b.selected.n)
	case b.selected.message != "":
		fmt.Fprintf(b.out, "%d  with %q: a(pprove), d(eny), m(essage) TEXT, s(how), b(ack), q(uit): ",
			b.selected.n, oneLine(b.selected.message, 40))
	default:
		fmt.Fprintf(b.out, "%d  a(pprove), d(eny), m(essage) TEXT, s(how), b(ack), q(uit): ", b.selected.n)
	}
}

// show prints a gate whole, as it is now.
func (b *inbox) show(ctx context.Context, l *entry) error {
	g, err := b.w.book().Gate(ctx, l.gate.ID)
	if errors.Is(err, store.ErrNotFound) {
		b.selected = nil
		fmt.Fprintf(b.out, "%s is gone\n", l.gate.ID)
		return nil
	}
	if err != nil {
		g = l.gate // where nothing can be written it is shown as it was
	}
	diff, err := b.w.view().GateDiff(ctx, g)
	if err != nil {
		return err
	}
	writeGate(b.out, g, where(g), diff)
	l.gate, l.seen, b.selected = g, true, l
	return nil
}

// answer answers a gate as gate approve, deny and answer do.
func (b *inbox) answer(ctx context.Context, l *entry, o order) error {
	b.selected = l
	if o.verb == "message" && l.gate.Kind == store.GateApproval {
		l.message = o.text
		fmt.Fprintln(b.out, "nothing is sent yet: a approves, d denies, with that text")
		return nil
	}
	if (o.verb == "answer") != (l.gate.Kind == store.GateInput) {
		fmt.Fprintln(b.out, "gate "+l.gate.ID+" "+wants(l.gate, "asks a question: answer TEXT",
			"asks for an approval: a or d"))
		return nil
	}
	ans := gate.Answer{Approve: o.verb == "approve", Reject: o.verb == "deny", Text: l.message}
	if o.verb == "answer" {
		ans.Text = o.text
	}
	g, err := b.w.answer(ctx, l.gate, ans)
	switch {
	case errors.Is(err, gate.ErrInvalid):
		fmt.Fprintln(b.out, safe(err.Error()))
		return nil
	case errors.Is(err, store.ErrConflict), errors.Is(err, store.ErrNotFound):
		fmt.Fprintln(b.out, safe(err.Error()))
	case err != nil:
		return err
	default:
		next, _ := b.w.whatNext(ctx, g)
		fmt.Fprintf(b.out, "%s  %s\n", g.ID, g.State)
		if next != "" {
			fmt.Fprintln(b.out, b.style.dim(next))
		}
	}
	// It does not wait any more; the news of that finds it gone.
	b.selected = nil
	b.entries = slices.DeleteFunc(b.entries, func(other *entry) bool { return other == l })
	return nil
}
