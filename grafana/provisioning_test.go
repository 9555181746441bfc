package main

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

type compose struct {
	Services map[string]struct {
		Image       string
		Command     []string
		Environment map[string]string
		Volumes     []string
		Ports       []string
		ExtraHosts  []string `yaml:"extra_hosts"`
		DependsOn   []string `yaml:"depends_on"`
	}
}

// inside is where a file of this directory is in a service's container, "" where it is not.
func (c *compose) inside(service, file string) string {
	for _, v := range c.Services[service].Volumes {
		here, there, _ := strings.Cut(v, ":")
		there, _, _ = strings.Cut(there, ":")
		if rel, err := filepath.Rel(here, file); err == nil && !strings.HasPrefix(rel, "..") {
			return filepath.ToSlash(filepath.Join(there, rel))
		}
	}
	return ""
}

// TestComposeFitsTogether: what it mounts is here, each program finds its files where it
// looks, and Grafana finds Prometheus. Engines are not needed to see that.
func TestComposeFitsTogether(t *testing.T) {
	var c compose
	parse(t, "compose.yml", &c)
	for name, s := range c.Services {
		if i := strings.LastIndex(s.Image, ":"); i < 0 || s.Image[i:] == ":latest" {
			t.Errorf("service %s: image %s has no version", name, s.Image)
		}
		for _, v := range s.Volumes {
			parts := strings.Split(v, ":")
			if info, err := os.Stat(parts[0]); err != nil || !info.IsDir() || len(parts) != 3 || parts[2] != "ro" {
				t.Errorf("service %s: volume %s is no directory of ours, read-only (%v)", name, v, err)
			}
		}
		for _, p := range s.Ports {
			if !strings.HasPrefix(p, "127.0.0.1:") {
				t.Errorf("service %s: port %s is open to the network", name, p)
			}
		}
		for _, d := range s.DependsOn {
			if _, ok := c.Services[d]; !ok {
				t.Errorf("service %s depends on %s, which is not there", name, d)
			}
		}
	}
	if got, want := strings.Join(c.Services["prometheus"].Command, " "), "--config.file="+c.inside("prometheus", "prometheus/prometheus.yml"); got != want {
		t.Errorf("Prometheus is started with %q, want %q", got, want)
	}

	var scraper struct {
		Global struct {
			ScrapeInterval     string `yaml:"scrape_interval"`
			EvaluationInterval string `yaml:"evaluation_interval"`
		}
		RuleFiles     []string `yaml:"rule_files"`
		ScrapeConfigs []struct {
			JobName       string                       `yaml:"job_name"`
			StaticConfigs []struct{ Targets []string } `yaml:"static_configs"`
		} `yaml:"scrape_configs"`
	}
	parse(t, "prometheus/prometheus.yml", &scraper)
	for _, file := range scraper.RuleFiles {
		if _, err := os.Stat(filepath.Join("prometheus", file)); err != nil {
			t.Errorf("prometheus.yml: %v", err)
		}
	}
	host, _, _ := strings.Cut(scraper.ScrapeConfigs[0].StaticConfigs[0].Targets[0], ":")
	if extra := c.Services["prometheus"].ExtraHosts; len(extra) != 1 || extra[0] != host+":host-gateway" {
		t.Errorf("Prometheus scrapes %s; its container knows the hosts %q", host, extra)
	}

	var sources struct {
		APIVersion  int `yaml:"apiVersion"`
		Datasources []struct {
			Name, UID, Type, Access, URL string
			IsDefault                    bool           `yaml:"isDefault"`
			JSONData                     map[string]any `yaml:"jsonData"`
		}
	}
	parse(t, "provisioning/datasources/slicewire.yml", &sources)
	if len(sources.Datasources) != 1 {
		t.Fatalf("there are %d data sources, want 1", len(sources.Datasources))
	}
	s := sources.Datasources[0]
	at, err := url.Parse(s.URL)
	if err != nil || s.UID != datasourceUID || s.Type != "prometheus" || c.Services[at.Hostname()].Image == "" {
		t.Errorf("data source %+v is not the Prometheus of compose.yml with the uid of the dashboards, %s (%v)", s, datasourceUID, err)
	}
	if len(c.Services["prometheus"].Ports) != 1 || !strings.HasSuffix(c.Services["prometheus"].Ports[0], ":"+at.Port()) {
		t.Errorf("the data source asks port %s; Prometheus has %q", at.Port(), c.Services["prometheus"].Ports)
	}
	if s.JSONData["timeInterval"] != scraper.Global.ScrapeInterval {
		t.Errorf("the data source thinks that scrapes are %v apart; they are %s", s.JSONData["timeInterval"], scraper.Global.ScrapeInterval)
	}

	var providers struct {
		APIVersion int `yaml:"apiVersion"`
		Providers  []struct {
			Name, Type, Folder string
			AllowUIUpdates     bool `yaml:"allowUiUpdates"`
			Options            struct{ Path string }
		}
	}
	parse(t, "provisioning/dashboards/slicewire.yml", &providers)
	if want := c.inside("grafana", "dashboards"); len(providers.Providers) != 1 || providers.Providers[0].Options.Path != want {
		t.Errorf("Grafana looks for dashboards in %+v; they are in %s", providers.Providers, want)
	}
	if got := c.inside("grafana", "provisioning"); got != "/etc/grafana/provisioning" {
		t.Errorf("Grafana's provisioning files are in %q, where it does not look", got)
	}
}
