package cli

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// fakeAgent is the program that the tests' flows run. It executes its arguments in
// order, each OP=VALUE:
//
//	log=FILE        append a line: role, attempt, pid
//	say=TEXT        print text; \n, \t, \e are as in C
//	bytes=BASE64    print bytes
//	status=S        print front matter with that status
//	flood=N         print N bytes without a line feed
//	lines=N         print N bytes in lines
//	sleep=DURATION  wait
//	hang=FILE       write our pid into FILE and hang, deaf to SIGTERM
//	daemon=FILE     start a process in its own session that hangs; write its pid into FILE
//	stay=FILE       write our pid into FILE and hang
//	begun=FILE      write our pid into FILE
//	await=FILE      wait until FILE exists
//	leave=NAME:TEXT leave an artifact
//	big=NAME:N      leave an artifact of N bytes
//	env=FILE        write our environment into FILE
//	once=FILE       exit with 1 unless FILE exists, after creating it
//	stdin=FILE      write our prompt into FILE
//	exit=N          exit
//
// It runs for a minute at most, so that no failing test leaves anything behind.
func fakeAgent() {
	time.AfterFunc(time.Minute, func() { os.Exit(99) })
	for _, arg := range os.Args[1:] {
		op, value, _ := strings.Cut(arg, "=")
		do, ok := fakeOps[op]
		if !ok {
			fmt.Fprintln(os.Stderr, "fake: no such thing:", arg)
			os.Exit(98)
		}
		if err := do(value); err != nil {
			fmt.Fprintln(os.Stderr, "fake:", err)
			os.Exit(97)
		}
	}
}

var fakeOps = map[string]func(string) error{
	"log": func(file string) error {
		f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		fmt.Fprintln(f, os.Getenv("PLAIT_ROLE"), os.Getenv("PLAIT_ATTEMPT"), os.Getpid())
		return f.Close()
	},
	"say": func(text string) error {
		_, err := os.Stdout.WriteString(strings.NewReplacer(`\n`, "\n", `\t`, "\t", `\e`, "\x1b").Replace(text))
		return err
	},
	"bytes": func(text string) error {
		b, err := base64.StdEncoding.DecodeString(text)
		if err == nil {
			_, err = os.Stdout.Write(b)
		}
		return err
	},
	"status": func(s string) error {
		_, err := fmt.Printf("---\n$status: %s\n---\n", s)
		return err
	},
	"flood": func(n string) error { return flood(n, strings.Repeat("x", 1<<16)) },
	"lines": func(n string) error { return flood(n, strings.Repeat(strings.Repeat("x", 1023)+"\n", 64)) },
	"sleep": func(d string) error {
		t, err := time.ParseDuration(d)
		time.Sleep(t)
		return err
	},
	"hang": func(file string) error {
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
		if file != "" {
			if err := writeWhole(file, strconv.Itoa(os.Getpid())); err != nil {
				return err
			}
		}
		select {} // the timer ends the process
	},
	"daemon": func(file string) error {
		cmd := exec.Command("/proc/self/exe", "hang="+file)
		cmd.Args[0] = "fake"
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := cmd.Start(); err != nil {
			return err
		}
		return fakeAwait(file)
	},
	"stay": func(file string) error {
		if err := writeWhole(file, strconv.Itoa(os.Getpid())); err != nil {
			return err
		}
		select {} // the timer ends the process
	},
	"await": fakeAwait,
	"begun": func(file string) error { return writeWhole(file, strconv.Itoa(os.Getpid())) },
	"leave": func(v string) error {
		name, text, _ := strings.Cut(v, ":")
		name = strings.ReplaceAll(name, `\e`, "\x1b")
		return os.WriteFile(os.Getenv("PLAIT_ARTIFACTS")+"/"+name, []byte(text), 0o644)
	},
	"big": func(v string) error {
		name, text, _ := strings.Cut(v, ":")
		n, err := strconv.Atoi(text)
		if err != nil {
			return err
		}
		return os.WriteFile(os.Getenv("PLAIT_ARTIFACTS")+"/"+name, []byte(strings.Repeat("b", n)), 0o644)
	},
	"env": func(file string) error { return writeWhole(file, strings.Join(os.Environ(), "\n")+"\n") },
	"stdin": func(file string) error {
		b, err := io.ReadAll(os.Stdin)
		return firstError(err, writeWhole(file, string(b)))
	},
	"once": func(file string) error {
		if _, err := os.Stat(file); err == nil {
			return nil
		}
		if err := writeWhole(file, ""); err != nil {
			return err
		}
		os.Exit(1)
		return nil
	},
	"exit": func(n string) error {
		code, err := strconv.Atoi(n)
		if err != nil {
			return err
		}
		os.Exit(code)
		return nil
	},
}

func flood(n, block string) error {
	left, err := strconv.Atoi(n)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(os.Stdout, 1<<20)
	for ; left > 0 && err == nil; left -= len(block) {
		_, err = w.WriteString(block[:min(left, len(block))])
	}
	return firstError(err, w.Flush())
}

func fakeAwait(file string) error {
	for {
		if _, err := os.Stat(file); err == nil {
			return nil
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// writeWhole makes a file appear with all its contents.
func writeWhole(file, text string) error {
	if err := os.WriteFile(file+".new", []byte(text), 0o644); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
