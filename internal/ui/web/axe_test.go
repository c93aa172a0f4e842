package web

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// axeVersion is the version of axe-core that make setup installs.
const axeVersion = "4.14.1"

// axe returns the source of axe-core. Without it the test is skipped, except in CI, where it fails.
func axe(t *testing.T) string {
	t.Helper()
	cache := os.Getenv("XDG_CACHE_HOME")
	if cache == "" {
		cache = filepath.Join(os.Getenv("HOME"), ".cache")
	}
	data, err := os.ReadFile(filepath.Join(cache, "plait", "axe", axeVersion, "node_modules", "axe-core", "axe.min.js"))
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("there is no axe-core: make setup")
		}
		t.Skip("NOT TESTED: there is no axe-core: make setup")
	}
	return string(data)
}

// audit runs axe on the open page and returns its serious findings.
func (b *browser) audit(source string) []string {
	b.t.Helper()
	if !js[bool](b, "Boolean(window.axe)") {
		b.do(chromedp.Evaluate[chromedp.Void](source + ";0"))
	}
	found, err := inTime(b, chromedp.Evaluate[[]string](`axe.run(document, {resultTypes: ["violations"]}).then((r) =>
		r.violations.filter((v) => v.impact === "serious" || v.impact === "critical").map((v) => v.id + ": " + v.nodes.slice(0, 3)
			.map((n) => n.html.slice(0, 160) + " " + (n.any[0] ? n.any[0].message.slice(0, 160) : "")).join(" | ")))`,
		chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatal(err)
	}
	return found
}

// TestEveryPage renders every page in light and dark mode, at desktop and phone widths. axe must have
// no serious findings, and no page may scroll sideways. With PLAIT_PICTURES=DIR the pictures are kept
// in DIR.
func TestEveryPage(t *testing.T) {
	source := axe(t)
	to := os.Getenv("PLAIT_PICTURES")
	for _, wall := range gallery(t) {
		b := wall.site.browse()
		for _, p := range wall.pages {
			b.look(p, source, to)
		}
		if b.mu.Lock(); len(b.said) > 0 {
			t.Errorf("%q", b.said)
		}
		b.mu.Unlock()
	}
}

// look renders one page at every width and in every color scheme.
func (b *browser) look(p framed, source, to string) {
	t := b.t
	b.do(chromedp.EmulateViewport(1440, 900))
	b.visit(p.path)
	for _, width := range []int64{1440, 390} {
		b.do(chromedp.EmulateViewport(width, 900))
		if over := js[int](b, "document.documentElement.scrollWidth - innerWidth"); over > 0 {
			t.Errorf("%s, %d px: %d px too wide", p.name, width, over)
		}
		for _, look := range []string{"light", "dark"} {
			js[string](b, `scrollTo(0, 0), document.documentElement.className = "`+look+`"`)
			if bad := b.audit(source); len(bad) > 0 {
				t.Errorf("%s, %s, %d px: %s", p.name, look, width, strings.Join(bad, "\n\t"))
			}
			data, err := inTime(b, chromedp.CaptureScreenshot())
			if err != nil || len(data) < 5_000 {
				t.Errorf("%s: a picture of %d bytes: %v", p.name, len(data), err)
			}
			if to != "" && to != "docs" {
				if err := os.WriteFile(filepath.Join(to, fmt.Sprintf("%s-%s-%d.png", p.name, look, width)), data,
					0o644); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}
