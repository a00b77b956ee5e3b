package app

import (
	"context"
	"errors"
	"slices"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/app/page"
	"github.com/planbot-go/planbot/internal/settings"
)

// scenariosDir is where the page saves tests.
const scenariosDir = "scenarios"

// trialOf makes what plans in a what-if: of the bot's settings with something changed.
func trialOf(ctx context.Context, p *program, c page.Change) (page.Trial, error) {
	model := "OPENAI_MODEL"
	if p.AzureEndpoint != "" {
		model = "AZURE_OPENAI_DEPLOYMENT"
	}
	free := p.OpenAIKey == "" && p.OpenAIBaseURL == "" && p.AzureEndpoint == ""
	if c.Model != "" && free {
		return page.Trial{}, errors.New("the bot has no model server, so it cannot ask another model: set OPENAI_API_KEY, OPENAI_BASE_URL or AZURE_OPENAI_ENDPOINT")
	}
	var given []string
	for _, one := range [][2]string{{"BOT_PROMPTS_DIR", c.Prompts}, {model, c.Model}, {"BOT_PLANNER", c.Planner}} {
		if one[1] != "" {
			given = append(given, one[0]+"="+one[1])
		}
	}
	s, err := p.Against(given)
	if err != nil {
		return page.Trial{}, err
	}
	s.Metrics, s.PromptsReload, s.SkillsReload = nil, false, false // the bot has them
	registry := s.Actions()
	own, offers := []string{}, []actions.Offer{}
	for _, a := range registry.All() {
		own = append(own, a.Name)
		if slices.Contains(c.Actions, a.Name) {
			offers = append(offers, actions.Offer{Name: a.Name})
		}
	}
	if c.Actions != nil && len(offers) < len(own) {
		if registry, err = registry.Only(offers...); err != nil {
			return page.Trial{Own: own}, err
		}
	}
	maker, err := s.NewPlanner(ctx, registry, p.sandbox, settings.Watch{Planner: c.Watch})
	if err != nil {
		return page.Trial{Own: own}, err
	}
	return page.Trial{
		Planner: maker, Actions: maker.Actions, Own: own, Policy: p.policy, Model: maker.AboutModel, Free: free, Price: s.Price(), Streams: p.streams(),
	}, nil
}
