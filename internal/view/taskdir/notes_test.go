package taskdir

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/record/store"
)

type placed struct{ Gate, Text string }

// readNotes reads the content of a file, as a process would, and returns where each part went.
func readNotes(k NotesState, data string, open, closed []string) (NotesState, []placed) {
	n := k.Added([]byte(data))
	var out []placed
	for _, p := range n.Sort(open, closed) {
		out = append(out, placed{p.Gate, p.Text})
		for _, r := range p.Readings {
			k = k.With(r)
		}
	}
	return n.Read(), out
}

func TestNotesAreSorted(t *testing.T) {
	one, two, yes := "g-aaaaaaaaaa", "g-bbbbbbbbbb", "g-aaaaaa1111"
	for _, tt := range []struct {
		name string
		text string
		open []string
		want []placed
	}{
		{"nothing", "", []string{one}, nil},
		{"blank", "\n \t\n", []string{one}, nil},
		{"one question", "blue\n", []string{one}, []placed{{one, "blue"}}},
		{"without an end", "blue", []string{one}, []placed{{one, "blue"}}},
		{"nobody asks", "use tabs\n", nil, []placed{{"", "use tabs"}}},
		{"two questions, no marker", "blue\n", []string{one, two}, []placed{{"", "blue"}}},
		{"two questions", "hello\ngate " + one + "\nblue\n\n# gate " + two + ": why?\nbecause\nso\n", []string{one, two},
			[]placed{{"", "hello"}, {one, "blue"}, {two, "because\nso"}}},
		{"the id alone", "## " + two + "\nx\n", []string{one, two}, []placed{{two, "x"}}},
		{"a prefix", "Gate `g-bbbb`:\nx\n", []string{one, two}, []placed{{two, "x"}}},
		{"digits alone", "gate bbbbbb\nx\n", []string{one, two}, []placed{{two, "x"}}},
		{"too short", "gate bbbbb\nx\n", []string{one, two}, []placed{{"", "gate bbbbb\nx"}}},
		{"two begin so", "gate aaaaaa\nx\n", []string{one, two}, []placed{{"", "gate aaaaaa\nx"}}},
		{"below an approval", "gate " + yes + "\napprove\n", []string{one}, []placed{{"", "gate " + yes + "\napprove"}}},
		{"before a marker", "by the way\ngate " + one + "\nblue\n", []string{one}, []placed{{"", "by the way"}, {one, "blue"}}},
		{"twice", "gate " + one + "\nblue\ngate " + one + "\nred\n", []string{one}, []placed{{one, "blue"}, {"", "gate " + one + "\nred"}}},
		{"a marker alone", "gate " + one + "\n", []string{one, two}, nil},
		{"no marker", "the gate " + one + " is silly\n", []string{one, two}, []placed{{"", "the gate " + one + " is silly"}}},
		{"not UTF-8", "bl\xffue\n", []string{one}, []placed{{one, "bl\ufffdue"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, got := readNotes(NewNotesState(), notes+tt.text, tt.open, []string{yes})
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

func TestNotesAreReadOnce(t *testing.T) {
	one, two := "g-aaaaaaaaaa", "g-bbbbbbbbbb"
	type look struct {
		file string
		want []placed
	}
	note := func(texts ...string) (out []placed) {
		for _, text := range texts {
			out = append(out, placed{"", text})
		}
		return out
	}
	for name, looks := range map[string][]look{
		"added":               {{notes + "a\n", note("a")}, {notes + "a\n", nil}, {notes + "a\nb\n", note("b")}, {notes + "a\nb\nb\n", note("b")}},
		"in the middle":       {{notes + "a\nc\n", note("a\nc")}, {notes + "a\nb\nc\n", note("b")}, {notes + "a\nb\nc\nd\n", note("d")}},
		"deleted":             {{notes + "a\nb\n", note("a\nb")}, {notes + "b\n", nil}, {"", nil}, {"a\n", note("a")}},
		"anew":                {{"a\n", note("a")}, {"b\n", note("b")}},
		"of an earlier Plait": {{"# Notes\n" + earlierNotes, nil}, {"# Notes\n" + earlierNotes + "a\n", note("a")}},
		"windows":             {{"a\r\n", note("a")}, {"b\na\n", note("b")}},
		"a line that grows":   {{notes + "a", note("a")}, {notes + "a b\n", note("b")}, {notes + "x\na b\n", note("x")}},
		"paragraphs":          {{"old\n", note("old")}, {"a\n\nb\n\nold\n", note("a\n\nb")}},
		"below a marker that stood there": {
			{notes + "gate " + one + "\n\n\ngate " + two + "\n", nil},
			{notes + "gate " + one + "\nblue\n\ngate " + two + "\nred\n", []placed{{one, "blue"}, {two, "red"}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			k := NewNotesState()
			for i, l := range looks {
				open := []string{one, two}
				var got []placed
				k, got = readNotes(k, l.file, open, nil)
				if diff := cmp.Diff(l.want, got); diff != "" {
					t.Errorf("look %d: -want +got\n%s", i, diff)
				}
			}
		})
	}
}

// Another process can continue from the recorded readings, wherever the first one stopped.
func TestNotesGoOnAfterACrash(t *testing.T) {
	one, two := "g-aaaaaaaaaa", "g-bbbbbbbbbb"
	before, _ := readNotes(NewNotesState(), notes+"old\n", nil, nil)
	for name, file := range map[string]string{
		"added":  notes + "old\nhi\ngate " + one + "\nblue\ngate " + two + "\nred\nand so on\n",
		"edited": notes + "hi\ngate " + one + "\nblue\nold\ngate " + two + "\nred\nand so on\n",
	} {
		n := before.Added([]byte(file))
		parts := n.Sort([]string{one, two}, nil)
		if len(parts) != 3 {
			t.Fatalf("%s: parts %+v", name, parts)
		}
		k, open := before, []string{one, two}
		for i, p := range parts {
			for _, r := range p.Readings {
				k = k.With(r)
			}
			if p.Gate != "" {
				open = open[1:]
			}
			var rest []placed
			for _, p := range k.Added([]byte(file)).Sort(open, []string{one, two}) {
				rest = append(rest, placed{p.Gate, p.Text})
			}
			want := 2 - i
			if len(rest) != want {
				t.Errorf("%s: after part %d there is left %+v", name, i, rest)
			}
		}
	}
}

func TestNotesAreBounded(t *testing.T) {
	k, all := NewNotesState(), ""
	for i := range 3000 {
		all += strings.Repeat("x\x01\"", 20) + string(rune('a'+i%26)) + "\n"
	}
	file, got := []byte(notes+all), ""
	for rounds := 0; ; rounds++ {
		n := k.Added(file)
		parts := n.Sort(nil, nil)
		if len(parts) == 0 {
			break
		}
		for _, p := range parts {
			for _, r := range p.Readings {
				data, err := json.Marshal(r)
				if err != nil || len(data) > store.MaxEventPayload {
					t.Fatalf("a payload of %d bytes: %v", len(data), err)
				}
				got += r.Text
				k = k.With(r)
			}
		}
		if rounds > 9 {
			t.Fatal("it does not end")
		}
	}
	if got != all {
		t.Errorf("of %d bytes %d were read", len(all), len(got))
	}
	// The rest of a text that was cut is a note, whichever gate is open.
	flood := strings.Repeat("y", maxAdded)
	k, _ = readNotes(NewNotesState(), notes+"gate g-aaaaaaaaaa\n"+flood+" and more", []string{"g-aaaaaaaaaa"}, nil)
	_, rest := readNotes(k, notes+"gate g-aaaaaaaaaa\n"+flood+" and more", []string{"g-bbbbbbbbbb"}, nil)
	for _, p := range rest {
		if p.Gate != "" {
			t.Errorf("the rest of an answer answers another gate: %d bytes", len(p.Text))
		}
	}
}

func TestNotesOfOddFiles(t *testing.T) {
	d := At(t.TempDir(), taskID)
	if data, err := d.Notes(); data != nil || err != nil {
		t.Errorf("without a directory: %q, %v", data, err)
	}
	if err := d.Create(Program{}, false); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(d.Path(), notesFile)
	if data, err := d.Notes(); string(data) != notes || err != nil || !NewNotesState().Added(data).Blank() {
		t.Errorf("a new file: %q, %v", data, err)
	}
	outside := filepath.Join(t.TempDir(), "secret")
	os.WriteFile(outside, []byte("secret"), 0o644)
	for name, plant := range map[string]func() error{
		"a link":          func() error { return os.Symlink(outside, file) },
		"a link inside":   func() error { return os.Symlink("state-board.md", file) },
		"a second name":   func() error { return os.Link(outside, file) },
		"a FIFO":          func() error { return syscall.Mkfifo(file, 0o644) },
		"a directory":     func() error { return os.Mkdir(file, 0o755) },
		"too large":       func() error { return os.WriteFile(file, make([]byte, maxNotesFile+1), 0o644) },
		"without a right": nil,
	} {
		if plant == nil {
			continue
		}
		os.RemoveAll(file)
		if err := plant(); err != nil {
			t.Fatal(err)
		}
		if data, err := d.Notes(); err == nil || data != nil {
			t.Errorf("%s was read: %q, %v", name, data, err)
		}
		d.NotesStamp()
	}
	os.RemoveAll(file)
	if data, err := d.Notes(); data != nil || err != nil || d.NotesStamp() != (Stamp{}) {
		t.Errorf("a missing file: %q, %v", data, err)
	}
}

func FuzzNotes(f *testing.F) {
	f.Add("", "a\n", true)
	f.Add("a\n", "gate g-aaaaaaaaaa\nyes\n", true)
	f.Add("a\nb", "b\na\n\xff", false)
	f.Add("# g-cccccccccc\n", "# g-cccccccccc\napprove\n", false)
	open, closed := []string{"g-aaaaaaaaaa", "g-bbbbbbbbbb"}, []string{"g-cccccccccc"}
	f.Fuzz(func(t *testing.T, old, more string, append bool) {
		k, _ := readNotes(NewNotesState(), old, open, closed)
		file := more
		if append {
			file = old + more
		}
		n := k.Added([]byte(file))
		if n.Blank() != (len(n.Sort(nil, nil)) == 0) {
			t.Errorf("blank %v, parts %v", n.Blank(), n.Sort(nil, nil))
		}
		was := map[string]bool{}
		for _, p := range n.Sort(open, closed) {
			if p.Gate == closed[0] || p.Gate != "" && was[p.Gate] || strings.TrimSpace(p.Text) == "" {
				t.Errorf("part %+v", p)
			}
			was[p.Gate] = true
			whole := ""
			for i, r := range p.Readings {
				whole += r.Text
				if r.Gate != p.Gate || r.More != (i < len(p.Readings)-1) || r.To > int64(len(file)) && !n.cut {
					t.Errorf("reading %+v of %d bytes", r, len(file))
				}
			}
		}
		next, _ := readNotes(k, file, open, closed)
		if again := next.Added([]byte(file)); !n.More() && len(again.Sort(open, closed)) != 0 {
			t.Errorf("read twice: %+v", again.Sort(open, closed))
		}
	})
}

func FuzzMarker(f *testing.F) {
	f.Add("## gate g-aaaaaa")
	f.Add("gate `g-bbbbbbbbbb`:")
	ids := []string{"g-aaaaaaaaaa", "g-bbbbbbbbbb"}
	f.Fuzz(func(t *testing.T, line string) {
		if id := marker(line, ids); id != "" && !strings.Contains(strings.ToLower(line), id[2:8]) && !strings.Contains(strings.ToLower(line), id[:6]) {
			t.Errorf("%q marks %s", line, id)
		}
	})
}
