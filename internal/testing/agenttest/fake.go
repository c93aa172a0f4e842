package agenttest

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// fakeArg is the first argument that turns a test binary into the fake agent.
const fakeArg = "fake-agent"

// FakeMain turns the test binary into a fake agent if it was called as one, and
// then does not return. A package calls it first in its TestMain. Unlike a choice
// by an environment variable, one by argument also works where the environment
// is what is tested.
func FakeMain() {
	if len(os.Args) > 2 && os.Args[1] == fakeArg {
		os.Exit(fake(os.Args[2], os.Args[3:]))
	}
	// They are ignored under nohup, say, or after a shell's &. A child does not
	// ignore what is caught. Go's runtime catches all others anyway.
	for _, sig := range []os.Signal{syscall.SIGHUP, syscall.SIGINT} {
		if signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
}

// Fake returns the command that runs the fake agent in a mode:
//
//	echo                   copy stdin to stdout
//	env                    print the environment, one variable per line, sorted
//	say BASE64             print these bytes
//	err BASE64 N           print these bytes on stderr, exit N
//	exit N                 exit N
//	kill N                 die of signal N
//	hang                   print a line, then nothing
//	partial                print half a line, then nothing
//	mute                   print nothing and stay; with stubborn, ignoring signals
//	stubborn               like hang, ignoring every polite signal
//	stop                   like hang, stopped by SIGSTOP
//	tick                   print a line every 20 ms, forever
//	line N                 print a line of N bytes, then the line "after"
//	flood N stdout|stderr  print N bytes in lines; 0 is forever
//	daemon OPTION…         leave a process behind in its own session whose
//	                       parent is gone and that ignores polite signals, print
//	                       its id. Options: keep (it keeps the pipes), clear (its
//	                       environment is empty), flood (it writes forever),
//	                       quiet (its id is not printed), stay (the agent stays
//	                       too), headless (its first thread ends)
//	brood N                leave N processes like daemon clear behind, print
//	                       their ids
func Fake(mode string, args ...string) []string {
	self, err := os.Executable()
	if err != nil {
		panic(err) // there is no test binary to test with
	}
	return append([]string{self, fakeArg, mode}, args...)
}

// Base64 encodes those arguments of Fake that are bytes.
func Base64(b []byte) string { return base64.StdEncoding.EncodeToString(b) }

// fake is the fake agent. It returns the exit code.
func fake(mode string, args []string) int {
	arg := func(i int) string {
		if i < len(args) {
			return args[i]
		}
		return ""
	}
	number := func(i int) int {
		n, _ := strconv.Atoi(arg(i))
		return n
	}
	switch mode {
	case "hang", "partial", "mute", "stubborn", "stop":
		stay(mode, arg(0))
	case "echo":
		io.Copy(os.Stdout, os.Stdin)
	case "env":
		env := os.Environ()
		slices.Sort(env)
		fmt.Println(strings.Join(env, "\n"))
	case "say", "err":
		b, err := base64.StdEncoding.DecodeString(arg(0))
		if err != nil {
			return 99
		}
		if mode == "say" {
			os.Stdout.Write(b)
		} else {
			os.Stderr.Write(b)
		}
		return number(1)
	case "exit":
		return number(0)
	case "kill":
		syscall.Kill(os.Getpid(), syscall.Signal(number(0)))
		rest()
	case "tick":
		for i := range int(lifetime / (20 * time.Millisecond)) {
			fmt.Println("tick", i)
			time.Sleep(20 * time.Millisecond)
		}
	case "line":
		longLine(number(0))
	case "flood":
		flood(number(0), arg(1) == "stderr")
	case "daemon":
		leave(args, 1)
		if slices.Contains(args, "stay") {
			rest()
		}
	case "brood":
		brood(number(0))
	case "between":
		// The daemon's parent, which exits immediately.
		between(args)
	case "daemon-self":
		deaf()
		fmt.Fprintln(os.NewFile(3, "pid"), os.Getpid())
		if arg(0) == "flood" {
			flood(0, false)
		}
		if arg(0) == "headless" {
			behead()
		}
		rest()
	default:
		return 98
	}
	return 0
}

// stay prints what mode prints and does not return.
func stay(mode, option string) {
	if mode == "stubborn" || option == "stubborn" {
		deaf()
	}
	switch mode {
	case "mute":
	case "partial":
		fmt.Print("half a li")
	default:
		fmt.Println("ready")
	}
	if mode == "stop" {
		syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	}
	rest()
}

func longLine(n int) {
	block := []byte(strings.Repeat("x", 1<<20))
	for left := n; left > 0; left -= len(block) {
		block = block[:min(len(block), left)]
		os.Stdout.Write(block)
	}
	fmt.Print("\nafter\n")
}

// lifetime limits a fake agent that a failed test left running.
const lifetime = time.Minute

// rest sleeps for the lifetime and exits.
func rest() {
	time.Sleep(lifetime)
	os.Exit(97)
}

// behead ends the first thread of the process, which then looks dead, while the others keep running.
func behead() {
	for range 100 { // until one of them is on that thread
		go func() {
			runtime.LockOSThread()
			if tid, _, _ := syscall.RawSyscall(syscall.SYS_GETTID, 0, 0, 0); int(tid) == os.Getpid() {
				syscall.RawSyscall(syscall.SYS_EXIT, 0, 0, 0)
			}
			time.Sleep(lifetime)
		}()
	}
}

func deaf() {
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE)
}

