package main

import (
	"os/exec"
	"time"

	"golang.org/x/sync/errgroup"
)

// How many processes speed starts, and how long that took where the numbers of random tests were chosen.
const (
	starts = 200
	took   = 180 * time.Millisecond
)

// speed returns how fast this machine starts processes, two at a time, which is most of what the tests do: 1 is as
// fast as where the numbers of random tests were chosen, 0.5 takes twice as long.
func speed() float64 {
	begun := time.Now()
	var both errgroup.Group
	for range 2 {
		both.Go(func() error {
			for range starts / 2 {
				exec.Command("git", "--version").Run()
			}
			return nil
		})
	}
	both.Wait()
	return float64(took) / float64(time.Since(begun))
}
