//go:build unix && !linux

package dev

import "syscall"

// apart keeps Ctrl-C from a child, which its parent stops.
func apart() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
