//go:build !linux || !(amd64 || arm64)

package sandbox

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
)

const (
	nonblock    = 0
	overCPU     = -2 // no exit code
	overDisk    = -3
	overSockets = -4
)

func newBackend(Kind, Config) (backend, error) {
	return nil, errors.New("works on Linux only, on amd64 and arm64")
}

func claimFolder(string) (io.Closer, error) { return nil, errors.ErrUnsupported }

func (c Config) owns(fs.FileInfo) bool { return false }

func exitCode(state *os.ProcessState) int { return state.ExitCode() }

func endFirst(string) {}

func stored(info fs.FileInfo) int64 { return info.Size() }

// sendCanary is never called: there is no backend.
func (s *Sandbox) sendCanary(context.Context) error { return errors.ErrUnsupported }
