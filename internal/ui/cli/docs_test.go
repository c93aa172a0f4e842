package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestDocs runs the commands of README, guide, how-tos and the command line page unchanged, each page in its own
// home and directory. A page is a script:
//
//	```sh                  commands, run one after the other; the shell continues with the next block
//	```sh codex            the same, where the real Codex is installed
//	```sh skip: REASON     commands that cannot be run here, and why
//	```output              lines that the block before must have printed, in this order; … is any text
//	Save this as `FILE`:   the block below is that file
//
// A line that ends in "# exit code N" must exit with N, every other with 0. The id of a question,
// g-35aeb9441b, stands for the id of the open one.
func TestDocs(t *testing.T) {
	if testing.Short() {
		t.Skip("NOT TESTED with -short: the commands of the docs")
	}
	there, err := needCodex()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append([]string{"README.md", "docs/guide.md", "docs/cli.md"}, howtos(t)...) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			page, err := readPage(filepath.Join("..", "..", "..", name), there)
			if err != nil {
				t.Fatalf("%s:%v", name, err)
			}
			page.run(t, name)
		})
	}
}

func howtos(t *testing.T) []string {
	files, err := filepath.Glob("../../../docs/howto/*.md")
	if err != nil || len(files) == 0 {
		t.Fatalf("how-tos: %v %v", files, err)
	}
	for i, f := range files {
		files[i] = filepath.ToSlash(f[len("../../../"):])
	}
	return files
}

// A docPage is a page as a script. Line N of the script is line N of the page, so the shell names the line
// of the page that fails.
type docPage struct {
	script  []string
	outputs []docOutput
	runs    int // blocks that are run
}

// docOutput are lines that the block beginning at a line must have printed.
type docOutput struct {
	line, of int
	want     []string
}

var (
	docSave   = regexp.MustCompile("Save this as `([^`]+)`:$")
	docCode   = regexp.MustCompile(`^(.*?)\s+# exit code (\d+)$`)
	docGateID = regexp.MustCompile(`\bg-35aeb9441b\b`)
)

// readPage reads a page; codex says whether blocks that need Codex are run.
func readPage(file string, codex bool) (*docPage, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	lines := strings.Split(string(data), "\n")
	p := &docPage{script: make([]string, len(lines))}
	save, last := "", 0
	for i := 0; i < len(lines); i++ {
		info, isFence := strings.CutPrefix(lines[i], "```")
		if !isFence {
			if m := docSave.FindStringSubmatch(lines[i]); m != nil {
				save = m[1]
			} else if lines[i] != "" {
				save = ""
			}
			continue
		}
		end := i + 1
		for end < len(lines) && lines[end] != "```" {
			end++
		}
		if end == len(lines) {
			return nil, fmt.Errorf("%d: the block is not closed", i+1)
		}
		kind, more, _ := strings.Cut(info, " ")
		body := lines[i+1 : end]
		switch {
		case save != "":
			p.file(save, i, end, body)
		case kind == "sh" && (more == "" || more == "codex" && codex):
			p.block(i, end, body)
			last = i + 1
		case kind == "sh" && more == "codex":
		case kind == "sh" && strings.HasPrefix(more, "skip: ") && len(more) > len("skip: ")+5:
		case kind == "sh":
			return nil, fmt.Errorf("%d: a block of commands is marked %q: want codex, or skip: and the reason", i+1, more)
		case kind == "output":
			p.outputs = append(p.outputs, docOutput{line: i + 2, of: last, want: body})
		default:
			for n, line := range body {
				if strings.HasPrefix(line, "plait ") || strings.HasPrefix(line, "$ plait ") {
					return nil, fmt.Errorf("%d: a command in a block that is not run: mark it sh", i+n+2)
				}
			}
		}
		save, i = "", end
	}
	return p, nil
}

// file makes the shell write a file.
func (p *docPage) file(name string, from, to int, body []string) {
	p.script[from] = fmt.Sprintf("mkdir -p \"$(dirname '%s')\"; cat > '%s' <<'END OF FILE'", name, name)
	copy(p.script[from+1:], body)
	p.script[to] = "END OF FILE"
}