func flood(n int, stderr bool) {
	to := os.Stdout
	if stderr {
		to = os.Stderr
	}
	block := []byte(strings.Repeat(strings.Repeat("y", 127)+"\n", 512))
	end := time.Now().Add(lifetime)
	for left := n; n == 0 && time.Now().Before(end) || left > 0; left -= len(block) {
		if n > 0 {
			block = block[:min(len(block), left)]
		}
		if _, err := to.Write(block); err != nil && n > 0 {
			os.Exit(96)
		}
	}
}

// leave leaves n daemons behind, prints their ids, and returns once they run and
// their parents are gone.
func leave(options []string, n int) {
	for range n {
		r, w, err := os.Pipe()
		if err != nil {
			os.Exit(95)
		}
		c := exec.Command(os.Args[0], append([]string{fakeArg, "between"}, options...)...)
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		c.ExtraFiles = []*os.File{w}
		if slices.Contains(options, "clear") {
			c.Env = []string{}
		}
		if slices.Contains(options, "keep") || slices.Contains(options, "flood") {
			c.Stdout, c.Stderr = os.Stdout, os.Stderr
		}
		if err := c.Run(); err != nil {
			os.Exit(95)
		}
		w.Close()
		line, err := bufio.NewReader(r).ReadString('\n')
		if err != nil {
			os.Exit(95)
		}
		r.Close()
		if !slices.Contains(options, "quiet") {
			fmt.Print(line)
		}
	}
}

// brood leaves n sleeping daemons behind. They are not Go programs, so that many
// of them start fast even under the race detector.
func brood(n int) {
	const one = `trap "" INT TERM HUP; sleep 60 >/dev/null 2>&1 & echo $!`
	c := exec.Command("sh", "-c", `i=0; while [ $i -lt $1 ]; do env -i setsid sh -c "$2"; i=$((i+1)); done`,
		"sh", strconv.Itoa(n), one)
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	if err := c.Run(); err != nil {
		os.Exit(95)
	}
}

// between is the process between the agent and the daemon.
func between(options []string) {
	args := []string{fakeArg, "daemon-self"}
	for _, o := range []string{"flood", "headless"} {
		if slices.Contains(options, o) {
			args = append(args, o)
		}
	}
	c := exec.Command(os.Args[0], args...)
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	c.ExtraFiles = []*os.File{os.NewFile(3, "pid")}
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	if err := c.Start(); err != nil {
		os.Exit(95)
	}
}
