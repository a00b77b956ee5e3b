package app

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
		Options:  scenario.Options{MaxSteps: c.limits.steps, MaxSameCalls: c.limits.same, Approval: c.limits.approval},
		Settings: c.unsaid(), Same: c.ofPrompt(), FilteredText: c.FilteredText, Planner: c.otherPlanner(),
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

// otherPlanner is the planner, unless it is the one that scenarios are played with.
func (c *config) otherPlanner() string {
	if c.Planner == sequencePlanner {
		return ""
	}
	return c.Planner
}

// unsaid are the settings that change what the bot does and that no scenario can have.
func (s *settings) unsaid() []string {
	return those([][2]string{
		{"BOT_APPROVERS", s.Approvers},
		{"BOT_APPROVAL_TIMEOUT", s.ApprovalTimeout},
		{"BOT_ALLOWED_TENANTS", s.AllowedTenants},
		{"BOT_ALLOWED_USERS", s.AllowedUsers},
		{"BOT_ALLOWED_CHANNELS", s.AllowedChannels},
		{"BOT_MAX_TURN_TOKENS", s.MaxTurnTokens},
		{"BOT_MAX_TURN_COST", s.MaxTurnCost},
		{"BOT_TURN_TIMEOUT", s.TurnTimeout},
	})
}

// ofPrompt are the settings of which prompts and actions come, and with which bot test plays.
func (s *settings) ofPrompt() []string {
	return those([][2]string{
		{"BOT_PROMPTS_DIR", s.PromptsDir},
		{"BOT_SKILLS_DIR", s.SkillsDir},
		{"BOT_SKILLS_APPROVAL", s.SkillsApproval},
	})
}

// those are the names of the settings that have a value.
func those(settings [][2]string) (names []string) {
	for _, one := range settings {
		if one[1] != "" {
			names = append(names, one[0])
		}
	}
	return names
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