// block makes the shell run commands, with their output in a file named by the line.
func (p *docPage) block(from, to int, body []string) {
	p.runs++
	p.script[from] = "{"
	for i, line := range body {
		line = docGateID.ReplaceAllString(line, "$$(open_question)")
		if m := docCode.FindStringSubmatch(line); m != nil {
			line = fmt.Sprintf(`code=0; %s || code=$?; expect %s "$code"`, m[1], m[2])
		}
		p.script[from+1+i] = line
	}
	p.script[to] = fmt.Sprintf(`} > "$DOC_OUT/%d" 2>&1`, from+1)
}

// docPrelude is in the first line of the script, which is the title of the page.
const docPrelude = `exec 9> "$DOC_OUT/failed" < /dev/null; set -eE; trap 'echo "$LINENO" >&9; exit 1' ERR; ` +
	`expect() { [ "$1" = "$2" ] || { echo "exit code $2, want $1"; return 1; }; }; ` +
	`open_question() { plait gate list --json | grep -o '"id":"g-[0-9a-f]*' | head -n 1 | cut -d '"' -f 4; }`

// docTime is how long a page may take.
const docTime = 8 * time.Minute

func (p *docPage) run(t *testing.T, name string) {
	work := tempDir(t)
	for _, dir := range []string{"out", "bin", "user"} {
		if err := os.Mkdir(filepath.Join(work, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	p.script[0] = docPrelude
	script, dir := filepath.Join(work, "page.sh"), filepath.Join(work, "here")
	if err := os.WriteFile(script, []byte(strings.Join(p.script, "\n")), 0o644); err != nil {
		t.Fatal(err)
	}
	if name == "README.md" {
		copyCheckout(t, dir, filepath.Join(work, "bin"))
	} else if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if name == "docs/howto/pull-request.md" {
		docForge(t, work)
	}
	ctx, cancel := context.WithTimeout(context.Background(), docTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", script)
	cmd.Dir, cmd.Env = dir, docEnv(work)
	cmd.WaitDelay = 10 * time.Second
	said, err := cmd.CombinedOutput()
	printed := func(block int) string {
		data, _ := os.ReadFile(filepath.Join(work, "out", strconv.Itoa(block))) // none for a block that was not reached
		return string(data)
	}
	if err != nil {
		at, _ := os.ReadFile(filepath.Join(work, "out", "failed")) // empty when the shell itself failed
		line, _ := strconv.Atoi(string(bytes.TrimSpace(at)))
		block := line
		for block > 0 && p.script[block-1] != "{" {
			block--
		}
		t.Fatalf("%s:%d: %v\n%s%s", name, line, err, said, printed(block))
	}
	for _, o := range p.outputs {
		if o.of > 0 && p.script[o.of-1] != "{" {
			continue // the block was not run
		}
		if missing, at := missingLine(printed(o.of), o.want); missing != "" {
			t.Errorf("%s:%d: the block at line %d did not print %q, but\n%s", name, o.line+at, o.of, missing, printed(o.of))
		}
	}
	if p.runs == 0 && len(p.outputs) > 0 {
		t.Errorf("%s: it has outputs and no commands", name)
	}
}

// missingLine returns the first of the wanted lines that does not follow the previous ones in text.
func missingLine(text string, want []string) (string, int) {
	for i, line := range want {
		if strings.TrimSpace(line) == "" {
			continue
		}
		parts := strings.Split(strings.TrimSpace(line), "…")
		for n, part := range parts {
			parts[n] = strings.ReplaceAll(regexp.QuoteMeta(strings.Join(strings.Fields(part), " ")), " ", `\s+`)
		}
		at := regexp.MustCompile(strings.Join(parts, ".*")).FindStringIndex(text)
		if at == nil {
			return line, i
		}
		text = text[at[1]:]
	}
	return "", 0
}

// docEnv is the environment of someone who has plait and Codex in the PATH, and nothing else of Plait.
func docEnv(work string) []string {
	path := filepath.Join(work, "bin")
	if dir, err := realCodex(); err == nil {
		path += string(filepath.ListSeparator) + dir
	}
	env := []string{"PATH=" + path + string(filepath.ListSeparator) + os.Getenv("PATH"),
		"DOC_OUT=" + filepath.Join(work, "out"), "GOPROXY=off", "GOTOOLCHAIN=local"}
	for key, value := range scriptEnv(work) {
		env = append(env, key+"="+value)
	}
	for _, key := range []string{"GOCACHE", "GOMODCACHE", "GOFLAGS", "GOROOT"} {
		env = append(env, key+"="+goEnv()[key])
	}
	return env
}

// copyCheckout makes dir a checkout of Plait, and puts a go command into bin that takes the plait being
// tested instead of compiling one.
func copyCheckout(t *testing.T, dir, bin string) {
	root := filepath.Join("..", "..", "..")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			if rel == ".git" || rel == ".plait" || rel == "bin" {
				return filepath.SkipDir
			}
			return os.MkdirAll(filepath.Join(dir, rel), 0o755)
		}
		if rel == "plait" || rel == ".git" || !d.Type().IsRegular() || strings.HasSuffix(rel, ".test") {
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, rel), data, 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
	goCommand, err := exec.LookPath("go")
	if errors.Is(err, exec.ErrNotFound) {
		t.Skip("SKIPPED: there is no go command")
	}
	shim := "#!/bin/sh\ncase \"$*\" in\n" +
		"\"run -v ./cmd/plait \"*) shift 3; exec plait \"$@\" ;;\n" +
		"\"build -o plait ./cmd/plait\") printf '#!/bin/sh\\nexec plait \"$@\"\\n' > plait; chmod +x plait; exit ;;\n" +
		"esac\nexec '" + goCommand + "' \"$@\"\n"
	if err := os.WriteFile(filepath.Join(bin, "go"), []byte(shim), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"commit", "-qm", "A checkout"}} {
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_AUTHOR_NAME=Ada",
			"GIT_AUTHOR_EMAIL=ada@example.com", "GIT_COMMITTER_NAME=Ada", "GIT_COMMITTER_EMAIL=ada@example.com")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %s: %v: %s", args[0], err, out)
		}
	}
}

