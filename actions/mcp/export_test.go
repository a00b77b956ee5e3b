package mcp

import (
	"context"
	"net"
)

// DialWith has the connection reach its server over the dialer, as in a bubble of testing/synctest.
func (c *Connection) DialWith(dial func(ctx context.Context, network, addr string) (net.Conn, error)) {
	c.base.Proxy, c.base.DialContext = nil, dial
}
