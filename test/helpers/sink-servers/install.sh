#!/usr/bin/env bash
# Servers that targets of sinks are tested with: NATS and an S3-compatible store (needs go), Kafka (needs mvn, and java 17 to run).
set -euo pipefail
cd "$(dirname "$0")"
export GOBIN=$PWD/bin
go install github.com/nats-io/nats-server/v2@v2.15.3
go install github.com/johannesboyne/gofakes3/cmd/gofakes3@v1.2.0
mvn -q -B dependency:copy-dependencies -DoutputDirectory=lib
