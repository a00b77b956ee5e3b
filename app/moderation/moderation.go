// Package moderation is a feature of a program: a service judges what people say, and what the bot is about to say and
// do.
package moderation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/models/moderation"
	"github.com/planbot-go/planbot/models/moderation/service"
)

type feature struct {
	By        string `env:"BOT_MODERATION" protects:"true" oneof:"openai,azure" else:"none" help:"openai or azure (AI Content Safety): who judges what people say and what the bot is about to say and do"`
	Key       string `env:"BOT_MODERATION_KEY" secret:"true" needs:"BOT_MODERATION" else:"for openai OPENAI_API_KEY, if neither address is set" help:"key of that service"`
	URL       string `env:"BOT_MODERATION_URL" url:"https" needs:"BOT_MODERATION" else:"for openai OpenAI's" help:"address of that service; for azure, https://NAME.cognitiveservices.azure.com"`
	Threshold string `env:"BOT_MODERATION_THRESHOLD" needs:"BOT_MODERATION" else:"for azure 4, for openai what OpenAI flags" help:"what is flagged: for azure, this severity (1 to 7) or more; for openai, also this score (above 0, up to 1) or more"`
	Shields   bool   `env:"BOT_MODERATION_SHIELDS" needs:"BOT_MODERATION" help:"true: azure also looks for attempts to command the model, in messages and in what actions read"`
	Fail      string `env:"BOT_MODERATION_FAIL" oneof:"closed,open" default:"closed" help:"what happens without a verdict: closed ends the turn, open lets the text through"`
}

// Feature has the service judge that BOT_MODERATION names.
func Feature() app.Feature {
	f := &feature{}
	return app.Feature{Name: "moderation", Settings: f, Check: f.check, Wire: f.wire}
}

func (f *feature) check(v app.Values) error {
	_, err := f.moderator(v)
	return err
}

func (f *feature) wire(_ context.Context, p *app.Program, cfg *bot.Config) error {
	m, err := f.moderator(p.Values)
	if err != nil {
		return app.Usage(err)
	}
	if m != nil {
		cfg.Moderation.Moderator, cfg.Moderation.FailOpen = m, f.Fail == "open"
	}
	return nil
}

// moderator makes what judges; nil: nothing does. The error has a line for each mistake, with its variable.
func (f *feature) moderator(v app.Values) (m moderation.Moderator, err error) {
	var faults []error
	fault := func(variable, format string, args ...any) {
		if !v.Faulty(variable) {
			faults = append(faults, fmt.Errorf(variable+": "+format, args...))
		}
	}
	switch f.By { // "": nobody
	case "azure":
		threshold, bad := strconv.Atoi(cmp.Or(f.Threshold, "4"))
		if bad != nil || threshold < 1 || threshold > 7 {
			fault("BOT_MODERATION_THRESHOLD", "%q is not a severity from 1 to 7", f.Threshold)
			threshold = 7
		}
		m, err = service.NewAzure(service.AzureConfig{URL: f.URL, Key: f.Key, Threshold: threshold, Shields: f.Shields})
	case "openai":
		threshold, bad := strconv.ParseFloat(cmp.Or(f.Threshold, "1"), 64)
		if bad != nil || !(threshold > 0 && threshold <= 1) {
			fault("BOT_MODERATION_THRESHOLD", "%q is not a score above 0 and up to 1", f.Threshold)
		}
		if f.Threshold == "" || faults != nil {
			threshold = 0
		}
		if f.Shields {
			fault("BOT_MODERATION_SHIELDS", "is for azure")
		}
		key := f.Key
		if key == "" && f.URL == "" && v.Text("OPENAI_BASE_URL") == "" { // it goes where it goes already
			key = v.Text("OPENAI_API_KEY")
		}
		m, err = service.NewOpenAI(service.OpenAIConfig{URL: f.URL, Key: key, Threshold: threshold})
	}
	if err != nil {
		_, list, _ := strings.Cut(err.Error(), " config: ")
		for line := range strings.Lines(list) {
			line = strings.TrimSpace(line)
			if text, is := strings.CutPrefix(line, "URL: "); is {
				fault("BOT_MODERATION_URL", "%s", text)
				continue
			}
			fault("BOT_MODERATION_KEY", "%s", strings.TrimPrefix(strings.Replace(line, "no Key", "is needed", 1), "Key: "))
		}
	}
	return m, errors.Join(faults...)
}
