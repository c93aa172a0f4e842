package cli

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// TestHelp checks that every verb has an example, that no summary ends like a sentence, and that
// no help uses a word that the glossary lists as not used.
func TestHelp(t *testing.T) {
	avoided := avoidedWords(t)
	verbs := 0
	var look func(cmd *cobra.Command)
	look = func(cmd *cobra.Command) {
		if cmd.Hidden {
			return
		}
		verbs++
		name := cmd.CommandPath()
		if cmd.Short == "" || strings.HasSuffix(cmd.Short, ".") {
			t.Errorf("%s: the summary is empty or ends with a full stop: %q", name, cmd.Short)
		}
		if !cmd.HasSubCommands() && cmd.Example == "" {
			t.Errorf("%s: its help has no example", name)
		}
		help := []string{cmd.Short, cmd.Long, cmd.Example}
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				help = append(help, f.Usage)
			}
		})
		text := strings.Join(help, "\n")
		for _, word := range avoided.FindAllString(text, -1) {
			t.Errorf("%s: its help has %q, which the glossary lists as not used", name, strings.TrimSpace(word))
		}
		for _, line := range strings.Split(text, "\n") {
			if strings.HasSuffix(line, " ") {
				t.Errorf("%s: a line of its help ends with a space: %q", name, line)
			}
		}
		for _, c := range cmd.Commands() {
			look(c)
		}
	}
	a := &app{program: plait, in: strings.NewReader(""), out: os.Stdout, err: os.Stderr,
		getenv: func(string) string { return "" }}
	look(a.root())
	if verbs < 40 {
		t.Errorf("only %d verbs were found", verbs)
	}
}

// avoidedWords returns the words in the last column of the glossary's tables.
func avoidedWords(t *testing.T) *regexp.Regexp {
	t.Helper()
	data, err := os.ReadFile("../../../docs/glossary.md")
	if err != nil {
		t.Fatal(err)
	}
	var words []string
	column := false // whether the table has that column
	for _, line := range strings.Split(string(data), "\n") {
		cells := strings.Split(strings.Trim(line, "| "), "|")
		switch last := strings.TrimSpace(cells[len(cells)-1]); {
		case !strings.HasPrefix(line, "|"):
			column = false
		case last == "not used":
			column = true
		case column && len(cells) == 3 && !strings.HasPrefix(last, "--"):
			for _, w := range strings.Split(last, ",") {
				w = regexp.QuoteMeta(strings.TrimSpace(w))
				if w == "workflow" {
					w = "workflow (file|of|named)" // "multi-agent workflows" is the common term for all of this
				}
				if w != "" {
					words = append(words, w)
				}
			}
		}
	}
	if len(words) < 12 {
		t.Fatalf("only %q were found in the glossary", words)
	}
	return regexp.MustCompile(`(?i)(^|[^\w/.-])(` + strings.Join(words, "|") + `)s?\b`)
}
