package bottest

import (
	"context"
	"encoding/json"
	"net"
	"net/http"

	"github.com/planbot-go/planbot/internal/pipe"
	"github.com/planbot-go/planbot/internal/turnid"
)

// network connects the parts of a kit: in memory in a bubble, else over loopback.
type network struct {
	inMemory bool
	memory   pipe.Network
}

func (n *network) listen(ctx context.Context) (net.Listener, error) {
	if !n.inMemory {
		var lc net.ListenConfig
		return lc.Listen(ctx, "tcp", "127.0.0.1:0")
	}
	return n.memory.Listen(), nil
}

func (n *network) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if !n.inMemory {
		var d net.Dialer
		return d.DialContext(ctx, network, addr)
	}
	return n.memory.Dial(ctx, network, addr)
}

const ofHeaderName = "X-Bottest-Of"

// labelled tells the stand-ins which turn a request belongs to.
type labelled struct{ http.RoundTripper }

func (l labelled) RoundTrip(r *http.Request) (*http.Response, error) {
	label, err := json.Marshal(turnid.From(r.Context()))
	if err != nil {
		return nil, err
	}
	out := r.Clone(r.Context())
	out.Header.Set(ofHeaderName, string(label))
	return l.RoundTripper.RoundTrip(out)
}

func ofHeader(h http.Header) (of turnid.Of) {
	_ = json.Unmarshal([]byte(h.Get(ofHeaderName)), &of) // empty for a bot with its own client
	return of
}
