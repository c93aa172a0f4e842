package pgtest

import "errors"

func mount(dir, size string, again bool) error { return errors.New("a disk of its own: Linux only") }

func unmount(string) error { return nil }
