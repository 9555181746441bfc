module github.com/slicewire/slicewire/grafana

go 1.26.7

require github.com/grafana/grafana-foundation-sdk/go v0.0.22
