// Command testsum reads the output of go test -json on standard input and prints
// a line for each package, the output of what failed or was skipped, and last
// how many tests passed, failed and were skipped. It exits 1 when one failed or none ran.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64
}

func main() {
	count := map[string]int{}
	output := map[string][]string{}
	broken := false
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	for {
		line, err := in.ReadBytes('\n')
		if len(line) > 0 {
			var ev event
			if json.Unmarshal(line, &ev) != nil {
				fmt.Print(string(line)) // the go command's own words
			} else {
				broken = see(ev, count, output) || broken
			}
		}
		if err != nil {
			break
		}
	}
	fmt.Printf("%d passed, %d failed, %d skipped\n", count["pass"], count["fail"], count["skip"])
	if count["fail"] > 0 || count["pass"] == 0 || broken {
		os.Exit(1)
	}
}

// see takes note of one event, and reports whether a package is broken.
func see(ev event, count map[string]int, output map[string][]string) (broken bool) {
	key := ev.Package + " " + ev.Test
	switch ev.Action {
	case "output", "build-output":
		output[key] = append(output[key], ev.Output)
	case "pass", "fail", "skip":
		if ev.Test != "" {
			count[ev.Action]++
		}
		if ev.Action == "fail" || ev.Action == "skip" && ev.Test != "" {
			fmt.Print(strings.Join(output[key], ""))
		}
		if ev.Test == "" && ev.Action != "skip" {
			fmt.Printf("%-5s %s  %.1fs\n", ev.Action, ev.Package, ev.Elapsed)
		}
		delete(output, key)
		return ev.Action == "fail"
	case "build-fail":
		for k, lines := range output {
			if strings.HasSuffix(k, " ") {
				fmt.Print(strings.Join(lines, ""))
				delete(output, k)
			}
		}
		return true
	}
	return false
}
