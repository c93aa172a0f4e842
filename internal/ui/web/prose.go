package web

import (
	"bytes"
	"fmt"
	"html/template"
	"net/url"
	"regexp"
	"strings"
	"sync"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// prose renders Markdown from agents and people, in which line breaks count. Raw HTML, images, and
// links to anything but web and mail addresses become text. The output is then checked against a list
// of allowed tags, whatever produced it.
//
// Text that would take long to render, or that fails the check, is shown as plain text. Citations of
// evidence are linked with cite, if it is not nil.
func prose(source []byte, cite citer) (template.HTML, error) {
	if readable(source) {
		var out strings.Builder
		if err := markdown().Convert(source, &out); err != nil {
			return "", fmt.Errorf("render markdown: %w", err)
		}
		if drawn := out.String(); clean(drawn) {
			return linkCitations(drawn, cite), nil
		}
	}
	return preformatted(source, cite), nil
}

// preformatted shows a text as it is, with its citations linked as in prose.
func preformatted(source []byte, cite citer) template.HTML {
	return linkCitations("<pre>"+template.HTMLEscapeString(string(source))+"</pre>\n", cite)
}

// markdown is created once.
var markdown = sync.OnceValue(func() goldmark.Markdown {
	return goldmark.New(
		goldmark.WithExtensions(extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignAttribute)),
			extension.Strikethrough, extension.TaskList),
		goldmark.WithParserOptions(parser.WithASTTransformers(util.Prioritized(lower{}, 1000))),
		goldmark.WithRendererOptions(html.WithHardWraps(), renderer.WithNodeRenderers(util.Prioritized(inert{}, 1))),
	)
})

// allowedTags matches each allowed tag with all its attributes. Elements have no id, class or style,
// load nothing, and cannot submit anything.
var allowedTags = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^<(/?(p|h[1-6]|em|strong|del|code|pre|blockquote|ul|ol|li|table|thead|tbody|tr|th|td)` +
		`|br|hr|ol start="[0-9]+"|t[hd] align="(left|center|right)"` +
		`|a href="(https?|mailto):[^"<>]*" rel="noopener noreferrer nofollow"|/a)>$`)
})

// clean reports whether rendered text has only allowed tags.
func clean(html string) bool {
	for {
		_, tag, found := strings.Cut(html, "<")
		if !found {
			return true
		}
		tag, html, found = strings.Cut(tag, ">")
		if !found || !allowedTags().MatchString("<"+tag+">") {
			return false
		}
	}
}

// lower demotes headings by one level, below the page's own.
type lower struct{}

func (lower) Transform(doc *ast.Document, _ text.Reader, _ parser.Context) {
	for n := doc.FirstChild(); n != nil; n = n.NextSibling() {
		if h, ok := n.(*ast.Heading); ok {
			h.Level = min(h.Level+1, 6)
		}
	}
}

// inert renders everything beyond plain formatting as text.
type inert struct{}

func (d inert) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(ast.KindFencedCodeBlock, d.fencedCode)
	r.Register(ast.KindHTMLBlock, d.htmlBlock)
	r.Register(ast.KindRawHTML, d.rawHTML)
	r.Register(ast.KindImage, d.image)
	r.Register(ast.KindLink, d.link)
	r.Register(ast.KindAutoLink, d.autoLink)
	r.Register(extast.KindTaskCheckBox, d.checkBox)
}

// fencedCode omits the language, which would become a class.
func (inert) fencedCode(w util.BufWriter, source []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	if entering {
		w.WriteString("<pre><code>")
		asItIs(w, source, node.Lines())
		w.WriteString("</code></pre>\n")
	}
	return ast.WalkSkipChildren, nil
}

func (inert) htmlBlock(w util.BufWriter, source []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	n := node.(*ast.HTMLBlock)
	if entering {
		w.WriteString("<pre>")
		asItIs(w, source, n.Lines())
		if n.HasClosure() {
			w.Write(util.EscapeHTML(n.ClosureLine.Value(source)))
		}
		w.WriteString("</pre>\n")
	}
	return ast.WalkSkipChildren, nil
}

func (inert) rawHTML(w util.BufWriter, source []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	n := node.(*ast.RawHTML)
	if entering {
		asItIs(w, source, n.Segments)
	}
	return ast.WalkSkipChildren, nil
}

func asItIs(w util.BufWriter, source []byte, parts *text.Segments) {
	for i := range parts.Len() {
		part := parts.At(i)
		w.Write(util.EscapeHTML(part.Value(source)))
	}
}

// image renders an image as its text and URL.
func (inert) image(w util.BufWriter, _ []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		fmt.Fprintf(w, " (image: %s)", template.HTMLEscapeString(string(node.(*ast.Image).Destination)))
	}
	return ast.WalkContinue, nil
}

// link renders a link to a web or mail address as such, and any other as its text and target.
func (inert) link(w util.BufWriter, _ []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	to := node.(*ast.Link).Destination
	switch address := outward(to); {
	case address != "" && entering:
		anchor(w, address)
	case address != "":
		w.WriteString("</a>")
	case !entering:
		fmt.Fprintf(w, " (%s)", template.HTMLEscapeString(string(to)))
	}
	return ast.WalkContinue, nil
}

func (inert) autoLink(w util.BufWriter, source []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	n := node.(*ast.AutoLink)
	if !entering {
		return ast.WalkContinue, nil
	}
	to := n.URL(source)
	if n.AutoLinkType == ast.AutoLinkEmail && !bytes.HasPrefix(bytes.ToLower(to), []byte("mailto:")) {
		to = append([]byte("mailto:"), to...)
	}
	address := outward(to)
	if address == "" {
		w.Write(util.EscapeHTML(n.Label(source)))
		return ast.WalkContinue, nil
	}
	anchor(w, address)
	w.Write(util.EscapeHTML(n.Label(source)))
	w.WriteString("</a>")
	return ast.WalkContinue, nil
}

func (inert) checkBox(w util.BufWriter, _ []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	if entering {
		box := "☐ "
		if node.(*extast.TaskCheckBox).IsChecked {
			box = "☑ "
		}
		w.WriteString(box)
	}
	return ast.WalkContinue, nil
}

func anchor(w util.BufWriter, to string) {
	fmt.Fprintf(w, `<a href="%s" rel="noopener noreferrer nofollow">`, util.EscapeHTML([]byte(to)))
}

// outward returns a web or mail address as written, "" for any other one and for one that cannot
// be parsed.
func outward(to []byte) string {
	u, err := url.Parse(string(util.URLEscape(to, true)))
	if err == nil && (u.Scheme == "mailto" || (u.Scheme == "http" || u.Scheme == "https") && u.Host != "") {
		return u.String()
	}
	return ""
}
