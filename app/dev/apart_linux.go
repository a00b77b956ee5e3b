package dev

import "syscall"

// apart keeps Ctrl-C from a child, which its parent stops. It ends if the parent is killed.
func apart() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
