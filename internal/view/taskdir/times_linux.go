package taskdir

import "syscall"

// times returns when a file's bytes and its inode were last changed.
func times(st *syscall.Stat_t) (mtime, ctime syscall.Timespec) { return st.Mtim, st.Ctim }
