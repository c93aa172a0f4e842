package web

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/view"
)

// A diffView is a change as every page shows it: the template "diffview". Lines that are not on the page are loaded
// from the page of the change, one file at a time.
type diffView struct {
	ID             string // unique on the page
	Groups         []diffGroup
	Files          []*diffFile
	Added, Removed int
	More           int    // files that are not listed
	At             string // the address of the change's page, "" if it has none
	Patch          string // the address of its patch, "" if it has none
	From, To       string // git trees, "" if they are not known
	Alone          bool   // on the change's page
	Split          bool   // side by side
	Remark         *remark
}

// A diffGroup is the files of one directory, for the list of files.
type diffGroup struct {
	Dir   string // with a slash, "" for the root
	Files []*diffFile
}

// A diffFile is a changed file.
type diffFile struct {
	changedFile
	ID    string // unique on the page, the same for the same file
	Seen  string // the same for the same change of the file
	Dir   string // with a slash
	Name  string
	Parts []diffPart
	Load  string // the address of its lines, "" if they are here or there are none
	Open  bool
	Cut   bool // there are more lines than pages show
	Whole string
	Blame string // the address of who wrote its lines, "" if that cannot be told
}

// A diffPart is a hunk, or a long unchanged part of it.
type diffPart struct {
	Gap    int // lines left out before it
	About  string
	Folded bool
	Lines  []*diffLine
	Pairs  [][2]*diffLine // side by side, in place of Lines
}

// A diffLine is a line of a file.
type diffLine struct {
	Class    string // add, del or ""
	Old, New int
	Spans    []token
	NoEnd    bool
	Remarks  []given
}

// Lines returns how many lines the hunks of a file have.
func (f *diffFile) Lines() (n int) {
	for _, h := range f.Hunks {
		n += len(h.Lines)
	}
	return n
}

// Paired reports whether the lines are side by side.
func (f *diffFile) Paired() bool {
	return slices.ContainsFunc(f.Parts, func(p diffPart) bool { return p.Pairs != nil })
}

// Count returns how many lines there are.
func (p diffPart) Count() int { return max(len(p.Lines), len(p.Pairs)) }

// Count returns how many files changed.
func (v *diffView) Count() int { return len(v.Files) + v.More }

// And returns what goes between the address of the change's page and another parameter.
func (v *diffView) And() string {
	if strings.Contains(v.At, "?") {
		return "&"
	}
	return "?"
}

// A diffCell is the number of a line, with its fragment if it can be linked to.
type diffCell struct {
	Class string
	N     int
	To    string
}

func newDiffCell(f *diffFile, l *diffLine, n int, linked bool) diffCell {
	c := diffCell{Class: l.Class, N: n}
	if linked && f.ID != "" {
		side := "R"
		if l.Class == "del" {
			side = "L"
		}
		c.To = fmt.Sprint(f.ID, side, n)
	}
	return c
}

// diffOf returns a diff that is a part of something else. name is the file's, if that is shown elsewhere.
func diffOf(name, text string) []*diffFile {
	var out []*diffFile
	for _, f := range splitPatch(text) {
		f.Path = cmp.Or(name, f.Path)
		d := newDiffFile(f, diffOptions{})
		d.fill(diffOptions{})
		d.ID = ""
		if name != "" {
			d.Path = ""
		}
		out = append(out, d)
	}
	return out
}

// Limits of what pages show.
const (
	maxFiles     = 500     // of a change
	inlineLines  = 300     // of a file that has an address
	pageLines    = 400     // of all files of a change that has an address
	maxPartLines = 4_000   // of a file that has none
	maxFileLines = 20_000  // of a file on its own page
	maxFileBytes = 1 << 20 // of a file's lines
	maxRest      = 512 << 10
	maxColored   = 2_000 // bytes of a line
	foldedLines  = 12    // unchanged lines; of more, all but maxContext at each end are folded
	maxContext   = 3
)

// A diffOptions says how a change is shown.
type diffOptions struct {
	id       string
	at       string // see diffView
	from, to string
	alone    bool // one file of it, or all, on its own page
	split    bool
	one      bool // a single file, with all of its lines
	remark   *remark
	given    []given
}

// newDiffView returns a change as pages show it.
func newDiffView(files []changedFile, o diffOptions) *diffView {
	v := &diffView{ID: o.id, At: o.at, From: o.from, To: o.to, Alone: o.alone, Split: o.split, Remark: o.remark,
		More: max(0, len(files)-maxFiles)}
	room := pageLines
	for i, f := range files {
		v.Added, v.Removed = v.Added+f.Added, v.Removed+f.Removed
		if i >= maxFiles {
			continue
		}
		one := newDiffFile(f, o)
		n := one.Lines()
		switch {
		case n == 0:
			one.Open = f.Rest != ""
		case o.at == "" || o.one || n <= inlineLines && n <= room:
			room -= n
			one.Open = true
			one.fill(o)
		default:
			one.Load, one.Open = one.address(o, ""), n <= inlineLines || len(files) == 1
		}
		v.Files = append(v.Files, one)
		if last := len(v.Groups) - 1; last < 0 || v.Groups[last].Dir != one.Dir {
			v.Groups = append(v.Groups, diffGroup{Dir: one.Dir})
		}
		last := &v.Groups[len(v.Groups)-1]
		last.Files = append(last.Files, one)
	}
	return v
}

