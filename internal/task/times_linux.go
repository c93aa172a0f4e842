package task

import "syscall"

// times are when a file's bytes, and what is known of it, were last changed.
func times(st *syscall.Stat_t) (mtime, ctime syscall.Timespec) { return st.Mtim, st.Ctim }
