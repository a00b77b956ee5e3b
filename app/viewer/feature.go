package viewer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/app/internal/turnview"
	"github.com/planbot-go/planbot/bot/heads"
	"github.com/planbot-go/planbot/internal/loopback"
	"github.com/planbot-go/planbot/state/inbox"
)

type settings struct {
	Addr   string `env:"BOT_VIEWER_ADDR" else:"no viewer" help:"host:port of the pages where operators look at turns; only loopback without the other viewer settings"`
	URL    string `env:"BOT_VIEWER_URL" url:"https" needs:"BOT_VIEWER_ADDR" else:"none" help:"where browsers reach the viewer, such as https://turns.example.com; its redirect address in Entra is that plus /signed-in"`
	Tenant string `env:"BOT_VIEWER_TENANT_ID" needs:"BOT_VIEWER_ADDR" else:"none" help:"id of the tenant whose people may sign in to the viewer"`
	Client string `env:"BOT_VIEWER_CLIENT_ID" needs:"BOT_VIEWER_ADDR" else:"none" help:"app registration of the viewer, with the app roles Turns.Read, Turns.Content and Turns.Act"`
	Secret string `env:"BOT_VIEWER_CLIENT_SECRET" secret:"true" needs:"BOT_VIEWER_ADDR" else:"none" help:"client secret of that app registration"`
}

// Feature serves the viewer at BOT_VIEWER_ADDR.
func Feature() app.Feature {
	s := &settings{}
	return app.Feature{Name: "viewer", Settings: s, Check: s.check, Serve: s.serve}
}

var isGUID = regexp.MustCompile(`^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$`)

// check: operators sign in, unless only this machine reaches the viewer.
func (s *settings) check(v app.Values) error {
	if s.Addr == "" {
		return nil
	}
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	host, port, err := net.SplitHostPort(s.Addr)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		fault("BOT_VIEWER_ADDR: %q is not host:port", s.Addr)
	}
	var missing []string
	all := [][2]string{
		{"BOT_VIEWER_URL", s.URL}, {"BOT_VIEWER_TENANT_ID", s.Tenant}, {"BOT_VIEWER_CLIENT_ID", s.Client}, {"BOT_VIEWER_CLIENT_SECRET", s.Secret},
	}
	for _, one := range all {
		if one[1] == "" && !v.Faulty(one[0]) {
			missing = append(missing, one[0])
		}
	}
	local := len(missing) == len(all) && loopback.IsHost(host)
	if len(missing) > 0 && !local && err == nil {
		fault("BOT_VIEWER_ADDR: operators have to sign in, unless it is on loopback and none of its other settings is there: set %s", strings.Join(missing, ", "))
	}
	if s.Tenant != "" && !isGUID.MatchString(s.Tenant) {
		fault("BOT_VIEWER_TENANT_ID: is no GUID: the viewer is for one tenant, by its id")
	}
	if u, err := url.Parse(s.URL); err == nil && strings.Trim(u.Path, "/") != "" {
		fault("BOT_VIEWER_URL: has a path; the viewer has a host of its own")
	}
	if v.Text("BOT_LOG_LEVEL") == "disabled" {
		fault("BOT_VIEWER_ADDR: contradicts BOT_LOG_LEVEL=disabled: the log has who looked at what")
	}
	for _, other := range [][2]string{{"BOT_ADDR, PORT", v.Listen()}, {"BOT_METRICS_ADDR", v.Text("BOT_METRICS_ADDR")}} {
		_, taken, err := net.SplitHostPort(other[1])
		if err == nil && taken == port && port != "0" {
			fault("BOT_VIEWER_ADDR: %s has the same port as %s", s.Addr, other[0])
		}
	}
	return errors.Join(faults...)
}

// serve serves the viewer until the program ends.
func (s *settings) serve(ctx context.Context, p *app.Program) error {
	if s.Addr == "" {
		return nil
	}
	store := p.Bot().Store()
	in, err := p.OpenInbox(ctx)
	if err != nil {
		return err
	}
	cfg := Config{
		Bot:   p.Described().Name,
		Store: store,
		Inbox: in,
		Log:   *p.Log(),
		ID:    turnview.ID,
		Head: func(ctx context.Context, id string) ([][2]string, error) {
			head, err := heads.Read(ctx, store, id)
			if err != nil {
				return nil, err
			}
			return turnview.HeadRows(head), nil
		},
		Dead: func(w inbox.Waiting, content bool) [][2]string { return turnview.ReadDead(w, content).Rows() },
	}
	if s.URL != "" {
		cfg.SignIn = &SignIn{LoginURL: p.Settings().Login(), Tenant: s.Tenant, ClientID: s.Client, ClientSecret: s.Secret, URL: s.URL}
	}
	made, err := New(cfg)
	if err != nil {
		return app.Usage(fmt.Errorf("BOT_VIEWER_ADDR: %w", err))
	}
	p.OnClose(made.Close)
	addr, err := p.ServeBeside(ctx, s.Addr, "BOT_VIEWER_ADDR", "the viewer", made)
	if err != nil {
		return err
	}
	p.Log().Info().Str("url", "http://"+addr.String()+"/").Bool("sign_in", cfg.SignIn != nil).Msg("serving the viewer")
	return nil
}
