package faults

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/testing/soak"
	"github.com/plait-run/plait/plaitd/pgtest"
	"github.com/plait-run/plait/plaitd/postgres"
)

// zombieEnv is set to the record's URL in the process that is stopped.
const zombieEnv = "PLAIT_TEST_ZOMBIE"

// hasty returns a config that takes a silent process for dead within a second or two.
func hasty(url string) postgres.Config {
	return postgres.Config{
		URL: url, Try: time.Second, Look: 100 * time.Millisecond,
		Beat: 200 * time.Millisecond, Lost: time.Second, TTL: 1500 * time.Millisecond,
		Alive: func(int, int64) bool { return true }, // as on another host, about which nothing is known
	}
}

// beZombie works under a lease until it has lost it: it prints what it begins and what it has done.
func beZombie(url string) error {
	ctx := context.Background()
	s, err := postgres.Open(ctx, hasty(url))
	if err != nil {
		return err
	}
	defer s.Close()
	lease, err := s.Acquire(ctx, "line")
	if err != nil {
		return err
	}
	l, err := begin(ctx, s, id(1))
	if err != nil {
		return err
	}
	under := store.Under(s, lease)
	for n := 0; ; n++ {
		select {
		case <-lease.Lost():
			fmt.Println("lost")
			return nil
		default:
		}
		text := fmt.Sprintf("zombie-%d", n)
		fmt.Println("begin", text)
		if err := l.step(ctx, under, text); err != nil {
			if errors.Is(err, store.ErrFenced) {
				fmt.Println("fenced")
				return nil
			}
			return err
		}
		fmt.Println("done", text)
		time.Sleep(time.Millisecond)
	}
}

// TestZombie stops a process that works under a lease, until another has taken it over, and lets it
// continue: nothing that it does then gets into the record, and it begins nothing more but what it
// was about to when it was stopped.
func TestZombie(t *testing.T) {
	t.Parallel()
	rounds := soak.Rounds(t, 2)
	for range rounds {
		zombieRound(t)
	}
	soak.Figure(t, "%d processes stopped for longer than their leases: none wrote or began anything after", rounds)
}

func zombieRound(t *testing.T) {
	url := newRecord(t, pgtest.Shared(t))
	mine := hasty(url)
	mine.Lost = time.Hour // this process may be slow
	s := open(t, mine)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), zombieEnv+"="+url)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	said := bufio.NewReader(out)
	for range 30 {
		if _, err := said.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	cmd.Process.Signal(syscall.SIGSTOP)
	var lease store.Lease
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if lease, err = s.Acquire(t.Context(), "line"); err == nil {
			break
		}
		if !errors.Is(err, store.ErrConflict) || time.Now().After(end) {
			t.Fatalf("take over: %v", err)
		}
	}
	row, err := s.Thread(t.Context(), id(1))
	if err != nil {
		t.Fatal(err)
	}
	before, err := s.Events(t.Context(), 0, store.EventFilter{})
	if err != nil {
		t.Fatal(err)
	}
	own := &line{row: row}
	for _, e := range before {
		own.texts = append(own.texts, e.Type)
	}
	cmd.Process.Signal(syscall.SIGCONT)
	for n := range 20 {
		if err := own.step(t.Context(), store.Under(s, lease), fmt.Sprintf("mine-%d", n)); err != nil {
			t.Fatal(err)
		}
	}
	rest, err := io.ReadAll(said)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(rest)), "\n")
	last := lines[len(lines)-1]
	if last != "lost" && last != "fenced" {
		t.Errorf("the zombie ended with %q", last)
	}
	// It was stopped anywhere: at worst between checking its lease and printing what it begins.
	begun := 0
	for _, x := range lines {
		if text, ok := strings.CutPrefix(x, "begin "); ok && !has(before, text) {
			begun++
		}
	}
	if begun > 1 {
		t.Errorf("the zombie began %d things that are not in the record:\n%s", begun, strings.Join(lines, "\n"))
	}
	check(t, s, own)
	select {
	case <-lease.Lost():
		t.Error("the zombie took the lease back")
	default:
	}
}

func has(events []store.Event, text string) bool {
	for _, e := range events {
		if e.Type == text {
			return true
		}
	}
	return false
}