// TestReadPage checks that a page cannot skip commands without a reason.
func TestReadPage(t *testing.T) {
	const save = "Save this as `a b.txt`:\n\n```text\nit's\n```\n"
	for name, c := range map[string]struct {
		page  string
		codex bool
		runs  int
		fails string
	}{
		"commands":         {page: "# T\n```sh\ntrue\n```\n```sh\nfalse  # exit code 1\n```\n", runs: 2},
		"a file":           {page: "# T\n" + save + "```sh\ngrep s 'a b.txt'\n```\n", runs: 1},
		"with codex":       {page: "# T\n```sh codex\ntrue\n```\n", codex: true, runs: 1},
		"without codex":    {page: "# T\n```sh codex\nfalse\n```\n"},
		"skipped":          {page: "# T\n```sh skip: it needs an account\nfalse\n```\n"},
		"no reason":        {page: "# T\n```sh skip: \nfalse\n```\n", fails: "2: a block"},
		"unknown mark":     {page: "# T\n```sh later\nfalse\n```\n", fails: "2: a block"},
		"command not run":  {page: "# T\n```text\nplait ls\n```\n", fails: "3: a command"},
		"not closed":       {page: "# T\n\n```sh\ntrue\n", fails: "3: the block"},
		"output of a file": {page: "# T\n```sh\necho one two; echo three\n```\n```output\none …\nthree\n```\n", runs: 1},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "page.md")
			if err := os.WriteFile(file, []byte(c.page), 0o644); err != nil {
				t.Fatal(err)
			}
			p, err := readPage(file, c.codex)
			if c.fails != "" {
				if err == nil || !strings.HasPrefix(err.Error(), c.fails) {
					t.Errorf("error %v, want %s…", err, c.fails)
				}
				return
			}
			if err != nil || p.runs != c.runs {
				t.Fatalf("%d blocks are run, want %d; %v", p.runs, c.runs, err)
			}
			p.run(t, "docs/page.md")
		})
	}
	for _, want := range [][]string{{"b", "a"}, {"a c"}, {"… d"}} {
		if missing, _ := missingLine("a b\nc\n", want); missing == "" {
			t.Errorf("%q is in it", want)
		}
	}
}
