package main

import (
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// floorBytes is roughly what one step adds to the record.
const floorBytes = 3 << 10

// A floor appends to a file: one write and one fdatasync for all waiting appends.
type floor struct {
	file  *os.File
	queue chan chan error
}

func newFloor(dir string) (*floor, error) {
	f, err := os.Create(filepath.Join(dir, "floor"))
	if err != nil {
		return nil, err
	}
	fl := &floor{file: f, queue: make(chan chan error, 64)}
	go fl.loop()
	return fl, nil
}

func (f *floor) loop() {
	record := make([]byte, floorBytes)
	for first := range f.queue {
		waiting := []chan error{first}
		buf := append([]byte(nil), record...)
		for len(f.queue) > 0 {
			waiting = append(waiting, <-f.queue)
			buf = append(buf, record...)
		}
		_, err := f.file.Write(buf)
		if err == nil {
			err = syscall.Fdatasync(int(f.file.Fd()))
		}
		for _, w := range waiting {
			w <- err
		}
	}
}

func (f *floor) append(int) error {
	done := make(chan error, 1)
	f.queue <- done
	return <-done
}

func (f *floor) close() {
	close(f.queue)
	f.file.Close()
	os.Remove(f.file.Name())
}

// A speed is the rate of an operation, as medians of the rounds.
type speed struct {
	perSecond, ratio float64 // ratio: to the floor
	floor            float64 // appends per second
	cpu              float64 // µs of processor time per operation, in the whole process
}

// against measures do in rounds, each between two measurements of the floor.
func (b *bench) against(writers int, do func(writer int) error) (speed, error) {
	f, err := newFloor(b.dir)
	if err != nil {
		return speed{}, err
	}
	defer f.close()
	if _, err := rate(writers, b.slice/4, do); err != nil { // warm up
		return speed{}, err
	}
	var rates, ratios, floors, cpus []float64
	for range b.rounds {
		before, err1 := rate(writers, b.slice/2, f.append)
		begun := processor()
		got, err2 := rate(writers, b.slice, do)
		used := processor() - begun
		after, err3 := rate(writers, b.slice/2, f.append)
		for _, err := range []error{err1, err2, err3} {
			if err != nil {
				return speed{}, err
			}
		}
		base := (before + after) / 2
		rates, ratios, floors = append(rates, got), append(ratios, got/base), append(floors, base)
		cpus = append(cpus, float64(used.Microseconds())/(got*b.slice.Seconds()))
	}
	return speed{median(rates), median(ratios), median(floors), median(cpus)}, nil
}

// processor is the processor time that this process has used.
func processor() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}
