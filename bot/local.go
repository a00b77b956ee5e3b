package bot

import (
	"fmt"
	"net"
	"net/http"

	"github.com/planbot-go/planbot/connector"
	"github.com/planbot-go/planbot/state"
)

// fillIn makes the parts that a bot on its own machine needs and cfg does not
// have. They are closed when the bot was drained.
func (b *Bot) fillIn() error {
	if b.cfg.Store == nil {
		store, err := state.OpenEmbedded(state.Config{})
		if err != nil {
			return fmt.Errorf("bot without a Store: %w", err)
		}
		b.cfg.Store = store
		b.ends = append(b.ends, func() { _ = store.Close() }) // what it kept is gone either way
	}
	if b.cfg.Door == nil {
		door, client, err := local()
		if err != nil {
			return fmt.Errorf("bot without a Door: %w", err)
		}
		b.cfg.Door, b.cfg.Channel, b.local = door, client, true
		b.ends = append(b.ends, client.Close)
	}
	return nil
}

// local is the door and the way out of a bot without an app id, which talks with
// programs on this machine only.
func local() (Door, *connector.Client, error) {
	cloud, err := connector.CloudNamed("public")
	if err != nil {
		return nil, nil, err
	}
	hosts, err := connector.NewServiceHosts(cloud, nil, true)
	if err != nil {
		return nil, nil, err
	}
	guard, err := connector.NewGuard(connector.GuardConfig{Cloud: cloud, Hosts: hosts})
	if err != nil {
		return nil, nil, err
	}
	client, err := connector.New(connector.Config{Hosts: hosts})
	return fromHere{Guarded(guard)}, client, err
}

// fromHere lets nobody in who comes from another machine, whatever address the
// program listens on.
type fromHere struct{ Door }

func (d fromHere) Enter(r *http.Request) (Visitor, error) {
	if !overLoopback(r) {
		return nil, refuse(http.StatusForbidden, "request from another machine to a bot without a Door")
	}
	return d.Door.Enter(r)
}

func isLoopback(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}
