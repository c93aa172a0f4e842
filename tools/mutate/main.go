// Command mutate measures how much of a package its own tests notice. It changes one thing at a time, runs the tests of
// the package, and reports which changes no test fails:
//
//	go run ./tools/mutate [-every N] [-timeout D] ./internal/engine/evidence ...
//
// What is changed: comparisons (== and !=, < and >=, > and <=), && and ||, and the error in a return, which becomes
// nil. The working tree is not touched: each change is an overlay of the go command. A change that does not compile
// does not count; one with which the tests do not end does, as noticed.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	every := flag.Int("every", 1, "make only every `N`th change")
	limit := flag.Duration("timeout", time.Minute, "stop the tests of one change after this long")
	flag.Parse()
	if flag.NArg() == 0 || *every < 1 {
		flag.Usage()
		os.Exit(2)
	}
	for _, dir := range flag.Args() {
		if err := measure(dir, *every, *limit); err != nil {
			fmt.Fprintln(os.Stderr, "mutate:", err)
			os.Exit(1)
		}
	}
}

// measure tries the changes of one package, and prints those that survive and the share of the others.
func measure(dir string, every int, limit time.Duration) error {
	changes, err := changesIn(dir)
	if err != nil {
		return err
	}
	tmp, err := os.MkdirTemp("", "mutate-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	killed, tried := 0, 0
	for i := 0; i < len(changes); i += every {
		c := changes[i]
		survives, compiles, err := try(dir, tmp, c, limit)
		if err != nil {
			return err
		}
		if !compiles {
			continue
		}
		tried++
		if survives {
			fmt.Printf("%s:%d: survives: %s\n", c.file, c.line, c.what)
		} else {
			killed++
		}
	}
	fmt.Printf("%s: %d of %d changes noticed, %d %%\n", dir, killed, tried, 100*killed/max(tried, 1))
	return nil
}

// changesIn returns the changes of the files of a package, without its tests.
func changesIn(dir string) ([]change, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	var all []change
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, name, text, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		all = append(all, changesOf(fset, f, name, text)...)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s has nothing to change", dir)
	}
	return all, nil
}

// try runs the tests of a package with one change. It reports whether they pass, and whether the change compiles.
func try(dir, tmp string, c change, limit time.Duration) (survives, compiles bool, err error) {
	name, err := filepath.Abs(c.file)
	if err != nil {
		return false, false, err
	}
	changed, overlay := filepath.Join(tmp, "changed.go"), filepath.Join(tmp, "overlay.json")
	list, err := json.Marshal(map[string]any{"Replace": map[string]string{name: changed}})
	if err != nil {
		return false, false, err
	}
	if err := errors.Join(os.WriteFile(changed, c.text, 0o600), os.WriteFile(overlay, list, 0o600)); err != nil {
		return false, false, err
	}
	binary := filepath.Join(tmp, "test")
	build := exec.Command("go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", binary, ".")
	build.Dir = dir
	if build.Run() != nil {
		return false, false, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	test := exec.CommandContext(ctx, binary, "-test.failfast")
	test.Dir, test.WaitDelay = dir, time.Second
	return test.Run() == nil, true, nil
}
