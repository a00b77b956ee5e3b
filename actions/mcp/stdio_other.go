//go:build !unix

package mcp

import "os/exec"

func ownGroup(*exec.Cmd) {}

func terminateGroup(cmd *exec.Cmd) error { return killGroup(cmd) }

func killGroup(cmd *exec.Cmd) error { return cmd.Process.Kill() }
