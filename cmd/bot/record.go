package main

import (
	"fmt"
	"io"
	"net/url"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/bottest/recording"
	"github.com/planbot-go/planbot/bottest/scenario"
	"github.com/planbot-go/planbot/models"
)

// record begins a recording in that folder, and says so; "": there is none. The log is
// made one that turns can be told apart by.
func (c *config) record(dir string, out io.Writer, log *zerolog.Logger) (stop func(), err error) {
	if dir == "" {
		return func() {}, nil
	}
	if log.GetLevel() == zerolog.Disabled { // of such a one contexts know nothing
		*log = zerolog.New(io.Discard)
	}
	c.recorder, err = recording.New(recording.Config{
		Dir: dir, Secrets: c.secrets(), Log: *log,
		Options: scenario.Options{MaxSteps: c.limits.steps, MaxSameCalls: c.limits.same, Approval: c.limits.approval},
	})
	if err != nil {
		return nil, usageError{fmt.Errorf("--record: %w", err)}
	}
	log.Warn().Str("dir", dir).Msg("THIS BOT IS RECORDED: what people say to it, what models answer and what it does is written to files")
	if !jsonLog(out, *c) {
		fmt.Fprintf(out, "RECORDING: what people say to this bot, what models answer and what it does is written to %s.\n"+
			"Names, ids and secrets get stand-ins, as far as they are found. Tell people, and look before you share a file.\n\n", dir)
	}
	return c.recorder.Close, nil
}

// recorded is the model, seen by the recording if there is one.
func (c *config) recorded(model models.Model) models.Model {
	if c.recorder == nil {
		return model
	}
	return c.recorder.Model(model)
}

// secrets are the settings that nobody may see.
func (s *settings) secrets() []string {
	all := []string{s.AppPassword, s.CertPassword, s.OpenAIKey, s.AzureKey, s.FallbackKey}
	for _, address := range []string{s.RedisURL, s.OpenAIBaseURL, s.FallbackBaseURL} {
		if u, err := url.Parse(address); err == nil && u.User != nil {
			password, _ := u.User.Password()
			all = append(all, password)
		}
	}
	for _, pair := range pairs(&faults{}, "", s.OTelHeaders, true) {
		all = append(all, pair[1])
	}
	return all
}
