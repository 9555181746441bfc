// Grafana makes the dashboards in dashboards from the table of metrics, metrics.json:
//
//	go -C grafana run . [-out DIR]
//
// Beside them stand what runs them: alert rules and the configuration of Prometheus in
// prometheus, Grafana's provisioning files, and compose.yml for both. A module of its own,
// so that users of the SDK inherit none of what it needs.
//
// Its tests hold everything to the table, and run every query in a real Prometheus. With an
// address they scrape that process, which must show every metric sooner or later:
//
//	go -C grafana test -run Scrape -metrics http://localhost:9464/metrics
package main

import (
	"flag"
	"log"
	"os"
	"path/filepath"
)

func main() {
	out := flag.String("out", "dashboards", "directory to write to")
	flag.Parse()
	for _, b := range boards {
		text, err := b.json()
		if err == nil {
			err = os.WriteFile(filepath.Join(*out, b.file()), text, 0o644)
		}
		if err != nil {
			log.Fatalf("dashboard %q: %v", b.title, err)
		}
	}
}
