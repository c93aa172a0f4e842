package cli

import (
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	docLink    = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	docHeading = regexp.MustCompile(`^#{1,6} (.*)$`)
	docInline  = regexp.MustCompile("`[^`]*`")
	slugDrops  = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// A textPage is a page without the contents of its code blocks.
type textPage struct {
	lines   []string
	anchors []string
}

func readText(t *testing.T, file string) textPage {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var p textPage
	inside := false
	for _, line := range strings.Split(string(data), "\n") {
		if strings.HasPrefix(line, "```") {
			inside, line = !inside, ""
		}
		if inside {
			line = ""
		}
		p.lines = append(p.lines, line)
		if m := docHeading.FindStringSubmatch(line); m != nil {
			p.anchors = append(p.anchors, slug(m[1]))
		}
	}
	return p
}

// slug returns the anchor that GitHub gives a heading.
func slug(heading string) string {
	text := slugDrops.ReplaceAllString(strings.ToLower(heading), "")
	return strings.ReplaceAll(strings.TrimSpace(text), " ", "-")
}

// docPages returns all pages of the repository, by their path from its root.
func docPages(t *testing.T) []string {
	t.Helper()
	pages := []string{"README.md", "CONTRIBUTING.md", "CHANGELOG.md"}
	err := filepath.WalkDir("../../../docs", func(file string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(file, ".md") {
			pages = append(pages, filepath.ToSlash(file[len("../../../"):]))
		}
		return err
	})
	if err != nil || len(pages) < 15 {
		t.Fatalf("pages: %v %v", pages, err)
	}
	return pages
}

// TestDocsLinks checks that each relative link leads to a file, and each anchor to a heading.
func TestDocsLinks(t *testing.T) {
	links := 0
	for _, name := range docPages(t) {
		for n, line := range readText(t, filepath.Join("../../..", name)).lines {
			for _, m := range docLink.FindAllStringSubmatch(docInline.ReplaceAllString(line, ""), -1) {
				to, err := url.Parse(m[1])
				if err != nil || to.Scheme != "" {
					continue
				}
				links++
				target := name
				if to.Path != "" {
					target = path.Join(path.Dir(name), to.Path)
				}
				if _, err := os.Stat(filepath.Join("../../..", target)); err != nil {
					t.Errorf("%s:%d: %s leads nowhere", name, n+1, m[1])
					continue
				}
				if to.Fragment == "" || !strings.HasSuffix(target, ".md") {
					continue
				}
				if !slices.Contains(readText(t, filepath.Join("../../..", target)).anchors, to.Fragment) {
					t.Errorf("%s:%d: %s has no heading #%s", name, n+1, target, to.Fragment)
				}
			}
		}
	}
	if links < 50 {
		t.Errorf("only %d links were found", links)
	}
}

// TestDocsIndex checks that docs/README.md links to every page.
func TestDocsIndex(t *testing.T) {
	index, err := os.ReadFile("../../../docs/README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range docPages(t) {
		rel, ok := strings.CutPrefix(name, "docs/")
		if !ok || rel == "README.md" || strings.HasPrefix(rel, "decisions/0") {
			continue
		}
		if !strings.Contains(string(index), "]("+rel+")") {
			t.Errorf("docs/README.md does not lead to %s", name)
		}
	}
}

// TestDocsWords checks that the pages for newcomers use none of the words that the glossary says are not used.
func TestDocsWords(t *testing.T) {
	const glossary = "../../../docs/glossary.md"
	not, told := map[string]string{}, false // told: the table has such a column
	for _, line := range readText(t, glossary).lines {
		cells := strings.Split(line, "|")
		if len(cells) != 5 {
			told = false
			continue
		}
		if strings.TrimSpace(cells[3]) == "not used" {
			told = true
			continue
		}
		if !told || strings.Contains(cells[3], "---") {
			continue
		}
		for word := range strings.SplitSeq(cells[3], ",") {
			if word = strings.TrimSpace(word); word != "" {
				not[word] = strings.TrimSpace(cells[1])
			}
		}
	}
	if len(not) < 8 {
		t.Fatalf("the glossary calls only %d words not used: %v", len(not), not)
	}
	pages := []string{"README.md", "docs/README.md", "docs/guide.md", "docs/concepts.md", "docs/planning.md"}
	for _, name := range append(pages, howtos(t)...) {
		text := strings.Join(readText(t, filepath.Join("../../..", name)).lines, "\n")
		text = docInline.ReplaceAllStringFunc(text, func(code string) string {
			return strings.Repeat("\n", strings.Count(code, "\n"))
		})
		for word, use := range not {
			spaced := strings.ReplaceAll(regexp.QuoteMeta(word), " ", `\s+`)
			for _, at := range regexp.MustCompile(`(?i)\b`+spaced+`(s|ed|ing)?\b`).FindAllStringIndex(text, -1) {
				t.Errorf("%s:%d: %q is not used, write %q", name, 1+strings.Count(text[:at[0]], "\n"), word, use)
			}
		}
	}
}
