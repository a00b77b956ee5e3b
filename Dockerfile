# syntax=docker/dockerfile:1

# Runs on the builder's platform and cross-compiles: Go needs no emulation.
FROM --platform=$BUILDPLATFORM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY . .
ARG TARGETOS
ARG TARGETARCH
# For `bot version`, such as --build-arg VERSION=$(git describe --tags --always): what the build info
# says of a commit is not here, for want of .git.
ARG VERSION=
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH \
    go build -trimpath -ldflags "-s -w -X github.com/planbot-go/planbot/app.version=$VERSION" -o /out/bot ./cmd/bot

# With --target minimal: the binary, certificates and time zones. No shell, no package manager, no
# base image. Scripts of skills find no interpreter there.
FROM scratch AS minimal
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /usr/share/zoneinfo /usr/share/zoneinfo
COPY --from=build /out/bot /bot
# A number, so that Kubernetes can see that it is not root.
USER 65532:65532
EXPOSE 3978
# /readyz of the bot, asked with the settings of the container: Redis is reachable, the bot is not draining.
HEALTHCHECK --interval=10s --timeout=4s --start-period=10s --retries=3 CMD ["/bot", "healthcheck"]
# Docker's SIGTERM lets running turns finish: allow more time than BOT_DRAIN_TIMEOUT (20s).
ENTRYPOINT ["/bot"]

# The default: the same with what scripts of skills need, python3 and a sandbox. Under Docker's default
# seccomp profile bubblewrap cannot make namespaces. There scripts run under Landlock (Linux 6.12 or
# later on the host) or not at all. `/bot doctor` says which, once BOT_SKILLS_DIR is set.
FROM debian:bookworm-slim
RUN apt-get update \
    && apt-get install -y --no-install-recommends bubblewrap ca-certificates python3 tzdata \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /out/bot /bot
USER 65532:65532
EXPOSE 3978
HEALTHCHECK --interval=10s --timeout=4s --start-period=10s --retries=3 CMD ["/bot", "healthcheck"]
ENTRYPOINT ["/bot"]
