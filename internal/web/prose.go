package web

import (
	"bytes"
	"fmt"
	"html/template"
	"net/url"
	"regexp"
	"sync"

	"github.com/microcosm-cc/bluemonday"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// prose draws Markdown of agents and people. What would be markup of its own, an image or
// a link to anything but the web and a mail address, is text; and what is drawn is cleaned
// by a list of what may stand in it, whatever drew it.
//
// What would take long to read is shown as it is. Citations of evidence lead to where cite
// says; nil: they are text.
func prose(source []byte, cite citer) (template.HTML, error) {
	if !readable(source) {
		return cited("<pre>"+template.HTMLEscapeString(string(source))+"</pre>\n", cite), nil
	}
	var out bytes.Buffer
	if err := markdown().Convert(source, &out); err != nil {
		return "", fmt.Errorf("draw markdown: %w", err)
	}
	return cited(string(cleaner().SanitizeBytes(out.Bytes())), cite), nil
}

// markdown reads and draws; it is made once.
var markdown = sync.OnceValue(func() goldmark.Markdown {
	return goldmark.New(
		goldmark.WithExtensions(extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignAttribute)),
			extension.Strikethrough, extension.TaskList),
		goldmark.WithParserOptions(parser.WithASTTransformers(util.Prioritized(lower{}, 1000))),
		goldmark.WithRendererOptions(renderer.WithNodeRenderers(util.Prioritized(inert{}, 1))),
	)
})

// cleaner is the list of what may stand in drawn text. No element has an id, a class or a
// style, nothing is loaded, and nothing can be sent.
var cleaner = sync.OnceValue(func() *bluemonday.Policy {
	p := bluemonday.NewPolicy()
	p.AllowElements("p", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "em", "strong", "del", "code", "pre",
		"blockquote",
		"ul", "ol", "li", "table", "thead", "tbody", "tr", "th", "td")
	p.AllowAttrs("start").Matching(bluemonday.Integer).OnElements("ol")
	p.AllowAttrs("align").Matching(bluemonday.CellAlign).OnElements("th", "td")
	p.AllowAttrs("href").OnElements("a")
	p.AllowURLSchemes("http", "https", "mailto")
	p.RequireParseableURLs(true)
	p.AllowRelativeURLs(false)
	p.RequireNoFollowOnLinks(true)
	p.RequireNoReferrerOnLinks(true)
	p.AllowAttrs("rel").Matching(linkRelation).OnElements("a")
	return p
})

// lower makes headings one lower: the highest is the page's own.
type lower struct{}

func (lower) Transform(doc *ast.Document, _ text.Reader, _ parser.Context) {
	for n := doc.FirstChild(); n != nil; n = n.NextSibling() {
		if h, ok := n.(*ast.Heading); ok {
			h.Level = min(h.Level+1, 6)
		}
	}
}

// inert draws as text what Markdown can say beyond text.
type inert struct{}

func (d inert) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(ast.KindHTMLBlock, d.htmlBlock)
	r.Register(ast.KindRawHTML, d.rawHTML)
	r.Register(ast.KindImage, d.image)
	r.Register(ast.KindLink, d.link)
	r.Register(ast.KindAutoLink, d.autoLink)
	r.Register(extast.KindTaskCheckBox, d.checkBox)
}

func (inert) htmlBlock(w util.BufWriter, source []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	n := node.(*ast.HTMLBlock)
	if entering {
		w.WriteString("<pre>")
		for i := range n.Lines().Len() {
			line := n.Lines().At(i)
			w.Write(util.EscapeHTML(line.Value(source)))
		}
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
		for i := range n.Segments.Len() {
			part := n.Segments.At(i)
			w.Write(util.EscapeHTML(part.Value(source)))
		}
	}
	return ast.WalkSkipChildren, nil
}

// image is what stands for an image, and where it would come from.
func (inert) image(w util.BufWriter, _ []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		fmt.Fprintf(w, " (image: %s)", template.HTMLEscapeString(string(node.(*ast.Image).Destination)))
	}
	return ast.WalkContinue, nil
}

// link is a link where it leads to the web or a mail address, else its text and where it
// would lead.
func (inert) link(w util.BufWriter, _ []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	to := node.(*ast.Link).Destination
	switch outward := leadsOut(to); {
	case outward && entering:
		anchor(w, to)
	case outward:
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
	if !leadsOut(to) {
		w.Write(util.EscapeHTML(n.Label(source)))
		return ast.WalkContinue, nil
	}
	anchor(w, to)
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

func anchor(w util.BufWriter, to []byte) {
	fmt.Fprintf(w, `<a href="%s" rel="noopener noreferrer nofollow">`, util.EscapeHTML(util.URLEscape(to, true)))
}

// leadsOut reports whether an address is one of the web or of mail. One that cannot be read
// is none: the cleaner would leave a link without an address.
func leadsOut(to []byte) bool {
	u, err := url.Parse(string(util.URLEscape(to, true)))
	return err == nil && (u.Scheme == "mailto" || (u.Scheme == "http" || u.Scheme == "https") && u.Host != "")
}

var linkRelation = regexp.MustCompile(`^noopener noreferrer nofollow$`)
