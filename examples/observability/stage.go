package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/slicewire/slicewire/balancer/health"
	"github.com/slicewire/slicewire/sdk"
)

const debugPath = "/debug/slicewire/"

// stage is everything that runs.
type stage struct {
	settings settings
	servers  *servers
	meters   *sdkmetric.MeterProvider
	probes   *health.Registry
	client   *sdk.Client
	load     *load
	listener net.Listener
	web      *http.Server
	scraper  scraper

	happened int     // faults
	problems []error // what was not seen of them

	// What faults keep between their steps.
	streams []func()
	job     *job
	version int
}

func newStage(ctx context.Context, s settings) (st *stage, err error) {
	st = &stage{settings: s}
	defer func() {
		if err != nil {
			st.close()
		}
	}()
	if st.servers, err = startServers(); err != nil {
		return st, err
	}
	// This is all that it takes to have metrics in Prometheus: its exporter is a reader
	// of OpenTelemetry's provider.
	registry := prometheus.NewRegistry()
	exporter, err := otelprom.New(otelprom.WithRegisterer(registry))
	if err != nil {
		return st, err
	}
	st.meters = sdkmetric.NewMeterProvider(sdkmetric.WithReader(exporter))
	if st.probes, err = newProbes(); err != nil {
		return st, err
	}
	logger := slog.New(slog.DiscardHandler)
	if s.log {
		logger = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	if st.client, err = dial(st.servers, st.meters, st.probes, logger); err != nil {
		return st, err
	}
	if st.listener, err = net.Listen("tcp", s.listen); err != nil {
		return st, err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.Handle(debugPath, st.client.DebugHandler())
	mux.HandleFunc("GET /{$}", st.index)
	st.web = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = st.web.Serve(st.listener) }() // until close
	st.scraper = scraper{url: st.url() + "/metrics", seen: make(map[string]bool)}
	st.load = startLoad(ctx, st.client)
	return st, st.scraper.read(ctx)
}

func (st *stage) url() string { return "http://" + st.listener.Addr().String() }

// places is where to look.
func (st *stage) places() []string {
	return []string{
		"metrics      " + st.url() + "/metrics, for a Prometheus that scrapes every second",
		"debug pages  " + st.url() + debugPath + ", where a key goes among them",
	}
}

// index says where to look to somebody who typed the address alone.
func (st *stage) index(w http.ResponseWriter, _ *http.Request) {
	for _, line := range st.places() {
		_, _ = fmt.Fprintln(w, line)
	}
}

func (st *stage) close() {
	st.endJob()
	if st.load != nil {
		st.load.stop()
	}
	st.endStreams(0)
	if st.client != nil {
		_ = st.client.Close()
	}
	if st.probes != nil {
		st.probes.Close()
	}
	if st.web != nil {
		_ = st.web.Close()
	}
	if st.meters != nil {
		_ = st.meters.Shutdown(context.Background())
	}
	if st.servers != nil {
		st.servers.close()
	}
}
