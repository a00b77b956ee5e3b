# syntax=docker/dockerfile:1

# Built on the builder's own platform and cross-compiled: Go needs no emulation.
FROM --platform=$BUILDPLATFORM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY . .
ARG TARGETOS
ARG TARGETARCH
# What `bot version` prints; a tag or a commit.
ARG VERSION=container
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH \
    go build -trimpath -ldflags "-s -w -X github.com/planbot-go/planbot/app.version=$VERSION" -o /out/bot ./cmd/bot

# With --target minimal: certificates, time zones and an unprivileged user; no shell and no package
# manager. Scripts of skills find no interpreter there.
FROM gcr.io/distroless/static-debian12 AS minimal
COPY --from=build /out/bot /bot
# A number, so that a cluster can see that it is not root.
USER 65532:65532
EXPOSE 3978
# /readyz of the bot, asked with the settings of the container: Redis is reachable, the bot is not draining.
HEALTHCHECK --interval=10s --timeout=4s --start-period=10s --retries=3 CMD ["/bot", "healthcheck"]
# SIGTERM, which Docker sends, lets running turns end: give it more than BOT_DRAIN_TIMEOUT (20s).
ENTRYPOINT ["/bot"]

# By default: the same with what scripts of skills need, interpreters and a sandbox. Docker's default
# seccomp profile keeps bubblewrap from making namespaces; there scripts run under Landlock (Linux 6.12
# or later on the host), or not at all. `/bot doctor` says which, once BOT_SKILLS_DIR is set.
FROM debian:bookworm-slim
RUN apt-get update \
    && apt-get install -y --no-install-recommends bubblewrap ca-certificates python3 tzdata \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /out/bot /bot
USER 65532:65532
EXPOSE 3978
HEALTHCHECK --interval=10s --timeout=4s --start-period=10s --retries=3 CMD ["/bot", "healthcheck"]
ENTRYPOINT ["/bot"]
