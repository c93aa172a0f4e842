package pgtest

import (
	"fmt"
	"os"
	"os/exec"
	"time"
)

// wrong is a library for a server whose clock must be wrong: only the wall clock, not the one it
// waits by.
const wrong = `#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/time.h>
#include <time.h>

int clock_gettime(clockid_t id, struct timespec *ts) {
	static int (*real)(clockid_t, struct timespec *);
	if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
	int r = real(id, ts);
	if (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE) ts->tv_sec += AHEAD;
	return r;
}

int gettimeofday(struct timeval *tv, void *zone) {
	struct timespec ts;
	int r = clock_gettime(CLOCK_REALTIME, &ts);
	if (tv) { tv->tv_sec = ts.tv_sec; tv->tv_usec = ts.tv_nsec / 1000; }
	return r;
}

time_t time(time_t *at) {
	struct timespec ts;
	clock_gettime(CLOCK_REALTIME, &ts);
	if (at) *at = ts.tv_sec;
	return ts.tv_sec;
}
`

// wrongClock builds the library, and returns its path.
func (s *Server) wrongClock() (string, error) {
	source, library := s.dir+".c", s.dir+".so"
	if err := os.WriteFile(source, []byte(wrong), 0o600); err != nil {
		return "", err
	}
	ahead := fmt.Sprintf("-DAHEAD=(%d)", int64(s.config.Clock/time.Second))
	if out, err := exec.Command("gcc", "-shared", "-fPIC", "-O", ahead, "-o", library, source,
		"-ldl").CombinedOutput(); err != nil {
		return "", fmt.Errorf("make a wrong clock: %w: %s", err, out)
	}
	return library, s.shop.give(library)
}
