package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"github.com/planbot-go/planbot/app/viewer"
	"github.com/planbot-go/planbot/bot/turn"
	"github.com/planbot-go/planbot/internal/cli"
	"github.com/planbot-go/planbot/state/inbox"
)

// showTurns serves the operators' pages at BOT_VIEWER_ADDR until the program is closed.
func (p *program) showTurns(ctx context.Context) error {
	if p.ViewerAddr == "" {
		return nil
	}
	store := p.bot.Store()
	in, err := inbox.Open(store, inbox.Config{Patience: turnsPatience, Log: p.log})
	if err != nil {
		return err
	}
	p.closers = append(p.closers, in.Close)
	cfg := viewer.Config{
		Bot: p.Bot.Name, Store: store, Inbox: in, Log: p.log, ID: turnID,
		Head: func(ctx context.Context, id string) ([]viewer.Row, error) {
			head, err := turn.ReadHead(ctx, store, id)
			if err != nil {
				return nil, err
			}
			return headRows(head), nil
		},
		Dead: func(w inbox.Waiting, content bool) []viewer.Row { return readDeadLetter(w, content).rows() },
	}
	if p.ViewerURL != "" {
		cfg.SignIn = &viewer.SignIn{LoginURL: p.ViewerLogin(), Tenant: p.ViewerTenant, ClientID: p.ViewerClient, ClientSecret: p.ViewerSecret, URL: p.ViewerURL}
	}
	made, err := viewer.New(cfg)
	if err != nil {
		return cli.Usage(fmt.Errorf("BOT_VIEWER_ADDR: %w", err))
	}
	p.closers = append(p.closers, made.Close)
	listener, err := listen(ctx, p.ViewerAddr, "BOT_VIEWER_ADDR")
	if err != nil {
		return err
	}
	server := p.bot.NewServer(made)
	var served sync.WaitGroup
	served.Go(func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			p.log.Error().Err(fmt.Errorf("serve the viewer: %w", err)).Msg("the viewer stopped")
		}
	})
	p.closers = append(p.closers, func() {
		_ = server.Close() // nothing to report it to
		served.Wait()
	})
	p.log.Info().Str("url", "http://"+listener.Addr().String()+"/").Bool("sign_in", cfg.SignIn != nil).Msg("serving the viewer")
	return nil
}
