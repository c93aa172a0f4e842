package web

import (
	"bytes"
	"html/template"
	"strings"

	"github.com/plait-run/plait/internal/flow"
)

// A citer says where a citation of evidence leads, "" for one that there is no entry for,
// and whether it proves anything.
type citer func(id string) (link string, proves bool)

// cited makes links of citations in the text of clean HTML, and marks those that lead
// nowhere or prove nothing. A link of the text's own stays what it is.
func cited(html string, cite citer) template.HTML {
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

// Bounds of the Markdown that is drawn. Reading takes more than its length: for each
// quotation and list a line is in, for each mark in a paragraph that may belong to any
// other, for each cell of a table, also those that a row leaves out.
const (
	maxProse      = 128 << 10 // bytes
	maxProseDepth = 40        // of a line
	maxProseMarks = 3000      // of a paragraph
	maxProseCells = 50_000    // of all tables, if each went on to the end
)

// readable reports whether Markdown is drawn, and not shown as it is.
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

// isRule reports whether a line is drawn across the page.
func isRule(line []byte) bool {
	marks := bytes.Trim(line, " \t\r\n")
	return len(bytes.Trim(marks, "- \t")) == 0 || len(bytes.Trim(marks, "* \t")) == 0
}

// depth is how many quotations and lists the beginning of a line may be in.
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
