package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// server is a Prometheus on loopback that scrapes one address each half second, with the
// alerts of prometheus/alerts.yml.
type server struct {
	base string
	http http.Client
}

// serve starts one, and stops it when the test ends.
func serve(t *testing.T, metricsAddress string) *server {
	t.Helper()
	at, err := url.Parse(metricsAddress)
	if err != nil || at.Host == "" {
		t.Fatalf("-metrics: %q is not the URL of a metrics page, like http://localhost:9464/metrics (%v)", metricsAddress, err)
	}
	rules, err := filepath.Abs("prometheus/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	config := filepath.Join(dir, "prometheus.yml")
	text := fmt.Sprintf(`
global: {scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 1s}
rule_files: [%q]
scrape_configs:
  - job_name: slicewire
    scheme: %q
    metrics_path: %q
    static_configs: [{targets: [%q]}]
`, rules, at.Scheme, at.Path, at.Host)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &server{base: "http://" + freeAddress(t)}
	t.Cleanup(s.http.CloseIdleConnections)
	var log bytes.Buffer
	process := exec.Command(tool(t, "prometheus"), "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+s.base[len("http://"):], "--log.level=warn")
	process.Stdout, process.Stderr = &log, &log
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- process.Wait() }()
	t.Cleanup(func() {
		_ = process.Process.Signal(syscall.SIGTERM) // an error: it has ended
		if err := <-ended; err != nil || t.Failed() {
			t.Logf("Prometheus ended (%v) and wrote:\n%s", err, log.String())
		}
	})
	eventually(t, "Prometheus is ready", func() error {
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("Prometheus ended: %v", err)
		default:
		}
		response, err := s.http.Get(s.base + "/-/ready")
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("it says %s", response.Status)
		}
		return nil
	})
	return s
}

// freeAddress is one on loopback that nobody listened on a moment ago.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// ask reads what the HTTP API has at a path.
func (s *server) ask(path string, values url.Values, into any) error {
	response, err := s.http.Get(s.base + path + "?" + values.Encode())
	if err != nil {
		return err
	}
	defer response.Body.Close()
	var answer struct {
		Error string
		Data  json.RawMessage
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return fmt.Errorf("%s: %s: %w", path, response.Status, err)
	}
	if answer.Error != "" {
		return fmt.Errorf("%s?%s: %s", path, values.Encode(), answer.Error)
	}
	return json.Unmarshal(answer.Data, into)
}

// sample is one series of a query's result.
type sample struct {
	Metric map[string]string
	Value  [2]any // when, and the value as text
}

func (s sample) float() float64 {
	text, _ := s.Value[1].(string)
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		panic(fmt.Sprintf("Prometheus answers a value %q: %v", s.Value[1], err))
	}
	return f
}

// query is a query's result now.
func (s *server) query(expr string) ([]sample, error) {
	var result struct {
		Result []sample
	}
	err := s.ask("/api/v1/query", url.Values{"query": {expr}}, &result)
	return result.Result, err
}

// eventually tries until there is no error, or -patience is at an end.
func eventually(t *testing.T, what string, try func() error) {
	t.Helper()
	deadline := time.Now().Add(*patience)
	for {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("after %v it is not so that %s: %v", *patience, what, err)
			return
		}
		time.Sleep(200 * time.Millisecond) // between two tries
	}
}
