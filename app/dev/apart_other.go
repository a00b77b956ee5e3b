//go:build !unix

package dev

import "syscall"

// apart does nothing here: the parent stops a child.
func apart() *syscall.SysProcAttr { return nil }
