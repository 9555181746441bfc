#!/usr/bin/env bash
# Regenerates autosharding.pb.go. Needs protoc with the well-known types
# (Debian: protobuf-compiler, libprotobuf-dev); the Go plugin is a pinned tool.
set -euo pipefail
cd "$(dirname "$0")"
plugin=$(mktemp -d)
trap 'rm -r "$plugin"' EXIT
go -C ../../tools build -o "$plugin/protoc-gen-go" google.golang.org/protobuf/cmd/protoc-gen-go
protoc --plugin="$plugin/protoc-gen-go" -I ../.. \
  --go_out=../.. --go_opt=module=github.com/slicewire/slicewire \
  internal/wire/autosharding.proto
