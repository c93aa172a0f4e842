package web

import (
	"bytes"
	"html/template"
	"strings"

	"github.com/plait-run/plait/internal/flow"
)

// A citer returns the link for a citation of evidence, "" if there is no such entry, and whether
// the entry proves anything.
type citer func(id string) (link string, proves bool)

// linkCitations turns citations in the text of clean HTML into links, and marks those without an entry or
// without proof. Existing links are left alone.
func linkCitations(html string, cite citer) template.HTML {
	if cite == nil || !strings.Contains(html, "evidence:") {
		return template.HTML(html)
	}
	var out strings.Builder
	inLink := false
	for html != "" {
		text, rest, _ := strings.Cut(html, "<")
		if inLink {
			out.WriteString(text)
		} else {
			out.WriteString(flow.EachCitation(text, func(said, id string) string {
				link, proves := cite(id)
				if link == "" {
					return `<span class="failed" title="there is no such entry">` + said + ` (not there)</span>`
				}
				link = `<a href="` + template.HTMLEscapeString(link) + `">` + said + `</a>`
				if !proves {
					link += ` <span class="failed" title="the command was declined or interrupted">(proves nothing)</span>`
				}
				return link
			}))
		}
		if html = html[len(text):]; html == "" {
			break
		}
		tag, _, _ := strings.Cut(rest, ">")
		tag = html[:min(len(html), len(tag)+2)]
		inLink = strings.HasPrefix(tag, "<a ") || inLink && tag != "</a>"
		out.WriteString(tag)
		html = html[len(tag):]
	}
	return template.HTML(out.String())
}

// Limits on Markdown that is rendered. Parsing takes more than linear time in the number of
// quotations and lists around a line, of marks in a paragraph, since any two may match, and of
// table cells, including those that a row omits.
const (
	maxProse      = 128 << 10 // bytes
	maxProseDepth = 40        // of a line
	maxProseMarks = 3000      // of a paragraph
	maxProseCells = 50_000    // of the widest table, if it ran through the whole text
)

// readable reports whether Markdown is rendered rather than shown as plain text.
func readable(source []byte) bool {
	if len(source) > maxProse {
		return false
	}
	marks, wide := 0, 0
	for line := range bytes.Lines(source) {
		body := bytes.TrimLeft(line, " \t>-+*.)0123456789")
		lead := line[:len(line)-len(body)]
		if depth(lead) > maxProseDepth && !isRule(line) {
			return false
		}
		if len(bytes.TrimSpace(line)) == 0 {
			marks = 0
			continue
		}
		for _, c := range line {
			if strings.IndexByte("[]()*_`~<!&:@", c) >= 0 {
				marks++
			}
		}
		if len(bytes.Trim(line, "|:- \t\r\n>")) == 0 {
			wide = max(wide, bytes.Count(line, []byte("|"))+1)
		}
		if marks > maxProseMarks {
			return false
		}
	}
	return wide < 2 || wide*bytes.Count(source, []byte("\n")) <= maxProseCells
}

// isRule reports whether a line is a thematic break.
func isRule(line []byte) bool {
	marks := bytes.Trim(line, " \t\r\n")
	return len(bytes.Trim(marks, "- \t")) == 0 || len(bytes.Trim(marks, "* \t")) == 0
}

// depth returns how many quotations and lists the beginning of a line may open.
func depth(lead []byte) int {
	n, spaces := 0, 0
	for _, c := range lead {
		switch c {
		case '>', '-', '+', '*', '.', ')':
			n, spaces = n+1, 0
		case '\t':
			n++
		case ' ':
			spaces++
			if spaces%2 == 0 {
				n++
			}
		}
	}
	return n
}
