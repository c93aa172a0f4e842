package main

import (
	"context"
	"net/http"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/engine"
	"github.com/plait-run/plait/internal/ui/cli"
)

// scrapeWait is how long the record may take to say what waits.
const scrapeWait = 5 * time.Second

// commitBuckets are upper bounds, in seconds: from a database next door to one that is about to be given up.
var commitBuckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}

// serve returns the metrics of a worker.
func (m *metered) serve(w cli.Measured) http.Handler {
	reg := prometheus.NewRegistry()
	gauge := func(name, help string, f func() float64) {
		reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, f))
	}
	counter := func(name, help string, f func() int64) {
		reg.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help},
			func() float64 { return float64(f()) }))
	}
	count := func(of func(control.Counts) int64) func() int64 { return func() int64 { return of(w.Counts()) } }
	gauge("plait_worker_driving", "Threads that are driven now.", func() float64 { return float64(w.Counts().Driving) })
	gauge("plait_worker_unable", "Whether the worker takes no new work, because it cannot work now.", func() float64 {
		if w.Unable() != nil {
			return 1
		}
		return 0
	})
	gauge("plait_worker_draining", "Whether the worker is draining, and starts nothing new.", func() float64 {
		if w.Counts().Draining {
			return 1
		}
		return 0
	})
	counter("plait_worker_drives_total", "Number of times a thread was driven.",
		count(func(c control.Counts) int64 { return c.Drives }))
	counter("plait_worker_reconciles_total", "Number of times a task was checked.",
		count(func(c control.Counts) int64 { return c.Reconciles }))
	counter("plait_worker_failures_total", "Calls that failed because the record could not be kept.",
		count(func(c control.Counts) int64 { return c.Failed }))
	gauge("plait_worker_agents", "Agents that run now, with those that wait for a person.", func() float64 {
		return float64(m.agents())
	})
	gauge("plait_worker_slots", "Most agents that may work at once; 0: any number.", func() float64 {
		return float64(w.Slots)
	})
	counter("plait_worker_leases_lost_total", "Threads that the worker had to stop driving because it lost their lease.",
		m.lost.Load)
	counter("plait_worker_takeovers_total", "Attempts of other processes that had ended, which the worker continued.",
		m.takeovers.Load)
	gauge("plait_record_silent_seconds", "Time since the record last answered a heartbeat.", func() float64 {
		return m.silence().Seconds()
	})
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "plait_build_info",
		Help: "Always 1; the labels say what runs."}, []string{"version", "goversion"})
	build.WithLabelValues(w.Version, runtime.Version()).Set(1)
	reg.MustRegister(build, m.commits, m.failures, scraped{w})
	return promhttp.HandlerFor(reg, promhttp.HandlerOpts{MaxRequestsInFlight: 1}) // each scrape queries the record
}

// scraped are metrics that are looked up for each request. What cannot be looked up is omitted.
type scraped struct{ w cli.Measured }

var (
	waitingDesc = prometheus.NewDesc("plait_waiting_drives",
		"Threads of all tasks that wait for a worker with these labels.", []string{"labels"}, nil)
	oldestDesc = prometheus.NewDesc("plait_waiting_oldest_seconds",
		"Time since the first of them last changed.", []string{"labels"}, nil)
	givenBackDesc = prometheus.NewDesc("plait_worker_given_back_total",
		"Threads that the worker was not able to drive, by what it was about to do.", []string{"at"}, nil)
	diskDesc = prometheus.NewDesc("plait_worker_disk_free_bytes",
		"What the worker may still write to the disk of a directory.", []string{"directory"}, nil)
)

func (s scraped) Describe(out chan<- *prometheus.Desc) {
	out <- waitingDesc
	out <- oldestDesc
	out <- givenBackDesc
	out <- diskDesc
}

func (s scraped) Collect(out chan<- prometheus.Metric) {
	gauge := func(desc *prometheus.Desc, value float64, label string) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, label)
	}
	given := s.w.Counts().GivenBack
	for _, at := range []string{engine.AtWorkspace, engine.AtFiles, engine.AtAgent} { // an alert must always find a value
		out <- prometheus.MustNewConstMetric(givenBackDesc, prometheus.CounterValue, float64(given[at]), at)
	}
	for _, dir := range s.w.Dirs {
		if free, err := s.w.Free(dir); err == nil {
			gauge(diskDesc, float64(free), dir)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), scrapeWait)
	defer cancel()
	all, err := s.w.Waiting(ctx)
	if err != nil {
		return
	}
	unlabeled := false
	for _, w := range all {
		gauge(waitingDesc, float64(w.Drives), w.Needs)
		gauge(oldestDesc, w.Oldest.Seconds(), w.Needs)
		unlabeled = unlabeled || w.Needs == ""
	}
	if !unlabeled { // an alert must always find a value
		gauge(waitingDesc, 0, "")
		gauge(oldestDesc, 0, "")
	}
}