func newDiffFile(f changedFile, o diffOptions) *diffFile {
	name := cmp.Or(f.Path, "(no name)")
	d := &diffFile{changedFile: f, Name: path.Base(name), ID: o.id + "-" + digest(f.Path)}
	d.Dir = strings.TrimSuffix(name, d.Name)
	if d.Cut = len(d.Rest) > maxRest; d.Cut {
		d.Rest = strings.ToValidUTF8(d.Rest[:maxRest], "")
	}
	var all strings.Builder
	for _, h := range f.Hunks {
		for _, l := range h.Lines {
			all.WriteByte(l.Kind)
			all.WriteString(l.Text + "\n")
		}
	}
	d.Seen = digest(f.Path + "\n" + f.Mode + "\n" + all.String() + f.Rest)
	if o.to != "" && f.What != "deleted" && len(f.Hunks) > 0 {
		d.Whole = d.address(o, "&whole=true")
		if thread, _, ok := strings.Cut(o.at, "/changes?"); ok {
			d.Blame = thread + "/blame?" + url.Values{"tree": {o.to}, "file": {f.Path}}.Encode()
		}
	}
	return d
}

// digest returns a short name for a text.
func digest(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text)))[:12] }

// address returns the address of the page of a file of a change.
func (f *diffFile) address(o diffOptions, more string) string {
	if o.at == "" {
		return ""
	}
	if o.split {
		more += "&diff=split"
	}
	return o.at + (&diffView{At: o.at}).And() + "file=" + url.QueryEscape(f.Path) + more
}

// fill sets the lines of a file.
func (f *diffFile) fill(o diffOptions) {
	lang := languageOf(f.Path)
	most := maxPartLines
	if o.one {
		most = maxFileLines
	}
	next, bytes := 1, 0 // next is the first line, before the change, that was not shown
	for _, h := range f.Hunks {
		part := diffPart{Gap: max(0, h.Old-next), About: h.About}
		before, after := scanner{language: lang}, scanner{language: lang}
		for _, l := range h.Lines {
			most, bytes = most-1, bytes+len(l.Text)
			if f.Cut = f.Cut || most < 0 || bytes > maxFileBytes; f.Cut {
				break
			}
			part.Lines = append(part.Lines, newDiffLine(l, &before, &after))
			next = max(next, l.Old+1)
		}
		for _, p := range part.fold() {
			p.remark(f, o)
			if o.split {
				p.pair()
			}
			f.Parts = append(f.Parts, p)
		}
	}
}

// newDiffLine colors a line. before and after scan the file before the change and after it.
func newDiffLine(l view.PatchLine, before, after *scanner) *diffLine {
	d := &diffLine{Old: l.Old, New: l.New, NoEnd: l.NoEnd}
	switch l.Kind {
	case view.LineAdded:
		d.Class = "add"
	case view.LineRemoved:
		d.Class = "del"
	}
	if len(l.Text) > maxColored {
		d.Spans = []token{{"", l.Text}}
		return d
	}
	if l.Kind != view.LineAdded {
		d.Spans = before.spans(l.Text)
	}
	if l.Kind != view.LineRemoved {
		d.Spans = after.spans(l.Text)
	}
	d.Spans = marked(d.Spans, l.Mark)
	return d
}

// marked cuts spans where a mark begins and ends, and adds the class "w" to what it covers.
func marked(spans []token, mark [2]int) []token {
	if mark[0] == mark[1] {
		return spans
	}
	var out []token
	at := 0
	for _, s := range spans {
		from, to := min(max(mark[0]-at, 0), len(s.Text)), min(max(mark[1]-at, 0), len(s.Text))
		at += len(s.Text)
		for _, p := range []token{{s.Class, s.Text[:from]}, {strings.TrimSpace(s.Class + " w"), s.Text[from:to]},
			{s.Class, s.Text[to:]}} {
			if p.Text != "" {
				out = append(out, p)
			}
		}
	}
	return out
}

// fold splits a hunk where many lines are unchanged.
func (p diffPart) fold() []diffPart {
	out := []diffPart{{Gap: p.Gap, About: p.About}}
	for i := 0; i < len(p.Lines); {
		last := &out[len(out)-1]
		n := i
		for n < len(p.Lines) && p.Lines[n].Class == "" {
			n++
		}
		if n == i {
			last.Lines = append(last.Lines, p.Lines[i])
			i++
			continue
		}
		head, tail := maxContext, maxContext
		if i == 0 {
			head = 0
		}
		if n == len(p.Lines) {
			tail = 0
		}
		if n-i <= foldedLines {
			last.Lines = append(last.Lines, p.Lines[i:n]...)
		} else {
			last.Lines = append(last.Lines, p.Lines[i:i+head]...)
			out = append(out, diffPart{Folded: true, Lines: p.Lines[i+head : n-tail]}, diffPart{Lines: p.Lines[n-tail : n : n]})
		}
		i = n
	}
	return out
}

// pair puts the lines that were removed beside those that were added in their place.
func (p *diffPart) pair() {
	for i := 0; i < len(p.Lines); {
		if l := p.Lines[i]; l.Class == "" {
			p.Pairs = append(p.Pairs, [2]*diffLine{l, l})
			i++
			continue
		}
		del := i
		for i < len(p.Lines) && p.Lines[i].Class == "del" {
			i++
		}
		add := i
		for i < len(p.Lines) && p.Lines[i].Class == "add" {
			i++
		}
		for j := range max(add-del, i-add) {
			var pair [2]*diffLine
			if del+j < add {
				pair[0] = p.Lines[del+j]
			}
			if add+j < i {
				pair[1] = p.Lines[add+j]
			}
			p.Pairs = append(p.Pairs, pair)
		}
	}
	p.Lines = nil
}
